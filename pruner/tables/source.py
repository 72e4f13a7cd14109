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
"""Key of the metadata of `SavedLook.table` under which a format keeps what is no column."""


class SavedLook(NamedTuple):
    """A look at a table in a form that can be stored: the id of the snapshot, and what the format makes of it.

    `blocks` are the rows of parts that readers may take one by one; none where the look is always read whole. Where
    `order` is there, the look has blocks of the one that the source started from as well: for each block, in order,
    whether it is one of those and its number there, or its number among `blocks`.
    """

    id: str
    table: pa.Table
    blocks: tuple[int, ...] = ()
    order: tuple[tuple[bool, int], ...] = ()


Piece: TypeAlias = "tuple[SavedBlocks, int]"
"""A stored look, and the number of one of its blocks."""


class SavedBlocks(Protocol):
    """A look that was stored in blocks. Whatever is read of it is verified.

    Attributes:
        schema: of `SavedLook.table`.
        described: the metadata of that schema.
        rows: of each block.
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
    """Blocks of several looks that were stored, in some order: see `SavedBlocks`. Threads may share it.

    Attributes:
        pieces: the look that each block is from, and its number there.
    """

    def __init__(
        self, schema: pa.Schema, pieces: Sequence[Piece], described: Mapping[bytes, bytes] | None = None
    ) -> None:
        """Join blocks of looks of one schema."""
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
    """A look that is stored, as far as changes are found by it: the slice key of each row, and its `SAVED_METADATA`."""

    keys: pa.Array[Any]
    described: bytes


class ComparedLook(NamedTuple):
    """A look that is stored whole, which is not read before it has to be.

    `rows` is how many it has, `most` of how many that come or go changes are worth storing; `read` returns None of one
    without slice keys, and raises FormatError or StorageError where it cannot be read.
    """

    rows: int
    most: int
    read: Callable[[], StoredLook | None]


class SavedChanges(NamedTuple):
    """A look in a form that can be stored beside an earlier one.

    `gone` are the rows of the earlier look, ascending, that it does not have, and `table` are those that it has beside
    them, with the metadata of the whole look. The rows that stay and these are what `SavedLook.table` holds.
    """

    id: str
    table: pa.Table
    gone: NDArray[np.int64]


@runtime_checkable
class ChangesSource(Protocol):
    """A source of whose look no more need be stored than what changed since one that is stored already."""

    def saved_changes(self, stored_id: str, stored: ComparedLook) -> SavedChanges | None:
        """Return how the last look differs from one that is stored.

        Args:
            stored_id: id of the look that was stored last, by which the last look is known again.
            stored: one that was stored whole.

        Returns:
            None where there was no look, or it was stored last, or the stored one is of another version, or too much
            has changed.

        Raises:
            FormatError, StorageError: the stored one cannot be read.
        """
        ...


@runtime_checkable
class BlockSource(Protocol):
    """A source that can start from a look of which it reads blocks only when they are asked for."""

    def resume_blocks(self, saved_id: str, blocks: SavedBlocks) -> None:
        """Start from a look that another process stored in blocks: as `TableSource.resume`.

        Raises:
            FormatError: what was read of it is not what was stored.
            StorageError: it cannot be read.
        """
        ...

    def saved_blocks(self, stored_id: str, stored: SavedBlocks) -> SavedLook | None:
        """Return of the last look the blocks that are not those of a look that is stored.

        Args:
            stored_id: id of that look, by which the last look is known again.
            stored: its blocks, which the source was given.

        Returns:
            None where there was no look, or it is the stored one, or it was not made from that one.
        """
        ...

    def rest_on(self, saved_id: str, blocks: SavedBlocks) -> None:
        """Start from a look where it was stored, if it is the last one; raises as `resume_blocks` does."""
        ...


class ListingParts(NamedTuple):
    """A first listing that is shared out: what each of its workers is sent, and the number of parts."""

    sent: bytes
    number: int


@runtime_checkable
class SharedSource(BlockSource, Protocol):
    """A source of which several machines can make the first listing, each a part of it."""

    def parts(self, most: int) -> ListingParts | None:
        """Cut the table into parts.

        Args:
            most: the number of parts that are wanted at most.

        Returns:
            None where there is a look to start from, or the table is soon listed, or cannot be cut.

        Raises:
            TableError, StorageError: the table cannot be read.
        """
        ...

    def list_part(self, sent: bytes, number: int) -> SavedLook:
        """List a part on any machine, in blocks.

        Raises:
            TableError: the part cannot be listed for sure, or the table is another one here.
            StorageError: the store refuses.
        """
        ...

    def joined(self, sent: bytes, parts: Sequence[SavedBlocks]) -> SavedLook | None:
        """The look that all parts make, each as it was stored.

        Returns:
            Without rows where the blocks of the parts, one part after the other, are those of the look: its metadata is
            that of the whole. Otherwise with all rows. None where the table has changed meanwhile, or the parts do not
            fit together.

        Raises:
            FormatError, StorageError: a part cannot be read.
        """
        ...


@runtime_checkable
class WatchableSource(Protocol):
    """A source of which somebody else can tell that a look would find what the last one found."""

    def watched(self) -> Sequence[Watched] | None:
        """Return what to watch for that; None where nothing but a look tells.

        What was written so recently that another write need not show in its times (R4) is for the watcher to wait for.
        """
        ...


@runtime_checkable
class NamedSource(Protocol):
    """A source that its first root need not open again."""

    @property
    def opened_by(self) -> str:
        """The place or name by which it is opened."""
        ...


class TableSource(Protocol):
    """A table of some format, looked at as often as wanted. Threads may share one."""

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

    def saved(self, stored: str | None = None) -> SavedLook | None:
        """Return the last look in a form from which `resume` can start.

        Args:
            stored: id of the look that is stored already.

        Returns:
            None where there was no look, or it is the stored one.
        """
        ...

    def resume(self, saved: SavedLook) -> None:
        """Start from a look that another process saved: the next one reads only what is new.

        Snapshots are the same with it or without. One of another version of pruner, or that is not understood, is
        not used.
        """
        ...

    def snapshot(self, previous: Snapshot | None = None) -> Snapshot:
        """Look at the table now.

        Args:
            previous: an earlier snapshot of this source; returned itself when nothing has changed.

        Raises:
            TableError: the table is gone or cannot be listed completely.
            StorageError: the store refuses to be read.
        """
        ...

    def confirm(self) -> None:
        """Let the next look ask for everything, even where a change feed would say what to ask for."""
        ...

    def doubts(self) -> tuple[str, ...]:
        """Say why the last look did not go by the table's change feed, where something is wrong with it."""
        ...

    def believed(self) -> Mapping[bytes, str]:
        """Return which files, of which only the change time moved, are taken for what they were, by their slice key.

        For `look_again`; the value is the version that they are taken for.
        """
        ...

    def look_again(
        self, previous: Snapshot, believed: Mapping[bytes, str], read: NDArray[np.intp] | None = None
    ) -> Snapshot:
        """Look at the table after something was read from it, whether that can be of other content (R4).

        A file that was touched is another one here, unless it is believed: it may have held something else in between.

        Args:
            previous: a snapshot of which slices were read; returned itself when nothing has changed.
            believed: what was believed before the reading began; nothing for what another process read.
            read: ordinals of the slices that were read, where no others need be looked at: `previous` is returned when
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
    """What sources have in common whose format never writes a file name twice, and tells by a log what changed."""

    write_once = True

    def confirm(self) -> None:
        """Nothing to do: every look asks the log of the format."""

    def doubts(self) -> tuple[str, ...]:
        """Return nothing: there is no change feed."""
        return ()

    def believed(self) -> Mapping[bytes, str]:
        """Return nothing: no time is part of a version."""
        return {}

    def look_again(
        self, previous: Snapshot, believed: Mapping[bytes, str], read: NDArray[np.intp] | None = None
    ) -> Snapshot:
        """Return `previous`: no file of it can have changed."""
        return previous
