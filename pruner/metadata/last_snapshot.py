"""The last snapshot in the metadata table: writers keep it there, and whoever opens the table starts from it.

It never changes an answer. A source that starts from it comes to the same snapshot as one that lists the whole
table. Where it is missing, damaged or of another version, the table is listed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pruner.errors import FormatError, StorageError
from pruner.metadata.state import FILES, SavedSnapshot
from pruner.tables.source import SavedLook

if TYPE_CHECKING:
    from pruner.metadata.state import State
    from pruner.metadata.table import MetadataTable
    from pruner.tables.source import TableSource

_log = logging.getLogger("pruner")


class LastSnapshot:
    """Saves the snapshot of one table in its metadata table, and loads it from there."""

    def __init__(self, source: TableSource, metadata: MetadataTable) -> None:
        self._source = source
        self._metadata = metadata

    def resume(self) -> State | None:
        """Let the source start from what a writer kept, if it can be read; return the state as it was read for that."""
        state: State | None = None
        try:
            state = self._metadata.state()
            saved = state.last_snapshot
            if saved is not None and state.matches(self._source.identity()):
                self._source.resume(SavedLook(saved.id, self._metadata.read_saved(saved)))
        except (FormatError, StorageError) as error:
            _log.debug("%s is listed from scratch: %s", self._source.root, error)
        return state

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
        look = self._source.saved(state.last_snapshot.id if state.last_snapshot is not None else None)
        if look is None:
            return None
        return SavedSnapshot(id=look.id, segment=self._metadata.write_segment(FILES, look.table))


def with_snapshot(state: State, saved: SavedSnapshot | None) -> State:
    """The state with the last snapshot, where there is one, it is new, and there are indexes to serve."""
    if saved is None or not state.definitions:
        return state
    if state.last_snapshot is not None and state.last_snapshot.id == saved.id:
        return state
    return state.with_snapshot(saved)
