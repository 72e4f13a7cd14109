"""Apache Iceberg as a table format."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from pruner.errors import StorageError
from pruner.storage.opening import open_store
from pruner.tables.iceberg.places import is_of_catalog
from pruner.tables.listing.foreign import is_of_iceberg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.evidence.sources import OwnIndexes
    from pruner.tables.feed.place import FeedSettings
    from pruner.tables.iceberg.source import IcebergSource
    from pruner.tables.snapshot import Snapshot
    from pruner.tables.source import TableSource

_METADATA = "metadata"


class IcebergFormat:
    """Iceberg tables: see `pruner.formats.format.TableFormat`.

    The modules that read them are imported only for such a table.
    """

    name = "iceberg"
    title = "an Iceberg table"
    several_roots = False

    def is_root(self, root: str, storage_options: Mapping[str, str] | None) -> bool:
        """Tell whether there is Iceberg metadata, or this is a metadata file: see `TableFormat`."""
        if root.rpartition("/")[2] != root and is_of_iceberg(root.rpartition("/")[2]):
            folder, _, name = root.rpartition("/")
            return open_store(folder, storage_options).exists(name)
        if root.startswith("/"):
            try:
                with os.scandir(f"{root}/{_METADATA}") as entries:
                    return any(is_of_iceberg(entry.name) for entry in entries)
            except (FileNotFoundError, NotADirectoryError):
                return False
        try:
            files = open_store(root, storage_options).some(_METADATA)
            return any(is_of_iceberg(info.path.rpartition("/")[2]) for info in files)
        except StorageError:
            # A user without access to metadata may be able to list the table: a listing that finds metadata is refused.
            return False

    def open(
        self,
        roots: Sequence[str],
        storage_options: Mapping[str, str] | None,
        *,
        immutable: bool,
        feed: FeedSettings | None,
    ) -> TableSource:
        """Open an Iceberg table: see `TableFormat`."""
        from pruner.tables.iceberg.source import IcebergSource

        if is_of_catalog(roots[0]):
            from pruner.tables.iceberg.catalogs import CatalogTable

            named = CatalogTable(roots[0], storage_options)
            pointed = named.look()
            source = IcebergSource(pointed.root, pointed.options, named)
        else:
            source = IcebergSource(roots[0], storage_options)
        source.check()
        return source

    def own_indexes(self, source: TableSource, snapshot: Snapshot) -> OwnIndexes | None:
        """Return the metrics in the manifests: see `TableFormat`."""
        state = cast("IcebergSource", source).state_of(snapshot)
        if state is None:
            return None
        from pruner.evidence.iceberg import IcebergMetrics

        return IcebergMetrics(state, snapshot)
