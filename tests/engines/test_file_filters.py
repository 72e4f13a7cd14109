"""Bloom filters that writers put into Parquet files: what they rule out without an index, and what they do not.

Each file holds every sixth value, so ranges rule nothing out.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datafusion
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from pruner.evidence import file_filters
from pruner.evidence.file_filters import NAME
from pruner.tables.footers.filters import HEADER_BYTES, filter_place
from tests.support.duckdb import plain as plain_duckdb

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 6
ROWS = 3000
COLUMNS = ("id", "part", "name", "raw")


@pytest.fixture(autouse=True)
def small_files_are_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_filters, "LEAST_BYTES", 0)


def content(number: int, rows: int = ROWS) -> pa.Table:
    """The rows of one file: the values whose remainder modulo the number of files is `number`."""
    ids = [FILES * each + number for each in range(rows)]
    columns: dict[str, Any] = {
        "id": pa.array(ids, pa.int64()),
        "part": pa.array(ids, pa.int32()),
        "name": [f"näme {each}" for each in ids],
        "raw": pa.array([f"r{each}".encode() for each in ids], pa.binary()),
        "small": pa.array([each % 100 for each in ids], pa.int16()),
        "price": pa.array([each / 4 for each in ids], pa.float64()),
    }
    return pa.table(columns)


def by_duckdb(table: pa.Table, path: Path) -> None:
    with plain_duckdb.session() as con:
        con.register("rows", table)
        options = "FORMAT parquet, DICTIONARY_SIZE_LIMIT 100000, ROW_GROUP_SIZE 2048"
        con.execute(f"COPY (FROM rows) TO '{path}' ({options})")


def by_arrow(table: pa.Table, path: Path) -> None:
    write: Any = pq.write_table
    write(
        table,
        path,
        row_group_size=1000,
        bloom_filter_options={name: {"ndv": 1000} for name in table.column_names},
    )


def by_arrow_rs(table: pa.Table, path: Path) -> None:
    options: Any = datafusion.ParquetWriterOptions(
        bloom_filter_on_write=True, max_row_group_size=1000, created_by="parquet-rs version 57.0.0"
    )
    frame = datafusion.SessionContext().from_arrow(table).repartition(1)
    frame.write_parquet_with_options(path, options)


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "duckdb": by_duckdb,
    "arrow": by_arrow,
    "arrow-rs": by_arrow_rs,
}


@pytest.fixture(scope="module", params=list(WRITERS))
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param) / "t"
    folder.mkdir()
    for number in range(FILES):
        WRITERS[request.param](content(number), folder / f"{number}.parquet")
    return folder


def literal(column: str, value: int) -> str:
    return {"name": f"'näme {value}'", "raw": f"'r{value}'::BLOB"}.get(column, str(value))


def files_of(plan: pruner.Plan) -> list[str]:
    return [Path(uri).name for uri in plan.files]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("column", COLUMNS)
def test_no_row_is_lost_and_other_files_are_left_out(root: Path, column: str) -> None:
    table = pruner.open_table(root)
    rng = random.Random(column)
    kept = 0
    for value in rng.sample(range(FILES * ROWS), 60):
        plan = table.plan(f"{column} = {literal(column, value)}", dialect="duckdb")
        assert f"{value % FILES}.parquet" in files_of(plan)
        kept += plan.kept
    assert kept <= 60 * 1.6  # three row groups of five files, at 1 to 5 %
    absent = [table.plan(f"{column} = {literal(column, FILES * ROWS + each)}").kept for each in range(30)]
    assert sum(absent) <= 30
    if column in ("id", "part"):
        neighbours = table.plan(f"{column} BETWEEN 7 AND 8")
        assert {"1.parquet", "2.parquet"} <= set(files_of(neighbours))
        assert neighbours.kept < FILES
    values = [7, 13, 19]
    listed = table.plan(f"{column} IN ({', '.join(literal(column, each) for each in values)})")
    assert "1.parquet" in files_of(listed)
    assert listed.kept < FILES


def test_the_report_names_them(root: Path) -> None:
    plan = pruner.open_table(root).plan("id = 8 AND price < 1e6")
    (step,) = [each for each in plan.steps if each.index == NAME]
    assert (step.using, step.considered, step.considered - step.dropped) == ("bloom_filter", FILES, plan.kept)
    assert plan.kept < FILES


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "predicate",
    ["id <> 8", "NOT (id = 8)", "id = 8 OR price < 0", "id > 8", "small = 8", "price = 2.0", "id IS NULL"],
)
def test_what_they_are_not_asked(root: Path, predicate: str) -> None:
    plan = pruner.open_table(root).plan(predicate)
    assert plan.kept == FILES
    assert NAME not in {step.index for step in plan.steps}


@pytest.mark.sampled(3)
def test_queries_through_duckdb_are_those_without_pruner(root: Path) -> None:
    con = pruner_duckdb.connect({"t": str(root)})
    for column in COLUMNS:
        for value in (0, 17, 17_999, 18_000):
            query = f"SELECT count(*), min(id) FROM {{}} WHERE {column} = {literal(column, value)}"
            expected = duckdb.execute(query.format(f"'{root}/*.parquet'")).fetchall()
            assert con.sql(query.format("t")).fetchall() == expected


@pytest.mark.sampled(3)
def test_switched_off_or_told_apart_by_an_index(root: Path) -> None:
    assert pruner.open_table(root, file_filters=False).plan("id = 8").kept == FILES
    table = pruner.open_table(root, index_uri=f"{root}.index")
    table.create_index("i", on="id", using="record_index")
    assert {step.index for step in table.plan("id = 8").steps} == {"i"}


def test_files_of_an_unknown_writer_or_type_stay(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    for number in range(FILES):
        by_arrow(content(number), folder / f"{number}.parquet")
    unknown = folder / "3.parquet"
    unknown.write_bytes(
        unknown.read_bytes().replace(b"parquet-cpp-arrow version", b"parquet-cpp-arrox version")
    )
    narrow = content(4).set_column(0, "id", content(4).column("part"))
    by_arrow(narrow, folder / "4.parquet")
    pq.write_table(content(5), folder / "5.parquet")
    table = pruner.open_table(folder)
    assert files_of(table.plan("id = 10")) == ["3.parquet", "4.parquet", "5.parquet"]
    assert files_of(table.plan("id = 17")) == ["3.parquet", "4.parquet", "5.parquet"]
    assert files_of(table.plan("part = 9")) == ["3.parquet", "5.parquet"]


def test_files_without_filters_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    for number in range(FILES):
        pq.write_table(content(number), folder / f"{number}.parquet")
    opened: list[object] = []
    real = file_filters.FileReader.__init__

    def counting(self: Any, *rest: Any) -> None:
        opened.append(rest)
        real(self, *rest)

    monkeypatch.setattr(file_filters.FileReader, "__init__", counting)
    table = pruner.open_table(folder)
    assert [table.plan(f"id = {value}").kept for value in range(5)] == [FILES] * 5
    assert len(opened) == file_filters.SAMPLE


def test_a_column_whose_filters_save_nothing_is_not_asked_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    for number in range(FILES):
        by_arrow(content(0, rows=100), folder / f"{number}.parquet")
    monkeypatch.setattr(file_filters, "FUTILE", 3 * FILES)
    table = pruner.open_table(folder)
    asked = [NAME in {step.index for step in table.plan(f"id = {FILES * each}").steps} for each in range(6)]
    assert asked == [True, True, True, False, False, False]


@pytest.mark.slow
def test_headers_of_other_kinds_and_broken_ones_are_no_filters() -> None:
    good = b"\x15\x80\x40\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x00"
    place = filter_place(100, good.ljust(HEADER_BYTES, b"\xff"), 10_000)
    assert place is not None
    assert (place.start, place.blocks) == (116, 128)
    assert filter_place(100, good, 4211) is None  # it would end past the end of the file
    assert filter_place(100, good.replace(b"\x1c\x1c", b"\x1c\x2c", 1), 10_000) is None  # another algorithm
    assert filter_place(100, b"", 10_000) is None
    rng = random.Random(37)
    for _ in range(20_000):
        damaged = bytearray(good + rng.randbytes(8))
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        found = filter_place(100, bytes(damaged[: rng.randint(0, len(damaged))]), 10_000)
        assert found is None or (found.blocks > 0 and found.start + 32 * found.blocks <= 10_000)


@pytest.mark.spark
def test_files_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    frame = spark.createDataFrame(pa.concat_tables([content(number) for number in range(FILES)]).to_pandas())
    options = {f"parquet.bloom.filter.enabled#{column}": "true" for column in COLUMNS}
    options |= {"parquet.enable.dictionary": "false", "parquet.bloom.filter.expected.ndv#id": "3000"}
    spread = frame.selectExpr("id", "cast(part AS int) part", "name", "raw").repartition(FILES, "id")
    spread.write.options(**options).parquet(str(folder))
    table = pruner.open_table(folder)
    for column in COLUMNS:
        for value in range(0, FILES * ROWS, 900):
            plan = table.plan(f"{column} = {literal(column, value)}", dialect="duckdb")
            query = f"SELECT count(*) FROM read_parquet(?) WHERE {column} = {literal(column, value)}"
            assert duckdb.execute(query, [list(plan.files)]).fetchall() == [(1,)]
            assert plan.kept < FILES
