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


def _hashed(text: str) -> bytes:
    return base64.b64encode(xxhash.xxh64_digest(text.encode(), seed=_SEED))
