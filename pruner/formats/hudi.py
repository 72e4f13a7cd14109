"""Apache Hudi as a table format."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from pruner.errors import StorageError
from pruner.storage.opening import open_store
from pruner.tables.listing.foreign import HUDI_PROPERTIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.evidence.sources import OwnIndexes
    from pruner.tables.feed.place import FeedSettings
    from pruner.tables.hudi.source import HudiSource
    from pruner.tables.snapshot import Snapshot
    from pruner.tables.source import TableSource


class HudiFormat:
    """Hudi tables: see `pruner.formats.format.TableFormat`.

    The modules that read them are imported only for such a table: they are slow to load, and most tables need none.
    """

    name = "hudi"
    title = "a Hudi table"
    several_roots = False

    def is_root(self, root: str, storage_options: Mapping[str, str] | None) -> bool:
        """Tell whether there is a properties file of a Hudi table: see `TableFormat`."""
        try:
            return open_store(root, storage_options).exists(HUDI_PROPERTIES)
        except StorageError as error:
            if root.startswith("/") and os.path.lexists(f"{root}/{HUDI_PROPERTIES.partition('/')[0]}"):
                raise
            # The folder itself cannot be read, so the error names the folder.
            raise type(error)(str(error).replace(f"{root}/{HUDI_PROPERTIES}", root)) from None

    def open(
        self,
        roots: Sequence[str],
        storage_options: Mapping[str, str] | None,
        *,
        immutable: bool,
        feed: FeedSettings | None,
    ) -> TableSource:
        """Open a Hudi table: see `TableFormat`."""
        from pruner.tables.hudi.source import HudiSource

        return HudiSource(roots[0], storage_options)

    def own_indexes(self, source: TableSource, snapshot: Snapshot) -> OwnIndexes | None:
        """Return the indexes of Hudi's metadata table: see `TableFormat`."""
        indexes = cast("HudiSource", source).own_indexes()
        if indexes is None:
            return None
        from pruner.evidence.hudi.own_indexes import HudiOwnIndexes

        return HudiOwnIndexes(indexes, snapshot)
