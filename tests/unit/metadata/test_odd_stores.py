"""Stores whose clock is an hour off, that give no e-tags, or that cannot be written to."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.errors import StorageError
from pruner.metadata.log import entries
from pruner.storage.opening import open_store
from pruner.storage.store import ObjectInfo
from tests.crash.failing_store import FailingStore, How

HOUR_NS = 3600 * 10**9
FILES = 4


class OddStore(FailingStore):
    """A store whose clock differs from this machine's, and that may give no e-tags."""

    def __init__(self, place: str, ahead_ns: int, *, tags: bool = True) -> None:
        super().__init__(open_store(place), -1, How.NOT_DONE)
        self._ahead_ns = ahead_ns
        self._tags = tags

    def info(self, path: str) -> ObjectInfo | None:
        """Look one object up: see `Store.info`."""
        found = super().info(path)
        return None if found is None else self._seen(found)

    def list(self, prefix: str = "", *, after: str | None = None) -> list[ObjectInfo]:
        """List a folder: see `Store.list`."""
        return [self._seen(info) for info in super().list(prefix, after=after)]

    def _seen(self, info: ObjectInfo) -> ObjectInfo:
        etag = info.etag if self._tags else None
        return info._replace(mtime_ns=info.mtime_ns + self._ahead_ns, etag=etag)


def write_file(root: Path, number: int) -> None:
    root.mkdir(exist_ok=True)
    pq.write_table(pa.table({"x": [number]}), root / f"{number}.parquet")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("ahead", [-1, 0, 1])
@pytest.mark.parametrize("tags", [True, False])
def test_a_life_beside_another_clock(tmp_path: Path, ahead: int, tags: bool) -> None:
    place = f"memory://{uuid.uuid4()}/t.pruner"
    for number in range(FILES):
        write_file(tmp_path / "t", number)

    def opened() -> pruner.Table:
        table = pruner.open_table(tmp_path / "t", index_uri=place)
        table._metadata.store = OddStore(place, ahead * HOUR_NS, tags=tags)
        return table

    stays_open = opened()
    opened().create_index("i", on="x")
    for number in range(FILES, FILES + 3):
        write_file(tmp_path / "t", number)
        assert opened().refresh().indexed == 1
        assert stays_open.plan(f"x = {number}").kept == 1
    opened().create_index("gone", on="x", using="bitmap")
    opened().drop_index("gone")
    opened().compact()
    assert opened().vacuum() == 0, "nothing is older than a week"
    assert opened().vacuum(grace_seconds=600) == 0, "nor than ten minutes, by the store's own clock"
    assert opened().vacuum(grace_seconds=0) > 0
    assert opened()._metadata.unreferenced() == []
    assert [stays_open.plan(f"x = {number}").kept for number in range(FILES + 3)] == [1] * (FILES + 3)
    assert stays_open.plan("x = -1").kept == 0


def test_a_store_that_cannot_be_written_serves_plans(tmp_path: Path) -> None:
    place = f"memory://{uuid.uuid4()}/t.pruner"
    for number in range(FILES):
        write_file(tmp_path / "t", number)
    pruner.open_table(tmp_path / "t", index_uri=place).create_index("i", on="x")
    versions = entries(open_store(place))
    table = pruner.open_table(tmp_path / "t", index_uri=place)
    table._metadata.store = FailingStore(open_store(place), 0, How.FULL)
    assert table.plan("x = 2").kept == 1
    assert table.status().indexes[0].covered == FILES
    assert table.verify() == []
    assert table.refresh().already == FILES, "there is nothing to do"
    write_file(tmp_path / "t", FILES)
    for change in (table.refresh, table.vacuum, lambda: table.drop_index("i")):
        with pytest.raises(StorageError, match="No space left") as told:
            change()
        assert "unknown" not in str(told.value), "what was refused was not done"
    assert entries(open_store(place)) == versions
    assert table.plan("x = 2").kept == 2, "the new file stays"
