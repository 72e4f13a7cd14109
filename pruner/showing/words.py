"""Numbers in sentences, and user-facing names for the parts of a table."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FILE, FILE_GROUP = "file", "file group"
_UNITS = ("kB", "MB", "GB", "TB", "PB")


def counted(count: int, noun: str) -> str:
    """A number of things: 1 file, 2,000 files."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def data_size(size: float) -> str:
    """A number of bytes with three digits: 612 B, 41.2 kB, 5.10 MB."""
    if round(size) < 1000:
        return f"{round(size)} B"
    unit = 0
    while size >= 999.5 and unit < len(_UNITS):
        size /= 1000
        unit += 1
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{size:,.{digits}f} {_UNITS[unit - 1]}"


def are(count: int) -> str:
    """The verb after `counted`: 1 file is, 2 files are."""
    return "is" if count == 1 else "are"


def third(count: int) -> str:
    """The ending of a verb after `counted`: 1 file stays, 2 files stay."""
    return "s" if count == 1 else ""


def not_indexed(count: int, reason: str) -> str:
    """How many files or file groups an index refused, and why."""
    return f"{count:,} {are(count)} not indexed: {reason}"


def no_more(columns: Sequence[str]) -> str:
    """The note that a table lacks columns that an index is on."""
    return f"the table no longer has {', '.join(columns)}"


def drop_command(index: str, uri: str) -> str:
    """The command that drops an index, to be pasted into a shell."""
    table = uri.replace("'", "''")
    name = index if index.isidentifier() and index.isascii() else '"' + index.replace('"', '""') + '"'
    statement = f"DROP INDEX {name} ON '{table}'"
    # The most readable quotes, if nothing inside them is special to a shell.
    return (
        f'pruner sql "{statement}"'
        if not set(statement) & set('"$`\\!')
        else f"pruner sql {shlex.quote(statement)}"
    )
