"""Trino's functions of a column, by the names of `pruner.expr.functions.rows`.

The list is closed, and so is what each may be called with: text that Trino cuts or pads where it reads it is another
one than the files hold, so functions of it are not understood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from pruner.expr.exact.patterns import literal_pattern
from pruner.expr.nodes import Call, Expr, Like, Literal
from pruner.expr.values import Interval
from pruner_trino.comparing import Part
from pruner_trino.types import BIGINT, BOOLEAN, TrinoType
from pruner_trino.values import NotUnderstood

_INTEGERS: Final = frozenset({"tinyint", "smallint", "integer", "bigint"})
_MOMENTS: Final = frozenset({"date", "timestamp"})
_ARITHMETIC: Final = {
    "$add": "add",
    "$subtract": "subtract",
    "$multiply": "multiply",
    "$negate": "negate",
    "$modulo": "modulo",
    "mod": "modulo",
    "abs": "abs",
    "$divide": "quotient",
}
_OF_DOUBLES: Final = frozenset({"$add", "$subtract", "$multiply", "$divide"})
_OF_DECIMALS: Final = frozenset({"$add", "$subtract", "$multiply", "$negate"})
_PARTS: Final = {
    **{name: name for name in ("year", "quarter", "month", "day", "hour", "minute", "second", "week")},
    "day_of_month": "day",
    "day_of_week": "day_of_week",
    "dow": "day_of_week",
    "day_of_year": "day_of_year",
    "doy": "day_of_year",
    "week_of_year": "week",
    "year_of_week": "year_of_week",
    "yow": "year_of_week",
    **{name: name for name in ("last_day_of_month", "millisecond", "to_unixtime")},
}
_TEXTS: Final = {
    "lower": "lower",
    "upper": "upper",
    "substring": "left",
    "substr": "left",
    "length": "length",
    **{name: name for name in ("trim", "ltrim", "rtrim", "reverse", "replace", "translate", "split_part")},
    **{name: name for name in ("lpad", "rpad", "strpos", "levenshtein_distance", "to_utf8")},
    "json_extract_scalar": "json_extract_scalar",
}
_STEPS: Final = {
    "second": Interval(nanoseconds=1_000_000_000),
    "minute": Interval(nanoseconds=60_000_000_000),
    "hour": Interval(nanoseconds=3_600_000_000_000),
    "day": Interval(days=1),
    "week": Interval(days=7),
    "month": Interval(months=1),
    "quarter": Interval(months=3),
    "year": Interval(months=12),
}
_NUMBERS: Final = frozenset(
    {"sign", "greatest", "least", "chr", "bit_count", "bitwise_and", "bitwise_or", "bitwise_xor"}
)
_DOUBLES: Final = frozenset({"floor", "ceil", "ceiling", "truncate", "sqrt", "round"})
_DIGESTS: Final = frozenset({"md5", "sha256", "to_hex"})
"""Functions of bytes, which are known as those of a text (`pruner.expr.derived.of_bytes`)."""
_OF_MOMENTS: Final = frozenset({"date_format", "date_trunc", "date_diff", "date"})
_KEPT: Final = frozenset({"$coalesce", "$nullif"})
"""Functions that keep their names in the expression form."""

NAMES: Final = frozenset(
    {
        *_ARITHMETIC,
        *_PARTS,
        *_TEXTS,
        *_KEPT,
        *_NUMBERS,
        *_DOUBLES,
        *_DIGESTS,
        *_OF_MOMENTS,
        "concat",
        "date_add",
        "starts_with",
    }
)
"""Functions that `function` may understand."""


def function(name: str, parts: Sequence[Part], kind: TrinoType | None) -> Part:
    """Return a built-in function of these arguments, whose result has a type.

    Raises:
        NotUnderstood: it is none of which a row of the registry could speak.
    """
    match name:
        case "$add" | "$subtract" if any(_is_interval(part.expr) for part in parts):
            _require(
                _types(parts) <= _MOMENTS, "an interval added to something that is not a date or timestamp"
            )
            return _made(_ARITHMETIC[name], parts, kind)
        case _ if name in _ARITHMETIC or name in _NUMBERS or name in _DOUBLES:
            return _of_numbers(name, parts, kind)
        case _ if name in _TEXTS or name in _DIGESTS or name == "concat":
            return _of_texts(name, parts, kind)
        case _ if name in _PARTS or name in _OF_MOMENTS:
            return _of_moments(name, parts, kind)
        case "starts_with":
            return _starts_with(parts)
        case "date_add":
            return _date_add(parts, kind)
        case _:
            cut = [part for part in parts if part.type is not None and part.type.is_text]
            _require(all(map(_is_whole_text, cut)), "a function of text that is cut or padded")
            return _made(name.removeprefix("$"), parts, kind)


def _types(parts: Sequence[Part]) -> set[str]:
    """The types of the arguments that are no constants."""
    return {part.known.name for part in parts if not isinstance(part.expr, Literal)}


def _of_numbers(name: str, parts: Sequence[Part], kind: TrinoType | None) -> Part:
    # The digits of `round` are an integer.
    kinds = {part.known.name for part in (parts[:1] if name == "round" else parts)}
    if name in _ARITHMETIC:
        whole = kinds <= _INTEGERS or (kinds == {"double"} and name in _OF_DOUBLES)
        _require(
            whole or (kinds == {"decimal"} and name in _OF_DECIMALS),
            "arithmetic on something else than integers, doubles and decimals",
        )
        return _made(_ARITHMETIC[name], parts, kind)
    wanted = _INTEGERS if name in _NUMBERS else frozenset({"double"})
    _require(kinds <= wanted, "numbers of another kind")
    return _made(name, parts, kind)


def _of_texts(name: str, parts: Sequence[Part], kind: TrinoType | None) -> Part:
    if name in _DIGESTS:
        _require(all(isinstance(part.expr, Call) and not part.stored for part in parts), "bytes of a column")
        return _made(name, parts, kind)
    whole = all(_is_whole_text(part) or _is_bytes_of_text(name, part) for part in parts)
    _require(whole, "a function of text that is cut or padded, or of no text")
    _require(_TEXTS.get(name) != "left" or len(parts) == 3, "a part of a text up to its end")
    return _made(_TEXTS.get(name, name), parts, kind)


def _of_moments(name: str, parts: Sequence[Part], kind: TrinoType | None) -> Part:
    wanted = frozenset({"date"}) if name == "date_diff" else _MOMENTS
    _require(_types(parts) <= wanted, "a function of something that is not a date or timestamp")
    if name == "date":
        _require(kind is not None, "a date of no type")
        return Part(Call("cast", tuple(part.expr for part in parts), pa.date32()), kind)
    return _made(_PARTS.get(name, name), parts, kind)


def _is_interval(expression: Expr) -> bool:
    return isinstance(expression, Literal) and isinstance(expression.value, Interval)


def _made(name: str, parts: Sequence[Part], kind: TrinoType | None) -> Part:
    return Part(Call(name, tuple(part.expr for part in parts), kind and kind.arrow), kind)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise NotUnderstood(otherwise)


def _is_whole_text(part: Part) -> bool:
    """Tell whether a value is a constant, or text as the files hold it or as a function of such text makes it."""
    if isinstance(part.expr, Literal):
        return True
    return part.known.name == "varchar" and (part.known.length is None or not part.stored)


def _is_bytes_of_text(name: str, part: Part) -> bool:
    """Tell whether a value is the bytes of a text, whose length may be asked for."""
    return name == "length" and isinstance(part.expr, Call) and part.expr.function == "to_utf8"


def _starts_with(parts: Sequence[Part]) -> Part:
    match [(part.expr, part.stored) for part in parts]:
        case [(operand, True), (Literal(str() as beginning), _)] if _is_whole_text(parts[0]):
            pattern, escape = literal_pattern(beginning)
            return Part(Like(operand, f"{pattern}%", escape), BOOLEAN)
        case _:
            raise NotUnderstood("starts_with of something else than a column and a constant")


def _date_add(parts: Sequence[Part], kind: TrinoType | None) -> Part:
    """`date_add('unit', count, moment)`."""
    match [part.expr for part in parts]:
        case [Literal(str() as unit), Literal(int() as count), moment] if unit.lower() in _STEPS:
            _require(
                parts[1].type == BIGINT and parts[2].known.name in _MOMENTS, "date_add of something else"
            )
            one = _STEPS[unit.lower()]
            step = Interval(one.months * count, one.days * count, one.nanoseconds * count)
            _require(parts[2].known.name != "date" or not step.nanoseconds, "a part of a day added to a date")
            added = (moment, Literal(step, pa.month_day_nano_interval()))
            return Part(Call("add", added, kind and kind.arrow), kind)
        case _:
            raise NotUnderstood("date_add of something else than constants and a moment")
