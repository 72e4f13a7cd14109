"""`pruner query` and `pruner plan` accept the name of an index over an expression as a column."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from tests.unit.cli.conftest import Run

HOURS = 30


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each of 30 hours, of instants, with two indexes over expressions."""
    root = tmp_path_factory.mktemp("names") / "events"
    root.mkdir()
    for hour in range(HOURS):
        moment = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=hour)
        rows = {"ts": pa.array([moment] * 2, pa.timestamp("us", "UTC")), "order": pa.array([hour, hour + 1])}
        pq.write_table(pa.table(rows), root / f"h{hour:02}.parquet")
    table = pruner.open_table(root)
    table.create_index("hour_idx", on="date_format(ts, '%H')", using="bitmap", dialect="trino")
    table.create_index("Following", on='"order" + 1', using="bitmap")
    return root


QUERIES = {
    "SELECT count(*) AS n FROM events WHERE hour_idx = '02'": ("4", "2 of 30"),
    "SELECT count(*) AS n FROM events e WHERE e.HOUR_IDX = '02' OR \"hour_idx\" IN ('03')": ("8", "4 of 30"),
    "SELECT count(*) AS n FROM events WHERE following = 31": ("1", "1 of 30"),
    "SELECT sum(following) AS n FROM events WHERE hour_idx = '07' AND 'hour_idx' <> ''": ("17", "1 of 30"),
    "WITH w AS (SELECT hour_idx FROM events) SELECT count(*) AS n FROM w WHERE hour_idx < '01'": (
        "4",
        "2 of 30",
    ),
    "SELECT max(hour_idx) AS n FROM (SELECT hour_idx, ts FROM events) WHERE hour_idx < '04'": (
        "03",
        "8 of 30",
    ),
    "SELECT max(h) AS n FROM (SELECT hour_idx AS h FROM events GROUP BY ALL) WHERE h < '04'": (
        "03",
        "8 of 30",
    ),
    "SELECT hour_idx AS n FROM events WHERE hour_idx = '09' GROUP BY hour_idx ORDER BY hour_idx": (
        "09",
        "1 of 30",
    ),
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("text", QUERIES)
def test_a_query_names_an_index(run: Run, events: Path, text: str, zone: str) -> None:
    ran = run("query", f"SET TimeZone = '{zone}'; {text}", "--table", f"events={events}")
    count, slices = QUERIES[text]
    assert (ran.code, ran.out.split()) == (0, ["n", count]), ran.err
    assert f"events: {slices} files read" in ran.err


@pytest.mark.slow
def test_a_selected_index_has_its_name(run: Run, events: Path) -> None:
    ran = run(
        "query", "SELECT Hour_Idx, following FROM events WHERE following = 31", "--table", f"events={events}"
    )
    assert ran.out.split() == ["Hour_Idx", "following", "05", "31"]


@pytest.mark.slow
def test_a_column_goes_before_an_index(run: Run, events: Path, tmp_path: Path) -> None:
    events = Path(shutil.copytree(events, tmp_path / "events"))
    pruner.open_table(events).create_index("order", on='"order" + 5')
    ran = run("query", 'SELECT max("order") AS n FROM events', "--table", f"events={events}")
    assert ran.out.split() == ["n", "30"]


def test_what_is_neither_is_refused_as_ever(run: Run, events: Path) -> None:
    ran = run("query", "SELECT nothing FROM events", "--table", f"events={events}")
    assert ran.code == 1
    assert 'Referenced column "nothing" not found' in ran.err


@pytest.mark.slow
def test_of_two_tables_with_one_name_none_is_meant(run: Run, events: Path, tmp_path: Path) -> None:
    tables = ("--table", f"events={events}", "--table", f"other={events}")
    ran = run("query", "SELECT 1 FROM events JOIN other USING (ts) WHERE hour_idx = '02'", *tables)
    assert ran.code == 1
    assert "hour_idx" in ran.err


def test_plan_names_an_index(run: Run, events: Path) -> None:
    assert run("plan", events, "--where", "hour_idx = '02'").out.startswith("2 of 30 files to read")
    assert run("explain", events, "--where", "Following BETWEEN 31 AND 40").code == 0


def test_a_table_with_an_alias_is_one_table(
    run: Run, events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pruner.toml").write_text(
        f"[tables.events]\nuri = '{events}'\naliases = ['hive.web.events']\n"
    )
    monkeypatch.setenv("PRUNER_CONFIG", str(tmp_path / "pruner.toml"))
    ran = run("query", "SELECT count(*) AS n FROM events WHERE hour_idx = '02'")
    assert ran.out.split() == ["n", "4"], ran.err
    assert ran.err.count("\n") == 1, "the attempt without the index is not told"
    assert "events: 2 of 30 files read" in ran.err
