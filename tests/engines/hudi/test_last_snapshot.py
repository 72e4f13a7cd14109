"""The last snapshot in the metadata table: a cold open resumes from it and yields what a listing does, or lists."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import pruner
from pruner.metadata.state import State
from pruner.metadata.table import MetadataTable
from pruner.storage.opening import open_store
from pruner.tables.hudi import saved as saved_looks
from pruner.tables.hudi import source
from pruner.tables.hudi.source import HudiSource
from pruner.tables.listing.files import LocalLister
from tests.support.hudi.replay import Replay
from tests.support.kept.tables import KeptTables
from tests.support.parquet.tables import write_tree
from tests.support.snapshots import assert_same

pytestmark = pytest.mark.spark

NAMES = (
    "cow_v6",
    "cow_v9",
    "mor_v6",
    "mor_v8",
    "mor_compacted_v9",
    "cow_clustered_v9",
    "cow_unpartitioned_v9",
)


class Listings:
    """Count how often a Hudi table was listed in full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real: Callable[..., Any] = source.list_table

        def counting(*args: Any) -> Any:
            self.count += 1
            return real(*args)

        monkeypatch.setattr(source, "list_table", counting)


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> Listings:
    return Listings(monkeypatch)


def kept(path: Path) -> State:
    return MetadataTable.open(open_store(f"{path}.pruner")).state()


def indexed(path: Path) -> None:
    pruner.open_table(str(path)).create_index("stats", on="id")


def assert_opens_alike(path: Path) -> None:
    assert_same(pruner.open_table(str(path)).snapshot().data, HudiSource(str(path)).snapshot())


@pytest.mark.parametrize("name", NAMES)
def test_a_cold_open_follows_from_what_was_kept(
    name: str, hudi_tables: KeptTables, tmp_path: Path, listings: Listings
) -> None:
    replay = Replay(hudi_tables.path(name), tmp_path)
    last = len(replay.instants)
    for start in range(1, last + 1):
        path = replay.at(start)
        indexed(path)
        replay.at(last)
        listings.count = 0
        found = pruner.open_table(str(path)).snapshot().data
        assert listings.count == 0
        assert_same(found, HudiSource(str(path)).snapshot())
        pruner.open_table(str(path)).uninstall()


def test_a_table_may_be_moved_with_what_was_kept(
    hudi_tables: KeptTables, tmp_path: Path, listings: Listings
) -> None:
    """T7: HUDI-8371: nothing that is kept contains the table's location."""
    path = hudi_tables.copy("mor_v9", tmp_path)
    indexed(path)
    moved = tmp_path / "elsewhere" / "other name"
    moved.parent.mkdir()
    path.rename(moved)
    Path(f"{path}.pruner").rename(f"{moved}.pruner")
    listings.count = 0
    found = pruner.open_table(str(moved)).snapshot().data
    assert listings.count == 0
    assert_same(found, HudiSource(str(moved)).snapshot())


def test_readers_write_nothing_and_writers_only_what_is_new(hudi_tables: KeptTables, tmp_path: Path) -> None:
    path = hudi_tables.copy("cow_v9", tmp_path)
    indexed(path)
    before = kept(path)
    assert before.last_snapshot is not None
    table = pruner.open_table(str(path))
    table.plan("id = 1")
    table.status()
    assert table.refresh().indexed == 0
    assert kept(path) == before
    assert table.verify() == []
    assert table.vacuum(grace_seconds=0) >= 0
    assert Path(f"{path}.pruner", before.last_snapshot.segment.path).is_file()


def damaged(path: Path) -> None:
    saved = kept(path).last_snapshot
    assert saved is not None
    file = Path(f"{path}.pruner", saved.segment.path)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def removed(path: Path) -> None:
    saved = kept(path).last_snapshot
    assert saved is not None
    Path(f"{path}.pruner", saved.segment.path).unlink()


def under_another_id(path: Path) -> None:
    def change(state: State) -> State:
        assert state.last_snapshot is not None
        return state.with_snapshot(msgspec.structs.replace(state.last_snapshot, id="0" * 32))

    MetadataTable.open(open_store(f"{path}.pruner")).commit(change)


def made_anew(path: Path) -> None:
    properties = path / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("hoodie.table.name=", "hoodie.table.name=new_"))


@pytest.mark.parametrize("harm", [damaged, removed, under_another_id, made_anew])
def test_what_cannot_be_used_is_listed(
    harm: Callable[[Path], None], hudi_tables: KeptTables, tmp_path: Path, listings: Listings
) -> None:
    path = hudi_tables.copy("mor_v9", tmp_path)
    indexed(path)
    harm(path)
    listings.count = 0
    found = pruner.open_table(str(path)).snapshot().data
    assert listings.count == 1
    assert_same(found, HudiSource(str(path)).snapshot())
    problems = pruner.open_table(str(path)).verify()
    assert bool(problems) == (harm in (damaged, removed)), problems


def test_what_another_version_kept_is_listed(
    hudi_tables: KeptTables, tmp_path: Path, listings: Listings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version may consider other slices settled."""
    path = hudi_tables.copy("mor_v9", tmp_path)
    indexed(path)
    monkeypatch.setattr(saved_looks, "__version__", "9.9.9")
    listings.count = 0
    assert_same(pruner.open_table(str(path)).snapshot().data, HudiSource(str(path)).snapshot())
    assert listings.count == 2


def test_a_cold_open_of_a_parquet_table_reads_no_footer_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root = write_tree(tmp_path / "table", "k=1/a.parquet", "k=2/b.parquet")
    table = pruner.open_table(str(root))
    table.create_index("stats", on="x")
    before = table.snapshot().data
    read: list[str] = []
    real = LocalLister.read

    def reading(lister: LocalLister, path: str, start: int, length: int) -> bytes:
        read.append(path)
        return real(lister, path, start, length)

    monkeypatch.setattr(LocalLister, "read", reading)
    assert_same(pruner.open_table(str(root)).snapshot().data, before)
    assert not read
    write_tree(root, "k=3/c.parquet")
    after = pruner.open_table(str(root)).snapshot().data
    assert set(read) == {"k=3/c.parquet"}
    shutil.rmtree(f"{root}.pruner")
    assert_same(after, pruner.open_table(str(root)).snapshot().data)
    assert set(read) == {"k=1/a.parquet", "k=2/b.parquet", "k=3/c.parquet"}
