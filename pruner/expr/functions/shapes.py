"""Functions whose meaning depends on their arguments: an engine's calls in the registry's form.

A row names its shape (`Function.shape`). For a call whose form is unknown, the shape says why in one sentence.

Patterns of dates and times, as each dialect writes them, are converted to the form of DuckDB's `strftime`.

The lists are closed: week years, names and fractions differ between engines, or between their versions.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from pruner.expr.functions.function import DUCKDB, SPARK, TRINO, Argument, is_field_name
from pruner.expr.nodes import Call, Expr, Literal

_PERCENT: Final = {
    "duckdb": {"Y": "%Y", "m": "%m", "d": "%d", "H": "%H", "M": "%M", "S": "%S", "j": "%j"},
    "trino": {"Y": "%Y", "m": "%m", "d": "%d", "H": "%H", "i": "%M", "s": "%S", "S": "%S", "j": "%j"},
}
"""Letters after a percent sign: DuckDB's `strftime`, and Trino's `date_format`, where `%M` is a month's name."""

_LETTERS: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "DDD": "%j"}
"""Runs of letters in Spark's `date_format`. `YYYY` is the week year there, and is not among them."""

_PLAIN: Final = frozenset(" -/:._,")
"""Characters that are literal in every engine's patterns."""

_RUN: Final = re.compile(r"([A-Za-z])\1*|[^A-Za-z]")


def with_percents(pattern: str, dialect: str) -> str | None:
    """Convert a pattern of DuckDB's `strftime` or Trino's `date_format`; None where the same meaning is not certain."""
    known = _PERCENT[dialect]
    text = ""
    signs = iter(pattern)
    for sign in signs:
        if sign == "%":
            letter = known.get(next(signs, ""))
            if letter is None:
                return None
            text += letter
        elif sign in _PLAIN or sign == "T":
            text += sign
        else:
            return None
    return text or None


def with_letters(pattern: str) -> str | None:
    """Convert a pattern of Spark's `date_format`; None where the same meaning is not certain."""
    text = ""
    for match in _RUN.finditer(pattern.replace("'T'", "\0")):
        run = match.group()
        letter = _LETTERS.get(run)
        if letter is not None:
            text += letter
        elif run == "\0":
            text += "T"
        elif run in _PLAIN:
            text += run
        else:
            return None
    return text or None


def in_letters(pattern: str) -> str:
    """Convert `with_letters`' result back to Spark's `date_format`."""
    letters = {percent: run for run, percent in _LETTERS.items()}
    return re.sub("%.|T", lambda sign: letters.get(sign.group(), "'T'"), pattern)


_UNITS: Final = {"mm": "month", "mon": "month", "yyyy": "year", "yy": "year"}
"""Spark's short names of units."""


def not_known(name: str) -> str:
    """The sentence about a function without a row."""
    return f"the function {name} is not in the registry of functions that indexes may be over"


def pattern(call: Call, dialect: str) -> Call | str:
    """A moment that is formatted by a pattern."""
    match call.arguments:
        case (operand, Literal(value=str(text))):
            known = with_letters(text) if dialect == SPARK else with_percents(text, dialect)
            if known is None:
                return f"the pattern {text!r} is not one that engines are known to read alike"
            return Call("format", (operand, Literal(known, pa.string())))
        case _:
            return f"{call.function} with a pattern that is not constant"


def json_field(call: Call, dialect: str) -> Call | str:
    """A field of a JSON object, by its path or, in DuckDB, by its bare name."""
    match call.arguments:
        case (operand, Literal(value=str(path))):
            field = path.removeprefix("$.")
            if (field != path or dialect == DUCKDB) and is_field_name(Argument(pa.string(), field)):
                return Call("json field", (operand, Literal(field, pa.string())))
            return f"the JSON path {path!r}"
        case _:
            return "a JSON path that is not constant"


def sha256(call: Call, dialect: str) -> Call | str:
    """The digest of 256 bits, which Spark's function returns for a constant 256 or 0."""
    match call.function, call.arguments:
        case "sha2", (operand, Literal(value=256)) if dialect in (DUCKDB, SPARK):
            return Call("sha256", (operand,))
        case "sha256", (operand,) if dialect == DUCKDB:
            return Call("sha256", (operand,))
        case _:
            return "a digest of another length, or of bytes"


def joined(call: Call, dialect: str) -> Call | str:
    """Concatenated texts, as in `a || b || c`; Spark and Trino make one `concat` of all."""
    if call.function != "concat":
        return Call("join", call.arguments)
    if dialect == DUCKDB:
        return "concat, which leaves NULL out"
    if len(call.arguments) < 2:
        return "a join of one text"
    first, second, *others = call.arguments
    joined_ = Call("join", (first, second))
    for other in others:
        joined_ = Call("join", (joined_, other))
    return joined_


def substring(call: Call, _: str) -> Call:
    """`left(s, n)`, and `substr(s, from, n)`, which decoders name alike; a `substr` of two arguments is neither."""
    arguments = call.arguments
    if call.function == "left" and len(arguments) == 2:
        one: Expr = Literal(1, pa.int64())
        return Call("substring", (arguments[0], one, arguments[1]))
    return Call("substring", arguments)


def days_between(call: Call, _: str) -> Call | str:
    """The days from one date to another; `date_diff` has its unit first, then the earlier and the later date."""
    match call.function, call.arguments:
        case "days_between", arguments:
            return Call("days between", arguments)
        case _, (Literal(value="day"), first, last):
            return Call("days between", (last, first))
        case _:
            return not_known(call.function)


def truncated(call: Call, dialect: str) -> Call:
    """`date_trunc` with the full name of its unit in lower case."""
    match call.arguments:
        case (Literal(value=str(unit)), operand):
            unit = _UNITS.get(unit.lower(), unit.lower()) if dialect == SPARK else unit.lower()
            return Call("date_trunc", (Literal(unit, pa.string()), operand))
        case arguments:
            return Call("date_trunc", arguments)


def bit_count(call: Call, dialect: str) -> Call | str:
    """The number of set bits; Trino's `bit_count` also takes the width."""
    match call.function, call.arguments:
        case "bit_count", (operand, Literal(value=64)) if dialect == TRINO:
            return Call("bit count", (operand,))
        case "bit_count", _ if dialect == TRINO:
            return not_known(call.function)
        case _, arguments:
            return Call("bit count", arguments)
