"""`python -m benchmarks head-to-head` at a small size: the seed fixes the lake, answers are compared, files counted."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from benchmarks.building import speed
from benchmarks.lakes.events import Events, Lake, spread
from benchmarks.peers import engine_readers, over_store, page
from benchmarks.peers.head_to_head import CONTENDERS, Effort, Truth, ask_in_turns, chosen, measure
from benchmarks.peers.questions import WORKLOADS, answered
from benchmarks.peers.results import MANY, NO_WAY, TOO_SLOW, Built, Contender, Counted, Measured, Result
from benchmarks.peers.running import ENGINES, Asked, opened_in
from benchmarks.planning import scale

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
    # In arrival order, a late row is one older than a row that has already arrived.
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


class Scripted:
    """A reader that counts 600 rows in a given time, or fails at every question but the first."""

    title = "a reader"

    def __init__(self, seconds: float, error: str | None = None) -> None:
        self.asked, self.starts = 0, 0
        self._seconds, self._error = seconds, error

    def ask(self, workload: str, values: dict[str, Any]) -> dict[str, Any]:
        self.asked += 1
        if self._error is not None and self.asked > 1:
            return {"error": self._error}
        return {"rows": [[FILES * 50]], "wall": self._seconds, "processor": self.asked / 1e3}

    def start_anew(self) -> None:
        self.starts += 1


def test_readers_with_fast_answers_are_asked_often_enough_for_a_percentile(tmp_path: Path) -> None:
    readers = {
        "fast": Scripted(0.2),
        "slow": Scripted(0.3),
        "slower": Scripted(6.0),
        "none": Scripted(0, NO_WAY),
    }
    found = {name: Measured(CONTENDERS[0], "1") for name in readers}
    ask_in_turns("count", readers, found, Truth(EVENTS), tmp_path, Effort())
    # The first answer warms up, and one more counts the files.
    assert {name: reader.asked for name, reader in readers.items()} == {
        "fast": 1 + MANY + 1,
        "slow": 1 + 3 + 1,
        "slower": 1,
        "none": 2,
    }
    assert found["fast"].late == {"count": 0.020}, "the 19th of 20: those from 2 to 21 ms"
    assert not any(found[name].late for name in ("slow", "slower", "none"))
    text = page.tables(Result(FILES, FILES * 50, {}, [found["fast"], found["slow"]], [], {}, "1 core"))
    assert "| 12 / 20 (0) |" in text
    assert "| 3.0 (0) |" in text


def test_a_reader_that_fails_starts_anew_and_the_table_names_the_error(tmp_path: Path) -> None:
    reader, measured = Scripted(0.1, "OutOfMemoryError: Java heap space"), Measured(CONTENDERS[0], "1")
    ask_in_turns("count", {"it": reader}, {"it": measured}, Truth(EVENTS), tmp_path, Effort())
    assert reader.starts == 1
    assert reader.asked == 3, "the last time to warm up"
    text = page.tables(Result(FILES, FILES * 50, {}, [measured], [], {}, "1 core"))
    assert "| fails: OutOfMemoryError |" in text
    assert "1.0 (0)" not in text, "its first answer is no figure where others failed"


def test_an_error_is_named_by_its_cause_in_java() -> None:
    def told(message: str) -> str:
        return answered(Failing(message), {"open": "x"}, time.process_time)["error"]

    assert told("no such table: a.b.Error").startswith("ValueError: no such table")
    assert told(
        "Error in o1.\n: org.apache.SparkException: Job: at x\nCaused by: java.lang.OutOfMemoryError: heap"
    ) == (
        "OutOfMemoryError: Error in o1. : org.apache.SparkException: Job: at x "
        "Caused by: java.lang.OutOfMemoryError: heap"
    )


class Failing:
    def __init__(self, message: str) -> None:
        self._message = message

    def open(self, location: str) -> None:
        raise ValueError(self._message)

    def ask(self, workload: str, values: dict[str, Any]) -> None:
        raise NotImplementedError


def test_requests_of_first_and_second_answers_stand_between_their_marks(tmp_path: Path) -> None:
    counted = Counted(CONTENDERS[0], "1", {"key": [(1_200, 4_560_000), (3, 0)], "top": [(7, 0)]})
    counted.refused = {"join": NO_WAY, "top": TOO_SLOW, "count": "IOException: gone"}
    written = tmp_path / "page.md"
    written.write_text(f"before\n{page.STORE_BEGIN}\nold\n{page.STORE_END}\nafter\n")
    page.write_requests(page.requests([counted], 1_000, 20), written)
    text = written.read_text()
    assert text.startswith(f"before\n{page.STORE_BEGIN}\n1,000 files of 20 rows: ")
    assert (
        "| 1,200 (4.6) / 3 (0.0) | – | – | – | 7 (0.0) / > 120,000 by the clock | fails: IOException |"
        in text
    )
    assert text.endswith(f"|\n{page.STORE_END}\nafter\n")
    other = Counted(CONTENDERS[1], "1", {"key": [(5, 0), (6, 0)]})
    newer = Counted(CONTENDERS[0], "1.1", {"key": [(2, 0), (1, 0)]})
    page.write_requests(page.requests([counted, other], 1_000, 20), written)
    page.renew_requests(page.requests([newer], 1_000, 20), written)
    renewed = page.requests([newer, other], 1_000, 20)
    assert written.read_text() == f"before\n{page.STORE_BEGIN}\n{renewed}{page.STORE_END}\nafter\n"
    real = page.PAGE.read_text("utf-8")
    assert real.index(page.END) < real.index(page.STORE_BEGIN) < real.index(page.STORE_END)


@pytest.mark.processes
def test_a_second_question_of_a_process_asks_a_store_for_less() -> None:
    [found] = over_store.measure(3, rows=50, contenders=over_store.CONTENDERS[:1], workloads=["window"])
    assert found.refused == {}
    first, second = found.taken["window"]
    assert first > second
    assert second[0] > 0, "the table is looked at"


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


def test_readers_that_are_measured_anew_take_the_place_of_their_own_rows_alone(tmp_path: Path) -> None:
    def lake(files: int, seconds: float, version: str, *titles: str) -> Result:
        measured = [Measured(Contender(title, "delta", "it"), version) for title in titles]
        for each in measured:
            for what in (*WORKLOADS, "cold"):
                each.opened[what] = 1
                each.add(what, {"processor": seconds, "wall": seconds})
        return Result(
            files, files, {"delta": 1}, measured, [Built("delta", "keys", 1, 1, 1)], {}, "a machine"
        )

    written = tmp_path / "page.md"
    older = [lake(files, 1.0, "1.0", "Spark", "pruner in Spark") for files in (10_000, 1_000)]
    behind = f"{page.END}\n### 1,000 files of old\n| a | b |\n"
    written.write_text(f"{page.BEGIN}\n{''.join(map(page.tables, older))}{behind}")
    assert page.has_tables(1_000, written)
    assert not page.has_tables(100, written)
    page.renew(lake(1_000, 2.0, "1.1.2", "Spark"), written)
    newer = lake(1_000, 1.0, "1.0", "Spark", "pruner in Spark")
    newer.measured[0] = lake(1_000, 2.0, "1.1.2", "Spark").measured[0]
    expected = "".join(map(page.tables, [older[0], newer]))
    assert written.read_text() == f"{page.BEGIN}\n{expected}{behind}"


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
    """The readers that this environment has; their answers are compared as they arrive."""
    here = [
        each
        for each in CONTENDERS
        if each.kind != "hudi"
        and each.reader not in ENGINES
        and (each.reader != "duckdb" or each.kind == "parquet")
    ]
    result = measure(FILES, rows=50, effort=Effort(1, 1, apart=False, many=1), contenders=here)
    assert [each.contender for each in result.measured] == here
    for each in result.measured:
        missing = {"top", "join"} if each.contender.reader == "pyiceberg" else set[str]()
        assert set(each.refused) == missing, (each.contender, each.refused)
        assert {*WORKLOADS, "cold", "fresh"} - missing == set(each.processor)
        assert each.opened["nothing"] == FILES, each.contender
        if each.contender.reader == "pruner":
            assert each.opened["window"] <= 2
            assert each.opened["join"] <= 2
            if "native" in each.contender.options:
                # The first file is also opened for its columns.
                assert each.opened["key"] <= 2
            else:
                assert each.opened["key"] == 1
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


def test_the_processor_time_of_a_reader_is_also_that_of_what_it_has_started() -> None:
    program = "sum(range(10_000_000)); print(flush=True); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True) as busy:
        engine_readers._below.cache_clear()  # pyright: ignore[reportPrivateUsage]
        own, before = time.process_time(), engine_readers.processor()
        assert busy.stdout is not None
        busy.stdout.readline()
        spent = engine_readers.processor() - before
        own = time.process_time() - own
        busy.communicate("\n")
    engine_readers._below.cache_clear()  # pyright: ignore[reportPrivateUsage]
    assert spent > own + 0.05


def test_engines_are_asked_about_lakes_that_they_read_in_time() -> None:
    engines = [each for each in CONTENDERS if each.reader in ENGINES]
    formats = {"parquet", "delta", "iceberg", "hudi"}
    assert {each.kind for each in engines if each.reader == "pruned-spark"} == formats
    assert {each.kind for each in engines if each.reader == "pruned-trino"} == formats - {"delta"}
    assert all(each in chosen(1_000, ()) for each in engines)
    assert not any(each in chosen(10_000, ()) for each in engines)
    assert {each.title for each in chosen(10_000, ["Spark"])} == {"Spark", "pruner in Spark"}
    assert {each.kind for each in chosen(1_000, ["Spark of hudi"])} == {"hudi"}


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
