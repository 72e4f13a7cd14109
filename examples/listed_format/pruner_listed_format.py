"""A table format of another distribution: the table consists of the Parquet files that `_files.json` names, and no
others.

A writer adds files first and then replaces `_files.json`, in one step; files that it no longer names stay until no
reader uses them. Plain Parquet would read them, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pruner.errors import TableError
from pruner.storage.opening import open_store
from pruner.storage.store import NotFoundError
from pruner.tables.listing.files import LocalLister
from pruner.tables.parquet.source import ParquetSource

if TYPE_CHECKING:
    from pruner.tables.feed.place import FeedSettings
    from pruner.tables.snapshot import Snapshot

FILES = "_files.json"
_MOST_BYTES = 16 * 1024**2


class ListedFiles(LocalLister):
    """The files that a table names, with what distinguishes versions of each."""

    def facts(self) -> Sequence[Any]:
        """List the named files: see `pruner.tables.listing.files.Lister`."""
        return list(self.some_facts())

    def some_facts(self) -> Iterator[Any]:
        """Yield them one after another."""
        for path in self._named():
            fact = self.fact_at(path)
            if fact is None:  # a listing without a file would lose its rows
                raise TableError(f"{self.root}/{FILES} names {path}, which is not there")
            yield fact

    def _named(self) -> list[str]:
        try:
            listed = json.loads(open_store(self.root).get(FILES, _MOST_BYTES))
            paths = [str(path) for path in listed["files"]]
        except (NotFoundError, ValueError, KeyError, TypeError) as error:
            raise TableError(f"{self.root}/{FILES} cannot be read: {error}") from None
        for path in paths:
            if path.startswith("/") or ".." in path.split("/"):
                raise TableError(f"{self.root}/{FILES} names {path}, which leads out of the table")
        return paths


class ListedSource(ParquetSource):
    """A table of this format. Everything except the listing is as for plain Parquet files."""

    format = "listed"

    def open_lister(self, root: str, *, immutable: bool) -> LocalLister:
        """Return a lister of the named files alone."""
        return ListedFiles(root)


class ListedFormat:
    """The format: see `pruner.formats.format.TableFormat`."""

    name = "listed"
    title = "a table of listed files"
    several_roots = False

    def is_root(self, root: str, storage_options: Mapping[str, str] | None) -> bool:
        """Tell whether a folder names its files."""
        return root.startswith("/") and open_store(root, storage_options).exists(FILES)

    def open(
        self,
        roots: Sequence[str],
        storage_options: Mapping[str, str] | None,
        *,
        immutable: bool,
        feed: FeedSettings | None,
    ) -> ListedSource:
        """Open a table."""
        if feed is not None:
            raise TableError(f"{roots[0]} is {self.title}, whose list is its change feed: leave the feed out")
        source = ListedSource(roots, storage_options, immutable=immutable)
        source.check()
        return source

    def own_indexes(self, source: Any, snapshot: Snapshot) -> None:
        """Return None: such tables have no index of their own."""


LISTED = ListedFormat()
