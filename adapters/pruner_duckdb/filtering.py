"""Conditions that are put on a relation later, as part of its statement: then its scans are pruned by them, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pruner_duckdb.sql.select import NotSelect
from pruner_duckdb.sql.tokens import CLOSING, OPENING, tokens
from pruner_duckdb.types import quote

if TYPE_CHECKING:
    from pruner_duckdb.sql.forms import Parse
    from pruner_duckdb.sql.select import Reference

_UNNAMED: Final = "unnamed_relation"


def read_by(condition: str, parse: Parse) -> tuple[Reference, ...] | None:
    """The tables that a condition reads itself; None for what is no expression or has parameters, which would be taken
    for those of the statement.

    Args:
        condition: what `filter` was given.
        parse: takes a SELECT apart.
    """
    if not _is_one_piece(condition, separators=";,"):
        return None
    if any(token.kind == "mark" for token in tokens(condition.encode())):
        return None
    try:
        # A query is an expression in brackets alone, and what may follow an expression is none there.
        parse(f"SELECT {condition}\n")
        return parse(f"SELECT ({condition}\n)").references
    except NotSelect:
        return None


def with_condition(text: str, condition: str, alias: str) -> str | None:
    """Return a SELECT of the rows of another one that meet a condition, which is what DuckDB's `filter` makes.

    Args:
        text: one SELECT.
        condition: one expression.
        alias: by which the condition may call the relation; "" where it has no name.

    Returns:
        None where brackets do not surely hold all of the statement.
    """
    statement = text.strip().rstrip(";")
    if not _is_one_piece(statement, separators=";"):
        return None
    if not alias:
        # The same for the same texts, so that what was planned serves again; nothing in the condition means it.
        alias = _UNNAMED
        while alias in condition.lower():
            alias += "_"
    # A comment may stand at the end of either.
    return f"SELECT * FROM ({statement}\n) AS {quote(alias)} WHERE ({condition}\n)"


def _is_one_piece(text: str, *, separators: str) -> bool:
    """Tell whether brackets around a text hold all of it, and nothing separates parts of it outside of others."""
    depth = 0
    for token in tokens(text.encode()):
        if token.kind == "sign":
            sign = token.text.encode()[0]
            depth += (sign in OPENING) - (sign in CLOSING)
            if depth < 0 or (depth == 0 and token.text in separators):
                return False
    return depth == 0
