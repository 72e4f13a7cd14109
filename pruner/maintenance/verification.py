"""Checks beyond checksums: partition statistics against the records, and the table's files against the index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.arrow import compute
from pruner.errors import FormatError, StorageError
from pruner.evidence.join import as_recorded, expand
from pruner.evidence.loading import usable_type
from pruner.indexes.optional import AggregatingIndexType
from pruner.indexes.partition_stats import groups_of
from pruner.metadata.coverage import digest_runs
from pruner.metadata.segments import REMEDY, SLICE_COLUMN, relative_files, slice_keys

if TYPE_CHECKING:
    from pruner.indexes.base import IndexType
    from pruner.indexes.partition_stats import Groups
    from pruner.metadata.state import SegmentEntry, State
    from pruner.metadata.table import MetadataTable
    from pruner.tables.snapshot import Snapshot


_VERSION = ["slice_key", "base_file"]

_CHANGED = (
    "is not the file that was indexed under this name: run pruner refresh; if a program wrote into it in place, "
    "also restart the processes that plan over the table"
)
"""A refresh lists every file. A process that looked before may still believe what a file written in place held."""


def partition_stats_problems(metadata: MetadataTable) -> list[str]:
    """Compare all partition statistics with the records that they sum up; one sentence for each that differs.

    What cannot be read, or has a checksum that does not fit, is left out: `MetadataTable.verify` tells of it.
    """
    try:
        state = metadata.state()
    except (FormatError, StorageError):
        return []
    problems: list[str] = []
    kinds = {definition.uuid: usable_type(definition) for definition in state.definitions}
    for entry in state.segments:
        kind = kinds.get(entry.definition or "")
        if entry.partition_stats is None or kind is None or isinstance(kind, str):
            continue
        problem = _problem(metadata, state, entry, entry.partition_stats, kind)
        if problem is not None:
            problems.append(f"{state.about(entry)}: {problem}")
    return problems


def _problem(
    metadata: MetadataTable, state: State, entry: SegmentEntry, of: SegmentEntry, kind: IndexType
) -> str | None:
    try:
        batch = metadata.read_segment(next(each for each in state.segments if each.id == entry.batch))
        recorded = metadata.read_segment(entry)
        table = metadata.read_segment(of)
    except (FormatError, StorageError):
        return None
    try:
        groups = groups_of(table, of, entry, batch.num_rows)
        summed, records = as_recorded(groups.records, kind, of), as_recorded(recorded, kind, entry)
    except FormatError as error:
        return str(error)
    if not _names_its_slices(groups, batch, recorded):
        return f"the segment {of.path} names other slices than {entry.path}: {REMEDY}"
    found = kind.aggregate(records, _parts(groups)) if isinstance(kind, AggregatingIndexType) else None
    if found is None:
        return None
    starts = np.cumsum(groups.counts) - groups.counts
    same = np.array_equal(found.starts, starts) and summed.equals(found.records.select(summed.column_names))
    if same:
        return None
    return f"the segment {of.path} is not what the records of {entry.path} add up to: {REMEDY}"


def changed_files(metadata: MetadataTable, snapshot: Snapshot) -> list[str]:
    """Name the files that are not what was indexed under their name; one sentence each.

    A file that was replaced by a rename is one of them until the next refresh, and plans keep it. One that was written
    in place breaks the promise of a table whose files are declared immutable: plans of processes that looked before
    believe that it holds what it held. The two cannot be told apart afterwards.

    Files of which an index has the present version are not among them, whatever they were before.

    Args:
        metadata: whose slice batches say which versions were indexed.
        snapshot: of a listing that asked for every file.

    Raises:
        FormatError, StorageError: a slice batch cannot be read.
    """
    batches = [metadata.read_segment(entry).select(_VERSION) for entry in metadata.state().batches()]
    if not batches:
        return []
    recorded = pa.concat_tables(batches)
    here = relative_files(snapshot.columns.column("base_file"), snapshot.root)
    indexed = compute.is_in(here, value_set=recorded.column("base_file").combine_chunks())
    known = compute.is_in(snapshot.keys, value_set=recorded.column("slice_key").combine_chunks())
    changed = compute.and_(indexed.combine_chunks(), compute.invert(known))
    uris = snapshot.columns.column("base_file").filter(changed).to_pylist()
    return [f"{uri} {_CHANGED}" for uri in uris]


def _names_its_slices(groups: Groups, batch: pa.Table, recorded: pa.Table) -> bool:
    """Tell whether groups have exactly the slices with a record, by ordinal and by digest."""
    locals_ = expand(groups.firsts, groups.counts)[0]
    if not np.array_equal(locals_, recorded.column(SLICE_COLUMN).to_numpy()):
        return False
    keys = slice_keys(batch)
    firsts = keys.take(groups.firsts)
    digests = digest_runs(keys, groups.firsts, groups.counts)
    return bool(firsts.equals(groups.first_keys)) and digests == list(groups.digests)


def _parts(groups: Groups) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.repeat(np.arange(len(groups.counts)), groups.counts)
