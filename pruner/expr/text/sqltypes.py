"""Arrow types of the SQL types that predicates name, as each engine means them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from pruner.expr.engines import Traits
from pruner.expr.types import Unit, timestamp

_Kind = exp.DataType.Type

_PLAIN: Final = {
    _Kind.BOOLEAN: pa.bool_(),
    _Kind.TINYINT: pa.int8(),
    _Kind.SMALLINT: pa.int16(),
    _Kind.INT: pa.int32(),
    _Kind.BIGINT: pa.int64(),
    _Kind.UTINYINT: pa.uint8(),
    _Kind.USMALLINT: pa.uint16(),
    _Kind.UINT: pa.uint32(),
    _Kind.UBIGINT: pa.uint64(),
    _Kind.FLOAT: pa.float32(),
    _Kind.DOUBLE: pa.float64(),
    _Kind.VARCHAR: pa.string(),
    _Kind.TEXT: pa.string(),
    _Kind.VARBINARY: pa.binary(),
    _Kind.BINARY: pa.binary(),
    _Kind.BLOB: pa.binary(),
    _Kind.DATE: pa.date32(),
    _Kind.TIME: pa.time64("us"),
    _Kind.TIME_NS: pa.time64("ns"),
    _Kind.UUID: pa.uuid(),
    _Kind.TIMESTAMP_S: pa.timestamp("s"),
    _Kind.TIMESTAMP_MS: pa.timestamp("ms"),
    _Kind.TIMESTAMP_NS: pa.timestamp("ns"),
}
_NAIVE: Final = frozenset({_Kind.TIMESTAMP, _Kind.TIMESTAMPNTZ, _Kind.DATETIME})
_ZONED: Final = frozenset({_Kind.TIMESTAMPTZ, _Kind.TIMESTAMPLTZ})
_UNITS: Final[dict[int, Unit]] = {0: "s", 3: "ms", 6: "us", 9: "ns"}


def arrow_type(node: exp.DataType, traits: Traits) -> pa.DataType | None:
    """The Arrow type of a SQL type; None for one that is not known here, or whose length would cut values."""
    kind = node.this
    parameters = type_parameters(node)
    if parameters is None:
        return None
    if kind in _NAIVE or kind in _ZONED:
        unit = _UNITS.get(fraction_digits(node, traits))
        return timestamp(unit, instant=kind in _ZONED) if unit else None
    if kind is _Kind.DECIMAL:
        precision, scale = (*parameters, 0)[:2] if parameters else traits.bare_decimal or (0, 0)
        return pa.decimal128(precision, scale) if 1 <= precision <= 38 and 0 <= scale <= precision else None
    return _PLAIN.get(kind) if not parameters else None


def fraction_digits(node: exp.DataType, traits: Traits) -> int:
    """Digits of a second that a timestamp type keeps: as written, else the engine's default."""
    parameters = type_parameters(node)
    return parameters[0] if parameters else traits.bare_timestamp_digits


def type_parameters(node: exp.DataType) -> tuple[int, ...] | None:
    """The numbers in parentheses behind a type's name; None where something else stands there."""
    numbers: list[int] = []
    for parameter in node.expressions:
        value = parameter.this if isinstance(parameter, exp.DataTypeParam) else parameter
        if not isinstance(value, exp.Literal) or value.is_string or not str(value.this).isdecimal():
            return None
        numbers.append(int(value.this))
    return tuple(numbers)
