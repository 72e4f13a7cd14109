"""ISO text, offsets and zones."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.expr.exact.clock import (
    DAY,
    HOUR,
    SECOND,
    WIDEST_OFFSET,
    date_of,
    day_number,
    fixed_offset,
    instants_of_wall,
    parse_iso,
    walls_of_instant,
)

EPOCH = datetime.datetime(1970, 1, 1)
ZONES = [
    "Europe/Berlin",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Asia/Kolkata",
]


def nanoseconds(moment: datetime.datetime) -> int:
    return (moment.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1) * 1000


@given(st.datetimes())
def test_iso_text_is_read_as_the_language_writes_it(moment: datetime.datetime) -> None:
    for separator in "T ":
        iso = parse_iso(moment.isoformat(sep=separator))
        assert iso is not None
        assert (iso.wall, iso.offset, iso.has_time) == (nanoseconds(moment), None, True)
    date = parse_iso(moment.date().isoformat())
    assert date is not None
    assert (date.wall, date.has_time) == (day_number(moment.date()) * DAY, False)
    assert date_of(date.wall // DAY) == moment.date()


@pytest.mark.parametrize(
    ("text", "wall", "offset"),
    [
        ("1970-01-02", DAY, None),
        ("1970-01-01 01:00", HOUR, None),
        ("1970-01-01 00:00:00.000000001", 1, None),
        ("1969-12-31 23:59:59.5000", -SECOND // 2, None),
        ("1970-01-01 00:00:00Z", 0, 0),
        ("1970-01-01T00:00:00+02:00", 0, 2 * HOUR),
        ("1970-01-01 00:00:00+02", 0, 2 * HOUR),
        ("1970-01-01 00:00:00 -05:30", 0, -5 * HOUR - HOUR // 2),
    ],
)
def test_iso_forms(text: str, wall: int, offset: int | None) -> None:
    iso = parse_iso(text)
    assert iso is not None
    assert (iso.wall, iso.offset) == (wall, offset)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "today",
        "2020-1-1",
        "2020-02-30",
        "0000-01-01",
        "10000-01-01",
        "2020-01-01 24:00:00",
        "2020-01-01 10:60:00",
        "2020-01-01 10:00:60",
        "2020-01-01 10:00:00.0123456789",
        "2020-01-01 10:00:00+25:00",
        "2020-01-01 10:00:00+02:75",
        "2020-01-01 ",
        " 2020-01-01",
        "２０２０-01-01",
    ],
)
def test_other_forms_are_not_guessed(text: str) -> None:
    assert parse_iso(text) is None


@pytest.mark.parametrize(
    ("zone", "offset"),
    [
        ("UTC", 0),
        ("Z", 0),
        ("etc/utc", 0),
        ("+02:00", 2 * HOUR),
        ("-05:30", -5 * HOUR - HOUR // 2),
        ("+18:00", 18 * HOUR),
    ],
)
def test_fixed_offsets(zone: str, offset: int) -> None:
    assert fixed_offset(zone) == offset
    assert instants_of_wall(0, zone) == (-offset, -offset)
    assert walls_of_instant(0, zone) == (offset, offset)


@pytest.mark.parametrize("zone", ["+18:01", "+2", "Europe/Berlin", "", "+02:60"])
def test_what_is_no_fixed_offset(zone: str) -> None:
    assert fixed_offset(zone) is None


@pytest.mark.parametrize("zone", [None, "Mars/Olympus", "../etc/passwd", ""])
def test_an_unknown_zone_may_have_any_offset(zone: str | None) -> None:
    assert instants_of_wall(0, zone) == (-WIDEST_OFFSET, WIDEST_OFFSET)
    assert walls_of_instant(0, zone) == (-WIDEST_OFFSET, WIDEST_OFFSET)


@given(st.datetimes(datetime.datetime(1972, 1, 1), datetime.datetime(2037, 1, 1)), st.sampled_from(ZONES))
def test_zones_enclose_what_the_language_says(moment: datetime.datetime, zone: str) -> None:
    instant = nanoseconds(moment)
    wall = nanoseconds(moment.replace(tzinfo=datetime.UTC).astimezone(ZoneInfo(zone)))
    low, high = walls_of_instant(instant, zone)
    assert low <= wall <= high
    assert high - low <= DAY
    first, last = instants_of_wall(wall, zone)
    assert first <= instant <= last


def test_away_from_clock_changes_the_conversion_is_exact() -> None:
    noon = nanoseconds(datetime.datetime(2020, 7, 1, 12))
    assert instants_of_wall(noon, "Europe/Berlin") == (noon - 2 * HOUR, noon - 2 * HOUR)
    assert walls_of_instant(noon, "Europe/Berlin") == (noon + 2 * HOUR, noon + 2 * HOUR)


@pytest.mark.parametrize("year", [1883, 1950, 2040, 9999])
def test_years_about_which_zone_databases_differ(year: int) -> None:
    moment = nanoseconds(datetime.datetime(year, 7, 1))
    assert instants_of_wall(moment, "Europe/Berlin") == (moment - WIDEST_OFFSET, moment + WIDEST_OFFSET)
