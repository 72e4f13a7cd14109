"""Where snapshots come from: one protocol for all table formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from pruner.tables.snapshot import Snapshot

KnownSchema: TypeAlias = Callable[[bytes], pa.Schema | None]
"""Gives the schema of a file by its slice key where somebody has read its footer before, else None."""


class TableSource(Protocol):
    """A table of some format, looked at as often as wanted. Threads may share one."""

    @property
    def format(self) -> str:
        """`hudi` or `parquet`."""
        ...

    @property
    def root(self) -> str:
        """The first root: an absolute local path, or a URI without a slash at its end."""
        ...

    @property
    def roots(self) -> tuple[str, ...]:
        """All roots, in the order given."""
        ...

    @property
    def storage_options(self) -> Mapping[str, str]:
        """Options of the object store with which the table was opened."""
        ...

    def identity(self) -> str:
        """Return what changes when the table is made anew, where that can be known.

        Raises:
            TableError: the table is gone.
            StorageError: it cannot be read.
        """
        ...

    def snapshot(self, previous: Snapshot | None = None, known_schema: KnownSchema | None = None) -> Snapshot:
        """Look at the table now.

        Args:
            previous: an earlier snapshot of this source; returned itself when nothing has changed.
            known_schema: asked before a file's footer is read.

        Raises:
            TableError: the table is gone or cannot be listed completely.
            StorageError: the store refuses to be read.
        """
        ...

    def snapshot_at(self, instant: str) -> Snapshot:
        """Return the table as of an instant of its timeline.

        Raises:
            TableError: the format has no time travel, or the instant is not one of the table.
        """
        ...
