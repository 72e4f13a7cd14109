"""Ways of getting the commit protocol wrong, each as a change of the real code: schedules must notice them.

Each function returns what to patch: (owner, name, replacement). One flaw of the model is missing: counting a vanished
entry as a rival's does harm only after a put that the client repeats, a successor and a whole grace period before the
next call, which none of the first 20,000 schedules has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pruner.errors import StorageError
from pruner.limits import LOG_ENTRY_BYTES
from pruner.metadata import MetadataTable, State, cleanup, log, receipts
from pruner.metadata import table as metadata_table
from pruner.storage.store import NotFoundError
from tests.protocol.world import SimulatedStore

if TYPE_CHECKING:
    from collections.abc import Callable

Patch = tuple[Any, str, Any]
_T: Any = MetadataTable
_REAL_STANDS, _REAL_OUTCOME, _REAL_READ = _T._stands, _T._outcome, _T._read_newest
_REAL_VACUUM, _REAL_LEFTOVERS = cleanup.vacuum, cleanup._leftovers  # pyright: ignore[reportPrivateUsage]


def _no_confirmation() -> Patch:
    return _T, "_confirm", lambda self, state, data, base: None


class _OneLook:
    """A table whose second check repeats the result of the first."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._answers: list[bool] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def _stands(self, state: State, base: Any) -> bool:
        self._answers = self._answers or [_REAL_STANDS(self._table, state, base)]
        return self._answers[0]


def _one_look() -> Patch:
    """One listing of a log that changes meanwhile is taken as proof that a commit does not stand."""
    return _T, "_confirm", lambda self, state, data, base: _REAL_CONFIRM(_OneLook(self), state, data, base)


def _no_predecessor() -> Patch:
    """A writer that slept commits into a gap of the log."""

    def stands(self: Any, state: State, base: Any) -> bool:
        found = dict(log.entries(self.store, after=max(state.version - 2, 0)))
        return state.version in found

    return _T, "_stands", stands


def _only_the_predecessor() -> Patch:
    """A commit that others have built on counts as lost once a vacuum has deleted the entry before it."""

    def stands(self: Any, state: State, base: Any) -> bool:
        found = dict(log.entries(self.store, after=max(state.version - 2, 0)))
        return state.version in found and found.get(state.version - 1) == base.info

    return _T, "_stands", stands


def _unreadable_successor() -> Patch:
    """A failure to read the next entry counts as proof that it is not ours."""

    def stands(self: Any, state: State, base: Any) -> bool:
        try:
            return _REAL_STANDS(self, state, base)
        except StorageError:
            return False

    return _T, "_stands", stands


def _nothing_taken_back() -> Patch:
    def confirm(self: Any, state: State, data: bytes, base: Any) -> None:
        if not _REAL_STANDS(self, state, base):
            raise metadata_table.ConflictError("the log went on")

    return _T, "_confirm", confirm


def _silent_failure_after_the_put() -> Patch:
    """A failure during the confirmation of a commit is reported as if nothing had been committed."""

    def confirm(self: Any, state: State, data: bytes, base: Any) -> None:
        if not _REAL_STANDS(self, state, base):
            self._take_back(log.entry_path(state.version), data)
            raise metadata_table.ConflictError("the log went on")

    return _T, "_confirm", confirm


def _own_entry_is_a_rivals() -> Patch:
    def outcome(self: Any, path: str, data: bytes, failure: StorageError | None) -> bool:
        if failure is not None:
            raise failure
        return False

    return _T, "_outcome", outcome


def _unreadable_rival() -> Patch:
    """An entry that cannot be read at the moment counts as a rival's."""

    def outcome(self: Any, path: str, data: bytes, failure: StorageError | None) -> bool:
        if failure is not None:
            return _REAL_OUTCOME(self, path, data, failure)
        try:
            return self.store.get(path, LOG_ENTRY_BYTES) == data
        except StorageError:
            return False

    return _T, "_outcome", outcome


def _a_late_request_never_arrives() -> Patch:
    def outcome(self: Any, path: str, data: bytes, failure: StorageError | None) -> bool:
        try:
            return self.store.get(path, LOG_ENTRY_BYTES) == data
        except NotFoundError:
            if failure is not None:
                raise StorageError(str(failure)) from None
            return False

    return _T, "_outcome", outcome


def _put_in_two_steps() -> Patch:
    """A store that checks first and then puts, so that two writers can get the same position."""

    def put_if_absent(self: SimulatedStore, path: str, data: bytes) -> bool:
        if self.info(path) is not None:
            return False
        self.put_new(path, data)
        return True

    return SimulatedStore, "put_if_absent", put_if_absent


def _segments_unchecked() -> Patch:
    return _T, "_check_segments", lambda self, base, following: None


def _old_segments_committed() -> Patch:
    return receipts, "is_too_old", lambda store, written_ns: False


def _stale_reader() -> Patch:
    """A known state counts as the newest one without a check."""

    def read_newest(self: Any) -> Any:
        return self._newest if self._newest.info is not None else _REAL_READ(self)

    return _T, "_read_newest", read_newest


def _vanished_entry_is_no_table() -> Patch:
    def read_newest(self: Any) -> Any:
        found = log.entries(self.store)
        try:
            state, checksum = log.read(self.store, found[-1][0]) if found else (State(), None)
        except NotFoundError:
            return metadata_table._NOTHING  # pyright: ignore[reportPrivateUsage]
        return metadata_table._Newest(state, checksum, found[-1][1] if found else None)  # pyright: ignore[reportPrivateUsage]

    return _T, "_read_newest", read_newest


def _the_entry_before() -> Patch:
    """Readers take the entry before the newest one."""

    def read_newest(self: Any) -> Any:
        found = log.entries(self.store)
        if len(found) < 2:
            return _REAL_READ(self)
        state, checksum = log.read(self.store, found[-2][0])
        return metadata_table._Newest(state, checksum, found[-2][1])  # pyright: ignore[reportPrivateUsage]

    return _T, "_read_newest", read_newest


def _change_made_once() -> Patch:
    """The loser of a race commits what it made of the earlier state."""

    def commit(self: Any, change: Callable[[State], State]) -> State:
        changed: list[State] = []

        def once(state: State) -> State:
            if not changed:
                changed.append(change(state))
            return changed[0]

        return _REAL_COMMIT(self, once)

    return _T, "commit", commit


def _no_grace() -> Patch:
    return cleanup, "vacuum", lambda store, state, grace_seconds=0.0: _REAL_VACUUM(store, state, 0.0)


def _young_leftovers() -> Patch:
    """A vacuum deletes leftovers whatever their age."""

    def leftovers(store: Any, in_use: set[str]) -> Any:
        found = _REAL_LEFTOVERS(store, in_use)
        return [info._replace(mtime_ns=0) for info in found]

    return cleanup, "_leftovers", leftovers


def _only_the_newest_in_use() -> Patch:
    """A vacuum ignores readers of states that were superseded a moment ago."""

    def leftovers(store: Any, in_use: set[str]) -> Any:
        newest = MetadataTable.open(store).state()
        return _REAL_LEFTOVERS(store, {entry.path for entry in newest.stored()})

    return cleanup, "_leftovers", leftovers


_REAL_COMMIT, _REAL_CONFIRM = _T.commit, _T._confirm

MUTATIONS = (
    _no_confirmation,
    _one_look,
    _no_predecessor,
    _only_the_predecessor,
    _unreadable_successor,
    _nothing_taken_back,
    _silent_failure_after_the_put,
    _own_entry_is_a_rivals,
    _unreadable_rival,
    _a_late_request_never_arrives,
    _put_in_two_steps,
    _segments_unchecked,
    _old_segments_committed,
    _stale_reader,
    _vanished_entry_is_no_table,
    _the_entry_before,
    _change_made_once,
    _no_grace,
    _young_leftovers,
    _only_the_newest_in_use,
)
