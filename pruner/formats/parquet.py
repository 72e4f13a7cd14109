"""Folders of Parquet files as a table format: folders that no other format claims."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from pruner.errors import TableError
from pruner.tables.listing.foreign import check_above
from pruner.tables.parquet.source import ParquetSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.tables.feed.place import FeedSettings
    from pruner.tables.snapshot import Snapshot
    from pruner.tables.source import TableSource


class ParquetFormat:
    """Tables of plain Parquet files: see `pruner.formats.format.TableFormat`."""

    name = "parquet"
    title = "a Parquet table"
    several_roots = True

    def is_root(self, root: str, storage_options: Mapping[str, str] | None) -> bool:
        """Tell whether a location can be a folder of files; object stores have no folders, so any location can be one.

        Raises:
            TableError: a local path does not exist or is not a folder; names the root if it is a file of another table.
        """
        if root.startswith("/"):
            if not os.path.lexists(root):
                raise TableError(f"no such path: {root}{_hint(root)}")
            if not os.path.isdir(root):  # noqa: PTH112
                check_above({root: ""})
                raise TableError(
                    f"{root} is a file: give the table's root, the folder that holds all of its files"
                )
        return True

    def open(
        self,
        roots: Sequence[str],
        storage_options: Mapping[str, str] | None,
        *,
        immutable: bool,
        feed: FeedSettings | None,
    ) -> TableSource:
        """Open a table of Parquet files, unless a table of another format is found above or below: `TableFormat`."""
        source = ParquetSource(roots, storage_options, immutable=immutable, feed=feed)
        source.check()
        return source

    def own_indexes(self, source: TableSource, snapshot: Snapshot) -> None:
        """Return None: plain files have no index. The Bloom filters in them are probed separately."""


def _hint(path: str) -> str:
    """What may have been meant by a path that does not exist."""
    if "*" in path:
        return ": a table is a folder, so give the one that the glob looks into"
    # `s3:/bucket` is a path on this machine.
    store = re.search(r"/(s3a?|s3n|gs|az|abfss?):/+(.+)", path)
    return f": did you mean {store[1]}://{store[2]}?" if store else ""
