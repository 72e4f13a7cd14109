"""Random statements over random joins: pruned and unpruned answers are equal, and many of the scans prune.

The oracle reads every row with DuckDB's optimizer off.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pruner_duckdb
from tests.engines.duckdb_tables import (
    Compared,
    answer,
    indexed,
    oracle,
    write_airports,
    write_flights,
    write_tree,
)
from tests.support import profiles

SEEN: Counter[str] = Counter()


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    base = tmp_path_factory.mktemp("random")
    trees = {
        "flights": write_flights(base / "flights"),
        "airports": write_airports(base / "airports"),
        "odd": write_tree(base / "odd", {f"o{n}.parquet": odd_query(n) for n in range(6)}),
    }
    pruned = pruner_duckdb.connect({name: indexed(root) for name, root in trees.items()})
    compared = Compared(pruned, oracle(trees))
    compared.both("SET TimeZone = 'UTC'")
    return compared


def odd_query(number: int) -> str:
    """Rows with edge values: NaN, infinities, both zeros, empty and long text, NULL in every column."""
    return f"""
        SELECT k + {number} * 4 AS id, [NULL, -1, 0, 7][(k + {number}) % 4 + 1]::SMALLINT AS small,
               [NULL, 'nan', '-0.0', '0.0', '1.5', 'inf', '-inf', '2'][(k * {number}) % 8 + 1]::DOUBLE AS x,
               [NULL, '', 'a', 'ab', 'ab%', 'Ab', 'ß', repeat('z', 80)][(k + {number} * 2) % 8 + 1] AS s,
               [NULL, true, false][({number} + k) % 3 + 1] AS b,
               DATE '1969-12-30' + ({number} - k)::INTEGER AS d
        FROM (SELECT unnest(range(4))::INTEGER AS k)"""


COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
LITERALS = {
    "flights": {
        "id": ("0", "49", "50", "123", "599", "600", "-1", "77.5", "9999999999", "NULL"),
        "carrier": ("'C00a'", "'C03'", "'C05c'", "''", "'D'", "NULL"),
        "price": ("0", "62.5", "100.01", "748.75", "1e3"),
        "delay": ("0", "20.5", "60", "NULL"),
        "day": ("'2024-01-01'", "DATE '2024-01-07'", "TIMESTAMP '2024-01-05 12:00:00'", "'2025-01-01'"),
        "ts": ("'2024-01-03'", "TIMESTAMP '2024-01-04 00:30:00'", "DATE '2024-01-08'"),
        "region": ("'de'", "'fr x'", "'us'", "'x'"),
        "seen": ("TIMESTAMPTZ '2024-01-03 00:00:00+00'", "'2024-01-05 00:00:00+02'"),
    },
    "airports": {
        "flight": ("0", "45", "50", "195", "200", "1e1"),
        "name": ("'A1'", "'A10'", "'A3'"),
        "zone_no": ("0", "1", "3", "4"),
    },
    "odd": {
        "id": ("0", "5", "11", "23", "2.5"),
        "small": ("-1", "0", "7", "40000", "0.5"),
        "x": ("0", "-0.0", "1.5", "2", "1e308", "'inf'::DOUBLE"),
        "s": ("''", "'a'", "'ab'", "'ab%'", "'zz'", "'ß'"),
        "d": ("'1970-01-01'", "'1969-12-25'", "DATE '1969-12-31'"),
    },
}
KEYS = {"flights": "id", "airports": "flight", "odd": "id"}
TEXT = {"flights": "carrier", "airports": "name", "odd": "s"}
PATTERNS = ("'C0%'", "'C03%'", "'A1_'", "'%a'", "'ab%'", "'ab\\%'", "'z%'", "''", "'%'")


@st.composite
def conditions(draw: st.DrawFn, tables: tuple[tuple[str, str], ...], depth: int = 2) -> str:
    """A condition over the columns of some (table, alias) pairs."""
    if depth and draw(st.integers(0, 2)):
        connective = draw(st.sampled_from((" AND ", " OR ", "NOT ")))
        if connective == "NOT ":
            return f"NOT ({draw(conditions(tables, depth - 1))})"
        parts = draw(st.lists(conditions(tables, depth - 1), min_size=2, max_size=3))
        return "(" + connective.join(parts) + ")"
    table, alias = draw(st.sampled_from(tables))
    column = draw(st.sampled_from(sorted(LITERALS[table])))
    value = st.sampled_from(LITERALS[table][column])
    name = f"{alias}.{column}"
    match draw(st.integers(0, 6)):
        case 0:
            return f"{name} IS {draw(st.sampled_from(('', 'NOT ')))}NULL"
        case 1:
            options = draw(st.lists(value, min_size=1, max_size=4))
            return f"{name} {draw(st.sampled_from(('', 'NOT ')))}IN ({', '.join(options)})"
        case 2:
            return f"{name} BETWEEN {draw(value)} AND {draw(value)}"
        case 3:
            pattern = draw(st.sampled_from(PATTERNS))
            return f"{alias}.{TEXT[table]} {draw(st.sampled_from(('', 'NOT ')))}LIKE {pattern}"
        case 4 if len(tables) > 1:
            other, other_alias = draw(st.sampled_from(tables))
            operator = draw(st.sampled_from(("=", "<", ">=")))
            return (
                f"{alias}.{KEYS[table]} {operator} {other_alias}.{KEYS[other]} + {draw(st.integers(0, 60))}"
            )
        case _:
            return f"{name} {draw(st.sampled_from(COMPARISONS))} {draw(value)}"


@st.composite
def statements(draw: st.DrawFn) -> str:
    """A SELECT over one to three references, joined in some way, perhaps through CTEs or subqueries."""
    names = draw(st.lists(st.sampled_from(("flights", "airports", "odd")), min_size=1, max_size=3))
    tables = tuple((name, f"t{position}") for position, name in enumerate(names))
    shown = ", ".join(f"{alias}.{KEYS[name]}" for name, alias in tables)
    source = f"{draw(relations(tables[0][0]))} {tables[0][1]}"
    for position, (name, alias) in enumerate(tables[1:], start=1):
        first_name, first = tables[0]
        on = f"{first}.{KEYS[first_name]} = {alias}.{KEYS[name]}"
        if draw(st.booleans()):
            on += f" AND {draw(conditions(tables[: position + 1], 1))}"
        kind = draw(st.sampled_from(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")))
        source += f" {kind} {draw(relations(name))} {alias} ON {on}"
    where = draw(conditions(tables))
    tail = ""
    if draw(st.integers(0, 4)) == 0:
        name, alias = tables[0]
        inner = draw(st.sampled_from(("flights", "airports", "odd")))
        nested = draw(conditions(((inner, "n"),), 1))
        negated = draw(st.sampled_from(("", "NOT ")))
        wanted = f"SELECT n.{KEYS[inner]} FROM {inner} n WHERE {nested}"
        tail = f" AND {alias}.{KEYS[name]} {negated}IN ({wanted})"
    return f"SELECT {shown} FROM {source} WHERE ({where}){tail}"


@st.composite
def relations(draw: st.DrawFn, table: str) -> str:
    """A table, or a subquery over it."""
    match draw(st.integers(0, 5)):
        case 0:
            return f"(SELECT * FROM {table} s WHERE {draw(conditions(((table, 's'),), 1))})"
        case 1:
            few = f"SELECT * FROM c WHERE c.{KEYS[table]} < 40"
            return f"(WITH c AS (FROM {table}) SELECT * FROM c UNION ALL {few})"
        case _:
            return table


@settings(
    max_examples=profiles.examples(150),
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
@given(sql=statements())
def test_random_statements_lose_no_row(compared: Compared, sql: str) -> None:
    compared.pruned.last_plans.clear()
    assert answer(compared.pruned, sql) == answer(compared.full, sql), sql
    for scan in compared.pruned.last_plans:
        SEEN["scans"] += 1
        SEEN["pruned"] += scan.kept < scan.total
        SEEN["fell back"] += scan.reason is not None


def test_the_random_statements_do_prune(compared: Compared) -> None:
    """Guards the property above against passing because nothing is ever left out."""
    assert SEEN["scans"] >= 50
    assert SEEN["pruned"] / SEEN["scans"] > 0.2, SEEN
    assert SEEN["fell back"] / SEEN["scans"] < 0.05, SEEN
