"""Numbers in sentences."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """A number of things: 1 slice, 2,000 slices."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
