"""Turns records into postings: for each value, the slices that hold it, for all slices of a snapshot together.

Only what tells which slice holds which value is loaded; the bitmaps themselves are not read until rows are asked for. A
slice whose records are inconsistent (rows in two entries or in none, a value that occurs twice) is not covered, nor is
one whose record says that it could not be indexed.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from pruner.arrow import as_numpy, compute, filled, nulls, positions, truth_array
from pruner.indexes.bitmap.record import NAN, NULL, SLICE, VALUE, stored_type
from pruner.indexes.bitmap.values import ValueList, value_list
from pruner.indexes.columns.kinds import Conversion, conversion, kind_of, parse_type
from pruner.indexes.columns.reading import RecordedTypes, partly_absent, recorded_types
from pruner.metadata.segments import SLICE_COLUMN
from pruner.showing.words import counted, not_indexed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.schema import Field

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Postings:
    """Which slices hold which entries: the values by their position in `values`, then NaN, then NULL.

    `distinct` holds the values as recorded. The postings of entry e are those from `starts[e]` to `starts[e + 1]`,
    ascending by slice: `slices` has the slice of each, `sizes` its number of rows and `records` the position of its
    record. `row_counts` is -1 for slices that are not `covered`. `notes` tells why slices with records are not covered.
    """

    values: ValueList
    distinct: pa.Array[Any]
    starts: Integers
    slices: NDArray[np.int32]
    sizes: Integers
    records: Integers
    row_counts: Integers
    covered: Mask
    calendar_open: Mask | None
    read_types: RecordedTypes
    notes: tuple[str, ...]

    @property
    def nan(self) -> int:
        """The entry of NaN."""
        return len(self.values)

    @property
    def null(self) -> int:
        """The entry of NULL."""
        return len(self.values) + 1

    @property
    def entry_count(self) -> int:
        """Number of entries, NaN and NULL included."""
        return len(self.values) + 2

    @cached_property
    def entries_in(self) -> NDArray[np.int32]:
        """Number of entries of each slice."""
        return np.bincount(self.slices, minlength=len(self.row_counts)).astype(np.int32)

    @cached_property
    def any_entry(self) -> Mask:
        """Slices with an entry."""
        return self.entries_in > 0

    @cached_property
    def by_slice(self) -> tuple[Integers, NDArray[np.intp]]:
        """Where the postings of each slice start in the order of slices, and the postings in that order."""
        starts = np.concatenate([[0], np.cumsum(self.entries_in, dtype=np.int64)])
        return starts, np.argsort(self.slices, kind="stable")


@dataclass(slots=True)
class Headers:
    """The records about whole slices, by slice; `codes` is the position of the recorded type among `types`, or -1."""

    usable: Mask
    row_counts: Integers
    codes: Integers
    types: list[str]
    calendar_open: Mask
    read_types: RecordedTypes
    notes: list[str]


def load_postings(records: pa.Table, count: int, field: Field) -> Postings:
    """Load the records of one field.

    Args:
        records: columns as `record.record_schema`, and `__slice` with the ordinal of each row's slice.
        count: number of slices.
        field: the field as the table has it now.
    """
    records = records.combine_chunks()
    slices = _ints(records, SLICE_COLUMN)
    kinds = _ints(records, "entry")
    with_nulls = np.isin(slices[kinds == SLICE], slices[kinds == NULL])
    headers = load_headers(_where(records, kinds == SLICE), slices[kinds == SLICE], with_nulls, count, field)
    rows = np.flatnonzero(kinds != SLICE)
    rows = rows[headers.usable[slices[rows]]]
    values, distinct, codes, rows = _coded(records, rows, kinds, headers.codes[slices[rows]], headers, field)
    owners, sizes = slices[rows], _ints(records, "cardinality")[rows]
    trusted = _adding_up(codes, owners, sizes, headers, len(values))
    if not trusted.all():
        broken = np.unique(owners[~trusted[owners]])
        headers.usable &= trusted
        headers.notes.append(
            f"{counted(len(broken), 'record')} {'does' if len(broken) == 1 else 'do'} not add up"
        )
        kept = trusted[owners]
        codes, owners, sizes, rows = codes[kept], owners[kept], sizes[kept], rows[kept]
    return _sorted(values, distinct, codes, owners, sizes, rows, headers)


def load_headers(records: pa.Table, slices: Integers, with_nulls: Mask, count: int, field: Field) -> Headers:
    """Load the records about whole slices.

    Args:
        records: only these records.
        slices: the slice of each.
        with_nulls: whether that slice has rows with NULL; used only if an absent column is not NULL.
        count: number of slices.
        field: the field as the table has it now.
    """
    row_counts = _ints(records, "row_count", -1)
    encoded = cast("Any", records.column("type").combine_chunks()).dictionary_encode()
    types: list[str] = encoded.dictionary.to_pylist()
    codes = as_numpy(filled(encoded.indices, -1)).astype(np.int64)
    fits = np.array([conversion_of(text, field) is not None for text in types] + [False])
    absent = _flags(records, "absent")
    usable = _flags(records, "usable") & (row_counts >= 0) & fits[codes] & (~absent | field.absent_is_null)
    if field.conflict is not None:
        usable &= False
    if not field.absent_is_null:
        # NULLs that were counted for files without the column now read as something else (trap T3).
        usable &= ~partly_absent(records, with_nulls)
    if field.field_id is not None:
        ids = _ints(records, "field_id", field.field_id)
        usable &= ids == field.field_id
    usable &= np.bincount(slices, minlength=count)[slices] == 1

    def place(values: NDArray[Any], default: object) -> NDArray[Any]:
        placed = np.full(count, default, dtype=values.dtype)
        placed[slices[usable]] = values[usable]
        return placed

    return Headers(
        usable=place(usable, False),
        row_counts=place(row_counts, -1),
        codes=place(codes, -1),
        types=types,
        calendar_open=place(_flags(records, "calendar_open"), False),
        read_types=recorded_types(records, types, np.where(absent, -1, codes), place, field),
        notes=_notes(_where(records, ~usable).column("note")),
    )


def _notes(notes: Any) -> list[str]:
    """Each reason why slices could not be indexed, with their number; slices without one were not refused."""
    counts = notes.drop_null().value_counts().to_pylist()
    return [not_indexed(entry["counts"], entry["values"]) for entry in counts]


def conversion_of(recorded: str, field: Field) -> Conversion | None:
    """How recorded values convert to values of the table as it is now; None if equal ones may become different."""
    how = conversion(recorded, field.type)
    return how if how is not None and how == Conversion(factor=how.factor) else None


def _coded(
    records: pa.Table, rows: Integers, kinds: Integers, types: Integers, headers: Headers, field: Field
) -> tuple[ValueList, pa.Array[Any], Integers, Integers]:
    """The distinct values, the entry of each record, and the records, in another order than given."""
    stored = stored_type(field.type)
    arrays: list[Any] = []
    ordered: list[Integers] = []
    is_value = kinds[rows] == VALUE
    for code, text in enumerate(headers.types):
        how, recorded = conversion_of(text, field), parse_type(text)
        at = rows[is_value & (types == code)]
        if how is None or recorded is None or not len(at):
            continue
        kind = kind_of(recorded)
        assert kind is not None
        column = records.column(f"value_{kind.value}").combine_chunks()
        arrays.append(rescaled(column.take(positions(at)), how.factor, stored))
        ordered.append(at)
    joined: Any = pa.concat_arrays([*arrays, nulls(0, stored)])
    encoded = joined.dictionary_encode()
    order = _ascending(encoded.dictionary)
    ranks = np.empty(len(order) + 1, np.int64)
    ranks[order] = np.arange(len(order))
    ranks[-1] = -1
    codes = ranks[as_numpy(filled(encoded.indices, len(order)))]
    distinct = encoded.dictionary.take(positions(order))
    values = value_list(distinct)
    for kind, entry in ((NAN, len(values)), (NULL, len(values) + 1)):
        at = rows[kinds[rows] == kind]
        ordered.append(at)
        codes = np.concatenate([codes, np.full(len(at), entry, np.int64)])
    return values, distinct, codes, np.concatenate(ordered)


def rescaled(values: pa.Array[Any], factor: int, stored: pa.DataType) -> pa.Array[Any]:
    """Values of one recorded type as values of the table; those that do not fit become null, which is no entry."""
    if factor == 1:
        return values if values.type.equals(stored) else values.cast(stored)
    encoded: Any = cast("Any", values).dictionary_encode()
    scaled: list[Any] = []
    for value in encoded.dictionary.to_pylist():
        number = int(value) * factor
        fits = abs(number) < (10**38 if pa.types.is_decimal(stored) else 2**63)
        scaled.append((Decimal(number) if pa.types.is_decimal(stored) else number) if fits else None)
    return pa.array(scaled, stored).take(encoded.indices)


def _ascending(values: Any) -> NDArray[np.intp]:
    if pa.types.is_floating(values.type) or pa.types.is_integer(values.type):
        return np.argsort(as_numpy(values), kind="stable")
    return as_numpy(compute.sort_indices(values)).astype(np.intp)


def _adding_up(codes: Integers, owners: Integers, sizes: Integers, headers: Headers, values: int) -> Mask:
    """Slices in which each row is in exactly one entry, as far as the counts tell (R10)."""
    count = len(headers.usable)
    counts = headers.row_counts
    bad = (codes < 0) | (sizes < 1) | (sizes > counts[owners])
    # Doubles are exact far beyond the number of rows of a slice.
    total = np.bincount(owners, weights=np.where(bad, 0, sizes), minlength=count)
    trusted = ~headers.usable | (total == counts)
    trusted[owners[bad]] = False
    keys = np.sort(owners * np.int64(values + 2) + np.maximum(codes, 0))
    twice = keys[1:][keys[1:] == keys[:-1]] // np.int64(values + 2)
    trusted[twice] = False
    return trusted


def _sorted(
    values: ValueList,
    distinct: pa.Array[Any],
    codes: Integers,
    owners: Integers,
    sizes: Integers,
    rows: Integers,
    headers: Headers,
) -> Postings:
    count = len(headers.usable)
    keys = codes * np.int64(max(count, 1)) + owners
    if len(keys) and not bool((keys[1:] > keys[:-1]).all()):
        order = np.argsort(keys, kind="stable")
        codes, owners, sizes, rows = codes[order], owners[order], sizes[order], rows[order]
    ends = np.cumsum(np.bincount(codes, minlength=len(values) + 2), dtype=np.int64)
    open_calendar = headers.calendar_open & headers.usable
    return Postings(
        values=values,
        distinct=distinct,
        starts=np.concatenate([np.zeros(1, np.int64), ends]),
        slices=owners.astype(np.int32),
        sizes=sizes,
        records=rows,
        row_counts=np.where(headers.usable, headers.row_counts, -1),
        covered=headers.usable,
        calendar_open=open_calendar if open_calendar.any() else None,
        read_types=headers.read_types,
        notes=tuple(headers.notes),
    )


def _where(records: pa.Table, chosen: Mask) -> pa.Table:
    return records.filter(truth_array(chosen))


def _ints(records: pa.Table, name: str, default: int = 0) -> Integers:
    return as_numpy(filled(records.column(name).combine_chunks(), default)).astype(np.int64, copy=False)


def _flags(records: pa.Table, name: str) -> Mask:
    return as_numpy(filled(records.column(name).combine_chunks(), False))
