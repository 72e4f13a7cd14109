"""A version of a Delta table: its files as columns, and where they lie.

Files of a checkpoint are never Python objects; those that commits add are, until they are columns.

Where the files that a log names lie, and by which keys records are joined with them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, as_numpy, compute
from pruner.errors import StorageError, TableError
from pruner.storage.opening import is_alike_stored, normalize_uri
from pruner.storage.store import NotFoundError, check_path
from pruner.tables.delta.actions import LogReplay, actions_of, is_uri, replayed
from pruner.tables.delta.checkpoint import FILE_COLUMNS, CommitPart, load_checkpoint, unread
from pruner.tables.delta.log import MOST_BYTES
from pruner.tables.snapshot import key_array, keys_of_paths

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.storage.store import ObjectInfo, Store
    from pruner.tables.delta.actions import Action, Add, Metadata, Protocol
    from pruner.tables.delta.checkpoint import CheckpointPart
    from pruner.tables.delta.log import CommitFile, Segment


def placed(files: pa.Table, root: str) -> pa.Table:
    """Add to some files (`FILE_COLUMNS`) their slice keys, their names, and where they lie: `key`, `name` and `uri`.

    Raises:
        TableError: the log names one where there is no place for it, or one of them twice.
    """
    paths: Any = files.column("path").combine_chunks()
    bytes_of = _Paths(paths)
    names: Any = paths
    if len(bytes_of.slashes):
        names = compute.replace_substring_regex(paths, r"(?s)^.*/", "")
    keys, uris = b"".join(keys_of_paths(paths)), compute.binary_join_element_wise(f"{root}/", paths, "")
    if bytes_of.are_plain():
        is_once = _differ(keys) or compute.count_distinct(paths).as_py() == len(paths)
    else:
        uris = _with_unusual(uris, paths, root)
        is_once = compute.count_distinct(uris).as_py() == len(uris)
    if not is_once:
        raise _twice(root)
    files = files.append_column("key", key_array(keys))
    return files.append_column("name", names).append_column("uri", uris)


def _differ(keys: bytes) -> bool:
    """Whether all keys differ by their first halves, which is nearly always so where the files do."""
    halves = np.frombuffer(keys, np.uint64)[::2].copy()
    halves.sort()
    return not (halves[1:] == halves[:-1]).any()


def _twice(root: str) -> TableError:
    return TableError(
        f"the log of {root} adds a file twice, so that its rows would count twice: restore the log"
    )


class _Paths:
    """Paths as the bytes that they are: to look at each with a pattern takes ten times as long."""

    def __init__(self, paths: Any) -> None:
        _, places, data = paths.buffers()
        at: Any = np.frombuffer(places or bytes(4), np.int32)[paths.offset : paths.offset + len(paths) + 1]
        self._data: Any = np.frombuffer(data or b"", np.uint8)[at[0] : at[-1]]
        self._ends: Any = at - at[0]
        self.slashes: Any = np.flatnonzero(self._data == _SLASH)

    def are_plain(self) -> bool:
        """Whether none of them can be a URI or has a folder without a name; where it is False, some may be plain."""
        data, ends = self._data, self._ends
        if (ends[1:] == ends[:-1]).any() or not data.all():
            return False
        outer = data[np.concatenate([ends[:-1], ends[1:] - 1])]
        if (outer == _SLASH).any() or (outer == _DOT).any():
            return False
        behind, before = data[self.slashes + 1], data[self.slashes - 1]
        return not ((behind == _SLASH) | (behind == _DOT) | (before == _COLON)).any()


def _with_unusual(uris: Any, paths: Any, root: str) -> Any:
    """Where files lie that are not simply below the root: those of a clone are named by their URIs."""
    unusual = as_numpy(
        compute.match_substring_regex(paths, r"^/|^[A-Za-z][A-Za-z0-9+.-]*:/|(^|/)\.{0,2}(/|$)|\x00")
    )
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
    if not is_alike_stored(place, root):
        raise TableError(
            f"the log of {root} names a file {path!r} in another kind of store, which is not read"
        )
    return place


_SLASH, _DOT, _COLON = b"/.:"

_THREADS: Final = 16
"""Commits that are read at once of a store."""

_MOST_CHUNKS: Final = 256
"""Chunks up to which each look adds one, and copies nothing that was there."""


@dataclass(frozen=True)
class DeltaState:
    """A version of a table. `files` are as `FILE_COLUMNS`, `placed`; `newest` is the commit that made the version."""

    version: int
    newest: ObjectInfo | None
    metadata: Metadata
    protocol: Protocol
    files: pa.Table
    parts: tuple[CheckpointPart | CommitPart, ...]


def read_state(store: Store, options: Mapping[str, str], segment: Segment) -> DeltaState:
    """Read a version.

    Raises:
        TableError: a file of the log is missing or damaged, or the table uses a feature that is not known.
        StorageError: it cannot be read.
    """
    seen = LogReplay()
    if segment.checkpoint is None:
        tables: list[pa.Table] = []
        parts: list[CheckpointPart | CommitPart] = []
    else:
        loaded = load_checkpoint(store, options, segment.checkpoint)
        tables, parts = loaded.tables, loaded.parts
        seen.metadata, seen.protocol = loaded.metadata, loaded.protocol
    _take(store, segment.commits, seen)
    if seen.metadata is None or seen.protocol is None:
        lacking = "action metaData, which has the schema" if seen.metadata is None else "action protocol"
        raise TableError(
            f"{store.uri} is a Delta table whose log up to version {segment.version} has no {lacking}: restore it"
        )
    files = placed(arrow.concat_tables([FILE_COLUMNS.empty_table(), *tables]), store.uri)
    state = DeltaState(segment.version, segment.newest, seen.metadata, seen.protocol, files, tuple(parts))
    return _checked(_changed(state, seen.files, store.uri), store.uri)


def follow(store: Store, state: DeltaState, segment: Segment) -> DeltaState:
    """Return a later version by the commits that came since.

    Raises:
        TableError: a commit is missing or damaged, or the table uses a feature that is not known.
        StorageError: it cannot be read.
    """
    seen = LogReplay()
    seen.metadata, seen.protocol = state.metadata, state.protocol
    _take(store, segment.commits, seen)
    later = replace(
        state, version=segment.version, newest=segment.newest, metadata=seen.metadata, protocol=seen.protocol
    )
    return _checked(_changed(later, seen.files, store.uri), store.uri)


def read_commit(store: Store, commit: CommitFile) -> list[Action]:
    """Return the actions of a commit.

    Raises:
        TableError: it is missing or damaged.
        StorageError: it cannot be read.
    """
    where = f"{store.uri}/{commit.info.path}"
    try:
        return actions_of(store.get(commit.info.path, MOST_BYTES), where)
    except NotFoundError:
        raise TableError(f"{where} was removed while the log was read: try again") from None


def _take(store: Store, commits: Sequence[CommitFile], seen: LogReplay) -> None:
    if len(commits) < 2 or store.uri.startswith("/"):
        for commit in commits:
            seen.take(read_commit(store, commit))
        return
    with ThreadPoolExecutor(min(_THREADS, len(commits))) as threads:
        for actions in threads.map(partial(read_commit, store), commits):
            seen.take(actions)


def _changed(state: DeltaState, changes: Mapping[tuple[str, str], Add | None], root: str) -> DeltaState:
    """The state with files that were added or removed."""
    if not changes:
        return state
    files = state.files
    if files.num_rows:
        gone = _gone(files, changes)
        files = files.filter(compute.invert(gone)) if compute.any(gone).as_py() else files
    added, part = unread((add for add in changes.values() if add is not None), len(state.parts))
    if not added.num_rows:
        return replace(state, files=files)
    added = placed(added, root)
    here = compute.is_in(files.column("uri"), value_set=added.column("uri").combine_chunks())
    if compute.any(here).as_py():
        raise _twice(root)
    files = arrow.concat_tables([files, added])
    if files.column("key").num_chunks > _MOST_CHUNKS:
        files = files.combine_chunks()
    return replace(state, files=files, parts=(*state.parts, part))


def _gone(files: pa.Table, changes: Mapping[tuple[str, str], Add | None]) -> Any:
    """Which files have a key that was changed later."""
    names = {path for path, _ in changes}
    touched: Any = compute.is_in(files.column("path"), value_set=arrow.array(list(names), pa.string()))
    absolute = [path for path in names if is_uri(path)]
    if absolute:
        also = compute.is_in(files.column("uri"), value_set=arrow.array(absolute, pa.string()))
        touched = compute.or_(touched, also)
    if not compute.any(touched).as_py():
        return touched
    some = files.filter(touched)
    vectors = _vector_ids(some.column("deletionVector").combine_chunks())
    paths: list[Any] = some.column("path").to_pylist()
    gone = [key in changes for key in zip(map(replayed, paths), vectors, strict=True)]
    touched = touched.combine_chunks() if hasattr(touched, "combine_chunks") else touched
    return compute.replace_with_mask(touched, touched, arrow.array(gone, pa.bool_()))


def _vector_ids(vectors: Any) -> list[str]:
    if vectors.null_count == len(vectors):
        return [""] * len(vectors)
    return [
        ""
        if row is None
        else f"{row['storageType']}{row['pathOrInlineDv']}"
        + ("" if row["offset"] is None else f"@{row['offset']}")
        for row in vectors.to_pylist()
    ]


def _checked(state: DeltaState, root: str) -> DeltaState:
    """The state, unless this reader cannot read such a table.

    Raises:
        TableError: it cannot.
    """
    state.protocol.check(root)
    if state.metadata.format.provider != "parquet":
        raise TableError(
            f"{root} is a Delta table of {state.metadata.format.provider!r} files: Parquet alone is read"
        )
    return state
