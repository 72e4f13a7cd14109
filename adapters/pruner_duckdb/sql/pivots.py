"""Where a statement holds a PIVOT in brackets, or in a WITH, that finds its values itself.

DuckDB makes several statements of such a one, and its parser serializes none of them. A query of the source alone can
stand in the place of the PIVOT: `(PIVOT t ON cat USING sum(x))` becomes `(SELECT * FROM t)`. That tells where tables
stand, and nothing of what the statement wants of them, because the pivoted columns are called by values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from pruner_duckdb.sql.select import Span
from pruner_duckdb.sql.tokens import CLOSING, OPENING, Token

FINDS_VALUES: Final = "a PIVOT in brackets finds its values itself"

PIVOTS: Final = frozenset(["pivot", "pivot_wider"])
_BEHIND_SOURCE: Final = frozenset(["on", "using", "group", "order", "limit"])

Piece: TypeAlias = "tuple[int, int, int]"
"""Where a part of a text starts, where it starts in the text of which it was made, and its length."""


def with_sources(text: bytes, every: Sequence[Token]) -> tuple[bytes, list[Piece]] | None:
    """A statement with a query of the source in the place of each PIVOT in brackets, and the parts that it kept.

    Returns:
        None for a statement without one, and where more than the source of one may read tables.
    """
    kept: list[Span] = []
    position = 0
    for number, stop in _in_brackets(every):
        pivot = every[number]
        if pivot.start < position:
            continue  # inside of another one
        behind = _behind_source(every, number, stop)
        if behind is None or has_query(every, every[behind].start, every[stop].start):
            return None
        kept += [Span(position, pivot.start), Span(pivot.stop, every[behind].start)]
        position = every[stop].start
    if not kept:
        return None
    inner, pieces = b"", list[Piece]()
    for number, span in enumerate([*kept, Span(position, len(text))]):
        inner += b"SELECT * FROM " if number % 2 else b""
        pieces.append((len(inner), span.start, span.stop - span.start))
        inner += text[span.start : span.stop]
    return inner, pieces


def composed(outer: Iterable[Piece], inner: Sequence[Piece]) -> Iterator[Piece]:
    """Parts of a text that was made of a text which was itself made of another one, as parts of the last one."""
    for start, middle, length in outer:
        for inside, origin, size in inner:
            first, last = max(middle, inside), min(middle + length, inside + size)
            if first < last:
                yield start + first - middle, origin + first - inside, last - first


def has_query(every: Sequence[Token], start: int, stop: int) -> bool:
    """Tell whether a part of the statement may hold a query of its own."""
    words = {token.text.lower() for token in every if start <= token.start < stop}
    return not words.isdisjoint(("select", "from", "table", "pivot"))


def _in_brackets(every: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Each PIVOT that begins a query in brackets, perhaps behind a WITH, and the bracket that closes it."""
    for number, token in enumerate(every[:-1]):
        if token.text.lower() not in PIVOTS or token.kind != "name":
            continue
        opening = _around(every, number)
        if opening is None or (number - opening > 1 and every[opening + 1].text.lower() != "with"):
            continue
        if every[number - 1].text not in ("(", ")"):
            continue
        stop = _end(every, number)
        if stop is not None:
            yield number, stop


def _around(every: Sequence[Token], number: int) -> int | None:
    """The bracket in which a token stands."""
    depth = 0
    for at in range(number - 1, -1, -1):
        depth -= _change(every[at])
        if depth < 0:
            return at
    return None


def _end(every: Sequence[Token], number: int) -> int | None:
    """The bracket that closes what a token stands in."""
    depth = 0
    for at in range(number, len(every)):
        depth += _change(every[at])
        if depth < 0:
            return at
    return None


def _behind_source(every: Sequence[Token], number: int, stop: int) -> int | None:
    """The word behind the source of a PIVOT."""
    depth = 0
    for at in range(number + 1, stop):
        depth += _change(every[at])
        if depth == 0 and every[at].text.lower() in _BEHIND_SOURCE:
            return at
    return None


def _change(token: Token) -> int:
    if token.kind != "sign":
        return 0
    sign = token.text.encode()[0]
    return (sign in OPENING) - (sign in CLOSING)
