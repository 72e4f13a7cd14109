"""Turns records into filters that can be asked: which slices have one, and where it is.

A slice whose record does not fit the column as it is now, or does not add up, is not covered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from pruner.indexes.bloom_filter.filters import BLOCK_BYTES, WORDS
from pruner.indexes.bloom_filter.look_up import StripedFilters, WholeFilters
from pruner.indexes.bloom_filter.record import RECORD_SCHEMA
from pruner.indexes.bloom_filter.stripes import MOST_STRIPES, blocks_of
from pruner.indexes.columns.kinds import Conversion, conversion
from pruner.indexes.columns.reading import RecordedTypes, recorded_types
from pruner.indexes.columns.unknown import partly_absent
from pruner.metadata.segments import SLICE_COLUMN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.indexes.optional import RecordPart
    from pruner.schema import Field

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]

NO_GROUP = -1


@dataclass(frozen=True)
class Filters:
    """The filters of many slices.

    `covered` are the slices with a usable record. `group_of[i]` is the position in `groups` of what holds the filter of
    slice i, and `row_of[i]` its row there; `NO_GROUP` where the slice holds no value, or is not covered. `distinct`
    is the number of its values. `lows` and `highs` bound dates and timestamps. `notes` says why slices with a record
    are not covered.
    """

    covered: Mask
    groups: tuple[WholeFilters | StripedFilters, ...]
    group_of: NDArray[np.int16]
    row_of: NDArray[np.int32]
    distinct: Integers
    lows: Integers
    highs: Integers
    calendar_open: Mask | None
    read_types: RecordedTypes
    notes: tuple[str, ...]


def load_parts(parts: Sequence[RecordPart], count: int, field: Field) -> Filters:
    """Load the records of one field.

    Args:
        parts: the records of each segment, with `__slice`, the ordinal of each row's slice.
        count: number of slices.
        field: the field as the table has it now.
    """
    tables = [_as_recorded(part.records) for part in parts]
    records = pa.concat_tables([*tables, _as_recorded(pa.table({}))]).combine_chunks()
    slices = _ints(records, SLICE_COLUMN)
    types, codes = _types(records)
    usable = _usable(records, slices, types, codes, count, field)

    def place(values: NDArray[Any], default: object) -> NDArray[Any]:
        placed = np.full(count, default, dtype=values.dtype)
        placed[slices[usable]] = values[usable]
        return placed

    group_of = np.full(count, NO_GROUP, np.int16)
    row_of = np.zeros(count, np.int32)
    groups: list[WholeFilters | StripedFilters] = []
    ends = np.cumsum([table.num_rows for table in tables])
    for part, table, end in zip(parts, tables, ends.tolist(), strict=True):
        of_part = usable[end - table.num_rows : end]
        for group, rows in _groups(part, table, of_part):
            at = _ints(table, SLICE_COLUMN)[rows]
            group_of[at], row_of[at] = len(groups), np.arange(len(rows))
            groups.append(group)
    is_open = place(_flags(records, "calendar_open"), False)
    return Filters(
        covered=place(usable, False),
        groups=tuple(groups),
        group_of=group_of,
        row_of=row_of,
        distinct=place(_ints(records, "distinct", -1), -1),
        lows=place(_ints(records, "low"), 0),
        highs=place(_ints(records, "high"), 0),
        calendar_open=is_open if is_open.any() else None,
        read_types=recorded_types(
            records, types, np.where(_flags(records, "absent"), -1, codes), place, field
        ),
        notes=_notes(records, usable),
    )


def _as_recorded(records: pa.Table) -> pa.Table:
    """The columns that every record has, in their order; those that are not there are null."""
    columns: dict[str, Any] = {}
    for each in cast("Any", RECORD_SCHEMA):
        there = each.name in records.column_names
        columns[each.name] = records.column(each.name) if there else pa.nulls(records.num_rows, each.type)
    there = SLICE_COLUMN in records.column_names
    columns[SLICE_COLUMN] = records.column(SLICE_COLUMN) if there else pa.array([], pa.int32())
    return pa.table(columns)


def _types(records: pa.Table) -> tuple[list[str], Integers]:
    """The distinct types of records, and for each record the position of its own, -1 for none."""
    encoded = cast("Any", records.column("type").combine_chunks()).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.fill_null(-1).to_numpy().astype(np.int64)


def _usable(
    records: pa.Table, slices: Integers, types: list[str], codes: Integers, count: int, field: Field
) -> Mask:
    """Tell of which records the filter is about the values of the column as it is now (R7)."""
    fits = np.array([_keeps_equality(text, field) for text in types] + [False])
    usable = _flags(records, "usable") & fits[codes] & _adds_up(records)
    if field.conflict is not None:
        usable &= False
    if not field.absent_is_null:
        usable &= ~_flags(records, "absent")
        # Rows of files without the column read as something else by now (trap T3).
        usable &= ~partly_absent(records, np.ones(len(usable), np.bool_))
    if field.field_id is not None:
        usable &= _ints(records, "field_id", field.field_id) == field.field_id
    # Two records of one slice contradict each other, or one of them is superfluous.
    return usable & (np.bincount(slices, minlength=count)[slices] == 1)


def _keeps_equality(recorded: str, field: Field) -> bool:
    """Tell whether values of the recorded type are equal exactly when they are as values of the field's type."""
    how = conversion(recorded, field.type)
    return how is not None and how == Conversion(factor=how.factor)


def _adds_up(records: pa.Table) -> Mask:
    """Tell which records have a filter of the size that they say, or one in stripes (R10)."""
    blocks, stripes = _ints(records, "blocks", -1), _ints(records, "stripes", -1)
    try:
        _, ends = blocks_of(records.column("filter"))
    except ValueError:
        return np.zeros(len(blocks), np.bool_)
    whole = np.diff(ends) == blocks
    cut = (stripes > 1) & (stripes <= MOST_STRIPES) & (blocks >= stripes)
    return np.where(stripes == 0, whole & (blocks >= 0), cut)


def _groups(
    part: RecordPart, table: pa.Table, usable: Mask
) -> list[tuple[WholeFilters | StripedFilters, Integers]]:
    """What holds the filters of one segment, and for each the rows of the part that it is about."""
    found: list[tuple[WholeFilters | StripedFilters, Integers]] = []
    sizes, stripes = _ints(table, "blocks", 0), _ints(table, "stripes", 0)
    whole = np.flatnonzero(usable & (stripes == 0) & (sizes > 0))
    if len(whole):
        blocks, ends = blocks_of(table.column("filter"))
        words = blocks.view(np.uint32).reshape(-1, BLOCK_BYTES // 4)
        assert words.shape[1] == WORDS
        found.append((WholeFilters(words, ends[whole], sizes[whole]), whole))
    for count in np.unique(stripes[usable & (stripes > 0)]).tolist():
        rows = np.flatnonzero(usable & (stripes == count))
        stored = rows if part.rows is None else part.rows[rows]
        found.append((StripedFilters(part.read, stored, sizes[rows], count), rows))
    return found


def _notes(records: pa.Table, usable: Mask) -> tuple[str, ...]:
    """Each reason for which slices could not be indexed, with their number; those without one were not refused."""
    notes: Any = records.column("note").filter(cast("Any", pa.array(~usable)))
    found = notes.drop_null().value_counts().to_pylist()
    return tuple(f"{entry['counts']:,} slices are not indexed: {entry['values']}" for entry in found)


def _ints(records: pa.Table, name: str, default: int = 0) -> Integers:
    column: Any = records.column(name).combine_chunks()
    filled = column.fill_null(default) if column.null_count else column
    return filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)


def _flags(records: pa.Table, name: str) -> Mask:
    return np.asarray(records.column(name).combine_chunks().fill_null(False))
