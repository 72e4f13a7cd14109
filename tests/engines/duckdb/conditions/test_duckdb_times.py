"""Times of day, UUIDs and half-precision floats: DuckDB finds all rows, and reads only the files that may hold them."""

from __future__ import annotations

import datetime
import operator
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from pruner.expr.nodes import Column, Compare, Literal, Operator
from pruner.expr.types import unit_of
from tests.support.duckdb import plain as plain_duckdb
from tests.support.parquet.types import times

NAN = float("nan")
HALVES = [[1.0, 1.5], [-0.0, 0.1], [10.0, NAN], [float("inf"), 65504.0]]
HOUR = 3600 * 10**6

Writer = Callable[[pa.Table, Path], None]


def by_pyarrow(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, store_schema=False)


def by_duckdb(table: pa.Table, path: Path) -> None:
    with plain_duckdb.session() as connection:
        connection.from_arrow(table.drop_columns(["half"])).write_parquet(str(path))


def by_polars(table: pa.Table, path: Path) -> None:
    frame = pl.from_arrow(table.select(["ns", "half"]))
    assert isinstance(frame, pl.DataFrame)
    frame.write_parquet(path)


def uuids(*numbers: int) -> pa.Array[Any]:
    return pa.array([number.to_bytes(16, "big") for number in numbers], pa.uuid())


def rows_of(number: int) -> pa.Table:
    """Rows of one file: five hours of the day, a quarter of all UUIDs, and some floats."""
    hour, first = number * 5 * HOUR, number << 126
    return pa.table(
        {
            "ms": pa.array([hour // 1000, hour // 1000 + 10, None], pa.int32()).view(pa.time32("ms")),
            "us": pa.array([hour, hour + 10, None], pa.time64("us")),
            "ns": pa.array([hour * 1000, hour * 1000 + 10, None], pa.time64("ns")),
            "id": uuids(first, first + 5, first + 7),
            "half": pa.array(np.array([*HALVES[number], HALVES[number][0]], np.float16), from_pandas=False),
        }
    )


def write(root: Path, writer: Writer) -> Path:
    root.mkdir()
    for number in range(4):
        writer(rows_of(number), root / f"{number}.parquet")
    return root


OF_NANOSECONDS = [
    ("ns >= '10:00:00.000000010'", 2),
    ("ns = TIME_NS '10:00:00.00000001'", 1),
    ("ns = TIME '10:00'", 1),
    ("ns IN ('05:00:00', '10:00:00.00000001')", 2),
    ("ns < '00:00:00'", 0),
]
OF_MILLISECONDS = [("ms = '05:00:00.0001'", 0), ("ms > '05:00:00.0101' AND ms < '10:00'", 0)]
OF_HALVES = [
    ("half = 0.1", 0),
    ("half < 0.1", 1),
    ("half = 0", 1),
    ("half >= '-0.0'::FLOAT", 4),
    ("half > 100", 2),
    ("isnan(half)", 1),
    ("half = 'NaN'::FLOAT", 1),
    ("half < 65504", 3),
    ("half BETWEEN 1.2 AND 1.6", 1),
]
OF_ALL = [
    ("ms = TIME '05:00'", 1),
    ("us = '05:00:00.00001'", 1),
    ("us > '09:00'", 2),
    ("us != '00:00'", 4),
    ("us IN ('05:00', '10:00')", 2),
    ("us BETWEEN '04:00' AND '06:00'", 1),
    ("us >= '24:00:00'", 0),
    ("us IS NULL OR ms > '12:00'", 4),
    ("NOT us > '09:00'", 2),
    ("id = '40000000-0000-0000-0000-000000000005'", 1),
    ("id > '80000000-0000-0000-0000-000000000007'", 1),
    ("id > 'ffffffffffffffffffffffffffffffff'::UUID", 0),
    ("id <= UUID '00000000-0000-0000-0000-000000000005'", 1),
    ("id IN ('40000000-0000-0000-0000-000000000005', '{C0000000-0000-0000-0000-000000000005}'::UUID)", 2),
    ("id BETWEEN '7fffffff-ffff-ffff-ffff-ffffffffffff' AND '80000000-0000-0000-0000-000000000000'", 1),
    ("id IS NULL", 0),
]
INDEXES = [["column_stats"], ["bitmap", "bloom_filter", "column_stats"]]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("indexes", INDEXES, ids=len)
@pytest.mark.parametrize(
    ("writer", "cases"),
    [
        (by_pyarrow, [*OF_NANOSECONDS, *OF_MILLISECONDS, *OF_HALVES, *OF_ALL]),
        (by_duckdb, [*OF_NANOSECONDS, *OF_ALL]),
        (by_polars, [*OF_NANOSECONDS, *OF_HALVES]),
    ],
    ids=["pyarrow", "DuckDB", "Polars"],
)
def test_files_that_may_hold_a_row_are_read_and_no_others(
    tmp_path: Path, writer: Writer, cases: list[tuple[str, int]], indexes: list[str]
) -> None:
    table = pruner.open_table(str(write(tmp_path / "t", writer)))
    for using in indexes:
        for column in table.schema:
            if not (using == "bitmap" and column.name == "id"):
                table.create_index(f"{using}_{column.name}", on=column.name, using=using)
    source = f"read_parquet('{tmp_path}/t/*.parquet', filename = true)"
    with pruner_duckdb.connect({"t": table}) as connection, plain_duckdb.judge() as judge:
        # Over files DuckDB itself loses NaN, with or without pruner.
        judge.execute(f"CREATE OR REPLACE TEMP TABLE t AS FROM {source}")
        for where, kept in cases:
            found = connection.sql(f"SELECT count(*) FROM t WHERE {where}").fetchall()
            plan = connection.last_plans[-1].plan
            assert plan.kept == kept, where
            matching = judge.execute(f"SELECT DISTINCT filename FROM t WHERE {where}").fetchall()
            assert {path for (path,) in matching} <= {file.removeprefix("file://") for file in plan.files}, (
                where
            )
            # Where a plan leaves one file, its scan accounts for NaN; with more, both lose the same rows.
            with plain_duckdb.session() as plain:
                asked, rows = (judge, "t") if kept == 1 else (plain, source)
                counted = asked.execute(f"SELECT count(*) FROM {rows} WHERE {where}")
                assert found == counted.fetchall(), where


@pytest.mark.sampled(2)
@pytest.mark.parametrize("using", ["column_stats", "bitmap", "bloom_filter"])
def test_times_that_are_adjusted_to_utc_keep_every_file_and_say_so(tmp_path: Path, using: str) -> None:
    """DuckDB reads them as TIMETZ: its order includes offsets, and texts take theirs from the session."""
    root = tmp_path / "t"
    root.mkdir()
    for number in range(3):
        times(root / f"{number}.parquet", pa.array([number * HOUR], pa.time64("us")))
    table = pruner.open_table(str(root))
    table.create_index("i", on="x", using=using)
    with pruner_duckdb.connect({"t": table}) as connection:
        connection.sql("SET TimeZone = 'America/New_York'")
        for where, rows in (("x = '01:00:00+00'", 1), ("x >= TIMETZ '05:00:00+05'", 3)):
            assert len(connection.sql(f"SELECT * FROM t WHERE {where}").fetchall()) == rows
            assert connection.last_plans[-1].kept == 3
    plan = table.plan("x = '01:00'")
    assert (plan.kept, table.plan("x IS NULL").kept) == (3, 3)
    assert "is not known" in plan.explain()


def test_numbers_outside_a_day_keep_their_file(tmp_path: Path) -> None:
    """DuckDB 2.0 refuses them, 1.5 compares the raw numbers: which rows match is unknown."""
    root = tmp_path / "t"
    root.mkdir()
    for number, values in enumerate(([-5, HOUR], [24 * HOUR], [2 * HOUR])):
        times(root / f"{number}.parquet", pa.array(values, pa.time64("us")), adjusted=False)
    table = pruner.open_table(str(root))
    for using in ("column_stats", "bitmap", "bloom_filter"):
        table.create_index(using, on="x", using=using)
    assert [table.plan(where).kept for where in ("x = '01:00'", "x = '02:00'", "x > '12:00'")] == [2, 3, 2]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dialect", ["spark", "trino"])
def test_engines_without_these_types_keep_every_file_and_say_so(tmp_path: Path, dialect: str) -> None:
    table = pruner.open_table(str(write(tmp_path / "t", by_pyarrow)))
    table.create_index("stats", on=["us", "id", "half"])
    for where in ("us = '05:00'", "us IS NULL", "id = '40000000-0000-0000-0000-000000000005'", "half > 100"):
        plan = table.plan(where, dialect=dialect)
        assert plan.kept == 4
        assert "is not known" in plan.explain()


def test_python_engines_get_the_values_of_the_files(tmp_path: Path) -> None:
    table = pruner.open_table(str(write(tmp_path / "t", by_pyarrow)))
    table.create_index("stats", on=["us", "id", "half"])
    plan = table.plan("us > '09:00' AND id > '80000000-0000-0000-0000-000000000007'")
    assert plan.kept == 1
    expected = rows_of(3)
    arrow = plan.scan_pyarrow().to_table()
    ids: Any = expected.column("id").combine_chunks()
    stored = expected.set_column(3, "id", ids.storage)
    assert arrow.select(["ms", "us", "ns", "id"]) == stored.select(["ms", "us", "ns", "id"])
    frame = plan.scan_polars().collect()
    assert isinstance(frame, pl.DataFrame)
    assert frame["us"].to_list() == expected.column("us").to_pylist()
    assert frame["id"].to_list() == stored.column("id").to_pylist()


_MOMENTS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["polars", "pyarrow"])
def test_expressions_of_python_engines_lose_no_row_whatever_the_unit(tmp_path: Path, engine: str) -> None:
    root, rng = write(tmp_path / "t", by_pyarrow), random.Random(7)
    table = pruner.open_table(str(root))
    table.create_index("stats", on=["ms", "us", "ns", "id"])
    table.create_index("values", on=["ms", "us", "ns"], using="bitmap")
    held = [rows_of(number) for number in range(4)]
    nanoseconds = {"ms": 10**6, "us": 1000, "ns": 1}
    dropped = 0
    for _ in range(150):
        column, compared = rng.choice(["ms", "us", "ns", "id"]), rng.choice(list(_MOMENTS))
        chunks: list[Any] = [rows.column(column).combine_chunks() for rows in held]
        if column == "id":
            found = [chunk.storage.to_pylist() for chunk in chunks]
            value: Any = rng.choice(found[rng.randrange(4)])
            literal = Literal(value, pa.binary(16))
        else:
            numbers = [
                chunk.cast(pa.int32() if column == "ms" else pa.int64()).to_pylist() for chunk in chunks
            ]
            found = [[n * nanoseconds[column] for n in each if n is not None] for each in numbers]
            type_ = rng.choice([pa.time64("us"), pa.time64("ns")])
            scale = nanoseconds[unit_of(type_)]
            moment = rng.choice(found[rng.randrange(4)]) // scale + rng.choice([0, 0, 1, -1])
            literal, value = Literal(moment, type_), moment * scale
        plan = table.plan(
            Compare(compared, Column((column,)), literal), semantics=pruner.Semantics(engine=engine)
        )
        kept = {int(Path(file).stem) for file in plan.files}
        matching = {
            at for at, values in enumerate(found) if any(_MOMENTS[compared](v, value) for v in values)
        }
        assert matching <= kept, (column, compared, literal)
        dropped += 4 - len(kept)
    assert dropped > 200


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("where", "value", "kept"),
    [
        ("us = ?", datetime.time(5, 0, 0, 10), 1),
        ("us > ?", datetime.time(9), 2),
        ("id = ?", uuid.UUID("40000000-0000-0000-0000-000000000005"), 1),
        ("id > ?", uuid.UUID(int=(1 << 128) - 1), 0),
        (
            "us::VARCHAR = ?::VARCHAR",
            datetime.time(5, tzinfo=datetime.UTC),
            4,
        ),  # not a column type that prunes
    ],
)
def test_parameters_of_these_types_prune(tmp_path: Path, where: str, value: object, kept: int) -> None:
    table = pruner.open_table(str(write(tmp_path / "t", by_pyarrow)))
    table.create_index("stats", on=["us", "id"])
    query = f"SELECT count(*) FROM {{}} WHERE {where}"
    with pruner_duckdb.connect({"t": table}) as connection, plain_duckdb.session() as plain:
        found = connection.execute(query.format("t"), [value]).fetchall()
        source = f"read_parquet('{tmp_path}/t/*.parquet')"
        assert found == plain.execute(query.format(source), [value]).fetchall()
        assert connection.last_plans[-1].kept == kept
