"""Where snapshots come from: one protocol for all table formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pruner.tables.snapshot import Snapshot, Watched

SAVED_METADATA = b"pruner.snapshot"
"""Metadata key of `SavedLook.table` under which a format keeps what is not in a column."""


class SavedLook(NamedTuple):
    """A table listing in a form that can be stored: the id of the snapshot, and what restores it.

    `blocks` are the row counts of parts that readers may read one by one; empty where the listing is always read whole.
    `order` is set where the listing also has blocks of the one that the source started from: for each block, in order,
    whether it is one of those and its number there, or its number among `blocks`.
    """

    id: str
    table: pa.Table
    blocks: tuple[int, ...] = ()
    order: tuple[tuple[bool, int], ...] = ()


Piece: TypeAlias = "tuple[SavedBlocks, int]"
"""A stored listing, and the number of one of its blocks."""


class SavedBlocks(Protocol):
    """A listing stored in blocks. Whatever is read from it is verified.

    Attributes:
        schema: that of `SavedLook.table`.
        described: the metadata of that schema.
        rows: the number of rows of each block.
    """

    schema: pa.Schema
    described: Mapping[bytes, bytes]
    rows: tuple[int, ...]

    def read(self, names: Sequence[str], groups: Iterable[int] | None = None) -> pa.Table:
        """Return some columns of some blocks; None for all blocks.

        Raises:
            FormatError: what was read is not what was stored.
            StorageError: it cannot be read.
        """
        ...


class JoinedBlocks:
    """Blocks of several stored listings, in some order: see `SavedBlocks`. Threads may share it.

    Attributes:
        pieces: the listing that each block is from, and its number there.
    """

    def __init__(
        self, schema: pa.Schema, pieces: Sequence[Piece], described: Mapping[bytes, bytes] | None = None
    ) -> None:
        """Join blocks of listings of one schema."""
        self.schema = schema
        self.described = described or {}
        self.pieces = tuple(pieces)
        self.rows = tuple(blocks.rows[number] for blocks, number in self.pieces)

    def read(self, names: Sequence[str], groups: Iterable[int] | None = None) -> pa.Table:
        """Return some columns of some blocks: see `SavedBlocks`."""
        chosen = self.pieces if groups is None else [self.pieces[group] for group in groups]
        tables = [
            blocks.read(names, [number for _, number in of_one])
            for blocks, of_one in groupby(chosen, key=itemgetter(0))
        ]
        schema: Any = self.schema
        return pa.concat_tables(tables or [schema.empty_table().select(list(names))])


class StoredLook(NamedTuple):
    """What a stored listing needs for finding changes: the slice key of each row, and its `SAVED_METADATA`."""

    keys: pa.Array[Any]
    described: bytes


class ComparedLook(NamedTuple):
    """A listing that is stored whole and read only when needed.

    `rows` is its number of rows, `most` the number of additions and removals up to which changes are worth storing;
    `read` returns None for one without slice keys, and raises FormatError or StorageError where it cannot be read.
    """

    rows: int
    most: int
    read: Callable[[], StoredLook | None]


class SavedChanges(NamedTuple):
    """A listing in a form that can be stored beside an earlier one.

    `gone` are the rows of the earlier listing that it lacks, ascending, and `table` are the rows that it adds, with the
    metadata of the whole listing. The rows that stay and these are what `SavedLook.table` holds.
    """

    id: str
    table: pa.Table
    gone: NDArray[np.int64]


@runtime_checkable
class ChangesSource(Protocol):
    """A source for whose listing it is enough to store what changed since one that is already stored."""

    def saved_changes(self, stored_id: str, stored: ComparedLook) -> SavedChanges | None:
        """Return how the last listing differs from a stored one.

        Args:
            stored_id: id of the listing stored last, to tell whether it is the last listing.
            stored: one that was stored whole.

        Returns:
            None where there was no listing, or it was stored last, or the stored one is of another version, or too much
            has changed.

        Raises:
            FormatError, StorageError: the stored one cannot be read.
        """
        ...


@runtime_checkable
class BlockSource(Protocol):
    """A source that can start from a listing whose blocks it reads only when they are needed."""

    def resume_blocks(self, saved_id: str, blocks: SavedBlocks) -> None:
        """Start from a listing that another process stored in blocks: as `TableSource.resume`.

        Raises:
            FormatError: what was read from it is not what was stored.
            StorageError: it cannot be read.
        """
        ...

    def saved_blocks(self, stored_id: str, stored: SavedBlocks) -> SavedLook | None:
        """Return the blocks of the last listing that a stored one does not have.

        Args:
            stored_id: id of the stored listing, to tell whether it is the last one.
            stored: its blocks, which the source was given.

        Returns:
            None where there was no listing, or it is the stored one, or it was not made from that one.
        """
        ...

    def rest_on(self, saved_id: str, blocks: SavedBlocks) -> None:
        """Start from a listing where it was stored, if it is the last one; raises as `resume_blocks` does."""
        ...


class ListingParts(NamedTuple):
    """A first listing that workers share: what each of them is sent, and the number of parts."""

    sent: bytes
    number: int


@runtime_checkable
class SharedSource(BlockSource, Protocol):
    """A source whose first listing several machines can share, each making a part of it."""

    def parts(self, most: int) -> ListingParts | None:
        """Cut the table into parts.

        Args:
            most: the maximum number of parts.

        Returns:
            None where there is a listing to start from, or listing the table is quick, or it cannot be cut.

        Raises:
            TableError, StorageError: the table cannot be read.
        """
        ...

    def list_part(self, sent: bytes, number: int) -> SavedLook:
        """List a part on any machine, in blocks.

        Raises:
            TableError: the part cannot be listed reliably, or this machine sees another table.
            StorageError: the store refuses.
        """
        ...

    def joined(self, sent: bytes, parts: Sequence[SavedBlocks]) -> SavedLook | None:
        """The listing that all parts make, each as it was stored.

        Returns:
            Without rows where the blocks of the parts, one part after the other, are those of the listing: its metadata
            is that of the whole. Otherwise with all rows. None where the table has changed meanwhile, or the parts do
            not fit together.

        Raises:
            FormatError, StorageError: a part cannot be read.
        """
        ...


@runtime_checkable
class WatchableSource(Protocol):
    """A source for which a watcher can tell that a listing would find what the last one found."""

    def watched(self) -> Sequence[Watched] | None:
        """Return what to watch for that; None where only a listing can tell.

        The watcher has to wait after writes so recent that another write need not show in the times (R4).
        """
        ...


@runtime_checkable
class NamedSource(Protocol):
    """A source that cannot always be opened again by its first root."""

    @property
    def opened_by(self) -> str:
        """The path or name by which it is opened."""
        ...


class TableSource(Protocol):
    """A table of some format, listed as often as wanted. Threads may share one."""

    @property
    def format(self) -> str:
        """The name of its format: see `pruner.formats.format`."""
        ...

    @property
    def write_once(self) -> bool:
        """Whether the format never writes a file name twice, so that no file changes while it is read (R4)."""
        ...

    @property
    def root(self) -> str:
        """The first root: an absolute local path, or a URI without a trailing slash."""
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
        """Return what changes when the table is recreated, where that can be known.

        Raises:
            TableError: the table is gone.
            StorageError: it cannot be read.
        """
        ...

    def saved(self, stored: str | None = None) -> SavedLook | None:
        """Return the last listing in a form from which `resume` can start.

        Args:
            stored: id of the listing that is already stored.

        Returns:
            None where there was no listing, or it is the stored one.
        """
        ...

    def resume(self, saved: SavedLook) -> None:
        """Start from a listing that another process saved: the next one reads only what is new.

        Snapshots are the same with or without it. A listing of another version of pruner, or one that is not
        understood, is not used.
        """
        ...

    def snapshot(self, previous: Snapshot | None = None) -> Snapshot:
        """Return the current snapshot.

        Args:
            previous: an earlier snapshot of this source; returned itself when nothing has changed.

        Raises:
            TableError: the table is gone or cannot be listed completely.
            StorageError: the store refuses to be read.
        """
        ...

    def confirm(self) -> None:
        """Make the next listing ask for everything, even where a change feed would say what to ask for."""
        ...

    def doubts(self) -> tuple[str, ...]:
        """Say why the last listing did not use the table's change feed, where something is wrong with it."""
        ...

    def believed(self) -> Mapping[bytes, str]:
        """Return the files that are taken to be unchanged although their change time moved, by their slice key.

        For `look_again`; the value is the version that they are taken to have.
        """
        ...

    def look_again(
        self, previous: Snapshot, believed: Mapping[bytes, str], read: NDArray[np.intp] | None = None
    ) -> Snapshot:
        """List the table after something was read from it, to tell whether the content read can be another (R4).

        A touched file counts as another one here, unless it is believed: its content may have differed in between.

        Args:
            previous: a snapshot of which slices were read; returned itself when nothing has changed.
            believed: what was believed before the reading began; empty for what another process read.
            read: ordinals of the slices that were read, where no others need be checked: `previous` is returned when
                none of these has changed. None for all.

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


class WriteOnceSource:
    """Base of sources whose format never writes a file name twice, and whose log tells what changed."""

    write_once = True

    def confirm(self) -> None:
        """Do nothing: every listing reads the format's log."""

    def doubts(self) -> tuple[str, ...]:
        """Return nothing: there is no change feed."""
        return ()

    def believed(self) -> Mapping[bytes, str]:
        """Return nothing: no time is part of a version."""
        return {}

    def look_again(
        self, previous: Snapshot, believed: Mapping[bytes, str], read: NDArray[np.intp] | None = None
    ) -> Snapshot:
        """Return `previous`: none of its files can have changed."""
        return previous
