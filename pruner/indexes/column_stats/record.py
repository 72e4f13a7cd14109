"""What column statistics record about one slice: one row per field. Unknown is null, never 0.

Bounds of byte strings are shortened, and upper bounds then raised so that no value is above them. All text is compared
as unsigned UTF-8 bytes, which is the order of its code points. A bound is not itself text and need not be valid UTF-8,
so raising its last byte is enough; surrogates and U+10FFFF need no rule of their own (trap S7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pruner.expr.exact.patterns import successor
from pruner.indexes.base import UndecodableError
from pruner.indexes.columns.kinds import BoundsKind, kind_of
from pruner.indexes.columns.reading import READING_COLUMNS, reading_of, why_unknown
from pruner.indexes.columns.trust import (
    Calendar,
    calendar,
    calendars_agree_from,
    footer_is_believed,
    never_shortens,
    zone_is_open,
)
from pruner.limits import STRING_BOUND_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pruner.expr.bound.predicates import StorageValue
    from pruner.indexes.base import ChunkStatistics, LeafColumn, ParquetFooter, SliceReader
    from pruner.schema import Field

# Minima, maxima and counts of one leaf column, from a trusted footer or from the data.


@dataclass(slots=True)
class Summary:
    """Counts over all rows; `low` and `high` over the values that are neither NULL nor NaN, None if there are none.

    `exact` means that both bounds are values of the column, or at least that equal bounds mean equal values.
    """

    null_count: int
    nan_count: int
    low: StorageValue | None
    high: StorageValue | None
    exact: bool = True
    from_data: bool = False


def summarize(reader: SliceReader, leaf: LeafColumn) -> Summary:
    """Summarize a column that is not repeated, of a supported type or of Parquet's null type.

    Raises:
        UndecodableError: a value does not fit the type.
        ValueError, OSError, pyarrow.ArrowException: the file is broken.
    """
    footer = reader.footer
    if footer_is_believed(footer.created_by, leaf):
        summary = _from_chunks(footer.chunks(leaf), leaf, shortens=not never_shortens(footer.created_by))
        if summary is not None:
            return summary
    return _from_data(reader.batches(leaf), footer.row_count)


def _from_chunks(chunks: Iterable[ChunkStatistics], leaf: LeafColumn, *, shortens: bool) -> Summary | None:
    """Combine what a footer states about each row group; None if anything is missing or impossible (traps S3, S5)."""
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
    # A writer that shortens a maximum also raises it, so only bounds that were not shortened can be equal.
    exact = low == high or not (shortens and isinstance(low, bytes))
    return Summary(nulls, 0, low, high, exact)


def _ordered_in_type(low: StorageValue, high: StorageValue, type_: pa.DataType | None) -> bool:
    """Tell whether bounds of one chunk are within the type and in order."""
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
    """The minimum, the maximum and the number of NaNs of an array that has a value."""
    types, type_ = pa.types, array.type
    if types.is_floating(type_):
        return _float_extremes(array)
    if types.is_decimal(type_):
        extremes = pc.min_max(array)
        return _unscaled(extremes["min"]), _unscaled(extremes["max"]), 0
    if kind_of(type_) is BoundsKind.BYTES:
        extremes = pc.min_max(array if types.is_fixed_size_binary(type_) else array.cast(pa.binary()))
    elif types.is_boolean(type_):
        extremes = pc.min_max(array)
    else:
        extremes = pc.min_max(array.view(pa.int32()) if types.is_date32(type_) else _integers(array))
    return extremes["min"].as_py(), extremes["max"].as_py(), 0


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
    # Adding +0.0 turns -0.0 into the only zero that bounds use (trap S6).
    return low + 0.0, high + 0.0, nans


def _unscaled(value: pa.Scalar[Any]) -> int:
    """The unscaled integer of a decimal, from its bytes: Python's decimals would round to their context."""
    data = pa.array([value], value.type).buffers()[1]
    assert data is not None
    return int.from_bytes(data.to_pybytes()[:16], "little", signed=True)


def shortened_low(value: bytes, limit: int) -> bytes:
    """Return a lower bound of `value` of at most `limit` bytes: its prefix is never greater."""
    return value[:limit]


def shortened_high(value: bytes, limit: int) -> bytes | None:
    """Return an upper bound of `value` of at most `limit` bytes; None if there is none (the prefix is all 0xFF)."""
    return value if len(value) <= limit else successor(value[:limit])


class ColumnRecord(NamedTuple):
    """The record of one field in one slice.

    Bounds are in the columns of the file type's kind (`BoundsKind`), in the file's own unit and scale; they exclude
    NULL and NaN. `trusted` is False if it is unknown what an engine reads from this file; then only the row count has a
    meaning. `absent` tells that the file lacks the column, `partly_absent` that some files of the slice do (None where
    unknown). `calendar_open` tells that a setting of the Spark session decides how the oldest dates or timestamps, or
    all INT96, are read. For `parquet` and `in_range` see `READING_COLUMNS`.
    """

    trusted: bool
    row_count: int
    type: str | None = None
    field_id: int | None = None
    absent: bool = False
    null_count: int | None = None
    nan_count: int | None = None
    has_values: bool | None = None
    min_integer: int | None = None
    max_integer: int | None = None
    min_decimal: int | None = None
    max_decimal: int | None = None
    min_float: float | None = None
    max_float: float | None = None
    min_bytes: bytes | None = None
    max_bytes: bytes | None = None
    min_exact: bool = False
    max_exact: bool = False
    calendar_open: bool = False
    from_data: bool = False
    note: str | None = None
    partly_absent: bool | None = False
    parquet: str | None = None
    in_range: bool | None = True


_BOUND = {
    BoundsKind.INTEGER: pa.int64(),
    BoundsKind.DECIMAL: pa.decimal128(38, 0),
    BoundsKind.FLOAT: pa.float64(),
    BoundsKind.BYTES: pa.binary(),
}

RECORD_SCHEMA = pa.schema(
    [
        pa.field("trusted", pa.bool_(), nullable=False),
        pa.field("row_count", pa.int64(), nullable=False),
        pa.field("type", pa.string()),
        pa.field("field_id", pa.int32()),
        pa.field("absent", pa.bool_(), nullable=False),
        pa.field("null_count", pa.int64()),
        pa.field("nan_count", pa.int64()),
        pa.field("has_values", pa.bool_()),
        *(pa.field(f"{end}_{kind.value}", _BOUND[kind]) for kind in BoundsKind for end in ("min", "max")),
        pa.field("min_exact", pa.bool_(), nullable=False),
        pa.field("max_exact", pa.bool_(), nullable=False),
        pa.field("calendar_open", pa.bool_(), nullable=False),
        pa.field("from_data", pa.bool_(), nullable=False),
        pa.field("note", pa.string()),
        pa.field("partly_absent", pa.bool_()),  # missing in the first records: there it is unknown
        *READING_COLUMNS,
    ]
)
"""Columns of the records, the same for every field, so that segments of different ages can always be combined."""


def record_column(reader: SliceReader, field: Field) -> ColumnRecord:
    """Record one field of one slice.

    Raises:
        ValueError, OSError, pyarrow.ArrowException: the file is broken.
    """
    footer = reader.footer
    leaf = footer.leaf(field.path)
    reason = why_unknown(footer, leaf, field)
    if reason is not None:
        return ColumnRecord(
            trusted=False,
            row_count=footer.row_count,
            type=leaf.type_text if leaf else None,
            field_id=leaf.field_id if leaf else None,
            absent=leaf is None,
            note=reason,
        )
    if leaf is None:
        rows = footer.row_count
        return ColumnRecord(trusted=True, row_count=rows, absent=True, null_count=rows, has_values=False)
    try:
        summary = summarize(reader, leaf)
    except UndecodableError as error:
        return ColumnRecord(
            True,
            footer.row_count,
            leaf.type_text,
            leaf.field_id,
            note=str(error),
            partly_absent=leaf.partly_absent,
        )
    return _record(footer, leaf, summary)


def _record(footer: ParquetFooter, leaf: LeafColumn, summary: Summary) -> ColumnRecord:
    low, high, note, is_open = summary.low, summary.high, None, False
    first_common = calendars_agree_from(leaf.type) if leaf.type is not None else None
    if first_common is not None and isinstance(low, int) and low < first_common:
        written_in = calendar(footer.key_values, leaf)
        is_open = written_in is Calendar.OPEN
        if written_in is Calendar.LEGACY:
            low = high = None
            note = "written in the legacy calendar, in which the oldest values are other days"
    is_open |= zone_is_open(footer.created_by, leaf)
    parquet, in_range = reading_of(footer, leaf, summary.low, summary.high)
    bounds = ColumnRecord(
        trusted=True,
        row_count=footer.row_count,
        type=leaf.type_text,
        field_id=leaf.field_id,
        null_count=summary.null_count,
        nan_count=summary.nan_count if leaf.type is not None and pa.types.is_floating(leaf.type) else None,
        has_values=summary.null_count < footer.row_count,
        calendar_open=is_open,
        from_data=summary.from_data,
        note=note,
        partly_absent=leaf.partly_absent,
        parquet=parquet,
        in_range=in_range,
    )
    if low is None or high is None or leaf.type is None:
        return bounds
    if isinstance(low, bytes) and isinstance(high, bytes):
        short_low = shortened_low(low, STRING_BOUND_BYTES)
        short_high = shortened_high(high, STRING_BOUND_BYTES)
        return bounds._replace(
            min_bytes=short_low,
            max_bytes=short_high,
            min_exact=summary.exact and short_low == low,
            max_exact=summary.exact and short_high == high,
        )
    exact = {"min_exact": summary.exact, "max_exact": summary.exact}
    match kind_of(leaf.type):
        case BoundsKind.DECIMAL:
            return bounds._replace(min_decimal=low, max_decimal=high, **exact)
        case BoundsKind.FLOAT:
            return bounds._replace(min_float=low, max_float=high, **exact)
        case _:
            return bounds._replace(min_integer=int(low), max_integer=int(high), **exact)
