"""The expression form as JSON, for programs in other languages (docs/http.md has the grammar).

Every node is an object whose `node` says which it is. Values are plain JSON where JSON has them: integers of any
size, true, false, null and finite doubles. The others are texts: decimals by their digits, NaN, Infinity and
-Infinity by these words, dates as `2024-02-29` (or the days since 1970-01-01 as an integer), binary in base64.
Timestamps are integers in the unit of their type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, assert_never

import msgspec

from pruner.errors import PredicateError
from pruner.expr import nodes
from pruner.expr.wire.values import Json, json_of, literal_of, type_of
from pruner.limits import PREDICATE_DEPTH


class ColumnNode(msgspec.Struct, tag_field="node", tag="column", forbid_unknown_fields=True):
    """A column by its path."""

    path: list[str]


class LiteralNode(msgspec.Struct, tag_field="node", tag="literal", forbid_unknown_fields=True):
    """A typed constant; `type` as Arrow writes it."""

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
    """Return the expression that a decoded JSON node stands for.

    Raises:
        PredicateError: it is nested too deep, or an operator, type or value in it is not known.
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
                function, [node_of(each) for each in arguments], None if type_ is None else str(type_)
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
            return AndNode([node_of(each) for each in operands])
        case nodes.Or(operands):
            return OrNode([node_of(each) for each in operands])
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
            return nodes.Call(function, tuple(inner(each) for each in arguments), result)
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
            return nodes.conjunction(tuple(inner(each) for each in operands))
        case OrNode(operands):
            return nodes.disjunction(tuple(inner(each) for each in operands))
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
    # A NULL among the options is one of any type.
    types = {str(option.type) for option in options if option.value is not None}
    if len(types) > 1:
        equal = nodes.Operator.EQ
        return OrNode([node_of(nodes.Compare(equal, operand, option)) for option in options])
    return InNode(
        node_of(operand), types.pop() if types else "null", [json_of(each.value) for each in options]
    )
