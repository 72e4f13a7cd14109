r"""Keys of bitmaps as people know them: `column$value$partition$file_group` (Hudi's RFC-92, Bitmap Metadata Structure).

`$` and `\` within a part are written `\$` and `\\`, so that a key always comes apart as it was put together (trap N5).
NULL is written `\N`, which no value is; the partition of a table without any is `.`, and one that is really named so
is `\.`. Nothing is stored under these keys: they are how `pruner inspect` shows the index and searches it.
"""

from __future__ import annotations

SEPARATOR = "$"
_NULL = "\\N"
_UNPARTITIONED = "."


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
