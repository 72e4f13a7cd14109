"""What column statistics record of one slice: one row for each field. Unknown is null, never 0.

Bounds of byte strings: shortened, and as upper bounds raised so that nothing lies above them.

All text is compared as UTF-8 bytes, unsigned, which is the order of its code points. A bound is no text itself and need
not be valid UTF-8, so raising its last byte is enough; surrogates and U+10FFFF need no rule of their own (trap S7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from pruner.expr.exact.patterns import successor
from pruner.indexes.base import UndecodableError
from pruner.indexes.column_stats.summary import summarize
from pruner.indexes.columns.kinds import Kind, kind_of
from pruner.indexes.columns.reading import READING_COLUMNS, reading_of
from pruner.indexes.columns.trust import Calendar, calendar, calendars_agree_from, zone_is_open
from pruner.indexes.columns.unknown import why_unknown
from pruner.limits import STRING_BOUND_BYTES

if TYPE_CHECKING:
    from pruner.indexes.base import LeafColumn, ParquetFooter, SliceReader
    from pruner.indexes.column_stats.summary import Summary
    from pruner.schema import Field


def shortened_low(value: bytes, limit: int) -> bytes:
    """Return a lower bound of `value` of at most `limit` bytes: its prefix is never greater."""
    return value[:limit]


def shortened_high(value: bytes, limit: int) -> bytes | None:
    """Return an upper bound of `value` of at most `limit` bytes, None when there is none (only 0xFF in front)."""
    return value if len(value) <= limit else successor(value[:limit])


class ColumnRecord(NamedTuple):
    """The record of one field in one slice.

    Bounds stand in the columns of the file type's kind (`kinds.Kind`), in the file's own unit and scale; they leave out
    NULL and NaN. `trusted` is False where it is not known what an engine reads from this file; then nothing but
    the row count means anything. `absent` tells that the file does not have the column, `partly_absent` that some files
    of the slice do not (None where that is not known). `calendar_open` tells that a setting of the Spark session
    decides how the oldest dates or timestamps, or all INT96, are read. For `parquet` and `in_range` see
    `READING_COLUMNS`.
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
    Kind.INTEGER: pa.int64(),
    Kind.DECIMAL: pa.decimal128(38, 0),
    Kind.FLOAT: pa.float64(),
    Kind.BYTES: pa.binary(),
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
        *(pa.field(f"{end}_{kind.value}", _BOUND[kind]) for kind in Kind for end in ("min", "max")),
        pa.field("min_exact", pa.bool_(), nullable=False),
        pa.field("max_exact", pa.bool_(), nullable=False),
        pa.field("calendar_open", pa.bool_(), nullable=False),
        pa.field("from_data", pa.bool_(), nullable=False),
        pa.field("note", pa.string()),
        pa.field("partly_absent", pa.bool_()),  # not in the first records: there it is not known
        *READING_COLUMNS,
    ]
)
"""Columns of the records, the same for every field, so that segments of different ages always go together."""


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
        found = calendar(footer.key_values, leaf)
        is_open = found is Calendar.OPEN
        if found is Calendar.LEGACY:
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
        case Kind.DECIMAL:
            return bounds._replace(min_decimal=low, max_decimal=high, **exact)
        case Kind.FLOAT:
            return bounds._replace(min_float=low, max_float=high, **exact)
        case _:
            return bounds._replace(min_integer=int(low), max_integer=int(high), **exact)
