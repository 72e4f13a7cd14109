"""Moving moments: whatever moment the engine uses from now on, a constant computed from it is not before what the
binder says, by DuckDB's own arithmetic.
"""

from __future__ import annotations

import datetime
import random

import duckdb
import pyarrow as pa
import pytest

from pruner.expr.binding.bind import bind
from pruner.expr.bound.predicates import CompareLeaf, Unknown
from pruner.expr.functions.now import CLOCKS_DIFFER
from pruner.expr.nodes import Operator
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.schema import Field, TableSchema
from tests.support.duckdb import plain as plain_duckdb
from tests.support.running.profiles import examples, seed

SCHEMA = TableSchema(
    (
        Field(("day",), pa.date32()),
        Field(("ts",), pa.timestamp("us")),
        Field(("seen",), pa.timestamp("us", "UTC")),
        Field(("id",), pa.int64()),
    )
)
MOVING = (
    "now()",
    "now() - INTERVAL 1 DAY",
    "now() + INTERVAL 90 MINUTE",
    "now() - INTERVAL 1 MONTH",
    "now()::DATE",
    "now()::TIMESTAMP",
    "current_date",
    "current_date - 7",
    "current_date - INTERVAL 1 YEAR",
    "current_date::TIMESTAMP",
    "date_trunc('month', now())",
    "date_trunc('week', now() - INTERVAL 1 WEEK)",
    "localtimestamp - INTERVAL 36 HOUR",
    "now() AT TIME ZONE 'UTC'",
    "now() AT TIME ZONE 'America/New_York' - INTERVAL 1 DAY",
    "timezone('UTC', now() - INTERVAL 1 MONTH)",
    "(now() AT TIME ZONE 'Pacific/Apia')::DATE",
    "date_trunc('day', now() AT TIME ZONE 'Europe/Berlin')",
    "date_trunc('day', now() AT TIME ZONE 'Europe/Berlin') AT TIME ZONE 'Europe/Berlin'",
    "localtimestamp AT TIME ZONE 'America/New_York'",
)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia")
COLUMNS = {"day": "DATE", "ts": "TIMESTAMP", "seen": "TIMESTAMPTZ"}


def bound(
    text: str, now: datetime.datetime, zone: str | None = "UTC", latest: datetime.datetime | None = None
) -> object:
    semantics = Semantics(zone=zone, now=_nanoseconds(now), latest=_nanoseconds(latest) if latest else None)
    return bind(parse_predicate(text, semantics), SCHEMA, semantics, strict=False)


@pytest.mark.sampled(36)
@pytest.mark.parametrize("moving", MOVING)
def test_no_later_moment_comes_to_less(moving: str):
    rng = random.Random(f"{seed()} {moving}")
    connection = plain_duckdb.session()
    for zone in ZONES:
        connection.execute(f"SET TimeZone = '{zone}'")
        for _ in range(max(2, examples(60) // 10)):
            told = _moment(rng)
            taken = told + datetime.timedelta(seconds=rng.choice([0, 1, 3600, 86400, rng.randint(0, 10**7)]))
            for column, type_ in COLUMNS.items():
                leaf = bound(f"{column} >= {moving}", told, zone)
                assert isinstance(leaf, CompareLeaf)
                assert leaf.point.high is None
                assert not leaf.point.exact
                reached = _evaluated(connection, moving, taken, zone, type_)
                low = leaf.point.low
                assert isinstance(low, int)
                assert low <= reached, f"{column} >= {moving}: now() is {taken}, told {told}, {zone}"


@pytest.mark.sampled(32)
@pytest.mark.parametrize("moving", MOVING)
def test_no_earlier_moment_comes_to_more(moving: str):
    """With a known latest time at which the moment is taken."""
    rng = random.Random(f"{seed()} latest {moving}")
    connection = plain_duckdb.session()
    for zone in ZONES:
        connection.execute(f"SET TimeZone = '{zone}'")
        for _ in range(max(2, examples(60) // 10)):
            told = _moment(rng)
            spans = [0, 1, 600, 3600, 86_400, rng.randint(0, 10**7)]
            latest = told + datetime.timedelta(seconds=rng.choice(spans))
            taken = latest - (latest - told) * rng.choice([0, 0, 0.001, rng.random(), 1])
            for column, type_ in COLUMNS.items():
                leaf = bound(f"{column} >= {moving}", told, zone, latest)
                assert isinstance(leaf, CompareLeaf)
                low, high = leaf.point.low, leaf.point.high
                assert isinstance(low, int)
                assert isinstance(high, int)
                assert leaf.point.exact is (low > high)
                case = f"{column} >= {moving}: now() is {taken}, told {told}, at the latest {latest}, {zone}"
                assert low <= _evaluated(connection, moving, taken, zone, type_), case
                assert _evaluated(connection, moving, taken, zone, type_, up=False) <= high, case


def _nanoseconds(moment: datetime.datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000


def _moment(rng: random.Random) -> datetime.datetime:
    """A moment, often one near a clock change or the end of a month."""
    around = rng.choice(
        ["2024-03-31 00:30", "2024-10-27 00:30", "2024-03-10 06:30", "2023-01-31 12:00", "2024-02-29 23:00"]
    )
    start = datetime.datetime.fromisoformat(around).replace(tzinfo=datetime.UTC)
    return start + datetime.timedelta(seconds=rng.randint(-90_000, 90_000))


def _evaluated(
    connection: duckdb.DuckDBPyConnection,
    moving: str,
    at: datetime.datetime,
    zone: str,
    type_: str,
    *,
    up: bool = True,
) -> int:
    """The value of the constant if the moment is `at`, in the storage domain of a column of that type.

    A moment between two dates is rounded up or down.
    """
    instant = f"TIMESTAMPTZ '{at.isoformat(' ')}'"
    text = moving.replace("now()", instant).replace("current_date", f"({instant})::DATE")
    text = text.replace("localtimestamp", f"({instant})::TIMESTAMP")
    unit = "epoch_us(x) // 86400000000" if type_ == "DATE" else "epoch_us(x)"
    # A date compared with a timestamp is its midnight.
    cast = f"({text})::{'TIMESTAMP' if type_ == 'DATE' else type_}"
    if type_ == "DATE":
        unit = f"CAST({'ceil' if up else 'floor'}(epoch_us(x) / 86400000000) AS BIGINT)"
    row = connection.execute(f"SELECT {unit} FROM (SELECT {cast} AS x)").fetchall()[0]
    return int(row[0])


def test_nothing_bounds_a_moment_from_above():
    now = datetime.datetime(2024, 5, 5, tzinfo=datetime.UTC)
    for text in ("ts < now()", "seen <= current_date", "day != current_date"):
        leaf = bound(text, now)
        assert isinstance(leaf, CompareLeaf)
        assert leaf.operator in (Operator.LT, Operator.LE, Operator.NE)
        assert leaf.point.high is None
        assert not leaf.point.exact


def test_clocks_may_differ():
    now = datetime.datetime(2024, 5, 5, 0, 0, 1, tzinfo=datetime.UTC)
    leaf = bound("seen > now()", now)
    assert isinstance(leaf, CompareLeaf)
    assert leaf.point.low == int(now.timestamp()) * 1_000_000 - CLOCKS_DIFFER // 1000
    day = bound("day = current_date", now)
    assert isinstance(day, CompareLeaf)
    assert day.point.low == (datetime.date(2024, 5, 4) - datetime.date(1970, 1, 1)).days


@pytest.mark.parametrize(
    "text",
    [
        "id > now()",
        "ts > now() - INTERVAL 900000 YEAR",
        "now() > 1",
        "ts > now() AT TIME ZONE 'EST5EDT'",
        "ts > now() AT TIME ZONE 'Mars/Phobos'",
        "seen > current_date AT TIME ZONE 'UTC'",
    ],
)
def test_what_is_not_understood_stays_unknown(text: str):
    assert isinstance(bound(text, datetime.datetime(2024, 5, 5, tzinfo=datetime.UTC)), Unknown)


def test_a_zone_of_which_only_duckdb_has_the_function_is_unknown_elsewhere():
    expression = parse_predicate("ts > now() AT TIME ZONE 'UTC'", Semantics(zone="UTC"))
    for engine in ("spark", "trino"):
        assert isinstance(
            bind(expression, SCHEMA, Semantics(engine=engine, zone="UTC"), strict=False), Unknown
        )
