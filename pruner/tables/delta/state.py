"""A version of a Delta table: its files as columns, with their locations and the keys by which records join them.

Files of a checkpoint never become Python objects; those that commits add do, until they are columns.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, as_numpy, compute, rows_at, truth_array
from pruner.errors import StorageError, TableError
from pruner.storage.opening import is_alike_stored, normalize_uri
from pruner.storage.store import NotFoundError, check_path
from pruner.tables.delta.actions import LogReplay, actions_of, is_uri, replayed
from pruner.tables.delta.checkpoint import FILE_COLUMNS, CommitPart, load_checkpoint, unread
from pruner.tables.delta.log import MOST_BYTES
from pruner.tables.snapshot import key_array, keys_of_paths

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.storage.store import ObjectInfo, Store
    from pruner.tables.delta.actions import Action, Add, Metadata, Protocol
    from pruner.tables.delta.checkpoint import CheckpointPart
    from pruner.tables.delta.log import CommitFile, Segment


def placed(files: pa.Table, root: str) -> tuple[pa.Table, bool]:
    """Add slice keys, names and locations to some files (`FILE_COLUMNS`): `key`, `name` and `uri`.

    Returns:
        The files, and whether all paths are plain: below the root, and the only path to their file.

    Raises:
        TableError: the log gives a file an invalid path, or names one twice.
    """
    paths: Any = files.column("path").combine_chunks()
    bytes_of = _Paths(paths)
    names: Any = paths
    if len(bytes_of.slashes):
        names = compute.replace_substring_regex(paths, r"(?s)^.*/", "")
    keys, uris = b"".join(keys_of_paths(paths)), compute.binary_join_element_wise(f"{root}/", paths, "")
    are_plain = bytes_of.are_plain()
    if are_plain:
        is_once = _differ(keys) or compute.count_distinct(paths).as_py() == len(paths)
    else:
        uris = _with_unusual(uris, paths, root)
        is_once = compute.count_distinct(uris).as_py() == len(uris)
    if not is_once:
        raise _twice(root)
    files = files.append_column("key", key_array(keys))
    return files.append_column("name", names).append_column("uri", uris), are_plain


def _differ(keys: bytes) -> bool:
    """Whether all keys differ in their first halves, as they nearly always do where the files differ."""
    halves = _halves(keys).copy()
    halves.sort()
    return not (halves[1:] == halves[:-1]).any()


def _halves(keys: Any) -> NDArray[np.uint64]:
    """The first halves of slice keys."""
    return np.frombuffer(keys, np.uint64)[::2]


def _twice(root: str) -> TableError:
    return TableError(
        f"the log of {root} adds a file twice, so that its rows would count twice: restore the log"
    )


class _Paths:
    """Paths as raw bytes: matching each against a pattern takes ten times as long."""

    def __init__(self, paths: Any) -> None:
        _, places, data = paths.buffers()
        at: Any = np.frombuffer(places or bytes(4), np.int32)[paths.offset : paths.offset + len(paths) + 1]
        self._data: Any = np.frombuffer(data or b"", np.uint8)[at[0] : at[-1]]
        self._ends: Any = at - at[0]
        self.slashes: Any = np.flatnonzero(self._data == _SLASH)

    def are_plain(self) -> bool:
        """Whether no path can be a URI or has a folder without a name; where it is False, some may be plain."""
        data, ends = self._data, self._ends
        if (ends[1:] == ends[:-1]).any() or not data.all():
            return False
        outer = data[np.concatenate([ends[:-1], ends[1:] - 1])]
        if (outer == _SLASH).any() or (outer == _DOT).any():
            return False
        behind, before = data[self.slashes + 1], data[self.slashes - 1]
        return not ((behind == _SLASH) | (behind == _DOT) | (before == _COLON)).any()


def _with_unusual(uris: Any, paths: Any, root: str) -> Any:
    """The URIs, corrected for files not simply below the root: a clone names its files by their URIs."""
    unusual = as_numpy(
        compute.match_substring_regex(paths, r"^/|^[A-Za-z][A-Za-z0-9+.-]*:/|(^|/)\.{0,2}(/|$)|\x00")
    )
    if not unusual.any():
        return uris
    placed = [place_of(root, path) for path in paths.filter(pa.array(unusual)).to_pylist()]
    return compute.replace_with_mask(uris, pa.array(unusual), arrow.array(placed, pa.string()))


def place_of(root: str, path: str) -> str:
    """Return the location of a file in the log.

    Args:
        root: the table's root.
        path: relative to the root, or a URI; only a URI may lead out of the table, and only to the same kind of store.

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
"""Commits read concurrently from a store."""

_MOST_CHUNKS: Final = 256
"""Chunks up to which each snapshot read appends some without copying the existing ones."""

_FEW: Final = 16
"""Files up to which each is searched for individually among the existing ones."""


@dataclass(frozen=True)
class DeltaState:
    """A version of a table. `newest` is the commit that made it; `files` and `are_plain` are what `placed` returns."""

    version: int
    newest: ObjectInfo | None
    metadata: Metadata
    protocol: Protocol
    files: pa.Table
    parts: tuple[CheckpointPart | CommitPart, ...]
    are_plain: bool


def read_state(store: Store, options: Mapping[str, str], segment: Segment) -> DeltaState:
    """Read a version.

    Raises:
        TableError: a file of the log is missing or damaged, or the table uses an unknown feature.
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
    files, are_plain = placed(arrow.concat_tables([FILE_COLUMNS.empty_table(), *tables]), store.uri)
    state = DeltaState(
        segment.version, segment.newest, seen.metadata, seen.protocol, files, tuple(parts), are_plain
    )
    return _checked(_changed(state, seen.files, store.uri), store.uri)


def follow(store: Store, state: DeltaState, segment: Segment) -> DeltaState:
    """Return a later version by applying the commits since `state`.

    Raises:
        TableError: a commit is missing or damaged, or the table uses an unknown feature.
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
    """The state with added and removed files. The time depends on the changes, not on the number of files."""
    if not changes:
        return state
    added, part = unread((add for add in changes.values() if add is not None), len(state.parts))
    added, are_plain = placed(added, root)
    files = state.files
    touched = _touched(files, {path for path, _ in changes}, are_plain=state.are_plain)
    some = rows_at(files.select(["path", "deletionVector"]), touched)
    paths: list[Any] = some.column("path").to_pylist()
    keys = zip(map(replayed, paths), _vector_ids(some.column("deletionVector").combine_chunks()), strict=True)
    gone = np.fromiter((key in changes for key in keys), np.bool_, len(touched))
    kept = _without(files, touched[gone])
    if not added.num_rows:
        return replace(state, files=kept)
    if state.are_plain and are_plain:
        left = {path for path, is_gone in zip(paths, gone.tolist(), strict=True) if not is_gone}
        is_twice = bool(left.intersection(added.column("path").to_pylist()))
    else:
        here = compute.is_in(kept.column("uri"), value_set=added.column("uri").combine_chunks())
        is_twice = compute.any(here).as_py()
    if is_twice:
        raise _twice(root)
    files = arrow.concat_tables([kept, added])
    if files.column("key").num_chunks > _MOST_CHUNKS:
        files = files.combine_chunks()
    parts = (*state.parts, part)
    return replace(state, files=files, parts=parts, are_plain=state.are_plain and are_plain)


def _touched(files: pa.Table, names: Collection[str], *, are_plain: bool) -> NDArray[np.intp]:
    """The ordinals of files with one of some paths, and perhaps of others, ascending.

    Plain paths are found by the first halves of their keys: comparing strings takes five times as long.
    """
    if are_plain:
        halves = np.concatenate([np.empty(0, np.uint64), *map(_halves_of, files.column("key").chunks)])
        wanted = _halves(b"".join(keys_of_paths(arrow.array(list(names), pa.string()))))
        if len(wanted) <= _FEW:
            at = [np.flatnonzero(halves == half) for half in wanted]
            return np.unique(np.concatenate(at))
        return np.flatnonzero(as_numpy(compute.is_in(pa.array(halves), value_set=pa.array(wanted))))
    touched: Any = compute.is_in(files.column("path"), value_set=arrow.array(list(names), pa.string()))
    absolute = [path for path in names if is_uri(path)]
    if absolute:
        also = compute.is_in(files.column("uri"), value_set=arrow.array(absolute, pa.string()))
        touched = compute.or_(touched, also)
    return np.flatnonzero(as_numpy(touched))


def _halves_of(keys: Any) -> NDArray[np.uint64]:
    """The same for an array."""
    return _halves(keys.buffers()[1] or b"")[keys.offset : keys.offset + len(keys)]


def _without(files: pa.Table, gone: NDArray[np.intp]) -> pa.Table:
    """All files except some, without copying where these are few."""
    if not len(gone):
        return files
    if files.column("key").num_chunks + len(gone) > _MOST_CHUNKS:
        left = np.ones(files.num_rows, np.bool_)
        left[gone] = False
        return files.filter(truth_array(left))
    begins, ends = [0, *(gone + 1).tolist()], [*gone.tolist(), files.num_rows]
    return arrow.concat_tables(
        [files.slice(begin, end - begin) for begin, end in zip(begins, ends, strict=True)]
    )


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
    """The state, if this reader can read such a table.

    Raises:
        TableError: it cannot.
    """
    state.protocol.check(root)
    if state.metadata.format.provider != "parquet":
        raise TableError(
            f"{root} is a Delta table of {state.metadata.format.provider!r} files: Parquet alone is read"
        )
    return state
