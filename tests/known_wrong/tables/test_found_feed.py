"""Events that a listing misread, so that it missed new files."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.storage.opening import open_store
from pruner.storage.store import Store
from pruner.tables.feed.place import FeedSettings, add_event, announce
from pruner.tables.parquet.source import ParquetSource
from tests.support.parquet.tables import names, write_tree


def _put(store: Store, path: str) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"v": [1]}), sink)
    store.put_if_absent(path, sink.getvalue().to_pybytes())


@pytest.mark.parametrize("spelt", ["day=1/", "{root}/day=1/", "day=1"])
def test_a_folder_beside_an_object_of_its_name_is_asked_for(spelt: str) -> None:
    """Some stores (Azure with a hierarchy) and writers represent the folder itself as an empty object."""
    bucket = uuid.uuid4().hex
    root, feed = f"memory://{bucket}/t", f"memory://{bucket}/feed"
    store = open_store(root)
    _put(store, "a.parquet")
    store.put_if_absent("day=1", b"")
    announce(feed, [root], [])
    source = ParquetSource([root], feed=FeedSettings(feed))
    source.snapshot()
    _put(store, "day=1/b.parquet")
    announce(feed, [root], [spelt.format(root=root)])
    assert names(source.snapshot()) == names(ParquetSource([root]).snapshot())
    assert "day=1/b.parquet" in names(source.snapshot())


def test_an_event_that_names_a_folder_above_the_table_lists_it_whole(tmp_path: Path) -> None:
    """One feed serves several tables; an event of one can name a folder in which another lies."""
    root = write_tree(tmp_path / "lake" / "t", "a.parquet")
    feed = str(tmp_path / "feed")
    announce(feed, [str(root)], [])
    source = ParquetSource([str(root)], feed=FeedSettings(feed))
    source.snapshot()
    write_tree(root, "b.parquet")
    add_event(feed, json.dumps({"pruner_notify": 1, "paths": [f"{tmp_path}/lake/"]}).encode())
    assert names(source.snapshot()) == ["a.parquet", "b.parquet"]
    assert "in which the table lies" in source.doubts()[0]
