"""What was loaded for one snapshot serves the next one: plans equal those of a process that opens the table then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.errors import StorageError
from pruner.evidence import carry_over
from pruner.evidence.carry_over import SnapshotDelta
from pruner.evidence.loading import IndexLoader
from pruner.evidence.sources import Sources
from pruner.indexes import partition_stats
from pruner.tables.feed.place import announce
from pruner.tables.listing.files import CLOCK_TICK_NS
from tests.support.running.profiles import examples

TICK = 1.5 * CLOCK_TICK_NS / 1e9
FOLDERS = 3
QUESTIONS = [
    "x = 3",
    "x > 6",
    "x <> 4",
    "NOT (x < 5)",
    "x IN (1, 8)",
    "x IS NULL",
    "x = 2 OR y >= 7.5",
    "x = 2 AND y >= 2.5",
    "k = 1 AND x < 4",
    "k <> 1",
    "y < 2",
    "x NOT IN (1, 2, 3)",
    "x = 2.5",
    "x NOT IN (1, NULL)",
]


def write(root: Path, path: str, x: int | None, y: float) -> None:
    """Write like an engine: whole, by a rename."""
    target, scratch = root / path, root.parent / "scratch.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"x": pa.array([x], pa.int64()), "y": [y]}), scratch)
    scratch.replace(target)


def tree(root: Path, count: int = 12) -> None:
    for number in range(count):
        write(root, f"k={number % FOLDERS}/{number:02}.parquet", number % 10, number / 2)
    announce(f"{root}.feed", [str(root)], [])
    time.sleep(TICK)


def opened(root: Path, mode: str) -> pruner.Table:
    if mode == "immutable":
        return pruner.open_table(root, files="immutable")
    return pruner.open_table(root, feed=f"{root}.feed")


def look(table: pruner.Table) -> None:
    """List until every folder is settled, so that the next listing follows changes."""
    for _ in range(3):
        table.snapshot()
        time.sleep(TICK)


def plans(table: pruner.Table) -> dict[str, list[str]]:
    return {question: list(table.plan(question).files) for question in QUESTIONS}


@contextmanager
def loads() -> Iterator[list[str]]:
    """Notes each index that is loaded for a field and all slices; a load for a few of them has no schemas at hand."""
    noted: list[str] = []
    load = IndexLoader.sources

    def noting(self: IndexLoader, definition: Any, about: Any) -> Sources:
        if self._snapshot.file_schemas is not None:
            noted.append(f"{definition.name}.{about.name}")
        return load(self, definition, about)

    with patch.object(IndexLoader, "sources", noting):
        yield noted


def change(root: Path, random: Random) -> None:
    """Add, replace or remove a few files; folders stay."""
    named: list[str] = []
    for _ in range(random.randint(1, 3)):
        files = sorted(root.rglob("*.parquet"))
        file = random.choice(files)
        match random.randrange(3):
            case 0 if sum(each.parent == file.parent for each in files) > 2:
                file.unlink()
            case 1:
                write(
                    root, str(file.relative_to(root)), random.choice([None, *range(10)]), random.random() * 9
                )
            case _:
                file = root / f"k={random.randrange(FOLDERS)}" / f"{random.randrange(10**6):06}.parquet"
                write(
                    root, str(file.relative_to(root)), random.choice([None, *range(10)]), random.random() * 9
                )
        named.append(str(file))
    announce(f"{root}.feed", [str(root)], named)
    time.sleep(TICK)


def matching(root: Path) -> dict[str, set[str]]:
    """The files with a row for each question, as DuckDB finds them when it can skip nothing."""
    files = f"read_parquet('{root}/*/*.parquet', hive_partitioning = true, filename = true)"
    asked = ", ".join(f"coalesce(bool_or({question}), false)" for question in QUESTIONS)
    found = duckdb.connect().execute(f"SELECT filename, {asked} FROM {files} GROUP BY filename").fetchall()
    return {
        question: {file for file, *answers in found if answers[number]}
        for number, question in enumerate(QUESTIONS)
    }


def assert_no_row_is_lost(root: Path, found: dict[str, list[str]], seed: int) -> None:
    for question, files in matching(root).items():
        assert files <= set(found[question]), (seed, question)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("mode", ["immutable", "feed"])
def test_plans_after_changes_are_those_of_a_new_process(
    tmp_path: Path, mode: str, groups: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if groups:
        monkeypatch.setattr(partition_stats, "LEAST_SLICES", 1)
        monkeypatch.setattr(partition_stats, "LEAST_PER_GROUP", 1)
        monkeypatch.setattr(partition_stats, "GROUP_SLICES", 3)
    rounds = reloaded = refreshed = reloaded_after_refresh = 0
    for seed in range(max(2, examples(3))):
        random = Random(seed)
        root = tmp_path / f"t{seed}"
        tree(root)
        table = opened(root, mode)
        table.create_index("i", on=["x", "y"])
        look(table)
        plans(table)
        for _ in range(5):
            change(root, random)
            rounds += 1
            with loads() as noted:
                found = plans(table)
            reloaded += bool(noted)
            assert found == plans(pruner.open_table(root)), seed
            assert_no_row_is_lost(root, found, seed)
            if random.randrange(3) == 0:
                # By another process: this one finds the new state at its next check.
                refreshed += 1
                pruner.open_table(root).refresh()
                with loads() as noted:
                    found = plans(table)
                reloaded_after_refresh += bool(noted)
                assert found == plans(pruner.open_table(root)), seed
                assert_no_row_is_lost(root, found, seed)
                if random.randrange(2):
                    look(table)
    # A file that comes first in the order of schemas or folders causes a listing of all files.
    assert reloaded <= rounds * 2 // 3, (reloaded, rounds)
    assert reloaded_after_refresh <= refreshed // 2, (reloaded_after_refresh, refreshed)


@pytest.mark.slow
def test_nothing_is_loaded_for_a_few_new_files(tmp_path: Path) -> None:
    root = tmp_path / "t"
    tree(root)
    table = opened(root, "immutable")
    table.create_index("i", on="x")
    look(table)
    assert table.plan("x = 3").kept == 1
    for number in range(3):
        write(root, f"k=1/new{number}.parquet", 3 + number, 0.0)
        time.sleep(TICK)
        with loads() as noted:
            plan = table.plan("x = 3")
        assert noted == []
        assert (plan.kept, plan.total) == (2 + number, 13 + number)
        assert [step.uncovered for step in plan.steps] == [1 + number]
    # By this process or another one, records are added for the new files alone.
    pruner.open_table(root).refresh()
    with loads() as noted:
        plan = table.plan("x = 3")
    assert (noted, plan.kept) == ([], 2)
    assert [step.uncovered for step in plan.steps] == [0]
    time.sleep(TICK)
    table.snapshot()
    for path, number in ((root / "k=1/new0.parquet", 8), (root / "k=2/newer.parquet", 3)):
        write(root, str(path.relative_to(root)), number, 0.0)
        time.sleep(TICK)
        table.plan("x = 3")
        table.refresh()
        with loads() as noted:
            plan = table.plan("x = 3")
        assert plan.files == pruner.open_table(root).plan("x = 3").files
        assert [step.uncovered for step in plan.steps] == [0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("indexed", [False, True])
def test_what_no_value_makes_true_keeps_no_new_file(tmp_path: Path, indexed: bool) -> None:
    root = tmp_path / "t"
    tree(root)
    table = opened(root, "immutable")
    table.create_index("i", on=["x", "y"])
    look(table)
    impossible = ("x = 2.5", "x NOT IN (1, NULL)", "x > 99999999999999999999", "k = 1 AND x = 2.5")
    assert [table.plan(question).kept for question in impossible] == [0] * 4
    for number in range(2):
        write(root, f"k=1/new{number}.parquet", 3, 0.0)
        time.sleep(TICK)
        if indexed and number == 0:
            pruner.open_table(root).refresh()
        with loads() as noted:
            assert [table.plan(question).kept for question in impossible] == [0] * 4
            assert table.plan("x = 3").kept == 2 + number, "of values nothing is known yet, or they match"
        assert noted == []


def test_records_of_new_files_that_cannot_be_read_are_tried_again(tmp_path: Path) -> None:
    root = tmp_path / "t"
    tree(root)
    table = opened(root, "immutable")
    table.create_index("i", on="x")
    look(table)
    table.plan("x = 3")
    write(root, "k=1/new.parquet", 7, 0.0)
    time.sleep(TICK)
    assert table.plan("x = 3").kept == 2
    pruner.open_table(root).refresh()
    with patch("pruner.metadata.segment_cache.SegmentCache.read", side_effect=StorageError("away")):
        plan = table.plan("x = 3")
        assert plan.kept == 2
        assert any("away" in reason for reason in plan.fallbacks)
    write(root, "k=1/newer.parquet", 3, 0.0)
    time.sleep(TICK)
    assert table.plan("x = 3").kept == 2, "the new file is known not to match, the newer one is not known"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", ["compact", "drop", "another"])
def test_a_state_that_lost_records_or_gained_an_index_is_loaded_anew(tmp_path: Path, what: str) -> None:
    root = tmp_path / "t"
    tree(root)
    table = opened(root, "immutable")
    table.create_index("i", on="x")
    write(root, "k=1/new.parquet", 7, 0.0)
    time.sleep(TICK)
    table.refresh()
    look(table)
    assert table.plan("x = 3").kept == 1
    other = pruner.open_table(root)
    if what == "compact":
        other.compact()
    elif what == "drop":
        other.drop_index("i")
    else:
        other.create_index("j", on="y")
    for question in QUESTIONS:
        assert table.plan(question).files == pruner.open_table(root).plan(question).files


def test_what_came_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry_over, "MOST_CHANGES", 2)
    root = tmp_path / "t"
    tree(root)
    table = opened(root, "immutable")
    table.create_index("i", on="x")
    look(table)
    table.plan("x = 3")
    counts: list[int] = []
    for number in range(6):
        write(root, f"k=1/new{number}.parquet", 7, 0.0)
        time.sleep(TICK)
        with loads() as noted:
            assert table.plan("x = 3").kept == 2 + number
        counts.append(len(noted))
    assert counts == [0, 0, 1, 0, 0, 1]


def test_a_state_that_is_read_after_the_listing_may_know_files_that_come_then(tmp_path: Path) -> None:
    """Another process indexes a file between our listing and our read of the log: it is covered when we see it."""
    root = tmp_path / "t"
    tree(root)
    table = opened(root, "immutable")
    table.create_index("i", on="x")
    look(table)
    table.plan("x = 3")
    read = table._views._read_state  # type: ignore[attr-defined]

    def late(*arguments: Any) -> Any:
        write(root, "k=1/late.parquet", 9, 0.0)
        time.sleep(TICK)
        pruner.open_table(root).refresh()
        return read(*arguments)

    with patch.object(table._views, "_read_state", late):  # type: ignore[attr-defined]
        assert table.plan("x = 3").total == 12
    plan = table.plan("x = 3")
    assert (plan.total, plan.kept) == (13, 1), "the new file is known not to match"


def test_records_that_could_not_be_read_are_tried_again(tmp_path: Path) -> None:
    root = tmp_path / "t"
    tree(root)
    table = opened(root, "immutable")
    table.create_index("i", on="x")
    table = opened(root, "immutable")
    look(table)
    with patch("pruner.metadata.segment_cache.SegmentCache.read", side_effect=StorageError("away")):
        assert table.plan("x = 3").kept == 12
    write(root, "k=1/new.parquet", 7, 0.0)
    time.sleep(TICK)
    assert table.plan("x = 3").kept == 2


def test_masks_move_as_the_slices_do() -> None:
    """By hand and at random, in one step and in two."""
    random = Random(5)
    for _ in range(200):
        there = [random.randrange(1 << 30) for _ in range(random.randrange(1, 9))]
        between = after(random, there)
        here = after(random, between)
        first, second = moves(there, between), moves(between, here)
        both = SnapshotDelta(first.then(second), len(there))
        mask = np.array([bool(random.randrange(2)) for _ in there])
        known = dict(zip(there, mask.tolist(), strict=True))
        # What was removed and added again in two steps is new.
        lasting = set(there) & set(between)
        expected = [known[each] if each in lasting else True for each in here]
        assert both.here(mask).tolist() == expected
        assert second.here(first.here(mask)).tolist() == expected
        stayed = sum(each in lasting for each in here)
        assert both.changes == len(here) + len(there) - 2 * stayed


def after(random: Random, slices: list[int]) -> list[int]:
    left = [each for each in slices if random.randrange(4)]
    for _ in range(random.randrange(3)):
        left.insert(random.randrange(len(left) + 1), random.randrange(1 << 30))
    return left


def moves(there: list[int], here: list[int]) -> SnapshotDelta:
    places = {each: at for at, each in enumerate(there)}
    return SnapshotDelta(np.array([places.get(each, -1) for each in here], np.int32), len(there))
