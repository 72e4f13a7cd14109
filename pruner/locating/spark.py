"""Locates keys where they are: those of a DataFrame on Spark, where each task looks up its own keys."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow
from pruner.errors import PrunerError, TableError
from pruner.expr.nodes import And, Column, Compare, In, Literal, Operator
from pruner.formats.detect import open_table_source
from pruner.locating.reading import (
    LOCATION,
    KeyReader,
    Pairs,
    distinct,
    ends,
    fields_of,
    joined,
    literals,
    typed,
)
from pruner.metadata.last_snapshot import LastSnapshot
from pruner.metadata.segment_cache import SegmentCache
from pruner.metadata.table import MetadataTable
from pruner.planning.pinned import PinnedSnapshot
from pruner.planning.views import Views
from pruner.storage.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.expr.nodes import Expr
    from pruner.indexes.optional import Located
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot

# Tells for each key which file group it is in: from the indexes first, and from the files where these leave doubt.
#
# Which slices can hold which keys comes from the record index if there is one, else from all other indexes.

MOST_LISTED = 1024
"""Maximum number of keys to list one by one if there is no record index: Bloom filters answer for as many."""


class Candidates(NamedTuple):
    """What the indexes say about some keys.

    `located` are rows that have one of the keys or, unless `certain`, may have one; None without a record index.
    `to_read` are the other slices that may hold any of the keys, ascending.
    """

    located: Located | None
    certain: bool
    to_read: NDArray[np.intp]


def candidates(pinned: PinnedSnapshot, fields: Sequence[Field], keys: pa.Table) -> Candidates:
    """Ask the indexes about distinct keys (see `pruner.locating.reading.distinct`)."""
    located: Located | None = None
    certain = False
    for number, field in enumerate(fields):
        evidence = pinned.locating(field)
        if evidence is not None:
            located = evidence.locate(keys.column(str(number)).combine_chunks())
            certain = len(fields) == 1 and evidence.tells_all_apart
            break
    unknown = np.ones(len(pinned.data), np.bool_) if located is None else located.unknown
    if not unknown.any() or not keys.num_rows:
        return Candidates(located, certain, np.empty(0, np.intp))
    parts = [_about(field, keys.column(str(number))) for number, field in enumerate(fields)]
    plan = pinned.plan(parts[0] if len(parts) == 1 else And(tuple(parts)))
    return Candidates(located, certain, np.flatnonzero(plan.kept_mask & unknown))


def _about(field: Field, values: Any) -> Expr:
    """A predicate that is true for each row with one of the values in a column: a list of them, or their range."""
    column, different = Column(field.path), values.combine_chunks().unique()
    if len(different) <= MOST_LISTED:
        return In(column, tuple(Literal(value, field.type) for value in literals(different, field.type)))
    low, high = literals(ends(different), field.type)
    return And(
        (
            Compare(Operator.GE, column, Literal(low, field.type)),
            Compare(Operator.LE, column, Literal(high, field.type)),
        )
    )


def locate(pinned: PinnedSnapshot, keys: pa.Table, storage_options: Mapping[str, str]) -> pa.Table:
    """Return the keys with the columns of `LOCATION`: see `pruner.table.Table.tag_location`.

    Raises:
        SchemaError: the table has no such column, or values of another type.
        TableError: slices that may hold the keys have log files that cannot be merged as Hudi merges them.
        StorageError: a file cannot be read.
    """
    fields = fields_of(keys.schema, pinned.schema)
    wanted, numbers = distinct(typed(keys, fields))
    asked = candidates(pinned, fields, wanted)
    reader = KeyReader(pinned.data, fields, storage_options)
    located, to_read = asked.located, asked.to_read
    if located is not None and (merged := reader.to_merge[located.slices]).any():
        # For these, the index knows which keys some version of a row had, but not which of them are left.
        to_read = np.union1d(to_read, located.slices[merged]).astype(np.intp)
        located = located.only(~merged)
    parts = [reader.found(to_read, wanted)]
    if located is not None:
        pairs = Pairs(located.which, located.slices)
        parts.append(pairs if asked.certain else reader.confirmed(located, wanted))
    return _told(keys, numbers, joined(parts), pinned.data)


def _told(keys: pa.Table, numbers: NDArray[np.int64], pairs: Pairs, snapshot: Snapshot) -> pa.Table:
    """The keys with their locations: one row per location, and one without a location for a key that has none."""
    places = np.bincount(
        pairs.keys + 1, minlength=int(numbers.max(initial=-1)) + 2
    )  # the first is for NULL: none
    starts, counts = (np.cumsum(places) - places)[numbers + 1], places[numbers + 1]
    times = np.maximum(counts, 1)
    rows = np.repeat(np.arange(len(numbers)), times)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    is_new = np.repeat(counts == 0, times)
    at = np.where(is_new, 0, np.repeat(starts, times) + within)
    ordinals: Any = arrow.array(pairs.slices[at] if len(pairs.slices) else at, pa.int64(), mask=is_new)
    told: Any = _taken(keys, rows)
    rows = snapshot.rows(ordinals, ("partition", *LOCATION.names[1:]))
    paths = snapshot.partitions.paths.take(rows.column("partition").combine_chunks())
    for name, column in zip(
        LOCATION.names,
        (paths, *(rows.column(name) for name in LOCATION.names[1:])),
        strict=True,
    ):
        told = told.append_column(name, column)
    return told


def _taken(keys: pa.Table, rows: NDArray[np.intp]) -> pa.Table:
    """Rows of the keys. Arrow's `take` does not support views, as which newer engines pass text."""
    names, types = keys.column_names, keys.schema.types
    plain: Any = keys.cast(pa.schema(list(zip(names, map(_without_view, types), strict=True))))
    return plain.take(arrow.array(rows)).cast(keys.schema)


def _without_view(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(type_):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(type_) else type_


KEYS_AT_ONCE = 1 << 20
"""Number of keys of a task that are looked up together."""


class TableHandle(NamedTuple):
    """A table as it is sent to executors, and the snapshot that all of them must see."""

    roots: tuple[str, ...]
    format: str
    index_uri: str
    storage_options: dict[str, str]
    snapshot_id: str
    index_memory: int


def located(keys: Any, pinned: PinnedSnapshot, place: TableHandle) -> Any:
    """Locate keys where they are: an Arrow table here, a DataFrame on Spark.

    Raises:
        PrunerError: they are something else; otherwise as `locate` does.
    """
    if isinstance(keys, pa.RecordBatch):
        keys = pa.Table.from_batches([keys])
    if isinstance(keys, pa.Table):
        return locate(pinned, keys, place.storage_options)
    if not hasattr(keys, "mapInArrow"):
        raise PrunerError(f"keys are an Arrow table or a Spark DataFrame, not a {type(keys).__name__}")
    return located_by_spark(keys, place)


def located_by_spark(keys: Any, place: TableHandle) -> Any:
    """Return a DataFrame of keys with the columns of `LOCATION`, computed lazily."""
    schema = copy.deepcopy(keys.schema)
    for name in LOCATION.names:
        schema = schema.add(name, "string", True)
    return keys.mapInArrow(partial(locate_batches, place), schema)


def locate_batches(place: TableHandle, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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


def _pinned(place: TableHandle) -> PinnedSnapshot:
    source = open_table_source(list(place.roots), place.storage_options, place.format)
    metadata = MetadataTable(open_store(place.index_uri, place.storage_options))
    segments = SegmentCache(lambda: metadata, place.index_memory)
    views = Views(source, metadata, segments, LastSnapshot(source, metadata), 0.0)
    pinned = PinnedSnapshot(views.current())
    if pinned.id != place.snapshot_id:
        raise TableError("the table changed while keys were located: ask again")
    return pinned
