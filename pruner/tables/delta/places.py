"""Where the files that a log names lie, and by which keys records are joined with them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pruner.arrow import arrow, as_numpy, compute
from pruner.errors import StorageError, TableError
from pruner.storage.opening import is_alike_stored, normalize_uri
from pruner.storage.store import check_path
from pruner.tables.delta.actions import is_uri
from pruner.tables.snapshot import key_array, keys_of_paths


def placed(files: pa.Table, root: str) -> pa.Table:
    """Add to some files (`FILE_COLUMNS`) their slice keys, their names, and where they lie: `key`, `name` and `uri`.

    Raises:
        TableError: the log names one where there is no place for it.
    """
    paths: Any = files.column("path").combine_chunks()
    files = files.append_column("key", key_array(b"".join(keys_of_paths(paths))))
    files = files.append_column("name", compute.replace_substring_regex(paths, r"(?s)^.*/", ""))
    return files.append_column("uri", _uris(paths, root))


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
    if not is_alike_stored(place, root):
        raise TableError(
            f"the log of {root} names a file {path!r} in another kind of store, which is not read"
        )
    return place
