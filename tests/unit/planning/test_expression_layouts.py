"""RFC-63's use cases: files by the hour, partitions that evolve, separate roots, partition values as an index."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from pruner.indexes import partition_stats

OCTOBER = datetime.datetime(2022, 10, 1)
DAYS = 31
HOURS_A_DAY = 24
TIME_OF_DAY = "strftime(ts, '%H') BETWEEN '12' AND '13'"
MONTH = "strftime(ts, '%Y-%m-%d') BETWEEN '2022-10-01' AND '2022-10-31'"


def _write(file: Path, hour: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    start = OCTOBER + datetime.timedelta(hours=hour)
    ts = [start, start + datetime.timedelta(minutes=59, seconds=59)]
    pq.write_table(pa.table({"ts": pa.array(ts, pa.timestamp("us")), "hour": [hour] * 2}), file)


def _hours(plan: pruner.Plan) -> list[int]:
    return sorted(int(Path(file).stem.rpartition("-")[2]) for file in plan.files)


def _of_day(hours: Iterable[int], *wanted: int) -> list[int]:
    return [hour for hour in hours if hour % HOURS_A_DAY in wanted]


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> pruner.Table:
    """744 files of an hour each; the first half of the month is in one folder, the rest in one folder for each day.

    The folders say nothing that applies to every file: the table's partitions evolved. Groups of slices have records,
    too.
    """
    root = tmp_path_factory.mktemp("month") / "events"
    for hour in range(DAYS * HOURS_A_DAY):
        day = OCTOBER + datetime.timedelta(hours=hour)
        folder = "old" if day.day < 16 else f"new/{day:%d}"
        _write(root / folder / f"base-{hour}.parquet", hour)
    table = pruner.open_table(root)
    table.create_index("hour_idx", on="strftime(ts, '%H')", using="bitmap", build=False)
    table.create_index("datestr", on="strftime(ts, '%Y-%m-%d')", build=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(partition_stats, "LEAST_SLICES", 64)
        assert table.refresh().indexed == DAYS * HOURS_A_DAY
    return pruner.open_table(root)


@pytest.mark.load
def test_hour_of_day_over_a_month_reads_two_files_of_24(month: pruner.Table) -> None:
    table, every = month, range(DAYS * HOURS_A_DAY)
    assert _hours(table.plan(f"{MONTH} AND {TIME_OF_DAY}")) == _of_day(every, 12, 13)
    one_day = table.plan(f"strftime(ts, '%Y-%m-%d') = '2022-10-16' AND {TIME_OF_DAY}")
    assert _hours(one_day) == [15 * 24 + 12, 15 * 24 + 13]
    plan = table.plan("strftime(ts, '%Y-%m-%d') < '2022-10-03'")
    assert _hours(plan) == list(range(48))


@pytest.mark.load
def test_queries_of_duckdb_count_the_same_rows(month: pruner.Table) -> None:
    con = pruner_duckdb.connect({"events": month})
    query = f"SELECT count(*), min(hour) FROM events WHERE {TIME_OF_DAY}"
    assert con.execute(query).fetchall() == [(DAYS * 4, 12)]
    assert (con.last_plans[-1].kept, con.last_plans[-1].total) == (DAYS * 2, DAYS * HOURS_A_DAY)
    grouped = "SELECT strftime(ts, '%H') AS h, count(*) FROM events WHERE hour(ts) < 99 GROUP BY h ORDER BY h LIMIT 1"
    assert con.execute(grouped).fetchall() == [("00", DAYS * 2)]


@pytest.mark.load
def test_groups_of_slices_know_expressions(month: pruner.Table) -> None:
    """`partition_stats` of an expression: neighboring slices are checked first."""
    stored = {path.name for path in Path(month.index_uri).iterdir()}
    assert stored >= {"func_index_datestr", "func_index_hour_idx", "partition_stats"}
    assert month.verify() == []
    assert _hours(month.plan("strftime(ts, '%Y-%m-%d') = '2022-10-02'")) == list(range(24, 48))
    assert _hours(month.plan("strftime(ts, '%Y-%m-%d') = '2022-10-20'")) == list(range(19 * 24, 20 * 24))


@pytest.mark.slow
def test_roots_with_random_prefixes(tmp_path: Path) -> None:
    roots = [tmp_path / prefix / "events" for prefix in ("7f3a", "b210", "c9")]
    for hour in range(48):
        _write(roots[hour % 3] / f"base-{hour}.parquet", hour)
    table = pruner.open_table(roots, index_uri=str(tmp_path / "index"))
    table.create_index("hour_idx", on="strftime(ts, '%H')", using="bitmap")
    assert _hours(table.plan(TIME_OF_DAY)) == [12, 13, 36, 37]


@pytest.mark.slow
def test_a_partition_value_and_an_expression_over_the_column_that_it_was_made_of(tmp_path: Path) -> None:
    """What RFC-63 calls viewing the partition as an index: files that are stored elsewhere are found as well."""
    for hour in range(72):
        day = OCTOBER + datetime.timedelta(hours=hour)
        late = hour == 30  # arrived a day late, and is in the folder of that day
        folder = f"day={day + datetime.timedelta(days=late):%Y-%m-%d}"
        _write(tmp_path / "t" / folder / f"base-{hour}.parquet", hour)
    table = pruner.open_table(tmp_path / "t")
    table.create_index("day_idx", on="strftime(ts, '%Y-%m-%d')", using="bitmap")
    assert _hours(table.plan("strftime(ts, '%Y-%m-%d') = '2022-10-02'")) == list(range(24, 48))
    by_path = table.plan("day = DATE '2022-10-02'")
    assert _hours(by_path) == [hour for hour in range(24, 48) if hour != 30]
    both = table.plan("day_idx = '2022-10-02' AND day = DATE '2022-10-03'")
    assert _hours(both) == [30]
