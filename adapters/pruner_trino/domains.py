"""Trino's domains, sets of values that a column may have, as predicates of the expression form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pruner.expr.nodes import (
    FALSE,
    TRUE,
    Expr,
    IsNull,
    Not,
    Operator,
    conjunction,
    disjunction,
)
from pruner_trino.comparing import Part, compare, equals_any
from pruner_trino.messages import (
    AllValues,
    DiscreteValues,
    NoValues,
    OpaqueValues,
    Range,
    RangeValues,
    Values,
)
from pruner_trino.types import TrinoType
from pruner_trino.values import NotUnderstood, literal


def column_domain(column: Part, values: Values, *, null_allowed: bool) -> Expr:
    """Return the predicate that a column's values lie in a domain.

    Raises:
        NotUnderstood: the domain, or a value in it, has no counterpart in the expression form.
    """
    if isinstance(values, OpaqueValues):
        raise NotUnderstood(values.text[:200])
    kind = column.known
    inside = _inside(column, values, kind)
    if not null_allowed:
        return Not(IsNull(column.expr)) if inside is None else inside
    if inside is None:
        return TRUE
    null = IsNull(column.expr)
    return null if inside == FALSE else disjunction((null, inside))


def _inside(column: Part, values: Values, kind: TrinoType) -> Expr | None:
    """What is said of values that are not NULL; None if every one is inside."""
    match values:
        case AllValues():
            return None
        case NoValues():
            return FALSE
        case RangeValues(ranges):
            return _in_ranges(column, [_Span.of(each, kind) for each in ranges])
        case DiscreteValues(inclusive, listed):
            found = equals_any(column, [_value(value, kind) for value in listed])
            return found if inclusive else Not(found)
        case OpaqueValues():
            raise AssertionError("opaque values are refused before")


@dataclass(frozen=True, slots=True)
class _End:
    """One end of a range; its value is no NULL and no NaN."""

    value: Any
    inclusive: bool


@dataclass(frozen=True, slots=True)
class _Span:
    """A range with its values decoded."""

    low: _End | None
    high: _End | None

    @classmethod
    def of(cls, given: Range, kind: TrinoType) -> _Span:
        low, high = (
            None if end is None else _End(_value(end.value, kind), end.inclusive)
            for end in (given.low, given.high)
        )
        return cls(low, high)

    @property
    def only_value(self) -> Any:
        """The literal of a range that holds one value; None for others."""
        low, high = self.low, self.high
        single = low and high and low.inclusive and high.inclusive and low.value == high.value
        return low.value if low and single else None


def _value(value: Any, kind: TrinoType) -> Any:
    found = literal(value, kind)
    if found.value is None or (isinstance(found.value, float) and math.isnan(found.value)):
        raise NotUnderstood("a domain with NULL or NaN among its values")
    return found


def _in_ranges(column: Part, spans: Sequence[_Span]) -> Expr | None:
    """One of the ranges holds.

    Ranges that are open at both ends are all values but some, and there NaN, which is in no range, may be wanted: they
    become the denial of what lies between, which is true of NaN.
    """
    if not spans:
        return FALSE
    if spans[0].low is None and spans[-1].high is None:
        gaps = [_between(before, after) for before, after in pairwise(spans)]
        if not gaps:
            return None
        if all(gap is not None for gap in gaps):
            return Not(_in_some(column, [gap for gap in gaps if gap is not None]))
        if column.known.has_nan:
            raise NotUnderstood("ranges that are not in order")
    return _in_some(column, spans)


def _between(before: _Span, after: _Span) -> _Span | None:
    """The gap between two ranges that follow each other; None where they overlap or are in another order."""
    low, high = before.high, after.low
    if low is None or high is None or low.value.type != high.value.type:
        return None
    below = low.value.value < high.value.value
    touching = low.value.value == high.value.value and not low.inclusive and not high.inclusive
    ordered = before.low is None or before.low.value.value <= low.value.value
    if not ordered or not (below or touching):
        return None
    return _Span(_End(low.value, not low.inclusive), _End(high.value, not high.inclusive))


def _in_some(column: Part, spans: Sequence[_Span]) -> Expr:
    points = [span.only_value for span in spans if span.only_value is not None]
    ranges = [_in_range(column, span) for span in spans if span.only_value is None]
    return disjunction((*((equals_any(column, points),) if points else ()), *ranges))


def _in_range(column: Part, span: _Span) -> Expr:
    ends: list[Expr] = []
    if span.low is not None:
        ends.append(compare(Operator.GE if span.low.inclusive else Operator.GT, column, span.low.value))
    if span.high is not None:
        ends.append(compare(Operator.LE if span.high.inclusive else Operator.LT, column, span.high.value))
    return conjunction(tuple(ends)) if ends else Not(IsNull(column.expr))
