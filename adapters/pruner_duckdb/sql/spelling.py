"""The SELECT behind statements that name a table alone."""

from __future__ import annotations

import re

from pruner_duckdb.sql.select import Span, splice
from pruner_duckdb.sql.tokens import tokens

_SHORT = re.compile(
    r"\s*(?P<what>describe|desc|show|summarize|table)\s+(?:table\s+)?"
    r"(?P<name>(?:\"(?:[^\"]|\"\")+\"|\w+)(?:\.(?:\"(?:[^\"]|\"\")+\"|\w+))*)\s*;?\s*",
    re.IGNORECASE,
)
_SPELLED_OUT = {
    "describe": "DESCRIBE ",
    "desc": "DESCRIBE ",
    "show": "DESCRIBE ",
    "summarize": "SUMMARIZE ",
    "table": "",
}
_LISTED = frozenset(["tables", "databases", "schemas", "variables", "all"])
"""What SHOW and DESCRIBE list when they are given one of these words for a name."""
_SHOWN_IN_BRACKETS = re.compile(r"\(\s*(?:describe|desc|show|summarize)\s", re.IGNORECASE)
_CREATED_OF_SHOWN = re.compile(
    r"\s*create\b.*\bas\s+(?=(?:describe|desc|show|summarize)\s)", re.IGNORECASE | re.DOTALL
)
_COPY_TABLE = re.compile(
    r"\s*copy\s+(?P<name>(?:\"(?:[^\"]|\"\")+\"|\w+)(?:\.(?:\"(?:[^\"]|\"\")+\"|\w+))*)\s*"
    r"(?:\((?P<columns>[^()]*)\)\s*)?(?P<to>to\b)",
    re.IGNORECASE,
)
_TABLE = re.compile(r"\btable\b", re.IGNORECASE)
_BEFORE_A_QUERY = frozenset(
    ["", "(", ")", "as", "explain", "analyze", "union", "intersect", "except", "all", "distinct", "name"]
)
"""What `TABLE t` stands behind where it is a query; there is nothing before the first."""
_BEHIND_A_TABLE = frozenset(
    ["", ")", ";", "order", "limit", "offset", "fetch", "union", "intersect", "except"]
)
"""DuckDB refuses what else may stand behind the table of a SELECT, such as WHERE."""


def spelled_out(text: str) -> str:
    """Write out the SELECT that `DESCRIBE t`, `SHOW t`, `SUMMARIZE t`, `TABLE t` and `COPY t TO` stand for, and the
    first three in brackets; other text stays.
    """
    short = _SHORT.fullmatch(text)
    if short is not None and short.group("name").lower() not in _LISTED:
        return f"{_SPELLED_OUT[short.group('what').lower()]}SELECT * FROM {short.group('name')}"
    created = _CREATED_OF_SHOWN.match(text)
    short = None if created is None else _SHORT.fullmatch(text, created.end())
    if short is not None and short["name"].lower() not in _LISTED:
        shown = f"{_SPELLED_OUT[short['what'].lower()]}SELECT * FROM {short['name']}"
        return f"{text[: short.start()]}{shown}"
    copy = _COPY_TABLE.match(text)
    if copy is not None:
        columns = copy.group("columns") or "*"
        return f"COPY (SELECT {columns} FROM {copy.group('name')}) {text[copy.start('to') :]}"
    text = _with_selects(text) if _TABLE.search(text) else text
    return _written_in_brackets(text) if _SHOWN_IN_BRACKETS.search(text) else text


def _with_selects(text: str) -> str:
    """Write out each `TABLE t` that is a query, or a part of one."""
    encoded = text.encode()
    found = list(tokens(encoded))
    words = ["", *(token.text.lower() for token in found), ""]
    inserts = words[1] == "insert"  # its table, or what that is called, stands in front of the query
    edits: list[tuple[Span, str]] = []
    for number, token in enumerate(found):
        if words[number + 1] != "table" or not (inserts or words[number] in _BEFORE_A_QUERY):
            continue
        behind = number + 1
        while behind + 2 < len(found) and found[behind].kind == "name" and found[behind + 1].text == ".":
            behind += 2
        if behind < len(found) and found[behind].kind == "name" and words[behind + 2] in _BEHIND_A_TABLE:
            edits.append((Span(token.start, token.stop), "SELECT * FROM"))
    return splice(encoded, edits) if edits else text


def _written_in_brackets(text: str) -> str:
    """Write out `(DESCRIBE t)` and the like."""
    encoded = text.encode()
    found = list(tokens(encoded))
    edits: list[tuple[Span, str]] = []
    for number, opening in enumerate(found):
        if opening.text != "(":
            continue
        stop = next((n for n in range(number, len(found)) if found[n].text == ")"), number)
        inside = Span(opening.stop, found[stop].start)
        short = _SHORT.fullmatch(encoded[inside.start : inside.stop].decode())
        if short is not None and short["what"].lower() != "table" and short["name"].lower() not in _LISTED:
            edits.append((inside, f"{_SPELLED_OUT[short['what'].lower()]}SELECT * FROM {short['name']}"))
    return splice(encoded, edits) if edits else text
