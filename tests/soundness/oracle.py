"""What minima, maxima and counts prove about a predicate on one file: a second, scalar implementation.

It shares no code with pruner: one file at a time, plain Python values, NaN as the greatest number (the rule of DuckDB
and Spark). Plans must keep exactly the files that it keeps: fewer would lose rows, more would waste what the
statistics prove.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tests.soundness.predicates import Combined, Predicate, Test

TRUE, FALSE, NULL = "true", "false", "null"
SWAPPED = {TRUE: FALSE, FALSE: TRUE, NULL: NULL}
NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True)
class ColumnFacts:
    """Facts of one column in one file; `low` and `high` ignore NULL and NaN and are None where no value is left."""

    rows: int
    nulls: int
    nans: int
    low: Any
    high: Any


def facts(values: list[Any]) -> ColumnFacts:
    """Compute the facts from the values of one column of one file."""
    present = [value for value in values if value is not None]
    numbers = [value for value in present if not (isinstance(value, float) and math.isnan(value))]
    keyed = [_key(value) for value in numbers]
    return ColumnFacts(
        rows=len(values),
        nulls=len(values) - len(present),
        nans=len(present) - len(numbers),
        low=min(keyed, default=None),
        high=max(keyed, default=None),
    )


def _key(value: Any) -> Any:
    """Strings compare by their UTF-8 bytes in all engines, but not always in Python's str."""
    return value.encode() if isinstance(value, str) else value


def can(predicate: Predicate, outcome: str, of: dict[str, ColumnFacts]) -> bool:
    """Tell whether the facts leave room for a row on which the predicate evaluates to `outcome`."""
    if isinstance(predicate, Test):
        return _leaf(predicate, outcome, of[predicate.column])
    if predicate.operator == "not":
        return can(predicate.operands[0], SWAPPED[outcome], of)
    if predicate.operator in ("null", "true", "false"):
        return _of_whole(predicate.operator, predicate.operands[0], outcome, of)
    absorbing = FALSE if predicate.operator == "and" else TRUE
    parts = predicate.operands
    if outcome == absorbing:
        return any(can(part, absorbing, of) for part in parts)
    if outcome == SWAPPED[absorbing]:
        return all(can(part, outcome, of) for part in parts)
    neutral = SWAPPED[absorbing]
    return any(can(part, NULL, of) for part in parts) and all(
        can(part, NULL, of) or can(part, neutral, of) for part in parts
    )


def _of_whole(tested: str, operand: Predicate, outcome: str, of: dict[str, ColumnFacts]) -> bool:
    """`operand IS NULL`, and IS TRUE, IS FALSE as `operand AND operand IS NOT NULL`.

    The facts treat the two operands of that AND separately, so they leave room for NULL, which IS TRUE never is.
    """
    is_null = Combined("null", (operand,))
    match tested:
        case "null" if outcome == TRUE:
            return can(operand, NULL, of)
        case "null":
            return outcome == FALSE and (can(operand, TRUE, of) or can(operand, FALSE, of))
        case _:
            wanted = operand if tested == "true" else Combined("not", (operand,))
            return can(Combined("and", (wanted, Combined("not", (is_null,)))), outcome, of)


def _leaf(test: Test, outcome: str, of: ColumnFacts) -> bool:
    if test.operator == "null":
        return {TRUE: of.nulls > 0, FALSE: of.nulls < of.rows, NULL: False}[outcome]
    values_left = of.low is not None
    if test.operator == "prefix":
        return _prefix(test.operands[0].encode(), outcome, of, values_left)
    if test.operator == "in":
        return _in(test, outcome, of, values_left)
    if outcome == NULL:
        return of.nulls > 0
    operator = test.operator if outcome == TRUE else NEGATED[test.operator]
    return (values_left and _range(operator, _key(test.operands[0]), of)) or (
        of.nans > 0 and operator in ("!=", ">", ">=")
    )


def _range(operator: str, literal: Any, of: ColumnFacts) -> bool:
    return {
        "=": of.low <= literal <= of.high and not _between_integers(literal, of),
        "!=": not (of.low == of.high == literal),
        "<": of.low < literal,
        "<=": of.low <= literal,
        ">": of.high > literal,
        ">=": of.high >= literal,
    }[operator]


def _between_integers(literal: Any, of: ColumnFacts) -> bool:
    """No integer equals 1.5, wherever it lies between the bounds."""
    return isinstance(of.low, int) and not isinstance(of.low, bool) and literal != int(literal)


def _prefix(prefix: bytes, outcome: str, of: ColumnFacts, values_left: bool) -> bool:
    if outcome == NULL:
        return of.nulls > 0
    if not values_left:
        return False
    if outcome == TRUE:
        return of.high >= prefix and of.low[: len(prefix)] <= prefix
    return not (of.low[: len(prefix)] == prefix == of.high[: len(prefix)])


def _in(test: Test, outcome: str, of: ColumnFacts, values_left: bool) -> bool:
    options = {_key(option) for option in test.operands if option is not None}
    has_null = None in test.operands
    some_other = of.nans > 0 or (values_left and not (of.low == of.high and of.low in options))
    match outcome:
        case "true":
            return values_left and any(_range("=", option, of) for option in options)
        case "false":
            return not has_null and some_other
        case _:
            return of.nulls > 0 or (has_null and some_other)
