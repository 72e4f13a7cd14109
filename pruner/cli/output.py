"""What commands print: JSON for programs, columns for people."""

from __future__ import annotations

import sys
from datetime import timedelta
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pruner.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MEASURED_ROWS = 1000
"""Rows whose width decides how wide columns are; later ones may stand out."""


def print_json(value: Any) -> None:
    """Print a JSON value on a line: ISO 8601 times, decimals as strings, base64 bytes, NaN as null."""
    import msgspec

    write_line(msgspec.json.encode(value, enc_hook=str).decode())


def write_line(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(text + "\n")


def write_page(place: str, page: str) -> None:
    """Write a page to a file, or to standard output for `-`; says where it is."""
    if place == "-":
        write_line(page)
        return
    try:
        Path(place).write_text(page, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StorageError(f"cannot write {place!r}: {reason}") from error
    write_line(f"written to {printable(place)}")


def print_columns(header: Sequence[str], rows: Iterable[Sequence[object]]) -> int:
    """Print rows in aligned columns, numbers to the right; returns how many."""
    remaining = iter(rows)
    measured = list(islice(remaining, MEASURED_ROWS))
    widths = [max(len(_shown(row[i])) for row in (header, *measured)) for i in range(len(header))]
    count = -1
    for row in chain([header], measured, remaining):
        write_line("  ".join(map(_cell, row, widths)).rstrip())
        count += 1
    return count


def _cell(value: object, width: int) -> str:
    shown = _shown(value)
    return shown.rjust(width) if isinstance(value, (int, float)) else shown.ljust(width)


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    return printable(value_text(value))


def value_text(value: object) -> str:
    """A value of a row as text: truth values small, bytes hexadecimal, what is nested as JSON."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case list() | tuple() | dict() | timedelta():
            import msgspec

            return msgspec.json.encode(value, enc_hook=str).decode().strip('"')
        case _:
            return str(value)


def printable(text: str) -> str:
    """The text with control characters escaped, so that no data and no file name can steer the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def megabytes(size: int) -> str:
    """A size in bytes as people read it."""
    return f"{size / 1e6:,.2f} MB"
