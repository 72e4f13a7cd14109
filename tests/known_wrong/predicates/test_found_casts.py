"""Rows that plans have lost to casts of constants."""

from __future__ import annotations

import datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import pruner
import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import Compared, oracle, write_tree
from tests.support.losses import kept, matching, write_files


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("predicate", "zone"),
    [
        ("x >= CAST(TIMESTAMP '1970-01-01 00:00:00.000001' AS TIMESTAMP_S)", "UTC"),
        (
            "x > CAST(TIMESTAMP '1970-01-01 00:00:00.001001' AS TIMESTAMP_MS) AND x < TIMESTAMP '1971-01-01'",
            "UTC",
        ),
        ("x = CAST(TIMESTAMPTZ '1999-12-31 05:00:00+00' AS TIMESTAMP)", "America/New_York"),
        ("x = CAST(TIMESTAMP_NS '1970-01-01 00:00:00.000000001' AS TIMESTAMPTZ)", "UTC"),
    ],
)
def test_found_a_cast_of_a_moment_that_rounds_or_moves_it(tmp_path: Path, predicate: str, zone: str) -> None:
    """Every cast between two timestamp types was taken for the session's reading of a wall clock.

    `CAST(TIMESTAMP '…01.5' AS TIMESTAMP_S)` rounds, and `CAST(TIMESTAMPTZ … AS TIMESTAMP)` goes the other way; the
    point was exact, and files at the rounded or moved value were dropped.
    """
    moments = [0, 1, 1_000, 1_001, 946_616_400_000_000, 946_598_400_000_000]
    files = [pa.array([moment], pa.timestamp("us")) for moment in moments]
    folder = write_files(tmp_path / "t", *files)
    assert matching(folder, predicate, zone) <= kept(folder, predicate, zone)


def test_found_a_wall_clock_cast_to_an_instant_still_prunes(tmp_path: Path) -> None:
    """The cast that was meant: a wall clock read in the session's zone is certain where no clock changes."""
    files = [pa.array([day * 86_400_000_000], pa.timestamp("us", "UTC")) for day in (0, 11_000, 20_000)]
    folder = write_files(tmp_path / "t", *files)
    predicate = "x >= CAST(TIMESTAMP '2000-02-13 00:00:00' AS TIMESTAMPTZ)"
    assert kept(folder, predicate, "America/New_York") == {"2.parquet"}
    assert matching(folder, predicate, "America/New_York") == {"2.parquet"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("literal", ["DATE '2020-03-01'", "TIMESTAMP '2020-03-01 00:00:00'"])
def test_found_wall_clocks_beside_instants_in_nanoseconds(tmp_path: Path, literal: str) -> None:
    """DuckDB 2.0 reads nanoseconds in UTC as TIMESTAMPTZ_NS and takes a wall clock beside one for UTC.

    The literal was read in the session's zone, as beside every other instant, and the file at UTC midnight was dropped.
    """
    moments = [
        1_583_020_800,
        1_583_038_800,
        1_500_000_000,
        1_600_000_000,
    ]  # midnight in UTC, in New York; far from both
    files = [pa.array([moment * 10**9], pa.timestamp("ns", "UTC")) for moment in moments]
    folder = write_files(tmp_path / "t", *files)
    for predicate in (f"x = {literal}", f"x >= {literal}", f"NOT (x < {literal})", f"x IN ({literal})"):
        assert matching(folder, predicate, "America/New_York") <= kept(folder, predicate, "America/New_York")
    assert "2.parquet" not in kept(folder, f"x = {literal}", "America/New_York")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("type_", [pa.timestamp("us"), pa.date32()])
def test_found_casts_to_nanoseconds_that_fail(tmp_path: Path, type_: pa.DataType) -> None:
    """DuckDB casts a column to compare it with TIMESTAMP_NS, which fails for the years before 1677 and after 2262.

    The cast was taken for one that never fails. The file with the year 9999 was dropped, and DuckDB's error with it.
    """
    years = [[datetime.datetime(year, 1, 1)] for year in (2023, 2024, 2025)]
    far = [[datetime.datetime(2024, 2, 1), datetime.datetime(9999, 1, 1)]]
    near = write_files(tmp_path / "near", *(pa.array(each, type_) for each in years))
    both = write_files(tmp_path / "both", *(pa.array(each, type_) for each in years + far))
    written = "CAST(x AS TIMESTAMP_NS) = TIMESTAMP_NS '2024-01-01'"
    assert kept(near, written) == matching(near, written) == {"1.parquet"}
    assert kept(both, written) == {"1.parquet", "3.parquet"}
    if pa.types.is_timestamp(type_):  # for dates DuckDB's own zone maps skip the file
        connection = pruner_duckdb.connect({"t": str(both)})
        with pytest.raises(duckdb.ConversionException):
            connection.execute("SELECT count(*) FROM t WHERE x = TIMESTAMP_NS '2024-01-01'").fetchall()


MOMENTS_MADE_NUMBERS = (
    "(x = TRY_CAST(DATE '2024-01-01' AS DOUBLE)) IS NULL",
    "(x < TRY_CAST(TIMESTAMP '2024-01-01' AS DOUBLE)) IS NULL",
    "(x >= TRY_CAST(TIME '10:00:00' AS DOUBLE)) IS NULL",
    "(x = TRY_CAST(true AS DOUBLE)) IS NOT NULL",
)


@pytest.mark.parametrize("condition", MOMENTS_MADE_NUMBERS)
def test_found_a_moment_that_is_made_a_number_is_null(tmp_path: Path, condition: str) -> None:
    """With an index over an expression, conditions are seen as written: a day was taken for its number."""
    rows = "SELECT i::INT AS id, i::DOUBLE AS x FROM range({}, {}) r(i)"
    files = {f"{n}.parquet": rows.format(10 * n, 10 * n + 10) for n in range(3)}
    root = write_tree(tmp_path / "t", files)
    table = pruner.open_table(str(root))
    table.create_index("stats", on="*")
    table.create_index("rest", on="id % 7", using="bitmap")
    compared = Compared(pruner_duckdb.connect({"t": table}), oracle({"t": root}))
    assert compared.kept(f"SELECT id FROM t WHERE {condition}") == (3,)
