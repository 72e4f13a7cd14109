"""Date, timestamp and text literals against date and timestamp columns, with DuckDB as the oracle in several zones."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pruner.expr.bound.predicates import CompareLeaf, Point
from pruner.expr.exact.clock import DAY, nanoseconds
from pruner.expr.types import unit_of
from tests.support.running.profiles import examples
from tests.unit.expr.duckdb.duckdb_oracle import bound, check

OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
NAIVE = [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")]
TYPES = [pa.date32(), *NAIVE, pa.timestamp("us", "UTC")]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia"]
EPOCH = datetime.datetime(1970, 1, 1)

# Around clock changes of those zones, a day that Apia skipped, the epoch, and far from everything.
PIVOTS = [
    datetime.datetime(2020, 3, 29, 1),
    datetime.datetime(2020, 3, 29, 2, 30),
    datetime.datetime(2020, 10, 25, 2, 30),
    datetime.datetime(2021, 3, 14, 2, 30),
    datetime.datetime(2021, 11, 7, 1, 30),
    datetime.datetime(2021, 4, 4, 1, 45),
    datetime.datetime(2011, 12, 30, 12),
    datetime.datetime(1970, 1, 1),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime.datetime(2024, 2, 29),
    datetime.datetime(1900, 1, 1),
    datetime.datetime(1583, 1, 1),
    datetime.datetime(2040, 7, 1),
]


@st.composite
def moments(draw: st.DrawFn) -> datetime.datetime:
    pivot = draw(st.sampled_from(PIVOTS))
    shift = draw(
        st.sampled_from(
            [0, 0, 1, -1, 1_000, 500_000, 1_000_000, 1_800_000_000, -3_600_000_000, 86_400_000_000]
        )
    )
    moment = pivot + datetime.timedelta(microseconds=shift)
    return draw(
        st.sampled_from(
            [moment, moment.replace(microsecond=0), datetime.datetime.combine(moment, datetime.time())]
        )
    )


MOMENT_TYPES = ["DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ"]


@st.composite
def literals(draw: st.DrawFn, near: datetime.datetime) -> str:
    """SQL of a moment, cast up to twice: casts round, truncate and read the session's zone."""
    moment = draw(st.just(near) | moments())
    text = moment.isoformat(sep=" ")
    kind = draw(
        st.sampled_from(
            ["DATE", "TIMESTAMP", "TIMESTAMP", "TIMESTAMPTZ", "offset", "text", "date text", "units"]
        )
    )
    match kind:
        case "DATE":
            literal = f"DATE '{moment.date()}'"
        case "offset":
            literal = (
                f"TIMESTAMPTZ '{text}{draw(st.sampled_from(['+00:00', '+02:00', '-05:30', '+02', 'Z']))}'"
            )
        case "text":
            literal = f"'{text}'"
        case "date text":
            literal = f"'{moment.date()}'"
        case "units":
            literal = f"{draw(st.sampled_from(MOMENT_TYPES))} '{text}'"
        case _:
            literal = f"{kind} '{text}'"
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        literal = f"CAST({literal} AS {draw(st.sampled_from(MOMENT_TYPES))})"
    return literal


def values_near(moment: datetime.datetime, data_type: pa.DataType) -> list[int | None]:
    """Stored values around a moment: the smallest steps, hours (for zones) and days away."""
    nanosecond = (moment - EPOCH) // datetime.timedelta(microseconds=1) * 1000
    unit = DAY if pa.types.is_date(data_type) else nanoseconds(unit_of(data_type))
    hours = [quarter * 900 * 10**9 for quarter in range(-60, 61)]
    steps = {-unit, 0, unit, *hours, -DAY, DAY}
    moved = sorted({(nanosecond + step) // unit for step in steps})
    return [*(value for value in moved if abs(value) < 2**63), None]


@pytest.mark.slow
@settings(max_examples=examples(500))
@given(data=st.data())
def test_comparisons(data: st.DataObject) -> None:
    data_type = data.draw(st.sampled_from(TYPES))
    near = data.draw(moments())
    zone = data.draw(st.sampled_from(ZONES))
    predicate = f"c {data.draw(OPERATORS)} {data.draw(literals(near))}"
    check(predicate, values_near(near, data_type), data_type, zone, known=data.draw(st.booleans()))


@settings(max_examples=examples(200))
@given(data=st.data())
def test_lists_ranges_and_casts(data: st.DataObject) -> None:
    data_type = data.draw(st.sampled_from(TYPES))
    near = data.draw(moments())
    first, second = data.draw(literals(near)), data.draw(literals(near))
    target = data.draw(st.sampled_from(["DATE", "TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP_S", "TIMESTAMPTZ"]))
    predicate = data.draw(
        st.sampled_from(
            [
                f"c IN ({first}, {second})",
                f"c BETWEEN {first} AND {second}",
                f"CAST(c AS {target}) <= {first}",
                f"CAST(c AS {target}) = {first}",
            ]
        )
    )
    check(predicate, values_near(near, data_type), data_type, data.draw(st.sampled_from(ZONES)))


MIDNIGHT = 18262  # days from 1970 to 2020-01-01
SECOND = MIDNIGHT * 86400


@pytest.mark.parametrize(
    ("data_type", "zone", "literal", "point"),
    [
        (pa.date32(), "UTC", "DATE '2020-01-01'", Point(MIDNIGHT, MIDNIGHT)),
        (pa.date32(), "UTC", "'2020-01-01'", Point(MIDNIGHT, MIDNIGHT)),
        (pa.date32(), "UTC", "TIMESTAMP '2020-01-01 00:00:00'", Point(MIDNIGHT, MIDNIGHT)),
        (pa.date32(), "UTC", "TIMESTAMP '2020-01-01 00:00:01'", Point(MIDNIGHT + 1, MIDNIGHT)),
        (pa.date32(), "UTC", "TIMESTAMP '1969-12-31 12:00:00'", Point(0, -1)),
        (pa.timestamp("ms"), "UTC", "DATE '2020-01-01'", Point(SECOND * 1000, SECOND * 1000)),
        (pa.timestamp("s"), "UTC", "TIMESTAMP '2020-01-01 00:00:00.5'", Point(SECOND + 1, SECOND)),
        (pa.timestamp("s"), "UTC", "TIMESTAMP '1969-12-31 23:59:59.5'", Point(0, -1)),
        (pa.timestamp("us"), None, "TIMESTAMP '2020-01-01 00:00:00'", Point(SECOND * 10**6, SECOND * 10**6)),
        (pa.timestamp("s", "UTC"), "Europe/Berlin", "TIMESTAMP '2020-01-01 01:00:00'", Point(SECOND, SECOND)),
        (pa.timestamp("s", "UTC"), "+01:00", "TIMESTAMP '2020-01-01 01:00:00'", Point(SECOND, SECOND)),
        (pa.timestamp("s", "UTC"), None, "TIMESTAMPTZ '2020-01-01 01:00:00+01:00'", Point(SECOND, SECOND)),
        (
            pa.timestamp("s", "UTC"),
            None,
            "TIMESTAMP '2020-01-01 00:00:00'",
            Point(SECOND - 18 * 3600, SECOND + 18 * 3600, exact=False),
        ),
        (
            pa.timestamp("s", "UTC"),
            "Mars/Olympus",
            "TIMESTAMP '2020-01-01 00:00:00'",
            Point(SECOND - 18 * 3600, SECOND + 18 * 3600, exact=False),
        ),
    ],
)
def test_points_are_as_narrow_as_can_be(
    data_type: pa.DataType, zone: str | None, literal: str, point: Point
) -> None:
    leaf = bound(f"c >= {literal}", data_type, zone)
    assert isinstance(leaf, CompareLeaf)
    assert leaf.point == point


@pytest.mark.parametrize("wall", ["2020-03-29 02:30:00", "2020-10-25 02:30:00"])
def test_a_clock_change_widens_the_point_by_the_change(wall: str) -> None:
    leaf = bound(f"c = TIMESTAMP '{wall}'", pa.timestamp("s", "UTC"), "Europe/Berlin")
    assert isinstance(leaf, CompareLeaf)
    assert not leaf.point.exact
    assert leaf.point.low is not None
    assert leaf.point.high == int(leaf.point.low) + 3600
