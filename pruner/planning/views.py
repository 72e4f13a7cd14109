"""Views of one table: its snapshot and the state of its metadata table, rebuilt only if one of them changed."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from threading import Lock, RLock
from typing import TYPE_CHECKING, NamedTuple

from pruner.errors import FormatError, StorageError
from pruner.evidence.exact import ExactFacts
from pruner.evidence.file_filters import FileFilters
from pruner.evidence.snapshot import SnapshotEvidence
from pruner.evidence.sources import FollowsSnapshots
from pruner.expr.derived.indexed import ExpressionIndexes
from pruner.formats.guarded import own_indexes
from pruner.metadata import log
from pruner.planning.pinned import View
from pruner.planning.planner import Planner
from pruner.tables.snapshot import Watched
from pruner.tables.source import WatchableSource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pruner.evidence.sources import OwnIndexes
    from pruner.metadata.last_snapshot import LastSnapshot
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.metadata.state import State
    from pruner.metadata.table import MetadataTable
    from pruner.tables.snapshot import Snapshot
    from pruner.tables.source import TableSource

_NEVER = float("-inf")


class Saved(NamedTuple):
    """The number of plans that asked an index, and of slices dropped in them by it and the indexes asked with it.

    `idle` counts the newest of these plans, since the last one in which it dropped something.
    """

    plans: int = 0
    dropped: int = 0
    idle: int = 0


class Usage:
    """What indexes have saved in this process, by name; it is not persisted. Threads may share it."""

    def __init__(self) -> None:
        self._saved: dict[str, Saved] = {}
        self._lock = Lock()

    def add(self, dropped: Mapping[str, int]) -> None:
        """Count one plan: the slices that each index asked in it dropped."""
        with self._lock:
            for name, count in dropped.items():
                before = self.of(name)
                idle = 0 if count else before.idle + 1
                self._saved[name] = Saved(before.plans + 1, before.dropped + count, idle)

    def of(self, name: str) -> Saved:
        """What one index saved."""
        return self._saved.get(name, Saved())


class Views:
    """Makes the views of one table. Threads may share it.

    Attributes:
        usage: what the indexes saved in plans over these views.
    """

    def __init__(
        self,
        source: TableSource,
        metadata: MetadataTable,
        segments: SegmentCache,
        last_snapshot: LastSnapshot,
        max_staleness: float,
        *,
        own_indexes: bool = True,
        file_filters: bool = True,
    ) -> None:
        """Make no view yet.

        Args:
            source: the table.
            metadata: its metadata table.
            segments: its segments.
            last_snapshot: the snapshot that is stored there.
            max_staleness: age in seconds up to which a view may be reused without a new listing.
            own_indexes: whether the table's own indexes are used.
            file_filters: whether the Bloom filters in the files are probed.
        """
        self._file_filters = file_filters
        self._own_indexes = own_indexes
        self._source = source
        self._metadata = metadata
        self._segments = segments
        self._max_staleness = max_staleness
        self._lock = RLock()
        self._view: View | None = None
        self._last_snapshot = last_snapshot
        self._resumed = False
        self._looked_at = _NEVER
        self._evidence: SnapshotEvidence | None = None
        self._followed: OwnIndexes | None = None
        self._older_than_listing = False
        self.usage = Usage()

    def current(self) -> View:
        """The newest view, rebuilt only if a listing of the table or the log shows a change.

        Threads that wait for another thread's listing share the next one, which begins after each of them has asked.

        Raises:
            TableError: the listing cannot be read completely.
            StorageError: the store refuses to be read.
        """
        asked = time.monotonic()
        with self._lock:
            if (
                self._view is not None
                and self._looked_at > asked - self._max_staleness
                and not self._view.snapshot.lost
            ):
                return self._view
            started = time.monotonic()
            # Resuming may read the state, too: a plan need not read it twice.
            read = self._resume()
            known = self._view.state if self._view is not None else read
            snapshot, (state, unusable) = self._look(), self._read_state(read)
            if self._view is None or not self._view.shows(snapshot, state, unusable):
                self._view = self._view_of(snapshot, state, unusable, follows=True)
            # A state that was read after the listing may know of slices that the listing lacks.
            self._older_than_listing = state is known
            doubts = self._source.doubts()
            if doubts != self._view.doubts:
                self._view = replace(self._view, doubts=doubts)
            self._looked_at = started
            return self._view

    def as_of(self, instant: str) -> View:
        """The view of the table as of an instant.

        Raises:
            TableError: the format has no time travel, or the instant is not one of the table.
        """
        return self._view_of(self._source.snapshot_at(instant), *self._read_state())

    def fresh_snapshot(self) -> Snapshot:
        """List all of the table now, whatever `max_staleness` and a change feed allow.

        Raises:
            TableError: the listing cannot be read completely.
        """
        with self._lock:
            self._source.confirm()
            return self._look()

    def forget(self) -> None:
        """Make the next view from a new, full listing."""
        with self._lock:
            self._source.confirm()
            self._looked_at = _NEVER

    def _watched(self) -> Sequence[Watched] | None:
        """What a listing reads of the table, and the log of the metadata table."""
        store = self._metadata.store
        if not isinstance(self._source, WatchableSource) or not store.uri.startswith("/"):
            return None
        watched = self._source.watched()
        return None if watched is None else [*watched, Watched("folder", f"{store.uri}/{log.FOLDER}")]

    def keep(self) -> None:
        """Store the last snapshot, so that other processes start from it."""
        self._last_snapshot.keep()

    def resume(self) -> None:
        """Start from the snapshot that a writer stored, before the first listing: one still valid is not repeated."""
        with self._lock:
            self._resume()

    def _resume(self) -> State | None:
        """Start from the snapshot that a writer stored, once; returns the state if it was read for that."""
        if self._resumed:
            return None
        self._resumed = True
        return self._last_snapshot.resume()

    def _look(self) -> Snapshot:
        self._resume()
        return self._source.snapshot(self._view.snapshot if self._view else None)

    def _view_of(
        self,
        snapshot: Snapshot,
        state: State | None,
        unusable: tuple[str, ...],
        *,
        follows: bool = False,
    ) -> View:
        """A view; with `follows` it succeeds the last one, and reuses what was loaded for that."""
        own, described, unread = self._own(snapshot)
        if follows and isinstance(own, FollowsSnapshots):
            own.follow(self._followed)
        may_follow = (
            follows and self._older_than_listing and (own is None or isinstance(own, FollowsSnapshots))
        )
        before = self._evidence if may_follow else None
        evidence = SnapshotEvidence(snapshot, state, self._segments, own, before)
        if follows:
            self._evidence, self._followed = evidence, own
        implied = {} if own is None else {"implied": own.implied}
        options = self._source.storage_options
        filters = FileFilters(snapshot, options) if self._file_filters else None
        facts = ExactFacts(snapshot, evidence)
        planner = Planner(
            snapshot,
            evidence,
            options,
            self.usage.add,
            evidence.cost,
            filters=filters,
            facts=facts,
            **implied,
        )
        definitions = () if state is None else state.definitions
        over = [
            (definition.name, definition.form) for definition in definitions if definition.form is not None
        ]
        over += [] if own is None else own.expressions
        expressions = ExpressionIndexes(over, snapshot.schema)
        return View(snapshot, state, planner, unusable, expressions, described, unread, watched=self._watched)

    def _own(
        self, snapshot: Snapshot
    ) -> tuple[OwnIndexes | None, Callable[[], dict[str, str]], tuple[str, ...]]:
        """The table's own indexes if plans use them, a function that describes them, and why they cannot be used."""
        own, unread = own_indexes(self._source, snapshot)
        if own is None:
            return None, dict, unread
        if not self._own_indexes:
            return None, partial(dict.fromkeys, own.names, "switched off (hudi_indexes)"), ()
        return own, own.described, ()

    def _read_state(self, read: State | None = None) -> tuple[State | None, tuple[str, ...]]:
        """The state of the metadata table; None if there is none, or with the reason why it is not used.

        It is read now, unless it was already `read`.
        """
        try:
            state = read or self._metadata.state()
        except (FormatError, StorageError) as error:
            return None, (f"indexes are not used: {error}",)
        if state.version == 0:
            return None, ()
        if not state.matches(self._source.identity()):
            return None, (
                "indexes are not used: the table was made anew since they were built; refresh them",
            )
        return state, ()
