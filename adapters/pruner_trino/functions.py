"""Trino's functions of a column, by the names of `pruner.expr.functions.registry`.

The list is closed, and so are the arguments of each: text that Trino truncates or pads when reading differs from the
text in the files, so functions of it are not understood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from pruner.expr.engines import SqlEngine
from pruner.expr.exact.patterns import literal_pattern
from pruner.expr.functions.registry import form_name, names_of
from pruner.expr.nodes import Call, Expr, Like, Literal
from pruner.expr.values import Interval
from pruner_trino.comparing import TypedExpr
from pruner_trino.values import BIGINT, BOOLEAN, NotUnderstood, TrinoType

_INTEGERS: Final = frozenset({"tinyint", "smallint", "integer", "bigint"})
_MOMENTS: Final = frozenset({"date", "timestamp"})
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
_OF_INTEGERS: Final = names_of(SqlEngine.TRINO, pa.int64()) | {"$divide"}  # which truncates the fraction
_OF_DOUBLES: Final = names_of(SqlEngine.TRINO, pa.float64())
_OF_TEXTS: Final = names_of(SqlEngine.TRINO, pa.string())
_OF_MOMENTS: Final = names_of(SqlEngine.TRINO, pa.timestamp("us"), pa.date32()) | {"date"}
_OF_DECIMALS: Final = frozenset({"$add", "$subtract", "$multiply", "$negate"})
"""Arithmetic about which the statistics of a decimal column say something."""
_OF_ANY: Final = frozenset({"$coalesce", "$nullif"})
_OF_BYTES: Final = frozenset({"md5", "sha256", "to_hex"})
"""Functions of bytes, which the registry has as functions of text (`pruner.expr.functions.registry`)."""

NAMES: Final = (
    _OF_INTEGERS | _OF_DOUBLES | _OF_TEXTS | _OF_MOMENTS | _OF_BYTES | {"to_utf8", "date_add", "starts_with"}
)
"""Functions that `function` may understand: those of the registry, and shapes of others."""


def function(name: str, parts: Sequence[TypedExpr], kind: TrinoType | None) -> TypedExpr:
    """Return a built-in function of these arguments, with a result of type `kind`.

    Raises:
        NotUnderstood: no row of the registry could cover it.
    """
    match name:
        case "$add" | "$subtract" if any(_is_interval(part.expr) for part in parts):
            _require(
                _types(parts) <= _MOMENTS, "an interval added to something that is not a date or timestamp"
            )
            return _made(name, parts, kind)
        case "starts_with":
            return _starts_with(parts)
        case "date_add":
            return _date_add(parts, kind)
        case _ if name in _OF_ANY:
            cut = [part for part in parts if part.type is not None and part.type.is_text]
            _require(all(map(_is_whole_text, cut)), "a function of text that is cut or padded")
            return _made(name, parts, kind)
        case _ if name in _OF_INTEGERS or name in _OF_DOUBLES:
            return _of_numbers(name, parts, kind)
        case _ if name in _OF_MOMENTS:
            return _of_moments(name, parts, kind)
        case _:
            return _of_texts(name, parts, kind)


def _types(parts: Sequence[TypedExpr]) -> set[str]:
    """The types of the arguments that are not constant."""
    return {part.known.name for part in parts if not isinstance(part.expr, Literal)}


def _of_numbers(name: str, parts: Sequence[TypedExpr], kind: TrinoType | None) -> TypedExpr:
    # The digits of `round` are an integer.
    kinds = {part.known.name for part in (parts[:1] if name == "round" else parts)}
    understood = (
        (name in _OF_INTEGERS and kinds <= _INTEGERS)
        or (name in _OF_DOUBLES and kinds == {"double"})
        or (name in _OF_DECIMALS and kinds == {"decimal"})
    )
    _require(understood, "numbers of another kind than were compared")
    return _made(name, parts, kind)


def _of_texts(name: str, parts: Sequence[TypedExpr], kind: TrinoType | None) -> TypedExpr:
    if name in _OF_BYTES:
        _require(all(isinstance(part.expr, Call) and not part.stored for part in parts), "bytes of a column")
        return _made(name, parts, kind)
    whole = all(_is_whole_text(part) or _is_bytes_of_text(name, part) for part in parts)
    _require(whole, "a function of text that is cut or padded, or of no text")
    is_substring = form_name(name, SqlEngine.TRINO) == "left"
    _require(not is_substring or len(parts) == 3, "a part of a text up to its end")
    return _made(name, parts, kind)


def _of_moments(name: str, parts: Sequence[TypedExpr], kind: TrinoType | None) -> TypedExpr:
    wanted = frozenset({"date"}) if name == "date_diff" else _MOMENTS
    _require(_types(parts) <= wanted, "a function of something that is not a date or timestamp")
    if name == "date":
        _require(kind is not None, "a date of no type")
        return TypedExpr(Call("cast", tuple(part.expr for part in parts), pa.date32()), kind)
    return _made(name, parts, kind)


def _is_interval(expression: Expr) -> bool:
    return isinstance(expression, Literal) and isinstance(expression.value, Interval)


def _made(name: str, parts: Sequence[TypedExpr], kind: TrinoType | None) -> TypedExpr:
    called = form_name(name, SqlEngine.TRINO)
    return TypedExpr(Call(called, tuple(part.expr for part in parts), kind and kind.arrow), kind)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise NotUnderstood(otherwise)


def _is_whole_text(part: TypedExpr) -> bool:
    """Tell whether a value is a constant, text as the files hold it, or a function of such text."""
    if isinstance(part.expr, Literal):
        return True
    return part.known.name == "varchar" and (part.known.length is None or not part.stored)


def _is_bytes_of_text(name: str, part: TypedExpr) -> bool:
    """Tell whether a value is the bytes of a text, which `length` may be applied to."""
    return name == "length" and isinstance(part.expr, Call) and part.expr.function == "to_utf8"


def _starts_with(parts: Sequence[TypedExpr]) -> TypedExpr:
    match [(part.expr, part.stored) for part in parts]:
        case [(operand, True), (Literal(str() as beginning), _)] if _is_whole_text(parts[0]):
            pattern, escape = literal_pattern(beginning)
            return TypedExpr(Like(operand, f"{pattern}%", escape), BOOLEAN)
        case _:
            raise NotUnderstood("starts_with of something else than a column and a constant")


def _date_add(parts: Sequence[TypedExpr], kind: TrinoType | None) -> TypedExpr:
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
            return TypedExpr(Call("add", added, kind and kind.arrow), kind)
        case _:
            raise NotUnderstood("date_add of something else than constants and a moment")
