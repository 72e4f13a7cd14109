"""The SELECT inside a statement of another kind that runs it at once and reads all of its rows."""

from __future__ import annotations

import re
from collections.abc import Callable

from pruner_duckdb.statement import NotSelect, Select

_KIND = re.compile(
    r"\s*(?:(?P<explain>explain\b(?:\s+analyze\b)?(?:\s*\([^)]*\))?)"
    r"|(?P<create>create\s+(?:or\s+replace\s+)?(?:temp(?:orary)?\s+)?table\b)"
    r"|(?P<insert>insert\s+(?:or\s+\w+\s+)?into\b)"
    r"|(?P<copy>copy\s*\())",
    re.IGNORECASE,
)
_SHORT = re.compile(
    r"\s*(?P<what>describe|desc|summarize|table)\s+(?:table\s+)?"
    r"(?P<name>(?:\"(?:[^\"]|\"\")+\"|\w+)(?:\.(?:\"(?:[^\"]|\"\")+\"|\w+))*)\s*;?\s*",
    re.IGNORECASE,
)
_SPELLED_OUT = {
    "describe": "DESCRIBE ",
    "desc": "DESCRIBE ",
    "summarize": "SUMMARIZE ",
    "table": "",
    "from": "",
}
_START = re.compile(r"\b(?:with|select|from|values)\b|\(", re.IGNORECASE)
_ATTEMPTS = 8


def spelled_out(text: str) -> str:
    """Write out the SELECT that `DESCRIBE t`, `SUMMARIZE t` and `TABLE t` stand for; other text stays."""
    short = _SHORT.fullmatch(text)
    if short is None:
        return text
    return f"{_SPELLED_OUT[short.group('what').lower()]}SELECT * FROM {short.group('name')}"


def embedded_select(text: str, parse: Callable[[str], Select]) -> tuple[str, Select, str] | None:
    """Find the SELECT of EXPLAIN, CREATE TABLE AS, INSERT … SELECT and COPY (SELECT …) TO.

    Args:
        text: one statement.
        parse: takes a SELECT apart or raises `NotSelect`.

    Returns:
        What stands before it, the SELECT, and what stands after; None where there is none.
    """
    kind = _KIND.match(text)
    if kind is None:
        return None
    if kind.group("copy"):
        return _in_parentheses(text, kind.end(), parse)
    for number, start in enumerate(_START.finditer(text, kind.end())):
        if number == _ATTEMPTS:
            break
        try:
            return text[: start.start()], parse(text[start.start() :]), ""
        except NotSelect:
            continue
    return None


def _in_parentheses(text: str, start: int, parse: Callable[[str], Select]) -> tuple[str, Select, str] | None:
    """The SELECT up to the first closing parenthesis at which it is a whole one."""
    closing = [found.start() for found in re.finditer(r"\)", text[start:])]
    for offset in closing[:64]:
        stop = start + offset
        try:
            return text[:start], parse(text[start:stop]), text[stop:]
        except NotSelect:
            continue
    return None
