"""Coverage over time: what the log of a metadata table tells of how its indexes kept up with the table.

With most commits a writer leaves the table as it saw it, so each can be measured against the table of its time. What a
`vacuum` has deleted cannot be told any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.arrow import compute
from pruner.errors import FormatError, StorageError
from pruner.maintenance.status import recorded_slices
from pruner.metadata import log

if TYPE_CHECKING:
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.metadata.state import State
    from pruner.metadata.table import MetadataTable
    from pruner.tables.snapshot import Snapshot

COMMITS = 24
"""Commits at most that are looked at: the newest."""


@dataclass(frozen=True, slots=True)
class CoverageAt:
    """Coverage after one commit: `covered` says for each index of that time of how many of the `slices` it had records.

    `version` is the number of the log entry and `at` its time, ISO 8601 in UTC; both are None of the table as it stands
    now. Slices are those that an index may cover.
    """

    version: int | None
    at: str | None
    slices: int
    covered: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Slices:
    """See `pruner.metadata.segment_cache.Keyed`."""

    keys: pa.Array[Any]


def coverage_over_time(
    metadata: MetadataTable, snapshot: Snapshot, state: State, segments: SegmentCache
) -> tuple[CoverageAt, ...]:
    """Coverage after each of the newest commits that can still be told, oldest first, and as the table stands now.

    Args:
        metadata: the metadata table, whose log is read.
        snapshot: the table as it stands.
        state: the newest state.
        segments: reads records.

    Raises:
        FormatError, StorageError: the log cannot be listed.
    """
    found: list[CoverageAt] = []
    for version, _ in log.entries(metadata.store)[-COMMITS:]:
        try:
            committed, _ = log.read(metadata.store, version)
            at = _after(committed, metadata, segments)
        except (FormatError, StorageError):
            continue  # damaged, or out of use for so long that a vacuum took it
        if at is not None:
            found.append(at)
    slices = _Slices(snapshot.keys.filter(pa.array(snapshot.coverable)))
    return (*found, CoverageAt(None, None, len(slices.keys), _covered(state, slices, segments)))


def _after(state: State, metadata: MetadataTable, segments: SegmentCache) -> CoverageAt | None:
    """Coverage after one commit; None where its writer left no snapshot."""
    if state.last_snapshot is None:
        return None
    seen = metadata.read_saved(state.last_snapshot)
    if "unsettled" in seen.column_names:
        seen = seen.filter(compute.invert(seen.column("unsettled")))
    slices = _Slices(seen.column("slice_key").combine_chunks())
    return CoverageAt(state.version, state.created_at, len(slices.keys), _covered(state, slices, segments))


def _covered(state: State, slices: _Slices, segments: SegmentCache) -> dict[str, int]:
    return {
        each.name: int(np.count_nonzero(recorded_slices(each, state, slices, segments)))
        for each in state.definitions
    }
