"""Random conditions on Iceberg tables in DuckDB: the rows that match are those of a scan that skips nothing.

The tables use every transform, and each has had columns renamed, dropped, added again and promoted, its spec changed,
and rows deleted. Half of the tables have indexes beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import duckdb
import pytest

import pruner
import pruner_duckdb
from tests.support.iceberg.tables import SPECS, IcebergLake, changed
from tests.support.running import profiles

LITERALS = {
    "key_": ("0", "17", "40", "95", "101", "-1", "23", "24", "9223372036854775807"),
    "number": ("-60", "0", "108", "270", "7", "3000000000"),
    "small": ("0::FLOAT", "0.1::FLOAT", "0.1", "'NaN'::DOUBLE", "3.5", "-0.0"),
    "x": ("0", "-9", "'NaN'::DOUBLE", "7.25", "1e300", "'-inf'::DOUBLE"),
    "price": ("0.000", "-4.000", "1.125", "91", "-2.5"),
    "day": ("DATE '1970-01-01'", "DATE '1969-12-31'", "DATE '1970-06-03'", "DATE '2300-01-01'"),
    '"at"': (
        "TIMESTAMPTZ '1970-01-03 12:00:00.000006Z'",
        "TIMESTAMPTZ '1969-12-30 12:00:00Z'",
        "TIMESTAMPTZ '1970-01-10 01:00:00-05'",
    ),
    "wall": ("TIMESTAMP '1970-01-01 00:00:00'", "TIMESTAMP '1970-01-20 07:00:00.5'", "DATE '1969-12-31'"),
    "clock": ("TIME '00:30:00'", "TIME '23:30:00.000023'"),
    "name": ("'Zlang und breit lang und breit lang und breit 002'", "'Älang'", "'z'", "'M'", "''", "'ä'"),
    "flag": ("true", "false"),
    "raw": (r"'\x05\xFF\x05'::BLOB", "''::BLOB", r"'\xFF'::BLOB"),
    "box.a": ("0", "33", "90"),
    "box.b": ("'b3'", "'b90'", "'c'"),
    "added": ("1", "119", "30"),
}
"""Values to compare columns with: inside, outside and at the ends of the ranges in the files."""

WRAPPED = {
    "key_": ("key_ % 7", "key_ + 1", "key_::VARCHAR::INTEGER"),
    "number": ("abs(number)", "coalesce(number, 7)"),
    "small": ("coalesce(small, 0.1)", "-small"),
    "name": ("lower(name)", "substr(name, 1, 5)", "reverse(name)", "name || ''"),
    "day": ("date_trunc('month', day)::DATE", "day + 1"),
    '"at"': ("date_trunc('day', \"at\")",),
    "wall": ("wall::DATE", "date_trunc('hour', wall)"),
}
AT_ONCE = 50


def _condition(random: Random, depth: int = 2) -> str:
    if depth and random.random() < 0.5:
        left, right = _condition(random, depth - 1), _condition(random, depth - 1)
        return random.choice((f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"))
    name = random.choice(list(LITERALS))
    first, second, third = (random.choice(LITERALS[name]) for _ in range(3))
    side = random.choice(WRAPPED[name]) if name in WRAPPED and random.random() < 0.25 else name
    operator = random.choice(("=", "<>", "<", "<=", ">", ">="))
    maybe_not = random.choice(("", "NOT "))
    forms = [
        f"{side} {operator} {first}",
        f"{side} {operator} {first}",
        f"{first} {operator} {side}",
        f"{side} {maybe_not}IN ({first}, {second}, {third})",
        f"{side} {maybe_not}BETWEEN {first} AND {second}",
        f"{side} IS {maybe_not}NULL",
        f"{side} IS {maybe_not}DISTINCT FROM {first}",
    ]
    if name == "name":
        forms.append(f"name {maybe_not}LIKE '{random.choice(('Ä%', 'Zlang%00_', '%5', 'z%', 'Zl_ng%'))}'")
        forms.append(f"starts_with(name, '{random.choice(('Ä', 'Zlang', 'z', ''))}')")
    return random.choice(forms)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> IcebergLake:
    return IcebergLake(tmp_path_factory.mktemp("random"))


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
def test_random_conditions_lose_nothing(lake: IcebergLake, spec: str, tmp_path: Path) -> None:
    """`PRUNER_TEST_PROFILE=fuzz PRUNER_FUZZ_N=20000` runs that many of them in all."""
    number = list(SPECS).index(spec)
    random = Random(profiles.seed() + number)
    table = changed(lake, spec, 1 + number % 2)
    opened = pruner.open_table(table.metadata_location, index_uri=str(tmp_path / "index"))
    if number % 2:
        opened.create_index("names", "name", "bitmap")
        opened.create_index("blooms", ["key_", "number"], "bloom_filter")
        opened.create_index("all", "*", "column_stats")
    count = max(12, -(-profiles.examples(140) // len(SPECS)))  # fewer say nothing about the share
    conditions = [_condition(random) for _ in range(count)]
    seen: list[tuple[int, int]] = []
    with pruner_duckdb.connect({"t": opened}) as pruned, duckdb.connect() as plain:
        for connection in (pruned, plain):
            connection.execute("SET TimeZone = 'Asia/Kathmandu'")
        plain.register("whole", table.scan().to_arrow())
        plain.execute("CREATE TABLE t AS SELECT * FROM whole")
        for start in range(0, count, AT_ONCE):
            some = conditions[start : start + AT_ONCE]
            for text, expected in zip(some, _matching(plain, some), strict=True):
                found = pruned.execute(f"SELECT key_ FROM t WHERE {text}").fetchall()
                assert sorted(each[0] for each in found) == sorted(expected), (spec, text)
                seen += [(each.kept, each.total) for each in pruned.last_plans]
                pruned.last_plans.clear()
    assert len(seen) > count / 2, "hardly any was planned"
    assert sum(kept for kept, _ in seen) < 0.9 * sum(total for _, total in seen), "hardly anything was pruned"


def _matching(plain: duckdb.DuckDBPyConnection, conditions: Sequence[str]) -> list[list[int]]:
    """The keys of the rows for which each condition is true, from a scan of all rows."""
    columns = ", ".join(f"coalesce(list(key_) FILTER (WHERE {text}), [])" for text in conditions)
    found = plain.execute(f"SELECT {columns} FROM t").fetchone()
    assert found is not None
    return list(found)
