"""Bitmaps that are read page by page: what is known about slices before any value is read, and where values are.

Only the pages about whole slices are read when an index is loaded. Everything else is read when a predicate needs it
(`pruner.indexes.bitmap.focused`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from pruner.arrow import as_numpy, positions, truth_array
from pruner.errors import FormatError, StorageError
from pruner.indexes.bitmap.load import conversion_of, load_headers, rescaled
from pruner.indexes.bitmap.record import NULL, SLICE, VALUE, stored_type
from pruner.indexes.bitmap.values import value_list
from pruner.indexes.columns.reading import UnreadSlices, may_overflow
from pruner.metadata.segments import SLICE_COLUMN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.indexes.bitmap.load import Headers
    from pruner.indexes.bitmap.values import ValueList
    from pruner.indexes.optional import RecordPages
    from pruner.schema import Field

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]


@dataclass(frozen=True)
class ValuePages:
    """The pages of one segment that have records of rows, by what is on them.

    Attributes:
        pages: reads them.
        numbers: the numbers of these pages among all pages of the segment.
        kinds: `NULL`, `NAN` or `VALUE`, for each page.
        bounds: the first and the last value of each page with values, alternating.
        column: the name of the column with the values.
        factor: the factor that turns these into values of the table.
        slices: the covered slices that count here, ascending.
    """

    pages: RecordPages
    numbers: Integers
    kinds: Integers
    bounds: pa.Array[Any]
    column: str
    factor: int
    slices: Integers

    @cached_property
    def bounds_in_order(self) -> ValueList:
        """The bounds, for looking up literals."""
        return value_list(self.bounds)

    @cached_property
    def sizes(self) -> Integers:
        """Bytes to read for each page."""
        return self.pages.sizes[self.numbers]

    @cached_property
    def deferred_sizes(self) -> Integers:
        """Bytes to read for the bitmaps of each page."""
        return self.pages.deferred_sizes[self.numbers]


class PagedBitmap:
    """What is known about all slices, and the pages with values. Threads may share it."""

    def __init__(
        self, headers: Headers, segments: list[ValuePages], count: int, field: Field, limit_bytes: int
    ) -> None:
        self.count = count
        self.field = field
        self.limit_bytes = limit_bytes
        self.segments = segments
        self.covered = headers.usable
        self.row_counts = np.where(headers.usable, headers.row_counts, -1)
        self.notes = tuple(headers.notes)
        open_calendar = headers.calendar_open & headers.usable
        self.unread = UnreadSlices(
            headers.read_types,
            open_calendar if open_calendar.any() else None,
            field.type,
            self._overflowing,
        )

    def _overflowing(self, rounded: bool) -> Mask | None:
        """Slices with timestamps that wrap around; if a page cannot be read, all slices of its segment."""
        if not pa.types.is_timestamp(self.field.type):
            return None
        mask = np.zeros(self.count, np.bool_)
        for segment in self.segments:
            bounds = as_numpy(segment.bounds)
            doubted = may_overflow(bounds[::2], bounds[1::2], self.field.type, rounded=rounded)
            if doubted is not None:
                numbers: list[int] = segment.numbers[segment.kinds == VALUE][doubted].tolist()
                for page in numbers:
                    self._mark_overflowing(mask, segment, page, rounded)
        return mask if mask.any() else None

    def _mark_overflowing(self, mask: Mask, each: ValuePages, page: int, rounded: bool) -> None:
        try:
            records = each.pages.read(page, (each.column, SLICE_COLUMN))
        except (FormatError, StorageError):
            mask[each.slices] = True
            return
        values = as_numpy(table_values(records, each, self.field))
        wrong = may_overflow(values, values, self.field.type, rounded=rounded)
        if wrong is not None:
            slices = as_numpy(records.column(SLICE_COLUMN))[wrong]
            mask[slices[slices >= 0]] = True


def table_values(records: pa.Table, each: ValuePages, field: Field) -> pa.Array[Any]:
    """The values of some records, as values of the table."""
    column: Any = records.column(each.column).combine_chunks()
    return rescaled(column, each.factor, stored_type(field.type))


def load_paged(
    segments: Sequence[RecordPages], count: int, field: Field, limit_bytes: int
) -> PagedBitmap | None:
    """Load what is known without reading a value: see `PagedIndexType.load_paged`.

    Raises:
        FormatError: a page about whole slices is damaged.
        StorageError: one cannot be read.
    """
    tables = [_about_slices(segment) for segment in segments]
    records = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    slices = as_numpy(records.column(SLICE_COLUMN)).astype(np.int64)
    # Where a NULL that was counted for a file without the column may read as something else (trap T3).
    with_nulls = (
        [np.empty(0, np.int64)] if field.absent_is_null else [_with_nulls(segment) for segment in segments]
    )
    headers = load_headers(records, slices, np.isin(slices, np.concatenate(with_nulls)), count, field)
    all_pages: list[ValuePages] = []
    for segment, table in zip(segments, tables, strict=True):
        own = as_numpy(table.column(SLICE_COLUMN)).astype(np.int64)
        covered = np.sort(own[headers.usable[own]])
        if len(covered):
            pages = _value_pages(segment, table, covered, field)
            if pages is None:
                return None
            all_pages.append(pages)
    return PagedBitmap(headers, all_pages, count, field, limit_bytes)


def _about_slices(each: RecordPages) -> pa.Table:
    """The records about whole slices that count."""
    records = pa.concat_tables([each.read(page, None) for page in each.leading])
    chosen = (as_numpy(records.column(SLICE_COLUMN)) >= 0) & (as_numpy(records.column("entry")) == SLICE)
    return records.filter(truth_array(chosen))


def _with_nulls(each: RecordPages) -> Integers:
    pages = np.flatnonzero(as_numpy(each.firsts.column("entry")) == NULL).tolist()
    tables = [as_numpy(each.read(page, (SLICE_COLUMN,)).column(SLICE_COLUMN)) for page in pages]
    return np.concatenate([np.empty(0, np.int64), *tables])


def _value_pages(each: RecordPages, headers: pa.Table, slices: Integers, field: Field) -> ValuePages | None:
    """Where the values of a segment are; None if their order says nothing about the table's values."""
    types = cast("Any", headers.column("type")).unique().drop_null().to_pylist()
    columns = [name for name in each.firsts.column_names if name.startswith("value_")]
    how = conversion_of(types[0], field) if len(types) == 1 else None
    if how is None or len(columns) != 1:
        return None
    kinds = as_numpy(each.firsts.column("entry")).astype(np.int64)
    numbers = np.flatnonzero(kinds != SLICE)
    at = positions(np.flatnonzero(kinds == VALUE))
    ends = [
        rescaled(keys.column(columns[0]).combine_chunks().take(at), how.factor, stored_type(field.type))
        for keys in (cast("Any", each.firsts), cast("Any", each.lasts))
    ]
    if any(end.null_count for end in ends):
        return None
    turns = np.arange(2 * len(at)).reshape(2, -1).T.reshape(-1)
    bounds: Any = pa.concat_arrays(ends)
    return ValuePages(
        pages=each,
        numbers=numbers,
        kinds=kinds[numbers],
        bounds=bounds.take(positions(turns)),
        column=columns[0],
        factor=how.factor,
        slices=slices,
    )
