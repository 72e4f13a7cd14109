"""Values that are known without a record: each is written as the statistics of a slice that holds nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pruner.indexes.column_stats.record import RECORD_SCHEMA
from pruner.indexes.columns.kinds import Kind, kind_of
from pruner.metadata.segments import SLICE_COLUMN


def records_of_values(values: pa.Array[Any]) -> pa.Table | None:
    """Records for `load`, one for each value; None for types whose values have no one spelling (float, decimal)."""
    kind = kind_of(values.type)
    if kind is None or kind is Kind.FLOAT or kind is Kind.DECIMAL:
        return None
    count = len(values)
    is_null = values.is_null()
    bounds = _storage(values, kind)
    columns: dict[str, pa.Array[Any]] = {
        "trusted": pa.repeat(pa.scalar(True), count),
        "row_count": pa.repeat(pa.scalar(1, pa.int64()), count),
        "type": pa.repeat(pa.scalar(str(values.type)), count),
        "absent": pa.repeat(pa.scalar(False), count),
        "null_count": is_null.cast(pa.int64()),
        "has_values": values.is_valid(),
        f"min_{kind.value}": bounds,
        f"max_{kind.value}": bounds,
        "min_exact": values.is_valid(),
        "max_exact": values.is_valid(),
        "calendar_open": pa.repeat(pa.scalar(False), count),
        "from_data": pa.repeat(pa.scalar(False), count),
    }
    arrays: list[pa.Array[Any]] = []
    for name, type_ in zip(RECORD_SCHEMA.names, RECORD_SCHEMA.types, strict=True):
        arrays.append(columns[name] if name in columns else pa.array([None] * count, type_))
    table = pa.Table.from_arrays(arrays, schema=RECORD_SCHEMA)
    return table.append_column(SLICE_COLUMN, pa.array(np.arange(count, dtype=np.int32)))


def _storage(values: pa.Array[Any], kind: Kind) -> pa.Array[Any]:
    if kind is Kind.BYTES:
        return values.cast(pa.binary())
    narrow = pa.types.is_date32(values.type)
    return (values.cast(pa.int32()) if narrow else values).cast(pa.int64())
