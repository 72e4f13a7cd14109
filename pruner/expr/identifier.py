"""Column paths as users write them: `city`, `address.zip`, `"a.b".c`, `` `odd name` ``."""

from __future__ import annotations

from functools import lru_cache

from pruner.errors import IndexDefinitionError

_QUOTES = {'"': '"', "`": "`"}


def parse_column_path(text: str) -> tuple[str, ...]:
    """Split a column path at its dots; a part in double quotes or backticks is taken verbatim, doubled quotes once.

    Raises:
        IndexDefinitionError: the text is not a column path but, for example, an expression.
    """
    parts: list[str] = []
    position = 0
    while True:
        part, position = _part(text, position)
        parts.append(part)
        if position == len(text):
            return tuple(parts)
        if text[position] != ".":
            raise IndexDefinitionError(
                f"{text!r} is not a column: quote a name that is not a plain identifier"
            )
        position += 1


def _part(text: str, start: int) -> tuple[str, int]:
    if start < len(text) and text[start] in _QUOTES:
        return _quoted(text, start)
    end = start
    while end < len(text) and (text[end].isalnum() or text[end] in "_$@"):
        end += 1
    if end == start:
        raise IndexDefinitionError(f"{text!r} is not a column: a name is missing at position {start + 1}")
    return text[start:end], end


def _quoted(text: str, start: int) -> tuple[str, int]:
    quote = text[start]
    part = ""
    position = start + 1
    while True:
        end = text.find(quote, position)
        if end < 0:
            raise IndexDefinitionError(
                f"{text!r} is not a column: the quote at position {start + 1} is not closed"
            )
        part += text[position:end]
        position = end + 1
        if not text.startswith(quote, position):
            return part, position
        part += quote
        position += 1


@lru_cache(maxsize=1024)  # every step of every report names a column
def render_column_path(path: tuple[str, ...]) -> str:
    """The inverse of `parse_column_path`: parts that are not plain identifiers are quoted."""
    return ".".join(_rendered(part) for part in path)


def _rendered(part: str) -> str:
    plain = bool(part) and all(character.isalnum() or character in "_$@" for character in part)
    return part if plain else '"' + part.replace('"', '""') + '"'
