"""The keys of a DataFrame as a predicate, so that a scan skips the files that hold none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from pruner.errors import SchemaError
from pruner.expr.nodes import FALSE, Column, Compare, Expr, In, Literal, Operator, conjunction
from pruner_spark.catalyst.literals import REPLACEMENT, day_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

_Typed: TypeAlias = tuple[Column, pa.DataType]

MOST_LISTED = 16_384
"""Most keys that are looked up one by one; of more, only the range is used."""

_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_TYPES = {
    **dict.fromkeys(_INTEGERS, pa.int64()),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "string": pa.string(),
}
_COLLATIONS = "__COLLATIONS"


def rows_with(keys: DataFrame) -> Expr:
    """A predicate that is true of every row whose columns equal those of a row of keys; runs the DataFrame.

    Raises:
        SchemaError: there is no column, or one has a type whose values are not compared as they are.
        pyspark.errors.PySparkException: Spark cannot evaluate the keys.
    """
    columns = [(Column((field.name,)), _type(field)) for field in keys.schema]
    if not columns:
        raise SchemaError("keys have no column: give those that make up the key of the table")
    named = keys.toDF(*(f"k{number}" for number in range(len(columns)))).dropna("any").distinct()
    known = named.selectExpr(*(_fetched(number, type_) for number, (_, type_) in enumerate(columns)))
    rows = known.limit(MOST_LISTED + 1).collect()
    if not rows:
        return FALSE
    return conjunction(tuple(_ranges(known, columns) if len(rows) > MOST_LISTED else _lists(rows, columns)))


def require_alike(keys: DataFrame, table: DataFrame) -> None:
    """Refuse keys whose types differ from the table's columns, integer widths aside: Spark would compare other values.

    Raises:
        SchemaError: there is no such column, or it is of another type.
    """
    known = {field.name.lower(): field.dataType.simpleString() for field in table.schema}
    for field in keys.schema:
        own, type_ = field.dataType.simpleString(), known.get(field.name.lower())
        if type_ is None:
            raise SchemaError(f"keys: the table has no column {field.name!r}")
        if own != type_ and not {own, type_} <= _INTEGERS:
            raise SchemaError(
                f"keys: column {field.name!r} is of type {own}, in the table of {type_}: cast it"
            )


def _type(field: StructField) -> pa.DataType:
    type_: Any = field.dataType
    name = type_.simpleString()
    if name.startswith("decimal("):
        return pa.decimal128(type_.precision, type_.scale)
    if name not in _TYPES or _COLLATIONS in (field.metadata or {}):
        raise SchemaError(f"keys: column {field.name!r} of type {name} cannot be a key")
    return _TYPES[name]


def _fetched(number: int, type_: pa.DataType) -> str:
    """The expression that fetches a key: days as numbers, as Python has no year 0 and none above 9999."""
    return f"unix_date(k{number}) AS k{number}" if pa.types.is_date(type_) else f"k{number}"


def _literal(value: Any, type_: pa.DataType) -> Literal:
    return Literal(day_value(value) if pa.types.is_date(type_) else value, type_)


def _is_unsure(value: Any) -> bool:
    """Tell whether a text may differ from Spark's: bytes that are not UTF-8 arrive as replacement characters."""
    return isinstance(value, str) and REPLACEMENT in value


def _lists(rows: list[Any], columns: Sequence[_Typed]) -> Iterable[Expr]:
    for number, (column, type_) in enumerate(columns):
        values = dict.fromkeys(row[number] for row in rows)
        if not any(map(_is_unsure, values)):
            yield In(column, tuple(_literal(value, type_) for value in values))


def _ranges(known: DataFrame, columns: Sequence[_Typed]) -> Iterable[Expr]:
    from pyspark.sql import functions

    ends = [end(name) for name in known.columns for end in (functions.min, functions.max)]
    (extremes,) = known.agg(*ends).collect()
    for number, (column, type_) in enumerate(columns):
        for operator, end in ((Operator.GE, extremes[2 * number]), (Operator.LE, extremes[2 * number + 1])):
            if not _is_unsure(end):
                yield Compare(operator, column, _literal(end, type_))
