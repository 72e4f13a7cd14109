"""The last snapshot in the metadata table: writers keep it there, and whoever opens the table starts from it.

It never changes an answer. A source that starts from it comes to the same snapshot as one that lists the whole
table. Where it is missing, damaged or of another version, the table is listed.

A large one is not stored anew after each change. What has come and gone since is stored beside it.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from pruner.errors import FormatError, StorageError
from pruner.metadata import segments
from pruner.metadata.ranged import Blocks
from pruner.metadata.state import FILES, SavedSnapshot
from pruner.tables.source import (
    SAVED_METADATA,
    BlockSource,
    ChangesSource,
    ComparedLook,
    SavedLook,
    StoredLook,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from pruner.metadata.state import SegmentEntry, State
    from pruner.metadata.table import MetadataTable
    from pruner.tables.source import TableSource

_log = logging.getLogger("pruner")

CHANGES_FROM: Final = 16_384
"""Rows of a stored look from which on changes are stored beside it."""

LEAST_KEPT: Final = 64
"""Changes are stored as long as it has so many times more rows."""

SLICE_KEY: Final = "slice_key"
"""The first column of what is stored of a look."""


class _Stored(NamedTuple):
    """The id of a segment that holds a whole look, and what changes are found by."""

    segment: str
    look: StoredLook


class LastSnapshot:
    """Saves the snapshot of one table in its metadata table, and loads it from there."""

    def __init__(self, source: TableSource, metadata: MetadataTable) -> None:
        self._source = source
        self._metadata = metadata
        self._stored: _Stored | None = None

    def resume(self) -> State | None:
        """Let the source start from what a writer kept, if it can be read; return the state as it was read for that."""
        state: State | None = None
        try:
            state = self._metadata.state()
            saved = state.last_snapshot
            if saved is not None and state.matches(self._source.identity()):
                self._take_up(saved)
        except (FormatError, StorageError) as error:
            _log.debug("%s is listed from scratch: %s", self._source.root, error)
        return state

    def _take_up(self, saved: SavedSnapshot) -> None:
        store = self._metadata.store
        if saved.segment.tail is not None and saved.changes is None and isinstance(self._source, BlockSource):
            self._source.resume_blocks(saved.id, segments.saved_blocks(store, saved))
        else:
            self._source.resume(self._read(saved))

    def _read(self, saved: SavedSnapshot) -> SavedLook:
        store = self._metadata.store
        try:
            return SavedLook(saved.last_id, segments.read_saved(store, saved))
        except (FormatError, StorageError) as error:
            if saved.changes is None:
                raise
            # A pruner that does not know of changes vacuums them. The snapshot before them saves most of the reading.
            _log.debug("of %s an earlier snapshot is taken up: %s", self._source.root, error)
            return SavedLook(saved.id, segments.read_part(store, saved.segment))

    def keep(self) -> None:
        """Save the source's last look in the metadata table, unless it is there already or there are no indexes.

        Raises:
            FormatError: the metadata table is damaged.
            StorageError: it cannot be written.
            ConflictError: other writers kept changing it.
        """
        state = self._metadata.state()
        if state.definitions and state.matches(self._source.identity()):
            saved = self.written(state)
            if saved is not None:
                self._metadata.commit(lambda newest: with_snapshot(newest, saved))

    def written(self, state: State) -> SavedSnapshot | None:
        """Write the source's last look for a commit to come; None where the state of this table has it.

        Raises:
            StorageError: it cannot be written.
        """
        return self._written_changes(state.last_snapshot) or self._written_whole(state.last_snapshot)

    def _written_whole(self, before: SavedSnapshot | None) -> SavedSnapshot | None:
        look = self._source.saved(None if before is None else before.last_id)
        if look is None:
            return None
        layout = Blocks(look.blocks) if look.blocks else None
        segment = self._metadata.write_segment(FILES, look.table, layout=layout)
        if isinstance(self._source, ChangesSource):
            self._stored = _Stored(segment.id, _stored_look(look.table))
        return SavedSnapshot(id=look.id, segment=segment)

    def _written_changes(self, before: SavedSnapshot | None) -> SavedSnapshot | None:
        """Write what the last look has otherwise than the one that is stored; None where that does not pay."""
        source = self._source
        if before is None or before.segment.rows < CHANGES_FROM or not isinstance(source, ChangesSource):
            return None
        rows, read = before.segment.rows, partial(self._stored_by, before.segment)
        try:
            changes = source.saved_changes(before.last_id, ComparedLook(rows, rows // LEAST_KEPT, read))
        except (FormatError, StorageError) as error:
            _log.debug("the snapshot of %s is stored anew: %s", source.root, error)
            return None
        if changes is None:
            return None
        segment = self._metadata.write_segment(FILES, segments.changes_table(changes.table, changes.gone))
        return msgspec.structs.replace(before, changes=segment, changed_id=changes.id)

    def _stored_by(self, segment: SegmentEntry) -> StoredLook | None:
        """What a segment holds, as it was written here, or is read; None of one without slice keys."""
        held = self._stored
        if held is None or held.segment != segment.id:
            table = segments.read_part(self._metadata.store, segment, (SLICE_KEY,))
            if SLICE_KEY not in table.column_names:
                return None
            held = self._stored = _Stored(segment.id, _stored_look(table))
        return held.look


def _stored_look(table: pa.Table) -> StoredLook:
    return StoredLook(segments.slice_keys(table), (table.schema.metadata or {}).get(SAVED_METADATA, b""))


def with_snapshot(state: State, saved: SavedSnapshot | None) -> State:
    """The state with the last snapshot, where there is one, it is new, and there are indexes to serve."""
    if saved is None or not state.definitions:
        return state
    last = state.last_snapshot
    if last is not None and last.last_id == saved.last_id:
        return state
    if saved.changes is not None and (last is None or last.segment.id != saved.segment.id):
        return state  # another writer stored it anew meanwhile, and what the changes are about may be going
    return state.with_snapshot(saved)
