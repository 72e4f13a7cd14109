"""From the calls that an engine's decoder and its SQL text give to the names of `rows`.

One name can mean different things: `dayofweek` counts from 0 in DuckDB, from 1 in Spark and from Monday in Trino. What
is not listed for a dialect is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa

from pruner.expr.derived.formats import with_letters, with_percents
from pruner.expr.derived.function import DUCKDB, SPARK, TRINO, Argument, is_field_name
from pruner.expr.derived.of_bytes import of_bytes
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
    "round": "round",
    "quotient": "quotient",
    "whole_quotient": "whole quotient",
    "bitwise_and": "bit and",
    "bitwise_or": "bit or",
    "bitwise_xor": "bit xor",
    "chr": "chr",
    "levenshtein": "levenshtein",
    "levenshtein_distance": "levenshtein",
    "repeat": "repeat",
    "days_between": "days between",
    "epoch_ms": "epoch milliseconds",
    "epoch_us": "epoch microseconds",
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
        "/": "quotient",
        "//": "whole quotient",
        "&": "bit and",
        "|": "bit or",
        "xor": "bit xor",
        "bit_count": "bit count",
        "microsecond": "microsecond of minute",
        "millisecond": "millisecond of minute",
        "epoch": "epoch",
        "to_timestamp": "moment of seconds",
        "unix_to_time": "moment of seconds",
    },
    SPARK: {
        "bitwise_count": "bit count",
        "epoch_s": "epoch seconds",
        "timestamp_seconds": "moment of seconds",
        "year_of_week": "year of week",
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
        "bitwise_count": "bit count",
        "year_of_week": "year of week",
        "yow": "year of week",
        "last_day_of_month": "last day",
        "truncate": "trunc",
        "millisecond": "millisecond of second",
        "epoch": "epoch",
        "to_unixtime": "epoch",
    },
}

_PATTERNS: Final[Mapping[str, frozenset[str]]] = {
    DUCKDB: frozenset({"strftime"}),
    SPARK: frozenset({"date_format"}),
    TRINO: frozenset({"date_format"}),
}
"""Functions that write a moment by a pattern."""

_JSON_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    DUCKDB: frozenset({"json_extract_string", "json_extract_path_text", "->>"}),
    SPARK: frozenset({"get_json_object"}),
    TRINO: frozenset({"json_extract_scalar"}),
}
"""Functions that give a field of a JSON object as text."""

_UNITS: Final = {"mm": "month", "mon": "month", "yyyy": "year", "yy": "year"}
"""Short units of Spark's."""

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
    if dialect is None:
        known = call.function in FUNCTIONS
        return call if known else f"the function {call.function} is not in the registry"
    if call.function in _PATTERNS.get(dialect, ()):
        return _pattern(call, dialect)
    if call.function in _JSON_FIELDS.get(dialect, ()):
        return _json_field(call, dialect)
    bytes_ = of_bytes(call) if dialect == TRINO else None
    if bytes_ is not None:
        return bytes_
    shape = _SHAPES.get(call.function)
    if shape is not None:
        return shape(call, dialect)
    return _renamed(_without_unit(call, dialect), dialect)


def _renamed(call: Call, dialect: str) -> Call | str:
    own = _OWN.get(dialect, {}).get(call.function) or _ALIKE.get(call.function)
    if own is None:
        return f"the function {call.function} is not in the registry of functions that indexes may be over"
    return Call(own, call.arguments)


def _without_unit(call: Call, dialect: str) -> Call:
    """A call whose first or last argument tells its unit, by the name of the function that it is with that."""
    match call.function, call.arguments:
        case "date_diff" | "datediff", (Literal(value="day"), first, last) if dialect != SPARK:
            return Call("days_between", (last, first))
        case "bit_count", (operand, Literal(value=64)) if dialect == TRINO:
            return Call("bitwise_count", (operand,))
        case "date_trunc", (Literal(value=str(unit)), operand):
            unit = _UNITS.get(unit.lower(), unit.lower()) if dialect == SPARK else unit.lower()
            return Call("date_trunc", (Literal(unit, pa.string()), operand))
        case _:
            return call


def _json_field(call: Call, dialect: str) -> Call | str:
    """A field of a JSON object, by its path or, in DuckDB, by its name alone."""
    match call.arguments:
        case (operand, Literal(value=str(path))):
            field = path.removeprefix("$.")
            if (field != path or dialect == DUCKDB) and is_field_name(Argument(pa.string(), field)):
                return Call("json field", (operand, Literal(field, pa.string())))
            return f"the JSON path {path!r}"
        case _:
            return "a JSON path that is not constant"


def _pattern(call: Call, dialect: str) -> Call | str:
    match call.arguments:
        case (operand, Literal(value=str(pattern))):
            found = with_letters(pattern) if dialect == SPARK else with_percents(pattern, dialect)
            if found is None:
                return f"the pattern {pattern!r} is not one that engines are known to read alike"
            return Call("format", (operand, Literal(found, pa.string())))
        case _:
            return f"{call.function} with a pattern that is not constant"


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


def _joined(call: Call, dialect: str) -> Call | str:
    """Texts one after the other, as `a || b || c` joins them; Spark and Trino make one call of both."""
    arguments = call.arguments
    if dialect == DUCKDB:
        return "concat, which leaves NULL out"
    if len(arguments) < 2:
        return "a join of one text"
    first, second, *others = arguments
    joined = Call("join", (first, second))
    for each in others:
        joined = Call("join", (joined, each))
    return joined


def _left(call: Call, _: str) -> Call:
    """`left(s, n)`, and `substr(s, from, n)`, which decoders call the same; a `substr` of two arguments is none."""
    arguments = call.arguments
    if len(arguments) == 2:
        one: Expr = Literal(1, pa.int64())
        return Call("substring", (arguments[0], one, arguments[1]))
    return Call("substring", arguments)


_SHAPES: Final[Mapping[str, Callable[[Call, str], Call | str]]] = {
    **dict.fromkeys(("date_part", "datepart", "extract"), _part),
    **dict.fromkeys(("sha2", "sha256"), _sha),
    "left": _left,
    **dict.fromkeys(("substring", "substr"), lambda call, _: Call("substring", call.arguments)),
    "concat": _joined,
}
"""Functions whose meaning is in their arguments."""
