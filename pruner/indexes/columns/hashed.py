"""What the records of indexes that keep hashes of values have in common: how the values may be read, and by whom.

An index type records one row per slice, with `COMMON_COLUMNS` and columns of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, as_numpy, compute, filled, truth_array
from pruner.errors import IndexDefinitionError
from pruner.indexes.base import UndecodableError
from pruner.indexes.columns.kinds import Conversion, conversion, kind_of
from pruner.indexes.columns.reading import (
    READING_COLUMNS,
    UnreadSlices,
    may_overflow,
    partly_absent,
    reading_of,
    recorded_types,
    why_unknown,
)
from pruner.indexes.columns.trust import require_in_files, unknown_calendar, why_not_equal
from pruner.metadata.segments import SLICE_COLUMN
from pruner.showing.words import not_indexed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.indexes.base import SliceReader
    from pruner.schema import Field

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]

Gather: TypeAlias = "Callable[[Iterable[pa.Array[Any]]], Mapping[str, object]]"
"""Makes an index type's own columns of a record from the values of a slice, a part at a time."""

COMMON_COLUMNS = (
    pa.field("low", pa.int64()),  # only for dates, times and timestamps, in the table's unit
    pa.field("high", pa.int64()),
    pa.field("type", pa.string()),
    pa.field("field_id", pa.int32()),
    pa.field("absent", pa.bool_()),
    pa.field("partly_absent", pa.bool_()),
    pa.field("calendar_open", pa.bool_()),
    *READING_COLUMNS,
)
"""They follow `usable` and `note`. Without `usable`, only `note` has a meaning."""


_SUPPORTED = (
    "boolean, integers, floating point, decimal up to 38 digits, string (char, varchar), binary, UUID, date, time, "
    "timestamp, and fields of these types inside structs (a.b) are supported"
)


def require_hashable(field: Field, type_name: str) -> None:
    """Reject a field whose values no index can hash.

    Args:
        field: the field.
        type_name: name of the index type that rejects it.

    Raises:
        IndexDefinitionError: it has an unsupported type, no file holds it, or files disagree about it.
    """
    if kind_of(field.type) is None:
        raise IndexDefinitionError(
            f"column {field.name!r} has type {field.type_name}, which {type_name} cannot index: {_SUPPORTED}"
        )
    require_in_files(field)


def record_values(reader: SliceReader, field: Field, gather: Gather) -> dict[str, object]:
    """Record one field of one slice; a slice that cannot be indexed gets a record that says why.

    Raises:
        ValueError, OSError, pyarrow.ArrowException: the file is broken.
    """
    footer = reader.footer
    leaf = footer.leaf(field.path)
    known: dict[str, object] = {
        "type": str(field.type),
        "field_id": leaf.field_id if leaf else None,
        "absent": leaf is None,
        "partly_absent": leaf is not None and leaf.partly_absent,
    }
    reason = why_unknown(footer, leaf, field) or why_not_equal(leaf, field)
    if reason is not None:
        return {**known, "usable": False, "note": reason}
    if leaf is None:
        return {**known, "usable": True, **gather(()), "in_range": True}
    bounds = _Bounds()
    try:
        gathered = gather(bounds.watched(reader.batches(leaf)))
    except UndecodableError as error:
        return {**known, "usable": False, "note": str(error)}
    factor = (conversion(leaf.type_text, field.type) or Conversion()).factor
    note, is_open = unknown_calendar(reader, leaf, bounds.low)
    if note is not None:
        return {**known, "usable": False, "note": note}
    known["parquet"], known["in_range"] = reading_of(footer, leaf, bounds.low, bounds.high)
    known["low"], known["high"] = _multiplied(bounds.low, factor), _multiplied(bounds.high, factor)
    return {**known, "usable": True, **gathered, "calendar_open": is_open}


class _Bounds:
    """The minimum and maximum date, time or timestamp read so far; None for other types."""

    def __init__(self) -> None:
        self.low: int | None = None
        self.high: int | None = None

    def watched(self, batches: Iterable[pa.Array[Any]]) -> Iterator[pa.Array[Any]]:
        """Pass the parts on, and update the bounds."""
        for part in batches:
            yield part
            moments = _moments(part)
            if moments is not None and moments.null_count < len(moments):
                ends = compute.min_max(moments).as_py()
                self.low = ends["min"] if self.low is None else min(self.low, ends["min"])
                self.high = ends["max"] if self.high is None else max(self.high, ends["max"])


def _moments(part: Any) -> Any:
    """Dates, times and timestamps as numbers; None for other types."""
    types = pa.types
    if types.is_date32(part.type) or types.is_time32(part.type):
        return part.view(pa.int32())
    return part.view(pa.int64()) if types.is_timestamp(part.type) or types.is_time64(part.type) else None


def _multiplied(bound: int | None, factor: int) -> int | None:
    """A bound in the table's unit, clamped to 64 bits."""
    return None if bound is None else max(-(1 << 63), min((1 << 63) - 1, bound * factor))


def one_row(values: Mapping[str, object], schema: pa.Schema) -> pa.Table:
    """The record of one slice; columns without a value are null."""
    fields: Any = schema
    return pa.table([pa.array([values.get(field.name)], field.type) for field in fields], schema=schema)


def as_recorded(records: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns that every record has, in their order, and `__slice`; missing ones are null."""
    columns: dict[str, Any] = {}
    for each in cast("Any", schema):
        there = each.name in records.column_names
        columns[each.name] = records.column(each.name) if there else pa.nulls(records.num_rows, each.type)
    there = SLICE_COLUMN in records.column_names
    columns[SLICE_COLUMN] = records.column(SLICE_COLUMN) if there else arrow.nulls(0, pa.int32())
    return pa.table(columns)


class Readable(NamedTuple):
    """Which records are about the values of the column as it is now, and how engines read those.

    Attributes:
        usable: whether each record is usable.
        covered: the slices with a usable record.
        unread: the slices whose values an engine reads differently.
        notes: why slices with a record are not covered.
    """

    usable: Mask
    covered: Mask
    unread: UnreadSlices
    notes: tuple[str, ...]


def readable(records: pa.Table, sound: Mask, count: int, field: Field) -> Readable:
    """Judge the records of one field.

    Args:
        records: with `COMMON_COLUMNS`, and `__slice`, the ordinal of each row's slice.
        sound: the records whose own columns are consistent.
        count: number of slices.
        field: the field as the table has it now.
    """
    slices = ints(records, SLICE_COLUMN)
    types, codes = _types(records)
    usable = sound & _is_about(records, slices, types, codes, count, field)
    place = placing(slices, usable, count)
    is_open = place(flags(records, "calendar_open"), False)
    lows, highs = place(ints(records, "low"), 0), place(ints(records, "high"), 0)

    def overflowing(rounded: bool) -> Mask | None:
        return may_overflow(lows, highs, field.type, rounded=rounded)

    unread = UnreadSlices(
        recorded_types(records, types, np.where(flags(records, "absent"), -1, codes), place, field),
        is_open if is_open.any() else None,
        field.type,
        overflowing,
    )
    return Readable(usable, place(usable, False), unread, _notes(records, usable))


def placing(slices: Integers, usable: Mask, count: int) -> Callable[[NDArray[Any], object], NDArray[Any]]:
    """Return a function that puts the value of each usable record at its slice's position, and a default elsewhere."""

    def place(values: NDArray[Any], default: object) -> NDArray[Any]:
        placed = np.full(count, default, dtype=values.dtype)
        placed[slices[usable]] = values[usable]
        return placed

    return place


def _types(records: pa.Table) -> tuple[list[str], Integers]:
    """The distinct types of records, and for each record the position of its own, -1 for none."""
    encoded = cast("Any", records.column("type").combine_chunks()).dictionary_encode()
    return encoded.dictionary.to_pylist(), as_numpy(filled(encoded.indices, -1)).astype(np.int64)


def _is_about(
    records: pa.Table, slices: Integers, types: Sequence[str], codes: Integers, count: int, field: Field
) -> Mask:
    """Tell which records are about the values of the column as it is now (R7)."""
    fits = np.array([_keeps_equality(text, field) for text in types] + [False])
    usable = flags(records, "usable") & fits[codes]
    if field.conflict is not None:
        usable &= False
    if not field.absent_is_null:
        usable &= ~flags(records, "absent")
        # Rows of files without the column now read as something else (trap T3).
        usable &= ~partly_absent(records, np.ones(len(usable), np.bool_))
    if field.field_id is not None:
        usable &= ints(records, "field_id", field.field_id) == field.field_id
    # Two records of one slice contradict each other, or one of them is redundant.
    return usable & (np.bincount(slices, minlength=count)[slices] == 1)


def _keeps_equality(recorded: str, field: Field) -> bool:
    """Tell whether values of the recorded type are equal exactly when they are equal as values of the field's type."""
    how = conversion(recorded, field.type)
    return how is not None and how == Conversion(factor=how.factor)


def _notes(records: pa.Table, usable: Mask) -> tuple[str, ...]:
    """Each reason why slices could not be indexed, with their number; slices without one were not refused."""
    notes: Any = records.column("note").filter(truth_array(~usable))
    counts = notes.drop_null().value_counts().to_pylist()
    return tuple(not_indexed(entry["counts"], entry["values"]) for entry in counts)


def ints(records: pa.Table, name: str, default: int = 0) -> Integers:
    """A column as integers."""
    column: Any = records.column(name).combine_chunks()
    return as_numpy(filled(column, default)).astype(np.int64, copy=False)


def flags(records: pa.Table, name: str) -> Mask:
    """A column of booleans; null is False."""
    return as_numpy(filled(records.column(name).combine_chunks(), False))
