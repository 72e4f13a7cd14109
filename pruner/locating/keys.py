"""The keys that are looked for: typed as the table has them, and each once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, compute
from pruner.errors import SchemaError, first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.schema import Field, TableSchema

LOCATION = pa.schema(
    [
        pa.field("partition_path", pa.string()),
        pa.field("file_id", pa.string()),
        pa.field("base_instant", pa.string()),
    ]
)
"""What is told of each key; `file_id` is null for one that is new."""

NUMBER = "__key"
"""Column with the position of a key."""


def fields_of(keys: pa.Schema, schema: TableSchema) -> list[Field]:
    """The columns of the table that the columns of the keys name.

    Raises:
        SchemaError: there is no such column, or it cannot tell keys apart.
    """
    if not keys.names:
        raise SchemaError("keys have no column: give those that make up the key of the table")
    taken = sorted({*LOCATION.names, NUMBER} & set(keys.names))
    if taken:
        raise SchemaError(f"keys have a column {taken[0]!r}, which the result needs: rename it")
    found = [schema.find((name,)) for name in keys.names]
    for field in found:
        if field.dispute is not None:
            raise SchemaError(f"column {field.name!r} cannot be a key: {field.dispute}")
        if pa.types.is_nested(field.type) or pa.types.is_floating(field.type):
            raise SchemaError(f"column {field.name!r} of type {field.type_name} cannot be a key")
        if field.partition and field.in_file:
            raise SchemaError(f"column {field.name!r} is in both paths and files: it cannot be a key")
    return found


def typed(keys: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """The keys with the table's types, under numbers for names.

    Raises:
        SchemaError: a column has values that the table's type does not have.
    """
    columns: list[Any] = []
    for name, field in zip(keys.column_names, fields, strict=True):
        columns.append(as_type(keys.column(name), field, f"keys: column {name!r}"))
    return pa.table(columns, names=[str(number) for number in range(len(columns))])


def as_type(column: Any, field: Field, what: str) -> Any:
    """A column with the table's type.

    Raises:
        SchemaError: it has values that this type does not have, or counts moments by another clock.
    """
    types, zones = pa.types, [getattr(each, "tz", None) is None for each in (column.type, field.type)]
    clocks = types.is_timestamp(column.type) and types.is_timestamp(field.type) and zones[0] is not zones[1]
    try:
        if clocks:
            raise pa.ArrowInvalid("one is an instant, the other a wall clock")
        return column.cast(field.type)
    except pa.ArrowException as error:
        reason = first_line(error)
        if types.is_string(column.type) and field.type == pa.binary(16):
            reason = "give UUIDs as their 16 bytes, uuid.UUID(text).bytes"
        raise SchemaError(
            f"{what} of type {column.type} does not convert to the table's {field.type_name}: {reason}"
        ) from None


def distinct(keys: pa.Table) -> tuple[pa.Table, NDArray[np.int64]]:
    """The different keys without NULL, with their numbers as `NUMBER`, and the number of each key, -1 with NULL."""
    names = keys.column_names
    if len(names) == 1 and not isinstance(keys.schema.types[0], pa.BaseExtensionType):
        encoded = cast("Any", keys.column(0).combine_chunks()).dictionary_encode()
        order = arrow.array(np.arange(len(encoded.dictionary)))
        return arrow.table([encoded.dictionary, order], names=[*names, NUMBER]), encoded.indices.fill_null(
            -1
        ).to_numpy().astype(np.int64)
    rows: Any = keys.append_column(NUMBER, pa.array(np.arange(keys.num_rows)))
    known = rows.drop_null()
    firsts: Any = known.group_by(names).aggregate([(NUMBER, "min")]).sort_by(f"{NUMBER}_min")
    different = firsts.select(names).append_column(NUMBER, arrow.array(np.arange(firsts.num_rows)))
    joined = known.rename_columns([*names, "row"]).join(different, keys=names)
    numbers = np.full(keys.num_rows, -1, np.int64)
    numbers[joined.column("row").to_numpy()] = joined.column(NUMBER).to_numpy()
    return different, numbers


def ends(values: Any) -> Any:
    """The least and the greatest of some values."""
    order: list[int] = compute.array_sort_indices(values).to_pylist()
    return values.take([order[0], order[-1]])


def literals(values: pa.Array[Any], type_: pa.DataType) -> list[Any]:
    """Values as `pruner.expr.values` has them."""
    types, plain = pa.types, cast("Any", values)
    if types.is_timestamp(type_) or types.is_time64(type_):
        return plain.cast(pa.int64()).to_pylist()
    if types.is_time32(type_):
        return plain.cast(pa.int32()).to_pylist()
    return (plain.storage if isinstance(plain, pa.ExtensionArray) else plain).to_pylist()
