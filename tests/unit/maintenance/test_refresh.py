"""A refresh: what it reads, what it commits, what it resumes from interrupted builds, and its messages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.metadata import MetadataTable, receipts
from pruner.pipeline import batches, slices
from pruner.pipeline.batches import BuildJob, work_table, write_batches
from pruner.pipeline.runners import LocalRunner
from pruner.pipeline.slices import run_slices
from pruner.storage.opening import open_store
from pruner.tables.parquet import source


def write_files(root: Path, numbers: range) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for i in numbers:
        pq.write_table(pa.table({"x": [2 * i, 2 * i + 1], "s": [f"v{i}", None]}), root / f"{i:04}.parquet")


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "CHUNK_SLICES", 2)
    monkeypatch.setattr(batches, "BATCH_SLICES", 4)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_files(tmp_path / "t", range(10))
    return tmp_path / "t"


def metadata_of(table: pruner.Table) -> MetadataTable:
    return MetadataTable(open_store(table.index_uri))


def assert_sharp(table: pruner.Table, count: int) -> None:
    """Each file has values of its own, so an existing value keeps one file and any other keeps none."""
    for value in (0, 1, 2 * count - 1):
        assert [Path(uri).name for uri in table.plan(f"x = {value}").files] == [f"{value // 2:04}.parquet"]
    assert table.plan(f"x = {2 * count}").kept == 0
    assert table.verify() == []


class Stops(LocalRunner):
    """Ends like a killed process, after some batches."""

    def __init__(self, after: int) -> None:
        self._after = after

    def run(self, job: BuildJob, progress: Any) -> Iterator[Any]:
        """Yield the receipts of the first batches, then die."""
        for number, receipt in enumerate(super().run(job, progress)):
            if number == self._after:
                raise KeyboardInterrupt
            yield receipt


def stopped_build(table: pruner.Table, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("pruner.table.runner_for", lambda _: Stops(after))
        with pytest.raises(KeyboardInterrupt):
            table.refresh()


@pytest.mark.slow
@pytest.mark.usefixtures("small_batches")
def test_many_batches_one_commit(root: Path) -> None:
    table = pruner.open_table(root)
    steps: list[tuple[int, int]] = []
    result = table.create_index("i", on=["x", "s"], progress=lambda done, total: steps.append((done, total)))
    assert result is not None
    assert (result.indexed, result.files, result.resumed) == (10, 10, 0)
    assert steps == [(2, 10), (4, 10), (6, 10), (8, 10), (10, 10)]
    state = metadata_of(table).state()
    assert state.version == 2
    assert [batch.rows for batch in state.batches()] == [4, 4, 2]
    assert metadata_of(table).unreferenced() == []
    assert_sharp(table, 10)


@pytest.mark.slow
def test_a_batch_ends_by_time_and_by_size(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pruner.open_table(root)
    table.create_index("i", on="x", build=False)
    metadata = metadata_of(table)
    snapshot = table.snapshot().data
    (definition,) = metadata.state().definitions
    request = batches.BuildRequest(pruner_kind("column_stats"), snapshot.schema.find(("x",)), {}, "i")
    job = BuildJob(
        metadata, "parquet", {}, (batches.Target(definition, request),), work_table(snapshot, np.arange(10))
    )
    monkeypatch.setattr(slices, "CHUNK_SLICES", 1)

    def rows(clock: Any) -> list[int]:
        found = write_batches(job, run_slices(job.slices, {}, job.requests), clock=clock)
        return [receipt.batch.rows for receipt in found]

    assert rows(lambda: 0.0) == [10]
    seconds = iter(range(0, 10_000, 25))
    assert rows(lambda: float(next(seconds))) == [3, 3, 3, 1]
    monkeypatch.setattr(batches, "BATCH_RECORD_BYTES", 1)
    assert rows(lambda: 0.0) == [1] * 10


def pruner_kind(name: str) -> Any:
    from pruner.indexes.registry import index_type

    return index_type(name)


@pytest.mark.slow
@pytest.mark.usefixtures("small_batches")
def test_what_a_build_had_finished_is_not_done_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pruner.open_table(root)
    table.create_index("i", on=["x", "s"], build=False)
    stopped_build(table, monkeypatch, 2)
    assert table.plan("x = 0").kept == 10, "nothing is visible before the commit"
    dry = table.refresh(dry_run=True)
    # The third batch was written, too, before the runner could pass it on.
    assert (dry.indexed, dry.already, dry.resumed, dry.files) == (0, 10, 10, 0)
    stopped = len(receipts.receipts(metadata_of(table).store))
    result = table.refresh()
    assert (stopped, result.indexed, result.resumed) == (3, 0, 10)
    assert receipts.receipts(metadata_of(table).store) == []
    assert metadata_of(table).unreferenced() == []
    assert_sharp(table, 10)


@pytest.mark.slow
@pytest.mark.usefixtures("small_batches")
def test_the_rest_is_built_after_what_was_left_is_taken_up(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pruner.open_table(root)
    table.create_index("i", on="x", build=False)
    stopped_build(table, monkeypatch, 0)
    write_files(root, range(10, 13))
    os.utime(root)
    result = table.refresh()
    assert (result.resumed, result.indexed, result.already) == (4, 9, 4)
    assert_sharp(table, 13)


@pytest.mark.slow
@pytest.mark.usefixtures("small_batches")
def test_left_batches_are_judged_by_the_table_as_it_is_now(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the build that died and the next: an index created again, a file overwritten, a receipt damaged."""
    table = pruner.open_table(root)
    table.create_index("i", on="x", build=False)
    table.create_index("gone", on="x", build=False)
    stopped_build(table, monkeypatch, 2)
    table.drop_index("gone")
    table.create_index("gone", on="s", build=False)
    pq.write_table(pa.table({"x": [900], "s": ["other"]}), root / "0005.parquet")
    old = root / "0005.parquet"
    os.utime(old, ns=(1, 1))
    (root / "0001.parquet").unlink()
    store = metadata_of(table).store
    last = max(receipts.receipts(store), key=lambda receipt: receipt.batch.id)
    damaged = Path(table.index_uri) / receipts.FOLDER / f"{last.batch.id}.json"
    damaged.write_bytes(damaged.read_bytes().replace(b'"x"', b'"s"'))
    result = table.refresh()
    assert result.failures == ()
    assert result.resumed > 0
    state = metadata_of(table).state()
    anew = state.definition("gone")
    assert anew is not None
    assert {entry.field for entry in state.segments_of(anew)} == {("s",)}
    assert [Path(uri).name for uri in table.plan("x = 900").files] == ["0005.parquet"]
    assert [Path(uri).name for uri in table.plan("s = 'v7'").files] == ["0007.parquet"]
    for value in (0, 5, 19):
        assert [Path(uri).name for uri in table.plan(f"x = {value}").files] == [f"{value // 2:04}.parquet"]
    assert table.plan("x = 2").kept == table.plan("x = 10").kept == 0
    assert table.verify() == []


@pytest.mark.parametrize("few_of", [64, 0], ids=["listed again", "asked for"])
def test_r4_a_file_that_changed_while_it_was_read_is_left_out(
    root: Path, monkeypatch: pytest.MonkeyPatch, few_of: int
) -> None:
    """Same size, same modification time (trap T16): only the second listing shows it."""
    monkeypatch.setattr(source, "FEW_OF", few_of)
    table = pruner.open_table(root)
    table.create_index("i", on=["x", "s"], build=False)
    changed = root / "0001.parquet"
    status = changed.stat()

    def overwrite(done: int, total: int) -> None:
        changed.write_bytes(changed.read_bytes())
        os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))

    result = table.refresh(progress=overwrite)
    assert [(failure.slice, failure.index) for failure in result.failures] == [(str(changed), "i")]
    assert "changed while it was read" in result.failures[0].reason
    state = metadata_of(table).state()
    assert {entry.rows for entry in state.segments if entry.definition} == {9}
    assert {Path(uri).name for uri in table.plan("x = 0").files} == {"0000.parquet", "0001.parquet"}


def test_each_file_is_read_once_for_all_indexes_that_lack_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pruner.open_table(root)
    table.create_index("x", on="x")
    write_files(root, range(10, 14))
    table.create_index("s", on="s", build=False)
    opened: list[str] = []
    from pruner.pipeline import kernel

    real = kernel.FileReader

    def counting(uri: str, *rest: Any) -> Any:
        opened.append(uri)
        return real(uri, *rest)

    monkeypatch.setattr(kernel, "FileReader", counting)
    result = table.refresh()
    assert (result.indexed, result.already, len(opened), len(set(opened))) == (14, 0, 14, 14)
    assert_sharp(table, 14)


def test_only_the_named_partitions(tmp_path: Path) -> None:
    root = tmp_path / "t"
    for part in ("y=1/m=1", "y=1/m=2", "y=11/m=1"):
        write_files(root / part, range(2))
    table = pruner.open_table(root)
    table.create_index("i", on="x", build=False)
    assert table.refresh(partition="y=1/m=2", dry_run=True).files == 2
    first = table.refresh(partition="y=1/m=2")
    assert (first.indexed, first.already) == (2, 0)
    assert (table.refresh(partition=["y=1", "y=11"]).indexed, table.refresh().indexed) == (4, 0)
    with pytest.raises(pruner.TableError, match="no partition 'y=3': its partitions are 'y=1/m=1', "):
        table.refresh(partition="y=3")
    assert table.plan("x = 3").kept == 3


def test_run_is_local_or_a_session(root: Path) -> None:
    table = pruner.open_table(root)
    with pytest.raises(pruner.PrunerError, match="run is 'local' or a SparkSession, not 'spark'"):
        table.create_index("i", on="x", run="spark")
    assert table.indexes() == ()


def test_an_index_dropped_during_the_build_does_not_take_the_others_along(root: Path) -> None:
    table = pruner.open_table(root)
    table.create_index("stays", on="x", build=False)
    table.create_index("goes", on="s", build=False)
    other = pruner.open_table(root)

    def drop(*_: int) -> None:
        other.drop_index("goes", if_exists=True)

    with pytest.raises(pruner.ConflictError, match="index goes was dropped while it was being built"):
        table.refresh(progress=drop)
    assert_sharp(table, 10)
    assert table.refresh().indexed == 0


def test_two_builds_of_the_same_leave_one_set_of_records(root: Path) -> None:
    """R9: the slower one finds everything recorded and adds nothing."""
    table = pruner.open_table(root)
    table.create_index("i", on="x", build=False)
    other = pruner.open_table(root)
    done: list[int] = []

    def faster(*_: int) -> None:
        if not done:
            done.append(other.refresh().indexed)

    result = table.refresh(progress=faster)
    state = metadata_of(table).state()
    assert (done, result.indexed) == ([10], 10)
    assert sum(entry.rows for entry in state.segments if entry.definition) == 10
    assert receipts.receipts(metadata_of(table).store) == []
    assert_sharp(table, 10)


def test_columns_that_an_index_on_all_leaves_out_are_named(tmp_path: Path) -> None:
    """Files that disagree about a type, and types that cannot be indexed: both are reported."""
    for name, type_ in (("a", pa.timestamp("us")), ("b", pa.timestamp("us", "UTC"))):
        columns = {"id": [1], "at": pa.array([1], type_), "s": [{"x": 1, "l": [1]}]}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    table = pruner.open_table(str(tmp_path))
    table.create_index("all", on="*")
    table.create_index("one", on="id", using="bitmap")
    everything, one = table.status().indexes
    assert everything.columns == ("id", "s.x")
    assert everything.left_out == {
        "at": "column 'at' cannot be indexed: files hold both timestamp[us] and timestamp[us, tz=UTC]",
        "s.l": everything.left_out["s.l"],
    }
    assert "list<element: int64>, which column_stats cannot index" in everything.left_out["s.l"]
    assert one.left_out == {}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("using", ["column_stats", "bitmap", "bloom_filter"])
def test_an_index_on_all_columns_serves_those_that_the_table_gains_later(root: Path, using: str) -> None:
    table = pruner.open_table(root)
    table.create_index("all", on="*", using=using)
    for number, channel in ((20, "web"), (21, "app")):
        columns = {"x": [number], "s": ["a"], "channel": [channel]}
        pq.write_table(pa.table(columns), root / f"{number:04}.parquet")
    assert table.plan("channel = 'web'").kept == 12, "nothing is recorded of it yet"
    table.refresh()
    for opened in (table, pruner.open_table(root)):
        plan = opened.plan("channel = 'web'")
        assert ([Path(uri).name for uri in plan.files], plan.fallbacks) == (["0020.parquet"], ())
        assert opened.plan("channel IS NULL OR channel = 'app'").kept == 11 + (using == "bloom_filter")
