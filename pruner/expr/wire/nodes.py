"""The expression form as JSON, for programs in other languages (docs/http.md has the grammar).

Every node is an object whose `node` names its kind. Values are plain JSON where JSON has them: integers of any
size, true, false, null and finite doubles. Other values are texts: decimals by their digits, NaN, Infinity and
-Infinity by these words, dates as `2024-02-29` (or the days since 1970-01-01 as an integer), binary in base64.
Timestamps are integers in the unit of their type.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

import msgspec
import pyarrow as pa

from pruner.errors import PredicateError
from pruner.expr import nodes
from pruner.expr.nodes import Literal
from pruner.expr.types import is_binary, is_string, is_time, is_uuid
from pruner.expr.values import Interval
from pruner.limits import PREDICATE_DEPTH

if TYPE_CHECKING:
    from pruner.expr.values import LiteralValue

# Types and constants of the expression form as JSON: see `pruner.expr.wire.nodes`.

Json: TypeAlias = bool | int | float | str | None

_NAMED_TYPES: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32[day]": pa.date32(),
    "time32[s]": pa.time32("s"),
    "time32[ms]": pa.time32("ms"),
    "time64[us]": pa.time64("us"),
    "time64[ns]": pa.time64("ns"),
    "extension<arrow.uuid>": pa.uuid(),
    "month_day_nano_interval": pa.month_day_nano_interval(),
}
_DECIMAL = re.compile(r"decimal128\((\d{1,2}), ?(-?\d{1,2})\)")
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([A-Za-z0-9_+:/-]{1,64}))?\]")
_FIXED = re.compile(r"fixed_size_binary\[(\d{1,9})\]")
_INTERVAL = re.compile(r"(-?\d{1,6}) months (-?\d{1,8}) days (-?\d{1,19}) ns", re.ASCII)
_LARGEST_DECIMAL = 38
_UUID_BYTES = 16
_DIGITS = 2 * _LARGEST_DECIMAL
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def type_of(text: str) -> pa.DataType:
    """Return the Arrow type that a text names, in Arrow's own notation.

    Raises:
        PredicateError: it is not a type that a literal can have.
    """
    if text in _NAMED_TYPES:
        return _NAMED_TYPES[text]
    if match := _DECIMAL.fullmatch(text):
        precision, scale = int(match[1]), int(match[2])
        if 0 < precision <= _LARGEST_DECIMAL and abs(scale) <= _LARGEST_DECIMAL:
            return pa.decimal128(precision, scale)
    if match := _TIMESTAMP.fullmatch(text):
        unit: Any = match[1]
        return pa.timestamp(unit, match[2])
    if match := _FIXED.fullmatch(text):
        return pa.binary(int(match[1]))
    raise PredicateError(f"the type {text[:100]!r} is not a literal type: docs/http.md lists them")


def literal_of(value: Json, type_: pa.DataType) -> Literal:
    """Return the typed constant that a JSON value represents.

    Raises:
        PredicateError: the type has no such value.
    """
    if value is None:
        return Literal(None, type_)
    read = _value(value, type_)
    if read is None:
        raise PredicateError(
            f"the value {str(value)[:100]!r} is not a value of type {type_}: see docs/http.md"
        )
    return Literal(read, type_)


def _value(value: Json, type_: pa.DataType) -> LiteralValue:
    """The Python value of a JSON value; None where it has none in that type."""
    types = pa.types
    if isinstance(value, bool) or types.is_boolean(type_):
        return value if isinstance(value, bool) and types.is_boolean(type_) else None
    if types.is_integer(type_) or types.is_timestamp(type_) or is_time(type_):
        return value if isinstance(value, int) else None
    if types.is_floating(type_):
        return _SPECIAL.get(value) if isinstance(value, str) else float(value or 0)
    if types.is_date(type_):
        return _date(value)
    if not isinstance(value, str):
        return None
    if is_string(type_):
        return value
    if type_ == pa.month_day_nano_interval():
        return _interval(value)
    if types.is_decimal(type_):
        return _decimal(value)
    if is_uuid(type_):
        return _uuid(value)
    return _bytes(value) if is_binary(type_) else None


def _date(value: Json) -> LiteralValue:
    if isinstance(value, int):
        return value
    try:
        return datetime.date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _interval(text: str) -> Interval | None:
    match = _INTERVAL.fullmatch(text)
    return Interval(*map(int, match.groups())) if match else None


def _decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if not number.is_finite():
        return None
    # A short text can name a number of a billion digits, which exact arithmetic would expand.
    _, digits, exponent = number.as_tuple()
    return number if len(digits) <= _DIGITS and abs(int(exponent)) <= _DIGITS else None


def _uuid(text: str) -> bytes | None:
    value = _bytes(text)
    return value if value is not None and len(value) == _UUID_BYTES else None


def _bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def json_of(value: LiteralValue) -> Json:
    """Return the JSON value of a literal, the inverse of `literal_of`."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Decimal():
            return str(value)
        case Interval(months, days, nanoseconds):
            return f"{months} months {days} days {nanoseconds} ns"
        case bytes():
            return base64.b64encode(value).decode()
        case datetime.date():
            return value.isoformat()
        case _:
            return value


class ColumnNode(msgspec.Struct, tag_field="node", tag="column", forbid_unknown_fields=True):
    """A column by its path."""

    path: list[str]


class LiteralNode(msgspec.Struct, tag_field="node", tag="literal", forbid_unknown_fields=True):
    """A typed constant; `type` is in Arrow's notation."""

    type: str
    value: Json


class CallNode(msgspec.Struct, tag_field="node", tag="call", forbid_unknown_fields=True, omit_defaults=True):
    """A function or cast by its canonical name."""

    function: str
    arguments: list[Node]
    type: str | None = None


class CompareNode(msgspec.Struct, tag_field="node", tag="compare", forbid_unknown_fields=True):
    """`left operator right`."""

    operator: str
    left: Node
    right: Node


class InNode(msgspec.Struct, tag_field="node", tag="in", forbid_unknown_fields=True):
    """`operand IN (options)`, options of one type or null."""

    operand: Node
    type: str
    options: list[Json]


class IsNullNode(msgspec.Struct, tag_field="node", tag="is_null", forbid_unknown_fields=True):
    """`operand IS NULL`."""

    operand: Node


class LikeNode(msgspec.Struct, tag_field="node", tag="like", forbid_unknown_fields=True, omit_defaults=True):
    """`operand LIKE pattern ESCAPE escape`."""

    operand: Node
    pattern: str
    escape: str | None = None


class AndNode(msgspec.Struct, tag_field="node", tag="and", forbid_unknown_fields=True):
    """Conjunction of two operands or more."""

    operands: list[Node]


class OrNode(msgspec.Struct, tag_field="node", tag="or", forbid_unknown_fields=True):
    """Disjunction of two operands or more."""

    operands: list[Node]


class NotNode(msgspec.Struct, tag_field="node", tag="not", forbid_unknown_fields=True):
    """Negation."""

    operand: Node


class ConstantNode(msgspec.Struct, tag_field="node", tag="constant", forbid_unknown_fields=True):
    """True, false or null for every row."""

    value: bool | None


class OpaqueNode(msgspec.Struct, tag_field="node", tag="opaque", forbid_unknown_fields=True):
    """Something that its producer did not understand."""

    columns: list[list[str]]
    text: str
    reason: str = "not understood"


Node: TypeAlias = (
    ColumnNode
    | LiteralNode
    | CallNode
    | CompareNode
    | InNode
    | IsNullNode
    | LikeNode
    | AndNode
    | OrNode
    | NotNode
    | ConstantNode
    | OpaqueNode
)

_OPERATORS = {operator.value: operator for operator in nodes.Operator}


def expression_of(node: Node) -> nodes.Expr:
    """Return the expression that a decoded JSON node represents.

    Raises:
        PredicateError: it is nested too deep, or an operator, type or value in it is unknown.
    """
    return _expression(node, 0)


def node_of(expression: nodes.Expr) -> Node:
    """Return the JSON node of an expression, the inverse of `expression_of`."""
    match expression:
        case nodes.Column(path):
            return ColumnNode(list(path))
        case nodes.Literal(value, type_):
            return LiteralNode(str(type_), json_of(value))
        case nodes.Call(function, arguments, type_):
            return CallNode(
                function, [node_of(argument) for argument in arguments], None if type_ is None else str(type_)
            )
        case nodes.Compare(operator, left, right):
            return CompareNode(operator.value, node_of(left), node_of(right))
        case nodes.In(operand, options):
            return _in_node(operand, options)
        case nodes.IsNull(operand):
            return IsNullNode(node_of(operand))
        case nodes.Like(operand, pattern, escape):
            return LikeNode(node_of(operand), pattern, escape)
        case nodes.And() | nodes.Or() | nodes.Not() | nodes.Constant():
            return _logic_node(expression)
        case nodes.Opaque(columns, text, reason):
            return OpaqueNode([list(column.path) for column in columns], text, reason)
        case _:
            assert_never(expression)


def _logic_node(expression: nodes.And | nodes.Or | nodes.Not | nodes.Constant) -> Node:
    match expression:
        case nodes.And(operands):
            return AndNode([node_of(operand) for operand in operands])
        case nodes.Or(operands):
            return OrNode([node_of(operand) for operand in operands])
        case nodes.Not(operand):
            return NotNode(node_of(operand))
        case nodes.Constant(value):
            return ConstantNode(value)
        case _:
            assert_never(expression)


def _expression(node: Node, depth: int) -> nodes.Expr:
    if depth > PREDICATE_DEPTH:
        raise PredicateError(f"the predicate is nested deeper than {PREDICATE_DEPTH} levels")

    def inner(part: Node) -> nodes.Expr:
        return _expression(part, depth + 1)

    match node:
        case ColumnNode(path):
            return nodes.Column(_path(path))
        case LiteralNode(type_, value):
            return literal_of(value, type_of(type_))
        case CallNode(function, arguments, type_):
            result = None if type_ is None else type_of(type_)
            return nodes.Call(function, tuple(inner(argument) for argument in arguments), result)
        case CompareNode(operator, left, right):
            return nodes.Compare(_operator(operator), inner(left), inner(right))
        case InNode(operand, type_, options):
            shared = type_of(type_)
            return nodes.In(inner(operand), tuple(literal_of(value, shared) for value in options))
        case IsNullNode(operand):
            return nodes.IsNull(inner(operand))
        case LikeNode(operand, pattern, escape):
            return nodes.Like(inner(operand), pattern, escape)
        case AndNode() | OrNode() | NotNode() | ConstantNode():
            return _logic(node, inner)
        case OpaqueNode(columns, text, reason):
            return nodes.Opaque(tuple(nodes.Column(_path(path)) for path in columns), text, reason)
        case _:
            assert_never(node)


def _logic(
    node: AndNode | OrNode | NotNode | ConstantNode, inner: Callable[[Node], nodes.Expr]
) -> nodes.Expr:
    match node:
        case AndNode(operands):
            return nodes.conjunction(tuple(inner(operand) for operand in operands))
        case OrNode(operands):
            return nodes.disjunction(tuple(inner(operand) for operand in operands))
        case NotNode(operand):
            return nodes.Not(inner(operand))
        case ConstantNode(value):
            return nodes.Constant(value)
        case _:
            assert_never(node)


def _path(path: list[str]) -> tuple[str, ...]:
    if not path:
        raise PredicateError("a column has an empty path: give its name")
    return tuple(path)


def _operator(text: str) -> nodes.Operator:
    if text not in _OPERATORS:
        raise PredicateError(f"the operator {text[:20]!r} is not one of {' '.join(_OPERATORS)}")
    return _OPERATORS[text]


def _in_node(operand: nodes.Expr, options: tuple[nodes.Literal, ...]) -> Node:
    # A NULL among the options fits any type.
    types = {str(option.type) for option in options if option.value is not None}
    if len(types) > 1:
        equal = nodes.Operator.EQ
        return OrNode([node_of(nodes.Compare(equal, operand, option)) for option in options])
    return InNode(
        node_of(operand), types.pop() if types else "null", [json_of(option.value) for option in options]
    )
