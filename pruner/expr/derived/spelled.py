"""From the calls that an engine's decoder and its SQL text give to the names of `rows`.

One name can mean different things: `dayofweek` counts from 0 in DuckDB, from 1 in Spark and from Monday in Trino. What
is not listed for a dialect is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from pruner.expr.derived.formats import with_letters, with_percents
from pruner.expr.derived.function import DUCKDB, SPARK, TRINO
from pruner.expr.derived.rows import FUNCTIONS
from pruner.expr.nodes import Call, Expr, Literal

_ALIKE: Final[Mapping[str, str]] = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "day": "day",
    "day_of_month": "day",
    "dayofmonth": "day",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
    "day_of_year": "day of year",
    "dayofyear": "day of year",
    "doy": "day of year",
    "week": "week",
    "week_of_year": "week",
    "weekofyear": "week",
    "upper": "upper",
    "lower": "lower",
    "length": "length",
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "negate": "negate",
    "abs": "abs",
    "modulo": "modulo",
    "join": "join",
    "date_trunc": "date_trunc",
    "trim": "trim",
    "ltrim": "ltrim",
    "rtrim": "rtrim",
    "reverse": "reverse",
    "replace": "replace",
    "translate": "translate",
    "split_part": "split_part",
    "lpad": "lpad",
    "rpad": "rpad",
    "md5": "md5",
    "str_position": "position",
    "strpos": "position",
    "instr": "position",
    "coalesce": "coalesce",
    "nullif": "nullif",
    "greatest": "greatest",
    "least": "least",
    "sign": "sign",
    "floor": "floor",
    "ceil": "ceil",
    "ceiling": "ceil",
    "trunc": "trunc",
    "sqrt": "sqrt",
    "last_day": "last day",
    "ascii": "ascii",
    "bit_length": "bits",
    "right": "right",
}
"""Names that mean the same in the decoders of every engine."""

_OWN: Final[Mapping[str, Mapping[str, str]]] = {
    DUCKDB: {
        "isodow": "day of week, Monday 1",
        "dayofweek_iso": "day of week, Monday 1",
        "day_of_week": "day of week, Sunday 0",
        "dayofweek": "day of week, Sunday 0",
        "weekday": "day of week, Sunday 0",
        "dow": "day of week, Sunday 0",
        "len": "length",
        "||": "join",
        "%": "modulo",
        "mod": "modulo",
        "isoyear": "year of week",
        "strlen": "bytes",
        "hex": "hex",
    },
    SPARK: {
        "octet_length": "bytes",
        "hex": "hex",
        "day_of_week": "day of week, Sunday 1",
        "dayofweek": "day of week, Sunday 1",
        "weekday": "day of week, Monday 0",
    },
    TRINO: {
        "dayofweek_iso": "day of week, Monday 1",
        "day_of_week": "day of week, Monday 1",
        "dow": "day of week, Monday 1",
        "year_of_week": "year of week",
        "yow": "year of week",
        "last_day_of_month": "last day",
        "truncate": "trunc",
    },
}

_PATTERNS: Final[Mapping[str, frozenset[str]]] = {
    DUCKDB: frozenset({"strftime"}),
    SPARK: frozenset({"date_format"}),
    TRINO: frozenset({"date_format"}),
}
"""Functions that write a moment by a pattern."""

_PARTS: Final = frozenset(
    {
        "year",
        "quarter",
        "month",
        "day",
        "hour",
        "minute",
        "second",
        "doy",
        "dayofyear",
        "week",
        "isodow",
        "dow",
        "yearofweek",
    }
)
"""Parts of `date_part` that are whole numbers in DuckDB and Trino; in Spark a second has its fraction."""


def named(call: Call, dialect: str | None) -> Call | str:
    """A call by its name in the canonical form, or one sentence that says why there is none.

    Args:
        call: as a decoder gave it.
        dialect: whose decoder; None for a call that is in the canonical form.
    """
    name, arguments = call.function, call.arguments
    if dialect is None:
        return call if name in FUNCTIONS else f"the function {name} is not in the registry"
    if name in _PATTERNS.get(dialect, ()):
        return _pattern(call, dialect)
    if name in ("date_part", "datepart", "extract"):
        return _part(call, dialect)
    if name in ("sha2", "sha256"):
        return _sha(call, dialect)
    if name == "left":
        return _left(call)
    if name in ("substring", "substr"):
        return Call("substring", arguments)
    if name == "concat" and dialect in (SPARK, TRINO):
        return _joined(arguments)
    own = _OWN.get(dialect, {}).get(name) or _ALIKE.get(name)
    if own is None:
        return f"the function {name} is not in the registry of functions that indexes may be over"
    return Call(own, arguments)


def _pattern(call: Call, dialect: str) -> Call | str:
    match call.arguments:
        case (operand, Literal(value=str(pattern))):
            found = with_letters(pattern) if dialect == SPARK else with_percents(pattern, dialect)
            if found is None:
                return f"the pattern {pattern!r} is not one that engines are known to read alike"
            return Call("format", (operand, Literal(found, pa.string())))
        case _:
            return f"{call.function} with a pattern that is no constant"


def _part(call: Call, dialect: str) -> Call | str:
    match call.arguments:
        case (Literal(value=str(part)), operand) if part.lower() in _PARTS:
            if part.lower() == "yearofweek":
                return (
                    Call("year of week", (operand,)) if dialect == SPARK else f"the part {part} of a moment"
                )
            if dialect == SPARK and part.lower() in ("second", "dow"):
                return f"the part {part} of a moment"
            return named(Call(part.lower(), (operand,)), dialect)
        case _:
            return "a part of a moment that is not in the registry of functions that indexes may be over"


def _sha(call: Call, dialect: str) -> Call | str:
    """The digest of 256 bits, which Spark's function makes of a constant 256 or 0."""
    match call.function, call.arguments:
        case "sha2", (operand, Literal(value=256)) if dialect in (DUCKDB, SPARK):
            return Call("sha256", (operand,))
        case "sha256", (operand,) if dialect == DUCKDB:
            return Call("sha256", (operand,))
        case _:
            return "a digest of another length, or of bytes"


def _joined(arguments: tuple[Expr, ...]) -> Call | str:
    """Texts one after the other, as `a || b || c` joins them; Spark and Trino make one call of both."""
    if len(arguments) < 2:
        return "a join of one text"
    first, second, *others = arguments
    joined = Call("join", (first, second))
    for each in others:
        joined = Call("join", (joined, each))
    return joined


def _left(call: Call) -> Call:
    """`left(s, n)`, and `substr(s, from, n)`, which decoders call the same; a `substr` of two arguments is none."""
    arguments = call.arguments
    if len(arguments) == 2:
        one: Expr = Literal(1, pa.int64())
        return Call("substring", (arguments[0], one, arguments[1]))
    return Call("substring", arguments)
