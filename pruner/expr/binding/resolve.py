"""From the expression that a condition is about to a subject: names resolved, casts undone, functions looked up."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pruner.errors import SchemaError
from pruner.expr.binding.subjects import ColumnValue, FunctionValue
from pruner.expr.bound.predicates import Point, Unknown, UnknownKind
from pruner.expr.derived.indexed import NO_EXPRESSION_INDEXES, ExpressionIndexes, NotAnswered
from pruner.expr.exact.casts import Undo, safe_range, undo_cast
from pruner.expr.exact.clock import nanoseconds
from pruner.expr.functions.inverse import NotInvertible, Piece, Pieces, Use, whole
from pruner.expr.functions.moments import in_zone_of
from pruner.expr.functions.registry import FUNCTIONS, called, cast_of_column, named
from pruner.expr.nodes import Call, Column, Expr, Literal, Opaque
from pruner.expr.parquet_reading import as_read
from pruner.expr.show import show, shown_function
from pruner.expr.types import is_binary, is_instant, is_temporal, timestamp, unit_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pruner.expr.binding.subjects import Subject
    from pruner.expr.functions.function import Function
    from pruner.expr.semantics import Semantics
    from pruner.schema import Field, TableSchema

# Undoing columns as an engine's reader shows them: `Call("read_as", (column,), type)`.
#
# Where an engine declares its own type for a column, it reads the files' values as that type. A wider type is undone
# like a cast. Timestamps are a special case: Trino's Hive and Hudi connectors show a stored instant as a UTC wall
# clock, whatever the session's zone, and round to the declared precision (half up, or truncated). INT96, which follows
# a zone of the configuration, is unknown to Trino by its statistics.


def undo_reading(
    column: pa.DataType, read: pa.DataType, semantics: Semantics
) -> tuple[pa.DataType, Undo | None] | None:
    """Undo the reading of a column as another type.

    Args:
        column: the type of the table's column.
        read: the type that the engine declares. A timestamp's unit is its precision, or coarser.
        semantics: whose rules hold.

    Returns:
        The type in which constants are compared, and the inverse of the reading (None where there is nothing to
        undo); None for a reading that may fail, lose or reorder values, or is unknown.
    """
    if column.equals(read):
        return column, None
    if pa.types.is_unsigned_integer(column) or (pa.types.is_integer(column) and pa.types.is_floating(read)):
        # Trino reads the bits of an INT32 that a table declares as REAL as those of a float.
        return None
    if is_binary(column) and is_binary(read):
        return column, None
    if pa.types.is_timestamp(column) and pa.types.is_timestamp(read):
        return _timestamps(column, read)
    undo = undo_cast(column, read, semantics)
    return None if undo is None else (read, undo)


def _timestamps(column: pa.DataType, read: pa.DataType) -> tuple[pa.DataType, Undo | None] | None:
    if is_instant(read) and not is_instant(column):
        return None
    units = nanoseconds(unit_of(read)) // nanoseconds(unit_of(column))
    return timestamp(unit_of(column), instant=is_instant(read)), _rounded(units) if units > 1 else None


def _rounded(units: int) -> Undo:
    """The inverse of rounding values to multiples of `units`."""

    def undo(point: Point) -> Point:
        low, high = point.low, point.high
        assert not isinstance(low, bytes)  # timestamps are numbers
        assert not isinstance(high, bytes)
        return Point(
            None if low is None else low - units, None if high is None else high + units, exact=False
        )

    return undo


MOST_FUNCTIONS: Final = 4
"""Nested functions that are resolved: each doubles the conditions on the column."""


class Resolver:
    """Finds the subjects of conditions over one table."""

    def __init__(
        self,
        schema: TableSchema,
        semantics: Semantics,
        *,
        strict: bool,
        indexed: ExpressionIndexes = NO_EXPRESSION_INDEXES,
    ) -> None:
        self._schema = schema
        self._semantics = semantics
        self._strict = strict
        self._indexed = indexed

    def subject(self, expression: Expr, node: Expr, depth: int = 0) -> Subject | Unknown:
        """The column that an expression is, or of which it is a harmless cast or a function.

        Args:
            expression: what is compared.
            node: the whole condition, for reports.
            depth: how many functions enclose the expression.

        Raises:
            SchemaError: strict, and a column does not exist or is ambiguous.
        """
        match expression:
            case Column():
                field = self.field(expression, node)
                return field if isinstance(field, Unknown) else self._column(field, field.type)
            case Call("read_as", (Column() as column,), pa.DataType() as data_type):
                return self._reading(column, data_type, node)
            case Call("cast" | "try_cast", (operand,), data_type):
                return self._cast(expression, operand, data_type, node, depth)
            case Call():
                return self._function(expression.function, expression, node, depth)
            case Opaque(_, _, reason):
                return unknown(node, reason)
            case _:
                return unknown(node, "it does not speak of a column")

    def over(self, expression: Expr, node: Expr) -> ColumnValue | Unknown | None:
        """The values of an indexed expression; None where no index is over it."""
        try:
            field = self._indexed.over(expression, self._source, self._semantics, self._schema)
        except NotAnswered as reason:
            return unknown(node, str(reason))
        return None if field is None else self._column(field, field.type)

    def _source(self, column: Column) -> Field | str:
        """A column of an indexed expression, as the engine reads it; or why it has none."""
        try:
            field = as_read(self._find(column.path), self._semantics)
        except SchemaError as error:
            return str(error)
        return field if field.conflict is None else f"column {field.name!r}: {field.conflict}"

    def field(self, column: Column, node: Expr) -> Field | Unknown:
        """A column as the engine reads it, or the values of the index of that name.

        Raises:
            SchemaError: strict, and the column does not exist or is ambiguous.
        """
        try:
            field = self._find(column.path)
        except SchemaError as error:
            derived = self._indexed.named(column.path[0], self._source) if len(column.path) == 1 else None
            if derived is not None:
                return derived
            if self._strict and not self._is_element(column.path):
                raise
            return unknown(node, str(error))
        read = as_read(field, self._semantics)
        if read.conflict is not None:
            return unknown(node, f"column {read.name!r}: {read.conflict}")
        return read

    def _find(self, path: tuple[str, ...]) -> Field:
        """A field by its path, which the table's name may precede where no column has that name."""
        sensitive = self._semantics.case_sensitive
        try:
            return self._schema.find(path, case_sensitive=sensitive)
        except SchemaError:
            names = {column.name.lower() for column in self._schema.columns}
            if len(path) == 1 or path[0].lower() in names:
                raise
            with contextlib.suppress(SchemaError):
                return self._schema.find(path[1:], case_sensitive=sensitive)
            raise

    def _is_element(self, path: tuple[str, ...]) -> bool:
        """Tell whether a path leads into a column that is not a struct: a map's value, for example."""
        names = {column.name.lower(): column.type for column in self._schema.columns}
        number = names.get(path[0].lower())
        return (
            len(path) > 1
            and number is not None
            and pa.types.is_nested(number)
            and not pa.types.is_struct(number)
        )

    def require_columns(self, *expressions: Expr) -> None:
        """Resolve bare columns in a part that stays unknown, so that a misspelled one is reported.

        Raises:
            SchemaError: strict, and a column does not exist or is ambiguous.
        """
        for expression in expressions:
            if isinstance(expression, Column) and self._strict:
                self.field(expression, expression)

    def _column(self, field: Field, data_type: pa.DataType, undo: Undo | None = None) -> ColumnValue:
        return ColumnValue(field, data_type, self._semantics, undo)

    def _cast(
        self, call: Call, operand: Expr, target: pa.DataType | None, node: Expr, depth: int
    ) -> Subject | Unknown:
        """A cast: undone where it loses nothing, otherwise a function like others."""
        inner = self.subject(operand, node, depth + 1)
        if isinstance(inner, Unknown):
            return inner
        if target is None:
            return unknown(node, "the type that is cast to is not supported")
        # A moment out of range becomes NULL in the cast, though not in the column.
        lenient = call.function == "try_cast" and is_temporal(target)
        rules = self._rules(operand)
        undo = None if lenient else undo_cast(inner.type, target, rules)
        safe = None if undo is None else safe_range(inner.type, target)
        if undo is not None and safe is not None:
            # A file with a value outside is kept, so that the engine raises its error (R12).
            return FunctionValue(Pieces(target, (Piece(*safe, undo),)), inner, show(node))
        if undo is not None and isinstance(inner, ColumnValue):
            return self._column(inner.field, target, _both(inner.undo, undo))
        if undo is not None:
            return FunctionValue(whole(target, undo), inner, show(node))
        function = cast_of_column(inner.type, target)
        if function is None:
            return unknown_function(node, f"the cast to {target} may lose or reorder values")
        return self._applied(function, inner, Use(inner.type, 0, (), rules, target), node)

    def _reading(self, column: Column, data_type: pa.DataType, node: Expr) -> ColumnValue | Unknown:
        """A column that the engine reads as its own declared type."""
        field = self.field(column, node)
        if isinstance(field, Unknown):
            return field
        if _is_declared_narrow(field, data_type):
            return self._column(field, data_type)
        reading = undo_reading(field.type, data_type, self._semantics)
        if reading is None:
            return unknown(node, f"what the engine reads of {field.type} as {data_type} is not certain")
        return self._column(field, *reading)

    def _rules(self, operand: Expr) -> Semantics:
        """The rules for functions of an operand. For columns read as a declared type, rounding is undone below."""
        if self._semantics.timestamp_unit is None or not _is_of_readings(operand):
            return self._semantics
        return replace(self._semantics, timestamp_unit=None)

    def _function(self, name: str, call: Call, node: Expr, depth: int) -> Subject | Unknown:
        engine = self._semantics.traits.name
        spelled = named(call, engine)
        if isinstance(spelled, str):
            # A row without evaluations has preimages all the same; a call that its shape refuses is another function.
            function = called(name, engine)
            function = None if function is None or function.shape is not None else function
        else:
            name, call = spelled.function, replace(spelled, type=call.type)
            function = FUNCTIONS[name]
        places = [place for place, argument in enumerate(call.arguments) if not isinstance(argument, Literal)]
        constants = tuple(argument for argument in call.arguments if isinstance(argument, Literal))
        known = function is not None and function.preimages and len(places) == 1
        if not known or function is None or depth >= MOST_FUNCTIONS:
            return unknown_function(node, f"the function {shown_function(name)} is not known to any index")
        [place] = places
        if any(preimage.reads_clock for preimage in function.preimages):
            zoned = self._in_zone(call.arguments[place], node, depth)
            if zoned is not None:
                return self._applied(function, *zoned, node)
        inner = self.subject(call.arguments[place], node, depth + 1)
        if isinstance(inner, Unknown):
            return inner
        use = Use(inner.type, place, constants, self._rules(call.arguments[place]), call.type)
        return self._applied(function, inner, use, node)

    def _in_zone(self, expression: Expr, node: Expr, depth: int) -> tuple[Subject, Use] | None:
        """An instant as the wall clock of a zone, as if that were the session's; None for anything else."""
        match expression:
            case Call("timezone", (Literal() as zone, operand)):
                inner = self.subject(operand, node, depth + 1)
            case _:
                return None
        if isinstance(inner, Unknown) or not is_instant(inner.type):
            return None
        semantics = in_zone_of(Use(inner.type, 1, (zone,), self._semantics))
        return None if semantics is None else (inner, Use(inner.type, 0, (), semantics))

    def _applied(self, function: Function, inner: Subject, use: Use, node: Expr) -> Subject | Unknown:
        preimage = function.preimage_of((inner.type, *_types(use.constants)))
        if preimage is None:
            return unknown_function(node, f"the function {function.name} of {inner.type} has no rule")
        name, traits = preimage.title or function.name, self._semantics.traits
        if traits.name not in preimage.compared:
            return unknown_function(node, f"the function {name} was not compared with {traits.title}")
        if any(constant.value is None for constant in use.constants):
            return unknown(node, f"the function {name} of NULL")
        try:
            return FunctionValue(preimage.rule(use), inner, show(node))
        except NotInvertible as reason:
            return unknown_function(node, str(reason))


def _types(constants: Iterable[Literal]) -> Iterator[pa.DataType]:
    return (constant.type for constant in constants)


def _is_of_readings(expression: Expr) -> bool:
    """Tell whether every column in an expression is read as a declared type (`pruner.expr.binding.resolve`)."""
    match expression:
        case Call("read_as"):
            return True
        case Call(_, arguments):
            return all(map(_is_of_readings, arguments))
        case _:
            return isinstance(expression, Literal)


def _both(inner: Undo | None, outer: Undo) -> Undo:
    return outer if inner is None else lambda point: inner(outer(point))


def unknown(node: Expr, reason: str, kind: UnknownKind = UnknownKind.PREDICATE) -> Unknown:
    """An unknown condition."""
    return Unknown(show(node), reason, kind)


def unknown_function(node: Expr, reason: str) -> Unknown:
    """A condition that is unknown because of a function in it."""
    return unknown(node, reason, UnknownKind.FUNCTION)


def _is_declared_narrow(field: Field, declared: pa.DataType) -> bool:
    """Tell whether an engine declares integers of 8 or 16 bits where the files' annotations are the same or narrower.

    The field has room for numbers that do not fit; evidence ensures that there are none (trap S24).
    """
    types = [type_.arrow for type_ in field.parquet or ()]
    return (
        bool(types)
        and declared in (pa.int8(), pa.int16())
        and all(each in (pa.int8(), declared) for each in types)
    )
