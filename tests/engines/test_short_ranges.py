"""Neighboring values are looked up one by one, whether written as a list or as a range.

Expected rows are those of DuckDB without pruner; the files kept are those that hold one of the values.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from tests.support.duckdb import plain as plain_duckdb

FILES, ROWS = 12, 20
EXACT = {"bloom_filter": {"fpp": "0.00001"}, "record_index": dict[str, str]()}
"""Index types that know no order of values, with options that give no false positives for the values below."""

EPOCH = datetime.datetime(2024, 3, 1)

KINDS: dict[str, tuple[pa.DataType, Callable[[int], Any], Callable[[int], str]]] = {
    "TINYINT": (pa.int8(), lambda n: n - 115, lambda n: str(n - 115)),
    "SMALLINT": (pa.int16(), lambda n: n, str),
    "INTEGER": (pa.int32(), lambda n: n - 9, lambda n: str(n - 9)),
    "BIGINT": (pa.int64(), lambda n: n + 2**53, lambda n: str(n + 2**53)),
    "UTINYINT": (pa.uint8(), lambda n: n, str),
    "USMALLINT": (pa.uint16(), lambda n: n, str),
    "UINTEGER": (pa.uint32(), lambda n: n + 2**31, lambda n: str(n + 2**31)),
    "UBIGINT": (pa.uint64(), lambda n: n + 2**63, lambda n: str(n + 2**63)),
    "DATE": (
        pa.date32(),
        lambda n: (EPOCH + datetime.timedelta(n)).date(),
        lambda n: f"DATE '{(EPOCH + datetime.timedelta(n)).date()}'",
    ),
    "DECIMAL(9,2)": (
        pa.decimal128(9, 2),
        lambda n: Decimal(n).scaleb(-2),
        lambda n: f"{Decimal(n).scaleb(-2):f}::DECIMAL(9,2)",
    ),
    "TIMESTAMP": (
        pa.timestamp("us"),
        lambda n: EPOCH + datetime.timedelta(microseconds=n),
        lambda n: f"TIMESTAMP '{EPOCH + datetime.timedelta(microseconds=n)}'",
    ),
}
"""DuckDB type names: the n-th value of a column, and how it is written."""

DUCKDB_ONLY = {"UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
"""Types that the other engines do not have."""

NOT_AS_ONE_PARAMETER = {"UBIGINT", "DECIMAL(9,2)", "TIMESTAMP"}
"""Types whose lists, as one parameter, a plan reports as not looked into."""


def column(name: str) -> str:
    return name.partition("(")[0].lower()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose files never hold two neighboring values, and each hold a NULL."""
    folder = tmp_path_factory.mktemp("neighbours") / "t"
    for number in range(FILES):
        numbers = range(number, FILES * ROWS, FILES)
        columns: dict[str, Any] = {
            column(name): pa.array([*map(value, numbers), None], type_)
            for name, (type_, value, _) in KINDS.items()
        }
        columns["flag"] = pa.array([*[number == 5] * ROWS, None])
        columns["other"] = pa.array([number] * (ROWS + 1))
        place = folder / f"half={number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), place / f"{number:02}.parquet")
    return folder


@pytest.fixture(scope="module", params=list(EXACT))
def table(
    request: pytest.FixtureRequest, root: Path, tmp_path_factory: pytest.TempPathFactory
) -> pruner.Table:
    opened = pruner.open_table(root, index_uri=str(tmp_path_factory.mktemp("index") / request.param))
    for name in (*map(column, KINDS), "flag"):
        opened.create_index(f"of_{name}", on=name, using=request.param, options=EXACT[request.param])
    return opened


def conditions(name: str, write: Callable[[int], str], first: int, last: int) -> dict[str, set[int]]:
    """Conditions that the values from first to last satisfy, and perhaps others; and the numbers of those values."""
    c, listed = column(name), ", ".join(write(n) for n in range(first, last + 1))
    low, high = write(first), write(last)
    inside = set(range(first, last + 1))
    single = set(range(first, first + 1))
    return {
        f"{c} IN ({listed})": inside,
        f"{c} BETWEEN {low} AND {high}": inside,
        f"{c} > {write(first - 1)} AND {c} < {write(last + 1)}": inside,
        f"{c} >= {low} AND {c} < {write(first + 1)}": single,
        f"NOT ({c} < {low} OR {c} > {high})": inside,
        f"{c} NOT IN ({listed}) IS FALSE": inside,
        f"{c} BETWEEN {low} AND {high} OR {c} = {write(200)}": inside | {200},
        f"({c} BETWEEN {low} AND {high} OR {c} BETWEEN {write(150)} AND {write(151)}) AND other < 50": inside
        | {150, 151},
    }


def rows_of(con: Any, source: str, condition: str) -> list[Any]:
    return con.execute(f"SELECT * FROM {source} WHERE {condition} ORDER BY ALL").fetchall()


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", list(KINDS))
def test_duckdb_reads_the_files_that_hold_one_of_the_values(
    name: str, table: pruner.Table, root: Path
) -> None:
    con = pruner_duckdb.connect({"t": table})
    plain = plain_duckdb.session()
    source = f"read_parquet('{root}/**/*.parquet', hive_partitioning = true)"
    for condition, numbers in conditions(name, KINDS[name][2], 40, 43).items():
        assert rows_of(con, "t", condition) == rows_of(plain, source, condition), condition
        assert con.last_plans[-1].kept == len({n % FILES for n in numbers}), condition
    values = [KINDS[name][1](n) for n in (40, 41)]
    asked = {f"{column(name)} IN (?, ?)": values}
    if name not in NOT_AS_ONE_PARAMETER:
        asked[f"{column(name)} IN ?"] = [values]
    for condition, parameters in asked.items():
        expected = plain.execute(f"SELECT * FROM {source} WHERE {condition} ORDER BY ALL", parameters)
        found = con.execute(f"SELECT * FROM t WHERE {condition} ORDER BY ALL", parameters)
        assert found.fetchall() == expected.fetchall()
        assert con.last_plans[-1].kept == 2


@pytest.mark.sampled(2)
def test_truth_values_are_two_neighbours(table: pruner.Table, root: Path) -> None:
    con = pruner_duckdb.connect({"t": table})
    for condition in ("flag", "flag >= true", "flag > false", "NOT (flag < true)", "NOT (flag <= false)"):
        assert len(con.execute(f"SELECT * FROM t WHERE {condition}").fetchall()) == ROWS
        assert con.last_plans[-1].kept == 1, condition
        assert table.plan(condition).kept == 1


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dialect", ["duckdb", "spark", "trino"])
def test_plans_keep_the_files_that_hold_one_of_the_values(dialect: str, table: pruner.Table) -> None:
    pinned = table.snapshot()
    for name, (_, _, write) in KINDS.items():
        if dialect != "duckdb" and name in DUCKDB_ONLY:
            continue
        for condition, numbers in conditions(name, write, 40, 43).items():
            written = condition if dialect == "duckdb" else _portable(condition, dialect)
            if "IS FALSE" in written and dialect == "trino":
                continue
            files = {int(Path(uri).stem) for uri in pinned.plan(written, dialect=dialect).files}
            assert files == {n % FILES for n in numbers}, (name, written)


def _portable(condition: str, dialect: str) -> str:
    """The condition with decimals as numbers, which all engines read as decimals, and timestamps without a zone."""
    literal = "TIMESTAMP_NTZ '" if dialect == "spark" else "TIMESTAMP '"
    return condition.replace("::DECIMAL(9,2)", "").replace("TIMESTAMP '", literal)


def kept_of(table: pruner.Table, condition: str) -> set[int]:
    return {int(Path(uri).stem) for uri in table.plan(condition, dialect="duckdb").files}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("using", list(EXACT))
def test_an_index_of_some_partitions_leaves_the_others(using: str, root: Path, tmp_path: Path) -> None:
    table = pruner.open_table(root, index_uri=str(tmp_path))
    table.create_index("some", on="integer", using=using, options=EXACT[using], where="half = 0")
    of_others = set(range(1, FILES, 2))
    assert kept_of(table, "integer BETWEEN 31 AND 32") == {4} | of_others


@pytest.mark.sampled(2)
@pytest.mark.parametrize("using", list(EXACT))
def test_ranges_of_expressions(using: str, root: Path, tmp_path: Path) -> None:
    """As written, and as implied by a range of the column."""
    table = pruner.open_table(root, index_uri=str(tmp_path))
    table.create_index("double", on="smallint * 2", using=using, options=EXACT[using], dialect="duckdb")
    table.create_index("year", on="year(date)", using=using, options=EXACT[using], dialect="duckdb")
    assert kept_of(table, "smallint * 2 BETWEEN 79 AND 82") == {40 % FILES, 41 % FILES}
    assert kept_of(table, "smallint BETWEEN 40 AND 41") == {40 % FILES, 41 % FILES}
    con = pruner_duckdb.connect({"t": table})
    assert len(con.execute("SELECT * FROM t WHERE smallint * 2 IN (80, 81, 82)").fetchall()) == 2
    assert con.last_plans[-1].kept == 2
    assert kept_of(table, "date BETWEEN DATE '2026-01-05' AND DATE '2027-02-03'") == set()
    assert len(kept_of(table, "date BETWEEN DATE '2024-03-05' AND DATE '2025-04-03'")) == FILES


def test_rows_of_a_range_are_exact(table: pruner.Table) -> None:
    plan = table.plan("bigint BETWEEN 9007199254741032 AND 9007199254741034")
    if plan.rows is None:
        assert {step.using for step in plan.steps} == {"bloom_filter", "none"}
        return
    assert plan.rows_exact
    assert [len(found or ()) for found in plan.rows.values()] == [1, 1, 1]


@pytest.mark.slow
def test_what_is_looked_up_is_worth_it(root: Path, tmp_path: Path) -> None:
    """Not where another index knows the order, nor for more values than lookups are worth."""
    table = pruner.open_table(root, index_uri=str(tmp_path))
    table.create_index("filters", on="smallint", using="bloom_filter", options=EXACT["bloom_filter"])

    def looked_up(condition: str) -> bool:
        return any(" IN (" in step.clause for step in table.plan(condition).steps)

    assert looked_up("smallint BETWEEN 1000 AND 1063")
    assert not looked_up("smallint BETWEEN 1000 AND 1064")
    assert not looked_up("smallint >= 1000")
    table.create_index("bounds", on="smallint", using="column_stats")
    assert looked_up("smallint BETWEEN 40 AND 42")
    assert len(kept_of(table, "smallint BETWEEN 40 AND 42")) == 3
    table.create_index("rows", on="smallint", using="bitmap")
    assert not looked_up("smallint BETWEEN 40 AND 42")
    assert len(kept_of(table, "smallint BETWEEN 40 AND 42")) == 3
