"""From receipts to the state: commits finished batches once, whoever built them and however often a build was killed.

Every check is repeated against the newest state, because other writers may have been faster (R9): an index may be
gone, another refresh may have recorded the same slices, or have committed this exact batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from pruner.errors import FormatError, StorageError
from pruner.indexes.partition_stats import layout_of
from pruner.indexes.registry import index_type
from pruner.metadata import receipts
from pruner.metadata.last_snapshot import with_snapshot
from pruner.metadata.segments import SLICE_COLUMN

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from numpy.typing import NDArray

    from pruner.metadata.last_snapshot import LastSnapshot, Written
    from pruner.metadata.receipts import Receipt
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.metadata.state import SegmentEntry, State
    from pruner.metadata.table import MetadataTable
    from pruner.tables.snapshot import Snapshot
    from pruner.tables.source import TableSource

_NOTHING: Set[str] = frozenset()


class Publisher:
    """Makes finished batches visible."""

    def __init__(
        self,
        source: TableSource,
        metadata: MetadataTable,
        segments: SegmentCache,
        last_snapshot: LastSnapshot,
    ) -> None:
        self._source = source
        self._metadata = metadata
        self._segments = segments
        self._last_snapshot = last_snapshot

    def of_this_table(self, state: State) -> State:
        """The state without the coverage of another table that was at this location before (R10)."""
        identity = self._source.identity()
        return state if state.matches(identity) else state.without_coverage(identity)

    def waiting(self, state: State, snapshot: Snapshot) -> tuple[State, int]:
        """The state with the batches that another build left behind, and the number of slices with records in them.

        Nothing is committed. A batch that is no longer useful is not counted.
        """
        waiting = receipts.receipts(self._metadata.store)
        used = [receipt for receipt in waiting if self._additions(state, [receipt], snapshot, _NOTHING)]
        with_them = state.with_segments(self._additions(state, used, snapshot, _NOTHING))
        return with_them, sum(used_one.indexed for used_one in used)

    def take_up(self, snapshot: Snapshot) -> int:
        """Commit the batches that another build left behind; returns the number of slices with records in them.

        Raises:
            ConflictError: other writers kept changing the metadata table.
            StorageError: it cannot be written.
        """
        waiting = receipts.receipts(self._metadata.store)
        if not waiting:
            return 0
        state = self.of_this_table(self._metadata.state())
        # The other build did not check whether a touched file held something else while it was read.
        now = self._source.look_again(snapshot, {})
        settled = [self._settled(receipt, state, now) for receipt in waiting]
        used = [receipt for receipt in settled if self._additions(state, [receipt], snapshot, _NOTHING)]
        self._commit(used, snapshot, _NOTHING)
        receipts.discard(self._metadata.store, waiting)
        return sum(used_one.indexed for used_one in used)

    def publish(
        self, built: Sequence[Receipt], base: State, snapshot: Snapshot, now: Snapshot
    ) -> frozenset[str]:
        """Commit what a build finished; returns the UUIDs of indexes that were dropped meanwhile.

        Args:
            built: its receipts; their slices are disjoint and were not covered in `base`.
            base: the state that the build started from.
            snapshot: the snapshot that it indexed.
            now: the table after the last file was read.

        Raises:
            ConflictError: other writers kept changing the metadata table, or a segment is gone.
            StorageError: it cannot be written.
        """
        settled = built if now is snapshot else [self._settled(receipt, base, now) for receipt in built]
        disjoint = {entry.id for entry in base.segments}
        disjoint.update(entry.id for receipt in settled for entry in receipt.records)
        written = self._last_snapshot.written(self.of_this_table(self._metadata.state()))
        state = self._commit(settled, snapshot, disjoint, written)
        receipts.discard(self._metadata.store, built)
        alive = {definition.uuid for definition in state.definitions}
        return (
            frozenset(entry.definition for receipt in built for entry in receipt.records if entry.definition)
            - alive
        )

    def _commit(
        self,
        receipts: Sequence[Receipt],
        snapshot: Snapshot,
        disjoint: Set[str],
        written: Written | None = None,
    ) -> State:
        def add(newest: State) -> State:
            state = self.of_this_table(newest)
            entries = self._additions(state, receipts, snapshot, disjoint)
            return with_snapshot(state.with_segments(entries), written) if entries else newest

        return self._metadata.commit(add)

    def _additions(
        self, state: State, receipts: Sequence[Receipt], snapshot: Snapshot, disjoint: Set[str]
    ) -> list[SegmentEntry]:
        """The segments of receipts that add something to a state; `disjoint` segments need not be compared."""
        alive = {definition.uuid: definition.record_version for definition in state.definitions}
        known = {entry.id for entry in state.segments}
        added: list[SegmentEntry] = []
        for receipt in receipts:
            if receipt.identity != state.table_identity:
                continue
            fresh = [
                entry
                for entry in receipt.records
                if alive.get(entry.definition or "") == entry.record_version
                and entry.id not in known
                and self._adds(state, receipt, entry, snapshot, disjoint)
            ]
            if fresh:
                entries = [*(() if receipt.batch.id in known else (receipt.batch,)), *fresh]
                state = state.with_segments(entries)
                added += entries
        return added

    def _adds(
        self, state: State, receipt: Receipt, entry: SegmentEntry, snapshot: Snapshot, disjoint: Set[str]
    ) -> bool:
        """Tell whether some slice of the snapshot has a record in this segment and in no other."""
        others = [
            other
            for other in state.segments
            if other.definition == entry.definition
            and other.field == entry.field
            and not (other.id in disjoint and entry.id in disjoint)
        ]
        if entry.id in disjoint and not others:
            return True
        try:
            mine = self._recorded(receipt, entry, snapshot)
            recorded = self._segments.recorded(state, others, snapshot)
            covered = recorded.get(entry.field, np.zeros(len(snapshot), np.bool_))
        except (FormatError, StorageError):
            # A failed read is no reason to lose what was built, or to trust what was left behind.
            return entry.id in disjoint
        return bool((~covered[mine]).any())

    def _recorded(self, receipt: Receipt, entry: SegmentEntry, snapshot: Snapshot) -> NDArray[np.int64]:
        ordinals = self._located(receipt, snapshot)[
            np.unique(self._segments.leading(entry, (SLICE_COLUMN,)).column(SLICE_COLUMN).to_numpy())
        ]
        return ordinals[ordinals >= 0]

    def _located(self, receipt: Receipt, snapshot: Snapshot) -> NDArray[np.int64]:
        return self._segments.located_in(receipt.batch, snapshot)

    def _settled(self, receipt: Receipt, state: State, now: Snapshot) -> Receipt:
        """The receipt without the records of slices that are not in the table any more (R4).

        A file that changed while it was read may later be changed back, and would have records of other content.
        """
        if self._source.write_once:
            return receipt
        try:
            same = self._located(receipt, now) >= 0
            if same.all():
                return receipt
            kept = [self._without(entry, receipt, state, same) for entry in receipt.records]
        except (FormatError, StorageError):
            kept = []  # a batch that cannot be read back is no evidence; its slices stay uncovered
        return msgspec.structs.replace(receipt, records=tuple(entry for entry in kept if entry is not None))

    def _without(
        self, entry: SegmentEntry, receipt: Receipt, state: State, same: NDArray[np.bool_]
    ) -> SegmentEntry | None:
        definition = next(
            (definition for definition in state.definitions if definition.uuid == entry.definition), None
        )
        records = self._segments.read(entry)
        kept = records.filter(pa.array(same[records.column(SLICE_COLUMN).to_numpy()]))
        if definition is None or not kept.num_rows:
            return None
        return self._metadata.write_segment(
            entry.partition,
            kept,
            definition=definition,
            field=entry.field,
            batch=receipt.batch,
            layout=layout_of(index_type(definition.using), kept) if entry.pages is not None else None,
        )
