"""Made-up records of column statistics, in the metadata table's schema."""

from __future__ import annotations

from itertools import product
from string import ascii_uppercase

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pruner.indexes.column_stats.record import RECORD_SCHEMA

ROWS_PER_FILE = 1000
CARRIERS = np.array(["".join(letters) for letters in product(ascii_uppercase, repeat=2)])
"""676 codes, in order."""


def integer_records(low: NDArray[np.int64], high: NDArray[np.int64]) -> pa.Table:
    """Records of an int64 column without NULLs, where slice i has the bounds low[i] and high[i]."""
    return _records("int64", {"min_integer": pa.array(low), "max_integer": pa.array(high)}, len(low))


def float_records(low: NDArray[np.float64], high: NDArray[np.float64]) -> pa.Table:
    """Records of a double column without NULL and NaN."""
    bounds = {"min_float": pa.array(low), "max_float": pa.array(high)}
    return _records("double", {**bounds, "nan_count": pa.array(np.zeros(len(low), np.int64))}, len(low))


def string_records(low: NDArray[np.str_], high: NDArray[np.str_]) -> pa.Table:
    """Records of a string column without NULLs."""
    return _records("string", {"min_bytes": _as_bytes(low), "max_bytes": _as_bytes(high)}, len(low))


def _as_bytes(texts: NDArray[np.str_]) -> pa.Array:
    return pa.array(texts.astype(str), pa.string()).cast(pa.binary())


def _records(type_text: str, known: dict[str, pa.Array], count: int) -> pa.Table:
    yes, no = pa.array(np.ones(count, np.bool_)), pa.array(np.zeros(count, np.bool_))
    columns = {
        "trusted": yes,
        "row_count": pa.array(np.full(count, ROWS_PER_FILE, np.int64)),
        "type": pa.repeat(pa.scalar(type_text), count),
        "absent": no,
        "null_count": pa.array(np.zeros(count, np.int64)),
        "has_values": yes,
        "min_exact": yes,
        "max_exact": yes,
        "calendar_open": no,
        "from_data": no,
        **known,
    }
    filled = [columns.get(field.name, pa.nulls(count, field.type)) for field in RECORD_SCHEMA]
    slices = pa.array(np.arange(count, dtype=np.int32))
    return pa.table(filled, schema=RECORD_SCHEMA).append_column("__slice", slices)
