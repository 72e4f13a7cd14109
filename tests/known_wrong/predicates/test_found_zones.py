"""Rows that plans have lost where the engine's copy of the zone database differs from this machine's."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from pruner.expr.exact.clock import instants_of_wall, walls_of_instant
from tests.support.duckdb import plain as plain_duckdb
from tests.support.losses import kept, matching, write_files
from tests.support.running.profiles import examples

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
CHANGED = ["America/Vancouver", "America/Winnipeg", "Africa/Casablanca", "America/Tijuana", "WET", "EET"]
"""Zones in which DuckDB 2.0 and a current system differ by an hour, on some days of 1970 to 2037."""

STEPS = 8_800
"""From 1970 to 2037, in steps of 67 hours."""

ALIKE = [
    "Europe/Berlin",
    "Asia/Almaty",
    "America/Asuncion",
    "Europe/Chisinau",
    "Asia/Tehran",
    "Antarctica/Vostok",
]


def _files(folder: Path, *moments: datetime.datetime) -> Path:
    type_ = pa.timestamp("us", "UTC")
    return write_files(
        folder, *(pa.array([moment.replace(tzinfo=datetime.UTC)], type_) for moment in moments)
    )


@pytest.mark.sampled(5)
@pytest.mark.parametrize("zone", [*CHANGED, *ALIKE])
def test_found_an_engines_zones_stay_within_the_bounds(zone: str) -> None:
    """DuckDB's instants and wall clocks lie within the bounds of the rules."""
    steps = range(0, STEPS, max(1, STEPS // examples(STEPS)))
    moments = [EPOCH + datetime.timedelta(days=3, hours=67 * step) for step in steps]
    with plain_duckdb.judge("UTC") as connection:
        rows = connection.execute(
            "SELECT epoch_us(m) * 1000, epoch_us((m AT TIME ZONE $zone) AT TIME ZONE 'UTC') * 1000 "
            "FROM (SELECT unnest($moments::TIMESTAMPTZ[]) AS m)",
            {"zone": zone, "moments": moments},
        ).fetchall()
    for instant, wall in rows:
        low, high = walls_of_instant(instant, zone)
        assert low <= wall <= high
        low, high = instants_of_wall(wall, zone)
        assert low <= instant <= high


@pytest.mark.sampled(3)
@pytest.mark.parametrize("zone", ["America/Vancouver", "America/Winnipeg", "Africa/Casablanca"])
def test_found_rules_that_changed_lately(tmp_path: Path, zone: str) -> None:
    """British Columbia keeps summer time from 2026 on: midnight there was taken for an hour later or earlier."""
    start = datetime.datetime(2030, 1, 1)
    hours = [start + datetime.timedelta(hours=hour, minutes=30) for hour in range(-3, 12)]
    folder = _files(tmp_path / "t", *hours)
    at_stake = 0
    for predicate in (
        "x >= TIMESTAMP '2030-01-01 00:00'",
        "x < TIMESTAMP '2030-01-01 00:00'",
        "x::DATE = DATE '2029-12-31'",
        "NOT (x::DATE = DATE '2029-12-31')",
        "date_trunc('day', x) < TIMESTAMPTZ '2030-01-01'",
        "year(x) = 2030",
        "hour(x) = 0",
    ):
        found = matching(folder, predicate, zone)
        at_stake += len(found)
        assert found <= kept(folder, predicate, zone), predicate
    assert at_stake
    assert len(kept(folder, "x >= TIMESTAMP '2030-01-01 00:00'", zone)) < len(hours)


def test_found_old_names_of_zones(tmp_path: Path) -> None:
    """WET is Europe/Lisbon in new copies of the database, where summers were two hours from UTC."""
    start = datetime.datetime(1994, 7, 1)
    folder = _files(tmp_path / "t", *(start + datetime.timedelta(hours=hour) for hour in range(24)))
    for hour in range(24):
        predicate = f"hour(x) = {hour}"
        assert matching(folder, predicate, "WET") <= kept(folder, predicate, "WET")
    assert matching(folder, "x < TIMESTAMP '1994-07-01 12:00'", "WET") <= kept(
        folder, "x < TIMESTAMP '1994-07-01 12:00'", "WET"
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Tokyo"])
def test_found_zones_are_still_certain_in_between(tmp_path: Path, zone: str) -> None:
    """From 1997 to 2025 nothing is widened where no clock changes."""
    start = datetime.datetime(2024, 6, 1)
    folder = _files(tmp_path / "t", *(start + datetime.timedelta(hours=hour) for hour in range(-12, 36)))
    for predicate in ("x >= TIMESTAMP '2024-06-01 12:00'", "x::DATE = DATE '2024-06-01'"):
        assert kept(folder, predicate, zone) == matching(folder, predicate, zone)
