"""Faults of DuckDB that reading fewer files would expose, and the statements that are left unpruned because of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import duckdb

from pruner_duckdb.sql.queries import Node, is_node, nodes_below
from pruner_duckdb.sql.tokens import Token, depth_change, tokens

_IS_1: Final = duckdb.__version__.startswith(("0.", "1."))
_CASTS_BY_UTC: Final = _IS_1
_ZONED: Final = "TIMESTAMP WITH TIME ZONE"

RUNS_RELATIONS_WITH_PARAMETERS: Final = _IS_1
"""Whether `sql` runs a query with parameters immediately, as DuckDB 1.5 does. It keeps all rows in memory, and methods
of the relation read them from a VALUES list: `limit(3)` over 5,000,000 rows took 10 s instead of 2 ms. And it waits for
its threads while it holds the GIL, forever if one of them must close a file of a file system written in Python
(measured, 1.5.5; 2.0 does neither).
"""

NULL_IS_NO_TEXT: Final = _IS_1
"""Whether a folder `key=null` means NULL for a text key, too."""

SHOWS_WHAT_WAS_DONE: Final = not _IS_1
"""Whether `sql` returns a relation for a CREATE VIEW or PREPARE; DuckDB 1.5 returns None."""

EXPRESSIONS_ARE_TEXT: Final = not _IS_1
"""Whether the text that an expression object shows is its SQL, as in 2.0. In 1.5 that text lacks quotes."""

HAS_INSTANTS_OF_NANOSECONDS: Final = not _IS_1
"""Whether nanoseconds in UTC have a type of their own, TIMESTAMPTZ_NS."""

HANDS_ARROW_ANY_FILTER: Final = _IS_1
"""Whether a join pushes a filter to an Arrow scan that the scan does not support: "Pushdown Filter Type BLOOM_FILTER is
not currently supported in PyArrow Scans" (1.5.6).
"""

NUMBERS_ROWS_BY_NAME: Final = not _IS_1
"""Whether `file_row_number` is known to be correct with `union_by_name` (measured, 2.0)."""

BUILDS_JOINS_SOUNDLY: Final = not _IS_1
"""Whether the build side of a join may change. DuckDB 1.5 pushes a filter of the join keys to the other side, which
makes it skip row groups with NaN (120 rows became none, 1.5.6), or which a scan does not support.
"""

MISREADS_BEHIND_NULLS_FIRST: Final = duckdb.__version__ == "2.0.0"
"""Whether `ORDER BY x DESC NULLS FIRST LIMIT 5` can return NULLs instead of values. DuckDB reads only what is NULL or
sorts before the rows found so far; if no value of a row group does and its pages are plainly encoded, the values are
read as NULL (measured, 2.0.0; 1.5.5 and 2.0.1 read correctly). Whether that happens depends on the files that are read.
"""

WITH_ROW_NUMBERS: Final = ", file_row_number = true" if duckdb.__version__ == "2.0.0" else ""
"""The option of a scan with a condition on `file_row_number`. DuckDB finds first rows, and those of SAMPLE and QUALIFY,
by few columns, and then the rest of them by `file_row_number`; in 2.0.0 both are taken for one column without the
option, which ends in an INTERNAL error (measured; 1.5.6 and 2.0.1 return the rows). DuckDB 1.5 refuses the option for
files that have a column of this name.
"""

_QUERY_WORDS: Final = frozenset(["select", "from", "with", "values", "("])
_MODIFIERS: Final = frozenset(["order", "limit", "offset", "fetch"])


def with_readable_brackets(definition: str) -> str:
    """Return a CREATE VIEW or CREATE MACRO whose text DuckDB can read back from its catalog.

    DuckDB writes the query `(SELECT … LIMIT 5) ORDER BY x LIMIT 3` without its parentheses, which is no valid query
    (measured, 1.5.6 and 2.0). `SELECT * FROM (SELECT … LIMIT 5) ORDER BY x LIMIT 3` is equivalent and written in full.
    """
    text = definition.encode()
    all_tokens = list(tokens(text))
    words = [token.text.lower() for token in all_tokens]
    places = [
        token.start
        for number, token in enumerate(all_tokens)
        if _is_bracketed_with_modifiers(all_tokens, words, number)
    ]
    for place in reversed(places):
        text = text[:place] + b"SELECT * FROM " + text[place:]
    return text.decode()


def _is_bracketed_with_modifiers(all_tokens: Sequence[Token], words: Sequence[str], number: int) -> bool:
    """Tell whether a whole query in parentheses begins at a token, with an order or limit after the parentheses."""
    if words[number] != "(" or not _QUERY_WORDS.intersection(words[number + 1 : number + 2]):
        return False
    before = number
    while before and words[before - 1] == "(":
        before -= 1
    head = words[before - 1] if before else ""
    # After FROM the innermost parentheses enclose a subquery, and what follows belongs to the query around it.
    if not (head in ("as", "table") or (head in ("from", "join") and before < number)):
        return False
    depth = 0
    for after in range(number, len(all_tokens)):
        depth += depth_change(all_tokens[after])
        if depth == 0:
            return not _MODIFIERS.isdisjoint(words[after + 1 : after + 2])
    return False


def nan_option(columns: Iterable[tuple[str, str, object]]) -> str:
    """Return the scan option that makes DuckDB account for NaN, if one of the columns may hold any.

    Most writers leave NaN out of the statistics of a file. With several files DuckDB uses the statistics only for row
    groups; with one file, and with all files under `union_by_name`, for whole conditions: `x < 10` is true for every
    row of a file that has [1, NaN] (measured, 1.5.6 and 2.0). So a list pruned to one file would return rows that plain
    DuckDB does not.

    Args:
        columns: of the scan, each with its name and DuckDB's type.
    """
    may = any("DOUBLE" in data_type or "FLOAT" in data_type for _, data_type, _ in columns)
    return ", can_have_nan = true" if may else ""


def fault(plans: Sequence[Node], zone: str) -> str | None:
    """Return why a statement must read all files, as DuckDB alone does; None if no reason is known.

    DuckDB 1.5 converts the statistics of a DATE that becomes a TIMESTAMPTZ in UTC, whatever the session's time zone. If
    all rows that it reads have the same day, `day = TIMESTAMPTZ '2024-01-03'` is false for them before any row is read
    (measured, 1.5.6; 2.0 compares correctly). Skipping files makes such statistics likely.

    DuckDB 2.0.0 returns wrong NULLs among the first rows where NULLs come first: see `MISREADS_BEHIND_NULLS_FIRST`.

    Args:
        plans: DuckDB's optimized plan of the statement.
        zone: the session's time zone.
    """
    if MISREADS_BEHIND_NULLS_FIRST and any(map(_has_nulls_first, plans)):
        return (
            "this version of DuckDB may take values for NULLs where it reads the first rows with NULLs first"
        )
    if _CASTS_BY_UTC and zone != "UTC" and any(map(_casts_date, plans)):
        return "this version of DuckDB compares dates with instants by UTC where it reads few days"
    return None


def _has_nulls_first(plan: Node) -> bool:
    """Tell whether a plan limits rows, and orders some with NULLs first."""
    operators = [plan]  # operators only, since there are many types and values below them
    for operator in operators:
        operators += operator.get("children", [])
    return any(is_node(operator, "LOGICAL_LIMIT") for operator in operators) and any(
        is_node(operator, "LOGICAL_ORDER_BY") and operator["orders"][0]["null_order"] == "NULLS FIRST"
        for operator in operators
    )


def _casts_date(plan: Node) -> bool:
    return any(
        node.get("expression_class") == "BOUND_CAST"
        and node["return_type"]["id"] == _ZONED
        and node["child"].get("return_type", {}).get("id") == "DATE"
        for node in nodes_below(plan)
    )
