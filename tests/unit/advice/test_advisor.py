"""The advisor against the truth: its forecasts are measured, and its proposals are compared with all alternatives."""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.advice.forecast import Estimator
from pruner.advice.proposals import Cost, chosen, described, possible
from pruner.advice.questions import asked
from pruner.advice.trials import Candidate
from pruner.metadata.segment_cache import SegmentCache
from pruner.metadata.table import MetadataTable
from pruner.storage.opening import open_store
from tests.unit.advice.lakes import FILES, LAKES, Lake, written

pytestmark = pytest.mark.load

FEWER = pruner.SampleLimits(data_files=30)


@pytest.fixture(scope="module", params=LAKES)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return LAKES[request.param](tmp_path_factory.mktemp("lake") / request.param)


def plans_of(lake: Lake) -> list[pruner.Plan]:
    table = pruner.open_table(lake.root)
    return [table.plan(question) for question in lake.questions]


def built(lake: Lake, advice: pruner.Advice, place: Path) -> pruner.Table:
    """The table with all proposals built, in another location: the lake itself stays unchanged."""
    table = pruner.open_table(lake.root, index_uri=str(place))
    for each in advice.proposals:
        table.create_index(each.name, on=each.column.split(", "), using=each.using)
    return table


def test_forecasts_from_all_files_are_what_is_measured(lake: Lake, tmp_path: Path) -> None:
    advice = pruner.open_table(lake.root).advise(plans_of(lake))
    table = built(lake, advice, tmp_path / "indexes")
    assert advice.sampled == FILES
    for each in advice.questions:
        plan = table.plan(each.predicate)
        assert (round(each.files_then), round(each.bytes_then)) == (plan.kept, plan.bytes_kept), each


def test_forecasts_from_a_sample_are_near_what_is_measured(lake: Lake, tmp_path: Path) -> None:
    """All questions together within 20 %; each within a fifth of the files, as a question may be about two of them."""
    advice = pruner.open_table(lake.root).advise(plans_of(lake), limits=FEWER)
    table = built(lake, advice, tmp_path / "indexes")
    assert advice.sampled == 30
    measured = [(each, table.plan(each.predicate)) for each in advice.questions]
    files, size = (
        sum(each.times * found for each, found in pairs)
        for pairs in (
            [(each, plan.kept) for each, plan in measured],
            [(each, plan.bytes_kept) for each, plan in measured],
        )
    )
    assert sum(each.files_then * each.times for each in advice.questions) == pytest.approx(files, rel=0.2)
    assert advice.bytes_then == pytest.approx(size, rel=0.2)
    for each, plan in measured:
        assert each.files_then == pytest.approx(plan.kept, abs=FILES / 5), each


def test_the_first_three_save_nearly_what_the_best_three_do(lake: Lake, tmp_path: Path) -> None:
    table = pruner.open_table(lake.root)
    questions = asked(plans_of(lake))
    candidates = list(possible(questions, []))
    metadata = MetadataTable(open_store(str(tmp_path / "none"), {}))
    segments = SegmentCache(lambda: metadata, 0)
    estimator = Estimator(table.snapshot().data, segments, candidates, {}, pruner.SampleLimits())

    def saved(indexes: list) -> float:
        return estimator.total(questions, []).bytes - estimator.total(questions, indexes).bytes

    picked = chosen(estimator, questions, [], candidates, lambda _: Cost(1, 0.0, None))
    best = max(saved(list(three)) for three in combinations(candidates, 3))
    assert best > 0
    assert saved(picked[:3]) >= 0.9 * best


def test_a_layout_saves_as_much_as_forecast(tmp_path: Path) -> None:
    """The skewed lake is rewritten in the proposed order, and measured with ranges of every column."""
    lake = LAKES["skewed"](tmp_path / "skewed")
    advice = pruner.open_table(lake.root).advise(plans_of(lake))
    best = advice.layouts[0]
    assert (best.column, best.kind) == ("tenant", "sort")
    rows = pa.concat_tables([pq.read_table(path) for path in sorted(lake.root.glob("*.parquet"))])
    ordered = written(tmp_path / "sorted", rows.sort_by("tenant"), lake.questions)
    table = pruner.open_table(ordered.root)
    table.create_index("stats", on="*")
    plans = [table.plan(each.predicate) for each in advice.questions]
    times = [each.times for each in advice.questions]
    files = sum(plan.kept * count for plan, count in zip(plans, times, strict=True))
    read = sum(plan.bytes_kept / plan.bytes_total * count for plan, count in zip(plans, times, strict=True))
    assert best.files == pytest.approx(files, rel=0.2)
    assert best.bytes == pytest.approx(read * advice.bytes, rel=0.2)


def test_the_order_that_files_have_is_no_layout(tmp_path: Path) -> None:
    root = tmp_path / "ordered"
    root.mkdir()
    for day in range(20):
        pq.write_table(
            pa.table({"day": [day] * 50, "id": range(day * 50, day * 50 + 50)}), root / f"{day:02}.parquet"
        )
    table = pruner.open_table(root)
    advice = table.advise([table.plan("day = 3"), table.plan("id = 700")])
    assert advice.bytes_then < advice.bytes_now / 5
    assert advice.layouts == (), "ranges of the files as they lie leave as little"


def test_uuids_are_looked_up(tmp_path: Path) -> None:
    """DuckDB reads as UUIDs what the table stores as 16 bytes."""
    root = tmp_path / "keys"
    root.mkdir()
    for number in range(20):
        keys = f"SELECT md5({number} || '-' || i)::UUID AS key FROM range(500) AS r(i)"
        duckdb.execute(f"COPY ({keys}) TO '{root}/{number:02}.parquet'")
    table = pruner.open_table(root)
    advice = table.advise([table.plan("key = '8ef2a9d0-3f1c-4e0b-9d5f-0123456789ab'", dialect="duckdb")])
    [proposal] = advice.proposals
    assert proposal.using == "bloom_filter"
    assert advice.questions[0].files_then < 3


def test_what_no_column_answers_is_named(tmp_path: Path) -> None:
    lake = LAKES["skewed"](tmp_path / "skewed")
    table = pruner.open_table(lake.root)
    advice = table.advise([table.plan("reverse(level) = 'x'")] * 2)
    assert advice.questions == ()
    [note] = advice.notes
    assert "reverse" in note
    assert "expression" in note


def test_what_saved_nothing_is_named(tmp_path: Path) -> None:
    lake = LAKES["skewed"](tmp_path / "skewed")
    table = pruner.open_table(lake.root)
    table.create_index("days", on="day")
    table.create_index("costs", on="cost")
    table.create_index("shares", on="upper(level)")
    table.create_index("unasked", on="session", using="bloom_filter")
    advice = table.advise([table.plan("day = 3"), table.plan("cost > 9")])
    assert advice.useless == {
        "costs": "it saved nothing: no file is left out that would not be without it",
        "unasked": "it saved nothing: no question is about its columns",
    }
    assert advice.notes == ("index shares is not judged: it is over an expression or partial",)
    assert advice.questions[0].files_now < 3
    assert all("day" not in each.column.split(", ") for each in advice.proposals)


def test_of_two_indexes_that_do_the_same_one_is_left(tmp_path: Path) -> None:
    """Drops are judged one by one: each of the two is useless beside the other, but both together are not."""
    lake = LAKES["skewed"](tmp_path / "skewed")
    table = pruner.open_table(lake.root)
    table.create_index("ranges", on="day")
    table.create_index("values", on="day", using="bitmap")
    asked_for = "day = 3"
    before = table.plan(asked_for).kept
    advice = table.advise([table.plan(asked_for)])
    assert len(advice.useless) == 1, advice.useless
    for name in advice.useless:
        table.drop_index(name)
    assert table.plan(asked_for).kept == before < FILES
    assert table.advise([table.plan(asked_for)]).useless == {}, "the one that is left is needed"


def test_no_drop_while_a_statement_is_not_judged(tmp_path: Path) -> None:
    lake = LAKES["skewed"](tmp_path / "skewed")
    table = pruner.open_table(lake.root)
    table.create_index("costs", on="cost")
    assert "costs" in table.advise([table.plan("day = 3")]).useless
    advice = table.advise([table.plan("day = 3"), table.plan("reverse(level) = 'x'")])
    assert advice.useless == {}
    assert advice.notes[-1] == "no DROP INDEX is proposed: an index can help a statement that was not judged"
    assert table.advise(limits=FEWER).useless == {}, "no statement says what an index is for"


def test_what_is_not_judged_is_told_with_the_reason(tmp_path: Path) -> None:
    """No index over an expression helps to compare a UUID with a text that is not one."""
    (tmp_path / "t").mkdir()
    duckdb.sql(f"COPY (SELECT uuid() AS key, 'a' AS name FROM range(9)) TO '{tmp_path}/t/0.parquet'")
    table = pruner.open_table(tmp_path / "t")
    for no_function, reason in {
        "key = 'abc'": "the text is not plainly a value of the column's type",
        "name LIKE '%function'": "the pattern starts with a wildcard",
        "name = name": "it does not compare a column with a constant",
    }.items():
        advice = table.advise([table.plan(no_function, dialect="duckdb")])
        [note] = (note for note in advice.notes if note.startswith("not judged"))
        assert note == f"not judged, no index over a column answers it: {no_function}: {reason}"
        assert not advice.proposals
    for function in ("reverse(name) = 'ab'", "reverse(name) = 'ab' AND name = name", "md5(name) LIKE '%a%'"):
        advice = table.advise([table.plan(function, dialect="duckdb")])
        [note] = (note for note in advice.notes if note.startswith("not judged"))
        called = function.partition("(")[0]
        assert note.startswith(
            f"not judged, no index over a column answers it, one over an expression may: {called}(name)"
        )
        assert not advice.proposals


def test_without_statements_the_data_ask(tmp_path: Path) -> None:
    lake = LAKES["skewed"](tmp_path / "skewed")
    advice = pruner.open_table(lake.root).advise(limits=FEWER)
    assert {name for each in advice.proposals for name in each.column.split(", ")} >= {"day", "session"}
    assert "no statement was given" in advice.notes[0]


def test_tables_that_are_hard_to_read_get_what_advice_there_is(tmp_path: Path) -> None:
    """An empty file, a broken file, and a column with different types in two files, beside one that all files have."""
    for number in range(6):
        columns = {"day": [number] * 5, "x": pa.array([str(number)] * 5) if number == 1 else [number] * 5}
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    pq.write_table(pa.table({"day": pa.array([], pa.int64())}), tmp_path / "none.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1junkPAR1")
    for path in tmp_path.glob("*.parquet"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    table = pruner.open_table(tmp_path, index_uri=str(tmp_path.parent / "elsewhere"))
    for plans in ([], [table.plan("day = 3")]):
        advice = table.advise(plans)
        assert [each.column for each in advice.proposals] == ["day"]
        assert all(each.files_then <= 2 for each in advice.questions)  # the broken one is always read


def test_a_table_without_rows_is_advised_nothing(tmp_path: Path) -> None:
    pq.write_table(pa.table({"day": pa.array([], pa.int64())}), tmp_path / "none.parquet")
    advice = pruner.open_table(tmp_path).advise()
    assert (advice.proposals, advice.layouts, advice.questions) == ((), (), ())


@pytest.fixture
def clustered(tmp_path: Path) -> Path:
    """Three hundred files of one day each, with zip codes in file order, too; guests are scattered."""
    rng = np.random.default_rng(44)
    for number in range(300):
        columns: dict[str, Any] = {
            "day": np.full(20, number),
            "addr": [{"zip": number * 10 + row % 3} for row in range(20)],
            "guest": rng.integers(0, 2_000, 20),
        }
        pq.write_table(pa.table(columns), tmp_path / f"{number:03}.parquet")
        os.utime(tmp_path / f"{number:03}.parquet", (1_600_000_000, 1_600_000_000))
    return tmp_path


@pytest.mark.parametrize("limits", [pruner.SampleLimits(), pruner.SampleLimits(data_files=20)])
def test_ranges_are_proposed_where_they_leave_as_little(clustered: Path, limits: pruner.SampleLimits) -> None:
    """A bitmap may be some kilobytes smaller there, but it has to read the data."""
    table = pruner.open_table(clustered)
    questions = ("day = 7", "addr.zip = 1501", "guest = 77")
    advice = table.advise([table.plan(each) for each in questions], limits=limits)
    proposed = {each.column: each for each in advice.proposals}
    [ranges] = [each for each in advice.proposals if each.using == "column_stats"]
    assert set(ranges.column.split(", ")) == {"day", "addr.zip"}
    assert proposed["guest"].using != "column_stats"
    assert "ranges leave more files" in proposed["guest"].reason
    assert len(proposed) == len(advice.proposals) == 2
    assert [round(each.files_then) for each in advice.questions[:2]] == [1, 1]


def test_a_much_smaller_index_is_taken_in_place_of_ranges(clustered: Path) -> None:
    """Ranges are chosen where they are small, or not much larger."""
    table = pruner.open_table(clustered)
    questions = asked([table.plan("day = 7")] * 100)
    candidates = [each for each in possible(questions, []) if each.using in ("column_stats", "bitmap")]
    metadata = MetadataTable(open_store(str(clustered / "none"), {}))
    estimator = Estimator(
        table.snapshot().data,
        SegmentCache(lambda: metadata, 0),
        candidates,
        {},
        pruner.SampleLimits(),
    )

    def picked(ranges: int, bitmap: int) -> list[tuple[str, str]]:
        sizes = {"column_stats": ranges, "bitmap": bitmap}

        def cost(each: Candidate) -> Cost:
            return Cost(sizes[each.using], 1.0, None)

        found = chosen(estimator, questions, [], candidates, cost)
        told = described(found, estimator, questions, [], cost, "t")
        return [(each.using, each.reason.partition(",")[0]) for each in told]

    ranges = ("column_stats", "ranges alone leave out most of what can be left out")
    assert picked(7_000, 5_000) == [ranges]
    assert picked(900_000, 1) == [ranges]
    assert picked(1_500_000, 1_000_000) == [ranges]
    assert picked(5_000_000, 1_000_000) == [("bitmap", "it leaves out as much as ranges do")]


def test_a_sample_that_saw_no_file_does_not_say_that_there_is_none(clustered: Path) -> None:
    table = pruner.open_table(clustered)
    question = table.plan("guest = 77")
    advice = table.advise([question], limits=pruner.SampleLimits(data_files=1))
    assert advice.sampled == 1
    [found] = advice.questions
    table.create_index("guests", on="guest")
    by_ranges = table.plan("guest = 77").kept
    assert by_ranges > 100
    assert found.estimated
    assert found.files_then == pytest.approx(1 + (by_ranges - 1) / 2, abs=1), "one file says next to nothing"
    assert found.bytes_then == pytest.approx(found.files_then * advice.bytes / advice.files, rel=0.05)
    [everything] = table.advise([table.plan("guest = 5000")]).questions
    assert everything.files_then == 0, "every file was looked at"


@pytest.mark.parametrize("files", [1, 3, 20, 100, 200])
def test_a_sample_promises_no_fewer_files_than_hold_rows(clustered: Path, files: int) -> None:
    """With ranges in place nothing else can help: the sample has hardly a file of a question, or none."""
    table = pruner.open_table(clustered)
    table.create_index("days", on="*")
    questions = ("day BETWEEN 100 AND 107", "addr.zip > 2960 AND addr.zip < 3001", "day = 7", "day < 40")
    advice = table.advise(
        [table.plan(each) for each in questions], limits=pruner.SampleLimits(data_files=files)
    )
    holding = [8, 4, 1, 40]
    assert advice.sampled == files
    assert [each.files_now for each in advice.questions] == holding
    assert [each.files_then for each in advice.questions] == holding
    assert advice.proposals == ()


def test_what_is_read_today_is_planned_however_little_is_sampled(clustered: Path) -> None:
    table = pruner.open_table(clustered)
    table.create_index("days", on="day")
    table.create_index("guests", on="guest", using="bloom_filter")
    plans = [table.plan(each) for each in ("day BETWEEN 100 AND 107", "guest = 77", "day = 7 AND guest = 7")]
    limits = pruner.SampleLimits(footer_files=1, data_files=1)
    found = table.advise(plans, limits=limits)
    assert [each.files_now for each in found.questions] == [plan.kept for plan in plans]
    assert [each.bytes_now for each in found.questions] == [plan.bytes_kept for plan in plans]
    assert found.useless == {}


def test_no_bitmap_where_nearly_every_row_has_its_own_value(tmp_path: Path) -> None:
    """It would save as much as forecast, but hold every row's value: ranges or filters are smaller."""
    rng = np.random.default_rng(7)
    for number in range(40):
        amounts = rng.integers(0, 1_000_000, 300)
        kinds = rng.choice(["a", "b", f"only {number}"], 300)
        columns: dict[str, Any] = {"amount": amounts, "kind": kinds}
        pq.write_table(pa.table(columns), tmp_path / f"{number:02}.parquet")
    table = pruner.open_table(tmp_path)
    questions = ("amount BETWEEN 500000 AND 500100", "amount = 5", "kind = 'only 7'")
    advice = table.advise([table.plan(each) for each in questions])
    used = {each.column: each.using for each in advice.proposals}
    assert used["amount"] != "bitmap"
    few = table.advise([table.plan("kind BETWEEN 'only 10' AND 'only 12'")])
    assert [each.using for each in few.proposals] == ["bitmap"], "it is proposed where values come again"
