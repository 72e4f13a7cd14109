"""Delta tables: see `pruner.tables.source.TableSource`."""

from __future__ import annotations

import re
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import xxhash

from pruner.arrow import nulls, number_array, truth_array
from pruner.errors import TableError
from pruner.storage.opening import open_store
from pruner.tables.delta.actions import commit_time
from pruner.tables.delta.log import CommitFile, Segment, commit_path, list_log
from pruner.tables.delta.partitions import delta_partitions
from pruner.tables.delta.schema import contradicted, delta_schema, mapped_fields, mapping_mode
from pruner.tables.delta.state import DeltaState, follow, place_of, read_commit, read_state
from pruner.tables.delta.vectors import DeletionVectors
from pruner.tables.listing.foreign import DELTA_LOG
from pruner.tables.snapshot import SLICE_COLUMNS, Snapshot, Watched
from pruner.tables.source import WriteOnceSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.schema import TableSchema
    from pruner.storage.store import ObjectInfo
    from pruner.tables.delta.log import LogListing
    from pruner.tables.snapshot import Contradicted
    from pruner.tables.source import SavedLook

_VERSION: Final = re.compile(r"\d{1,19}")
_TIMED: Final = "delta.enableInCommitTimestamps"
_SINCE: Final = ("Version", "Timestamp")
_NEVER: Final = 2**63
_DELETES: Final = "delta.enableDeletionVectors"
_MILLISECOND: Final = timedelta(milliseconds=1)
_MOST_PAST: Final = 16
"""Past versions whose statistics are cached. Plans for other past snapshots have none and keep more files."""


class DeltaSource(WriteOnceSource):
    """A Delta table: see `pruner.tables.source.TableSource`."""

    format = "delta"

    def __init__(self, root: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.roots = (root,)
        self.storage_options = dict(storage_options or {})
        self._store = open_store(root, self.storage_options)
        self._lock = RLock()
        self._state: DeltaState | None = None
        self._snapshot: Snapshot | None = None
        self._states: dict[str, DeltaState] = {}
        self._past: dict[str, DeltaState] = {}

    def check(self) -> None:
        """Read the log, from which the first snapshot is made.

        Raises:
            TableError: it cannot be read completely, or has an unknown feature.
            StorageError: the store refuses to be read.
        """
        with self._lock:
            self._now()

    def identity(self) -> str:
        """Return the id in the table's metadata, which a table recreated at the same location does not share."""
        with self._lock:
            return f"delta-{self._now().metadata.id}"

    def saved(self, stored: str | None = None) -> SavedLook | None:
        """Return None: a snapshot read starts from a checkpoint."""
        return None

    def resume(self, saved: SavedLook) -> None:
        """Do nothing: nothing is saved."""

    def snapshot(self, previous: Snapshot | None = None) -> Snapshot:
        """Read the commits since the last snapshot: see `TableSource`; no footer is ever read."""
        with self._lock:
            before, state = self._state, self._now()
            if self._snapshot is None or state is not before:
                self._snapshot = self._made(state, known=self._snapshot)
            if previous is not None and previous.id == self._snapshot.id and previous.root == self.root:
                return previous
            return self._snapshot

    def watched(self) -> Sequence[Watched] | None:
        """Return what `_now` checks, the log folder and its newest commit: see `WatchableSource`."""
        with self._lock:
            if self._state is None or self._state.newest is None or not self.root.startswith("/"):
                return None
            paths = (DELTA_LOG, commit_path(self._state.version))
            return [Watched("stat", f"{self.root}/{path}") for path in paths]

    def state_of(self, snapshot: Snapshot) -> DeltaState | None:
        """The table version of a snapshot, whose statistics plans can use; None for an old snapshot."""
        with self._lock:
            return self._states.get(snapshot.id) or self._past.get(snapshot.id)

    def snapshot_at(self, instant: str) -> Snapshot:
        """Return the table as of a version or a timestamp: see `TableSource`.

        Its schema is that of the version.
        """
        with self._lock:
            listing = list_log(self._store, whole=True)
            if _VERSION.fullmatch(instant):
                version = int(instant)
                if listing.newest is not None and version > listing.newest:
                    raise TableError(f"{self.root} has no version {version}: the newest is {listing.newest}")
            else:
                version = self._version_at(listing, instant)
            state = read_state(self._store, self.storage_options, listing.segment(version))
            return self._made(state, f"@{version}")

    def _now(self) -> DeltaState:
        """The newest version; the same state object where there is no new commit."""
        known = self._state
        if (
            known is None
            or known.newest is None
            or self._store.info(commit_path(known.version)) != known.newest
        ):
            self._state = self._whole()
            return self._state
        listing = list_log(self._store, known.version)
        newest = max(listing.commits, default=known.version)
        if newest > known.version:
            segment = Segment(
                newest, None, listing.commits_of(known.version + 1, newest), listing.commits[newest]
            )
            self._state = follow(self._store, known, segment)
        elif listing.newest is not None and listing.newest > known.version:
            self._state = self._whole()  # a checkpoint without its commit
        return self._state or known

    def _whole(self) -> DeltaState:
        listing = list_log(self._store)
        assert listing.newest is not None
        return read_state(self._store, self.storage_options, listing.segment(listing.newest))

    def _made(self, state: DeltaState, suffix: str = "", known: Snapshot | None = None) -> Snapshot:
        schema = _schema(state, self.root, known)
        snapshot = _snapshot(state, schema, self.root, self.storage_options, suffix)
        if not suffix:
            self._states = {snapshot.id: state}
            return snapshot
        # What was requested last is evicted last.
        self._past.pop(snapshot.id, None)
        self._past[snapshot.id] = state
        while len(self._past) > _MOST_PAST:
            del self._past[next(iter(self._past))]
        return snapshot

    def _version_at(self, listing: LogListing, instant: str) -> int:
        """The newest version at a point in time."""
        wanted = _milliseconds(instant)
        times: list[int] = []
        timed, begins_at = self._timed_from(wanted)
        # Where in-commit timestamps were enabled later, an earlier instant is looked up among the commits before that.
        # Commits before the oldest checkpoint make up no version unless all exist: their times do not matter.
        oldest = 0 if 0 in listing.commits else min(listing.checkpoints, default=0)
        versions = [
            commit
            for commit in sorted(listing.commits)
            if (commit >= begins_at) is timed and commit >= oldest
        ]
        for version in versions:
            info = listing.commits[version]
            milliseconds = self._time_in(version, info) if timed else info.mtime_ns // 1_000_000
            # A later version has a later time, whatever the store's clocks said.
            times.append(max(milliseconds, times[-1] + 1) if times else milliseconds)
        at = bisect_right(times, wanted)
        if not at:
            begins = _text(times[0]) if times else "nothing"
            raise TableError(f"{self.root} has no version as of {instant}: its log begins with {begins}")
        return versions[at - 1]

    def _time_in(self, version: int, info: ObjectInfo) -> int:
        own = commit_time(read_commit(self._store, CommitFile(version, version, info)))
        if own is None:  # the time of the file may be that of a copy
            raise TableError(
                f"{self.root} says that its commits have times, but commit {version} has none: read the table by "
                "version number"
            )
        return own

    def _timed_from(self, wanted: int) -> tuple[bool, int]:
        """Whether in-commit timestamps cover an instant, and the first version that has one."""
        metadata = self._now().metadata
        if metadata.setting(_TIMED) != "true":
            return False, _NEVER
        version, moment = (
            metadata.setting(f"delta.inCommitTimestampEnablement{literal}") for literal in _SINCE
        )
        if not (_VERSION.fullmatch(version) and _VERSION.fullmatch(moment)):
            return True, 0
        return wanted >= int(moment), int(version)


def _milliseconds(instant: str) -> int:
    try:
        moment = datetime.fromisoformat(instant)
    except ValueError:
        raise TableError(
            f"{instant!r} is neither a version of a Delta table nor a moment: give a number, or date and time such as "
            "2026-11-27T08:30:00Z"
        ) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND


def _text(milliseconds: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + milliseconds * _MILLISECOND).isoformat(timespec="milliseconds")


def _schema(state: DeltaState, root: str, known: Snapshot | None) -> TableSchema:
    """The schema of a version, unchanged where commits touched neither metadata nor protocol."""
    before = None if known is None else known.state
    if (
        known is not None
        and isinstance(before, DeltaState)
        and state.metadata is before.metadata
        and state.protocol is before.protocol
    ):
        return known.schema
    return delta_schema(state.metadata, state.protocol, root)


def _snapshot(
    state: DeltaState, schema: TableSchema, root: str, options: Mapping[str, str], suffix: str
) -> Snapshot:
    files = state.files
    partitions, codes = delta_partitions(files, state.metadata.partition_columns, schema)
    vectors: Any = files.column("deletionVector")
    deletes = None
    if vectors.null_count < len(vectors):
        deletes = DeletionVectors(vectors.combine_chunks(), root, options, partial(place_of, root))
    return Snapshot(
        id=_id(state) + suffix,
        schema=schema,
        columns=_columns(files, codes),
        keys=files.column("key").combine_chunks(),
        partitions=partitions,
        root=root,
        deletes=deletes,
        version=f"{state.metadata.id} {state.version}",
        state=state,
        hides_nan=True,
        may_leave_files=state.metadata.setting(_DELETES) == "true",
        contradicted=_contradicted(state, root),
    )


def _contradicted(state: DeltaState, root: str) -> Contradicted | None:
    """The check for files that engines read differently, which only tables that map columns by id may have."""
    by_id = mapping_mode(state.metadata, state.protocol, root) == "id"
    return partial(contradicted, mapped_fields(state.metadata)) if by_id else None


def _id(state: DeltaState) -> str:
    newest = state.newest
    stamp = "" if newest is None else f"{newest.size},{newest.mtime_ns},{newest.etag}"
    return f"delta {state.metadata.id} {state.version} {xxhash.xxh3_64_hexdigest(stamp.encode())}"


def _columns(files: pa.Table, codes: np.ndarray[Any, np.dtype[np.int32]]) -> pa.Table:
    count = files.num_rows
    nothing = _nothing(1 << count.bit_length())
    columns: dict[str, Any] = {
        **{name: column.slice(0, count) for name, column in nothing.items()},
        "partition": number_array(codes, pa.int32()),
        "file_id": files.column("name"),
        "base_file": files.column("uri"),
        "base_size": files.column("size"),
    }
    return pa.table([columns[name] for name in SLICE_COLUMNS.names], schema=SLICE_COLUMNS)


@lru_cache(maxsize=2)
def _nothing(count: int) -> dict[str, Any]:
    """The slice columns that files of Delta tables lack, for `count` files."""
    return {
        "base_version": nulls(count, pa.string()),
        "base_instant": nulls(count, pa.string()),
        "log_files": pa.nulls(count, pa.list_(pa.string())),
        "log_size": nulls(count, pa.int64()),
        "unsettled": truth_array(np.zeros(count, np.bool_)),
    }
