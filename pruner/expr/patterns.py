"""LIKE patterns: the text that every match starts with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pattern:
    """A LIKE pattern taken apart: `prefix` up to the first wildcard, `rest` from there on ("" without
    wildcards).
    """

    prefix: str
    rest: str

    @property
    def is_text(self) -> bool:
        """No wildcard: LIKE means equality."""
        return self.rest == ""

    @property
    def is_whole(self) -> bool:
        """Nothing but `%` behind the prefix: whatever starts with it matches."""
        return self.rest != "" and self.rest.strip("%") == ""


def literal_pattern(text: str) -> tuple[str, str | None]:
    """Return the pattern that means this text, and its escape if it needs one."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped, None if escaped == text else "\\"


def split_pattern(pattern: str, escape: str | None) -> Pattern | None:
    """Take a LIKE pattern apart; None where engines differ about it or refuse it.

    That is when the escape is no single character or a wildcard itself, ends the pattern, or stands before a
    character that needs no escape. Such an escape behind the first wildcard refuses the whole pattern, too.
    """
    if escape is not None and (len(escape) != 1 or escape in "%_"):
        return None
    prefix: list[str] = []
    found: Pattern | None = None
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == escape:
            position += 1
            if position == len(pattern) or pattern[position] not in ("%", "_", escape):
                return None
            character = pattern[position]
        elif character in "%_" and found is None:
            found = Pattern("".join(prefix), pattern[position:])
        if found is None:
            prefix.append(character)
        position += 1
    return found or Pattern("".join(prefix), "")
