"""Partition statistics: records aggregated over explicit sets of slices, for the first cut of a plan.

A segment of records may have a companion in the partition `partition_stats`, each row of which is about a group: a run
of neighboring slices of the batch, with one partition path. A group identifies its slices by one digest of all their
keys, never by the path. Slices added to a partition later, or replaced, belong to no group. And a path need not be the
partition of the rows below it (RFC-63's layouts).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec
import numpy as np
import pyarrow as pa

from pruner.arrow import as_numpy
from pruner.errors import FormatError
from pruner.indexes.optional import AggregatingIndexType, PagedIndexType, SelectiveIndexType
from pruner.limits import SEGMENT_SLICES
from pruner.metadata.pages import PAGED_FROM
from pruner.metadata.segments import SLICE_COLUMN, slice_keys
from pruner.tables.slice_keys import digest_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.indexes.base import IndexType
    from pruner.metadata.definitions import IndexDefinition
    from pruner.metadata.pages import PageLayout
    from pruner.metadata.state import SegmentEntry
    from pruner.metadata.table import MetadataTable

PARTITION_STATS = "partition_stats"
"""The partition of the metadata table."""

GROUP_SLICES = 256
"""Maximum number of slices in a group."""

LEAST_SLICES = 1024
"""Batches with fewer slices are read whole anyway."""

LEAST_PER_GROUP = 8
"""Average number of slices per group below which aggregates would take more space than they save."""

GROUP_COLUMNS = pa.schema(
    [
        pa.field("__first", pa.int32(), nullable=False),  # local ordinal of the group's first slice
        pa.field("__slices", pa.int32(), nullable=False),
        pa.field("__first_key", pa.binary(16), nullable=False),
        pa.field("__keys", pa.binary(16), nullable=False),  # XXH3-128 of the concatenated slice keys
        pa.field("__partition_path", pa.string(), nullable=False),  # for display
    ]
)
"""Columns of a group; those of the index type's records follow."""


class SliceBatch(NamedTuple):
    """A slice batch while records about it are written.

    `slices` is its table, `entry` its entry. `ordinals` are the positions of its slices in the snapshot: only neighbors
    there form a group, because a plan looks for a group as a whole.
    """

    entry: SegmentEntry
    slices: pa.Table
    ordinals: NDArray[np.int64]


class Groups(NamedTuple):
    """The groups of one segment: where they begin in the batch, how many slices they have, and what identifies them."""

    firsts: NDArray[np.int64]
    counts: NDArray[np.int64]
    first_keys: pa.Array[Any]
    digests: Sequence[bytes]
    records: pa.Table


def write_records(
    metadata: MetadataTable,
    kind: IndexType,
    records: pa.Table,
    batch: SliceBatch,
    definition: IndexDefinition,
    field: tuple[str, ...],
) -> SegmentEntry:
    """Write the records of one field for a slice batch, in pages if their type has them, and their aggregates if these
    pay off.

    Raises:
        StorageError: the store failed, or a segment is larger than readers accept.
    """
    entry = metadata.write_segment(
        definition.folder(kind.partition),
        records,
        definition=definition,
        field=field,
        batch=batch.entry,
        in_parts=isinstance(kind, SelectiveIndexType),
        layout=layout_of(kind, records),
    )
    groups = _aggregated(kind, records, batch) if isinstance(kind, AggregatingIndexType) else None
    if groups is None:
        return entry
    aggregates = metadata.write_segment(
        PARTITION_STATS, groups, definition=definition, field=field, batch=batch.entry
    )
    return msgspec.structs.replace(entry, partition_stats=aggregates)


def layout_of(kind: IndexType, records: pa.Table) -> PageLayout | None:
    """How records are cut into pages; None if they are few, or their type has no pages."""
    if isinstance(kind, PagedIndexType) and records.num_rows >= PAGED_FROM:
        return kind.layout(records)
    return None


def _aggregated(kind: AggregatingIndexType, records: pa.Table, batch: SliceBatch) -> pa.Table | None:
    """The groups of some records; None if they would not pay off or cannot be made."""
    locals_ = records.column(SLICE_COLUMN).to_numpy().astype(np.int64)
    if len(locals_) < LEAST_SLICES or not (locals_[1:] > locals_[:-1]).all():
        return None
    aggregates = kind.aggregate(records, _parts(locals_, batch))
    if aggregates is None or len(aggregates.starts) * LEAST_PER_GROUP > len(locals_):
        return None
    counts = np.diff(np.append(aggregates.starts, len(locals_)))
    firsts = locals_[aggregates.starts]
    at = pa.array(firsts, pa.int64())
    keys = slice_keys(batch.slices)
    columns: list[Any] = [
        pa.array(firsts.astype(np.int32)),
        pa.array(counts.astype(np.int32)),
        keys.take(at),
        pa.array(digest_runs(keys, firsts, counts), pa.binary(16)),
        batch.slices.column("partition_path").take(at).combine_chunks(),
    ]
    described = pa.Table.from_arrays(columns, schema=GROUP_COLUMNS)
    schema: Any = aggregates.records.schema  # whose stubs leave types open
    for field, column in zip(schema, aggregates.records.columns, strict=True):
        described = described.append_column(field, column)
    return described


def _parts(locals_: NDArray[np.int64], batch: SliceBatch) -> NDArray[np.int64]:
    """A number for each record: neighbors with the same number may form a group."""
    path: Any = batch.slices.column("partition_path").combine_chunks()
    paths = path.dictionary_encode().indices.to_numpy()[locals_]
    begins = np.ones(len(locals_), np.bool_)
    begins[1:] = (paths[1:] != paths[:-1]) | (np.diff(locals_) != 1) | (np.diff(batch.ordinals[locals_]) != 1)
    run_starts = np.flatnonzero(begins)
    within = np.arange(len(locals_)) - run_starts[np.cumsum(begins) - 1]
    return np.cumsum(begins | (within % GROUP_SLICES == 0))


def groups_of(table: pa.Table, entry: SegmentEntry, records: SegmentEntry, batch_rows: int) -> Groups:
    """Return the groups of a segment that was read and verified.

    Args:
        table: the segment.
        entry: its entry.
        records: the entry of the records that it aggregates.
        batch_rows: number of slices in their batch.

    Raises:
        FormatError: it is not what this version writes.
    """
    described = table.select(table.column_names[: len(GROUP_COLUMNS)]).schema
    of_groups = (described.names, described.types) == (GROUP_COLUMNS.names, GROUP_COLUMNS.types)
    if not of_groups or SLICE_COLUMN in table.column_names:
        raise FormatError(f"the segment {entry.path} does not have the columns of partition statistics")
    if any(table.column(name).null_count for name in GROUP_COLUMNS.names):
        raise FormatError(f"the segment {entry.path} does not say which slices its groups have")
    firsts, counts = (as_numpy(table.column(name)).astype(np.int64) for name in ("__first", "__slices"))
    ends = firsts + counts
    apart = bool((firsts[1:] >= ends[:-1]).all()) and bool((counts >= 1).all())
    # Ordinals are arrays of the batch's length, which so far only the log has stated.
    inside = batch_rows <= SEGMENT_SLICES and (not len(firsts) or (firsts[0] >= 0 and ends[-1] <= batch_rows))
    if not (apart and inside):
        raise FormatError(f"the segment {entry.path} names slices outside its batch")
    if counts.sum() != records.rows:
        raise FormatError(f"the segment {entry.path} is about other slices than {records.path}")
    return Groups(
        firsts,
        counts,
        table.column("__first_key").combine_chunks(),
        cast("list[bytes]", table.column("__keys").to_pylist()),
        table.drop_columns(GROUP_COLUMNS.names),
    )
