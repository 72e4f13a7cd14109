"""Opening a table by its location alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pruner.formats.detect import open_table_source
from pruner.limits import FEED_CONFIRM_SECONDS, INDEX_MEMORY
from pruner.metadata.table import MetadataTable
from pruner.storage.opening import normalize_uri, open_store
from pruner.table import Table
from pruner.tables.feed.place import FeedSettings
from pruner.tables.iceberg.places import IN_CATALOG, is_of_catalog, table_of_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

METADATA_SUFFIX = ".pruner"
"""Suffix that makes the first root the location of the metadata table: next to the table, never inside it."""


def open_places(  # noqa: PLR0913 - one parameter for each key of a table
    uri: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    storage_options: Mapping[str, str] | None = None,
    index_uri: str | None = None,
    max_staleness: float = 0.0,
    files: str | None = None,
    feed: str | None = None,
    confirm_after: float = FEED_CONFIRM_SECONDS,
    index_memory: int = INDEX_MEMORY,
    hudi_indexes: bool = True,
    file_filters: bool = True,
) -> Table:
    """Open a Parquet, Delta, Iceberg or Hudi table by its location alone, whatever `pruner.toml` says about it.

    Args:
        uri: path or URI of the table's root, several roots of one Parquet table, or
            `iceberg://catalog/namespace/table`.
        storage_options: options of the store (the keys of `obstore`).
        index_uri: location of the metadata table; by default `<first root>.pruner`. The root of an Iceberg table is its
            folder, whichever metadata file it is opened by.
        max_staleness: age in seconds up to which a snapshot of the table may be reused; 0 checks before every plan.
        files: "immutable" if no file ever changes in place.
        feed: location of a change feed that names all files that are added, removed or changed.
        confirm_after: seconds after which a full listing confirms what the feed reported.
        index_memory: most bytes of index records that are held, and that one predicate reads from one index.
        hudi_indexes: whether the indexes of Hudi's own metadata table are used.
        file_filters: whether the Bloom filters that writers put into Parquet files are used.

    Raises:
        TableError: there is no such path, it is not a table, or its format is not supported.
        StorageError: the store refuses the read.
    """
    roots = [os.fspath(root) for root in ([uri] if isinstance(uri, (str, os.PathLike)) else uri)]
    options = dict(storage_options or {})
    followed = None if feed is None else FeedSettings(feed, confirm_after)
    source = open_table_source(roots, options, immutable=files is not None, feed=followed)
    if is_of_catalog(normalize_uri(roots[0])):
        options = dict(source.storage_options)
    place, metadata = _metadata(source.root, options, index_uri)
    used = {"hudi_indexes": hudi_indexes, "file_filters": file_filters}
    return Table(source, metadata, place, max_staleness, index_memory, **used)


def defines_indexes(
    uri: str, *, storage_options: Mapping[str, str] | None = None, index_uri: str | None = None
) -> bool:
    """Tell whether an index is defined over a location, whether or not it is a table that pruner reads.

    Raises:
        FormatError: the metadata table is damaged, or a newer pruner wrote it.
        StorageError: the store refuses the read, or a URI is not understood.
    """
    root, options = normalize_uri(uri), dict(storage_options or {})
    if is_of_catalog(root):
        from pruner.tables.iceberg.catalogs import CatalogTable

        pointed = CatalogTable(root, options).look()
        root, options = pointed.root, dict(pointed.options)
    _, metadata = _metadata(root, options, index_uri)
    return bool(metadata.state().definitions)


def newest_metadata_of(uri: str, storage_options: Mapping[str, str] | None = None) -> str | None:
    """Return the newest metadata file of a table in an Iceberg catalog; None for a URI without a catalog.

    Raises:
        TableError: the catalog has no such table.
        StorageError: the catalog cannot be asked.
    """
    if not uri.casefold().startswith(IN_CATALOG):
        return None
    from pruner.tables.iceberg.catalogs import CatalogTable

    return CatalogTable(normalize_uri(uri), storage_options).look().metadata


def _metadata(root: str, options: dict[str, str], index_uri: str | None) -> tuple[str, MetadataTable]:
    """The location of the metadata table, and the metadata table."""
    place = index_uri or table_of_metadata(root).rstrip("/") + METADATA_SUFFIX
    return place, MetadataTable(open_store(place, options))
