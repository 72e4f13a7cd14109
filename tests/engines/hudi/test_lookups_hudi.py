"""Lookups of record keys while real Hudi tables change: merge-on-read, time travel, refreshes, compaction.

The slices are read without any of pruner's code. Record indexes and bitmaps, here read page by page, keep exactly the
slices that hold a key and those that they do not cover; bloom filters keep at most one other.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner
from tests.support.hudi.replay import Replay
from tests.support.hudi.union_rows import union_rows
from tests.support.kept.tables import KeptTables
from tests.support.paging import page_everything

if TYPE_CHECKING:
    from pruner.planning.pinned import PinnedSnapshot
    from pruner.tables.snapshot import FileSlice

pytestmark = pytest.mark.spark  # which builds the tables once per machine

OPTIONS = {"bloom_filter": {"fpp": "0.0001"}, "record_index": {}, "bitmap": {}}
TABLES = ("mor_v6", "mor_v8", "mor_v9", "mor_compacted_v8", "mor_rolled_back_v9", "cow_clustered_v9")
ABSENT = 10**6

Place = tuple[str, tuple[str, ...]]


@pytest.fixture(params=list(OPTIONS))
def using(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    page_everything(monkeypatch, records=4)
    return request.param


def place(entry: FileSlice) -> Place:
    """A slice by the names of its files, which do not depend on the table's location."""
    return Path(entry.base_file or "").name, tuple(Path(log).name for log in entry.log_files)


def holders(path: Path, pinned: PinnedSnapshot) -> dict[int, set[Place]]:
    """The slices that hold each key, in any version of its row."""
    found: dict[int, set[Place]] = {}
    for entry in pinned.slices:
        for row in union_rows(path, entry):
            found.setdefault(row["id"], set()).add(place(entry))
    return found


def kept(pinned: PinnedSnapshot, predicate: str) -> set[Place]:
    return set(map(place, pinned.plan(predicate, dialect="spark").slices))


def check(path: Path, pinned: PinnedSnapshot, using: str) -> set[Place]:
    """Look every key up; return the slices that are not covered."""
    uncovered = kept(pinned, f"id = {ABSENT}")
    expected = holders(path, pinned)
    total = 0
    for key, where in expected.items():
        found = kept(pinned, f"id = {key}")
        assert where <= found
        assert uncovered <= found
        total += len(found) - len(where | uncovered)
    assert total == 0 if using != "bloom_filter" else total <= 1
    listed = sorted(expected)[:5]
    found = kept(pinned, f"id IN ({', '.join(map(str, listed))})")
    assert found >= uncovered.union(*(expected[key] for key in listed))
    return uncovered


@pytest.mark.parametrize("name", TABLES)
def test_keys_are_found_after_every_commit_and_at_every_instant(
    name: str, using: str, hudi_tables: KeptTables, tmp_path: Path
) -> None:
    replay = Replay(hudi_tables.path(name), tmp_path)
    table: pruner.Table | None = None
    for count in range(1, len(replay.instants) + 1):
        path = replay.at(count)
        table = pruner.open_table(path, index_uri=str(tmp_path / "index"), hudi_indexes=False)
        if count == 1:
            table.create_index("keys", on="id", using=using, options=OPTIONS[using])
        else:
            check(path, table.snapshot(), using)  # the commit's additions are not covered yet
            table.refresh()
        uncovered = check(path, table.snapshot(), using)
        assert len(uncovered) <= len(table.snapshot().slices) - table.status().indexes[0].covered
    assert table is not None
    for instant in replay.instants:
        check(replay.path, table.snapshot(as_of=instant.requested), using)
    before = [kept(table.snapshot(), f"id = {key}") for key in range(12)]
    table.compact()
    again = pruner.open_table(replay.path, index_uri=table.index_uri, hudi_indexes=False)
    assert [kept(again.snapshot(), f"id = {key}") for key in range(12)] == before
    check(replay.path, again.snapshot(), using)
