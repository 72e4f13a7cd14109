"""Conditions that are put on a relation later, as part of its statement: then its scans are pruned by them, too."""

from __future__ import annotations

from pruner_duckdb.sql.tokens import CLOSING, OPENING, tokens
from pruner_duckdb.types import quote


def with_condition(text: str, condition: str, alias: str) -> str | None:
    """Return a SELECT of the rows of another one that meet a condition.

    Args:
        text: one SELECT.
        condition: what DuckDB's `filter` took.
        alias: by which the condition may call the relation.

    Returns:
        None where the two are not surely one expression and one statement, or where parameters of the condition
        would be taken for the statement's.
    """
    if not _is_one_piece(condition) or any(token.kind == "mark" for token in tokens(condition.encode())):
        return None
    statement = text.strip().rstrip(";")
    if not _is_one_piece(statement):
        return None
    # A comment may stand at the end of either.
    return f"SELECT * FROM ({statement}\n) AS {quote(alias)} WHERE ({condition}\n)"


def _is_one_piece(text: str) -> bool:
    """Tell whether brackets around a text hold all of it."""
    depth = 0
    for token in tokens(text.encode()):
        if token.kind == "sign":
            sign = token.text.encode()[0]
            depth += (sign in OPENING) - (sign in CLOSING)
            if depth < 0 or token.text == ";":
                return False
    return depth == 0
