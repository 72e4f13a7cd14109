"""Segments by id, as they were read and verified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from pruner.errors import FormatError
from pruner.metadata.coverage import locate
from pruner.metadata.ranged import RangedSegments
from pruner.metadata.segments import SLICE_COLUMN, slice_keys

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from pruner.metadata.state import SegmentEntry, State
    from pruner.metadata.table import MetadataTable
    from pruner.tables.snapshot import Snapshot


class SegmentCache:
    """Segments by id. They are immutable, so what was read once is never stale. The cache is bounded in bytes."""

    def __init__(self, metadata: Callable[[], MetadataTable], limit_bytes: int = 512 * 1024 * 1024) -> None:
        self._metadata = metadata
        self._limit = limit_bytes
        self._tables: dict[tuple[str, tuple[str, ...] | None, tuple[str, ...]], pa.Table] = {}
        self._lock = Lock()
        self._ranged = RangedSegments(lambda: metadata().store, limit_bytes)

    def read(
        self, entry: SegmentEntry, only: tuple[str, ...] | None = None, but: tuple[str, ...] = ()
    ) -> pa.Table:
        """Return the verified content of a segment: `only` some columns, or all `but` some.

        Raises:
            FormatError: it fails its checksum or is not what the log says.
            StorageError: it cannot be read.
        """
        key = (entry.id, only, but)
        with self._lock:
            cached = self._tables.pop(key, None)
            if cached is not None:
                self._tables[key] = cached
                return cached
        table = self._metadata().read_segment(entry, only, but)
        with self._lock:
            self._tables[key] = table
            while len(self._tables) > 1 and sum(held.nbytes for held in self._tables.values()) > self._limit:
                self._tables.pop(next(iter(self._tables)))
        return table

    def recorded(self, state: State, entry: SegmentEntry, snapshot: Snapshot) -> NDArray[np.int64]:
        """Snapshot ordinals of the slices that a segment has records of."""
        recorded = self.read(entry, only=(SLICE_COLUMN,)).column(SLICE_COLUMN)
        ordinals = self.located(state, entry, snapshot)[np.unique(recorded.to_numpy())]
        return ordinals[ordinals >= 0]

    def located(self, state: State, entry: SegmentEntry, snapshot: Snapshot) -> NDArray[np.int64]:
        """Snapshot ordinal of each slice of a segment's batch, -1 for those that are not in the snapshot."""
        return self.located_in(self.entry(state, entry.batch or ""), snapshot)

    def located_in(self, batch: SegmentEntry, snapshot: Snapshot) -> NDArray[np.int64]:
        """Snapshot ordinal of each slice of a batch, -1 for those that are not in the snapshot."""
        return locate(snapshot.keys, slice_keys(self.read(batch)))

    def names(self, entry: SegmentEntry) -> list[str]:
        """The columns of a segment: raises as `read` does."""
        return self.read(entry).column_names if entry.tail is None else self._ranged.open(entry).names

    def columns(self, entry: SegmentEntry, names: Sequence[str]) -> pa.Table:
        """Columns of a segment, of which no more is read than that where it can be read in parts: raises as `read`."""
        return self.read(entry).select(list(names)) if entry.tail is None else self._ranged.read(entry, names)

    @staticmethod
    def entry(state: State | None, segment_id: str) -> SegmentEntry:
        """Return the entry of a live segment by id.

        Raises:
            FormatError: the state has no such segment.
        """
        for candidate in state.segments if state else ():
            if candidate.id == segment_id:
                return candidate
        raise FormatError(f"slice batch {segment_id} is not in the metadata table's log: refresh the index")
