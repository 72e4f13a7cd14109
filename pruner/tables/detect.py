"""Finds out what kind of table a place holds, and refuses by name what pruner is not made for (rule R8)."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

from pruner.errors import StorageError, TableError
from pruner.storage.opening import is_within, normalize_uri, open_store
from pruner.tables.hudi_properties import PROPERTIES_PATH
from pruner.tables.parquet import ParquetSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.tables.feed.place import FeedSettings
    from pruner.tables.source import TableSource

FORMATS = ("hudi", "parquet")


def open_table_source(
    uris: Sequence[str],
    storage_options: Mapping[str, str] | None = None,
    format: str | None = None,  # noqa: A002 - the name that readers of every library know
    *,
    immutable: bool = False,
    feed: FeedSettings | None = None,
) -> TableSource:
    """Open a table by its roots.

    Args:
        uris: paths or URIs; several only for a Parquet table whose files are scattered.
        storage_options: options of the object store.
        format: `hudi` or `parquet`; detected unless given.
        immutable: no file ever changes in place, so that a look need not ask for each. Hudi's never do.
        feed: a change feed that names whatever comes, goes or changes. Hudi's timeline does so by itself.

    Raises:
        TableError: no such path, not a table, or a format that is not supported.
        StorageError: the store refuses to be read, or a URI is not understood.
    """
    if not uris:
        raise TableError("a table needs at least one root: give a path or URI")
    if format is not None and format not in FORMATS:
        raise TableError(f"unknown format {format!r}: use one of {', '.join(FORMATS)}")
    roots = [normalize_uri(uri) for uri in uris]
    _check_apart(roots, feed)
    hudi = [root for root, found in zip(roots, _are_hudi(roots, storage_options), strict=True) if found]
    if hudi and len(roots) > 1:
        raise TableError(f"{hudi[0]} is a Hudi table, which has one root: open it without the others")
    if hudi and format != "parquet":
        # Imported here: readers of Hudi's own files take long to load, and most tables of Parquet files need none.
        from pruner.tables.hudi import HudiSource

        return HudiSource(hudi[0], storage_options)
    if hudi:
        raise TableError(f"{hudi[0]} is a Hudi table, whose Parquet files are not all part of the data")
    for root in roots:
        _check_root(root)
    if format == "hudi":
        raise TableError(f"{roots[0]} is not a Hudi table: there is no {PROPERTIES_PATH} in it")
    # This looks above the roots as well.
    source = ParquetSource(roots, storage_options, immutable=immutable, feed=feed)
    source.check()
    return source


def _check_apart(roots: list[str], feed: FeedSettings | None) -> None:
    """Refuse roots that hold one another, as every row of the inner one would count twice, or hold the feed."""
    for left, right in combinations(roots, 2):
        for outer, inner in ((left, right), (right, left)):
            if is_within(inner, outer):
                raise TableError(f"the roots overlap: {inner} lies in {outer}; give each file one root")
    place = None if feed is None else normalize_uri(feed.uri)
    for root in roots:
        if place is not None and (is_within(place, root) or is_within(root, place)):
            raise TableError(f"the change feed {place} and the table {root} overlap: keep them apart")


def _are_hudi(places: Sequence[str], storage_options: Mapping[str, str] | None) -> list[bool]:
    """Tell of each place whether it is the root of a Hudi table; those in a store are asked at once."""
    if all(place.startswith("/") for place in places):
        return [_is_hudi(place, storage_options) for place in places]
    with ThreadPoolExecutor(len(places)) as threads:
        return list(threads.map(partial(_is_hudi, storage_options=storage_options), places))


def _is_hudi(root: str, storage_options: Mapping[str, str] | None) -> bool:
    try:
        return open_store(root, storage_options).exists(PROPERTIES_PATH)
    except StorageError as error:
        if root.startswith("/") and os.path.lexists(f"{root}/{PROPERTIES_PATH.partition('/')[0]}"):
            raise
        # It is the folder that cannot be read, whatever was looked for in it.
        raise type(error)(str(error).replace(f"{root}/{PROPERTIES_PATH}", root)) from None


def _check_root(root: str) -> None:
    if root.startswith("/"):
        if not os.path.lexists(root):
            glob = ": a table is a folder, so give the one that the glob looks into" if "*" in root else ""
            raise TableError(f"no such path: {root}{glob}")
        if not os.path.isdir(root):  # noqa: PTH112
            raise TableError(f"{root} is not a folder: give the folder that holds the table's files")
