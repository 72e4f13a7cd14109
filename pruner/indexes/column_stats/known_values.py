"""Values that are known without a record: each is written as the statistics of a slice that holds nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pruner.arrow import nulls, number_array, text_array, truth_array
from pruner.indexes.column_stats.record import RECORD_SCHEMA
from pruner.indexes.columns.kinds import Kind, kind_of
from pruner.metadata.segments import SLICE_COLUMN


def records_of_values(values: pa.Array[Any]) -> pa.Table | None:
    """Records for `load`, one for each value; None for types whose values have no one spelling (float)."""
    kind = kind_of(values.type)
    if kind is None or kind is Kind.FLOAT:
        return None
    count = len(values)
    is_null = values.is_null()
    bounds = _storage(values, kind)
    no = truth_array(np.zeros(count, np.bool_))
    columns: dict[str, pa.Array[Any]] = {
        "trusted": truth_array(np.ones(count, np.bool_)),
        "row_count": number_array(np.ones(count, np.int64), pa.int64()),
        "type": text_array([str(values.type)] * count),
        "absent": no,
        "null_count": is_null.cast(pa.int64()),
        "has_values": values.is_valid(),
        f"min_{kind.value}": bounds,
        f"max_{kind.value}": bounds,
        "min_exact": values.is_valid(),
        "max_exact": values.is_valid(),
        "calendar_open": no,
        "from_data": no,
    }
    arrays: list[pa.Array[Any]] = []
    for name, type_ in zip(RECORD_SCHEMA.names, RECORD_SCHEMA.types, strict=True):
        arrays.append(columns[name] if name in columns else nulls(count, type_))
    table = pa.Table.from_arrays(arrays, schema=RECORD_SCHEMA)
    return table.append_column(SLICE_COLUMN, number_array(np.arange(count, dtype=np.int32), pa.int32()))


def _storage(values: Any, kind: Kind) -> pa.Array[Any]:
    if kind is Kind.BYTES:
        return values.cast(pa.binary())
    if kind is Kind.DECIMAL:
        return values.cast(pa.decimal128(38, values.type.scale)).view(pa.decimal128(38, 0))
    narrow = pa.types.is_date32(values.type)
    return (values.cast(pa.int32()) if narrow else values).cast(pa.int64())
