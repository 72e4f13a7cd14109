"""Files of writers that are not installed here: no row is lost, and files without matches are not read.

`fastparquet_files.py` and `old_files.py` in `tests/support/parquet` wrote them, and document what they hold.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
import pruner_spark
from tests.engines.spark.spark_tables import new_scans
from tests.support.duckdb import plain as plain_duckdb
from tests.support.parquet import fastparquet_files, old_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITERS = fastparquet_files.FOLDER.parent
FASTPARQUET, PARQUET_MR = fastparquet_files.FOLDER.name, old_files.FOLDER.name
FILES = 3

OF_BOTH: dict[str, dict[str, int]] = {
    "int96": {"x = TIMESTAMP '2024-03-10 03:00:00.000005'": 1, "x > TIMESTAMP '2024-03-10 06:00:00'": 1},
    "micros": {"x = TIMESTAMP '2024-03-10 03:00:00.000005'": 1, "x = '2024-03-10 02:00:00.000004'": 1},
    "texts": {"x = 'é05'": 1, "x > 'é06'": 1, "x LIKE 'é0%'": 3},
    "bytes": {r"x = '\x05\x85'::BLOB": 1, r"x > '\x07'::BLOB": 1},
    "small": {"x = 50": 1, "x > 70": 1, "x IN (0, 80)": 2},
    "unsigned": {"x = 100": 1, "x > 140": 1, "x < 0": 0},
    "doubles": {"x = 0.5": 1, "x < 0.5": 1},
}
"""DuckDB conditions for each table, and how many of its three files are left."""

IN_DUCKDB: dict[tuple[str, str], dict[str, int]] = {
    **{(writer, name): cases for writer in (FASTPARQUET, PARQUET_MR) for name, cases in OF_BOTH.items()},
    (FASTPARQUET, "instants"): {
        "x = TIMESTAMPTZ '2024-03-10 03:00:00+00'": 1,
        "x < '2024-03-10 00:00:00+00'": 1,
    },
    (FASTPARQUET, "times"): {"x = TIME '05:00:00.000005'": 1, "x >= '08:00'": 1, "x < '04:00'": 1},
    (FASTPARQUET, "json"): {
        """x = '{"n":5}'""": 2,
        """x > '{"n":6}'""": 1,
        """x IN ('{"n":0}', '{"n":10}')""": 2,
        """x LIKE '{"n":1%'""": 2,
    },
    (FASTPARQUET, "flags"): {"x": 1, "NOT x": 2},
    (PARQUET_MR, "millis"): {"x = TIMESTAMP '2024-03-10 03:00:00.005'": 1, "x < '2024-03-09 23:00:00'": 1},
    (PARQUET_MR, "days"): {"x = DATE '2024-03-23'": 1, "x > '2024-03-25'": 1},
    (PARQUET_MR, "times_ms"): {"x = TIME '05:00:00.005'": 1, "x < '04:00'": 1},
    (PARQUET_MR, "times_us"): {"x = TIME '05:00:00.000005'": 1, "x >= '08:00'": 1},
    (PARQUET_MR, "decimals"): {"x = 2.5": 1, "x > 3.0": 1, "x IN (0, 5.00)": 2},
    (PARQUET_MR, "fixed_decimals"): {"x = 1.5": 1, "x < 0": 1},
    (PARQUET_MR, "enums"): {"x = 'é05'": 1, "x LIKE 'é1%'": 1},
    (PARQUET_MR, "json"): {"""x = '{"n":"05"}'""": 1, """x > '{"n":"06"}'""": 1},
}

IN_SPARK: dict[tuple[str, str], dict[str, int]] = {
    **{(writer, "texts"): {"x = 'é05'": 1, "x LIKE 'é1%'": 1} for writer in (FASTPARQUET, PARQUET_MR)},
    **{(writer, "bytes"): {"x = X'0585'": 1} for writer in (FASTPARQUET, PARQUET_MR)},
    **{(writer, "small"): {"x = 50": 1, "x IN (0, 80)": 2} for writer in (FASTPARQUET, PARQUET_MR)},
    **{(writer, "doubles"): {"x = 0.5": 1} for writer in (FASTPARQUET, PARQUET_MR)},
    (FASTPARQUET, "micros"): {"x = TIMESTAMP_NTZ '2024-03-10 03:00:00.000005'": 1, "x IS NULL": 3},
    (FASTPARQUET, "instants"): {"x = TIMESTAMP '2024-03-10 03:00:00Z'": 1},
    (FASTPARQUET, "json"): {"""x = '{"n":5}'""": 2},
    (FASTPARQUET, "flags"): {"x": 1},
    # Not written by parquet-mr: a session setting may shift them by its zone.
    (FASTPARQUET, "int96"): {"x = TIMESTAMP '2024-03-10 03:00:00.000005Z'": 3},
    # Spark reads the 32 bits that are stored; fastparquet's statistics are not trusted.
    (FASTPARQUET, "unsigned"): {"x = 100": 3},
    (PARQUET_MR, "unsigned"): {"x = 100": 1},
    (PARQUET_MR, "int96"): {"x = TIMESTAMP '2024-03-10 03:00:00.000005Z'": 1},
    (PARQUET_MR, "micros"): {"x = TIMESTAMP '2024-03-10 03:00:00.000005Z'": 1},
    (PARQUET_MR, "millis"): {"x = TIMESTAMP '2024-03-10 03:00:00.005Z'": 1},
    (PARQUET_MR, "days"): {"x = DATE '2024-03-23'": 1},
    (PARQUET_MR, "decimals"): {"x = 2.5": 1},
    (PARQUET_MR, "fixed_decimals"): {"x < 0": 1},
    (PARQUET_MR, "enums"): {"x = 'é05'": 1},
    (PARQUET_MR, "json"): {"""x = '{"n":"05"}'""": 1},
}


def table_of(place: tuple[str, str], folder: Path, using: str) -> pruner.Table:
    writer, name = place
    shutil.copytree(WRITERS / writer / name, folder / name)
    table = pruner.open_table(str(folder / name))
    table.create_index("i", on="x", using=using)
    return table


def test_every_table_is_asked_about() -> None:
    held = {(path.parent.name, path.name) for path in WRITERS.glob("*/*")}
    assert held == IN_DUCKDB.keys()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], pruner.Table]:
    folder = tmp_path_factory.mktemp("written")
    return {place: table_of(place, folder / place[0], "column_stats") for place in IN_DUCKDB}


@pytest.fixture(scope="module")
def connection(tables: dict[tuple[str, str], pruner.Table]) -> Iterator[pruner_duckdb.Connection]:
    with pruner_duckdb.connect({"_".join(place): table for place, table in tables.items()}) as opened:
        yield opened


@pytest.mark.sampled(18)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("place", IN_DUCKDB, ids=" ".join)
def test_duckdb_finds_every_row_and_reads_no_other_file(
    connection: pruner_duckdb.Connection,
    tables: dict[tuple[str, str], pruner.Table],
    place: tuple[str, str],
    zone: str,
) -> None:
    source = f"read_parquet('{tables[place].uri}/*.parquet')"
    table = '"' + "_".join(place) + '"'
    with plain_duckdb.judge(zone) as judge:
        connection.execute(f"SET TimeZone = '{zone}'")
        for where, kept in IN_DUCKDB[place].items():
            found: Any = connection.execute(f"SELECT x FROM {table} WHERE {where} ORDER BY ALL").fetchall()
            expected = judge.execute(f"SELECT x FROM {source} WHERE {where} ORDER BY ALL").fetchall()
            assert repr(found) == repr(expected), where
            assert connection.last_plans[-1].kept == kept, where


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    "place", [place for place in IN_DUCKDB if place[1] not in ("bytes", "int96")], ids=" ".join
)
def test_bitmaps_leave_as_few_files(tmp_path: Path, place: tuple[str, str]) -> None:
    table = table_of(place, tmp_path, "bitmap")
    semantics = pruner.Semantics(engine="duckdb", zone="UTC")
    for where, kept in IN_DUCKDB[place].items():
        assert table.plan(where, semantics=semantics).kept <= kept, where


ALIKE = {
    "int96": (FASTPARQUET, PARQUET_MR),
    **dict.fromkeys(
        ("texts", "bytes", "small", "unsigned", "doubles"), (FASTPARQUET, PARQUET_MR, "arrow", "duckdb")
    ),
}
"""Tables whose files these writers write with the same types, so that one index covers them all."""


def tree_of(name: str, writers: tuple[str, ...], root: Path) -> None:
    """Write one folder with the files of some writers; Arrow and DuckDB write the rows of fastparquet's files."""
    root.mkdir()
    for number in range(FILES):
        source = WRITERS / FASTPARQUET / name / f"{number}.parquet"
        for writer in writers:
            target = root / f"{writer}-{number}.parquet"
            if writer == "arrow":
                parquet: Any = pq  # its stubs leave types open
                parquet.write_table(parquet.read_table(source), target)
            elif writer == "duckdb":
                duckdb.execute(f"COPY (FROM read_parquet('{source}')) TO '{target}'")
            else:
                shutil.copyfile(WRITERS / writer / name / source.name, target)


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("name", "using"),
    [
        (name, using)
        for name in ALIKE
        for using in ("column_stats", "bitmap")
        if using != "bitmap" or name not in ("bytes", "int96")
    ],
)
def test_a_tree_of_several_writers_loses_no_row_and_no_file_too_many_is_read(
    tmp_path: Path, name: str, using: str
) -> None:
    writers = ALIKE[name]
    tree_of(name, writers, tmp_path / "t")
    table = pruner.open_table(str(tmp_path / "t"))
    table.create_index("i", on="x", using=using)
    with pruner_duckdb.connect({"t": table}) as connection, plain_duckdb.judge("UTC") as judge:
        connection.execute("SET TimeZone = 'UTC'")
        for where, kept in OF_BOTH[name].items():
            found = connection.execute(f"SELECT x FROM t WHERE {where} ORDER BY ALL").fetchall()
            source = f"read_parquet('{table.uri}/*.parquet')"
            expected = judge.execute(f"SELECT x FROM {source} WHERE {where} ORDER BY ALL").fetchall()
            assert repr(found) == repr(expected), where
            holding: Any = judge.execute(
                f"SELECT count(DISTINCT filename) FROM read_parquet('{table.uri}/*.parquet', filename = true) "
                f"WHERE {where}"
            ).fetchone()
            assert holding[0] <= connection.last_plans[-1].kept <= kept * len(writers), where


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["int96", "micros"])
def test_a_tree_whose_writers_have_other_types_is_read_as_ever(tmp_path: Path, name: str) -> None:
    tree_of(name, (FASTPARQUET, PARQUET_MR, "arrow", "duckdb"), tmp_path / "t")
    table = pruner.open_table(str(tmp_path / "t"))
    with pytest.raises(pruner.PrunerError, match="column 'x' cannot be indexed: files hold both timestamp"):
        table.create_index("i", on="x", using="column_stats")
    with pruner_duckdb.connect({"t": table}) as connection, plain_duckdb.judge("UTC") as judge:
        connection.execute("SET TimeZone = 'UTC'")
        for where in OF_BOTH[name]:
            found = connection.execute(f"SELECT x FROM t WHERE {where} ORDER BY ALL").fetchall()
            source = f"read_parquet('{table.uri}/*.parquet')"
            expected = judge.execute(f"SELECT x FROM {source} WHERE {where} ORDER BY ALL").fetchall()
            assert repr(found) == repr(expected), where


@pytest.mark.spark
@pytest.mark.parametrize("place", IN_SPARK, ids=" ".join)
def test_spark_finds_every_row_and_reads_no_other_file(
    tmp_path: Path, spark: SparkSession, place: tuple[str, str]
) -> None:
    table = table_of(place, tmp_path, "column_stats")
    for where, kept in IN_SPARK[place].items():
        before = pruner_spark.last_plans(spark)
        found = pruner_spark.read(spark, table.uri).where(where).collect()
        expected = spark.read.parquet(table.uri).where(where).collect()
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), where
        (scan,) = new_scans(spark, before)
        assert FILES - (scan.files_dropped or 0) == kept, where
