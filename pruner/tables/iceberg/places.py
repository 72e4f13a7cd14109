"""The locations of an Iceberg table's files, and its newest metadata file.

The locations in metadata are strings as Hadoop writes them: nothing in them is percent-encoded, and a folder called
`city=a%2Fb` has exactly these characters in its name.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pruner.arrow import as_numpy, compute, positions, text_array
from pruner.errors import StorageError, TableError
from pruner.storage.opening import CATALOG_SCHEME, is_alike_stored, normalize_uri, open_store
from pruner.storage.store import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pruner.storage.store import ObjectInfo, Store

METADATA: Final = "metadata"
IN_CATALOG: Final = f"{CATALOG_SCHEME}://"
"""The prefix of the URI of a catalog table."""

HINT: Final = f"{METADATA}/version-hint.text"
_LOCAL: Final = re.compile(r"file:(//(localhost)?)?(?=/)", re.IGNORECASE)
_HADOOP_NAME: Final = re.compile(r"v(\d+)(\.gz)?\.metadata\.json(\.gz)?")
METADATA_FILE: Final = re.compile(r".*\.metadata\.json(\.gz)?")
_MOST_HINT: Final = 64
_ABSOLUTE: Final = re.compile(r"/|file:/|[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_STEPS: Final = ("", ".", "..")
"""Names that lead to another folder, or to none."""

_MARKS: Final = ("\0", "?")
"""Characters in a name that require a check of the whole location."""

_MOST_AT_ONCE: Final = 1 << 30
"""Bytes of locations up to which they are resolved as one array."""

_FOLDERS: Final = 1 << 14
"""Folders whose resolved locations are cached."""


def place_of(location: str, root: str) -> str:
    """Return the location of a file named in the metadata.

    Args:
        location: as in the metadata.
        root: the table's root.

    Raises:
        TableError: it is invalid, or in another kind of store than the table.
    """
    folder, _, name = location.rpartition("/")
    if name not in _STEPS and not any(mark in name for mark in _MARKS):
        # Most files of a table are in the same folders.
        place = _folder_of(folder, root)
        if place is not None:
            return f"{place}/{name}"
    return _whole(location, root)


def places_of(locations: Any, root: str) -> tuple[Any, Any]:
    """Return the locations and names of files in the metadata as string columns: see `place_of`."""
    split = compute.split_pattern(locations, "/", max_splits=1, reverse=True)
    if locations.nbytes < _MOST_AT_ONCE and (as_numpy(compute.list_value_length(split)) == 2).all():
        halves, folders_at = split.flatten(), np.arange(0, 2 * len(split), 2)
        folders = halves.take(positions(folders_at)).dictionary_encode()
        names = halves.take(positions(folders_at + 1))
        places = [_folder_of(folder, root) for folder in folders.dictionary.to_pylist()]
        if not any(place is None for place in places) and not _lead_elsewhere(names):
            of_files = text_array([place or "" for place in places]).take(folders.indices)
            return compute.binary_join_element_wise(of_files, names, text_array("/")[0]), names
    texts: list[str] = locations.to_pylist()
    return (
        text_array([place_of(text, root) for text in texts]),
        text_array([text.rpartition("/")[2] for text in texts]),
    )


def _lead_elsewhere(names: Any) -> bool:
    """Tell whether one of some names is not that of a file in its folder, or changes the folder."""
    written = names.buffers()[2]
    marked = written is not None and any(mark.encode() in written.to_pybytes() for mark in _MARKS)
    return marked or compute.any(compute.is_in(names, value_set=text_array(_STEPS))).as_py()


@lru_cache(_FOLDERS)
def _folder_of(folder: str, root: str) -> str | None:
    """The location of a folder, without a trailing slash; None where a name appended to it may change it."""
    if not _ABSOLUTE.match(folder) or folder.endswith("/"):
        return None
    try:
        return _whole(folder, root).rstrip("/")
    except TableError:
        return None


def _whole(location: str, root: str) -> str:
    try:
        place = spelled(location)
    except StorageError as error:
        raise TableError(
            f"the metadata of {root} names a file {location!r}, which is no place: {error}"
        ) from None
    if not is_alike_stored(place, root):
        raise TableError(
            f"the metadata of {root} names {location!r} in another kind of store, which is not read"
        )
    return place


def spelled(location: str) -> str:
    """Return a location from the metadata, normalized by `normalize_uri`.

    Raises:
        StorageError: it is invalid.
    """
    local = _LOCAL.match(location)
    return normalize_uri(location[local.end() :] if local else location)


def is_of_catalog(uri: str) -> bool:
    """Tell whether a URI, normalized by `normalize_uri`, names a catalog table."""
    return uri.startswith(IN_CATALOG)


def table_of_metadata(root: str) -> str:
    """The folder of a table that is opened by one of its metadata files; any other root unchanged."""
    folder, _, name = root.rpartition("/")
    table, _, parent = folder.rpartition("/")
    return table if parent == METADATA and METADATA_FILE.fullmatch(name) else root


def read_file(place: str, options: Mapping[str, str], most: int) -> bytes:
    """Return a file as a whole.

    Raises:
        TableError: it is missing.
        StorageError: it cannot be read, or is larger than `most` bytes.
    """
    folder, _, name = place.rpartition("/")
    try:
        return open_store(folder, options).get(name, most)
    except NotFoundError:
        raise TableError(f"{place} is missing, and the table's metadata names it: restore it") from None


def newest_metadata(store: Store) -> tuple[str, ObjectInfo]:
    """Return the newest metadata file of a table that tracks its own versions, by its path below the root.

    Catalog tables do not: the catalog determines which of their metadata files is current, and a file beside it may be
    from a failed commit.

    Raises:
        TableError: the folder does not tell which one it is.
        StorageError: the store refuses to be read.
    """
    try:
        text = store.get(HINT, _MOST_HINT).decode("ascii", "replace").strip()
    except NotFoundError:
        raise TableError(
            f"{store.uri} is an Iceberg table whose newest metadata its catalog alone knows: open it as "
            "iceberg://catalog/namespace/table, or one state of it by its metadata file"
        ) from None
    version = int(text) if text.isdigit() else None
    versions: dict[int, ObjectInfo] = {}
    for info in store.list(METADATA):
        match = _HADOOP_NAME.fullmatch(info.path.removeprefix(f"{METADATA}/"))
        if match is not None:
            versions[int(match[1])] = info
    if version is None or version not in versions:
        raise TableError(
            f"{store.uri}/{HINT} names version {text!r}, which is not there: restore the metadata"
        )
    # A writer that died before it wrote the hint leaves it stale; versions follow one another without a gap.
    while version + 1 in versions:
        version += 1
    return versions[version].path, versions[version]
