"""The metadata table: reads its newest state, changes it atomically, and reads and writes its segments."""

from __future__ import annotations

import random
import time
import uuid
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pruner.errors import ConflictError, FormatError, StorageError
from pruner.limits import LOG_ENTRY_BYTES
from pruner.metadata import cleanup, log, receipts, segments
from pruner.metadata.definitions import now
from pruner.metadata.pages import PagedSegment
from pruner.metadata.ranged import Blocks
from pruner.metadata.state import FORMAT_VERSION, NewerFormatError, State, refuse_newer
from pruner.storage.store import NotFoundError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from pruner.metadata.definitions import IndexDefinition
    from pruner.metadata.pages import PageLayout
    from pruner.metadata.state import SegmentEntry
    from pruner.storage.store import ObjectInfo, Store

COMMIT_ATTEMPTS = 50
"""How often a commit is tried before it gives up against other writers."""

_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.5

_UNKNOWN = "; whether the change was committed is unknown, so look before repeating it"

_TOO_OLD = "what is to be committed was written so long ago that a vacuum may be removing it: refresh again"


class _Newest(NamedTuple):
    state: State
    checksum: str | None
    info: ObjectInfo | None


_NOTHING = _Newest(State(), None, None)


class MetadataTable:
    """The metadata table in a store. Any number of readers and writers in any process may share it.

    Readers see the complete state of one log entry. A writer applies its change to the newest state and puts the result
    as the next entry unless another writer was faster; then it applies its change again to the state that is newest.

    A damaged newest entry is an error and never a reason to use the previous one. That one may hold an index that was
    dropped since. A commit on top of it would undo what it cannot see. Readers then keep every file with this reason
    (nothing is lost but speed), writers stop, and the message says what a user can do.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._newest = _NOTHING

    @classmethod
    def open(cls, store: Store) -> MetadataTable:
        """Open the metadata table of a store, which need not exist yet; reads nothing."""
        return cls(store)

    def exists(self) -> bool:
        """Tell whether anything was ever committed here."""
        return bool(log.entries(self.store))

    def state(self) -> State:
        """Return the verified newest state; version 0 and empty if nothing was ever committed.

        Takes one small listing if nothing changed since the last call.

        Raises:
            FormatError: the newest log entry is damaged (NewerFormatError: this pruner is too old for it).
            StorageError: the store failed.
        """
        return self._read_newest().state

    def _read_newest(self) -> _Newest:
        known = self._newest
        # Repeats only when a vacuum or another writer comes between the listing and the read.
        for _ in range(COMMIT_ATTEMPTS):
            # Entries from the known one on suffice to find the newest; the whole log may be long.
            entries = [] if known.info is None else log.entries(self.store, after=known.state.version - 1)
            if entries and entries[-1] == (known.state.version, known.info):
                return known
            entries = entries or log.entries(self.store)
            if not entries:
                self._newest = _NOTHING
                return _NOTHING
            version, info = entries[-1]
            try:
                state, checksum = log.read(self.store, version)
            except NotFoundError:
                continue
            self._newest = _Newest(state, checksum, info)
            return self._newest
        raise StorageError(f"the log of {self.store.uri} changes faster than it can be read: try again")

    def commit(self, change: Callable[[State], State]) -> State:
        """Apply a change to the newest state and make the result the newest; return it.

        Args:
            change: makes the new state from the newest one. It is called again if another writer was
                faster, so it must have no side effects; it raises ConflictError if what it relies on
                is gone. If it returns its argument, nothing is written.

        Raises:
            ConflictError: the change conflicts with what other writers committed meanwhile.
            NewerFormatError: this pruner is too old to write here.
            FormatError: the newest log entry is damaged.
            StorageError: the store failed; if that leaves the outcome open, the message says so.
        """
        pause = _PAUSE_SECONDS
        for _ in range(COMMIT_ATTEMPTS):
            base = self._read_newest()
            refuse_newer(base.state)
            changed = change(base.state)
            if changed is base.state:
                return base.state
            following = _following(base, changed)
            self._check_segments(base.state, following)
            data = log.encode(following)
            if self._append(following, data):
                self._confirm(following, data, base)
                return following
            time.sleep(random.uniform(0, pause))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        raise ConflictError(f"other writers kept changing {self.store.uri}: try again when they are done")

    def _check_segments(self, base: State, following: State) -> None:
        """Check that the segments that a commit adds exist and will continue to exist.

        A vacuum deletes leftovers as old as its grace, and may be about to delete these (R9): see
        `receipts.COMMITTED_WITHIN_SECONDS`.
        """
        known = {entry.id for entry in base.stored()}
        added = [entry for entry in following.stored() if entry.id not in known]
        stored = self.store.infos(entry.path for entry in added)
        for entry in added:
            if entry.path not in stored or stored[entry.path].size != entry.size:
                raise ConflictError(
                    f"the segment {entry.path} was removed before it was committed: refresh again"
                )
        oldest = min((stored[entry.path].mtime_ns for entry in added), default=None)
        if oldest is not None and receipts.is_too_old(self.store, oldest):
            raise ConflictError(_TOO_OLD)

    def _append(self, state: State, data: bytes) -> bool:
        path = log.entry_path(state.version)
        try:
            if self.store.put_if_absent(path, data):
                if state.version == 1:
                    self._check_store(path, data)
                return True
        except StorageError as failure:
            return self._outcome(path, data, failure)
        return self._outcome(path, data, None)

    def _outcome(self, path: str, data: bytes, failure: StorageError | None) -> bool:
        """Tell whether a put that failed, or found an entry, succeeded after all: its response may have been lost.

        Each entry holds the unique id of its commit, so equal bytes are ours.
        """
        try:
            return self._holds(path, data)
        except NotFoundError:
            if failure is None and not log.entries(self.store, after=log.version_of(path) or 0):
                return False  # the rival's entry was taken back meanwhile
            # A request without a response may still arrive; one that was refused will not.
            unknown = "" if isinstance(failure, RefusedError) else _UNKNOWN
            failure = failure or StorageError(f"the log of {self.store.uri} went on meanwhile")
            raise StorageError(f"{failure}{unknown}") from None
        except StorageError as second:
            raise StorageError(f"{failure or second}{_UNKNOWN}") from None

    def _holds(self, path: str, data: bytes) -> bool:
        return self.store.get(path, LOG_ENTRY_BYTES) == data

    def _check_store(self, path: str, data: bytes) -> None:
        """Check once, with the first entry, that the store keeps the promise on which every commit relies."""
        if self.store.put_if_absent(path, data):
            self.store.delete([path])
            if log.entries(self.store, after=1):
                raise StorageError(f"the log of {self.store.uri} went on meanwhile")
            raise StorageError(
                f"the store of {self.store.uri} overwrites existing objects, so commits would be lost: "
                "keep the metadata table in another store with index_uri (--index-uri)"
            )

    def _confirm(self, state: State, data: bytes, base: _Newest) -> None:
        """Check that a commit continues the log, and take it back if not (R9).

        A writer that slept while the log went on and its old entries were removed could put an entry into the
        gap. One that slept after its put may find another writer's entry there: its own was removed because the
        log had gone on, or with the whole table. It must not take that other entry back.
        """
        try:
            # A folder that changes while it is listed may show entries together that never coexisted. What a vacuum
            # had to see before it removed an entry is visible to a second listing, which begins after the first one.
            if self._stands(state, base) or self._stands(state, base):
                return
            self._take_back(log.entry_path(state.version), data)
            if state.version == 1:
                # It was put twice (`_check_store`), and others may have read the first one before it was removed.
                raise StorageError(f"the log of {self.store.uri} went on meanwhile")
        except (FormatError, StorageError) as failure:
            raise StorageError(f"{failure}{_UNKNOWN}") from None
        raise ConflictError(f"the log of {self.store.uri} was removed or went on meanwhile: try again")

    def _take_back(self, path: str, data: bytes) -> None:
        try:
            ours = self._holds(path, data)
        except NotFoundError:
            return
        if not ours:
            raise StorageError(f"the log of {self.store.uri} was removed and started anew meanwhile")
        self.store.delete([path])

    def _stands(self, state: State, base: _Newest) -> bool:
        """Tell whether the entry that was put for a state continues the log.

        Raises:
            StorageError: the log went on so far that this cannot be determined any more.
        """
        for _ in range(COMMIT_ATTEMPTS):
            entries = dict(log.entries(self.store, after=max(state.version - 2, 0)))
            info = entries.get(state.version)
            newest = max(entries, default=0)
            if info is None and newest > state.version:
                raise StorageError(f"the log of {self.store.uri} went on to version {newest} meanwhile")
            if info is None:
                return False
            if newest == state.version:
                if entries.get(state.version - 1) != base.info or not self._is_ours_if_first(state):
                    return False
                self._newest = _Newest(state, log.checksum_of_state(state), info)
                return True
            if state.version + 1 not in entries:
                return False
            try:
                successor, _ = log.read(self.store, state.version + 1)
            except NotFoundError:
                continue  # its writer took it back
            return successor.parent == log.checksum_of_state(state)
        raise StorageError(f"the log of {self.store.uri} changes faster than it can be read")

    def _is_ours_if_first(self, state: State) -> bool:
        """Tell whether the first entry is that of a state; every other entry is confirmed by the one before it.

        Another process may have uninstalled the table and started a new one since it was put.
        """
        return state.version > 1 or log.read(self.store, 1)[1] == log.checksum_of_state(state)

    def write_segment(
        self,
        partition: str,
        table: pa.Table,
        *,
        definition: IndexDefinition | None = None,
        field: tuple[str, ...] | None = None,
        batch: SegmentEntry | None = None,
        in_parts: bool = False,
        layout: PageLayout | Blocks | None = None,
    ) -> SegmentEntry:
        """Write a segment and return its entry; it is invisible until a commit adds the entry to the state.

        Args:
            partition: "files", "column_stats", "bitmap_index", …
            table: the records.
            definition: the index that they belong to; None only in "files".
            field: path of the indexed field; None only in "files".
            batch: the `files` segment whose local ordinals are in the column `__slice`; None only in "files".
            in_parts: whether readers read single columns of it.
            layout: how the records are cut into pages, for which a directory is written as well, or how a snapshot is
                cut into blocks; None for neither.
        """
        return segments.write_segment(
            self.store,
            partition,
            table,
            definition=definition,
            field=field,
            batch=batch,
            in_parts=in_parts,
            layout=layout,
        )

    def paged_segment(self, entry: SegmentEntry, directory: pa.Table) -> PagedSegment:
        """The pages of a segment, by its directory, which was read and verified.

        Raises:
            FormatError: the directory is about another segment.
        """
        return PagedSegment(self.store, entry, directory)

    def read_segment(
        self, entry: SegmentEntry, only: Sequence[str] | None = None, but: Sequence[str] = ()
    ) -> pa.Table:
        """Return the verified records of a segment: `only` some columns, or all `but` some.

        Raises:
            NotFoundError: it does not exist (any more); the newest state may no longer need it.
            FormatError: its bytes are not those that were committed.
        """
        return segments.read_segment(self.store, entry, only, but)

    def unreferenced(self) -> list[ObjectInfo]:
        """Files that the newest state does not refer to: see `cleanup.unreferenced`."""
        return cleanup.unreferenced(self.store, self.state())

    def vacuum(self, grace_seconds: float = receipts.GRACE_SECONDS) -> int:
        """Delete files out of use for longer than the grace, return their number: see `cleanup.vacuum`."""
        return cleanup.vacuum(self.store, self.state(), grace_seconds)

    def out_of_use(self, grace_seconds: float = receipts.GRACE_SECONDS) -> cleanup.OutOfUse:
        """What a vacuum with this grace keeps for now: see `cleanup.out_of_use`."""
        return cleanup.out_of_use(self.store, self.state(), grace_seconds)

    def verify(self) -> list[str]:
        """Read everything and return one sentence for each problem: see `cleanup.verify`."""
        return cleanup.verify(self.store)

    def uninstall(self) -> int:
        """Delete the metadata table and return the number of files: see `cleanup.uninstall`.

        Raises:
            NewerFormatError: this pruner is too old to know what belongs to it.
        """
        try:
            refuse_newer(self.state())
        except NewerFormatError:
            raise
        except FormatError:
            pass  # what cannot be read can still be deleted
        return cleanup.uninstall(self.store)


def _following(base: _Newest, changed: State) -> State:
    state = msgspec.structs.replace(
        changed,
        format_version=FORMAT_VERSION,
        version=base.state.version + 1,
        commit=uuid.uuid4().hex,
        parent=base.checksum,
        created_at=now(),
    )
    try:
        state.check()
    except FormatError as error:
        raise ConflictError(f"the change cannot be committed: {error}") from None
    return state
