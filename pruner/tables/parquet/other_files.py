"""The files below the roots of a Parquet table that do not belong to it, and those that other readers would miss.

`pruner.tables.listing.files` determines which files belong to a table. Engines that expand a glob use another rule, so
a folder with files of both kinds can surprise its owner.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pruner.storage.opening import open_store
from pruner.tables.listing.files import is_hidden, is_metadata
from pruner.tables.parquet.source import PARQUET_SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

GLOB_SUFFIX = ".parquet"
"""The suffix that DuckDB's `**/*.parquet` matches, whatever the rest of the name."""


@dataclass(slots=True)
class OtherFiles:
    """Locations of files by kind, in the order of their paths.

    Attributes:
        hidden: those that are named like Parquet files and are ignored because they, or a folder, have a hidden name.
        foreign: those that are not Parquet inside, as far as a listing of the table read them.
        named_otherwise: the table's files that do not end in `.parquet`.
    """

    hidden: list[str] = field(default_factory=list[str])
    foreign: list[str] = field(default_factory=list[str])
    named_otherwise: list[str] = field(default_factory=list[str])


def other_files(
    roots: Sequence[str], storage_options: Mapping[str, str], taken: Container[str]
) -> OtherFiles:
    """Find files below the roots that some readers would take for the table's, and others not.

    Args:
        roots: normalized by `normalize_uri`.
        storage_options: options of the object store.
        taken: the URIs of the table's files.

    Raises:
        StorageError: the store refuses to be listed.
    """
    others = OtherFiles()
    for root in roots:
        for path, size in _all_files(root, storage_options):
            place = f"{root.rstrip('/')}/{path}"
            if place in taken:
                if not path.endswith(GLOB_SUFFIX):
                    others.named_otherwise.append(place)
            elif not size:
                continue
            elif any(map(is_metadata, parts := path.split("/"))):
                continue  # an index is not data
            elif not any(map(is_hidden, parts)):
                others.foreign.append(place)
            elif path.lower().endswith(PARQUET_SUFFIXES):
                others.hidden.append(place)
    return others


def _all_files(root: str, storage_options: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """The path below the root and the size of each file, hidden or not; links to folders are not followed."""
    if not root.startswith("/"):
        yield from ((info.path, info.size) for info in open_store(root, storage_options).list())
        return
    for folder, folders, names in os.walk(root):
        folders.sort()
        below = os.path.relpath(folder, root)
        for name in sorted(names):
            path = name if below == "." else f"{below}/{name}"
            try:
                yield path, os.stat(f"{folder}/{name}").st_size  # noqa: PTH116
            except OSError:
                continue  # gone, or a dangling link: the listing has reported that
