"""Filters of pyarrow's datasets as expressions of pruner.

pyarrow exposes its expressions only as text, in which values and names cannot be distinguished reliably. Their pickled
form can be read exactly: a file of one record batch, whose columns hold the literals and whose metadata lists the
expression's parts in order (arrow/compute/expression.cc, `Serialize`). Unknown parts are `Opaque`.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pruner.expr.build import literal_of, predicate
from pruner.expr.nodes import (
    And,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Literal,
    Not,
    Opaque,
    Operator,
    conjunction,
    disjunction,
)
from pruner.expr.walk import columns_of

_COMPARISONS = {
    "equal": Operator.EQ,
    "not_equal": Operator.NE,
    "less": Operator.LT,
    "less_equal": Operator.LE,
    "greater": Operator.GT,
    "greater_equal": Operator.GE,
}
_FALSE_FOR_NULL = (0, 1)
"""The values of `null_matching_behavior` of `is_in` for which NULL is not in a list without NULL: MATCH and SKIP."""

_COMPARED_ALIKE = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal128,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)
"""Types whose values pyarrow compares as pruner does, if both sides have the same type."""

_UNKNOWN_TYPE = "values of this type are not compared as pyarrow compares them"

_Part = tuple[str, str]
_Value = tuple[pa.DataType, Any]


def decode(filter_: Any, schema: pa.Schema) -> Expr:
    """A filter over rows of `schema` in the expression form; each part that is not understood is `Opaque`."""
    try:
        stored: Any = filter_.__reduce__()[1][0]
        reader: Any = pa.ipc.open_file(stored)
        values = list(reader.read_all().columns) if reader.num_record_batches else []
        return _Reader(_metadata(reader.schema), values, schema).expression()
    except (pa.ArrowException, KeyError, IndexError, TypeError, ValueError, StopIteration, RecursionError):
        return Opaque((), str(filter_)[:200], "this filter of pyarrow's is not understood")


def _metadata(schema: Any) -> list[_Part]:
    """The metadata of a schema with repeated keys, of which pyarrow's own mapping keeps only one.

    It is behind the third pointer of an ArrowSchema (the C data interface): a count, then lengths and texts.
    """
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    place = (ctypes.c_void_p * 3).from_address(pointer(capsule, b"arrow_schema"))[2]
    if place is None:
        raise ValueError("the schema has no metadata")

    def number() -> int:
        nonlocal place
        (integer,) = struct.unpack("=i", ctypes.string_at(place, 4))
        place += 4
        return integer

    def text() -> str:
        nonlocal place
        size = number()
        content = ctypes.string_at(place, size)
        place += size
        return content.decode()

    return [(text(), text()) for _ in range(number())]


class _Reader:
    def __init__(self, parts: list[_Part], values: list[Any], schema: pa.Schema) -> None:
        self._parts: Iterator[_Part] = iter(parts)
        self._values = values
        self._schema = schema

    def expression(self) -> Expr:
        """The expression that begins at the next part."""
        return self._from(next(self._parts))

    def _from(self, part: _Part) -> Expr:
        match part:
            case ("field_ref", name):
                return Column((name,))
            case ("nested_field_ref", count):
                return Column(tuple(next(self._parts)[1] for _ in range(int(count))))
            case ("literal", place):
                type_, value = self._value(place)
                return literal_of(value) if _is_known(type_) else Opaque((), str(type_), _UNKNOWN_TYPE)
            case ("call", function):
                return self._call(function)
            case _:
                raise ValueError(part)

    def _value(self, place: str) -> _Value:
        column = self._values[int(place)]
        return column.type, column[0]

    def _call(self, function: str) -> Expr:
        arguments: list[Expr] = []
        options: Any = None
        while (part := next(self._parts))[0] != "end":
            if part[0] == "options":
                options = self._value(part[1])[1]
            else:
                arguments.append(self._from(part))
        expression = self._known(function, arguments, options)
        columns = tuple(dict.fromkeys(column for argument in arguments for column in columns_of(argument)))
        return (
            Opaque(columns, function, "pyarrow's function is not understood")
            if expression is None
            else expression
        )

    def _known(self, function: str, arguments: list[Expr], options: Any) -> Expr | None:
        match function, arguments:
            case ("and_kleene", [_, _]):
                return conjunction(tuple(map(predicate, arguments)))
            case ("or_kleene", [_, _]):
                return disjunction(tuple(map(predicate, arguments)))
            case ("invert", [operand]):
                return Not(predicate(operand))
            case ("is_valid", [Column() as column]):
                return Not(IsNull(column))
            case ("is_null", [Column() as column]) if not options["nan_is_null"].as_py():
                return IsNull(column)
            case ("is_in", [Column() as column]):
                return self._listed(column, options)
            # As DuckDB writes IN: NULL for NULL.
            case ("if_else", [Not(IsNull(one)), And((In(other) as listed, _)), Literal(None)]) if (
                one == other
            ):
                return listed
            case (_, [Column() as column, Literal() as literal]) if function in _COMPARISONS:
                return self._compared(_COMPARISONS[function], column, literal)
            case (_, [Literal() as literal, Column() as column]) if function in _COMPARISONS:
                return self._compared(_COMPARISONS[function].mirrored, column, literal)
            case _:
                return None

    def _compared(self, operator: Operator, column: Column, literal: Literal) -> Expr | None:
        """A comparison of values of one type: for others, pyarrow's conversion may round."""
        return Compare(operator, column, literal) if self._fits(column, literal) else None

    def _fits(self, column: Column, literal: Literal) -> bool:
        not_a_number = isinstance(literal.value, float) and math.isnan(literal.value)
        return literal.type.equals(self._type_of(column)) and not not_a_number

    def _listed(self, column: Column, options: Any) -> Expr | None:
        """`is_in` as SQL's IN, made false for NULL. It distinguishes -0.0 from 0.0, so floats are not understood."""
        values = options["value_set"].values
        literals = tuple(map(literal_of, values)) if _is_known(values.type) else ()
        if (
            not literals
            or options["null_matching_behavior"].as_py() not in _FALSE_FOR_NULL
            or pa.types.is_floating(values.type)
            or any(literal.value is None or not self._fits(column, literal) for literal in literals)
        ):
            return None
        return conjunction((In(column, literals), Not(IsNull(column))))

    def _type_of(self, column: Column) -> pa.DataType:
        schema: Any = self._schema
        name, *inner = column.path
        data_type: Any = schema.field(name).type
        for each in inner:
            data_type = data_type.field(each).type
        return data_type


def _is_known(type_: pa.DataType) -> bool:
    return any(is_type(type_) for is_type in _COMPARED_ALIKE)
