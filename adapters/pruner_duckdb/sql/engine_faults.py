"""Faults of DuckDB that reading fewer files would bring to light, and the statements that are left alone for them."""

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
"""Whether `sql` runs a query with parameters at once, as DuckDB 1.5 does. It keeps all rows in memory, and methods of
the relation read them from a VALUES list: `limit(3)` over 5,000,000 rows took 10 s in place of 2 ms. And it waits
for its threads while it holds Python's lock, for ever where one of them is to close a file of a file system that is
written in Python (measured, 1.5.5; 2.0 does neither).
"""

NULL_IS_NO_TEXT: Final = _IS_1
"""Whether a folder `key=null` has NULL for a key of text, too."""

SHOWS_WHAT_WAS_DONE: Final = not _IS_1
"""Whether `sql` returns a relation of a CREATE VIEW or PREPARE; DuckDB 1.5 returns None."""

EXPRESSIONS_ARE_TEXT: Final = not _IS_1
"""Whether an expression object is the SQL text that it shows, as in 2.0. What one of 1.5 shows lacks quotes."""

HAS_INSTANTS_OF_NANOSECONDS: Final = not _IS_1
"""Whether nanoseconds in UTC are of a type of their own, TIMESTAMPTZ_NS."""

HANDS_ARROW_ANY_FILTER: Final = _IS_1
"""Whether a join gives a scan of Arrow's a filter that it cannot take: "Pushdown Filter Type BLOOM_FILTER is not
currently supported in PyArrow Scans" (1.5.6).
"""

NUMBERS_ROWS_BY_NAME: Final = not _IS_1
"""Whether `file_row_number` is known to be right under `union_by_name` (measured, 2.0)."""

READS_ROWS_LATE_OF_ONE_SCAN: Final = _IS_1
"""Whether whole rows, the first ones in some order, take longer under UNION ALL than by `union_by_name`. Of one scan
DuckDB finds them by the columns of the order and reads the rest afterwards. Several under UNION ALL took 1.6 times as
long in 1.5 (171 ms in place of 110 for ten rows of a million in 200 files of three schemas), and as long in 2.0, where
the rows found so far leave out parts of each scan.
"""

BUILDS_JOINS_SOUNDLY: Final = not _IS_1
"""Whether a join may be built on another side than before. DuckDB 1.5 gives the other side a filter of its keys, by
which it skips row groups with NaN (120 rows became none, 1.5.6), or which a scan does not take.
"""

MISREADS_BEHIND_NULLS_FIRST: Final = duckdb.__version__ == "2.0.0"
"""Whether `ORDER BY x DESC NULLS FIRST LIMIT 5` can have NULLs in the place of values. DuckDB reads only what is NULL
or comes before the rows found so far; where no value of a row group does and its pages are plainly encoded, the values
come as NULL (measured, 2.0.0; 1.5.5 and 2.0.1 read rightly). Whether that happens depends on the files that are read.
"""

_QUERY_WORDS: Final = frozenset(["select", "from", "with", "values", "("])
_MODIFIERS: Final = frozenset(["order", "limit", "offset", "fetch"])


def with_readable_brackets(definition: str) -> str:
    """Return a CREATE VIEW or CREATE MACRO whose text DuckDB can read back from its catalog.

    DuckDB writes the query `(SELECT … LIMIT 5) ORDER BY x LIMIT 3` without its brackets, which is no query any more
    (measured, 1.5.6 and 2.0). `SELECT * FROM (SELECT … LIMIT 5) ORDER BY x LIMIT 3` says the same and is written whole.
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
    """Tell whether a whole query in brackets begins at a token, with an order or limit behind the brackets."""
    if words[number] != "(" or not _QUERY_WORDS.intersection(words[number + 1 : number + 2]):
        return False
    before = number
    while before and words[before - 1] == "(":
        before -= 1
    head = words[before - 1] if before else ""
    # Behind FROM the innermost bracket is a subquery, and what follows it belongs to the query around it.
    if not (head in ("as", "table") or (head in ("from", "join") and before < number)):
        return False
    depth = 0
    for after in range(number, len(all_tokens)):
        depth += depth_change(all_tokens[after])
        if depth == 0:
            return not _MODIFIERS.isdisjoint(words[after + 1 : after + 2])
    return False


def nan_option(columns: Iterable[tuple[str, str, object]]) -> str:
    """Return the option of a scan by which DuckDB reckons with NaN, if one of its columns may hold any.

    Most writers leave NaN out of the statistics of a file. Of several files DuckDB asks them for row groups alone; of
    one file, and of all by `union_by_name`, for whole conditions: `x < 10` is true of every row of a file that has
    [1, NaN] (measured, 1.5.6 and 2.0). So a list that was cut down to one file would answer with rows that plain
    DuckDB does not find.

    Args:
        columns: of the scan, each with its name and DuckDB's type.
    """
    may = any("DOUBLE" in data_type or "FLOAT" in data_type for _, data_type, _ in columns)
    return ", can_have_nan = true" if may else ""


def fault(plans: Sequence[Node], zone: str) -> str | None:
    """Return why a statement must read all files, as DuckDB alone does; None where nothing is known against it.

    DuckDB 1.5 takes the statistics of a DATE that becomes a TIMESTAMPTZ by UTC, whatever the session's zone. Where all
    rows that it reads have the same day, `day = TIMESTAMPTZ '2024-01-03'` is false of them before any row is read
    (measured, 1.5.6; 2.0 compares rightly). Files that are left out make such statistics likely.

    DuckDB 2.0.0 shows NULLs that are none among the first rows where NULLs come first: see
    `MISREADS_BEHIND_NULLS_FIRST`.

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
    operators = [plan]  # alone, since the types and values below them are many
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
