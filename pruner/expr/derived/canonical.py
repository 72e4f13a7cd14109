"""The canonical form of an expression, by which an index over it is found, whatever engine and dialect wrote it.

Columns are resolved, functions named as in the registry, patterns translated, constants of one type, and casts that
change nothing removed. Two expressions of one form have the same value wherever the rows of their functions hold.

Names that mean several functions are distinguished by the types of their arguments; conditions become calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from pruner.expr.exact.clock import nanoseconds
from pruner.expr.functions.function import DUCKDB, SPARK, TRINO, Argument, Evaluation
from pruner.expr.functions.registry import FUNCTIONS, REGISTRY_VERSION, cast_of_index, named, row_for
from pruner.expr.identifier import render_column_path
from pruner.expr.nodes import And, Call, Column, Compare, Expr, IsNull, Literal, Not, Opaque, Operator, Or
from pruner.expr.types import integer_range, is_instant, is_string, is_temporal, timestamp, unit_of
from pruner.expr.values import Interval
from pruner.expr.wire.nodes import Node, expression_of, node_of
from pruner.schema import Field


@dataclass(frozen=True, slots=True)
class Built:
    """A part of an expression in the canonical form, with its type in the asking engine."""

    expression: Expr
    type: pa.DataType


def by_type(name: str, arguments: list[Built], dialect: str | None) -> tuple[str, list[Built]]:
    """The function's name and arguments in the registry."""
    if dialect is None or len(arguments) != 2:
        return name, arguments
    first, second = arguments
    match name:
        case "add" | "subtract" if pa.types.is_date(first.type):
            return _dates(name, first, second, dialect)
        # In DuckDB it yields a timestamp.
        case "date_trunc" if pa.types.is_date(second.type) and dialect != DUCKDB:
            return "first day", arguments
        case "quotient" if dialect == TRINO and pa.types.is_signed_integer(first.type):
            return "whole quotient", arguments
        case _:
            return name, arguments


def _dates(name: str, date: Built, other: Built, dialect: str) -> tuple[str, list[Built]]:
    """A date plus days or, in DuckDB, the days between two dates."""
    if name == "subtract" and pa.types.is_date(other.type) and dialect == DUCKDB:
        return "days between", [date, other]
    if not isinstance(other.expression, Literal) or not isinstance(other.expression.value, int):
        return name, [date, other]
    days = other.expression.value * (1 if name == "add" else -1)
    return "days later", [date, Built(Literal(days, pa.int64()), pa.int64())]


_COMPARED: Final = {
    # operator: (row of the registry, whether operands are swapped, whether it is the negation)
    Operator.EQ: ("is equal", False, False),
    Operator.NE: ("is equal", False, True),
    Operator.LT: ("is less", False, False),
    Operator.GT: ("is less", True, False),
    Operator.LE: ("is at most", False, False),
    Operator.GE: ("is at most", True, False),
}


def as_calls(node: Compare | IsNull | Not | And | Or) -> tuple[str, tuple[Expr, ...], bool]:
    """The registry row of a condition, its operands, and whether it is negated."""
    match node:
        case Compare(operator, left, right):
            name, swapped, negated = _COMPARED[operator]
            # Rows of symmetric comparisons have the column first, even where the constant is written first.
            if name == "is equal" and isinstance(left, Literal):
                swapped = True
            return name, (right, left) if swapped else (left, right), negated
        case IsNull(operand):
            return "is null", (operand,), False
        case Not(operand):
            return "not", (operand,), False
        case And(operands):
            return "both", operands, False
        case Or(operands):
            return "either", operands, False


MOST_DEPTH: Final = 12
"""Deepest nesting of functions in an indexed expression."""

_PARTS_OF_DATES: Final = frozenset(
    {
        "year",
        "year of week",
        "last day",
        "quarter",
        "month",
        "day",
        "day of year",
        "week",
        "day of week, Monday 0",
        "day of week, Monday 1",
        "day of week, Sunday 0",
        "day of week, Sunday 1",
    }
)
"""Functions of a moment that depend on its date only, so that a cast to a date below them changes nothing."""

_MOST_EXACT_POWER: Final = 22
"""The greatest exact power of ten in a double."""

_NUMBERS: Final = frozenset({"add", "subtract", "multiply", "quotient"})
_WHOLE: Final = frozenset({"floor", "ceil"})
_STEPS_KEEP_DATES: Final = frozenset({SPARK, TRINO})
"""Engines in which a date and an interval of days yield a date. In DuckDB they yield a timestamp."""


class NotCanonical(Exception):  # noqa: N818 - callers make a sentence of it
    """An expression that no index can be over; `str()` is the reason, `name` the function or column at fault."""

    def __init__(self, reason: str, name: str = "") -> None:
        super().__init__(reason)
        self.name = name


class Applied(NamedTuple):
    """A function that is part of an expression, and its evaluation for its arguments there."""

    name: str
    evaluation: Evaluation


@dataclass
class Canonical:
    """An expression in the canonical form, with its columns and functions.

    `type` is that of its values in the asking engine. `clocks` tells whether an instant became a wall clock by the
    session's zone.
    """

    expression: Expr
    type: pa.DataType
    columns: dict[tuple[str, ...], Field] = field(default_factory=dict[tuple[str, ...], Field])
    functions: list[Applied] = field(default_factory=list[Applied])
    clocks: bool = False

    @property
    def text(self) -> str:
        """The form as JSON: equal texts mean equal values."""
        return msgspec.json.encode(node_of(self.expression)).decode()


FindColumn = Callable[[Column], Field | str]
"""Gives the field of a column as the engine reads it, or the reason why there is none."""


def canonical(expression: Expr, find: FindColumn, engine: str | None) -> Canonical:
    """Bring an expression to the canonical form.

    Args:
        expression: as decoded from an engine's plan or text.
        find: resolves columns.
        engine: whose spelling it is; None for one that is already canonical.

    Raises:
        NotCanonical: it has a part that is not in the registry, or no column.
    """
    builder = _Builder(find, engine)
    form = builder.build(expression, 0)
    if pa.types.is_boolean(form.type):
        raise NotCanonical("conditions can be part of an expression only in a CASE")
    if not isinstance(form.expression, Call) or not builder.columns:
        raise NotCanonical("it is not a function of a column")
    return Canonical(form.expression, form.type, builder.columns, builder.functions, builder.clocks)


class _Builder:
    def __init__(self, find: FindColumn, engine: str | None) -> None:
        self._find = find
        self._engine = engine
        self.columns: dict[tuple[str, ...], Field] = {}
        self.functions: list[Applied] = []
        self.clocks = False

    def build(self, node: Expr, depth: int) -> Built:
        if depth > MOST_DEPTH:
            raise NotCanonical(f"it is nested more than {MOST_DEPTH} deep")
        match node:
            case Column():
                return self._column(node)
            case Call("read_as", (Column() as column,), pa.DataType() as read):
                return self._as_read(self._column(column), read)
            case Literal(Interval(months=0, nanoseconds=0) as step) if self._engine in _STEPS_KEEP_DATES:
                return _constant(Literal(step.days, pa.int64()))
            case Literal():
                return _constant(node)
            case Call("choose", parts):
                return self._choice(parts, depth)
            case Call("cast" | "try_cast" | "lenient_cast", (operand,), pa.DataType() as target):
                return self._cast(self.build(operand, depth + 1), target)
            case Call("timezone", (Literal(value="UTC"), operand)) if self._engine == DUCKDB:
                return self._clock_of_utc(self.build(operand, depth + 1))
            case Call():
                return self._call(node, depth)
            case Opaque(_, text, reason):
                raise NotCanonical(f"{text}: {reason}")
            case Compare() | IsNull() | Not() | And() | Or():
                return self._condition(node, depth)
            case _:
                raise NotCanonical("conditions of this kind cannot be part of an indexed expression")

    def _column(self, node: Column) -> Built:
        own_field = self._find(node)
        if isinstance(own_field, str):
            raise NotCanonical(own_field, node.path[-1])
        if own_field.partition:
            raise NotCanonical(f"column {own_field.name!r} stands in paths, which prune by themselves")
        if not _is_supported(own_field.type):
            raise NotCanonical(f"columns of type {own_field.type} cannot be part of it ({own_field.name!r})")
        self.columns[own_field.path] = own_field
        return Built(Column(own_field.path), own_field.type)

    def _as_read(self, value: Built, read: pa.DataType) -> Built:
        """A column as an engine declares it (`pruner.expr.binding.resolve`); refused where it then reads other values.

        Trino shows an instant as a UTC wall clock, whatever the session's zone.
        """
        stored = value.type
        alike = stored.equals(read) or (is_string(stored) and is_string(read))
        if pa.types.is_signed_integer(stored) and pa.types.is_signed_integer(read):
            alike = integer_range(read)[1] >= integer_range(stored)[1]
        elif pa.types.is_timestamp(stored) and pa.types.is_timestamp(read):
            rounds = nanoseconds(unit_of(read)) > nanoseconds(unit_of(stored))
            alike = not rounds and not is_instant(read)
        if not alike:
            raise NotCanonical(f"the engine reads {stored} as {read}")
        return Built(value.expression, read)

    def _call(self, node: Call, depth: int) -> Built:
        call = named(node, self._engine)
        if isinstance(call, str):
            raise NotCanonical(call, node.function)
        arguments = [self.build(argument, depth + 1) for argument in call.arguments]
        if call.function in _PARTS_OF_DATES:
            arguments = [_without_date(argument) for argument in arguments]
        divides = call.function == "quotient" and self._engine != TRINO
        if call.function in _NUMBERS and (
            divides or any(pa.types.is_float64(argument.type) for argument in arguments)
        ):
            _require_doubles(arguments, call.arguments)
            arguments = [self._as_double(argument) for argument in arguments]
        name, arguments = by_type(call.function, arguments, self._engine)
        form = self._applied(name, arguments)
        # Spark's yield integers.
        return self._applied("whole", [form]) if self._engine == SPARK and name in _WHOLE else form

    def _choice(self, parts: Sequence[Expr], depth: int) -> Built:
        """CASE: conditions and values alternating, and the value of ELSE."""
        built = [self.build(part, depth + 1) for part in parts]
        form = built.pop() if len(built) % 2 else None
        while built:
            value, condition = built.pop(), built.pop()
            form = self._applied("if", [condition, value] if form is None else [condition, value, form])
        if form is None:
            raise NotCanonical("a CASE without cases")
        return form

    def _condition(self, node: Compare | IsNull | Not | And | Or, depth: int) -> Built:
        """A condition of a CASE."""
        name, operands, negated = as_calls(node)
        form, *others = (self.build(operand, depth + 1) for operand in operands)
        form = self._applied(name, [form, *others[:1]])
        for other in others[1:]:
            form = self._applied(name, [form, other])
        return self._applied("not", [form]) if negated else form

    def _applied(self, name: str, arguments: list[Built]) -> Built:
        judged = [_argument(argument) for argument in arguments]
        if all(argument.is_constant for argument in judged):
            raise NotCanonical("a function of constants")
        row = row_for(name, judged)
        if row is None:
            types = ", ".join(str(argument.type) for argument in arguments)
            raise NotCanonical(f"the function {name} of {types} is not in the registry")
        self.functions.append(Applied(name, row))
        if row.reads_clock and any(is_instant(argument.type) for argument in arguments):
            self.clocks = True
        return Built(Call(name, tuple(argument.expression for argument in arguments)), row.result(judged))

    def _clock_of_utc(self, value: Built) -> Built:
        """The UTC wall clock, which is what is evaluated anyway, whatever the session's zone."""
        if not is_instant(value.type):
            raise NotCanonical("a zone for a moment that has none")
        return Built(value.expression, timestamp(unit_of(value.type), instant=False))

    def _as_double(self, value: Built) -> Built:
        if pa.types.is_float64(value.type):
            return value
        if isinstance(value.expression, Literal) and isinstance(value.expression.value, int):
            return _constant(Literal(float(value.expression.value), pa.float64()))
        return self._applied("double", [value])

    def _cast(self, value: Built, target: pa.DataType) -> Built:
        """A cast that changes no value is omitted; one that has a row becomes that function."""
        source = value.type
        if isinstance(value.expression, Literal):
            raise NotCanonical(f"a constant that is cast to {target}")
        if source.equals(target) or (is_string(source) and is_string(target)):
            return value
        if pa.types.is_signed_integer(source) and pa.types.is_signed_integer(target):
            if integer_range(target)[1] >= integer_range(source)[1]:
                return Built(value.expression, target)
        elif pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
            if unit_of(source) == unit_of(target):
                self.clocks = True
                return Built(value.expression, target)
        elif pa.types.is_timestamp(target) and pa.types.is_date(source):
            self.clocks = self.clocks or is_instant(target)
            return Built(value.expression, target)
        converted = self._converted(value, target)
        if converted is None:
            raise NotCanonical(f"the cast from {source} to {target} is not in the registry")
        return converted

    def _converted(self, value: Built, target: pa.DataType) -> Built | None:
        """A cast that is a function of the registry."""
        if is_string(target) and pa.types.is_date(value.type):
            return self._applied("format", [value, _constant(Literal("%Y-%m-%d", pa.string()))])
        function = cast_of_index(value.type, target)
        return None if function is None else self._applied(function.name, [value])


def _require_doubles(arguments: Iterable[Built], written: Iterable[Expr]) -> None:
    """Refuse arithmetic that engines do in decimals or 32-bit floats.

    `a * 0.1` is 0.3 exactly where the integer `a` is 3. `a * 0.1::FLOAT` is a float.
    """
    constants = [expression for expression in written if isinstance(expression, Literal)]
    doubles = all(
        pa.types.is_float64(constant.type) or pa.types.is_integer(constant.type) for constant in constants
    )
    if not doubles and any(pa.types.is_integer(argument.type) for argument in arguments):
        raise NotCanonical(
            "integers with a decimal constant or a float of 32 bits, which engines reckon as such"
        )


def _without_date(value: Built) -> Built:
    """The moment below a cast to its date."""
    match value.expression:
        case Call("date", (inner,)):
            return Built(inner, value.type)
        case _:
            return value


def _is_supported(type_: pa.DataType) -> bool:
    types = pa.types
    return types.is_signed_integer(type_) or types.is_float64(type_) or is_string(type_) or is_temporal(type_)


def _argument(value: Built) -> Argument:
    constant = value.expression.value if isinstance(value.expression, Literal) else None
    return Argument(value.type, constant)


def _constant(node: Literal) -> Built:
    """A constant in one of three types: engines write the same number in different types."""
    match node.value:
        case bool() | None:
            raise NotCanonical("NULL, or a truth value, among its constants")
        case int(value) if pa.types.is_integer(node.type) and abs(value) < 2**63:
            return Built(Literal(value, pa.int64()), pa.int64())
        case float() | Decimal() as value if math.isfinite(value):
            if isinstance(value, Decimal) and not _becomes_nearest_double(value):
                raise NotCanonical(
                    "a decimal constant of so many digits that engines may round it differently"
                )
            return Built(Literal(float(value), pa.float64()), pa.float64())
        case str(value):
            return Built(Literal(value, pa.string()), pa.string())
        case _:
            raise NotCanonical(f"a constant of type {node.type}")


def _becomes_nearest_double(value: Decimal) -> bool:
    """Tell whether digits and power of ten are exact as doubles: their quotient is then the nearest double."""
    _, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits)))
    return isinstance(exponent, int) and number < 2**53 and -_MOST_EXACT_POWER <= exponent <= 0


@lru_cache(maxsize=512)
def parsed(text: str) -> Expr:
    """Return the expression of `Canonical.text`.

    Raises:
        PredicateError, msgspec.DecodeError, msgspec.ValidationError: the text is not one.
    """
    return expression_of(msgspec.json.decode(text, type=Node))


@lru_cache(maxsize=512)
def last_change(text: str) -> int:
    """The registry version in which a function of an expression last changed, by its `Canonical.text`."""
    names = set(_functions_of(parsed(text)))
    return max(
        (
            evaluation.changed
            for name in names & FUNCTIONS.keys()
            for evaluation in FUNCTIONS[name].evaluations
        ),
        default=REGISTRY_VERSION + 1,
    )


def _functions_of(expression: Expr) -> Iterator[str]:
    if isinstance(expression, Call):
        yield expression.function
        for argument in expression.arguments:
            yield from _functions_of(argument)


def shown(expression: Expr) -> str:
    """An expression in the canonical form, for display."""
    match expression:
        case Column(path):
            return render_column_path(path)
        case Literal(str() as value):
            return "'" + value.replace("'", "''") + "'"
        case Literal(value):
            return str(value)
        case Call(name, arguments):
            return f"{name}({', '.join(map(shown, arguments))})"
        case _:
            return str(expression)
