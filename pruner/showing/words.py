"""Numbers in sentences, and what people call the parts of a table."""

from __future__ import annotations

FILE, FILE_GROUP = "file", "file group"


def counted(count: int, noun: str) -> str:
    """A number of things: 1 file, 2,000 files."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def are(count: int) -> str:
    """The verb behind `counted`: 1 file is, 2 files are."""
    return "is" if count == 1 else "are"


def third(count: int) -> str:
    """The ending of a verb behind `counted`: 1 file stays, 2 files stay."""
    return "s" if count == 1 else ""


def not_indexed(count: int, reason: str) -> str:
    """How many files or file groups an index refused, and why."""
    return f"{count:,} {are(count)} not indexed: {reason}"
