"""Changes since the last snapshot was stored whole are stored beside it, and readers see one snapshot."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.errors import FormatError
from pruner.metadata import MetadataTable, last_snapshot, segments
from pruner.metadata.last_snapshot import LastSnapshot, with_snapshot
from pruner.metadata.segments import read_saved
from pruner.metadata.state import FILES, SavedSnapshot, State
from pruner.storage.opening import open_store
from pruner.tables.listing.files import LocalLister
from pruner.tables.parquet.source import ParquetSource

FILE_COUNT = 40


def put(file: Path, **columns: list[object]) -> None:
    pq.write_table(pa.table(columns), file)
    os.utime(file, ns=(10**18, 10**18))  # long settled


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with an index, whose snapshots are stored as changes unless more than an eighth changed."""
    monkeypatch.setattr(last_snapshot, "CHANGES_FROM", 16)
    monkeypatch.setattr(last_snapshot, "LEAST_KEPT", 8)
    root = tmp_path / "t"
    root.mkdir()
    for number in range(FILE_COUNT):
        put(root / f"{number:02}.parquet", x=[number])
    opened(root).create_index("i", on="x")
    return root


def opened(root: Path) -> pruner.Table:
    return pruner.open_table(root)


def metadata_of(root: Path) -> MetadataTable:
    return MetadataTable(open_store(f"{root}.pruner"))


def saved_of(root: Path) -> SavedSnapshot:
    saved = metadata_of(root).state().last_snapshot
    assert saved is not None
    return saved


def slice_keys(root: Path) -> list[bytes]:
    return sorted(cast("list[bytes]", ParquetSource([str(root)]).snapshot().keys.to_pylist()))


def stored_keys(root: Path) -> list[bytes]:
    table = read_saved(metadata_of(root).store, saved_of(root))
    return sorted(cast("list[bytes]", table.column("slice_key").to_pylist()))


def assert_nothing_is_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that starts from stored data reads no footer, and sees the same as one that reads everything."""
    source = ParquetSource([str(root)])
    LastSnapshot(source, metadata_of(root)).resume()
    with monkeypatch.context() as without_reading:
        without_reading.setattr(LocalLister, "read", lambda *_: pytest.fail("a footer was read"))
        resumed = source.snapshot()
    anew = ParquetSource([str(root)]).snapshot()
    assert resumed.id == anew.id
    assert resumed.schema == anew.schema
    assert resumed.file_schemas is not None
    assert anew.file_schemas is not None
    assert [resumed.file_schemas.distinct[i] for i in resumed.file_schemas.ordinals] == [
        anew.file_schemas.distinct[i] for i in anew.file_schemas.ordinals
    ]


@pytest.mark.parametrize("one_process", [True, False])
def test_what_came_and_went_is_stored_beside_the_snapshot(
    root: Path, monkeypatch: pytest.MonkeyPatch, one_process: bool
) -> None:
    whole = saved_of(root)
    assert whole.changes is None
    table = opened(root)
    for turn in range(3):
        if turn == 1:
            (root / "05.parquet").unlink()
        else:
            put(root / f"new-{turn}.parquet", x=[100 + turn])
        (table if one_process else opened(root)).refresh()
        saved = saved_of(root)
        assert saved.segment == whole.segment
        assert saved.changes is not None
        assert saved.changes.rows == 1 + (turn == 2)
        assert stored_keys(root) == slice_keys(root)
        assert_nothing_is_read_again(root, monkeypatch)
    assert [plan.name for plan in map(Path, opened(root).plan("x = 102").files)] == ["new-2.parquet"]
    assert opened(root).plan("x = 5").files == []
    assert not opened(root).verify()


def test_a_file_that_comes_back_is_in_the_stored_snapshot_again(root: Path) -> None:
    aside = root.parent / "aside"
    (root / "05.parquet").rename(aside)
    opened(root).refresh()
    put(root / "other.parquet", x=[7])
    opened(root).refresh()
    aside.rename(root / "05.parquet")
    put(root / "third.parquet", x=[8])
    opened(root).refresh()
    assert saved_of(root).changes is not None
    assert stored_keys(root) == slice_keys(root)


def test_a_snapshot_that_changed_much_is_stored_whole(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved_of(root)
    for number in range(6):
        put(root / f"new-{number}.parquet", x=[number])
    opened(root).refresh()
    saved = saved_of(root)
    assert saved.changes is None
    assert saved.segment != before.segment
    assert saved.segment.rows == FILE_COUNT + 6
    assert_nothing_is_read_again(root, monkeypatch)


def test_a_snapshot_is_stored_whole_where_as_many_files_came_as_went(root: Path) -> None:
    for number in range(FILE_COUNT // 8):
        (root / f"{number:02}.parquet").unlink()
        put(root / f"new-{number}.parquet", x=[number])
    opened(root).refresh()
    assert saved_of(root).changes is None
    assert stored_keys(root) == slice_keys(root)


def test_files_of_a_new_schema_keep_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root / "00-first.parquet", x=[1], y=["a"])  # so that the schemas have another order
    opened(root).refresh()
    assert saved_of(root).changes is not None
    assert_nothing_is_read_again(root, monkeypatch)
    put(root / "zz.parquet", x=[1], z=[1.5])
    opened(root).refresh()
    assert saved_of(root).changes is not None
    assert_nothing_is_read_again(root, monkeypatch)


def test_a_touched_file_is_known_again_by_its_changes(root: Path) -> None:
    put(root / "new.parquet", x=[100])
    opened(root).refresh()
    assert saved_of(root).changes is not None
    (root / "new.parquet").chmod(0o600)
    table = opened(root)
    assert table.plan("x = 1").files == [str(root / "01.parquet")]
    assert table.refresh().indexed == 0


def drop_changes(root: Path) -> None:
    """Commit as a writer that does not know of changes: it does not write what it does not know."""

    def without(state: State) -> State:
        older = msgspec.json.decode(msgspec.json.encode(state))
        known = ("id", "segment")
        older["last_snapshot"] = {key: older["last_snapshot"][key] for key in known}
        return msgspec.convert(older, State)

    metadata_of(root).commit(without)


def test_a_writer_that_does_not_know_of_changes_loses_only_these(root: Path) -> None:
    put(root / "new.parquet", x=[100])
    (root / "05.parquet").unlink()
    opened(root).refresh()
    drop_changes(root)
    assert saved_of(root).changes is None
    table = opened(root)
    assert table.plan("x = 100").files == [str(root / "new.parquet")]
    assert table.plan("x = 5").files == []
    put(root / "newer.parquet", x=[101])
    table.refresh()
    assert stored_keys(root) == slice_keys(root)


def test_changes_that_another_writer_dropped_are_stored_again_though_the_table_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = saved_of(root)
    put(root / "new.parquet", x=[100])
    opened(root).refresh()
    drop_changes(root)
    assert saved_of(root) == whole
    opened(root).refresh()
    assert saved_of(root).changes is not None
    assert_nothing_is_read_again(root, monkeypatch)


def test_where_changes_are_gone_the_snapshot_before_them_is_taken(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a vacuum by a pruner that does not know of them."""
    put(root / "new.parquet", x=[100])
    opened(root).refresh()
    changes = saved_of(root).changes
    assert changes is not None
    (root.parent / "t.pruner" / changes.path).unlink()
    source = ParquetSource([str(root)])
    LastSnapshot(source, metadata_of(root)).resume()
    anew = ParquetSource([str(root)]).snapshot()
    read: set[str] = set()
    whole = LocalLister.read

    def noted(self: LocalLister, path: str, start: int, length: int) -> bytes:
        read.add(path)
        return whole(self, path, start, length)

    monkeypatch.setattr(LocalLister, "read", noted)
    assert source.snapshot().id == anew.id
    assert read == {"new.parquet"}
    put(root / "newer.parquet", x=[101])
    opened(root).refresh()
    assert stored_keys(root) == slice_keys(root)


def refuse_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if stored data is read again to compare with it."""
    monkeypatch.setattr(LastSnapshot, "_stored_by", lambda *_: pytest.fail("it was read once more"))


@pytest.mark.parametrize("with_changes", [True, False])
def test_a_snapshot_that_is_stored_is_not_read_to_compare(
    root: Path, monkeypatch: pytest.MonkeyPatch, with_changes: bool
) -> None:
    if with_changes:
        put(root / "new.parquet", x=[100])
        opened(root).refresh()
    before = saved_of(root)
    refuse_to_compare(monkeypatch)
    opened(root).refresh()
    assert saved_of(root) == before


def test_what_is_stored_is_not_read_where_too_many_files_came_or_went(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_to_compare(monkeypatch)
    for number in range(FILE_COUNT // 8 + 1):
        put(root / f"new-{number}.parquet", x=[100 + number])
    opened(root).refresh()
    assert saved_of(root).changes is None
    for number in range(FILE_COUNT // 8 + 2):
        (root / f"{number:02}.parquet").unlink()
    opened(root).refresh()
    LastSnapshot(ParquetSource([str(root)]), metadata_of(root)).keep()  # of a source that has listed nothing
    assert_nothing_is_read_again(root, monkeypatch)


def test_what_is_lost_of_a_stored_snapshot_is_stored_anew(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = root.parent / "t.pruner" / saved_of(root).segment.path
    stored.write_bytes(stored.read_bytes()[:-1] + b"?")
    put(root / "new.parquet", x=[100])
    opened(root).refresh()
    assert saved_of(root).changes is None
    assert_nothing_is_read_again(root, monkeypatch)


def test_changes_of_a_snapshot_that_another_writer_stored_anew_are_left_out(root: Path) -> None:
    metadata = metadata_of(root)
    put(root / "new.parquet", x=[100])
    source = ParquetSource([str(root)])
    source.snapshot()
    changes = LastSnapshot(source, metadata).written(metadata.state())
    assert changes is not None
    assert changes.saved.changes is not None
    look = ParquetSource([str(root)])
    look.snapshot()
    saved = look.saved()
    assert saved is not None
    other = SavedSnapshot(id="other", segment=metadata.write_segment(FILES, saved.table))
    newest = metadata.state().with_snapshot(other)
    assert with_snapshot(newest, changes) is newest
    assert with_snapshot(metadata.state(), changes).last_snapshot == changes.saved


@pytest.mark.parametrize(
    "gone", ["?", "", b64encode(np.array([FILE_COUNT], "<i4").tobytes()).decode(), "AA=="]
)
def test_changes_that_do_not_fit_are_an_error_that_says_so(root: Path, gone: str) -> None:
    put(root / "new.parquet", x=[100])
    opened(root).refresh()
    metadata, saved = metadata_of(root), saved_of(root)
    assert saved.changes is not None
    table = segments.read_part(metadata.store, saved.changes)
    described = {**table.schema.metadata, segments.GONE: gone.encode()}
    broken = metadata.write_segment(FILES, table.replace_schema_metadata(described if gone else None))
    with pytest.raises(FormatError, match="no answer depends on it"):
        read_saved(metadata.store, msgspec.structs.replace(saved, changes=broken))
    other = metadata.write_segment(FILES, table.select(["slice_key"]))
    with pytest.raises(FormatError, match="does not fit the snapshot"):
        read_saved(metadata.store, msgspec.structs.replace(saved, changes=other))


def test_changes_are_in_use_and_checked(root: Path) -> None:
    put(root / "new.parquet", x=[100])
    opened(root).refresh()
    metadata, saved = metadata_of(root), saved_of(root)
    assert saved.changes is not None
    assert metadata.vacuum(0) == 0 or metadata.state().last_snapshot == saved
    file = root.parent / "t.pruner" / saved.changes.path
    assert file.exists()
    file.write_bytes(b"no Parquet file")
    (problem,) = opened(root).verify()
    assert "the snapshot for the next look" in problem
    assert opened(root).plan("x = 100").files == [str(root / "new.parquet")]
