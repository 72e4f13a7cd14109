"""Numbers in sentences."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """A number of things: 1 slice, 2,000 slices."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def are(count: int) -> str:
    """The verb behind `counted`: 1 slice is, 2 slices are."""
    return "is" if count == 1 else "are"


def third(count: int) -> str:
    """The ending of a verb behind `counted`: 1 slice stays, 2 slices stay."""
    return "s" if count == 1 else ""


def not_indexed(count: int, reason: str) -> str:
    """How many slices an index refused, and why."""
    return f"{counted(count, 'slice')} {are(count)} not indexed: {reason}"
