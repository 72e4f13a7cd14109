"""`python -m benchmarks head-to-head` at a small size: the lake is its seed's, answers are compared, files counted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import polars as pl
import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from benchmarks.building import speed
from benchmarks.lakes.events import Events, Lake, spread
from benchmarks.peers import page
from benchmarks.peers.head_to_head import CONTENDERS, Effort, Truth, measure
from benchmarks.peers.questions import WORKLOADS
from benchmarks.peers.results import TOO_SLOW, Measured, Result
from benchmarks.peers.running import ENGINES, Asked, opened_in
from benchmarks.planning import scale

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 12
EVENTS = Events(FILES, 50)


@pytest.mark.slow
def test_a_seed_makes_the_same_files_and_another_one_others(tmp_path: Path) -> None:
    lakes = [Lake(tmp_path / name, events) for name, events in _seeds().items()]
    for lake in lakes:
        lake.write()
    one, again, other = (
        {file.name: file.read_bytes() for file in lake.data("parquet").iterdir()} for lake in lakes
    )
    assert len(one) == FILES
    assert one == again
    assert all(one[name] != other[name] for name in one)


def _seeds() -> dict[str, Events]:
    return {"one": EVENTS, "again": Events(FILES, 50), "other": Events(FILES, 50, seed=7)}


@pytest.mark.slow
def test_events_are_skewed_nested_unique_and_few_of_them_late() -> None:
    events = Events(10, 2_000)
    rows = pl.concat([pl.DataFrame(each) for each in events.batches()])
    assert rows["key"].n_unique() == rows["event_id"].n_unique() == len(rows)
    actors = rows["actor_id"].value_counts(sort=True)["count"].to_list()
    assert actors[0] > 100 * actors[len(actors) // 2]
    assert set(rows["payload"].struct.fields) == {"size", "action"}
    assert 0.3 < rows["tip_cents"].null_count() / len(rows) < 0.4
    # In the order in which they arrive, a late row is one before another that has arrived.
    late = rows.filter(pl.col("created_at") < pl.col("created_at").cum_max()).height / len(rows)
    assert 0.005 < late < 0.02


def test_keys_of_numbers_are_all_different_and_in_no_order() -> None:
    keys = spread(np.arange(100_000))
    assert len(np.unique(keys)) == 100_000
    assert keys.min() >= 0
    assert 0.49 < np.mean(np.diff(keys) > 0) < 0.51


@pytest.mark.slow
def test_all_formats_hold_the_same_rows_before_and_after_a_commit(tmp_path: Path) -> None:
    lake = Lake(tmp_path, EVENTS)
    lake.write()
    expected = pl.concat([pl.DataFrame(each) for each in EVENTS.batches()])
    assert pl.read_parquet(lake.data("parquet") / "*.parquet").equals(expected)
    assert pl.scan_delta(lake.location("delta")).sort("event_id").collect().equals(expected)
    assert (
        pl.DataFrame(StaticTable.from_metadata(lake.location("iceberg")).scan().to_arrow())
        .sort("event_id")
        .equals(expected)
    )
    for kind in ("delta", "iceberg"):
        grown = lake.append(2, kind)
        assert grown.events.span == EVENTS.span
        more = pl.concat([pl.DataFrame(each) for each in grown.events.batches()])
        assert more[: len(expected)].equals(expected)
        assert len(more) == len(expected) + 100
        if kind == "delta":
            found = pl.scan_delta(grown.location(kind)).sort("event_id").collect()
        else:
            found = pl.DataFrame(StaticTable.from_metadata(grown.location(kind)).scan().to_arrow())
        assert found.sort("event_id").equals(more)


@pytest.mark.slow
def test_bounds_in_deltas_log_are_those_of_the_rows(tmp_path: Path) -> None:
    lake = Lake(tmp_path, EVENTS)
    lake.write()
    actions = pl.DataFrame(DeltaTable(lake.location("delta")).get_add_actions(flatten=True))
    for row in actions.to_dicts():
        rows = pl.read_parquet(lake.data("delta") / row["path"])
        assert row["num_records"] == len(rows)
        for column in ("key", "created_at", "repo", "zone"):
            assert (row[f"min.{column}"], row[f"max.{column}"]) == (rows[column].min(), rows[column].max())


@pytest.mark.spark
def test_spark_writes_each_file_as_a_file_group(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(tmp_path, Events(5, 40))
    lake.write()
    lake.write_hudi(spark)
    files = sorted(lake.data("hudi").glob("*.parquet"))
    tables = [pl.read_parquet(file, columns=["event_id"]) for file in files]
    ids = sorted(sorted(each["event_id"].to_list()) for each in tables)
    assert ids == [list(range(start, start + 40)) for start in range(0, 200, 40)]


def test_who_opens_a_file_is_seen_from_outside(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet", "c.parquet", "note.txt"):
        (tmp_path / name).write_bytes(b"x")
    with opened_in(tmp_path) as names:
        (tmp_path / "a.parquet").read_bytes()
        (tmp_path / "note.txt").read_bytes()
        (tmp_path / "c.parquet").stat()
        duckdb.connect().execute(f"SELECT * FROM read_text('{tmp_path}/b.parquet')").fetchall()
    assert names == {"a.parquet", "b.parquet"}


IMPATIENT_READER = """
import json, sys, time
opened = None
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    question = json.loads(line)
    opened = question.get("open", opened)
    if question.get("ask") == "slow":
        time.sleep(60)
    if question.get("ask") == "end":
        sys.exit(3)
    print(json.dumps({"rows": opened, "wall": 0, "processor": 0}), flush=True)
"""


def test_a_reader_that_takes_too_long_starts_anew_and_has_the_table_open() -> None:
    asked = Asked("a reader", [sys.executable, "-c", IMPATIENT_READER], patience=2)
    asked.open("here")
    assert asked.ask("quick", {})["rows"] == "here"
    assert asked.ask("slow", {}) == {"error": TOO_SLOW}
    assert asked.ask("quick", {})["rows"] == "here"
    with pytest.raises(SystemExit, match="a reader ended with 3"):
        asked.ask("end", {})


def test_what_took_too_long_or_has_no_answer_stands_in_the_tables() -> None:
    contender = CONTENDERS[0]
    measured = Measured(contender, "1", opened={"key": 2}, refused={"cold": TOO_SLOW, "keys": TOO_SLOW})
    for seconds in (9.0, 0.1, 0.2, 0.3):
        measured.add("key", {"wall": 1.0, "processor": seconds})
    text = page.tables(Result(1_000, 1_000, {"parquet": 1}, [measured], [], {}, "1 core"))
    assert "| 200 (2) | > 120,000 by the clock | – |" in text
    assert "| > 120,000 by the clock | > 120,000 by the clock | – | – |" in text


def test_a_lake_that_is_measured_anew_takes_the_place_of_its_own_tables_alone(tmp_path: Path) -> None:
    written, picture = tmp_path / "page.md", tmp_path / "plot.svg"
    picture.write_text("older")
    sections = "".join(f"### {files:,} files of 1 rows\nolder\n\n" for files in (10_000, 1_000, 200, 100))
    written.write_text(f"before\n{page.BEGIN}\n{sections}{page.END}\nafter\n")
    page.write([Result(1_000, 1_000, {}, [], [], {}, "a machine")], (10_000, 1_000, 200), written, picture)
    text = written.read_text()
    assert text.startswith(f"before\n{page.BEGIN}\n### 10,000 files of 1 rows\nolder\n\n### 1,000 files")
    assert "Taken on a machine.\n" in text
    assert text.endswith(f"\n### 200 files of 1 rows\nolder\n{page.END}\nafter\n")
    assert picture.read_text() == "older", "it shows the largest lake"


def test_rows_that_a_lake_gained_are_known_and_forgotten() -> None:
    truth = Truth(EVENTS)
    for files in (FILES + 2, FILES, FILES + 1):
        truth.follow(Events(files, 50, share=FILES))
        truth.check("count", {}, [[files * 50]], "a reader")


def test_a_wrong_answer_ends_the_run() -> None:
    truth = Truth(EVENTS)
    truth.check("count", {}, [[600]], "a reader")
    with pytest.raises(SystemExit, match="a reader answers count"):
        truth.check("count", {}, [[599]], "a reader")
    with pytest.raises(SystemExit, match="a reader answers limit"):
        truth.check("limit", {}, [[-1]], "a reader")


@pytest.mark.slow
def test_each_reader_answers_and_page_and_plot_are_made(tmp_path: Path) -> None:
    """Those readers that this environment has; their answers are compared as they come."""
    here = [
        each
        for each in CONTENDERS
        if each.kind != "hudi"
        and each.reader not in ENGINES
        and (each.reader != "duckdb" or each.kind == "parquet")
    ]
    result = measure(FILES, rows=50, effort=Effort(1, 1, apart=False), contenders=here)
    assert [each.contender for each in result.measured] == here
    for each in result.measured:
        missing = {"top", "join"} if each.contender.reader == "pyiceberg" else set[str]()
        assert set(each.refused) == missing, (each.contender, each.refused)
        assert {*WORKLOADS, "cold", "fresh"} - missing == set(each.processor)
        assert each.opened["nothing"] == FILES, each.contender
        if each.contender.reader == "pruner":
            assert each.opened["key"] == 1
            assert each.opened["window"] <= 2
            if "native" in each.contender.options:
                assert each.opened["join"] <= 2, "the first file is opened for its columns, too"
            else:
                assert each.opened["top"] < FILES, "of Delta and Iceberg by their own statistics"
    assert {(each.kind, each.name) for each in result.built} == {
        ("parquet", "statistics"),
        *((kind, name) for kind in ("parquet", "delta", "iceberg") for name in ("keys", "rare")),
    }
    written, picture = tmp_path / "page.md", tmp_path / "plot.svg"
    written.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    page.write([result], [FILES], written, picture)
    text = written.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "\nold\n" not in text
    assert text.count("| pruner in DuckDB ") == 6
    assert "an hour" in picture.read_text()


@pytest.mark.slow
def test_plans_over_made_up_slices_are_measured_and_extrapolated_by_a_line() -> None:
    figures = {count: scale.measured(count) for count in (1_000, 2_000)}
    for found in figures.values():
        assert len(found) == len(scale.HEADINGS)
        assert min(found) > 0
    assert scale.extrapolated({1: [5.0, 1.0], 10: [7.0, 0.0], 20: [9.0, 3.0]}, 40) == [13.0, 9.0]
    assert scale.table(figures).row_count == 3


@pytest.mark.slow
def test_building_each_index_is_measured_beside_its_floor() -> None:
    found = speed.measure(6, 40, runs=1)
    assert [each.using for each in found] == list(speed.BUILDS)
    for each in found:
        assert min(each.build, each.floor, each.column_bytes, each.index_bytes) > 0
        assert len(each.profile) == speed.SHOWN
        assert 0 < sum(share for _, share in each.profile) <= 1


def test_the_page_is_short_enough_to_be_read() -> None:
    prose = [line for line in page.PAGE.read_text("utf-8").splitlines() if not line.startswith("|")]
    assert sum(len(line.split()) for line in prose) <= 800
