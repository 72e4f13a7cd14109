"""Delta as a table format."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from pruner.errors import StorageError
from pruner.storage.opening import open_store
from pruner.tables.listing.foreign import DELTA_LOG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.evidence.sources import OwnIndexes
    from pruner.tables.delta.source import DeltaSource
    from pruner.tables.feed.place import FeedSettings
    from pruner.tables.snapshot import Snapshot
    from pruner.tables.source import TableSource


class DeltaFormat:
    """Delta tables: see `pruner.formats.format.TableFormat`.

    The modules that read them are imported only for such a table.
    """

    name = "delta"
    title = "a Delta table"
    several_roots = False

    def is_root(self, root: str, storage_options: Mapping[str, str] | None) -> bool:
        """Tell whether there is a Delta log: see `TableFormat`."""
        if root.startswith("/"):
            return os.path.isdir(f"{root}/{DELTA_LOG}")  # noqa: PTH112 - a Path costs more than the call
        try:
            return next(iter(open_store(root, storage_options).some(DELTA_LOG)), None) is not None
        except StorageError:
            # A user without access to the log may be able to list the table: a listing that finds the log is refused.
            return False

    def open(
        self,
        roots: Sequence[str],
        storage_options: Mapping[str, str] | None,
        *,
        immutable: bool,
        feed: FeedSettings | None,
    ) -> TableSource:
        """Open a Delta table: see `TableFormat`."""
        from pruner.tables.delta.source import DeltaSource

        source = DeltaSource(roots[0], storage_options)
        source.check()
        return source

    def own_indexes(self, source: TableSource, snapshot: Snapshot) -> OwnIndexes | None:
        """Return the statistics in the log: see `TableFormat`."""
        state = cast("DeltaSource", source).state_of(snapshot)
        if state is None:
            return None
        from pruner.evidence.delta import DeltaStatistics

        return DeltaStatistics(state, snapshot)
