"""Trino's predicate of a scan, domains and filter, in the common expression form.

A domain is the set of values that a column may have; it becomes a predicate of the expression form.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pruner.errors import PredicateError
from pruner.expr.exact.clock import day_number
from pruner.expr.nodes import FALSE, TRUE, Expr, IsNull, Literal, Not, Operator, conjunction, disjunction
from pruner.expr.semantics import Semantics
from pruner_trino.comparing import TypedExpr, compare, equals_any
from pruner_trino.expressions import Expressions
from pruner_trino.messages import (
    AllValues,
    ColumnDomain,
    Content,
    DiscreteValues,
    NoValues,
    OpaqueValues,
    Range,
    RangeValues,
    TupleDomain,
    Values,
    read_content,
    survey,
)
from pruner_trino.values import NotUnderstood, TrinoType, literal


def column_domain(column: TypedExpr, values: Values, *, null_allowed: bool) -> Expr:
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


def _inside(column: TypedExpr, values: Values, kind: TrinoType) -> Expr | None:
    """The predicate on values that are not NULL; None if all of them are inside."""
    match values:
        case AllValues():
            return None
        case NoValues():
            return FALSE
        case RangeValues(ranges):
            return _in_ranges(column, [_Span.of(span, kind) for span in ranges])
        case DiscreteValues(inclusive, listed):
            predicate = equals_any(column, [_value(value, kind) for value in listed])
            return predicate if inclusive else Not(predicate)
        case OpaqueValues():
            raise AssertionError("opaque values are refused before")


@dataclass(frozen=True, slots=True)
class _End:
    """One end of a range; its value is neither NULL nor NaN."""

    value: Literal
    inclusive: bool


@dataclass(frozen=True, slots=True)
class _Span:
    """A range with its values decoded; both ends of a single-value range are the same object."""

    low: _End | None
    high: _End | None

    @classmethod
    def of(cls, given: Range, kind: TrinoType) -> _Span:
        low = None if given.low is None else _End(_value(given.low.value, kind), given.low.inclusive)
        if given.low == given.high and low is not None and low.inclusive:
            return cls(low, low)
        high = None if given.high is None else _End(_value(given.high.value, kind), given.high.inclusive)
        return cls(low, high)

    @property
    def only_value(self) -> Literal | None:
        """The literal of a single-value range; None for others."""
        return self.low.value if self.low is not None and self.low is self.high else None


def _value(value: Any, kind: TrinoType) -> Literal:
    operand = literal(value, kind)
    if operand.value is None or (isinstance(operand.value, float) and math.isnan(operand.value)):
        raise NotUnderstood("a domain with NULL or NaN among its values")
    return operand


def _in_ranges(column: TypedExpr, spans: Sequence[_Span]) -> Expr | None:
    """A predicate that the value is in one of the ranges; None if every value is.

    Ranges that are open at both ends mean all values but some, so NaN, which is in no range, may match: they become the
    negation of the gaps, which is true for NaN.
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
    start, end = _order(low.value), _order(high.value)
    first = start if before.low is None else _order(before.low.value)
    touching = start == end and not low.inclusive and not high.inclusive
    if first > start or not (start < end or touching):
        return None
    if touching:
        point = _End(low.value, inclusive=True)
        return _Span(point, point)
    return _Span(_End(low.value, not low.inclusive), _End(high.value, not high.inclusive))


def _order(order: Literal) -> Any:
    """A sort key for values of one type; days outside the range of Python's dates are numbers."""
    return day_number(order.value) if isinstance(order.value, datetime.date) else order.value


def _in_some(column: TypedExpr, spans: Sequence[_Span]) -> Expr:
    points = [point for span in spans if (point := span.only_value) is not None]
    ranges = [_in_range(column, span) for span in spans if span.only_value is None]
    return disjunction((*((equals_any(column, points),) if points else ()), *ranges))


def _in_range(column: TypedExpr, span: _Span) -> Expr:
    ends: list[Expr] = []
    if span.low is not None:
        ends.append(compare(Operator.GE if span.low.inclusive else Operator.GT, column, span.low.value))
    if span.high is not None:
        ends.append(compare(Operator.LE if span.high.inclusive else Operator.LT, column, span.high.value))
    return conjunction(tuple(ends)) if ends else Not(IsNull(column.expr))


def decode_request(content: bytes, semantics: Semantics) -> Expr:
    """Decode the predicate of one scan.

    Args:
        content: the JSON that docs/trino-predicates.md describes.
        semantics: the rules that the predicate follows; the engine must be Trino.

    Returns:
        The conjunction of all domains and the expression; each part that is not understood is an `Opaque` with the
        reason.

    Raises:
        PredicateError: the content has another shape, names columns that it does not have, or is for another engine.
    """
    if semantics.engine != "trino":
        raise PredicateError(
            f"a predicate in Trino's form was sent for {semantics.engine}: set the engine to trino"
        )
    request = read_content(content)
    _require_columns(request)
    decoder = Expressions(request.columns)
    parts = [part for domain in request.domains for part in _domain(domain, decoder)]
    if request.expression is not None:
        parts.append(decoder.predicate(request.expression))
    return conjunction(tuple(dict.fromkeys(part for part in parts if part != TRUE)))


def _domain(domain: TupleDomain, decoder: Expressions) -> Iterator[Expr]:
    if domain.none:
        yield FALSE
    for column in domain.columns:
        yield decode_domain(column, decoder)


def decode_domain(domain: ColumnDomain, decoder: Expressions) -> Expr:
    """Decode the domain of one column; one that is not understood is an `Opaque`."""
    try:
        column = decoder.column(domain.column)
        return column_domain(column, domain.values, null_allowed=domain.null_allowed)
    except NotUnderstood as reason:
        text = f"a domain of {decoder.name(domain.column)}"
        return decoder.opaque([domain.column], text, str(reason))


def _require_columns(content: Content) -> None:
    """Require that every id is that of a column: an unknown id means that the whole would be misunderstood."""
    named = [column.column for domain in content.domains for column in domain.columns]
    if content.expression is not None:
        named += survey(content.expression)[0]
    missing = sorted(set(named) - content.columns.keys())
    if missing:
        raise PredicateError(
            f"the predicate names the column {missing[0][:60]!r}, which `columns` does not have"
        )
