"""A first listing shared among machines: the snapshot equals that of one process, or that process lists the table."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pruner
from pruner.errors import IndexDefinitionError
from pruner.maintenance import build, shared_listing
from pruner.metadata import last_snapshot
from pruner.metadata.receipts import Receipt
from pruner.metadata.state import SavedSnapshot
from pruner.metadata.table import MetadataTable
from pruner.pipeline.batches import BuildJob
from pruner.pipeline.requests import Progress
from pruner.pipeline.runners import LocalRunner
from pruner.storage.opening import open_store
from pruner.tables.hudi import blocks, full
from pruner.tables.hudi import source as hudi_source
from pruner.tables.hudi.blocks import StoredSlices
from pruner.tables.hudi.source import HudiSource
from pruner.tables.slice_keys import locate
from pruner.tables.snapshot import SLICE_COLUMNS, Snapshot
from tests.support.hudi.archived import ALL, all_tables
from tests.support.hudi.made_up.files import SyntheticTable
from tests.support.hudi.tables import table_names
from tests.support.kept.tables import AllTables, KeptTables
from tests.support.running import profiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = ("city=a", "city=a-b", "city=a b", "city=a.b", "city=ab", "city=ä", "city=b")
ACTIONS = ("insert", "update", "log", "start", "replace", "drop partition")
MACHINES = 3

Answers = list[tuple[int, bytes]]
is_seen_by_all = full._is_seen_by_all


class Machines(LocalRunner):
    """A runner whose machines are this process; the result of each task can be changed."""

    def __init__(self, change: Callable[[Answers], Answers] = lambda answers: answers) -> None:
        self.shared = 0
        self.jobs: list[int] = []
        self._change = change

    def parts(self) -> int:
        return MACHINES

    def share(self, task: Callable[[int], Iterable[bytes]], count: int) -> Answers:
        self.shared += 1
        return self._change([(number, answer) for number in range(count) for answer in task(number)])

    def run(self, job: BuildJob, progress: Progress | None) -> Iterator[Receipt]:
        self.jobs.append(job.work.num_rows)
        return super().run(job, progress)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full, "LIST_BYTES", 0)
    monkeypatch.setattr(full, "FOLDERS_FROM", 0)
    monkeypatch.setattr(full, "_is_seen_by_all", lambda _: True)  # the machines are this one
    monkeypatch.setattr(blocks, "BLOCK_SLICES", 3)
    monkeypatch.setattr(blocks, "BLOCKS_FROM", 1)
    monkeypatch.setattr("pruner.table.runner_for", lambda run: run)


def made(root: Path, *, merge_on_read: bool = False, files: int = 20, seed: int = 1) -> SyntheticTable:
    rng = random.Random(seed)
    table = SyntheticTable(root, merge_on_read)
    table.insert(rng.choices(PARTITIONS, k=files))
    return table


def last(root: Path) -> SavedSnapshot:
    saved = MetadataTable.open(open_store(f"{root}.pruner")).state().last_snapshot
    assert saved is not None
    return saved


def stored(root: Path) -> list[str]:
    folder = Path(f"{root}.pruner/files")
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def assert_same(found: Snapshot, expected: Snapshot) -> None:
    assert found.id == expected.id
    assert found.keys.equals(expected.keys)
    assert found.partitions.paths.equals(expected.partitions.paths)
    assert found.unsettled_because == expected.unsettled_because
    for name in ("coverable", "has_base", "has_logs", "sizes"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    for name in SLICE_COLUMNS.names:
        assert found.column(name).equals(expected.column(name)), name


def shared_out(root: Path, machines: Machines, place: Path) -> Snapshot:
    """The snapshot of a process that had the table listed by machines."""
    source, metadata = HudiSource(str(root)), MetadataTable(open_store(str(place)))
    saving = last_snapshot.LastSnapshot(source, metadata)
    shared_listing.share_listing(source, metadata, saving, machines)
    return source.snapshot()


@pytest.fixture(scope="module")
def listed_tables(start_session: Callable[[], SparkSession]) -> AllTables:
    """Tables with Hudi's metadata table; read-only."""
    return all_tables(start_session)


LISTED = [name for name in ALL if not name.endswith("_v6")]
"""Tables listed by the metadata table's list of files; the others have none that is known to be complete."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [*table_names(), *ALL])
def test_real_tables_are_listed_as_by_one_process(
    name: str, hudi_tables: KeptTables, listed_tables: AllTables, tmp_path: Path
) -> None:
    root = listed_tables.path(name) if name in ALL else hudi_tables.path(name)
    machines = Machines()
    snapshot = shared_out(root, machines, tmp_path)
    expected = HudiSource(str(root)).snapshot()
    by_folders = len(expected.partitions) > 1
    assert machines.shared == by_folders
    assert isinstance(snapshot.columns, StoredSlices) is by_folders
    assert_same(snapshot, expected)


def lose_a_file(root: Path) -> None:
    files = HudiSource(str(root)).snapshot().column("base_file").drop_null().to_pylist()
    Path(max(map(str, files))).unlink()


def leave_a_file(root: Path) -> None:
    """What a failed clean left of a write that was archived long ago."""
    some = Path(HudiSource(str(root)).snapshot().column("base_file").drop_null()[0].as_py())
    shutil.copy(
        some, some.with_name(f"{'0' * 8}-0000-0000-0000-{'0' * 12}-0_0-1-1_20200101000000000.parquet")
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("change", [lose_a_file, leave_a_file])
@pytest.mark.parametrize("name", LISTED)
def test_what_the_folders_hold_is_no_matter_where_hudi_lists_the_files(
    name: str, change: Callable[[Path], None], listed_tables: AllTables, tmp_path: Path
) -> None:
    """Otherwise a machine that lacks a file would leave it out of the snapshot, or show an older one instead."""
    root = tmp_path / "t"
    shutil.copytree(listed_tables.path(name), root)
    expected = HudiSource(str(root)).snapshot()

    class Elsewhere(Machines):
        def share(self, task: Callable[[int], Iterable[bytes]], count: int) -> Answers:
            kept = tmp_path / "kept"
            shutil.copytree(root, kept)
            change(root)
            try:
                return super().share(task, count)
            finally:
                shutil.rmtree(root)
                kept.rename(root)

    machines = Elsewhere()
    snapshot = shared_out(root, machines, tmp_path / "place")
    assert machines.shared == (len(expected.partitions) > 1)
    assert isinstance(snapshot.columns, StoredSlices) == machines.shared
    assert_same(snapshot, expected)


def test_lists_of_files_decide_what_is_soon_listed(
    listed_tables: AllTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(listed_tables.path("cow_v9"))
    monkeypatch.setattr(full, "_is_seen_by_all", is_seen_by_all)
    parts = HudiSource(root).parts(MACHINES)
    assert parts is not None
    assert 1 < parts.number <= MACHINES
    monkeypatch.setattr(full, "LIST_BYTES", 1 << 20)
    assert HudiSource(root).parts(MACHINES) is None


@given(sizes=st.lists(st.integers(0, 100), max_size=12), most=st.integers(1, 6))
def test_parts_have_about_one_size(sizes: list[int], most: int) -> None:
    cuts = full._cuts_by_size(sizes, most)
    assert cuts == sorted({*cuts, 0, len(sizes)})
    parts = [sum(sizes[start:stop]) for start, stop in pairwise(cuts)]
    assert len(parts) <= most
    assert all(part < sum(sizes) / most + max(sizes) + 1 for part in parts)


@pytest.mark.slow
@settings(
    max_examples=profiles.examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    merge_on_read=st.booleans(),
    files=st.integers(1, 30),
    actions=st.integers(0, 5),
    whole=st.booleans(),
    number=st.integers(0, 2**32),
)
def test_random_histories_are_listed_as_by_one_process(
    merge_on_read: bool,
    files: int,
    actions: int,
    whole: bool,
    number: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    rng = random.Random(number)
    folder = tmp_path_factory.mktemp("shared")
    table = made(folder / "t", merge_on_read=merge_on_read, files=files, seed=number)
    for _ in range(actions):
        table.act(rng.choice(ACTIONS), rng, PARTITIONS)
    machines = Machines()
    with mock.patch.object(blocks, "BLOCKS_FROM", 1_000 if whole else 1):
        snapshot = shared_out(table.root, machines, folder / "place")
        assert machines.shared == (len({path.name for path in table.root.iterdir()} - {".hoodie"}) > 1)
        assert_same(snapshot, HudiSource(str(table.root)).snapshot())


def listing_here() -> mock.Mock:
    return mock.Mock(side_effect=hudi_source.list_table)


def test_the_listing_is_committed_with_the_first_index_and_opened_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path / "t")
    here = listing_here()
    monkeypatch.setattr(hudi_source, "list_table", here)
    monkeypatch.setattr(build, "JOB_SLICES", 6)
    machines = Machines()
    opened = pruner.open_table(str(table.root))
    built = opened.create_index("stats", on="id", run=machines)
    assert built is not None
    assert built.indexed == 20
    assert machines.shared == 1
    assert machines.jobs == [6, 6, 6, 2]
    saved = last(table.root)
    assert len(saved.parts) == MACHINES
    assert saved.segment.rows == 0
    assert sum(part.rows for part in saved.parts) == 20
    metadata = MetadataTable.open(open_store(f"{table.root}.pruner"))
    assert metadata.unreferenced() == []
    assert opened.verify() == []
    reader = pruner.open_table(str(table.root))
    assert isinstance(reader.snapshot().data.columns, StoredSlices)
    assert here.call_count == 0
    assert len(reader.plan("id = 2").files) == 0
    assert len(reader.plan("id = 1").files) == 20
    assert_same(reader.snapshot().data, HudiSource(str(table.root)).snapshot())
    [at] = reader.map(history=True).history[-1:]
    assert (at.slices, at.covered) == (20, {"stats": 20})
    # A commit is followed from there, and its blocks are stored beside those of the executors.
    table.update(sorted(table.groups)[:2])
    again = pruner.open_table(str(table.root))
    here.reset_mock()
    assert again.refresh(run=machines).indexed == 2
    assert (here.call_count, machines.shared) == (0, 1)
    after = last(table.root)
    assert 0 < after.segment.rows < 20
    assert after.parts
    assert set(after.parts) < set(saved.parts)
    assert_same(pruner.open_table(str(table.root)).snapshot().data, HudiSource(str(table.root)).snapshot())
    again.vacuum(grace_seconds=0)
    assert MetadataTable.open(open_store(f"{table.root}.pruner")).unreferenced() == []


class Interrupted(Machines):
    def run(self, job: BuildJob, progress: Progress | None) -> Iterator[Receipt]:
        raise KeyboardInterrupt


def test_an_interrupted_build_does_not_list_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t")
    first, again = Interrupted(), Machines()
    with pytest.raises(KeyboardInterrupt):
        pruner.open_table(str(table.root)).create_index("stats", on="id", run=first)
    pruner.open_table(str(table.root)).create_index("stats", on="id", build=False, run=again)
    saved = last(table.root)
    assert len(saved.parts) == MACHINES
    monkeypatch.setattr(hudi_source, "list_table", mock.Mock(side_effect=AssertionError))
    assert pruner.open_table(str(table.root)).refresh(run=again).indexed == 20
    assert (first.shared, again.shared) == (1, 0)
    assert last(table.root) == saved
    assert MetadataTable.open(open_store(f"{table.root}.pruner")).unreferenced() == []


def test_what_builds_nothing_stores_no_listing(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    machines = Machines()
    opened = pruner.open_table(str(table.root))
    assert opened.refresh(run=machines).indexed == 0
    assert stored(table.root) == []
    opened.create_index("stats", on="id", build=False)
    assert pruner.open_table(str(table.root)).refresh(run=machines, dry_run=True).files == 20
    assert machines.shared == 0
    assert stored(table.root) == []


def test_a_small_table_is_stored_in_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t")
    monkeypatch.setattr(blocks, "BLOCKS_FROM", 21)
    here = listing_here()
    monkeypatch.setattr(hudi_source, "list_table", here)
    pruner.open_table(str(table.root)).create_index("stats", on="id", run=Machines())
    assert here.call_count == 0
    saved = last(table.root)
    assert (saved.segment.rows, saved.segment.tail, saved.parts) == (20, None, ())
    assert MetadataTable.open(open_store(f"{table.root}.pruner")).unreferenced() == []


def lose_one(answers: Answers) -> Answers:
    return answers[1:]


def fail(answers: Answers) -> Answers:
    raise RuntimeError("the cluster is gone")


def name_another_store(answers: Answers) -> Answers:
    """A segment that is not where the driver looks for it."""
    number, answer = answers[1]
    listed = msgspec.json.decode(answer)
    listed["segment"]["path"] = f"files/{'0' * 32}.pidx"
    return [answers[0], (number, msgspec.json.encode(listed)), *answers[2:]]


def repeat_a_part(answers: Answers) -> Answers:
    return [answers[0], (1, answers[0][1]), *answers[2:]]


@pytest.mark.parametrize("change", [lose_one, fail, name_another_store, repeat_a_part])
def test_machines_that_fail_cost_no_slice(
    change: Callable[[Answers], Answers], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path / "t")
    here = listing_here()
    monkeypatch.setattr(hudi_source, "list_table", here)
    machines = Machines(change)
    built = pruner.open_table(str(table.root)).create_index("stats", on="id", run=machines)
    assert built is not None
    assert (built.indexed, machines.shared, here.call_count) == (20, 1, 1)
    assert len(pruner.open_table(str(table.root)).plan("id = 1").files) == 20
    left = len(MetadataTable.open(open_store(f"{table.root}.pruner")).unreferenced())
    # Files that are not referenced stay until a vacuum finds them.
    assert left == (MACHINES if change is fail else 1)


def looked_at(source: HudiSource) -> list[str] | str:
    """The base files that a source finds, or why it refuses the table."""
    try:
        return sorted(str(entry.base_file) for entry in source.snapshot().slices)
    except pruner.PrunerError as refused:
        return str(refused)


def commit_meanwhile(table: SyntheticTable) -> None:
    table.update(sorted(table.groups)[:3])


def remove_a_folder(table: SyntheticTable) -> None:
    shutil.rmtree(table.root / "city=ä")


def forget_a_mark(table: SyntheticTable) -> None:
    (table.root / "city=b/.hoodie_partition_metadata").unlink()


def add_a_stranger(table: SyntheticTable) -> None:
    (table.root / "city=b/strange.parquet").write_bytes(b"")


@pytest.mark.parametrize(
    ("event", "moment"),
    [
        (commit_meanwhile, "before"),
        (commit_meanwhile, "between"),
        (commit_meanwhile, "after"),
        (remove_a_folder, "before"),
        (forget_a_mark, "before"),
        (add_a_stranger, "before"),
    ],
)
def test_what_happens_to_the_table_meanwhile_costs_no_slice(
    event: Callable[[SyntheticTable], None], moment: str, tmp_path: Path
) -> None:
    """Before, between or after the parts, and after the table was split into them."""
    table = made(tmp_path / "t", files=40)
    metadata = MetadataTable(open_store(str(tmp_path / "place")))
    source = HudiSource(str(table.root))

    class Meanwhile(Machines):
        def share(self, task: Callable[[int], Iterable[bytes]], count: int) -> Answers:
            answers: Answers = []
            if moment == "before":
                event(table)
            for number in range(count):
                answers += [(number, answer) for answer in task(number)]
                if moment == "between" and not number:
                    event(table)
            if moment == "after":
                event(table)
            return answers

    shared_listing.share_listing(source, metadata, last_snapshot.LastSnapshot(source, metadata), Meanwhile())
    assert source._known is None
    assert [path for path in (tmp_path / "place").rglob("*") if path.is_file()] == []
    assert looked_at(source) == looked_at(HudiSource(str(table.root)))


def test_a_machine_that_sees_another_table_lists_nothing(tmp_path: Path) -> None:
    """For example a lagging mount: files that it lacks would be missing from every plan."""
    table = made(tmp_path / "t")
    parts = HudiSource(str(table.root)).parts(MACHINES)
    assert parts is not None
    shutil.copytree(table.root, tmp_path / "lagging")
    table.insert(["city=a", "city=b"])
    now = HudiSource(str(table.root)).parts(MACHINES)
    assert now is not None
    for sent, root in ((now.sent, tmp_path / "lagging"), (parts.sent, table.root)):
        with pytest.raises(pruner.PrunerError, match="has another timeline here, or has changed"):
            HudiSource(str(root)).list_part(sent, 0)
    with mock.patch("pruner.tables.hudi.saved.__version__", "another"):
        other = HudiSource(str(table.root)).parts(MACHINES)
    assert other is not None
    with pytest.raises(pruner.PrunerError, match="another version of pruner shares out this listing"):
        HudiSource(str(table.root)).list_part(other.sent, 0)


def test_an_index_that_is_refused_leaves_no_listing_behind(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    opened = pruner.open_table(str(table.root))
    machines = Machines()
    with pytest.raises(pruner.PrunerError, match="nowhere"):
        opened.create_index("stats", on="nowhere", run=machines)
    assert machines.shared == 1
    assert stored(table.root) == []
    with pytest.raises(IndexDefinitionError):
        opened.create_index("stats", on="id", using="nothing", run=machines)
    built = opened.create_index("stats", on="id", run=machines)
    assert built is not None
    assert built.indexed == 20
    assert len(pruner.open_table(str(table.root)).plan("id = 1").files) == 20


def test_what_is_soon_listed_is_not_shared_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t")
    folders = len({group.partition for group in table.groups.values()})
    monkeypatch.setattr(full, "FOLDERS_FROM", folders + 1)
    assert HudiSource(str(table.root)).parts(MACHINES) is None
    monkeypatch.setattr(full, "FOLDERS_FROM", folders)
    assert HudiSource(str(table.root)).parts(MACHINES) is not None
    begun = HudiSource(str(table.root))
    begun.snapshot()
    assert begun.parts(MACHINES) is None
    # The folders of a disk may hold fewer files on another machine.
    with mock.patch.object(full, "_is_seen_by_all", is_seen_by_all):
        assert HudiSource(str(table.root)).parts(MACHINES) is None
    # Data beside the folders belongs to no part.
    (table.root / "stray.parquet").write_bytes(b"")
    assert HudiSource(str(table.root)).parts(MACHINES) is None
    assert HudiSource(str(made(tmp_path / "one", files=1).root)).parts(MACHINES) is None


@settings(max_examples=profiles.examples(200), deadline=None)
@given(
    names=st.sets(st.text("ab-./", min_size=1, max_size=4), min_size=2, max_size=12), most=st.integers(1, 6)
)
def test_all_partitions_of_a_part_come_before_those_of_the_next(names: set[str], most: int) -> None:
    """Partitions are sorted by their full paths, and folders represent all partitions in them."""
    folders = sorted({name.strip("/").replace("//", "/") for name in names} - {""})
    folders = [at for at in folders if not any(at.startswith(f"{other}/") for other in folders)]
    cuts = full._cuts_of_folders(folders, most)
    assert cuts[0] == 0
    assert cuts[-1] == len(folders)
    assert cuts == sorted(set(cuts)) or not folders
    assert len(cuts) - 1 <= max(most, 1)
    before = ""
    for start, stop in pairwise(cuts):
        inside = sorted(
            path for folder in folders[start:stop] for path in (folder, f"{folder}/x", f"{folder}/-")
        )
        assert all(before < path for path in inside)
        before = inside[-1] if inside else before


def test_folders_are_taken_apart_where_the_first_level_has_few(
    hudi_tables: KeptTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = hudi_tables.path("cow_two_partition_columns_v9")
    first = sorted(path.name for path in root.iterdir() if path.name != ".hoodie")
    second = sorted(f"{name}/{path.name}" for name in first for path in (root / name).iterdir())
    assert 1 < len(first) < len(second)
    store = open_store(str(root), {})
    assert full._folders(store, 2, len(first)) == first
    assert full._folders(store, 2, len(first) + 1) == second
    assert full._folders(store, 2, 100) == second
    assert full._folders(store, 3, 100) == second, "the files of a partition are no folders"
    keys = HudiSource(str(root)).snapshot().keys
    for most in (2, 100):
        parts = HudiSource(str(root)).parts(most)
        assert parts is not None
        looks = [HudiSource(str(root)).list_part(parts.sent, number) for number in range(parts.number)]
        slice_keys = [look.table.column("slice_key").combine_chunks() for look in looks]
        assert sum(map(len, slice_keys)) == len(keys)
        assert all((locate(keys, some) >= 0).all() for some in slice_keys)
