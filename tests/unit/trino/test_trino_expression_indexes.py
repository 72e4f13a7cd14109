"""Expressions that the Trino plugin sends use indexes over them, if Trino reads what was recorded."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.expr.semantics import Semantics
from pruner_trino import decode_request
from tests.support.trino.predicates import content

HOURS = 24
TRINO = Semantics(engine="trino", zone="America/New_York")
TYPES = {"ts": "timestamp(6)", "seen": "timestamp(6)", "n": "integer", "x": "double", "s": "varchar"}
INDEXES = {
    "hour": "strftime(ts, '%H')",
    "seen_hour": "hour(seen)",
    "weekday": "isodow(ts)",
    "bucket": "n % 8",
    "next": "n + 1",
    "twice": "x * 2.0",
    "loud": "upper(s)",
    "both": "s || '-x'",
    "start": "left(s, 2)",
    "other": "replace(s, 'x', 'y')",
    "least": "least(n, 20)",
    "ceil": "ceil(x)",
    "month_end": "last_day(ts)",
    "known": "coalesce(s, '-')",
    "unlike": "nullif(s, '03x')",
}


@pytest.fixture(scope="module")
def hourly(tmp_path_factory: pytest.TempPathFactory) -> pruner.Table:
    """A file for each hour of a day, with indexes spelled for DuckDB."""
    root = tmp_path_factory.mktemp("trino") / "t"
    root.mkdir()
    for hour in range(HOURS):
        moment = datetime.datetime(2024, 5, 1, hour, 30)
        rows = {
            "ts": pa.array([moment], pa.timestamp("us")),
            "seen": pa.array([moment], pa.timestamp("us", "UTC")),
            "n": pa.array([hour], pa.int32()),
            "x": pa.array([hour / 2]),
            "s": pa.array([f"{hour:02}x"]),
        }
        pq.write_table(pa.table(rows), root / f"h{hour:02}.parquet")
    table = pruner.open_table(root)
    for name, on in INDEXES.items():
        table.create_index(name, on=on, using="bitmap", build=False)
    table.refresh()
    return pruner.open_table(root, max_staleness=3600)


def kept(table: pruner.Table, sent: str, **types: str) -> list[int]:
    """The hours whose files are read."""
    predicate = decode_request(content(sent, {**TYPES, **types}), TRINO)
    return [int(Path(file).stem[1:]) for file in table.snapshot().plan(predicate, semantics=TRINO).files]


ANSWERED = {
    '$equal(date_format(ts, varchar:"%H")->varchar, varchar:"09")': [9],
    '$in(date_format(ts, varchar:"%H")->varchar, $array(varchar:"09", varchar:"10")->array)': [9, 10],
    '$like(date_format(ts, varchar:"%H")->varchar, varchar:"2%")': [20, 21, 22, 23],
    '$not($less_than(date_format(ts, varchar:"%H")->varchar, varchar:"22"))': [22, 23],
    "$equal(hour(seen)->bigint, bigint:5)": [5],
    "$equal(day_of_week(ts)->bigint, bigint:4)": [],
    "$equal(dow(ts)->bigint, bigint:3)": list(range(HOURS)),
    "$equal($modulo(n, integer:8)->integer, integer:3)": [3, 11, 19],
    "$equal(mod(n, integer:8)->integer, integer:3)": [3, 11, 19],
    "$equal($modulo($cast(n)->bigint, bigint:8)->bigint, bigint:3)": [3, 11, 19],
    "$equal($add(n, integer:1)->integer, integer:5)": [4],
    '$greater_than($multiply(x, double:"2.0")->double, double:"21.5")': [22, 23],
    '$equal(upper(s)->varchar, varchar:"07X")': [7],
    '$equal(concat(s, varchar:"-x")->varchar, varchar:"07x-x")': [7],
    '$equal(substr(s, bigint:1, bigint:2)->varchar, varchar:"07")': [7],
    '$or($equal(upper(s)->varchar, varchar:"07X"), $equal(hour(seen)->bigint, bigint:5))': [5, 7],
    "$is_null(upper(s)->varchar)": [],
    '$equal(replace(s, varchar:"x", varchar:"y")->varchar, varchar:"07y")': [7],
    "$equal(least(n, integer:20)->integer, integer:19)": [19],
    '$equal(ceil(x)->double, double:"3.0")': [5, 6],
    "$equal(last_day_of_month(ts)->date, date:19875)": [],
    '$equal($coalesce(s, varchar:"-")->varchar, varchar:"07x")': [7],
    '$is_null($nullif(s, varchar:"03x")->varchar)': [3],
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("sent", ANSWERED)
def test_what_trino_sends_is_answered(hourly: pruner.Table, sent: str) -> None:
    """In a session of another zone as well: Trino's connectors show instants in UTC."""
    assert kept(hourly, sent) == ANSWERED[sent]


UNANSWERED = {
    '$equal(date_format(ts, varchar:"%H")->varchar, varchar:"09")': {"ts": "timestamp(3)"},
    "$equal(hour(seen)->bigint, bigint:5)": {"seen": "timestamp(3)"},
    "$equal($modulo(n, integer:8)->integer, integer:3)": {"n": "smallint"},
    '$equal(upper(s)->varchar, varchar:"07X")': {"s": "varchar(3)"},
    '$equal(concat(s, varchar:"-x")->varchar(5), varchar(5):"07x-x")': {"s": "varchar(3)"},
    '$equal($coalesce(s, varchar(2):"-")->varchar(2), varchar(2):"07")': {"s": "varchar(2)"},
    '$equal($coalesce(s, char(5):"-")->char(5), char(5):"07x")': {"s": "char(5)"},
    '$is_null($nullif(s, varchar(2):"03")->varchar(2))': {"s": "varchar(2)"},
    '$equal(substr(s, bigint:1)->varchar, varchar:"07")': {},
    '$equal(date_format(ts, varchar:"%k")->varchar, varchar:"9")': {},
    '$equal(concat(x, x)->varchar, varchar:"1")': {},
}


@pytest.mark.parametrize("sent", UNANSWERED)
def test_s18_what_trino_reads_otherwise_is_not(hourly: pruner.Table, sent: str) -> None:
    """S18: moments that Trino rounds, text that it cuts, integers that it reads as narrower ones."""
    assert kept(hourly, sent, **UNANSWERED[sent]) == list(range(HOURS))
