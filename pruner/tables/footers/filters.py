"""The Bloom filters that writers put into Parquet files (parquet-format, BloomFilter.md and parquet.thrift).

A filter stands behind a short header of Thrift. It has no checksum: what a writer that is believed put there is
believed, as engines do that ask these filters themselves.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pruner.tables.footers.thrift import Struct, ThriftError, read_struct

HEADER_BYTES: Final = 64
"""Bytes in which every header ends: those of known writers have 12 to 16."""

BLOCK_BYTES: Final = 32

LARGEST: Final = 128 * 1024 * 1024
"""Largest filter of a row group, in bytes: as parquet-format has it."""

_ONLY_KIND: Final[Struct] = {1: {}}
"""What the header says of algorithm, hash and compression: split blocks, XXH64, none. There is no other so far."""


class FilterPlace(NamedTuple):
    """Where the blocks of a filter begin in the file, and how many there are."""

    start: int
    blocks: int


def filter_place(offset: int, header: bytes, file_size: int) -> FilterPlace | None:
    """Find the blocks of a filter.

    Args:
        offset: where its header begins.
        header: `HEADER_BYTES` from there, or what the file has of them.
        file_size: in bytes.

    Returns:
        None where it is of another kind, or the header is broken.
    """
    try:
        told, length = read_struct(header)
    except ThriftError:
        return None
    size = told.get(1)
    if not isinstance(size, int) or not 0 < size <= LARGEST or size % BLOCK_BYTES:
        return None
    if any(told.get(number) != _ONLY_KIND for number in (2, 3, 4)):
        return None
    start = offset + length
    return FilterPlace(start, size // BLOCK_BYTES) if offset > 0 and start + size <= file_size else None
