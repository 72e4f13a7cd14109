"""Short readable text of predicates, for reports. It is for display and is never parsed."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

import pyarrow as pa

from pruner.expr.bound.predicates import (
    BoundAnd,
    BoundExpr,
    BoundIsNull,
    BoundNot,
    BoundOr,
    CompareLeaf,
    Guarded,
    InLeaf,
    IsNullLeaf,
    NotNullLeaf,
    Point,
    PrefixLeaf,
    RecurringLeaf,
    Same,
    StorageValue,
    Unknown,
)
from pruner.expr.exact.clock import PER_SECOND, date_of
from pruner.expr.identifier import render_column_path
from pruner.expr.nodes import (
    And,
    Call,
    Column,
    Compare,
    Constant,
    Expr,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Opaque,
    Or,
)
from pruner.expr.types import decimal_digits, is_instant, is_string, is_time, is_uuid, unit_of
from pruner.expr.values import Interval
from pruner.showing.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pruner.schema import Field

LONGEST_TEXT = 300
"""Characters after which the text of a predicate is truncated."""

_OPERANDS_SHOWN = 20
_VALUES_SHOWN = 5
_VALUE_CHARACTERS = 60
_UUID_BYTES = 16

_WRITTEN = {"~~*": "ILIKE", "!~~*": "NOT ILIKE", "~~": "LIKE", "!~~": "NOT LIKE", "~~~": "GLOB"}
"""DuckDB's internal operator names, and their spelling in statements."""

_Part: TypeAlias = Any
"""A piece of text, or a node that is yet to be written."""


def show(expression: Expr, limit: int = LONGEST_TEXT) -> str:
    """Return the text of an expression, truncated after about `limit` characters."""
    return _written(expression, _expression_parts, limit)


def shape(expression: Expr, limit: int = LONGEST_TEXT) -> str:
    """Return the text of an expression with `?` for each constant: for logs, which should not expose values."""
    return _written(expression, _shape_parts, limit)


def describe(bound: BoundExpr, limit: int = LONGEST_TEXT) -> str:
    """Return the text of a bound predicate with readable values, truncated after about `limit` characters."""
    return _written(bound, _bound_parts, limit)


def _written(node: object, parts: Callable[[Any], Sequence[_Part]], limit: int) -> str:
    """Write a tree without recursion, and only as much of it as is shown."""
    text = ""
    pending: list[_Part] = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            text += part
            if len(text) > limit:
                return text[: limit - 1] + "…"
        else:
            pending.extend(reversed(parts(part)))
    return text


def _joined(operands: Sequence[_Part], separator: str, groups: tuple[type, ...]) -> list[_Part]:
    parts: list[_Part] = []
    for operand in operands[:_OPERANDS_SHOWN]:
        parts.append(separator if parts else "")
        parts.extend(("(", operand, ")") if isinstance(operand, groups) else (operand,))
    if len(operands) > _OPERANDS_SHOWN:
        parts.append(f"{separator}… ({len(operands) - _OPERANDS_SHOWN} more)")
    return parts


def _expression_parts(node: Expr) -> Sequence[_Part]:
    match node:
        case Column(path):
            return (render_column_path(path),)
        case Literal():
            return (_literal(node),)
        case Call():
            return _call_parts(node)
        case Compare(operator, left, right):
            return (left, f" {operator.value} ", right)
        case In(operand, options):
            return (
                operand,
                _list([_literal(option) for option in options[:_VALUES_SHOWN]], len(options)),
            )
        case IsNull(Column() | Literal() | Call() | Opaque() as operand):
            return (operand, " IS NULL")
        case IsNull(operand):
            return ("(", operand, ") IS NULL")
        case Like(operand, pattern, escape):
            return (operand, f" LIKE {_constant(pattern)}", f" ESCAPE {_constant(escape)}" if escape else "")
        case Constant(value):
            return (_constant(value),)
        case Opaque(_, text):
            return (text,)
        case And() | Or() | Not():
            return _combined_parts(node)
        case _:
            assert_never(node)


def _shape_parts(node: Expr) -> Sequence[_Part]:
    match node:
        case Literal():
            return ("?",)
        case In(operand):
            return (operand, " IN (?)")
        case Like(operand):
            return (operand, " LIKE ?")
        case Opaque(columns):
            return (f"…({', '.join(render_column_path(column.path) for column in columns)})",)
        case _:
            return _expression_parts(node)


def shown_function(name: str) -> str:
    """A function as users write it: DuckDB has operators for ILIKE."""
    return _WRITTEN.get(name, name)


def _call_parts(node: Call) -> Sequence[_Part]:
    if node.function in _WRITTEN and len(node.arguments) == 2:
        left, right = node.arguments
        return (left, f" {_WRITTEN[node.function]} ", right)
    if node.function in ("cast", "try_cast") and len(node.arguments) == 1:
        return (f"{node.function.upper()}(", node.arguments[0], f" AS {node.type or 'unknown'})")
    if node.function == "read_as" and len(node.arguments) == 1:
        return (node.arguments[0],)
    return (f"{node.function}(", *_joined(node.arguments, ", ", ()), ")")


def _combined_parts(node: And | Or | Not) -> Sequence[_Part]:
    match node:
        case And(operands):
            return _joined(operands, " AND ", (And, Or))
        case Or(operands):
            return _joined(operands, " OR ", (And, Or))
        case Not(operand):
            return ("NOT (", operand, ")")


def _bound_parts(node: BoundExpr) -> Sequence[_Part]:
    match node:
        case CompareLeaf(field, operator, point):
            return (_field(field), f" {operator.value} {_point(point, field.type)}")
        case InLeaf() | RecurringLeaf():
            return _listed_parts(node)
        case IsNullLeaf(field):
            return (_field(field), " IS NULL")
        case PrefixLeaf(field, prefix, whole):
            text = _constant(prefix.decode("utf-8", "replace") + ("%" if whole else "%…"))
            return (_field(field), f" LIKE {text}")
        case NotNullLeaf(field, value):
            always = "true" if value else "false"
            return (f"({_field(field)} IS NULL: null, else {always})",)
        case Unknown(text):
            return (text,)
        case Guarded(_, str() as text) if text:
            return (text,)
        case Same((first, *_)):
            return (first,)
        case BoundAnd() | BoundOr() | BoundNot() | BoundIsNull():
            return _combined_bound_parts(node)
        case Constant(value):
            return (_constant(value),)
        case _:
            assert_never(node)


def _listed_parts(node: InLeaf | RecurringLeaf) -> Sequence[_Part]:
    match node:
        case InLeaf(field, points, _, str() as text) if text:
            return (f"{text} ({counted(len(points), 'range')} of {_field(field)})",)
        case InLeaf(field, points, has_null):
            values = [_point(point, field.type) for point in points[:_VALUES_SHOWN]]
            if has_null and len(points) < _VALUES_SHOWN:
                values.append("NULL")
            return (_field(field), _list(values, len(points) + has_null))
        case RecurringLeaf(field, period, points):
            ranges = [f"{point.low} to {point.high}" for point in points[:_VALUES_SHOWN]]
            return (_field(field), f" % {period}", _list(ranges, len(points)))


def _field(field: Field) -> str:
    return render_column_path(field.path) if field.expression is None else field.name


def _combined_bound_parts(node: BoundAnd | BoundOr | BoundNot | BoundIsNull) -> Sequence[_Part]:
    match node:
        case BoundAnd(operands):
            return _joined(operands, " AND ", (BoundAnd, BoundOr))
        case BoundOr(operands):
            return _joined(operands, " OR ", (BoundAnd, BoundOr))
        case BoundNot(operand):
            return ("NOT (", operand, ")")
        case BoundIsNull(operand):
            return ("(", operand, ") IS NULL")


def _list(values: list[str], count: int) -> str:
    more = f", … {count:,} values" if count > len(values) else ""
    return f" IN ({', '.join(values)}{more})"


def _point(point: Point, data_type: pa.DataType) -> str:
    if point.nan:
        return "NaN"
    low, high = _stored(point.low, data_type), _stored(point.high, data_type)
    if point.low == point.high:
        return low if point.exact else f"about {low}"
    if point.exact and point.low is not None and point.high is not None and _above(point.low, point.high):
        return f"a value between {high} and {low}"
    return f"{'any of' if point.exact else 'a value within'} [{low}, {high}]"


def _above(low: Any, high: Any) -> bool:
    return low > high


def _stored(value: StorageValue | None, data_type: pa.DataType) -> str:
    """A value of the storage domain in readable form."""
    if value is None:
        return "any"
    if isinstance(value, bytes):
        if is_string(data_type):
            return _constant(value.decode("utf-8", "replace"))
        return str(uuid.UUID(bytes=value)) if _is_whole_uuid(value, data_type) else _constant(value)
    if isinstance(value, bool | float):
        return _constant(value)
    if pa.types.is_decimal(data_type):
        digits = tuple(int(digit) for digit in str(abs(value)))
        return f"{Decimal((int(value < 0), digits, -decimal_digits(data_type)[1])):f}"
    if pa.types.is_date(data_type):
        return _date(value)
    if pa.types.is_timestamp(data_type):
        return _timestamp(value, data_type)
    if is_time(data_type):
        return _clock(value, data_type)
    return str(value)


def _is_whole_uuid(value: bytes, data_type: pa.DataType) -> bool:
    return is_uuid(data_type) and len(value) == _UUID_BYTES


def _date(day: int) -> str:
    # date.min and date.max, counted from 1970
    return date_of(day).isoformat() if -719162 <= day <= 2932896 else f"day {day}"


def _timestamp(value: int, data_type: pa.DataType) -> str:
    days, rest = divmod(value, 86400 * PER_SECOND[unit_of(data_type)])
    return f"{_date(days)} {_clock(rest, data_type)}{'Z' if is_instant(data_type) else ''}"


def _clock(value: int, data_type: pa.DataType) -> str:
    """The time of day this long after midnight."""
    per_second = PER_SECOND[unit_of(data_type)]
    second, fraction = divmod(value, per_second)
    digits = f".{fraction:0{len(str(per_second)) - 1}d}" if fraction else ""
    return f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}{digits}"


def _literal(literal: Literal) -> str:
    """A literal in readable form: moments are stored as numbers."""
    value, data_type = literal.value, literal.type
    if isinstance(value, int) and pa.types.is_timestamp(data_type):
        return _timestamp(value, data_type)
    if isinstance(value, int) and pa.types.is_date(data_type):
        return _date(value)
    if isinstance(value, int) and is_time(data_type):
        return f"'{_clock(value, data_type)}'"
    if isinstance(value, bytes) and _is_whole_uuid(value, data_type):
        return f"'{uuid.UUID(bytes=value)}'"
    return _constant(value)


def _constant(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case float():
            return "NaN" if math.isnan(value) else repr(value)
        case Decimal():
            return f"{value:f}"
        case str():
            text = _cut(value).replace("'", "''").replace("\n", "\\n")
            return f"'{text}'"
        case Interval(months, days, nanoseconds):
            parts = ((months, "MONTH"), (days, "DAY"), (nanoseconds // 1000, "MICROSECOND"))
            return (
                " ".join(f"INTERVAL '{count}' {unit}" for count, unit in parts if count) or "INTERVAL '0' DAY"
            )
        case bytes():
            return f"X'{_cut(value.hex())}'"
        case int():
            return _cut(str(value))
        case _:
            return str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _VALUE_CHARACTERS else text[:_VALUE_CHARACTERS] + "…"
