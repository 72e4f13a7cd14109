"""Bloom filters as Hudi stores them: Hadoop's layout, plain (`SIMPLE`) and in rows (`DYNAMIC_V0`).

A filter is a header, and bits in the order of Hadoop's `BitSet`; one in rows has its own header, followed by plain
filters. Positions are chained hashes, each seeded by the one before it.

Hudi's Bloom filters over record keys tell which base files cannot hold a row with a key.
"""

from __future__ import annotations

import base64
import binascii
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from pruner.errors import FormatError
from pruner.tables.hudi.metadata.listing import file_id, hashed_group, partition_id
from pruner.tables.hudi.metadata.payloads import BLOOM, body

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pruner.tables.hudi.metadata.partition import FileGroup
    from pruner.tables.hudi.metadata.payloads import Record

SIMPLE, DYNAMIC = "SIMPLE", "DYNAMIC_V0"
"""Hudi's names of the two layouts (`BloomFilterTypeCode`)."""

_HEADER = struct.Struct(">iibi")
_ROWS = struct.Struct(">iii")
_VERSION = -1
_MURMUR = 1
_MASK = 0xFFFFFFFF
_MURMUR_FACTOR = 0x5BD1E995
_MOST_HASHES = 256


class _Plain(NamedTuple):
    size: int
    hashes: int
    bits: bytes

    def may_hold(self, key: bytes) -> bool:
        return all(self.bits[place >> 3] >> (place & 7) & 1 for place in _places(key, self.hashes, self.size))


class HudiBloomFilter:
    """A filter; a key that it does not hold was never added."""

    def __init__(self, rows: Iterable[_Plain]) -> None:
        self._rows = tuple(rows)

    def may_hold(self, key: str) -> bool:
        """Tell whether a key may have been added."""
        data = key.encode()
        # Hadoop refuses an empty key; Hudi writes none.
        return not data or any(row.may_hold(data) for row in self._rows)


def bloom_filter(kind: str, stored: bytes) -> HudiBloomFilter:
    """Read a filter from the content of a record: Base64 of Hadoop's layout.

    Args:
        kind: `SIMPLE` or `DYNAMIC_V0`.
        stored: the content of the record.

    Raises:
        FormatError: it is of another kind, or damaged.
    """
    try:
        data = base64.b64decode(stored, validate=True)
        if kind == SIMPLE:
            row, end = _plain(data, 0)
            rows = [row]
        elif kind == DYNAMIC:
            rows, end = _dynamic(data)
        else:
            raise ValueError(f"it is of the unknown kind {kind}")
        if end != len(data):
            raise ValueError("there are bytes behind it")
    except (ValueError, binascii.Error, struct.error) as error:
        raise FormatError(f"a bloom filter of the metadata table cannot be read: {error}") from None
    return HudiBloomFilter(rows)


def _header(data: bytes, position: int) -> tuple[int, int, int]:
    """The number of hashes and bits, and the position after them."""
    version, hashes, function, size = _HEADER.unpack_from(data, position)
    if version != _VERSION or function != _MURMUR:
        raise ValueError(f"it has version {version} and hash function {function}, which are not read")
    if not (0 < hashes <= _MOST_HASHES and size > 0):
        raise ValueError("it names a size that cannot be")
    return hashes, size, position + _HEADER.size


def _plain(data: bytes, position: int) -> tuple[_Plain, int]:
    hashes, size, start = _header(data, position)
    end = start + (size + 7) // 8
    if end > len(data):
        raise ValueError("it is cut short")
    return _Plain(size, hashes, data[start:end]), end


def _dynamic(data: bytes) -> tuple[list[_Plain], int]:
    hashes, size, position = _header(data, 0)
    _, _, count = _ROWS.unpack_from(data, position)
    position += _ROWS.size
    rows: list[_Plain] = []
    while len(rows) < count:
        row, position = _plain(data, position)
        if (row.hashes, row.size) != (hashes, size):
            raise ValueError("its rows are of different sizes")
        rows.append(row)
    if not rows:
        raise ValueError("it has no rows")
    return rows, position


@lru_cache(maxsize=4096)
def _places(key: bytes, hashes: int, size: int) -> tuple[int, ...]:
    """The bits of a key; most filters of one table have the same size."""
    places: list[int] = []
    seed = 0
    for _ in range(hashes):
        seed = murmur(key, seed)
        places.append(abs(_remainder(seed, size)))
    return tuple(places)


def _remainder(value: int, size: int) -> int:
    """The remainder as Java computes it: with the sign of the value."""
    return value % size if value >= 0 else -(-value % size)


def murmur(data: bytes, seed: int) -> int:
    """Hadoop's MurmurHash (32 bits, signed).

    Unlike the words, the bytes after the last whole word are taken in big-endian order, and are signed.
    """
    value = (seed ^ len(data)) & _MASK
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = _scrambled(int.from_bytes(data[at : at + 4], "little"))
        value = (value * _MURMUR_FACTOR & _MASK) ^ word
    rest = data[whole:]
    if rest:
        for place, byte in enumerate(reversed(rest)):
            value ^= ((byte - 256 if byte > 127 else byte) << 8 * place) & _MASK
        value = value * _MURMUR_FACTOR & _MASK
    value ^= value >> 13
    value = value * _MURMUR_FACTOR & _MASK
    value ^= value >> 15
    return value - (1 << 32) if value >> 31 else value


def _scrambled(word: int) -> int:
    word = word * _MURMUR_FACTOR & _MASK
    return (word ^ word >> 24) * _MURMUR_FACTOR & _MASK


_AT_ONCE = 64
"""Filters that are held at once: by default one has 0.4 MB."""


class KeyFilters:
    """The filters of a table, by file group. Threads may share it."""

    def __init__(self, groups: Sequence[FileGroup]) -> None:
        self._groups = groups

    def bytes_of(self, filters: int) -> int:
        """About how many bytes are read for a number of filters."""
        hfiles = [hfile for group in self._groups for hfile, _ in group.layers() if hfile is not None]
        entries = sum(hfile.entries for hfile in hfiles)
        return sum(hfile.size for hfile in hfiles) * filters // max(entries, 1)

    def holding(
        self, files: Mapping[int, tuple[str, str]], keys: Sequence[str]
    ) -> Iterator[tuple[int, bool]]:
        """Tell for each file that has a filter whether it may hold one of some keys.

        Args:
            files: partition and name of each, by an arbitrary number.
            keys: the record keys.

        Raises:
            FormatError: a filter is damaged.
            StorageError: one cannot be read.
        """
        numbers = {
            partition_id(partition) + file_id(name): number for number, (partition, name) in files.items()
        }
        wanted = list(numbers)
        for start in range(0, len(wanted), _AT_ONCE):
            for key, record in self._records(wanted[start : start + _AT_ONCE]):
                bloom = _filter(record)
                yield numbers[key], any(map(bloom.may_hold, keys))

    def _records(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, Record]]:
        of_group: dict[int, list[bytes]] = {}
        for key in keys:
            of_group.setdefault(hashed_group(key.decode(), len(self._groups)), []).append(key)
        for number, asked in of_group.items():
            yield from self._groups[number].look_up(asked)


def _filter(record: Record) -> HudiBloomFilter:
    payload = body(record, BLOOM)
    kind, stored = (None, None) if payload is None else (payload.get("type"), payload.get("bloomFilter"))
    if not isinstance(kind, str) or not isinstance(stored, bytes):
        raise FormatError("a bloom filter of the metadata table is not understood")
    return bloom_filter(kind, stored)
