"""How a statement spells the name of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence

_IDENTIFIER = r'(?:"(?:[^"]|"")*"|[^\s."(),;]+)'
_GAP = r"(?:\s|/\*.*?\*/|--[^\n]*\n)*"
_ALIAS_IN_FRONT = rf'(?:"(?:[^"]|"")*"|[^\s."(),;:]+){_GAP}:{_GAP}'


def where_spelled(text: str, path: Sequence[str]) -> tuple[int, int] | None:
    """Where the name of a table stands in a reference to it, perhaps behind an alias, in bytes.

    Args:
        text: the reference, from its beginning on.
        path: the parts of the name.

    Returns:
        None unless the text spells exactly this name.
    """
    further = rf"{_GAP}\.{_GAP}{_IDENTIFIER}" * (len(path) - 1)
    pattern = rf"({_ALIAS_IN_FRONT})?({_IDENTIFIER}{further})"
    found = re.match(pattern, text, re.DOTALL)
    if found is None or _unquoted(found.group(2)) != [part.lower() for part in path]:
        return None
    start = len(text[: found.start(2)].encode())
    return start, start + len(found.group(2).encode())


def _unquoted(name: str) -> list[str]:
    bare = re.sub(_GAP, "", name, flags=re.DOTALL) if '"' not in name else name
    parts = re.findall(_IDENTIFIER, bare)
    return [part[1:-1].replace('""', '"').lower() if part.startswith('"') else part.lower() for part in parts]
