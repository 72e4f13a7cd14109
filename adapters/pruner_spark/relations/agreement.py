"""Which columns are the same in Spark's relation and in the planner's snapshot.

A DataFrame can read a file differently from the snapshot: with a user's schema, without partition columns, with
another type inferred from a path. Predicates on such a column say nothing about the snapshot's column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from pruner.expr.parquet_reading import as_read

if TYPE_CHECKING:
    from pruner.expr.semantics import Semantics
    from pruner.schema import Field, TableSchema

_NAMES: Mapping[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.uint8(): "short",
    pa.uint16(): "integer",
    pa.uint32(): "long",
    pa.uint64(): "decimal(20,0)",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
}
"""For each Arrow type, the name of Spark's type with the same values, as in the JSON of its schemas."""


@dataclass(frozen=True, slots=True)
class SparkColumn:
    """A top-level column of a relation: its type as in Spark's schema JSON, and where its value comes from.

    With `filled_in`, Spark reads a value other than NULL from files that lack the column: a default from CREATE TABLE
    or ALTER TABLE (`EXISTS_DEFAULT` of `ResolveDefaultColumns`).
    """

    name: str
    type: Any
    partition: bool
    filled_in: bool = False


def spark_columns(
    data_schema: Mapping[str, Any], partition_schema: Mapping[str, Any], *, catalogued: bool = False
) -> tuple[SparkColumn, ...]:
    """Return the columns of a relation from the JSON of its two schemas; partition columns override data columns.

    With `catalogued`, partition values are those of Spark's catalog, where a partition can have any location
    (`ALTER TABLE … ADD PARTITION (p=5) LOCATION '…/p=7'`). Spark itself lists only the partitions it needs, so nothing
    is lost by not planning with them.
    """
    partitions = [
        SparkColumn(entry["name"], "catalogued" if catalogued else _type(entry), True)
        for entry in partition_schema["fields"]
    ]
    taken = {column.name.lower() for column in partitions}
    data = [
        SparkColumn(entry["name"], _type(entry), False, _is_filled_in(entry))
        for entry in data_schema["fields"]
        if entry["name"].lower() not in taken
    ]
    return (*data, *partitions)


def _type(entry: Mapping[str, Any]) -> Any:
    """The type of a field, or a marker that no type of the index matches: a collated column.

    Spark 4 stores a collation beside the type.
    """
    return "collated" if "__COLLATIONS" in entry.get("metadata", {}) else entry["type"]


def _is_filled_in(entry: Mapping[str, Any]) -> bool:
    return entry.get("metadata", {}).get("EXISTS_DEFAULT", "NULL").upper() != "NULL"


def schema_as_read(schema: TableSchema, semantics: Semantics) -> TableSchema:
    """Return the snapshot's schema with the types as which Spark reads its files: INT96 is an instant."""
    fields = [as_read(entry, semantics) for entry in schema]
    if any(pa.types.is_struct(entry.type) for entry in fields):
        fields = _with_structs(fields)
    return replace(schema, fields=tuple(fields))


def _with_structs(fields: Sequence[Field]) -> list[Field]:
    """The same fields, with each struct's type rebuilt from its fields, which follow it."""
    types = {entry.path: entry.type for entry in fields}
    for entry in reversed(fields):
        if pa.types.is_struct(entry.type):
            types[entry.path] = _of_fields(entry.type, entry.path, types)
    return [replace(entry, type=types[entry.path]) for entry in fields]


def _of_fields(struct: Any, path: tuple[str, ...], types: Mapping[tuple[str, ...], Any]) -> Any:
    children = [struct[k] for k in range(struct.num_fields)]
    return pa.struct([pa.field(child.name, types.get((*path, child.name), child.type)) for child in children])


def differing(columns: Iterable[SparkColumn], schema: TableSchema, *, paths_matter: bool) -> frozenset[str]:
    """Return the lower-case names of the columns that differ from the snapshot's.

    Args:
        columns: Spark's columns.
        schema: the snapshot's schema.
        paths_matter: whether it matters if Spark takes the value from the path (not for Hudi, whose own
            index decides that for each table).
    """
    known = {entry.path[0].lower(): entry for entry in schema.columns}
    return frozenset(
        column.name.lower()
        for column in columns
        if (entry := known.get(column.name.lower())) is None
        or not same_type(column.type, entry.type)
        or (paths_matter and column.partition != entry.partition)
    )


def renumbered(ids: Mapping[str, int], schema: TableSchema) -> frozenset[str]:
    """Return the lower-case names of the columns that a scan looks up, wholly or in part, by ids unlike the snapshot's.

    Such a name belonged to another column, or will: a scan can have an older schema than the snapshot, or a newer one.
    """
    known = {".".join(entry.path): entry for entry in schema}
    return frozenset(
        entry.path[0].lower()
        for name, number in ids.items()
        if (entry := known.get(name)) is not None and entry.field_id != number
    )


def same_type(spark: Any, arrow: Any) -> bool:
    """Tell whether a type of Spark's (as in its JSON) has the same values as an Arrow type."""
    if pa.types.is_timestamp(arrow):
        return spark == ("timestamp_ntz" if arrow.tz is None else "timestamp")
    if pa.types.is_decimal(arrow):
        return spark == f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_struct(arrow):
        return _same_struct(spark, arrow)
    return spark == _NAMES.get(arrow, "")


def _same_struct(spark: Any, arrow: Any) -> bool:
    if not isinstance(spark, dict):
        return False
    fields = cast("dict[str, Any]", spark).get("fields", ())
    return len(fields) == arrow.num_fields and all(
        # A predicate on one row cannot name lists and maps inside a struct, so their types do not matter.
        field["name"] == arrow[k].name
        and (_is_collection(arrow[k].type) or same_type(field["type"], arrow[k].type))
        for k, field in enumerate(fields)
    )


def _is_collection(arrow: Any) -> bool:
    return bool(pa.types.is_nested(arrow)) and not pa.types.is_struct(arrow)
