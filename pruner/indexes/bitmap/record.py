"""What a bitmap index records of one slice: for each value, for NULL and for NaN the rows that hold it.

Every row of a slice stands in exactly one entry, so that what holds *not* is known as well as what holds. Values are
those of the table's type when the slice was indexed; `type` says which, and a reader converts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from pruner.indexes.base import UndecodableError
from pruner.indexes.bitmap.blobs import checksum
from pruner.indexes.bitmap.distinct import TooManyValuesError, Values, distinct_values
from pruner.indexes.bitmap.packing import pack_rows
from pruner.indexes.columns.equality import unknown_calendar, why_not_equal
from pruner.indexes.columns.kinds import Kind, conversion, kind_of
from pruner.indexes.columns.reading import READING_COLUMNS, reading_of
from pruner.indexes.columns.unknown import why_unknown
from pruner.indexes.row_sets import MOST_ROWS

if TYPE_CHECKING:
    from pruner.indexes.base import LeafColumn, SliceReader
    from pruner.schema import Field

SLICE, NULL, NAN, VALUE = 0, 1, 2, 3
"""What a record is about, in `entry`: the slice as a whole, or the rows with NULL, NaN, or a value."""

_STORED = {
    Kind.INTEGER: pa.int64(),
    Kind.DECIMAL: pa.decimal128(38, 0),
    Kind.FLOAT: pa.float64(),
    Kind.BYTES: pa.binary(),
}


def stored_type(type_: pa.DataType) -> pa.DataType:
    """The type in which values of a supported table type are recorded: integers, unscaled decimals, doubles, bytes."""
    kind = kind_of(type_)
    assert kind is not None
    return _STORED[kind]


def value_column(type_: pa.DataType) -> str:
    """The column with the values of a table type: one for each kind, so that records of different ages go together."""
    kind = kind_of(type_)
    assert kind is not None
    return f"value_{kind.value}"


def record_schema(type_: pa.DataType) -> pa.Schema:
    """Columns of the records of a field: what is null stands in the records of other entries alone."""
    return pa.schema(
        [
            pa.field("entry", pa.int8(), nullable=False),
            pa.field(value_column(type_), stored_type(type_)),
            pa.field("cardinality", pa.int64()),
            pa.field("rows", pa.binary()),
            pa.field("checksum", pa.uint64()),
            pa.field("row_count", pa.int64()),
            pa.field("type", pa.string()),
            pa.field("field_id", pa.int32()),
            pa.field("usable", pa.bool_()),
            pa.field("absent", pa.bool_()),
            pa.field("calendar_open", pa.bool_()),
            pa.field("note", pa.string()),
            pa.field("partly_absent", pa.bool_()),  # not in the first records: there it is not known
            *READING_COLUMNS,
        ]
    )


@dataclass(frozen=True, slots=True)
class _About:
    """The record of the slice as a whole. Without `usable` nothing but the note means anything."""

    row_count: int
    field_id: int | None = None
    note: str | None = None
    absent: bool = False
    calendar_open: bool = False
    partly_absent: bool = False
    parquet: str | None = None
    in_range: bool = True


def record_slice(reader: SliceReader, field: Field, max_cardinality: int) -> pa.Table:
    """Record one field of one slice; a slice that cannot be indexed gets a record that says why.

    Raises:
        ValueError, OSError, pyarrow.ArrowException: the file is broken.
    """
    footer = reader.footer
    leaf = footer.leaf(field.path)
    rows = footer.row_count
    field_id = leaf.field_id if leaf else None
    reason = why_unknown(footer, leaf, field) or _no_bitmap(leaf, field, rows)
    if reason is not None:
        return _table(field, _About(rows, field_id, reason), None)
    if leaf is None:
        return _table(field, _About(rows, absent=True), Values.all_null(stored_type(field.type), rows))
    how = conversion(leaf.type_text, field.type)
    assert how is not None
    try:
        values = distinct_values(reader.encoded(leaf), stored_type(field.type), how.factor, max_cardinality)
    except TooManyValuesError as error:
        return _table(field, _About(rows, field_id, str(error)), None)
    except UndecodableError as error:
        return _table(field, _About(rows, field_id, str(error)), None)
    if len(values.codes) != rows:
        raise ValueError(f"its column has {len(values.codes)} values for {rows} rows")
    oldest, newest = (values.distinct[at].as_py() if len(values.distinct) else None for at in (0, -1))
    note, is_open = unknown_calendar(reader, leaf, oldest, how.factor)
    parquet, in_range = reading_of(footer, leaf, oldest, newest)
    about = _About(
        *(rows, field_id, note),
        calendar_open=is_open,
        partly_absent=leaf.partly_absent,
        parquet=parquet,
        in_range=in_range,
    )
    return _table(field, about, None if note else values)


def _no_bitmap(leaf: LeafColumn | None, field: Field, rows: int) -> str | None:
    """Why no bitmap can be made, or None."""
    if rows > MOST_ROWS:
        return f"the file has {rows} rows, more than positions of 32 bits can tell"
    return why_not_equal(leaf, field)


def _table(field: Field, about: _About, values: Values | None) -> pa.Table:
    """The records of one slice: the slice's own first, then NULL, NaN, and values in their order."""
    schema: Any = record_schema(field.type)
    header = {
        "entry": SLICE,
        "row_count": about.row_count,
        "type": str(field.type),
        "field_id": about.field_id,
        "usable": values is not None,
        "absent": about.absent,
        "calendar_open": about.calendar_open,
        "note": about.note,
        "partly_absent": about.partly_absent,
        "parquet": about.parquet,
        "in_range": about.in_range,
    }
    about_slice = pa.table(
        [pa.array([header.get(column.name)], column.type) for column in schema], schema=schema
    )
    if values is None:
        return about_slice
    listed = _entries(values, value_column(field.type))
    count = len(listed["entry"])
    columns: list[Any] = [
        listed[column.name] if column.name in listed else pa.nulls(count, column.type) for column in schema
    ]
    return pa.concat_tables([about_slice, pa.table(columns, schema=schema)])


def _entries(values: Values, value_name: str) -> dict[str, pa.Array[Any]]:
    """Kind, value, number of rows, blob and checksum: of NULL and NaN, where rows have them, and of each value."""
    count = len(values.distinct)
    sizes = values.sizes
    others = [code for code in (values.null_code, values.nan_code) if sizes[code]]
    kinds = {values.null_code: NULL, values.nan_code: NAN}
    codes = [*others, *range(count)]
    blobs = pack_rows(values.codes, sizes, codes)
    content = memoryview(cast("Any", blobs.buffers()[2]) or b"")
    ends = np.frombuffer(cast("Any", blobs.buffers()[1]), np.int32)[blobs.offset :][: len(codes) + 1].tolist()
    sums = [checksum(content[start:end]) for start, end in pairwise(ends)]
    without: list[Any] = [pa.nulls(len(others), values.distinct.type), values.distinct]
    return {
        "entry": pa.array([kinds.get(code, VALUE) for code in codes], pa.int8()),
        value_name: pa.concat_arrays(without),
        "cardinality": pa.array(sizes[codes], pa.int64()),
        "rows": blobs,
        "checksum": pa.array(sums, pa.uint64()),
    }
