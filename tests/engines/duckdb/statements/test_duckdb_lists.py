"""List parameters: `id IN ?` prunes like the list as text, and a long list costs no more than its text."""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from typing import Any

import duckdb
import pytest

import pruner_duckdb
from pruner_duckdb.sql.literals import MOST_LISTED, AnyOfList, NoLiteral, sql_literal
from tests.engines.duckdb.duckdb_tables import indexed, write_tree
from tests.support.duckdb.ways import is_native, native_reads_are
from tests.support.running.profiles import examples, seed

TEXTS = (
    "",
    " ",
    "a",
    "NULL",
    "null",
    "it's",
    "a, b",
    "[x]",
    "{y}",
    "a\nb",
    "\té",
    "中",
    "(1)",
    "1",
    "a=b",
    "#--",
    "''",
)
HARD = ('a"b', "a\\b", "\0", "\\")
INTEGERS = (0, 1, -1, 127, 128, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63), 2**63, 2**64)
DATES = tuple(
    datetime.date.fromisoformat(each) for each in ("0001-01-01", "1969-12-31", "2024-02-29", "9999-12-31")
)


def _lists() -> list[Sequence[object]]:
    rng = random.Random(f"{seed()} lists")
    pools: tuple[Sequence[object], ...] = (TEXTS, (*TEXTS, *HARD), INTEGERS[:-2], INTEGERS, DATES)
    mixed = ([1, "a"], [True], [1, True], [None], [1, None], [1.5], [[1]], [])
    return [
        *mixed,
        *(
            [rng.choice(pool) for _ in range(rng.randint(1, 6))]
            for pool in pools
            for _ in range(examples(100))
        ),
    ]


def test_the_literal_of_a_list_has_the_type_and_the_values_of_the_parameter() -> None:
    written = 0
    for values in _lists():
        try:
            literal = sql_literal(values)
        except NoLiteral:
            continue
        written += 1
        row = duckdb.execute(
            f"SELECT typeof($x), typeof({literal}), $x = {literal}", {"x": values}
        ).fetchall()
        assert row[0][0] == row[0][1], values
        assert row[0][2] is True, values
    assert written > examples(100)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, duckdb.DuckDBPyConnection]:
    """Ten files of ten numbers, each with a date and a text, and a view of the same rows."""
    files = {
        f"{n}.parquet": f"""
            SELECT i AS id, DATE '2024-01-01' + {n} AS day, 'name''' || {n} AS name, i % 3 AS k
            FROM range({n * 10}, {n * 10 + 10}) r(i)"""
        for n in range(10)
    }
    root = write_tree(tmp_path_factory.mktemp("lists") / "t", files)
    table = indexed(root)
    table.create_index("values", on=["id", "k"], using="bitmap")
    con = pruner_duckdb.connect({"t": table})
    plain = duckdb.connect()
    plain.execute(f"CREATE VIEW t AS FROM read_parquet('{root}/*.parquet')")
    return con, plain


DAYS = [datetime.date(2024, 1, 3), datetime.date(2024, 1, 4)]
KEPT: list[tuple[str, Any, int, int]] = [
    ("id IN ?", [[5, 77]], 2, 2),
    ("id IN ?", [[6, 599]], 1, 1),
    ("id IN ?", [(6, 7, 8)], 1, 1),
    ("[id] IN (?)", [[5]], 10, 10),
    ("id IN $ids", {"ids": [6, 2**40]}, 1, 1),
    ("list_contains(?, id)", [[5, 77]], 2, 2),
    ("id = ANY(?)", [list(range(30, 60))], 3, 3),
    ("id = ANY(?)", [list(range(0, 100, 9)) * 2], 10, 10),
    ("NOT id = ANY(?)", [list(range(30, 60))], 7, 10),
    ("name = ANY(?)", [["name'3"] * 20], 1, 1),
    ("day IN ?", [DAYS], 2, 2),
    ("name IN ?", [["name'3", "nobody"]], 1, 1),
    ("id NOT IN ?", [[5, 77]], 10, 10),
    ("NOT (id IN ?)", [list(range(10))], 9, 9),
    ("id < 40 AND k IN ?", [[1]], 4, 4),
    ("id IN ? OR day = DATE '2024-01-10'", [[5]], 2, 2),
    ("id IN ? AND id IN ?", [[5, 77], [77]], 1, 1),
    ("id < 40 AND id IN (SELECT unnest(?))", [[5, 77]], 1, 1),
    ("id IN ?", [[]], 10, 10),
    ("id IN ?", [[5, None]], 10, 1),
    ("name IN ?", [['a"b', "name'3"]], 10, 1),
    ("id IN ?", [[5] * (MOST_LISTED + 1)], 10, 1),
    ("id = ANY(?)", [[5] * (MOST_LISTED + 1)], 10, 1),
    ("id = ANY(?)", [[5] * MOST_LISTED], 1, 1),
]
"""Files that are left, and with the native scan: it never writes a list into the text of a condition, and DuckDB turns
`= ANY(?)` with several values into a join, which passes on its keys.
"""


@pytest.mark.sampled(32)
@pytest.mark.parametrize(("condition", "parameters", "kept", "native"), KEPT)
def test_conditions_with_a_list_prune(
    both: tuple[Any, Any], condition: str, parameters: Any, kept: int, native: int
) -> None:
    con, plain = both
    query = f"SELECT id FROM t WHERE {condition} ORDER BY id"
    wanted = plain.execute(query, parameters).fetchall()
    for _ in range(2):
        assert con.execute(query, parameters).fetchall() == wanted
        if is_native():
            assert native_reads_are([con.last_plans[-1].kept], [native])
        else:
            assert con.last_plans[-1].kept == kept


@pytest.mark.parametrize("condition", ["id IN ?", "day IN ?", "id = ANY(?)"])
def test_a_list_of_another_type_is_duckdbs_error(both: tuple[Any, Any], condition: str) -> None:
    con, plain = both
    query = f"SELECT id FROM t WHERE {condition}"
    with pytest.raises(duckdb.BinderException) as wanted:
        plain.execute(query, [["2024-01-01"]])
    with pytest.raises(duckdb.BinderException) as found:
        con.execute(query, [["2024-01-01"]])
    assert str(found.value) == str(wanted.value)


def test_a_long_list_is_written_as_one_text() -> None:
    """An expression for each value took 25 times as long as the statement: 2.3 s for 10,000 numbers."""
    compared = AnyOfList(0, 11, 2, (0, 0), "1")
    text = compared.as_in(b"id = ANY(?)", list(range(10_000)))
    assert (text.count("::"), text.count("CAST")) == (0, 1)
    assert compared.as_in(b"id = ANY(?)", [7, 8]) == "(id IN (((7)::INTEGER), ((8)::INTEGER)))"
