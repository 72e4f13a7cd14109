"""The keys of the metadata table's records (Hudi's `HoodieTableMetadataUtil` and `HoodieIndexID`)."""

from __future__ import annotations

import base64
import hashlib

import xxhash

_SEED = 0xFFFFFFFFDABADABA
_ROOT = "."
"""What stands for the partition of a table without partitions."""


def column_id(column: str) -> bytes:
    """The part of a key that stands for a column, by its path with dots."""
    return _hashed(column)


def partition_id(path: str) -> bytes:
    """The part of a key that stands for a partition."""
    return _hashed(path or _ROOT)


def file_id(name: str) -> bytes:
    """The part of a key that stands for a file, by its name without folders."""
    return base64.b64encode(hashlib.md5(name.encode(), usedforsecurity=False).digest())


def hashed_group(key: str, groups: int) -> int:
    """The number of the file group of some into which Hudi puts a key (`mapRecordKeyToFileGroupIndex`)."""
    units = key.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    return abs(signed) % groups if signed != -(1 << 31) else (1 << 31) % groups


def _hashed(text: str) -> bytes:
    return base64.b64encode(xxhash.xxh64_digest(text.encode(), seed=_SEED))
