"""What tests of change feeds share: stores in memory, and a note of each whole listing."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import obstore
import pyarrow as pa
import pyarrow.parquet as pq

from pruner.storage.objects import ObjectStore
from pruner.storage.opening import open_store
from pruner.tables.listing.files import LocalLister, StoreLister


@contextmanager
def listings(kind: type[LocalLister] | type[StoreLister]) -> Iterator[list[str]]:
    """Note the root of each whole listing."""
    noted: list[str] = []
    whole = kind.facts

    def noting(self: LocalLister | StoreLister) -> object:
        noted.append(self.root)
        return whole(self)  # type: ignore[arg-type]

    with patch.object(kind, "facts", noting):
        yield noted


def put(store: ObjectStore, path: str, value: int) -> None:
    """Write a file with one value to a store."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": [value]}), sink)
    obstore.put(store._store, store._key(path), sink.getvalue())


def in_memory() -> tuple[str, ObjectStore]:
    """The root of a table in a store in memory, and the store."""
    root = f"memory://{uuid.uuid4().hex}/lake/t"
    store = open_store(root)
    assert isinstance(store, ObjectStore)
    return root, store


def s3_event(bucket: str, key: str) -> dict[str, object]:
    """A record of S3 about an object that was written."""
    return {"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": bucket}, "object": {"key": key}}}
