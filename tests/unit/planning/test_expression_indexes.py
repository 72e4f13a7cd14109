"""Indexes over expressions: what they keep, which engines they serve, and what is refused."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner import Semantics
from pruner.errors import IndexDefinitionError
from pruner.planning.plan import Plan

START = datetime.datetime(2022, 10, 1)
HOURS = 48
WALL = pa.timestamp("us")
INSTANT = pa.timestamp("us", "UTC")
TYPES = ("column_stats", "bitmap", "bloom_filter", "record_index")


def write(root: Path, hour: int, moments: pa.DataType = WALL, **columns: Any) -> None:
    """One file with four moments of an hour."""
    root.mkdir(exist_ok=True)
    ts = [START + datetime.timedelta(hours=hour, minutes=15 * quarter) for quarter in range(4)]
    table = pa.table(
        {
            "ts": pa.array(ts, moments),
            "id": pa.array([hour * 4 + row for row in range(4)], pa.int32()),
            "city": [f"City-{hour}"] * 4,
            "salary": pa.array([float(hour)] * 4),
            "share": pa.array([0.5] * 4),
            **columns,
        }
    )
    pq.write_table(table, root / f"h{hour:02}.parquet")


@pytest.fixture(scope="module")
def files_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[pa.DataType], Path]:
    """A folder with a file for each of 48 hours, written once for each type of moments."""
    root = tmp_path_factory.mktemp("hours")

    def folder(moments: pa.DataType) -> Path:
        found = root / str(moments)
        if not found.exists():
            for hour in range(HOURS):
                write(found, hour, moments)
        return found

    return folder


@pytest.fixture
def hourly(files_of: Callable[[pa.DataType], Path], tmp_path: Path) -> pruner.Table:
    """A file for each of 48 hours, as in RFC-63."""
    return pruner.open_table(shutil.copytree(files_of(WALL), tmp_path / "t"))


@pytest.fixture
def instants(files_of: Callable[[pa.DataType], Path], tmp_path: Path) -> pruner.Table:
    """The same, of instants."""
    return pruner.open_table(shutil.copytree(files_of(INSTANT), tmp_path / "t"))


def hours(plan: Plan) -> list[int]:
    """The hours since the start whose files are read."""
    return [int(Path(file).stem[1:]) for file in plan.files]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("using", TYPES)
def test_an_index_over_the_hour_of_day_keeps_two_files_a_day(hourly: pruner.Table, using: str) -> None:
    hourly.create_index("hour_idx", on="strftime(ts, '%H')", using=using)
    assert hours(hourly.plan("strftime(ts, '%H') = '12'")) == [12, 36]
    assert hours(hourly.plan("strftime(ts, '%H') IN ('12', '13')")) == [12, 13, 36, 37]
    assert hours(hourly.plan("hour_idx = '12'")) == [12, 36]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
def test_every_comparison_is_answered(hourly: pruner.Table, using: str) -> None:
    hourly.create_index("hour_idx", on="strftime(ts, '%H')", using=using)
    day = [12, 13, 36, 37]
    assert hours(hourly.plan("strftime(ts, '%H') BETWEEN '12' AND '13'")) == day
    assert hours(hourly.plan("'13' >= strftime(ts, '%H') AND strftime(ts, '%H') > '11'")) == day
    assert hours(hourly.plan("NOT (strftime(ts, '%H') < '12' OR strftime(ts, '%H') > '13')")) == day
    assert hours(hourly.plan("strftime(ts, '%H') LIKE '2%'")) == [20, 21, 22, 23, 44, 45, 46, 47]
    assert hours(hourly.plan("strftime(ts, '%H') IS NULL")) == []
    assert hourly.plan("strftime(ts, '%H') IS NOT NULL").kept == HOURS
    assert hours(hourly.plan("strftime(ts, '%H') = '12' OR id = 3")) == list(range(HOURS)), "id has no index"


@pytest.mark.slow
def test_one_index_answers_every_spelling(instants: pruner.Table) -> None:
    instants.create_index("hour_idx", on="date_format(ts, '%H')", using="bitmap", dialect="trino")
    [definition] = instants.indexes()
    assert (definition.expression, definition.dialect, definition.registry) == (
        "date_format(ts, '%H')",
        "trino",
        2,
    )
    assert (definition.evaluator or "").startswith("duckdb ")
    utc = Semantics(engine="duckdb", zone="UTC")
    assert hours(instants.plan("strftime(ts, '%H') = '12'", semantics=utc)) == [12, 36]
    assert hours(instants.plan("STRFTIME(TS, '%H') = '12'", semantics=utc)) == [12, 36]
    trino = Semantics(engine="trino", zone="UTC")
    assert hours(instants.plan("date_format(ts, '%H') = '12'", semantics=trino)) == [12, 36]
    assert instants.plan("date_format(ts, '%h') = '12'", semantics=trino).kept == HOURS


@pytest.mark.slow
def test_spark_is_answered_by_the_same_index(instants: pruner.Table) -> None:
    instants.create_index("hour_idx", on="strftime(ts, '%H')", using="bitmap")
    utc = Semantics(engine="spark", zone="UTC")
    assert hours(instants.plan("date_format(ts, 'HH') = '12'", semantics=utc)) == [12, 36]
    assert instants.plan("date_format(ts, 'hh') = '12'", semantics=utc).kept == HOURS
    berlin = Semantics(engine="spark", zone="Europe/Berlin")
    assert instants.plan("date_format(ts, 'HH') = '12'", semantics=berlin).kept == HOURS


@pytest.mark.slow
def test_an_engine_that_was_not_compared_is_never_answered(hourly: pruner.Table) -> None:
    """Trap I5: DuckDB counts the days of the week from Sunday 0, and no other engine was compared."""
    hourly.create_index("weekday", on="dayofweek(ts)", using="bitmap")
    assert hourly.plan("weekday = 6", semantics=Semantics(zone="UTC")).kept == 24
    by_name = hourly.plan("weekday = 6", semantics=Semantics(engine="trino", zone="UTC"))
    assert by_name.kept == HOURS


@pytest.mark.slow
def test_another_zone_is_never_answered(instants: pruner.Table) -> None:
    """Traps S13, I5: the hour of an instant differs in New York."""
    instants.create_index("hour_idx", on="strftime(ts, '%H')", using="bitmap")
    predicate = "strftime(ts, '%H') = '12'"
    for zone in ("UTC", "Etc/UTC", "+00:00"):
        assert instants.plan(predicate, semantics=Semantics(zone=zone)).kept == 2
    for zone in ("America/New_York", "Europe/London", "+05:30", None):
        plan = instants.plan(predicate, semantics=Semantics(zone=zone))
        assert plan.kept == HOURS
        assert any("hour_idx is evaluated in UTC" in each for each in plan.fallbacks), plan.fallbacks


@pytest.mark.slow
def test_a_wall_clock_has_no_zone(hourly: pruner.Table) -> None:
    hourly.create_index("hour_idx", on="strftime(ts, '%H')", using="bitmap")
    semantics = Semantics(zone="America/New_York")
    assert hourly.plan("strftime(ts, '%H') = '12'", semantics=semantics).kept == 2


@pytest.mark.slow
def test_an_engine_that_rounds_moments_is_never_answered(hourly: pruner.Table) -> None:
    """Trap S18: 12:59:59.9996 is the next hour where milliseconds are read."""
    hourly.create_index("hour_idx", on="strftime(ts, '%H')", using="bitmap")
    plan = hourly.plan("strftime(ts, '%H') = '12'", semantics=Semantics(timestamp_unit="ms"))
    assert plan.kept == HOURS
    assert any("rounds" in each for each in plan.fallbacks)


def test_a_pattern_is_not_taken_for_ordered(tmp_path: Path) -> None:
    """Trap L6: Hudi treats 'MM/dd/yyyy' as ordered, so that a range of days over New Year loses files."""
    write(tmp_path / "t", 24 * 91)  # 2022-12-31
    write(tmp_path / "t", 24 * 92)  # 2023-01-01
    table = pruner.open_table(tmp_path / "t")
    table.create_index("stats", on="ts")
    table.create_index("days", on="strftime(ts, '%m/%d/%Y')")
    assert table.plan("strftime(ts, '%m/%d/%Y') > '06/01/2022'").kept == 1
    assert hours(table.plan("strftime(ts, '%m/%d/%Y') = '01/01/2023'")) == [24 * 92]
    assert table.plan("ts >= TIMESTAMP '2022-12-31' AND ts < TIMESTAMP '2023-02-01'").kept == 2


def test_values_outside_the_agreed_domain_keep_their_file(tmp_path: Path) -> None:
    """Traps L7, I5: engines uppercase ß in different ways."""
    write(tmp_path / "t", 0)
    write(tmp_path / "t", 1, city=["straße", "x", "y", "z"])
    write(tmp_path / "t", 2)
    table = pruner.open_table(tmp_path / "t")
    table.create_index("capitals", on="upper(city)", using="bitmap")
    plan = table.plan("upper(city) = 'CITY-2'")
    assert hours(plan) == [1, 2]
    assert any("capitals says nothing of 1 file:" in each for each in plan.fallbacks), plan.fallbacks


@pytest.mark.slow
def test_the_domain_is_checked_at_every_node(tmp_path: Path) -> None:
    """The difference is in range, but the sum inside it is not."""
    write(tmp_path / "t", 0, big=pa.array([2**31 - 1, 0, 0, 0], pa.int32()))
    write(tmp_path / "t", 1, big=pa.array([5, 0, 0, 0], pa.int32()))
    write(tmp_path / "t", 2, big=pa.array([6, 0, 0, 0], pa.int32()))
    table = pruner.open_table(tmp_path / "t")
    table.create_index("around", on="(big + 10) - 10", using="bitmap")
    table.create_index("length", on="length(upper(city))")
    assert hours(table.plan("(big + 10) - 10 = 6")) == [0, 2]
    assert hours(table.plan("length(upper(city)) = 6")) == [0, 1, 2]
    assert hours(table.plan("length(upper(city)) = 7")) == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "moment",
    [datetime.datetime(1582, 10, 4, 12), datetime.datetime(1899, 12, 31, 23, 59, 59, 999999)],
)
def test_moments_before_1900_keep_their_file(tmp_path: Path, moment: datetime.datetime) -> None:
    """Trap S17: engines and writers use two calendars for them."""
    write(tmp_path / "t", 0)
    write(tmp_path / "t", 1, ts=pa.array([moment] * 4, pa.timestamp("us")))
    table = pruner.open_table(tmp_path / "t")
    table.create_index("hour_idx", on="strftime(ts, '%H')")
    assert hours(table.plan("strftime(ts, '%H') = '05'")) == [1]


def test_moments_before_1970_count_down(tmp_path: Path) -> None:
    """Trap S14: the last microsecond of 1969 is in that year's last hour."""
    write(tmp_path / "t", 0)
    last = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)
    write(tmp_path / "t", 1, ts=pa.array([last] * 4, pa.timestamp("us")))
    table = pruner.open_table(tmp_path / "t")
    table.create_index("hour_idx", on="strftime(ts, '%Y-%H')")
    assert hours(table.plan("strftime(ts, '%Y-%H') = '1969-23'")) == [1]
    assert hours(table.plan("strftime(ts, '%Y-%H') = '1970-00'")) == []


@pytest.mark.slow
def test_an_expression_over_several_columns(hourly: pruner.Table) -> None:
    """RFC-63's income index."""
    hourly.create_index("income_idx", on="salary + (salary * share)")
    assert hours(hourly.plan("salary + salary * share >= 60")) == list(range(40, 48))
    assert hours(hourly.plan("salary + (salary * share) = 3")) == [2]


@pytest.mark.slow
def test_periodic_functions_are_answered_and_never_as_ordered(hourly: pruner.Table) -> None:
    """Trap L8."""
    hourly.create_index("buckets", on="id % 192", using="bitmap")
    hourly.create_index("hours", on="hour(ts)", using="bitmap")
    assert hours(hourly.plan("id % 192 = 5")) == [1]
    assert hours(hourly.plan("hour(ts) >= 23")) == [23, 47]
    assert hours(hourly.plan("date_part('hour', ts) = 0")) == [0, 24]
    assert hours(hourly.plan("extract(hour FROM ts) = 0")) == [0, 24]


@pytest.mark.slow
def test_an_index_over_an_expression_and_statistics_of_its_column_serve_together(
    hourly: pruner.Table,
) -> None:
    """Neither weakens the other, whatever the context: each says the same of every row."""
    hourly.create_index("stats", on="id")
    hourly.create_index("sums", on="id + 1", using="bitmap", where=None, build=False)
    assert hours(hourly.plan("id + 1 = 5")) == [1], "the index is not built, the statistics answer"
    assert hours(hourly.plan("NOT id + 1 <> 5")) == [1]
    hourly.refresh()
    assert hours(hourly.plan("id + 1 = 5")) == [1]
    assert hours(hourly.plan("NOT id + 1 <> 5")) == [1]
    hourly.drop_index("stats")
    assert hours(hourly.plan("NOT id + 1 <> 5")) == [1], "now the index alone"


def test_nulls(tmp_path: Path) -> None:
    write(tmp_path / "t", 0, ts=pa.array([None] * 4, pa.timestamp("us")))
    write(tmp_path / "t", 1, ts=pa.array([None, START, START, START], pa.timestamp("us")))
    write(tmp_path / "t", 2)
    table = pruner.open_table(tmp_path / "t")
    table.create_index("hour_idx", on="strftime(ts, '%H')", using="bitmap")
    assert hours(table.plan("strftime(ts, '%H') IS NULL")) == [0, 1]
    assert hours(table.plan("strftime(ts, '%H') = '00'")) == [1]
    assert hours(table.plan("NOT strftime(ts, '%H') = '00'")) == [2]
    assert hours(table.plan("(strftime(ts, '%H') = '00') IS NULL")) == [0, 1]


def test_a_file_without_the_column_is_all_null(tmp_path: Path) -> None:
    write(tmp_path / "t", 0)
    pq.write_table(pa.table({"id": pa.array([9], pa.int32())}), tmp_path / "t" / "h01.parquet")
    table = pruner.open_table(tmp_path / "t")
    table.create_index("hour_idx", on="strftime(ts, '%H')")
    assert hours(table.plan("strftime(ts, '%H') = '00'")) == [0]
    assert hours(table.plan("strftime(ts, '%H') IS NULL")) == [1]


def test_a_column_that_files_hold_in_several_types(tmp_path: Path) -> None:
    """Integers of other widths are the same numbers; a float is another value when it is read as double (S19)."""
    write(tmp_path / "t", 0, n=pa.array([1] * 4, pa.int32()), f=pa.array([0.5] * 4, pa.float64()))
    write(tmp_path / "t", 1, n=pa.array([2] * 4, pa.int64()), f=pa.array([0.1] * 4, pa.float32()))
    table = pruner.open_table(tmp_path / "t")
    table.create_index("more", on="n + 1", using="bitmap")
    assert hours(table.plan("n + 1 = 3")) == [1]
    assert hours(table.plan("n + 1 = 2")) == [0]
    with pytest.raises(IndexDefinitionError, match="both double and float"):
        table.create_index("twice", on="f * 2.0", using="bitmap")


@pytest.mark.slow
def test_what_is_recorded_follows_the_table(hourly: pruner.Table, tmp_path: Path) -> None:
    hourly.create_index("hour_idx", on="strftime(ts, '%H')", using="bitmap")
    write(tmp_path / "t", 60)
    assert hours(hourly.plan("strftime(ts, '%H') = '12'")) == [12, 36, 60]
    assert hours(hourly.plan("strftime(ts, '%H') = '13'")) == [13, 37, 60], "not indexed yet"
    assert hourly.refresh().indexed == 1
    assert hours(hourly.plan("strftime(ts, '%H') = '13'")) == [13, 37]
    hourly.compact()
    assert hours(hourly.plan("strftime(ts, '%H') = '12'")) == [12, 36, 60]
    assert hourly.verify() == []
    assert {path.name for path in (tmp_path / "t.pruner").iterdir()} >= {"func_index_hour_idx"}
    [status] = hourly.status().indexes
    assert (status.columns, status.covered) == (("strftime(ts, '%H')",), HOURS + 1)
    first = next(iter(hourly.inspect("hour_idx")))
    assert first.key.startswith("format(ts, '%H')$00$.$h00.parquet")
    hourly.drop_index("hour_idx")
    assert hourly.plan("strftime(ts, '%H') = '12'").kept == HOURS + 1


@pytest.mark.slow
def test_a_definition_of_another_registry_is_not_used(
    hourly: pruner.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule R10: a function that changed no longer means what was recorded."""
    hourly.create_index("hour_idx", on="strftime(ts, '%H')", using="bitmap")
    monkeypatch.setattr("pruner.indexes.columns.reading.last_change", lambda _: 3)
    monkeypatch.setattr("pruner.maintenance.expressions.last_change", lambda _: 3)
    fresh = pruner.open_table(hourly.uri)
    assert fresh.plan("strftime(ts, '%H') = '12'").kept == HOURS
    with pytest.raises(IndexDefinitionError, match="version 2 of the registry"):
        fresh.refresh(index="hour_idx")
    assert "version 2 of the registry" in (fresh.status().indexes[0].note or "")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("my_udf(id)", ["my_udf", "not in the registry", "line 1, column 1"]),
        ("id + random()", ["rand", "not in the registry"]),
        ("now()", ["now"]),
        ("strftime(ts, '%B')", ["'%B'", "read alike"]),
        ("strftime(ts, city)", ["pattern", "not constant"]),
        ("upper('x')", ["function of constants"]),
        ("upper(nowhere)", ["no column 'nowhere'", "line 1, column 7"]),
        ("id > 5", ["conditions"]),
        ("id +", ["syntax error at line 1"]),
        ("sum(id)", ["sum", "not in the registry"]),
        ("id + city", ["add", "int32", "string"]),
    ],
)
def test_what_no_index_can_be_over_is_refused_by_name(
    hourly: pruner.Table, expression: str, words: list[str]
) -> None:
    with pytest.raises(IndexDefinitionError) as raised:
        hourly.create_index("i", on=expression)
    for word in words:
        assert word in str(raised.value)
    assert hourly.indexes() == ()


def test_an_index_is_over_one_expression(hourly: pruner.Table) -> None:
    with pytest.raises(IndexDefinitionError, match="one expression"):
        hourly.create_index("i", on=["id", "upper(city)"])


@pytest.mark.slow
def test_definitions_can_be_read_by_a_pruner_that_does_not_know_expressions(hourly: pruner.Table) -> None:
    """The path of the values begins with an empty name, which no table column has."""
    hourly.create_index("hour_idx", on="strftime(ts, '%H')", using="bitmap")
    [definition] = hourly.indexes()
    assert [field.path for field in definition.fields] == [("", "format(ts, '%H')")]
    assert msgspec.json.decode(msgspec.json.encode(definition), type=type(definition)) == definition


STATEMENTS = {
    "CREATE INDEX i ON t USING bitmap (strftime(ts, '%H'))": [12, 36],
    "CREATE FUNCTION INDEX IF NOT EXISTS i ON t (strftime(ts,\n '%H')); -- hour of day": [12, 36],
    "CREATE INDEX i USING column_stats ON t (strftime(ts, '%H')) OPTIONS (force = true)": [12, 36],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements(hourly: pruner.Table, statement: str) -> None:
    tables = {"t": hourly.uri}
    assert pruner.sql(statement, tables=tables).changed
    assert hours(pruner.open_table(hourly.uri).plan("strftime(ts, '%H') = '12'")) == STATEMENTS[statement]
    [row] = pruner.sql("SHOW INDEXES ON t", tables=tables).rows
    assert row["columns"][0].startswith("strftime(ts,")
    assert pruner.sql("DROP INDEX IF EXISTS i ON t", tables=tables).changed


@pytest.mark.slow
def test_statements_in_the_dialect_of_an_engine(hourly: pruner.Table) -> None:
    tables = {"t": hourly.uri}
    pruner.sql("CREATE INDEX i ON t USING bitmap (date_format(ts, 'HH'))", tables=tables, dialect="spark")
    assert hours(pruner.open_table(hourly.uri).plan("strftime(ts, '%H') = '12'")) == [12, 36]


def test_errors_point_at_the_token(hourly: pruner.Table) -> None:
    with pytest.raises(IndexDefinitionError, match="line 2, column 17"):
        pruner.sql("CREATE INDEX i ON t\n  USING bitmap (foo(id))", tables={"t": hourly.uri})
    with pytest.raises(IndexDefinitionError, match="line 1, column 25"):
        pruner.sql("CREATE INDEX i ON t (id +)", tables={"t": hourly.uri})
