"""Delta tables: see `pruner.tables.source.TableSource`."""

from __future__ import annotations

import re
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import xxhash

from pruner.arrow import arrow, as_numpy, compute, number_array, truth_array
from pruner.errors import StorageError, TableError
from pruner.storage.opening import normalize_uri, open_store
from pruner.storage.store import check_path
from pruner.tables.delta.actions import commit_time, is_uri
from pruner.tables.delta.log import Commit, Segment, commit_path, list_log
from pruner.tables.delta.partitions import delta_partitions
from pruner.tables.delta.schema import delta_schema
from pruner.tables.delta.state import DeltaState, follow, read_commit, read_state
from pruner.tables.delta.vectors import DeletionVectors
from pruner.tables.snapshot import SLICE_COLUMNS, SLICE_KEY_BYTES, Snapshot, key_array
from pruner.tables.source import WriteOnceSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pruner.tables.delta.log import Listing
    from pruner.tables.source import SavedLook

_VERSION: Final = re.compile(r"\d{1,19}")
_TIMED: Final = "delta.enableInCommitTimestamps"
_MILLISECOND: Final = timedelta(milliseconds=1)


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

    def check(self) -> None:
        """Read the log, which the first snapshot is made of.

        Raises:
            TableError: it cannot be read completely, or has a feature that is not known.
            StorageError: the store refuses to be read.
        """
        with self._lock:
            self._now()

    def identity(self) -> str:
        """Return what a table that was made anew at the same place has not: the id in its metadata."""
        with self._lock:
            return f"delta-{self._now().metadata.id}"

    def saved(self, stored: str | None = None) -> SavedLook | None:
        """Return None: a checkpoint is what a look starts from."""
        return None

    def resume(self, saved: SavedLook) -> None:
        """Do nothing: no look is saved."""

    def snapshot(self, previous: Snapshot | None = None) -> Snapshot:
        """Read the commits that came since the last look: see `TableSource`; no footer is ever read."""
        with self._lock:
            before, state = self._state, self._now()
            if self._snapshot is None or state is not before:
                self._snapshot = self._made(state)
            if previous is not None and previous.id == self._snapshot.id and previous.root == self.root:
                return previous
            return self._snapshot

    def state_of(self, snapshot: Snapshot) -> DeltaState | None:
        """The version of the table that a snapshot is of, whose statistics plans can ask; None for an old one."""
        with self._lock:
            return self._states.get(snapshot.id)

    def snapshot_at(self, instant: str) -> Snapshot:
        """Return the table as of a version, or as of a moment: see `TableSource`.

        Its schema is the one of that version.
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
        """The newest version; the very same state where there is no commit since."""
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

    def _made(self, state: DeltaState, suffix: str = "") -> Snapshot:
        found = _snapshot(state, self.root, self.storage_options, suffix)
        if not suffix:
            self._states.clear()
        self._states[found.id] = state
        return found

    def _version_at(self, listing: Listing, instant: str) -> int:
        """The newest version that was there at a moment."""
        wanted = _milliseconds(instant)
        times: list[int] = []
        versions = sorted(listing.commits)
        timed = self._now().metadata.setting(_TIMED) == "true"
        for version in versions:
            info = listing.commits[version]
            own = commit_time(read_commit(self._store, Commit(version, version, info))) if timed else None
            found = info.mtime_ns // 1_000_000 if own is None else own
            # A later version has a later time, whatever the clocks of the store said.
            times.append(max(found, times[-1] + 1) if times else found)
        at = bisect_right(times, wanted)
        if not at:
            begins = _text(times[0]) if times else "nothing"
            raise TableError(f"{self.root} has no version as of {instant}: its log begins with {begins}")
        return versions[at - 1]


def _milliseconds(instant: str) -> int:
    try:
        found = datetime.fromisoformat(instant)
    except ValueError:
        raise TableError(
            f"{instant!r} is neither a version of a Delta table nor a moment: give a number, or a date and time such as "
            "2026-11-27T08:30:00Z"
        ) from None
    found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return (found - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND


def _text(milliseconds: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + milliseconds * _MILLISECOND).isoformat(timespec="milliseconds")


def _snapshot(state: DeltaState, root: str, options: Mapping[str, str], suffix: str) -> Snapshot:
    schema = delta_schema(state.metadata, state.protocol, root)
    files = state.files
    partitions, codes = delta_partitions(files, state.metadata.partition_columns, schema)
    paths: Any = _column(files, "path")
    keys = slice_keys(paths)
    if len({keys[at : at + SLICE_KEY_BYTES] for at in range(0, len(keys), SLICE_KEY_BYTES)}) != len(paths):
        raise TableError(
            f"the log of {root} adds a file twice, so that its rows would count twice: restore the log"
        )
    vectors = _column(files, "deletionVector")
    deletes = None
    if vectors.null_count < len(vectors):
        deletes = DeletionVectors(vectors, root, options, lambda path: place_of(root, path))
    return Snapshot(
        id=_id(state) + suffix,
        schema=schema,
        columns=_columns(files, root, codes),
        keys=key_array(keys),
        partitions=partitions,
        root=root,
        deletes=deletes,
        version=f"{state.metadata.id} {state.version}",
        hides_nan=True,
    )


def _id(state: DeltaState) -> str:
    newest = state.newest
    stamp = "" if newest is None else f"{newest.size},{newest.mtime_ns},{newest.etag}"
    return f"delta {state.metadata.id} {state.version} {xxhash.xxh3_64_hexdigest(stamp.encode())}"


def _columns(files: pa.Table, root: str, codes: np.ndarray[Any, np.dtype[np.int32]]) -> pa.Table:
    paths: Any = _column(files, "path")
    count = len(paths)
    columns: dict[str, Any] = {
        "partition": number_array(codes, pa.int32()),
        "file_id": compute.replace_substring_regex(paths, r"(?s)^.*/", ""),
        "base_file": _uris(paths, root),
        "base_size": _column(files, "size"),
        "base_version": pa.nulls(count, pa.string()),
        "base_instant": pa.nulls(count, pa.string()),
        "log_files": pa.nulls(count, pa.list_(pa.string())),
        "log_size": pa.nulls(count, pa.int64()),
        "unsettled": truth_array(np.zeros(count, np.bool_)),
    }
    return pa.table([columns[name] for name in SLICE_COLUMNS.names], schema=SLICE_COLUMNS)


def _uris(paths: Any, root: str) -> Any:
    """Where the files lie: below the root, but for those of a clone, which are named by their URIs."""
    unusual = as_numpy(
        compute.match_substring_regex(paths, r"^/|^[A-Za-z][A-Za-z0-9+.-]*:/|(^|/)\.{0,2}(/|$)|\x00")
    )
    uris = compute.binary_join_element_wise(f"{root}/", paths, "")
    if not unusual.any():
        return uris
    placed = [place_of(root, path) for path in paths.filter(pa.array(unusual)).to_pylist()]
    return compute.replace_with_mask(uris, pa.array(unusual), arrow.array(placed, pa.string()))


def place_of(root: str, path: str) -> str:
    """Return where a file of the log lies.

    Args:
        root: of the table.
        path: relative to it, or a URI; only that may lead out of the table, and only to the same kind of store.

    Raises:
        TableError: it leads elsewhere.
    """
    try:
        if not is_uri(path):
            return f"{root}/{check_path(path)}"
        place = normalize_uri(path)
    except StorageError:
        raise TableError(
            f"the log of {root} names a file {path!r}, which is no place: restore the log"
        ) from None
    if _scheme(place) != _scheme(root):
        raise TableError(
            f"the log of {root} names a file {path!r} in another kind of store, which is not read"
        )
    return place


def _scheme(place: str) -> str:
    return place.partition("://")[0] if "://" in place else ""


def slice_keys(paths: Any) -> bytes:
    """The slice keys of files, one behind the other: a path is never given to a second file, deletes are no part."""
    offsets = np.frombuffer(paths.buffers()[1], np.int32)[
        paths.offset : paths.offset + len(paths) + 1
    ].tolist()
    data = memoryview(paths.buffers()[2] or b"")
    digest = xxhash.xxh3_128_digest
    return b"".join([digest(data[start:end]) for start, end in zip(offsets, offsets[1:], strict=False)])


def _column(files: pa.Table, name: str) -> Any:
    combined: Any = files.column(name).combine_chunks()
    return combined.cast(pa.string()) if name == "path" else combined
