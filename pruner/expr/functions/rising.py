"""Functions of one column that never fall: a condition on the column implies something for their values.

`ts < TIMESTAMP '2024-05-01 12:00'` holds where `date(ts)` is before that day, does not hold where it is after it, and
on the day itself it may. That is a point that is not exact, so it is valid under NOT as well (trap L6). The function is
the kernel's own evaluation, of values in its domain, and the asking engine computes only the column: neither its
spelling nor its zone matters.

Values are those of the reference: days, microseconds of the wall clock in UTC, integers and text.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pruner.expr.bound.predicates import Point
from pruner.expr.exact.clock import nanoseconds
from pruner.expr.functions.inverse import NotInvertible
from pruner.expr.functions.walls import DAY, FIRST, LAST, date_at, start_of
from pruner.expr.nodes import Operator
from pruner.expr.types import integer_range, is_string, unit_of

if TYPE_CHECKING:
    from pruner.expr.bound.predicates import StorageValue
    from pruner.expr.functions.function import Argument, Evaluate
    from pruner.schema import Field

_IN_ORDER: Final = ("%Y", "%m", "%d", "%H", "%M", "%S")
"""Parts of a pattern from the longest period to the shortest. Each has a fixed number of digits."""


@dataclass(frozen=True, slots=True)
class Rising:
    """A function of a column, in the domains in which both are stored."""

    field: Field
    """The field that represents its values."""
    evaluate: Callable[[StorageValue], StorageValue]

    def point(self, operator: Operator, point: Point) -> Point:
        """The point for which `function operator point` follows from `column operator point`.

        Where the bound of the range is the first or the last value with its result, the two conditions are equivalent.

        Raises:
            NotInvertible: the point implies nothing for the function.
        """
        if point.nan:
            raise NotInvertible("a comparison with NaN")
        low, high = self._result(point.low), self._result(point.high)
        match operator:
            case Operator.LT | Operator.GE if point.exact and low is not None:
                return Point(low, low, exact=self._begins(point.low))
            case Operator.LE | Operator.GT if point.exact and high is not None:
                return Point(high, high, exact=self._ends(point.high))
            case Operator.EQ | Operator.NE if point.exact:
                return Point(low, high, exact=self._begins(point.low) and self._ends(point.high))
            case _:
                return Point(low, high, exact=False)

    def prefix(self, prefix: bytes) -> tuple[bytes, bool]:
        """The result's prefix for texts with this prefix, and whether the two conditions are equivalent.

        Raises:
            NotInvertible: the prefix is not UTF-8.
        """
        value = self._result(prefix)
        assert isinstance(value, bytes)
        return value, value == prefix

    def _result(self, value: StorageValue | None) -> StorageValue | None:
        try:
            result = None if value is None else self.evaluate(value)
        except (ValueError, OverflowError):
            raise NotInvertible("a value outside the calendar, or text that is not UTF-8") from None
        if isinstance(result, int) and not self._fits(result):
            # Recorded values that are all on one side of it prove nothing: files with such values have no record.
            raise NotInvertible("a result that cannot be recorded")
        return result

    def _fits(self, result: int) -> bool:
        if not pa.types.is_integer(self.field.type):
            return True
        least, greatest = integer_range(self.field.type)
        return least <= result <= greatest

    def _begins(self, value: StorageValue | None) -> bool:
        """Whether no smaller value has the same result. Results of text are prefixes."""
        if isinstance(value, bytes):
            return self._result(value) == value
        return isinstance(value, int) and self._differ(value - 1, value)

    def _ends(self, value: StorageValue | None) -> bool:
        """Whether no greater value has the same result."""
        if isinstance(value, bytes):
            return self._differ(value, value + b"\0")
        return isinstance(value, int) and self._differ(value, value + 1)

    def _differ(self, one: StorageValue, other: StorageValue) -> bool:
        try:
            return self._result(one) != self._result(other)
        except NotInvertible:
            return False  # one of them is outside the calendar


def in_storage(
    evaluate: Evaluate, source: pa.DataType, result: pa.DataType
) -> Callable[[StorageValue], StorageValue]:
    """A function of the reference's values as one of the storage values of columns of these types."""
    before = _to_reference(source)
    after: Evaluate = str.encode if is_string(result) else _unchanged
    return lambda value: after(evaluate(before(value)))


def _to_reference(source: pa.DataType) -> Evaluate:
    if is_string(source):
        return _decoded
    if pa.types.is_timestamp(source):
        return partial(_microseconds, nanoseconds(unit_of(source)))
    return _unchanged


def _unchanged(value: Any) -> Any:
    return value


def _decoded(value: bytes) -> str:
    return value.decode()


def _microseconds(unit: int, value: int) -> int:
    return value * unit // 1000


def written(arguments: Sequence[Argument]) -> Evaluate | None:
    """`format`, where the pattern has longer periods before shorter ones without gaps."""
    pattern = str(arguments[1].constant)
    parts = tuple(pattern[at : at + 2] for at, sign in enumerate(pattern) if sign == "%")
    if parts != _IN_ORDER[: len(parts)]:
        return None
    to_moment = _to_moment(arguments[0].type)
    return lambda value: _formatted(pattern, to_moment(value))


def _formatted(pattern: str, moment: int) -> str:
    day = date_at(moment)
    seconds = moment % DAY // 1_000_000
    numbers = (day.year, day.month, day.day, seconds // 3600, seconds // 60 % 60, seconds % 60)
    text = pattern
    for part, number in zip(_IN_ORDER, numbers, strict=True):
        text = text.replace(part, f"{number:04}" if part == "%Y" else f"{number:02}")
    return text


def year(arguments: Sequence[Argument]) -> Evaluate:
    """The year of a moment."""
    to_moment = _to_moment(arguments[0].type)
    return lambda value: date_at(to_moment(value)).year


def year_of_week(arguments: Sequence[Argument]) -> Evaluate:
    """The week year of a moment."""
    to_moment = _to_moment(arguments[0].type)
    return lambda value: date_at(to_moment(value)).isocalendar().year


def last_day(arguments: Sequence[Argument]) -> Evaluate:
    """The last day of the month of a moment."""
    to_moment = _to_moment(arguments[0].type)

    def evaluate(value: int) -> int:
        day = date_at(to_moment(value))
        return to_moment(value) // DAY + monthrange(day.year, day.month)[1] - day.day

    return evaluate


def date(arguments: Sequence[Argument]) -> Evaluate:
    """The date of a moment."""
    to_moment = _to_moment(arguments[0].type)
    return lambda value: to_moment(value) // DAY


def truncated(arguments: Sequence[Argument]) -> Evaluate:
    """`date_trunc`."""
    unit, to_moment = str(arguments[0].constant), _to_moment(arguments[1].type)
    return lambda value: start_of(unit, to_moment(value))


def beginning(arguments: Sequence[Argument]) -> Evaluate | None:
    """`substring` from the first character: text is ordered by its characters."""
    first, count = arguments[1].constant, arguments[2].constant
    return (lambda value: value[:count]) if first == 1 else None


def added(arguments: Sequence[Argument]) -> Evaluate | None:
    """An integer plus a constant."""
    constant = next((argument.constant for argument in arguments if argument.is_constant), None)
    return None if not isinstance(constant, int) else lambda value: value + constant


def subtracted(arguments: Sequence[Argument]) -> Evaluate | None:
    """An integer minus a constant, never a constant minus an integer."""
    constant = arguments[1].constant
    return None if not isinstance(constant, int) else lambda value: value - constant


def multiplied(arguments: Sequence[Argument]) -> Evaluate | None:
    """An integer times a constant above zero (trap L7)."""
    constant = next((argument.constant for argument in arguments if argument.is_constant), None)
    return None if not isinstance(constant, int) or constant <= 0 else lambda value: value * constant


def divided(arguments: Sequence[Argument]) -> Evaluate | None:
    """An integer divided by a constant of at least 1, truncated."""
    by = arguments[1].constant
    return None if not isinstance(by, int) else lambda value: value // by if value >= 0 else -(-value // by)


def later(arguments: Sequence[Argument]) -> Evaluate | None:
    """A date plus a number of days."""
    days = arguments[1].constant
    return None if not isinstance(days, int) else lambda value: value + days


def _to_moment(type_: pa.DataType) -> Callable[[int], int]:
    """Microseconds of a moment.

    Raises (when it is called):
        ValueError: the calendar does not have it.
    """
    return partial(_moment, DAY if pa.types.is_date(type_) else 1)


def _moment(scale: int, value: int) -> int:
    moment = value * scale
    if not FIRST <= moment <= LAST:
        raise ValueError("outside the calendar")
    return moment
