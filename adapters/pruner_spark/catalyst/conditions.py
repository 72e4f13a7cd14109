"""Truth values built from parts: comparisons, lists, patterns, cases and tests for NULL, from any kind of node."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Final, cast

import pyarrow as pa

from pruner.expr.exact.clock import offsets_near
from pruner.expr.exact.patterns import literal_beginning, literal_pattern
from pruner.expr.nodes import (
    FALSE,
    Call,
    Compare,
    Constant,
    Expr,
    In,
    Like,
    Literal,
    Opaque,
    Operator,
    conjunction,
    disjunction,
)
from pruner.expr.types import is_string
from pruner_spark.catalyst.part import BOOLEAN, LARGEST, DecodedNode, any_null, chosen, negated
from pruner_spark.catalyst.source import INSTANT, UntranslatableError
from pruner_spark.catalyst.values import choice

_WALL: Final = pa.timestamp("us")
_BRANCHES = 32
_FIRST_YEAR = 1900


def negation(children: list[DecodedNode]) -> DecodedNode:
    """NOT."""
    [child] = children
    return DecodedNode(negated(child.predicate), BOOLEAN, null=child.null).over(children)


def compare(operator: Operator, children: list[DecodedNode]) -> DecodedNode:
    """A comparison of two values of one type."""
    left, right = comparable(children)
    null = any_null(*children)
    if left.type == BOOLEAN and isinstance(right.expr, Literal) and not left.path:
        truth = _truth(operator, left, right.expr)
        if truth is not None:
            return DecodedNode(truth, BOOLEAN, null=null).over(children)
    made = Compare(operator, left.expr, right.expr)
    return DecodedNode(made, BOOLEAN, null=null).over(children)


def _truth(operator: Operator, left: DecodedNode, right: Literal) -> Expr | None:
    """`condition = true` and the like as the condition itself."""
    if operator not in (Operator.EQ, Operator.NE) or not isinstance(right.value, bool):
        return None
    return left.predicate if right.value is (operator is Operator.EQ) else negated(left.predicate)


def comparable(children: list[DecodedNode]) -> list[DecodedNode]:
    """The operands; a cast to an instant that is compared with constants is compared by wall clock instead."""
    casts = [child for child in children if not isinstance(child.expr, Literal)]
    if len(casts) != 1 or casts[0].moment is None:
        return children
    constants = [child for child in children if child is not casts[0]]
    moment, literals = by_clocks(casts[0], [cast("Literal", child.expr) for child in constants])
    of_type = {
        id(child): DecodedNode(made, made.type) for child, made in zip(constants, literals, strict=True)
    }
    return [of_type.get(id(child), moment) for child in children]


def by_clocks(operand: DecodedNode, literals: Sequence[Literal]) -> tuple[DecodedNode, tuple[Literal, ...]]:
    """The operand of a cast to an instant, and the constants to compare it with.

    The constants are the wall-clock times at the instants that the cast is compared with, if no clock changes near any
    of them. The comparisons are then equivalent: an instant further away than clocks ever change comes from a value on
    the same side.
    """
    if operand.moment is None:
        return operand, tuple(literals)
    walls = [_wall(literal, operand.zone) for literal in literals]
    certain = tuple(wall for wall in walls if wall is not None)
    return operand.moment, certain if len(certain) == len(walls) else tuple(literals)


def _wall(literal: Literal, zone: str | None) -> Literal | None:
    """The wall-clock time of a zone at an instant; None where it is not certain and one-to-one."""
    if literal.value is None:
        return Literal(None, _WALL)
    if zone is None or literal.type != INSTANT or not isinstance(literal.value, int):
        return None
    least, greatest = offsets_near(zone, literal.value * 1000)
    return Literal(literal.value + least // 1000, _WALL) if least == greatest else None


def null_safe(children: list[DecodedNode]) -> DecodedNode:
    """`<=>` with a constant."""
    left, right = comparable(children)
    if isinstance(left.expr, Literal):
        left, right = right, left
    if not isinstance(right.expr, Literal):
        raise UntranslatableError("null-safe equality of two columns")
    if right.expr.value is None:
        return DecodedNode(left.is_null, BOOLEAN, null=FALSE).over(children)
    truth = _truth(Operator.EQ, left, right.expr) if left.type == BOOLEAN and not left.path else None
    same = truth or Compare(Operator.EQ, left.expr, right.expr)
    made = conjunction((left.is_not_null, same))
    return DecodedNode(made, BOOLEAN, null=FALSE).repeating(children)


def in_list(children: list[DecodedNode]) -> DecodedNode:
    """IN over expressions, most often literals."""
    operand, *options = comparable(children)
    literals = tuple(option.expr for option in options if isinstance(option.expr, Literal))
    if len(literals) < len(options):
        raise UntranslatableError("a list of something else than constants")
    return member(operand, literals, children)


def member(operand: DecodedNode, literals: tuple[Literal, ...], children: list[DecodedNode]) -> DecodedNode:
    """The operand is one of the values, which may include NULL."""
    if operand.day is not None:
        operand, literals = operand.day, _days(literals)
    has_null = any(literal.value is None for literal in literals)
    null = None if has_null or not literals else operand.is_null
    return DecodedNode(In(operand.expr, literals), BOOLEAN, null=null).over(children)


def _days(literals: tuple[Literal, ...]) -> tuple[Literal, ...]:
    """The dates that these texts denote: outside ANSI mode, Spark turns `d IN ('2024-05-01')` into a list of texts.

    From 1900 on, each date has one text, whichever calendar Spark writes it in.
    """
    days: list[Literal] = []
    for literal in literals:
        day = _day_of(literal.value) if isinstance(literal.value, str) else None
        if day is None and literal.value is not None:
            raise UntranslatableError("text of a date in a list of other texts")
        days.append(Literal(day, pa.date32()))
    return tuple(days)


def _day_of(text: str) -> datetime.date | None:
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        return None
    return day if day.year >= _FIRST_YEAR and text == day.isoformat() else None


def is_null(children: list[DecodedNode]) -> DecodedNode:
    """IS NULL."""
    return DecodedNode(children[0].is_null, BOOLEAN, null=FALSE).over(children)


def is_not_null(children: list[DecodedNode]) -> DecodedNode:
    """IS NOT NULL."""
    return DecodedNode(children[0].is_not_null, BOOLEAN, null=FALSE).over(children)


def is_nan(children: list[DecodedNode]) -> DecodedNode:
    """`isnan`, which is false for NULL."""
    [child] = children
    if child.type is None or not pa.types.is_floating(child.type):
        raise UntranslatableError("isnan of something that is not a float")
    equal = Compare(Operator.EQ, child.expr, Literal(math.nan, child.type))
    return DecodedNode(conjunction((child.is_not_null, equal)), BOOLEAN, null=FALSE).repeating(children)


def affix(before: str, after: str, children: list[DecodedNode]) -> DecodedNode:
    """The form of a LIKE whose pattern has `%` at its ends only; the text between is literal."""
    operand, text = texts(children)
    pattern, escape = literal_pattern(text)
    made = Like(operand.expr, f"{before}{pattern}{after}", escape)
    return DecodedNode(made, BOOLEAN, null=operand.is_null).over(children)


def texts(children: list[DecodedNode]) -> tuple[DecodedNode, str]:
    """The operand and the constant pattern of a comparison with a pattern."""
    operand, pattern = children
    text = pattern.expr.value if isinstance(pattern.expr, Literal) else None
    if operand.type is None or not is_string(operand.type) or not isinstance(text, str):
        raise UntranslatableError("a pattern that is not constant text")
    return operand, text


def matches(children: list[DecodedNode]) -> DecodedNode:
    """RLIKE, as far as its pattern fixes the beginning of a text."""
    operand, pattern = texts(children)
    prefix = literal_beginning(pattern, anchored=False)
    if not prefix:
        raise UntranslatableError("a regular expression that does not say how a text begins")
    escaped, escape = literal_pattern(prefix)
    rest = Opaque((), "RLIKE", "only the beginning of a regular expression is used")
    made = conjunction((Like(operand.expr, f"{escaped}%", escape), rest))
    return DecodedNode(made, BOOLEAN, null=operand.is_null).over(children)


def case(children: list[DecodedNode]) -> DecodedNode:
    """IF and CASE WHEN: truth values become AND and OR, other values a function of conditions and values."""
    branches = list(zip(children[0:-1:2], children[1::2], strict=False))
    results = [result for _, result in branches] + ([children[-1]] if len(children) % 2 else [])
    if len(branches) > _BRANCHES:
        raise UntranslatableError(f"more than {_BRANCHES} cases")
    if any(result.type != BOOLEAN for result in results):
        return choice(children, [result.type for result in results]).over(children)
    _require_small(children)
    result = children[-1].predicate if len(children) % 2 else Constant(None)
    for condition, then in reversed(branches):
        result = chosen(condition, then.predicate, result)
    return DecodedNode(result, BOOLEAN).repeating(children)


def coalesce(children: list[DecodedNode]) -> DecodedNode:
    """The first operand that is not NULL; truth values become AND and OR."""
    if not all(child.type == BOOLEAN for child in children):
        types = {child.type for child in children}
        made = Call("coalesce", tuple(child.expr for child in children))
        return DecodedNode(made, types.pop() if len(types) == 1 else None).over(children)
    _require_small(children)
    result = children[-1].predicate
    for child in reversed(children[:-1]):
        present = child.is_not_null
        result = disjunction(
            (conjunction((present, child.predicate)), conjunction((negated(present), result)))
        )
    return DecodedNode(result, BOOLEAN).repeating(children)


def _require_small(children: list[DecodedNode]) -> None:
    if sum(child.size for child in children) > LARGEST:
        raise UntranslatableError("conditions that are too large to be taken apart")
