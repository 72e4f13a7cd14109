"""One decoded node of a Catalyst expression, before it becomes part of the whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pruner.expr.build import any_of, predicate
from pruner.expr.nodes import (
    FALSE,
    TRUE,
    And,
    Column,
    Constant,
    Expr,
    IsNull,
    Not,
    Opaque,
    Or,
    conjunction,
    disjunction,
)
from pruner.expr.show import show
from pruner.expr.walk import columns_of

if TYPE_CHECKING:
    from pruner_spark.catalyst.source import JsonNode

BOOLEAN: Final = pa.bool_()
DEEPEST: Final = 100
"""Levels of a decoded expression, half of what binding accepts."""
LARGEST: Final = 50_000
"""Most nodes of a part that is about to be repeated (a condition and its negation)."""

_TEXT = 200
_SHOWN = 8
_CLASSES = "org.apache.spark.sql.catalyst.expressions."


@dataclass(slots=True)
class DecodedNode:
    """A decoded node.

    `type` is None for types on which predicates are never decided. `null` is the predicate that tells whether the
    value is NULL. `path` and `fields` serve the fields of structs; `moment` is the operand of a cast to an instant,
    `zone` the session's zone if the cast uses it; `day` is the date operand of a cast to text; `depth` and `size`
    bound what is built from the part.
    """

    expr: Expr
    type: pa.DataType | None = None
    null: Expr | None = None
    path: tuple[str, ...] = ()
    fields: tuple[Any, ...] = ()
    moment: DecodedNode | None = None
    zone: str | None = None
    day: DecodedNode | None = None
    depth: int = 1
    size: int = 1

    def over(self, children: Sequence[DecodedNode]) -> DecodedNode:
        """The part, with its bounds computed from its children."""
        self.depth = max((child.depth for child in children), default=0) + 1
        self.size = sum(child.size for child in children) + 1
        return self

    def repeating(self, children: Sequence[DecodedNode]) -> DecodedNode:
        """The part, with the bounds of a formula that repeats its parts up to three times, two levels for each."""
        self.over(children)
        self.depth += 2 * len(children)
        self.size *= 3
        return self

    @property
    def predicate(self) -> Expr:
        """The part as a truth value."""
        return predicate(self.expr)

    @property
    def is_null(self) -> Expr:
        """Whether the part is NULL."""
        return IsNull(self.expr) if self.null is None else self.null

    @property
    def is_not_null(self) -> Expr:
        """Whether the part is not NULL."""
        return negated(self.is_null)

    @property
    def is_true(self) -> Expr:
        """Whether the part is true, as opposed to false or NULL."""
        return conjunction(
            tuple(expression for expression in (self.predicate, self.is_not_null) if expression != TRUE)
        )


@dataclass(slots=True)
class Junction:
    """AND or OR under construction; chains of any length are gathered without copying."""

    kind: type[And] | type[Or]
    operands: deque[Expr]
    depth: int
    size: int

    def closed(self) -> DecodedNode:
        """The finished junction as a node."""
        operands = tuple(self.operands)
        made = any_of(operands) if self.kind is Or else conjunction(operands)
        return DecodedNode(made, BOOLEAN, depth=self.depth, size=self.size)


def join(kind: type[And] | type[Or], left: DecodedNode | Junction, right: DecodedNode | Junction) -> Junction:
    """AND or OR of two parts; junctions of the same kind are merged."""
    first, second = _opened(kind, left), _opened(kind, right)
    if len(first.operands) >= len(second.operands):
        operands = first.operands
        operands.extend(second.operands)
    else:
        operands = second.operands
        operands.extendleft(reversed(first.operands))
    return Junction(kind, operands, max(first.depth, second.depth), first.size + second.size)


def _opened(kind: type[And] | type[Or], part: DecodedNode | Junction) -> Junction:
    if isinstance(part, Junction) and part.kind is kind:
        return part
    single = closed(part)
    return Junction(kind, deque((single.predicate,)), single.depth + 1, single.size + 1)


def closed(part: DecodedNode | Junction) -> DecodedNode:
    """The part as a node, for use in anything but a junction of its own kind."""
    return part.closed() if isinstance(part, Junction) else part


def negated(expression: Expr) -> Expr:
    """NOT, with constants and double negations folded."""
    match expression:
        case Constant(value):
            return Constant(None if value is None else not value)
        case Not(operand):
            return operand
        case _:
            return Not(expression)


def chosen(condition: DecodedNode, then: Expr, otherwise: Expr) -> Expr:
    """IF over truth values, which takes the else branch when the condition is NULL."""
    met = condition.is_true
    return disjunction((conjunction((met, then)), conjunction((negated(met), otherwise))))


def any_null(*parts: DecodedNode) -> Expr:
    """Whether any of several values is NULL, which makes a comparison of them NULL."""
    tests = tuple(part.is_null for part in parts)
    return TRUE if TRUE in tests else disjunction(tuple(test for test in tests if test != FALSE))


def opaque(node: JsonNode, children: Sequence[DecodedNode | Junction], reason: str) -> DecodedNode:
    """A node that is not understood, with the columns below it."""
    parts = [closed(part) for part in children]
    columns = dict.fromkeys(column for part in parts for column in _columns(part))
    text = _text(node, parts)
    return DecodedNode(
        Opaque(tuple(columns), text if len(text) <= _TEXT else text[:_TEXT] + "…", reason), None
    )


def _text(node: JsonNode, parts: Sequence[DecodedNode]) -> str:
    name = str(node.get("class", "")).removeprefix(_CLASSES)
    if name == "AttributeReference":
        return str(node.get("name", ""))
    shown = [_shown(part) for part in parts[:_SHOWN]]
    if not parts and isinstance(node.get("value"), str):
        shown = [repr(node["value"])]
    more = ", …" if len(parts) > _SHOWN else ""
    target = f" AS {node['dataType']}" if parts and isinstance(node.get("dataType"), str) else ""
    return f"{name}({', '.join(shown)}{more}{target})"


def _shown(part: DecodedNode) -> str:
    return ".".join(part.path) if part.path else show(part.expr, _TEXT)


def _columns(part: DecodedNode) -> tuple[Column, ...]:
    return (Column(part.path),) if part.path else columns_of(part.expr)
