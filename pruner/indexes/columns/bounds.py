"""Bounds of byte strings: shortened, and as upper bounds raised so that nothing lies above them.

All text is compared as UTF-8 bytes, unsigned, which is the order of its code points. A bound is no text itself and need
not be valid UTF-8, so raising its last byte is enough; surrogates and U+10FFFF need no rule of their own (trap S7).
"""

from __future__ import annotations

from pruner.expr.exact.patterns import successor


def shortened_low(value: bytes, limit: int) -> bytes:
    """Return a lower bound of `value` of at most `limit` bytes: its prefix is never greater."""
    return value[:limit]


def shortened_high(value: bytes, limit: int) -> bytes | None:
    """Return an upper bound of `value` of at most `limit` bytes, None when there is none (only 0xFF in front)."""
    return value if len(value) <= limit else successor(value[:limit])
