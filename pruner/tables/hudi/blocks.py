"""The slices of a large Hudi table as blocks: a process reads only the blocks that it needs.

A block is a run of neighboring slices: whole partitions, or a part of a large one. The directory holds for each
block the answers to most questions, and what its slices must be. So a block that cannot be read, or holds other
slices than the directory says, is noticed. Then the table is listed, and must have exactly the same slices.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import Counter, OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import xxhash

from pruner.arrow import arrow, as_numpy, filled, nulls, number_array, truth_array
from pruner.errors import FormatError, StorageError, TableError
from pruner.tables.hudi.slice_columns import STORED_COLUMNS, HudiColumns, sums
from pruner.tables.snapshot import SLICE_COLUMNS, SLICE_KEY_BYTES
from pruner.tables.source import JoinedBlocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.tables.hudi.listing import HudiSlice
    from pruner.tables.hudi.slice_columns import Changes, Group
    from pruner.tables.hudi.timeline import Timeline
    from pruner.tables.source import Piece, SavedBlocks

    Mask = NDArray[np.bool_]

BLOCK_SLICES = 16_384
"""Maximum slices per block."""

BLOCKS_FROM = 1 << 18
"""Slices from which a snapshot is stored in blocks: fewer load too quickly for blocks to pay off."""

HELD_BLOCKS: Final = 16
"""Blocks that stay cached after they were read: some 4 MB each."""

PASSED_SHARE: Final = 4
"""Up to one in this many blocks is read by itself for rows of some slices; beyond, all are."""

_AT_ONCE = 64
"""Blocks whose keys are read together."""

_log = logging.getLogger("pruner")


class Block(msgspec.Struct, frozen=True):
    """What is known of a block: its partitions with the number of slices in each, the file id of the first slice, a
    digest of the keys, bytes of data, and whether all slices are settled, all have a base file, and any has log files.
    """

    partitions: tuple[tuple[str, int], ...]
    first: str
    keys: str
    size: int
    all_settled: bool
    all_based: bool
    any_logs: bool

    @property
    def rows(self) -> int:
        """The number of slices."""
        return sum(count for _, count in self.partitions)


def directory(columns: HudiColumns) -> list[Block]:
    """Cut the slices of a table into blocks."""
    table = columns.columns
    partition: NDArray[np.int32] = as_numpy(table.column("partition"))
    has_base = as_numpy(table.column("base_file").is_valid())
    has_logs = as_numpy(table.column("log_files").is_valid())
    unsettled = as_numpy(table.column("unsettled"))
    data = as_numpy(filled(table.column("base_size"), 0)) + as_numpy(filled(table.column("log_size"), 0))
    blocks: list[Block] = []
    for start, stop in _cuts(partition):
        ordinals, counts = np.unique(partition[start:stop], return_counts=True)
        found: list[int] = ordinals.tolist()
        paths = [columns.paths[ordinal] for ordinal in found]
        blocks.append(
            Block(
                partitions=tuple(zip(paths, counts.tolist(), strict=True)),
                first=table.column("file_id")[start].as_py(),
                keys=_digest(columns.keys, start, stop),
                size=int(data[start:stop].sum()),
                all_settled=not unsettled[start:stop].any(),
                all_based=bool(has_base[start:stop].all()),
                any_logs=bool(has_logs[start:stop].any()),
            )
        )
    return blocks


def _cuts(partition: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """Where blocks begin and end: with a partition, unless that is too large for one."""
    begins = np.append(np.flatnonzero(np.diff(partition, prepend=-1)), len(partition))
    start = 0
    while start < len(partition):
        most = start + BLOCK_SLICES
        # The last partition that ends within the block; a larger one is cut.
        end = int(begins[np.searchsorted(begins, most, side="right") - 1])
        stop = end if end > start else min(most, len(partition))
        yield start, stop
        start = stop


def _digest(keys: pa.Array[Any], start: int, stop: int) -> str:
    data: Any = keys.buffers()[1]
    held = memoryview(data)[(keys.offset + start) * SLICE_KEY_BYTES : (keys.offset + stop) * SLICE_KEY_BYTES]
    return xxhash.xxh3_128_hexdigest(held)


class _ChangedBlocks(JoinedBlocks):
    """Blocks of a stored listing and new ones."""


class HeldBlock:
    """A block in memory: see `SavedBlocks`."""

    def __init__(self, table: pa.Table) -> None:
        """`table` has `STORED_COLUMNS`."""
        self.schema: pa.Schema = STORED_COLUMNS
        self.described: Mapping[bytes, bytes] = {}
        self.rows = (table.num_rows,)
        self._table = table

    def read(self, names: Sequence[str], groups: Iterable[int] | None = None) -> pa.Table:
        """Return some columns of the block, once per requested group."""
        times = 1 if groups is None else len(list(groups))
        return pa.concat_tables([self._table.select(list(names))] * times)


class _Blocks(NamedTuple):
    """Consecutive blocks: what is known of each, where it is from, and the keys of its slices."""

    directory: list[Block]
    pieces: list[Piece]
    keys: list[pa.Array[Any]]

    def add(self, blocks: Sequence[Block], pieces: Sequence[Piece], keys: pa.Array[Any]) -> None:
        """Append blocks, and the keys of all their slices."""
        self.directory.extend(blocks)
        self.pieces.extend(pieces)
        self.keys.append(keys)


def _tables(columns: HudiColumns) -> Iterator[pa.Table]:
    """The slices of each block of a directory in stored form."""
    table = columns.stored()
    for start, stop in _cuts(as_numpy(columns.columns.column("partition"))):
        yield table.slice(start, stop - start)


class StoredSlices:
    """The slices of a stored listing: directory and keys are in memory, blocks are read on demand.

    It substitutes for `HudiColumns`, and for the columns of the snapshot: see `UnreadColumns`. Threads may share it.

    Attributes:
        root: the current location of the table.
        paths: the partition paths, sorted.
        keys: the slice keys.
        unsettled: the number of unsettled slices by reason.
        lost: whether a block is lost and the table has other slices now, so that it must be listed again.

    Raises:
        FormatError: the directory does not match these blocks.
        StorageError: they cannot be read.
    """

    def __init__(
        self,
        root: str,
        blocks: Sequence[Block],
        stored: SavedBlocks,
        unsettled: Mapping[str, int],
        listed: Callable[[], HudiColumns],
        keys: pa.Array[Any] | None = None,
    ) -> None:
        """`listed` lists the table as of the same moment; `keys` are not read where they are known."""
        self.root = root
        self.unsettled = unsettled
        self.lost = False
        self._blocks = blocks
        self._stored = stored
        self._listed = listed
        if tuple(block.rows for block in blocks) != stored.rows:
            raise FormatError(f"the saved snapshot of {root} does not have the blocks of its directory")
        self._starts = np.cumsum([0, *stored.rows])
        runs = [run for block in blocks for run in block.partitions]
        self.paths = tuple(dict.fromkeys(path for path, _ in runs))
        self._ordinal_of = {path: ordinal for ordinal, path in enumerate(self.paths)}
        self._runs = (
            np.array([self._ordinal_of[path] for path, _ in runs], np.int32),
            np.array([count for _, count in runs], np.int64),
        )
        self._size = sum(block.size for block in blocks)
        self._any_logs = any(block.any_logs for block in blocks)
        self._all_coverable = all(block.all_settled and block.all_based for block in blocks)
        self._first_runs = np.cumsum([0, *(len(block.partitions) for block in blocks)])
        self.keys = self._read_keys() if keys is None else keys
        self._lock = Lock()
        self._held: OrderedDict[int, HudiColumns] = OrderedDict()
        self._all: HudiColumns | None = None
        self._asked: set[int] = set()

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def num_rows(self) -> int:
        """The number of slices."""
        return len(self)

    @property
    def columns(self) -> StoredSlices:
        """The columns: this object."""
        return self

    @property
    def any_logs(self) -> bool:
        """True if some slice has log files."""
        return self._any_logs

    @property
    def all_coverable(self) -> bool:
        """True if each slice is settled and has a base file."""
        return self._all_coverable

    @property
    def total_size(self) -> int:
        """Size of all slices in bytes, log files included."""
        return self._size

    @property
    def partition_runs(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The partitions of neighboring slices as ordinals, and the number of slices in each run."""
        return self._runs

    def column(self, name: str) -> pa.ChunkedArray[Any]:
        """A column of all slices; only what the directory does not tell is read."""
        if self._all is None:
            known = self._known(name)
            if known is not None:
                return arrow.chunked_array([known])
        return self.whole().columns.column(name)

    def is_there(self, name: str) -> Mask:
        """Tell for each slice whether it has a base file, or log files: any value in a nullable column."""
        if self._all is None and name == "base_file":
            if all(block.all_based for block in self._blocks):
                return np.ones(len(self), np.bool_)
            name = "base_size"  # set wherever the file is
        elif self._all is None and name == "log_files":
            if not self.any_logs:
                return np.zeros(len(self), np.bool_)
            name = "log_size"  # likewise
        return as_numpy(self.column(name).is_valid())

    def rows(self, ordinals: Any, names: Sequence[str]) -> pa.Table:
        """Some columns of some slices, in their order; NULL where an ordinal is NULL."""
        if self._all is None:
            at: NDArray[np.int64] = as_numpy(pa.array(ordinals, pa.int64()).drop_null())
            numbers = np.unique(np.searchsorted(self._starts, at, side="right") - 1)
            inside = not len(at) or (at.min() >= 0 and at.max() < len(self))
            if inside and len(numbers) <= max(HELD_BLOCKS, len(self._blocks) // PASSED_SHARE):
                blocks = [self._block(number) for number in numbers.tolist()]
                if self._all is None:
                    return self._taken(blocks, numbers, ordinals, names)
        return self.whole().columns.select(list(names)).take(ordinals)

    @property
    def directory(self) -> Sequence[Block]:
        """What is known of each block."""
        return self._blocks

    def expect(self, groups: Sequence[Group]) -> None:
        """Prepare for lookups of some file groups: where they are in many blocks, all slices are read at once.

        Raises:
            FormatError: what was read is not what was stored.
            StorageError: it cannot be read.
        """
        self._asked.update(map(self._block_for, groups))
        if self._all is None and len(self._asked) > max(1, len(self._blocks) // PASSED_SHARE):
            self._all = self.read_all()

    def slice_of(self, group: Group) -> HudiSlice | None:
        """Return the newest slice of a group by the names of its files; None when there is no such group.

        Raises:
            FormatError: its block is not what was stored.
            StorageError: it cannot be read.
        """
        held = self._all
        return (self._read_block(self._block_for(group)) if held is None else held).slice_of(group)

    def _block_for(self, group: Group) -> int:
        """The block that has the slice of a group, or would have it."""
        partition, file_id = group
        runs, behind = self._runs[0], bisect_right(self.paths, partition)
        # The runs of the partition, or without one the last run before it.
        end = int(np.searchsorted(runs, behind, side="left"))
        is_there = behind > 0 and self.paths[behind - 1] == partition
        start = int(np.searchsorted(runs, behind - 1, side="left")) if is_there else max(end - 1, 0)
        first, last = self._block_of_run(start), self._block_of_run(max(end - 1, 0))
        # A partition of several blocks starts all of them but the first.
        later = range(first + 1, last + 1)
        return first + bisect_right(later, file_id, key=lambda number: self._blocks[number].first)

    def _block_of_run(self, run: int) -> int:
        return int(np.searchsorted(self._first_runs, run, side="right")) - 1

    def changed(
        self, changes: Changes, before: Timeline, listed: Callable[[], HudiColumns]
    ) -> StoredSlices | HudiColumns:
        """Return the slices with some replaced, new or gone: only their blocks are read and rebuilt, unless all are
        held.

        Args:
            changes: the newest slice of each group that changed, marked as settled or not.
            before: the timeline by which these slices were made.
            listed: lists the table as of the later moment.

        Raises:
            FormatError: a block is not what was stored, or no slice is left.
            StorageError: one cannot be read.
        """
        if self._all is not None:
            return self._all.changed(changes, before)
        by_block: dict[int, Changes] = {}
        for group, entry in changes.items():
            by_block.setdefault(self._block_for(group), {})[group] = entry
        unsettled = Counter(self.unsettled)
        made = _Blocks([], [], [])
        pieces, start = self._pieces(), 0
        for number in [*sorted(by_block), len(self._blocks)]:
            first, behind = int(self._starts[start]), int(self._starts[number])
            kept = self.keys.slice(first, behind - first)
            made.add(self._blocks[start:number], pieces[start:number], kept)
            if number in by_block:
                new = self._read_block(number).changed(by_block[number], before)
                unsettled.update(new.unsettled)  # removals are negative there
                made.add(directory(new), [(HeldBlock(table), 0) for table in _tables(new)], new.keys)
            start = number + 1
        if not made.directory:
            raise FormatError(f"no slice of {self.root} is left")
        counts = {reason: count for reason, count in unsettled.items() if count}
        joined = _ChangedBlocks(STORED_COLUMNS, made.pieces)
        after = StoredSlices(self.root, made.directory, joined, counts, listed, pa.concat_arrays(made.keys))
        if after.paths == self.paths:
            with self._lock:
                held = self._held.copy()
            after._take_over(held, pieces)
        return after

    def _take_over(self, held: Mapping[int, HudiColumns], pieces: Sequence[Piece]) -> None:
        """Cache what was read of blocks that stayed; `pieces` says which these are."""
        numbers = {piece: number for number, piece in enumerate(self._pieces())}
        for before, block in held.items():
            number = numbers.get(pieces[before])
            if number is not None:
                self._held[number] = block

    def _pieces(self) -> Sequence[Piece]:
        """The stored listing that each block is from and its number there, or the block itself where it is new."""
        stored = self._stored
        if isinstance(stored, _ChangedBlocks):
            return stored.pieces
        return [(stored, number) for number in range(len(stored.rows))]

    def since(self, stored: SavedBlocks) -> tuple[JoinedBlocks, tuple[tuple[bool, int], ...]] | None:
        """The blocks new since a stored listing, and the order of all: see `SavedLook`; None for another listing."""
        new: list[Piece] = []
        order: list[tuple[bool, int]] = []
        for piece in self._pieces():
            if isinstance(piece[0], HeldBlock):
                order.append((False, len(new)))
                new.append(piece)
            elif piece[0] is stored:
                order.append((True, piece[1]))
            else:
                return None
        return JoinedBlocks(STORED_COLUMNS, new), tuple(order)

    def resting_on(self, stored: SavedBlocks) -> StoredSlices | None:
        """Return the same slices, read from where they have been stored since; None where they were cut differently."""
        if stored.rows != self._stored.rows:
            return None
        rested = StoredSlices(self.root, self._blocks, stored, self.unsettled, self._listed, self.keys)
        with self._lock:
            rested._held = self._held.copy()
        return rested

    def _taken(
        self, blocks: list[HudiColumns], numbers: NDArray[np.intp], ordinals: Any, names: Sequence[str]
    ) -> pa.Table:
        """Rows of some blocks, by ordinals among their slices only."""
        starts, counts = self._starts[numbers], self._starts[numbers + 1] - self._starts[numbers]
        empty: Any = SLICE_COLUMNS.empty_table()
        rows: Any = pa.concat_tables([empty, *(block.columns for block in blocks)]).select(list(names))
        chosen: Any = pa.array(ordinals, pa.int64())
        at = as_numpy(chosen.fill_null(0))
        if not len(numbers):  # all of them are NULL
            return pa.table([nulls(len(at), field.type) for field in rows.schema], schema=rows.schema)
        which = np.maximum(np.searchsorted(starts, at, side="right") - 1, 0)
        local = at - starts[which] + (np.cumsum(counts) - counts)[which]
        return rows.take(number_array(local, pa.int64(), as_numpy(chosen.is_null())))

    def whole(self) -> HudiColumns:
        """All slices, read or else listed.

        Raises:
            TableError: they can be neither read nor listed unchanged.
            StorageError: the store refuses.
        """
        if self._all is None:
            try:
                self._all = self.read_all()
            except (FormatError, StorageError) as error:
                self._mend(error)
            assert self._all is not None
            with self._lock:
                self._held.clear()
        return self._all

    def read_all(self) -> HudiColumns:
        """All slices, read.

        Raises:
            FormatError: what was read is not what was stored.
            StorageError: it cannot be read.
        """
        if self._all is not None:
            return self._all
        table = self._stored.read(STORED_COLUMNS.names)
        return self._checked(table, 0, len(self._blocks), self.unsettled)

    def _known(self, name: str) -> Any:
        """A column from the directory, or read by itself; None where neither is possible."""
        if name == "partition":
            return number_array(self._partitions(0, len(self._blocks)), pa.int32())
        if name == "unsettled" and all(block.all_settled for block in self._blocks):
            return truth_array(np.zeros(len(self), np.bool_))
        if name in ("log_files", "log_size") and not self.any_logs:
            schema: Any = SLICE_COLUMNS
            return nulls(len(self), schema.field(name).type)
        if name not in ("unsettled", "base_size", "log_size"):
            return None
        try:
            return self._unsettled() if name == "unsettled" else self._sizes()[name]
        except (FormatError, StorageError) as error:
            self._mend(error)
            return None

    def _unsettled(self) -> Any:
        """Which slices are unsettled, checked against the directory."""
        read: Any = self._stored.read(["unsettled"]).column(0).combine_chunks()
        settled = [block.all_settled for block in self._blocks]
        if (
            len(read) != len(self)
            or (~np.logical_or.reduceat(as_numpy(read), self._starts[:-1])).tolist() != settled
        ):
            raise self._other_slices()
        return read

    def _sizes(self) -> dict[str, Any]:
        """The sizes of base files and of log files, checked against the directory."""
        names = ["base_size", "log_sizes"] if self.any_logs else ["base_size"]
        read: Any = self._stored.read(names)
        sizes = {"base_size": read.column("base_size").combine_chunks()}
        data = as_numpy(filled(sizes["base_size"], 0))
        if self.any_logs:
            sizes["log_size"] = sums(read.column("log_sizes").combine_chunks())
            data = data + as_numpy(filled(sizes["log_size"], 0))
        if len(data) != len(self) or np.add.reduceat(data, self._starts[:-1]).tolist() != [
            block.size for block in self._blocks
        ]:
            raise self._other_slices()
        return sizes

    def _other_slices(self) -> FormatError:
        return FormatError(f"the saved snapshot of {self.root} has other slices than its directory says")

    def _partitions(self, first: int, behind: int) -> NDArray[np.int32]:
        """The partition of each slice of some neighboring blocks."""
        runs = slice(self._first_runs[first], self._first_runs[behind])
        ordinals, counts = self._runs
        return np.repeat(ordinals[runs], counts[runs])

    def _read_keys(self) -> pa.Array[Any]:
        """The keys of all slices, checked against the directory block by block."""
        held = np.empty(len(self) * SLICE_KEY_BYTES, np.uint8)
        for first in range(0, len(self._blocks), _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, len(self._blocks)))
            chunks: Any = self._stored.read(["slice_key"], numbers).column(0).chunks
            at = int(self._starts[first]) * SLICE_KEY_BYTES
            for chunk in chunks:
                start, size = chunk.offset * SLICE_KEY_BYTES, len(chunk) * SLICE_KEY_BYTES
                held[at : at + size] = np.frombuffer(chunk.buffers()[1], np.uint8, size, start)
                at += size
        keys = arrow.Array.from_buffers(pa.binary(SLICE_KEY_BYTES), len(self), [None, arrow.py_buffer(held)])
        self._check_keys(keys, 0, len(self._blocks))
        return keys

    def _check_keys(self, keys: pa.Array[Any], first: int, behind: int) -> None:
        """Require that keys are those that the directory has for some blocks."""
        offset = self._starts[first]
        for number in range(first, behind):
            start, stop = (int(self._starts[at] - offset) for at in (number, number + 1))
            if _digest(keys, start, stop) != self._blocks[number].keys:
                raise self._other_slices()

    def _block(self, number: int) -> HudiColumns:
        """The slices of a block; where it cannot be read, all slices are listed and returned instead."""
        try:
            return self._read_block(number)
        except (FormatError, StorageError) as error:
            return self._mend(error)

    def _read_block(self, number: int) -> HudiColumns:
        with self._lock:
            held = self._held.get(number)
            if held is not None:
                self._held.move_to_end(number)
                return held
        table = self._stored.read(STORED_COLUMNS.names, [number])
        block = self._checked(table, number, number + 1, {})
        with self._lock:
            self._held[number] = block
            while len(self._held) > HELD_BLOCKS:
                self._held.popitem(last=False)
        return block

    def _checked(self, table: pa.Table, first: int, behind: int, unsettled: Mapping[str, int]) -> HudiColumns:
        """What was read of some neighboring blocks, as columns with the partitions of all slices.

        Raises:
            FormatError: these are not the slices that the directory has.
        """
        try:
            columns = HudiColumns.from_stored(self.root, table, unsettled)
        except pa.ArrowException:
            raise FormatError(f"the saved snapshot of {self.root} cannot be read as slices") from None
        there = [self._ordinal_of.get(path, -1) for path in columns.paths]
        ordinals = np.array([*there, -1], np.int32)[as_numpy(columns.columns.column("partition"))]
        if not np.array_equal(ordinals, self._partitions(first, behind)):
            raise self._other_slices()
        self._check_keys(columns.keys, first, behind)
        return columns.with_partitions(self.paths, ordinals)

    def _mend(self, reason: Exception) -> HudiColumns:
        """List the table as if it had never been saved.

        Raises:
            TableError: it has other slices now.
            StorageError: the store refuses.
        """
        _log.debug("%s is listed: %s", self.root, reason)
        listed = self._listed()
        if not listed.keys.equals(self.keys) or listed.paths != self.paths:
            self.lost = True
            raise TableError(
                f"the saved snapshot of {self.root} cannot be read any more, and the table has changed since: "
                "plan again"
            )
        self._all = listed
        return listed
