r"""Keys of records as people know them from Hudi. Nothing is stored under them: `pruner inspect` shows them.

Bitmaps have `column$value$partition$file_group` (RFC-92, Bitmap Metadata Structure).

`$` and `\` within a part are written `\$` and `\\`, so that a key always comes apart as it was put together (trap N5).
NULL is written `\N`, which no value is; the partition of a table without any is `.`, and one that is really named so
is `\.`.

Bloom filters have the Base64 of a hash of the partition and, behind it, that of a hash of the file's name (RFC-37).
Hudi's `HashID` says which: XXH64 with the seed below, highest byte first, and MD5.
"""

from __future__ import annotations

import base64
import hashlib

import xxhash

SEPARATOR = "$"
_NULL = "\\N"
_UNPARTITIONED = "."
_SEED = 0xFFFFFFFFDABADABA
"""Java's int 0xdabadaba as 64 bits."""


def stem(column: str, value: str | None) -> str:
    """The part of a key that column and value make, with the separator behind it; None is NULL."""
    shown = _NULL if value is None else _escaped(value)
    return f"{_escaped(column)}{SEPARATOR}{shown}{SEPARATOR}"


def place(partition: str, file_group: str) -> str:
    """The part of a key behind its stem; "" is the partition of a table without any."""
    if partition == _UNPARTITIONED:
        shown = "\\" + _UNPARTITIONED
    else:
        shown = _escaped(partition) if partition else _UNPARTITIONED
    return f"{shown}{SEPARATOR}{_escaped(file_group)}"


def file_key(partition: str, file_name: str) -> str:
    """The key of a file's bloom filter; "" is the partition of a table without any."""
    of_partition = xxhash.xxh64_digest((partition or _UNPARTITIONED).encode(), _SEED)
    of_file = hashlib.md5(file_name.encode(), usedforsecurity=False).digest()
    return (base64.b64encode(of_partition) + base64.b64encode(of_file)).decode()


def split(key: str) -> tuple[str, str | None, str, str]:
    """Take a key apart: column, value (None for NULL), partition and file group.

    Raises:
        ValueError: it is not made of four parts.
    """
    parts = [""]
    characters = iter(key)
    for character in characters:
        if character == SEPARATOR:
            parts.append("")
        else:
            parts[-1] += character + (next(characters, "") if character == "\\" else "")
    if len(parts) != 4:
        raise ValueError(f"{key!r} is no key of a bitmap: it has {len(parts)} parts and not four")
    column, value, partition, file_group = parts
    return (
        _plain(column),
        None if value == _NULL else _plain(value),
        "" if partition == _UNPARTITIONED else _plain(partition),
        _plain(file_group),
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(SEPARATOR, "\\" + SEPARATOR)


def _plain(text: str) -> str:
    plain = ""
    characters = iter(text)
    for character in characters:
        plain += next(characters, "") if character == "\\" else character
    return plain
