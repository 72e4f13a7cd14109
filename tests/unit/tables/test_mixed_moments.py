"""Timestamps of several Parquet types in one table, as Spark writes them by `outputTimestampType`."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest

import pruner
from pruner.expr.types import Unit
from tests.support.losses import matching
from tests.support.parquet.footers import written_by
from tests.support.parquet.types import converted_only, int96, plain

NOON = datetime.datetime(2024, 1, 1, 12)


def _day(number: int, unit: Unit, zone: str | None) -> pa.Array:
    moment = pa.array([NOON + datetime.timedelta(days=number)], pa.timestamp(unit))
    return moment.cast(pa.timestamp(unit, zone)) if zone else moment


def _write(root: Path, kinds: str, zone: str | None) -> pruner.Table:
    """A file a day, of the types of these letters: ms, us and INT96."""
    root.mkdir()
    for number, kind in enumerate(kinds):
        path = root / f"{number}.parquet"
        match kind:
            case "m":
                plain(path, _day(number, "ms", zone))
            case "u":
                plain(path, _day(number, "us", zone))
            case "c":
                converted_only(path, _day(number, "us", zone))
            case _:
                written_by(int96(path, _day(number, "us", None)), "parquet-mr version 1.13.1 (build 0)")
    return pruner.open_table(str(root))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
@pytest.mark.parametrize(
    ("kinds", "zone", "dialect", "kept"),
    [
        ("mumu", "UTC", "spark", 1),
        ("mumu", "UTC", "trino", 1),
        ("mumu", "UTC", "duckdb", 1),
        ("mumu", None, "spark", 1),
        ("mumu", None, "duckdb", 1),
        ("mcuc", "UTC", "spark", 1),
        ("mcuc", "UTC", "duckdb", 4),  # instants and wall clocks
    ],
)
def test_milliseconds_and_microseconds_are_one_type(
    tmp_path: Path, using: str, kinds: str, zone: str | None, dialect: str, kept: int
) -> None:
    table = _write(tmp_path / "t", kinds, zone)
    table.create_index("i", on="x", using=using)
    literal = "TIMESTAMP '2024-01-02 12:00:00" + (" UTC'" if dialect == "trino" else "'")
    if zone and dialect == "duckdb":
        literal = "TIMESTAMPTZ '2024-01-02 12:00:00+00'"
    if zone is None and dialect == "spark":
        literal = "TIMESTAMP_NTZ '2024-01-02 12:00:00'"
    plan = table.plan(f"x = {literal}", semantics=_rules(dialect))
    assert str(tmp_path / "t" / "1.parquet") in {str(file).removeprefix("file://") for file in plan.files}
    assert plan.kept == kept
    if dialect == "duckdb":
        assert matching(tmp_path / "t", f"x = {literal}") <= {Path(file).name for file in plan.files}


def _rules(dialect: str) -> pruner.Semantics:
    return pruner.Semantics(engine=dialect, zone="UTC")


@pytest.mark.parametrize("kinds", ["imu", "umi"])
def test_int96_beside_instants_is_one_for_spark_alone(tmp_path: Path, kinds: str) -> None:
    """DuckDB treats it as a wall clock, and Trino's behavior is unknown."""
    table = _write(tmp_path / "t", kinds, "UTC")
    table.create_index("i", on="x")
    spark = table.plan("x = TIMESTAMP '2024-01-02 12:00:00'", semantics=_rules("spark"))
    assert [Path(file).name for file in spark.files] == ["1.parquet"]
    for dialect in ("duckdb", "trino"):
        plan = table.plan("x = TIMESTAMP '2024-01-02 12:00:00'", semantics=_rules(dialect))
        assert (plan.kept, "INT96" in str(plan.fallbacks)) == (3, True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("kinds", "zone", "spark_keeps"), [("iui", None, 3), ("ici", "UTC", 1)])
def test_int96_beside_a_wall_clock_is_one_for_duckdb(
    tmp_path: Path, kinds: str, zone: str | None, spark_keeps: int
) -> None:
    """A column with only a converted type is a wall clock for DuckDB, and an instant for Spark."""
    table = _write(tmp_path / "t", kinds, zone)
    table.create_index("i", on="x")
    predicate = "x = TIMESTAMP '2024-01-02 12:00:00'"
    assert matching(tmp_path / "t", predicate) == {"1.parquet"}
    assert [Path(file).name for file in table.plan(predicate, semantics=_rules("duckdb")).files] == [
        "1.parquet"
    ]
    assert table.plan(predicate, semantics=_rules("spark")).kept == spark_keeps


def test_nanoseconds_beside_others_stay_unknown(tmp_path: Path) -> None:
    """DuckDB reads nanoseconds, Spark refuses them."""
    root = tmp_path / "t"
    root.mkdir()
    plain(root / "0.parquet", _day(0, "us", None))
    plain(root / "1.parquet", _day(1, "ns", None))
    table = pruner.open_table(str(root))
    with pytest.raises(pruner.PrunerError, match="files hold both"):
        table.create_index("i", on="x")
