"""Patterns of dates and times, as each dialect writes them, in the form of DuckDB's `strftime`.

The lists are closed: week years, names and fractions differ between engines, or between their versions.
"""

from __future__ import annotations

import re
from typing import Final

_PERCENT: Final = {
    "duckdb": {"Y": "%Y", "m": "%m", "d": "%d", "H": "%H", "M": "%M", "S": "%S", "j": "%j"},
    "trino": {"Y": "%Y", "m": "%m", "d": "%d", "H": "%H", "i": "%M", "s": "%S", "S": "%S", "j": "%j"},
}
"""Letters behind a percent sign: DuckDB's `strftime`, and Trino's `date_format`, where `%M` is a month's name."""

_LETTERS: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "DDD": "%j"}
"""Runs of letters in Spark's `date_format`. `YYYY` is the year of the week there, and is not among them."""

_PLAIN: Final = frozenset(" -/:._,")
"""Signs that stand for themselves in every engine's patterns."""

_RUN: Final = re.compile(r"([A-Za-z])\1*|[^A-Za-z]")


def with_percents(pattern: str, dialect: str) -> str | None:
    """A pattern of DuckDB's `strftime` or of Trino's `date_format`; None where it is not known to mean the same."""
    known = _PERCENT[dialect]
    found = ""
    signs = iter(pattern)
    for sign in signs:
        if sign == "%":
            letter = known.get(next(signs, ""))
            if letter is None:
                return None
            found += letter
        elif sign in _PLAIN or sign == "T":
            found += sign
        else:
            return None
    return found or None


def with_letters(pattern: str) -> str | None:
    """A pattern of Spark's `date_format`; None where it is not known to mean the same."""
    found = ""
    for match in _RUN.finditer(pattern.replace("'T'", "\0")):
        run = match.group()
        letter = _LETTERS.get(run)
        if letter is not None:
            found += letter
        elif run == "\0":
            found += "T"
        elif run in _PLAIN:
            found += run
        else:
            return None
    return found or None


def in_letters(pattern: str) -> str:
    """A pattern of `with_letters` as Spark's `date_format` has it."""
    letters = {percent: run for run, percent in _LETTERS.items()}
    return re.sub("%.|T", lambda sign: letters.get(sign.group(), "'T'"), pattern)
