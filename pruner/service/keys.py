"""Which file an ordinal of a snapshot stands for, in a form that a client can compare without knowing our paths.

A key is the first 16 bytes of SHA-256 over the base file's normal path, a zero byte and its size in decimal digits.
Two files with one key are as good as impossible (2^-88 at a million files). A file that was written anew under its old
name has another size, or belongs to another snapshot. So a drop never reaches a file that was not planned for.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pruner.tables.snapshot import Snapshot

KEY_BYTES = 16

NO_KEY = bytes(KEY_BYTES)
"""Stands for a slice without a base file: no file has it."""

_LOCAL = re.compile(r"(?:(?:local|file):)?/+")
_S3 = re.compile(r"s3[an]://")


def normal_path(path: str) -> str:
    """Return one form for the ways in which engines write the place of a file; nothing is decoded.

    Local paths are absolute without a scheme (`file:/x`, `file:///x` and Trino's `local:///x` are `/x`) and doubled
    slashes in them count once; Hadoop's schemes for S3 are `s3://`. In object stores `a//b` is another key than `a/b`.
    """
    local = _LOCAL.match(path)
    if local:
        return "/" + re.sub("/{2,}", "/", path[local.end() :])
    return _S3.sub("s3://", path, count=1)


def slice_keys(snapshot: Snapshot) -> bytes:
    """Return the keys of all slices in the order of their ordinals, 16 bytes each."""
    files = snapshot.columns.column("base_file").to_pylist()
    sizes = snapshot.columns.column("base_size").to_pylist()
    return b"".join(
        NO_KEY if file is None or size is None else file_key(file, size)
        for file, size in zip(files, sizes, strict=True)
    )


def file_key(path: str, size: int) -> bytes:
    """Return the key of one base file; `size` in bytes."""
    text = f"{normal_path(path)}\0{size}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()[:KEY_BYTES]
