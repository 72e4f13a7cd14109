"""LIKE patterns: the text that every match starts with, and the end of all texts that start with it."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pattern:
    """A split LIKE pattern: `prefix` up to the first wildcard, `rest` from there on ("" without wildcards)."""

    prefix: str
    rest: str

    @property
    def is_text(self) -> bool:
        """Whether LIKE means equality: no wildcard."""
        return self.rest == ""

    @property
    def is_whole(self) -> bool:
        """Whether every text with the prefix matches: only `%` follows."""
        return self.rest != "" and self.rest.strip("%") == ""


def literal_pattern(text: str) -> tuple[str, str | None]:
    """Return the pattern that matches only this text, and its escape if it needs one."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped, None if escaped == text else "\\"


def split_pattern(pattern: str, escape: str | None) -> Pattern | None:
    """Split a LIKE pattern; None where engines differ about it or refuse it.

    That is when the escape is not a single character, is a wildcard itself, ends the pattern, or precedes a character
    that needs no escape. Such an escape after the first wildcard rules out the whole pattern, too.
    """
    if escape is not None and (len(escape) != 1 or escape in "%_"):
        return None
    prefix: list[str] = []
    like_pattern: Pattern | None = None
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == escape:
            position += 1
            if position == len(pattern) or pattern[position] not in ("%", "_", escape):
                return None
            character = pattern[position]
        elif character in "%_" and like_pattern is None:
            like_pattern = Pattern("".join(prefix), pattern[position:])
        if like_pattern is None:
            prefix.append(character)
        position += 1
    return like_pattern or Pattern("".join(prefix), "")


def successor(prefix: bytes) -> bytes | None:
    """Return the least byte string greater than all that start with `prefix`; None when there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


_REGEX_PREFIX = re.compile(r"[A-Za-z0-9 _/:,;=@&'\"<>!#~%-]*", re.ASCII)
_REPEATED = re.compile(r"[*+?{]|\\[QE]|\(\?")
"""What may repeat the letter before it, even across an empty quotation or flags: `ab\\Q\\E*`, `ab(?i)*`."""


def literal_beginning(pattern: str, *, anchored: bool) -> str:
    """The letters with which a text must begin to match a regular expression; empty where there are none.

    Args:
        pattern: in RE2's or Java's syntax, without flags.
        anchored: the whole text must match. Otherwise the pattern must begin with `^`.
    """
    if "|" in pattern or (not anchored and not pattern.startswith("^")):
        return ""
    rest = pattern[1:] if pattern.startswith("^") else pattern
    match = _REGEX_PREFIX.match(rest)
    prefix = match.group() if match else ""
    # A repeated letter may occur zero times.
    return prefix[:-1] if _REPEATED.match(rest, len(prefix)) else prefix
