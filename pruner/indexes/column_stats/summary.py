"""Minima, maxima and counts of one leaf column, from a footer that is believed or from the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pruner.indexes.columns.kinds import Kind, kind_of
from pruner.indexes.columns.trust import footer_is_believed, never_shortens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pruner.expr.bound.predicates import StorageValue
    from pruner.indexes.base import ChunkStatistics, LeafColumn, SliceReader


@dataclass(slots=True)
class Summary:
    """Counts over all rows; `low` and `high` over the values that are neither NULL nor NaN, None where there are none.

    `exact` tells that both bounds are values of the column, or at least that equal bounds mean equal values.
    """

    null_count: int
    nan_count: int
    low: StorageValue | None
    high: StorageValue | None
    exact: bool = True
    from_data: bool = False


def summarize(reader: SliceReader, leaf: LeafColumn) -> Summary:
    """Summarize a column that is not repeated and of a supported type, or of Parquet's null type.

    Raises:
        UndecodableError: a value has no place in the type.
        ValueError, OSError, pyarrow.ArrowException: the file is broken.
    """
    footer = reader.footer
    if footer_is_believed(footer.created_by, leaf):
        found = _from_chunks(footer.chunks(leaf), leaf, shortens=not never_shortens(footer.created_by))
        if found is not None:
            return found
    return _from_data(reader.batches(leaf), footer.row_count)


def _from_chunks(chunks: Iterable[ChunkStatistics], leaf: LeafColumn, *, shortens: bool) -> Summary | None:
    """Add up what a footer says of each row group; None as soon as something is missing or cannot be (traps S3, S5)."""
    nulls = 0
    lows: list[StorageValue] = []
    highs: list[StorageValue] = []
    for chunk in chunks:
        if chunk.null_count is None or not 0 <= chunk.null_count <= chunk.rows or chunk.values != chunk.rows:
            return None
        nulls += chunk.null_count
        if chunk.null_count == chunk.rows:
            if chunk.low is not None or chunk.high is not None:
                return None
            continue
        if chunk.low is None or chunk.high is None or not _ordered_in_type(chunk.low, chunk.high, leaf.type):
            return None
        lows.append(chunk.low)
        highs.append(chunk.high)
    low, high = (min(lows), max(highs)) if lows else (None, None)
    # A writer that cuts bounds raises the maximum then, so only bounds that were not cut can be equal.
    exact = low == high or not (shortens and isinstance(low, bytes))
    return Summary(nulls, 0, low, high, exact)


def _ordered_in_type(low: StorageValue, high: StorageValue, type_: pa.DataType | None) -> bool:
    """Tell whether bounds of one chunk lie within the type and in order."""
    if isinstance(low, bytes) or isinstance(high, bytes):
        return isinstance(low, bytes) and isinstance(high, bytes) and low <= high
    if type_ is None or isinstance(low, bool) or isinstance(high, bool):
        return low <= high
    limits = _limits(type_)
    return low <= high and (limits is None or limits[0] <= low <= high <= limits[1])


def _limits(type_: pa.DataType) -> tuple[int, int] | None:
    types = pa.types
    if types.is_decimal(type_):
        return 1 - 10**type_.precision, 10**type_.precision - 1
    if types.is_unsigned_integer(type_):
        return 0, 2**type_.bit_width - 1
    return (
        (-(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1) - 1) if types.is_integer(type_) else None
    )


def _from_data(batches: Iterable[pa.Array[Any]], rows: int) -> Summary:
    total = Summary(0, 0, None, None, from_data=True)
    seen = 0
    for array in batches:
        seen += len(array)
        total.null_count += array.null_count
        if array.null_count == len(array):
            continue
        low, high, nans = _extremes(array)
        total.nan_count += nans
        if low is not None and high is not None:
            total.low = low if total.low is None else min(total.low, low)
            total.high = high if total.high is None else max(total.high, high)
    if seen != rows:
        raise ValueError(f"its column has {seen} values for {rows} rows")
    return total


def _extremes(array: pa.Array[Any]) -> tuple[StorageValue | None, StorageValue | None, int]:
    """Least and greatest value, and the number of NaN, of an array that has a value."""
    types, type_ = pa.types, array.type
    if types.is_floating(type_):
        return _float_extremes(array)
    if types.is_decimal(type_):
        found = pc.min_max(array)
        return _unscaled(found["min"]), _unscaled(found["max"]), 0
    if kind_of(type_) is Kind.BYTES:
        found = pc.min_max(array if types.is_fixed_size_binary(type_) else array.cast(pa.binary()))
    elif types.is_boolean(type_):
        found = pc.min_max(array)
    else:
        found = pc.min_max(array.view(pa.int32()) if types.is_date32(type_) else _integers(array))
    return found["min"].as_py(), found["max"].as_py(), 0


def _integers(array: pa.Array[Any]) -> pa.Array[Any]:
    if pa.types.is_time32(array.type):
        return array.view(pa.int32())
    is_moment = pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type)
    return array.view(pa.int64()) if is_moment else array


def _float_extremes(array: pa.Array[Any]) -> tuple[float | None, float | None, int]:
    values = (array.drop_null() if array.null_count else array).to_numpy()
    # The minimum is NaN exactly when one of the values is.
    low, high, nans = float(values.min()), float(values.max()), 0
    if low != low:  # noqa: PLR0124 - NaN
        missing = np.isnan(values)
        nans = int(np.count_nonzero(missing))
        if nans == len(values):
            return None, None, nans
        values = values[~missing]
        low, high = float(values.min()), float(values.max())
    # Adding +0.0 makes -0.0 the one zero that bounds know (trap S6).
    return low + 0.0, high + 0.0, nans


def _unscaled(value: pa.Scalar[Any]) -> int:
    """The unscaled integer of a decimal, from its bytes: Python's decimals would round to their context."""
    data = pa.array([value], value.type).buffers()[1]
    assert data is not None
    return int.from_bytes(data.to_pybytes()[:16], "little", signed=True)
