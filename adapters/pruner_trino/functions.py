"""Trino's functions of a column, by the names of `pruner.expr.functions.rows`.

The list is closed, and so is what each may be called with: text that Trino cuts or pads where it reads it is another
one than the files hold, so functions of it are not understood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from pruner.expr.nodes import Call, Expr, Like, Literal
from pruner.expr.patterns import literal_pattern
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
}
_OF_DOUBLES: Final = frozenset({"$add", "$subtract", "$multiply"})
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
    "last_day_of_month": "last_day_of_month",
}
_TEXTS: Final = {
    "lower": "lower",
    "upper": "upper",
    "substring": "left",
    "substr": "left",
    "length": "length",
    **{name: name for name in ("trim", "ltrim", "rtrim", "reverse", "replace", "translate", "split_part")},
    **{name: name for name in ("lpad", "rpad", "strpos")},
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
_NUMBERS: Final = frozenset({"sign", "greatest", "least"})
_DOUBLES: Final = frozenset({"floor", "ceil", "ceiling", "truncate", "sqrt"})
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
        "concat",
        "date_format",
        "date_trunc",
        "date",
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
    arguments = tuple(part.expr for part in parts)
    types = {part.known.name for part in parts if not isinstance(part.expr, Literal)}
    match name:
        case "$add" | "$subtract" if any(_is_interval(part.expr) for part in parts):
            _require(types <= _MOMENTS, "an interval beside something that is no date or timestamp")
            return _made(_ARITHMETIC[name], arguments, kind)
        case _ if name in _ARITHMETIC:
            kinds = {part.known.name for part in parts}
            whole = kinds <= _INTEGERS or (kinds == {"double"} and name in _OF_DOUBLES)
            _require(whole, "arithmetic on something else than integers and doubles")
            return _made(_ARITHMETIC[name], arguments, kind)
        case _ if name in _NUMBERS or name in _DOUBLES:
            wanted = _INTEGERS if name in _NUMBERS else frozenset({"double"})
            _require({part.known.name for part in parts} <= wanted, "numbers of another kind")
            return _made(name, arguments, kind)
        case _ if name in _PARTS:
            _require(types <= _MOMENTS, "a part of something that is no date or timestamp")
            return _made(_PARTS[name], arguments, kind)
        case _ if name in _TEXTS:
            _require(all(_is_whole_text(part) for part in parts), "a function of text that is cut or padded")
            _require(_TEXTS[name] != "left" or len(parts) == 3, "a part of a text up to its end")
            return _made(_TEXTS[name], arguments, kind)
        case "concat":
            _require(all(_is_whole_text(part) for part in parts), "text that is cut or padded, or no text")
            return _made(name, arguments, kind)
        case "date_format":
            _require(types <= _MOMENTS, "a pattern for something that is no date or timestamp")
            return _made(name, arguments, kind)
        case "starts_with":
            return _starts_with(parts)
        case "date_trunc":
            _require(types <= _MOMENTS, "something else than a date or timestamp is cut")
            return _made(name, arguments, kind)
        case "date":
            _require(types <= _MOMENTS and kind is not None, "the date of something else")
            return Part(Call("cast", arguments, pa.date32()), kind)
        case "date_add":
            return _date_add(parts, kind)
        case _:
            return _made(name.removeprefix("$"), arguments, kind)


def _is_interval(expression: Expr) -> bool:
    return isinstance(expression, Literal) and isinstance(expression.value, Interval)


def _made(name: str, arguments: tuple[Expr, ...], kind: TrinoType | None) -> Part:
    return Part(Call(name, arguments, kind and kind.arrow), kind)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise NotUnderstood(otherwise)


def _is_whole_text(part: Part) -> bool:
    """Tell whether a value is a constant, or text as the files hold it or as a function of such text makes it."""
    if isinstance(part.expr, Literal):
        return True
    return part.known.name == "varchar" and (part.known.length is None or not part.stored)


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
            return _made("add", (moment, Literal(step, pa.month_day_nano_interval())), kind)
        case _:
            raise NotUnderstood("date_add of something else than constants and a moment")
