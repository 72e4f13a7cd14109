"""Traps T2 to T16, as they concern snapshots.

Soundness here: no record of an earlier state is found under a slice key of the present one, or the slice is not
coverable at all. Power: slices that did not change keep their keys.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import pruner
from pruner.formats.detect import open_table_source
from pruner.tables.feed.place import FeedSettings, announce
from pruner.tables.hudi.listing import RUNNING_WRITE
from pruner.tables.hudi.source import HudiSource
from pruner.tables.parquet.source import ParquetSource
from pruner.tables.snapshot import Snapshot
from pruner.tables.source import TableSource
from tests.support.hudi.timeline import complete_last, completed, make_inflight
from tests.support.kept.tables import KeptTables
from tests.support.parquet.tables import base_files, names, slice_keys, write_file, write_tree


def keys(snapshot: Snapshot) -> set[bytes]:
    return set(slice_keys(snapshot))


@pytest.mark.spark
def test_t2_a_column_renamed_or_made_anew_never_prunes_older_files(hudi_tables: KeptTables, tmp_path: Path):
    """T2: RFC-37, trino#17303, hudi#19467: a rename, drop or re-add matches the old column's records."""
    table = pruner.open_table(hudi_tables.path("cow_renamed_v9"), index_uri=str(tmp_path), hudi_indexes=False)
    schema = table.schema
    assert {entry.name for entry in schema if entry.dispute} == {"price", "seats"}
    for using in ("column_stats", "bloom_filter", "bitmap"):
        table.create_index(using, on=["seats"], using=using)
    # Seats 1 and 4 of the dropped column are in paris, 2 and 5 in rome; the new one has 60 and NULL, in berlin.
    for condition in ("seats = 61", "seats > 61", "seats IS NOT NULL AND seats < 0", "seats IN (1, 2, 7)"):
        plan = table.plan(condition)
        assert {each.partition_path for each in plan.slices} == {"city=paris", "city=rome"}, condition
        assert plan.rows is None
        assert "2 file groups kept: an earlier column 'seats' was dropped" in plan.explain()
    assert table.plan("seats IS NULL").kept == table.plan("seats = 60").kept == 3


@pytest.mark.spark
@pytest.mark.parametrize("name", ["cow_v6", "cow_v8", "cow_v9"])
def test_t4_time_travel_has_the_keys_of_its_own_files(name: str, hudi_tables: KeptTables):
    """T4: HUDI-8570, hudi#4896, lance#8278: today's index on an older snapshot, an old index on today's."""
    path = hudi_tables.path(name)
    source = HudiSource(str(path))
    first, second, upserted, _ = (source.snapshot_at(instant.requested) for instant in completed(path))
    assert [len(snapshot) for snapshot in (first, second, upserted)] == [3, 6, 6]
    assert keys(first) < keys(second), "slices that did not change are covered by the same records"
    rewritten = [entry.base_file for entry in upserted.slices if entry.base_file not in _files(second)]
    assert len(rewritten) == len(keys(upserted) - keys(second)) == 3
    assert source.snapshot().id not in {first.id, second.id, upserted.id}


def _files(snapshot: Snapshot) -> set[str]:
    return set(base_files(snapshot))


@pytest.mark.spark
@pytest.mark.parametrize("version", [6, 8, 9])
def test_t10_logs_of_a_running_delta_commit(version: int, hudi_tables: KeptTables, tmp_path: Path):
    """T10: measured: in version 6 hudi-rs lists a running commit's log, under its final name.

    If indexed then, its rows would be lost once the commit completes.
    """
    path = hudi_tables.path(f"mor_inflight_v{version}")
    snapshot = HudiSource(str(path)).snapshot()
    if version == 6:
        assert all(snapshot.has_logs == ~snapshot.coverable), "slices without logs stay coverable"
        assert snapshot.unsettled_because == {RUNNING_WRITE: 3}
    else:
        assert snapshot.coverable.all()
        instants = completed(path)
        assert len(instants) == 2
        logs = [log for entry in snapshot.slices for log in entry.log_files]
        assert all(instants[-1].requested in log for log in logs), "a running commit's logs are not listed"


@pytest.mark.spark
@pytest.mark.parametrize("version", [6, 8, 9])
def test_t11_logs_behind_a_pending_compaction(version: int, hudi_tables: KeptTables):
    """T11: measured: in version 6 hudi-rs omits the logs on the instant of a pending compaction."""
    path = hudi_tables.path(f"mor_pending_compaction_v{version}")
    snapshot = HudiSource(str(path)).snapshot()
    there = {
        str(file)
        for file in path.rglob(".*.log.*")
        if not file.name.endswith(".crc") and ".hoodie/" not in str(file)
    }
    assert {log for entry in snapshot.slices for log in entry.log_files} == there
    assert snapshot.columns.column("unsettled").to_pylist() == [version == 6] * 3
    assert snapshot.coverable.tolist() == [version != 6] * 3


@pytest.mark.spark
@pytest.mark.parametrize("version", [6, 8, 9])
def test_t13_instants_that_finish_out_of_order(version: int, hudi_tables: KeptTables, tmp_path: Path):
    """T13: measured: the newest instant is the same before and after, the table is not."""
    path = hudi_tables.copy(f"cow_late_commit_after_v{version}", tmp_path)
    late = completed(path)[1]
    content = late.file.read_bytes()
    make_inflight(path, late)
    source = HudiSource(str(path))
    before = source.snapshot()
    newest = max(instant.requested for instant in completed(path))
    complete_last(path, late, content)
    assert max(instant.requested for instant in completed(path)) == newest
    after = source.snapshot(before)
    assert after.id != before.id
    assert (len(before), len(after)) == (6, 9)
    assert keys(before) < keys(after)


MODES = ["plain", "immutable", "feed"]


def opened(root: Path, mode: str) -> TableSource:
    """A source that checks every file, folders alone, or what a change feed names."""
    announced(root, mode)
    feed = FeedSettings(f"{root}.feed") if mode == "feed" else None
    return open_table_source([str(root)], immutable=mode == "immutable", feed=feed)


def announced(root: Path, mode: str, *paths: str) -> None:
    """What a writer's hook does after a write."""
    if mode == "feed":
        announce(f"{root}.feed", [str(root)], paths)


@pytest.mark.parametrize("mode", MODES)
def test_t16_a_file_rewritten_with_the_same_size_and_time(tmp_path: Path, mode: str):
    """T16: measured: only the change time and the inode distinguish the two.

    Files declared immutable are not written in place, but others may replace them under their names.
    """
    root = write_tree(tmp_path / "t", "a.parquet", "b.parquet")
    source = opened(root, mode)
    before = source.snapshot()
    file, old = root / "a.parquet", (root / "a.parquet").stat()
    for how in ("by rename",) if mode == "immutable" else ("in place", "by rename"):
        target = file if how == "in place" else tmp_path / "new.parquet"
        write_file(target, x=[7])
        os.utime(target, ns=(old.st_atime_ns, old.st_mtime_ns))
        if how == "by rename":
            target.rename(file)
        assert (file.stat().st_size, file.stat().st_mtime_ns) == (old.st_size, old.st_mtime_ns)
        announced(root, mode, "a.parquet")
        after = source.snapshot(before)
        assert after.id != before.id, how
        assert len(keys(after) & keys(before)) == 1, "the other file keeps its key"
        before = after


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", MODES)
def test_t16_a_file_rewritten_right_after_it_was_listed(tmp_path: Path, mode: str):
    """T16, R4: within one tick of the kernel's clock all times are equal: the listing waits for the next tick."""
    root = write_tree(tmp_path / "t", "a.parquet")
    file = root / "a.parquet"
    source = opened(root, mode)
    snapshot = source.snapshot()
    for position in range(20):
        write_file(tmp_path / "new.parquet" if mode == "immutable" else file, x=[position])
        if mode == "immutable":
            (tmp_path / "new.parquet").rename(file)
        announced(root, mode, "a.parquet")
        snapshot, before = source.snapshot(snapshot), snapshot
        assert snapshot.id != before.id
        assert snapshot.coverable.all()


def test_t16_a_clock_of_whole_seconds_is_not_waited_for_but_not_trusted_either(tmp_path: Path):
    """T16, R4: such a file is unsettled until its second has passed, then settled without a change."""
    root = write_tree(tmp_path / "t", "a.parquet")
    source = ParquetSource([str(root)])
    lister = source._listers[0]  # its listing mimics a file system with whole seconds
    listing = lister.facts
    second = time.time_ns() // 10**9 * 10**9
    setattr(lister, "facts", lambda: [(*fact[:2], second, second, fact[4]) for fact in listing()])  # noqa: B010
    young = source.snapshot()
    assert not young.coverable.any()
    time.sleep(max(0.0, 2.05 - (time.time_ns() - second) / 1e9))
    settled = source.snapshot(young)
    assert settled.coverable.all()
    assert settled.id != young.id
    assert keys(settled) == keys(young)
    assert names(settled) == ["a.parquet"]
