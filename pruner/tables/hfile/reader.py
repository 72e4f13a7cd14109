"""Look-ups in an HFile, by ranged reads: of a key, of many, of all that begin alike."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from pruner.errors import FormatError
from pruner.tables.hfile.blocks import (
    DATA,
    FILE_INFO,
    HEADER_BYTES,
    INNER_INDEX,
    MAX_BLOCK_BYTES,
    ROOT_INDEX,
    content_of,
    header_of,
)
from pruner.tables.hfile.cells import IndexEntry, cells, inner_entries, root_entries
from pruner.tables.hfile.trailer import TRAILER_BYTES, file_info_of, trailer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pruner.tables.hfile.sources import Source

_TAIL_BYTES = 1 << 16
"""What is read first: the trailer, and mostly index and file info with it."""

_BATCH_BYTES = 1 << 22
"""Bytes of blocks that are asked for at once in a scan."""

_MAX_TAIL_BYTES = 1 << 28
_MAX_INDEX_ENTRIES = 1 << 24


class HFile:
    """An HFile whose tail has been read. Threads may share it.

    Attributes:
        info: the entries of the file info.
        entries: the number of cells, as the trailer says.
        size: of the file in bytes.
    """

    def __init__(self, source: Source) -> None:
        """Read the tail.

        Raises:
            FormatError: this is no HFile that is read here.
            StorageError: it cannot be read.
        """
        self._source = source
        self.size = source.size
        try:
            self._open()
        except ValueError as error:
            raise self._damaged(error) from None

    def _open(self) -> None:
        size = self._source.size
        tail_start = max(0, size - _TAIL_BYTES)
        (tail,) = self._source.read([(tail_start, size - tail_start)])
        self._trailer = trailer = trailer_of(tail[-TRAILER_BYTES:], size)
        if trailer.load_on_open < tail_start:
            if size - trailer.load_on_open > _MAX_TAIL_BYTES:
                raise ValueError("its index is larger than is read")
            (before,) = self._source.read([(trailer.load_on_open, tail_start - trailer.load_on_open)])
            tail, tail_start = before + tail, trailer.load_on_open
        opened = tail[trailer.load_on_open - tail_start : -TRAILER_BYTES]
        info = opened[trailer.file_info - trailer.load_on_open :]
        self.info = file_info_of(content_of(info, trailer.codec, FILE_INFO))
        self.entries = trailer.entries
        if b"hfile.MAX_TAGS_LEN" in self.info:
            raise ValueError("its cells have tags")
        self._versioned = self.info.get(b"KEY_VALUE_VERSION", b"") == b"\0\0\0\1"
        if not 0 <= trailer.index_entries <= _MAX_INDEX_ENTRIES:
            raise ValueError("its trailer names an index that cannot be")
        if trailer.entries and not trailer.index_entries:
            raise ValueError("its index has no entries")
        root = content_of(opened, trailer.codec, ROOT_INDEX) if trailer.index_entries else b""
        self._root = self._ascending(root_entries(root, trailer.index_entries))

    def look_up(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Return the value of each of some keys that is there.

        Raises:
            FormatError: a block is damaged.
            StorageError: one cannot be read.
        """
        wanted = sorted(set(keys))
        found: dict[bytes, bytes] = {}
        blocks: dict[IndexEntry, set[bytes]] = {}
        for key, entry in self._blocks_of(wanted):
            blocks.setdefault(entry, set()).add(key)
        for entry, content in self._contents(list(blocks)):
            rows = blocks[entry]
            found.update((row, value) for row, value in self._cells(content) if row in rows)
        return found

    def scan(self, *prefixes: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield each key that begins with one of some prefixes, or each key, and its value, in the order of the keys.

        Raises:
            FormatError: a block is damaged.
            StorageError: one cannot be read.
        """
        wanted = prefixes or (b"",)
        for _, content in self._contents(self._between(wanted)):
            for row, value in self._cells(content):
                if row.startswith(wanted):
                    yield row, value

    def _cells(self, content: bytes) -> Iterator[tuple[bytes, bytes]]:
        try:
            yield from cells(content, versioned=self._versioned)
        except ValueError as error:
            raise self._damaged(error) from None

    def _blocks_of(self, keys: list[bytes]) -> Iterator[tuple[bytes, IndexEntry]]:
        """The block of each key that can be there, level by level, each index block once."""
        pairs = _under(self._root, keys)
        for _ in range(1, self._trailer.levels):
            grouped: dict[IndexEntry, list[bytes]] = {}
            for key, entry in pairs:
                grouped.setdefault(entry, []).append(key)
            inner = dict(self._index_blocks(list(grouped)))
            pairs = [pair for entry, below in grouped.items() for pair in _under(inner[entry], below)]
        yield from pairs

    def _between(self, prefixes: Sequence[bytes]) -> list[IndexEntry]:
        """The data blocks that can hold keys with one of some prefixes, level by level, each index block once."""
        level = _with_prefixes(self._root, prefixes)
        for _ in range(1, self._trailer.levels):
            below = [entry for _, entries in self._index_blocks(level) for entry in entries]
            if len(below) > _MAX_INDEX_ENTRIES:
                raise self._damaged("its index is larger than is read")
            level = _with_prefixes(self._ascending(below), prefixes)
        return level

    def _index_blocks(self, entries: list[IndexEntry]) -> Iterator[tuple[IndexEntry, list[IndexEntry]]]:
        for entry, content in self._contents(entries, *INNER_INDEX):
            try:
                yield entry, self._ascending(inner_entries(content))
            except ValueError as error:
                raise self._damaged(error) from None

    def _contents(self, entries: Sequence[IndexEntry], *magics: bytes) -> Iterator[tuple[IndexEntry, bytes]]:
        """The contents of some blocks; neighbours are read together, a few megabytes at a time."""
        for batch in _batches(entries):
            ranges = [(entry.offset, entry.size) for entry in batch]
            if any(not HEADER_BYTES <= size <= MAX_BLOCK_BYTES for _, size in ranges):
                raise self._damaged("its index names a block that cannot be")
            for entry, block in zip(batch, self._source.read(ranges), strict=True):
                try:
                    if header_of(block).stored + HEADER_BYTES > entry.size:
                        raise ValueError("a block is larger than the index says")
                    yield entry, content_of(block, self._trailer.codec, *(magics or (DATA,)))
                except ValueError as error:
                    raise self._damaged(error) from None

    def _ascending(self, entries: list[IndexEntry]) -> list[IndexEntry]:
        if any(before.row > after.row for before, after in pairwise(entries)):
            raise self._damaged("its index is out of order")
        return entries

    def _damaged(self, why: object) -> FormatError:
        return FormatError(f"the HFile {self._source.name} cannot be read: {why}")


def _under(entries: list[IndexEntry], keys: list[bytes]) -> list[tuple[bytes, IndexEntry]]:
    """The entry of each key below which it stands, if it is there at all."""
    rows = [entry.row for entry in entries]
    places = ((key, bisect_right(rows, key) - 1) for key in keys)
    return [(key, entries[place]) for key, place in places if place >= 0]


def _with_prefixes(entries: list[IndexEntry], prefixes: Sequence[bytes]) -> list[IndexEntry]:
    """The entries below which keys with one of some prefixes can stand, in order."""
    rows = [entry.row for entry in entries]
    found: dict[int, None] = {}
    for prefix in sorted(prefixes):
        first = max(0, bisect_right(rows, prefix) - 1)
        last = first
        while last < len(rows) and (last == first or rows[last].startswith(prefix)):
            found[last] = None
            last += 1
    return [entries[at] for at in sorted(found)]


def _batches(entries: Sequence[IndexEntry]) -> Iterator[list[IndexEntry]]:
    batch: list[IndexEntry] = []
    size = 0
    for entry in entries:
        if batch and size + entry.size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield batch
