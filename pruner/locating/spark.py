"""Locating keys where they are: those of a DataFrame on Spark, where each task looks up its own."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from pruner.errors import PrunerError, TableError
from pruner.formats.detect import open_table_source
from pruner.locating.keys import LOCATION
from pruner.locating.locations import locate
from pruner.metadata.segment_cache import SegmentCache
from pruner.metadata.table import MetadataTable
from pruner.planning.pinned import PinnedSnapshot
from pruner.planning.views import Views
from pruner.storage.opening import open_store

KEYS_AT_ONCE = 1 << 20
"""Keys of a task that are looked up together."""


class Place(NamedTuple):
    """A table as it travels to executors, and the snapshot that all of them have to see."""

    roots: tuple[str, ...]
    format: str
    index_uri: str
    storage_options: dict[str, str]
    snapshot_id: str
    index_memory: int


def located(keys: Any, pinned: PinnedSnapshot, place: Place) -> Any:
    """Locate keys where they are: an Arrow table here, a DataFrame on Spark.

    Raises:
        PrunerError: they are something else; and as `locate` does.
    """
    if isinstance(keys, pa.RecordBatch):
        keys = pa.Table.from_batches([keys])
    if isinstance(keys, pa.Table):
        return locate(pinned, keys, place.storage_options)
    if not hasattr(keys, "mapInArrow"):
        raise PrunerError(f"keys are an Arrow table or a Spark DataFrame, not a {type(keys).__name__}")
    return located_by_spark(keys, place)


def located_by_spark(keys: Any, place: Place) -> Any:
    """Return a DataFrame of keys with the columns of `LOCATION`, to be worked out when it is asked for."""
    schema = copy.deepcopy(keys.schema)
    for name in LOCATION.names:
        schema = schema.add(name, "string", True)
    return keys.mapInArrow(partial(locate_batches, place), schema)


def locate_batches(place: Place, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Locate the keys of one task; the function that `mapInArrow` calls.

    Raises:
        TableError: the table changed since the DataFrame was made.
    """
    pinned: PinnedSnapshot | None = None
    for keys in _together(batches):
        pinned = pinned or _pinned(place)
        yield from locate(pinned, keys, place.storage_options).to_batches()


def _together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= KEYS_AT_ONCE:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.Table.from_batches(waiting)


def _pinned(place: Place) -> PinnedSnapshot:
    source = open_table_source(list(place.roots), place.storage_options, place.format)
    metadata = MetadataTable(open_store(place.index_uri, place.storage_options))
    views = Views(source, metadata, SegmentCache(lambda: metadata, place.index_memory), 0.0)
    pinned = PinnedSnapshot(views.current())
    if pinned.id != place.snapshot_id:
        raise TableError("the table changed while keys were located: ask again")
    return pinned
