"""Hudi tables opened from blocks: every plan is that of the listed table and keeps every file with a matching row."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pruner
from pruner.arrow import positions
from pruner.errors import ConflictError, FormatError, TableError
from pruner.expr.semantics import Semantics
from pruner.metadata import last_snapshot
from pruner.metadata.ranged import Blocks, RangedSegment
from pruner.metadata.segments import saved_blocks
from pruner.metadata.state import SavedSnapshot, SegmentEntry, State
from pruner.metadata.table import MetadataTable
from pruner.planning.pinned import PinnedSnapshot
from pruner.storage.opening import open_store
from pruner.tables import snapshot as snapshots
from pruner.tables.hudi import blocks
from pruner.tables.hudi.blocks import StoredSlices
from pruner.tables.hudi.source import HudiSource
from pruner.tables.snapshot import SLICE_COLUMNS
from pruner.tables.source import SavedBlocks
from tests.support.hudi.made_up.files import Group, SyntheticTable
from tests.support.running import profiles

PARTITIONS = ("city=b", "city=a", "city=a b", "city=ä")
ROWS = 4


@dataclass
class RowsTable(SyntheticTable):
    """A table whose files have rows of their own: ids that are close together."""

    _read: dict[Path, list[tuple[int, str]]] = field(default_factory=dict[Path, "list[tuple[int, str]]"])

    def _base(self, partition: str, file_id: str, instant: str) -> Group:
        self._source = None
        group = super()._base(partition, file_id, instant)
        assert self._source is not None
        first = self._ids.randrange(100)
        city = partition.removeprefix("city=")
        rows: Any = {"id": pa.array(range(first, first + ROWS), pa.int64()), "city": [city] * ROWS}
        pq.write_table(pa.table(rows), self._folder(partition) / group.base)
        return group

    def _base_stat(self, group: Group, before: str | None) -> dict[str, Any]:
        size = (self._folder(group.partition) / group.base).stat().st_size
        return self._stat(group, group.base, size, before)

    def matching(self, predicate: Callable[[int, str], bool]) -> set[str]:
        """The base files with a matching row, by reading all of them, each once: no name is used twice."""
        found: set[str] = set()
        for group in self.groups.values():
            path = self.root / group.partition / group.base
            if path not in self._read:
                columns: Any = pq.read_table(path, partitioning=None, columns=["id", "city"]).columns
                self._read[path] = list(zip(*(column.to_pylist() for column in columns), strict=True))
            if any(predicate(id_, city) for id_, city in self._read[path]):
                found.add(str(path))
        return found


PREDICATES: dict[str, Callable[[int, str], bool]] = {
    "id BETWEEN 20 AND 30": lambda id_, city: 20 <= id_ <= 30,
    "id = 50": lambda id_, city: id_ == 50,
    "city = 'a'": lambda id_, city: city == "a",
    "city = 'ä' AND id < 60": lambda id_, city: city == "ä" and id_ < 60,
    "NOT city = 'a' AND city < 'b'": lambda id_, city: city != "a" and city < "b",
    "city IN ('b', 'a b') OR id > 90": lambda id_, city: city in ("b", "a b") or id_ > 90,
    "city = 'nowhere'": lambda id_, city: False,
    "true": lambda id_, city: True,
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_SLICES", 3)
    monkeypatch.setattr(blocks, "BLOCKS_FROM", 1)
    monkeypatch.setattr(last_snapshot, "SEGMENT_ROWS", 7)
    monkeypatch.setattr(snapshots, "RUNS_FROM", 1)


@contextmanager
def listing() -> Iterator[None]:
    """Nothing is resumed from another process's snapshot."""

    def ignored(*_: object) -> None:
        return None

    with mock.patch.object(HudiSource, "resume_blocks", ignored):
        yield


def made(root: Path, merge_on_read: bool = False, files: int = 14, seed: int = 1) -> RowsTable:
    rng = random.Random(seed)
    table = RowsTable(root, merge_on_read)
    table.insert(rng.choices(PARTITIONS, k=files))
    pruner.open_table(str(root)).create_index("stats", on="id")
    return table


def opened(root: Path) -> PinnedSnapshot:
    """The table as another process sees it: by blocks."""
    return pruner.open_table(str(root)).snapshot()


def is_unread(snapshot: PinnedSnapshot) -> bool:
    return isinstance(snapshot.data.columns, StoredSlices) and snapshot.data.columns._all is None


ENGINES = ("duckdb", "spark")
"""DuckDB shows the city of the file, Spark that of the path."""


def facts(snapshot: PinnedSnapshot, predicate: str, engine: str) -> tuple[Any, ...]:
    plan = snapshot.plan(predicate, semantics=Semantics.of(engine))
    slices = [(entry.file_id, entry.base_file, entry.log_files, entry.size) for entry in plan.slices]
    funnel = plan.steps, plan.dropped_by.tolist()
    return slices, funnel, plan.bytes_kept, plan.bytes_total, plan.kept, plan.total, plan.fallbacks


def assert_plans_alike(table: RowsTable, found: PinnedSnapshot, listed: PinnedSnapshot | None = None) -> None:
    """Each plan equals that of the listed table, and is a superset of what a scan of all files finds."""
    if listed is None:
        with listing():
            listed = opened(table.root)
    assert not isinstance(listed.data.columns, StoredSlices)
    for (text, holds), engine in product(PREDICATES.items(), ENGINES):
        plan = facts(found, text, engine)
        assert plan == facts(listed, text, engine), text
        kept = {base for _, base, _, _ in plan[0]}
        assert table.matching(holds) <= kept, text


def segments(root: Path) -> tuple[SegmentEntry, ...]:
    """The segments of the last snapshot: the first has the directory."""
    state = MetadataTable.open(open_store(f"{root}.pruner")).state()
    assert state.last_snapshot is not None
    return state.last_snapshot.files()


def saved(root: Path, at: int = 0) -> SegmentEntry:
    entries = segments(root)
    return entries[at % len(entries)]


def stored(root: Path, entry: SegmentEntry | None = None) -> Path:
    return Path(f"{root}.pruner", (entry or saved(root)).path)


def flip(file: Path, rng: random.Random, entry: SegmentEntry) -> None:
    data = bytearray(file.read_bytes())
    assert entry.tail is not None
    data[rng.randrange(len(data) - entry.tail.size)] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def flip_directory(file: Path, rng: random.Random, entry: SegmentEntry) -> None:
    data = bytearray(file.read_bytes())
    assert entry.tail is not None
    data[-1 - rng.randrange(entry.tail.size)] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def shorten(file: Path, rng: random.Random, entry: SegmentEntry) -> None:
    file.write_bytes(file.read_bytes()[: rng.randrange(entry.size)])


def remove(file: Path, rng: random.Random, entry: SegmentEntry) -> None:
    file.unlink(missing_ok=True)


HARMS = {"flip": flip, "flip directory": flip_directory, "shorten": shorten, "remove": remove}
ACTIONS = ("insert", "update", "log", "replace", "drop partition", "refresh")


def act(table: RowsTable, action: str, rng: random.Random) -> None:
    if action == "refresh":
        pruner.open_table(str(table.root)).refresh()
    else:
        table.act(action, rng, PARTITIONS)


@pytest.mark.slow
def test_blocks_are_read_only_where_a_plan_has_slices(tmp_path: Path) -> None:
    table = made(tmp_path / "t", files=30)
    snapshot = opened(table.root)
    assert is_unread(snapshot)
    assert len(snapshot.data) == len(table.groups) == 30
    columns = snapshot.data.columns
    assert isinstance(columns, StoredSlices)
    assert columns.total_size == sum(
        (table.root / group.partition / group.base).stat().st_size for group in table.groups.values()
    )
    plan = snapshot.plan("city = 'a'", semantics=Semantics.of("spark"))
    assert not columns._held
    assert {Path(file).parent.name for file in plan.files} == {"city=a"}
    wanted = {int(at) for at in np.searchsorted(columns._starts, plan.ordinals, side="right") - 1}
    assert set(columns._held) == wanted < set(range(len(columns._blocks)))
    assert is_unread(snapshot)
    assert_plans_alike(table, snapshot)


def test_a_block_has_whole_partitions_or_a_part_of_a_large_one(tmp_path: Path) -> None:
    table = RowsTable(tmp_path / "t")
    table.insert(["city=a", "city=a", "city=b", "city=b", *["city=c"] * 7, "city=d"])
    source = HudiSource(str(table.root))
    source.snapshot()
    look = source.saved()
    assert look is not None
    assert look.blocks == (2, 2, 3, 3, 2)


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
@pytest.mark.parametrize("moment", ["before it is opened", "after it is opened"])
def test_no_damage_changes_a_plan(
    harm: Callable[[Path, random.Random, SegmentEntry], None], moment: str, tmp_path: Path
) -> None:
    table = made(tmp_path / "t")
    assert len(segments(table.root)) == 3
    rng = random.Random(5)
    for number in range(6):
        entry = saved(table.root, number)
        file = stored(table.root, entry)
        whole = file.read_bytes()
        snapshot = opened(table.root)
        assert is_unread(snapshot)
        harm(file, rng, entry)
        if moment == "before it is opened":
            snapshot = opened(table.root)
        assert_plans_alike(table, snapshot)
        file.write_bytes(whole)


@pytest.mark.slow
def test_a_block_of_an_older_snapshot_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    older = [stored(table.root, entry).read_bytes() for entry in segments(table.root)]
    table.update(sorted(table.groups)[:4])
    pruner.open_table(str(table.root)).refresh()
    noticed = 0
    for at, data in enumerate(older):
        file = stored(table.root, saved(table.root, at))
        new = file.read_bytes()
        if new == data:
            continue  # blocks that no commit touched stay in place
        snapshot = opened(table.root)
        assert is_unread(snapshot)
        file.write_bytes(data)
        assert_plans_alike(table, snapshot)
        noticed += not is_unread(snapshot)
        assert_plans_alike(table, opened(table.root))
        file.write_bytes(new)
    assert noticed, "the blocks of the groups that changed"


@pytest.mark.slow
def test_a_pinned_snapshot_plans_on_after_its_blocks_are_vacuumed(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    with listing():
        listed = opened(table.root)
    before = dict(table.groups)
    snapshot = opened(table.root)
    file = stored(table.root)
    table.update(sorted(table.groups)[:4])
    table.replace(sorted(table.groups)[4:6], ["city=a"])
    other = pruner.open_table(str(table.root))
    other.refresh()
    other.vacuum(grace_seconds=0)
    assert not file.exists()
    assert is_unread(snapshot)
    table.groups = before
    assert_plans_alike(table, snapshot, listed)


def test_a_table_that_lost_blocks_and_files_is_looked_at_anew(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    reader = pruner.open_table(str(table.root), max_staleness=3600)
    snapshot = reader.snapshot()
    assert is_unread(snapshot)
    file = stored(table.root)
    goes = sorted(table.groups)[:3]
    gone = [table.root / table.groups[key].partition / table.groups[key].base for key in goes]
    table.replace(goes, [])
    for path in gone:
        path.unlink()
    file.unlink()
    with pytest.raises(
        TableError, match="cannot be read any more, and the table has changed since: plan again"
    ):
        list(snapshot.plan("true").files)
    assert snapshot.data.lost
    table.groups = {
        key: group
        for key, group in table.groups.items()
        if (table.root / group.partition / group.base).exists()
    }
    assert not reader.snapshot().data.lost


@pytest.mark.slow
@settings(
    max_examples=profiles.examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    merge_on_read=st.booleans(),
    actions=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=6),
    harm=st.sampled_from([None, *HARMS]),
    number=st.integers(0, 2**32),
)
def test_random_histories_are_planned_by_blocks_as_listed(
    merge_on_read: bool,
    actions: list[str],
    harm: str | None,
    number: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    rng = random.Random(number)
    table = made(tmp_path_factory.mktemp("blocks") / "t", merge_on_read, rng.randint(1, 16), number)
    follower = pruner.open_table(str(table.root))
    follower.snapshot()
    for action in actions:
        act(table, action, rng)
        snapshot = opened(table.root)
        if harm is not None and rng.random() < 0.5:
            entry = saved(table.root, rng.randrange(9))
            HARMS[harm](stored(table.root, entry), rng, entry)
            stored_again = pruner.open_table(str(table.root))
            assert_plans_alike(table, stored_again.snapshot())
        assert_plans_alike(table, snapshot)
        assert_plans_alike(table, follower.snapshot())


@pytest.mark.slow
def test_rows_of_any_order_are_those_of_the_whole(tmp_path: Path) -> None:
    table = made(tmp_path / "t", files=20)
    with listing():
        listed = opened(table.root).data
    rng = np.random.default_rng(3)
    for count in (0, 1, 2, 40):
        chosen = rng.integers(0, 20, count)
        for names in (("base_file",), SLICE_COLUMNS.names):
            unread = opened(table.root).data
            assert unread.rows(chosen, names).equals(listed.rows(chosen, names))
    at = pa.array([3, None, 19, 0], pa.int64())
    assert opened(table.root).data.rows(at).equals(listed.rows(at))
    nowhere = pa.array([None, None], pa.int64())
    assert opened(table.root).data.rows(nowhere).equals(listed.rows(nowhere))
    for name in SLICE_COLUMNS.names:
        unread = opened(table.root).data
        assert unread.column(name).equals(listed.column(name)), name
        assert unread.keys.equals(listed.keys)
    for name in ("has_base", "has_logs", "coverable", "sizes", "partition_ordinals", "stands"):
        assert np.array_equal(getattr(opened(table.root).data, name), getattr(listed, name))


def test_slices_become_objects_many_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read searches among the blocks: by single columns of single slices, iteration took 1.6 ms a slice."""
    monkeypatch.setattr(snapshots, "SLICES_AT_ONCE", 8)
    table = made(tmp_path / "t", files=20)
    with listing():
        listed = list(opened(table.root).slices)
    reads: list[int] = []
    rows = StoredSlices.rows

    def counted(self: StoredSlices, ordinals: Any, names: Sequence[str]) -> pa.Table:
        reads.append(len(ordinals))
        return rows(self, ordinals, names)

    monkeypatch.setattr(StoredSlices, "rows", counted)
    snapshot = opened(table.root)
    found, some = snapshot.slices, snapshot.plan("id < 60 AND city < 'b'").slices
    assert list(found) == listed
    assert reads == [8, 8, 4]
    assert [found[at] for at in (0, 7, 8, -1)] == [listed[at] for at in (0, 7, 8, -1)]
    assert list(found[5:19:2]) == listed[5:19:2]
    assert 8 < len(some) < 20
    assert list(some) == [some[at] for at in range(len(some))]
    assert set(some) < set(listed)


class Mixed:
    """Stored blocks, with the changes that a test makes to each read."""

    def __init__(self, blocks_: SavedBlocks, change: Callable[[pa.Table], pa.Table]) -> None:
        self.schema, self.described, self.rows = blocks_.schema, blocks_.described, blocks_.rows
        self._blocks, self._change = blocks_, change
        self.harms = False

    def read(self, names: Sequence[str], groups: Iterable[int] | None = None) -> pa.Table:
        table = self._blocks.read(names, groups)
        return self._change(table) if self.harms else table


def with_other_keys(table: pa.Table) -> pa.Table:
    keys: Any = pa.array([bytes(16)] * table.num_rows, pa.binary(16))
    return table.set_column(0, table.schema.field(0), keys) if "slice_key" in table.column_names else table


def with_other_partitions(table: pa.Table) -> pa.Table:
    if "partition_path" not in table.column_names:
        return table
    paths: Any = pa.array(
        ["city=a" if at % 2 else "city=x" for at in range(table.num_rows)]
    ).dictionary_encode()
    return table.set_column(1, table.schema.field(1), paths)


def with_other_sizes(table: pa.Table) -> pa.Table:
    at = table.column_names.index("base_size")
    return table.set_column(at, "base_size", pa.array(range(table.num_rows), pa.int64()))


CHANGES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "other keys": with_other_keys,
    "other partitions": with_other_partitions,
    "a slice less": lambda table: table.slice(1),
    "reversed": lambda table: table.take(pa.array(range(table.num_rows)[::-1])),
    "none": lambda table: table.slice(0, 0),
}


def mixed(root: Path, change: Callable[[pa.Table], pa.Table]) -> tuple[HudiSource, Mixed]:
    metadata = MetadataTable.open(open_store(f"{root}.pruner"))
    last = metadata.state().last_snapshot
    assert last is not None
    found = Mixed(saved_blocks(metadata.store, last), change)
    source = HudiSource(str(root))
    source.resume_blocks(last.id, found)
    return source, found


@pytest.mark.sampled(5)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_block_with_other_slices_than_the_directory_says_is_not_believed(
    change: Callable[[pa.Table], pa.Table], tmp_path: Path
) -> None:
    table = made(tmp_path / "t")
    listed = HudiSource(str(table.root)).snapshot()
    for names in (("base_file",), ("base_size", "log_size")):
        source, found = mixed(table.root, change)
        snapshot = source.snapshot()
        assert isinstance(snapshot.columns, StoredSlices)
        found.harms = True
        at = positions(range(0, len(snapshot), 2))
        assert snapshot.rows(at, names).equals(listed.rows(at, names))
        assert snapshot.columns._all is not None


def whole_reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The blocks whose columns are all read, as it proceeds: their segments, and their numbers there."""
    numbers: list[tuple[str, int]] = []
    read = RangedSegment.read

    def counted(self: RangedSegment, names: Sequence[str], groups: Iterable[int] | None = None) -> pa.Table:
        chosen = list(range(len(self.rows)) if groups is None else groups)
        if "file_id" in names:
            numbers.extend((self.entry.id, number) for number in chosen)
        return read(self, names, chosen)

    monkeypatch.setattr(RangedSegment, "read", counted)
    return numbers


def test_a_commit_reads_and_stores_its_blocks_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_snapshot, "SEGMENT_ROWS", 1 << 23)
    table = made(tmp_path / "t", files=40)
    whole = saved(table.root)
    writer, reader = pruner.open_table(str(table.root)), pruner.open_table(str(table.root))
    reader.snapshot()
    reads = whole_reads(monkeypatch)
    keys = sorted(table.groups)
    changed = [keys[0], keys[1], keys[20]]
    table.update(changed)
    assert writer.refresh().indexed == 3
    assert len(reads) < 12, "of fourteen blocks"
    state = last_of(table.root)
    assert state.parts == (whole,)
    assert 3 <= state.segment.rows <= 9
    assert len(segments(table.root)) == 2
    reads.clear()
    snapshot = reader.snapshot()
    assert is_unread(snapshot)
    assert len(set(reads)) < 9, "those of the partitions, in which groups are searched for"
    assert_plans_alike(table, snapshot)
    assert_plans_alike(table, opened(table.root))
    # Followed again from memory, and stored by a process that did not store the last one.
    table.insert(["city=0", "city=z", "city=a"])
    assert_plans_alike(table, reader.snapshot())
    table.replace(keys[30:34], ["city=a b"])
    assert_plans_alike(table, reader.snapshot())
    reader.refresh()
    assert_plans_alike(table, opened(table.root))
    assert MetadataTable.open(open_store(f"{table.root}.pruner")).verify() == []


def test_a_commit_anywhere_reads_each_block_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One partition of more blocks than are held: neither a search nor the order of a commit reads any block again."""
    monkeypatch.setattr(blocks, "HELD_BLOCKS", 2)
    table = RowsTable(tmp_path / "t")
    table.insert(["city=a"] * 90)
    pruner.open_table(str(table.root)).create_index("stats", on="id")
    keys = sorted(table.groups)
    rng = random.Random(3)
    for some in (keys[:6] + keys[40:43], rng.sample(keys, 6), rng.sample(keys, 60)):
        reader = HudiSource(str(table.root))
        metadata = MetadataTable.open(open_store(f"{table.root}.pruner"))
        reader.resume_blocks(last_of(table.root).id, saved_blocks(metadata.store, last_of(table.root)))
        reader.snapshot()
        rng.shuffle(some)
        table.update(some)
        with monkeypatch.context() as spying:
            reads = whole_reads(spying)
            snapshot = reader.snapshot()
        assert len(reads) <= 2 * len(set(reads)), "to know the slices before, and to make the blocks anew"
        assert len(reads) <= 30 or len(reads) == len(set(reads)), "of many blocks all are read once"
        assert snapshot.keys.equals(HudiSource(str(table.root)).snapshot().keys)
        pruner.open_table(str(table.root)).refresh()


def last_of(root: Path) -> SavedSnapshot:
    last = MetadataTable.open(open_store(f"{root}.pruner")).state().last_snapshot
    assert last is not None
    return last


@pytest.mark.slow
def test_many_commits_leave_few_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_snapshot, "SEGMENT_ROWS", 1 << 23)
    table = made(tmp_path / "t", files=120)
    rng = random.Random(7)
    writer = pruner.open_table(str(table.root))
    written: list[int] = []
    for number in range(24):
        table.update(rng.sample(sorted(table.groups), 2))
        (writer if number % 5 else pruner.open_table(str(table.root))).refresh()
        entries = segments(table.root)
        assert len(entries) <= 7
        assert sum(entry.rows for entry in entries) <= 3 * 120
        written.append(next(iter(entries)).rows)
    assert sum(written) < 24 * 120 / 2, "blocks are written again a few times, not with each commit"
    assert_plans_alike(table, opened(table.root))
    state = MetadataTable.open(open_store(f"{table.root}.pruner"))
    assert state.verify() == []
    history = list(writer.map(history=True).history)
    assert {at.slices for at in history} == {120}
    assert [at.covered for at in history][-1] == {"stats": 120}


@pytest.mark.parametrize("vacuum", [False, True])
def test_a_writer_that_loses_a_race_does_not_store_what_rests_on_the_snapshot_before(
    vacuum: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between writing and committing, another writer stores all blocks again, and deletes the old ones."""
    table = made(tmp_path / "t", files=30)
    slower, faster = pruner.open_table(str(table.root)), pruner.open_table(str(table.root))
    table.update(sorted(table.groups)[:1])
    commit, raced = MetadataTable.commit, list[bool]()

    def after_another(self: MetadataTable, change: Callable[[State], State]) -> State:
        if self is slower._metadata and not raced:
            raced.append(True)
            table.update(sorted(table.groups))
            faster.refresh()
            if vacuum:
                faster.vacuum(grace_seconds=0)
        return commit(self, change)

    monkeypatch.setattr(MetadataTable, "commit", after_another)
    if vacuum:
        with pytest.raises(ConflictError, match="was removed before it was committed: refresh again"):
            slower.refresh()
    else:
        slower.refresh()
    assert raced
    assert MetadataTable.open(open_store(f"{table.root}.pruner")).verify() == []
    pruner.open_table(str(table.root)).refresh()
    assert is_unread(opened(table.root))
    assert_plans_alike(table, opened(table.root))


def test_slices_that_no_index_may_cover_are_counted_block_by_block(tmp_path: Path) -> None:
    """Log files merged by user code: their slices are unsettled, and a compaction settles them."""
    table = RowsTable(tmp_path / "t", merge_on_read=True)
    with (table.root / ".hoodie/hoodie.properties").open("a") as properties:
        properties.write("hoodie.compaction.payload.class=com.example.OfOurOwn\n")
    table.insert([*["city=a"] * 20, *["city=b"] * 20])
    pruner.open_table(str(table.root)).create_index("stats", on="id")
    keys = sorted(table.groups)
    reader = pruner.open_table(str(table.root))
    reader.snapshot()
    for commit in (
        lambda: table.log(keys[:3]),
        lambda: table.log([keys[1], keys[20]]),
        lambda: table.update([keys[0], keys[1]], "compaction"),
        lambda: table.replace([keys[2]], []),
    ):
        commit()
        found = reader.snapshot().data
        assert isinstance(found.columns, StoredSlices)
        expected = HudiSource(str(table.root)).snapshot()
        assert found.unsettled_because == expected.unsettled_because
        assert np.array_equal(found.coverable, expected.coverable)
        pruner.open_table(str(table.root)).refresh()
        assert opened(table.root).data.unsettled_because == expected.unsettled_because
    assert sum(expected.unsettled_because.values()) > 0


def test_blocks_of_another_writer_are_not_taken_for_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both started from the same snapshot; the one that the slower one shares blocks with is no longer stored."""
    monkeypatch.setattr(last_snapshot, "SEGMENT_ROWS", 3)  # no block is rewritten with others
    table = made(tmp_path / "t", files=30)
    slower, faster = pruner.open_table(str(table.root)), pruner.open_table(str(table.root))
    slower.snapshot()
    some = sorted(table.groups)[:3]
    table.update(some)
    slower.snapshot()
    with listing():
        faster.refresh()  # all blocks again
    faster.vacuum(grace_seconds=0)
    table.update(some)
    assert isinstance(slower.snapshot().data.columns, StoredSlices), "these blocks are in memory"
    slower.refresh()
    assert MetadataTable.open(open_store(f"{table.root}.pruner")).verify() == []
    assert is_unread(opened(table.root))
    assert_plans_alike(table, opened(table.root))
    table.insert(["city=b"])
    faster.refresh()
    assert_plans_alike(table, opened(table.root))
    slower.vacuum(grace_seconds=0)
    assert_plans_alike(table, opened(table.root))
    assert MetadataTable.open(open_store(f"{table.root}.pruner")).verify() == []


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_a_writer_whose_blocks_are_damaged_loses_nothing_and_compact_mends_them(
    harm: Callable[[Path, random.Random, SegmentEntry], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of a commit are in memory; those beside them must be rewritten with them."""
    monkeypatch.setattr(last_snapshot, "SEGMENT_ROWS", 1 << 23)
    table = made(tmp_path / "t", files=30)
    rng = random.Random(2)
    for count in (3, 30):
        writer = pruner.open_table(str(table.root))
        writer.snapshot()
        some = sorted(table.groups)[:count]
        table.update(some)
        writer.snapshot()
        for entry in segments(table.root):
            harm(stored(table.root, entry), rng, entry)
        table.update(some)
        assert writer.refresh().failures == ()
        assert_plans_alike(table, opened(table.root))
        # Blocks that no commit touched stay in place, damaged or not.
        pruner.open_table(str(table.root)).compact()
        assert MetadataTable.open(open_store(f"{table.root}.pruner")).verify() == []
        assert is_unread(opened(table.root))
        assert_plans_alike(table, opened(table.root))


def test_a_table_that_loses_all_slices_is_listed(tmp_path: Path) -> None:
    table = made(tmp_path / "t", files=5)
    reader = pruner.open_table(str(table.root))
    assert len(reader.snapshot().data) == 5
    table.replace(sorted(table.groups), [])
    assert len(reader.snapshot().data) == 0
    table.insert(["city=a"])
    assert_plans_alike(table, reader.snapshot())


def test_an_order_of_other_blocks_is_not_believed(tmp_path: Path) -> None:
    table = made(tmp_path / "t", files=30)
    table.update(sorted(table.groups)[:2])
    pruner.open_table(str(table.root)).refresh()
    metadata = MetadataTable.open(open_store(f"{table.root}.pruner"))
    last = last_of(table.root)
    assert last.parts
    data = metadata.store.get(last.segment.path, 1 << 20)
    look = pq.read_table(pa.BufferReader(data))
    described = dict(look.schema.metadata)
    for order in (b"[[9,0,1]]", b"[[0,0,1000]]", b"[[0,-1,1]]", b"[[0,0]]", b"nothing"):
        other = look.replace_schema_metadata({**described, b"pruner.order": order})
        entry = metadata.write_segment("files", other, layout=Blocks((look.num_rows,)))
        with pytest.raises(
            FormatError, match=r"blocks (than its order says|in an order that is not understood)"
        ):
            saved_blocks(metadata.store, msgspec.structs.replace(last, segment=entry))


def test_sizes_that_the_directory_does_not_say_are_not_believed(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    source, found = mixed(table.root, with_other_sizes)
    snapshot = source.snapshot()
    found.harms = True
    assert np.array_equal(snapshot.sizes, HudiSource(str(table.root)).snapshot().sizes)


def test_a_directory_of_other_slices_is_not_taken_up(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    metadata = MetadataTable.open(open_store(f"{table.root}.pruner"))
    last = metadata.state().last_snapshot
    assert last is not None
    for change in (with_other_keys, lambda read: read.take(pa.array(range(read.num_rows)[::-1]))):
        found = Mixed(saved_blocks(metadata.store, last), change)
        found.harms = True
        with pytest.raises(FormatError, match="has other slices than its directory says"):
            HudiSource(str(table.root)).resume_blocks(last.id, found)
    found = Mixed(saved_blocks(metadata.store, last), lambda read: read)
    found.rows = (*found.rows[:-1], found.rows[-1] + 1)
    with pytest.raises(FormatError, match="does not have the blocks of its directory"):
        HudiSource(str(table.root)).resume_blocks(last.id, found)


PROCESS = """
import sys
import pruner
from pruner.tables.hudi.blocks import StoredSlices
snapshot = pruner.open_table(sys.argv[1]).snapshot()
assert isinstance(snapshot.data.columns, StoredSlices)
print("opened", flush=True)
sys.stdin.readline()
print(*snapshot.plan("id BETWEEN 20 AND 30").files, sep="\\n")
"""


@pytest.mark.slow
def test_another_process_plans_while_this_one_writes(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    expected = sorted(opened(table.root).plan("id BETWEEN 20 AND 30").files)
    command = [sys.executable, "-c", PROCESS, str(table.root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "opened\n"
        table.update(sorted(table.groups)[:4])
        other = pruner.open_table(str(table.root))
        other.refresh()
        other.vacuum(grace_seconds=0)
        process.stdin.write("\n")
        process.stdin.close()
        assert sorted(process.stdout.read().split("\n")[:-1]) == expected
    assert process.returncode == 0
