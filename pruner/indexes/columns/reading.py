"""Whether an engine reads the values that were recorded (rules R2, R7 and R11).

Records hold a file's values as Arrow reads them. Timestamps are the same numbers whether they are instants or
wall-clock times, and a record does not say which: the Parquet type and the engine decide. Numbers that do not fit their
annotation were recorded as Arrow wraps them.

Trino reads timestamps near the ends of 64 bits as other values. Measured on Trino 483 (Hive connector): it counts
microseconds in 64 bits without checking for overflow. Milliseconds in a file are multiplied; microseconds and
nanoseconds are rounded half up, which adds half a unit first; the largest number is followed by the smallest. So a file
with the largest nanosecond (2262-04-11 23:47:16.854775807) holds a moment of 1677 at the default precision of
milliseconds. Everything in between is read as written, up to rounding.

This module also finds the slices whose recorded values are not those that an engine reads, and tells when it is unknown
what an engine reads at a path of one file (rule R7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from pruner.arrow import as_numpy, filled
from pruner.expr.bound.predicates import CompareLeaf, InLeaf, PrefixLeaf, RecurringLeaf
from pruner.expr.derived.canonical import last_change
from pruner.expr.derived.indexed import parse_made
from pruner.expr.engines import Clock, NarrowIntegers, Times
from pruner.expr.exact.clock import DAY, nanoseconds
from pruner.expr.parquet_reading import INT96 as PARQUET_INT96
from pruner.expr.parquet_reading import NARROW, type_read
from pruner.expr.semantics import BINARY_COLLATION
from pruner.expr.types import integer_range, is_instant, is_time, unit_of
from pruner.indexes.columns.kinds import INT96, BoundsKind, conversion, is_text, kind_of, parse_type
from pruner.indexes.columns.trust import footer_is_believed
from pruner.parquet_type import ParquetType, parse_parquet_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Point, StorageValue, ValueLeaf
    from pruner.expr.derived.indexed import Provenance, SourceColumn
    from pruner.expr.engines import Traits
    from pruner.expr.semantics import Semantics
    from pruner.indexes.base import LeafColumn, ParquetFooter
    from pruner.schema import Field

    Mask = NDArray[np.bool_]


_NANOSECONDS_END = 2**63
_MICROSECONDS_END = _NANOSECONDS_END * 1000
_MARGIN = 1_000_000
"""The coarsest precision to which Trino reads, a millisecond, in nanoseconds."""


def is_rounded(type_: pa.DataType, semantics: Semantics) -> bool:
    """Tell whether an engine rounds the values of a column when it reads them (trap S18)."""
    unit = semantics.timestamp_unit
    return (
        unit is not None and pa.types.is_timestamp(type_) and nanoseconds(unit) > nanoseconds(unit_of(type_))
    )


def may_overflow(
    low: NDArray[np.generic], high: NDArray[np.generic], type_: pa.DataType, *, rounded: bool
) -> NDArray[np.bool_] | None:
    """Tell for each pair of bounds whether a file with them may hold a timestamp that Trino reads as another.

    Args:
        low: lower bounds in the column's unit, which may differ from that of the files.
        high: upper bounds.
        type_: type of the column.
        rounded: whether Trino rounds the column's values to a coarser unit.

    Returns:
        A mask over the pairs; None if there are no such files.
    """
    if not pa.types.is_timestamp(type_):
        return None
    unit = nanoseconds(unit_of(type_))
    numbers: tuple[Any, Any] = (low, high)
    lows, highs = numbers
    last = (_MICROSECONDS_END - 1 - (_MARGIN if rounded else 0)) // unit
    overflowing: NDArray[np.bool_] = (highs > last) | (lows < -last - 1)
    if rounded or unit > 1:
        # Bounds of a file in nanoseconds were rounded outward to the column's unit.
        near, end = (_NANOSECONDS_END - _MARGIN) // unit, _NANOSECONDS_END // unit + 1
        overflowing |= ((highs > near) & (highs <= end)) | ((lows < -near) & (lows >= -end))
    return overflowing if overflowing.any() else None


READING_COLUMNS = (
    pa.field(
        "parquet", pa.string()
    ),  # `ParquetType.text` (null where files of the slice have several), or `Provenance.text`
    pa.field("in_range", pa.bool_()),  # whether all numbers are known to fit the annotation
)
"""Columns of the records that tell how engines read the values. The first records have neither: there it is unknown."""


class RecordedType(NamedTuple):
    """What a record states about the type of its values: its text, None where it has none, and `READING_COLUMNS`.

    For the values of an expression, `made` replaces the Parquet type.
    """

    text: str | None
    parquet: ParquetType | None
    in_range: bool
    made: Provenance | None = None


def reading_of(
    footer: ParquetFooter, leaf: LeafColumn, low: object = None, high: object = None
) -> tuple[str | None, bool]:
    """Return the values of `READING_COLUMNS` for a column of a file.

    Args:
        footer: footer of the file.
        leaf: the column.
        low: its minimum as Arrow reads it, None where it has none; used only for times of day.
        high: its maximum.
    """
    if leaf.made is not None:
        return leaf.made.text, True
    return None if leaf.parquet is None else leaf.parquet.text, _is_in_range(footer, leaf, low, high)


def _is_in_range(footer: ParquetFooter, leaf: LeafColumn, low: object, high: object) -> bool:
    """Tell whether all numbers are known to fit the annotation; only a trusted footer has them as they are stored.

    A time outside the day is rejected by one engine, wrapped by another, and compared unchanged by a third.
    """
    if leaf.type is not None and is_time(leaf.type):
        day = DAY // nanoseconds(unit_of(leaf.type))
        return low is None or (isinstance(low, int) and isinstance(high, int) and 0 <= low <= high < day)
    if leaf.type not in NARROW:
        return True
    if not footer_is_believed(footer.created_by, leaf):
        return False
    assert leaf.type is not None
    least, greatest = integer_range(leaf.type)
    for chunk in footer.chunks(leaf):
        if chunk.null_count == chunk.rows:
            continue
        low, high = chunk.low, chunk.high
        if not (isinstance(low, int) and isinstance(high, int) and least <= low <= high <= greatest):
            return False
    return True


def union(one: Mask | None, other: Mask | None) -> Mask | None:
    """The slices of either mask; None is an empty mask."""
    if one is None or other is None:
        return other if one is None else one
    return one | other


class RecordedTypes:
    """The types of the records of many slices, and the slices whose recorded values an engine reads."""

    def __init__(self, kinds: list[RecordedType], codes: NDArray[np.int64], field: Field) -> None:
        """Slice i has the type `kinds[codes[i]]`, or no record if its code is -1."""
        self._kinds = kinds
        self._codes = codes.astype(np.int16) if len(kinds) > 1 else None
        self._covered = codes >= 0
        self._field = field
        self._unread: dict[Traits, Mask | None] = {}

    def unread(self, semantics: Semantics) -> Mask | None:
        """Slices whose recorded values the engine is not known to read; None if there are none."""
        traits = semantics.traits
        if traits not in self._unread:
            self._unread[traits] = self._not_read_by(traits)
        return self._unread[traits]

    def _not_read_by(self, traits: Traits) -> Mask | None:
        doubted = np.array([not is_read(kind, self._field, traits) for kind in self._kinds] + [False])
        if not doubted.any():
            return None
        return self._covered if self._codes is None else doubted[self._codes]


def recorded_types(
    records: pa.Table,
    texts: list[str],
    codes: NDArray[np.int64],
    place: Callable[[NDArray[Any], object], NDArray[Any]],
    field: Field,
) -> RecordedTypes:
    """Gather the types of records.

    Args:
        records: with `READING_COLUMNS`, or without them if they are older.
        texts: the distinct texts of their types.
        codes: for each record the position of its text, -1 for none.
        place: puts the value of each record at its slice's position, and a default where there is none.
        field: the field as the engine reads it.
    """
    parquets, parquet_codes = _coded(records, "parquet")
    ranges, range_codes = _coded(records, "in_range")
    numbers = (codes + 1) * (len(parquets) + 1) + parquet_codes + 1
    numbers = numbers * (len(ranges) + 1) + range_codes + 1
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    kinds: list[RecordedType] = []
    for at in first.tolist():
        text = texts[codes[at]] if codes[at] >= 0 else None
        parquet = parquets[parquet_codes[at]] if parquet_codes[at] >= 0 else None
        in_range = bool(ranges[range_codes[at]]) if range_codes[at] >= 0 else False
        kinds.append(_recorded(text, parquet, in_range, field))
    return RecordedTypes(kinds, place(inverse.astype(np.int64), -1), field)


def _recorded(text: str | None, parquet: str | None, in_range: bool, field: Field) -> RecordedType:
    if field.expression is None or parquet is None:
        return RecordedType(text, None if parquet is None else parse_parquet_type(parquet), in_range)
    made = parse_made(parquet)
    return RecordedType(text, None, in_range, None if isinstance(made, str) else made)


def _coded(records: pa.Table, name: str) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct values of a column, and for each record the position of its value, -1 for null."""
    if name not in records.column_names:
        return [], np.full(records.num_rows, -1, np.int64)
    encoded: Any = cast("Any", records.column(name).combine_chunks()).dictionary_encode()
    return encoded.dictionary.to_pylist(), as_numpy(filled(encoded.indices, -1)).astype(np.int64)


def is_read(recorded: RecordedType, field: Field, traits: Traits) -> bool:
    """Tell whether an engine reads the recorded values as values of the field.

    Args:
        recorded: the type of the record.
        field: the field as the engine reads it.
        traits: how the engine behaves.
    """
    if recorded.text is None:
        return True
    if field.expression is not None:
        return recorded.made is not None and _is_made_alike(recorded.made, field, traits)
    file = pa.timestamp("us") if recorded.text == INT96 else parse_type(recorded.text)
    if recorded.text == INT96 and recorded.parquet is None and field.parquet and is_instant(field.type):
        return False  # the first records do not say who wrote the file: see `trust.zone_is_open`
    # A record without a Parquet type has one of those that the table's files have.
    possible = [recorded.parquet] if recorded.parquet is not None else list(field.parquet or ())
    if pa.types.is_timestamp(field.type):
        return _is_same_clock(recorded.text, file, possible, field, traits)
    if not possible and file is not None and is_time(file):
        return recorded.in_range and traits.times is Times.ALL
    if not possible and file in NARROW:
        return recorded.in_range or traits.narrow_integers is NarrowIntegers.WRAPPED
    return all(
        _is_same_value(type_.arrow, _value_read(type_, field, traits), recorded.in_range)
        for type_ in possible
    )


def _is_made_alike(made: Provenance, field: Field, traits: Traits) -> bool:
    """Tell whether an engine computes the recorded values of an expression.

    It does if it was compared with the evaluator on all of them, by rules that still hold, and reads the same source
    columns.
    """
    if traits.name not in made.agreed or made.registry < last_change(field.expression or ""):
        return False
    return len(made.sources) == len(field.sources) and all(
        _is_same_source(source, now, traits) for source, now in zip(made.sources, field.sources, strict=True)
    )


def _is_same_source(source: SourceColumn, field: Field, traits: Traits) -> bool:
    parquet = None if source.parquet is None else parse_parquet_type(source.parquet)
    undo = conversion(source.type, field.type)
    return (
        undo is not None
        and (undo.divisor, undo.spread, undo.to_float) == (1, 0, False)
        and is_read(RecordedType(source.type, parquet, source.in_range), field, traits)
    )


def _value_read(parquet: ParquetType, field: Field, traits: Traits) -> pa.DataType | None:
    """Return the type that a file's values are read as: Spark wraps narrow integers to the column's type, not the
    file's.

    So where other files make the column wider, a number that does not fit its own file's annotation stays unwrapped.
    """
    read = type_read(parquet, traits)
    if read in NARROW and traits.narrow_integers is NarrowIntegers.UNSIGNED_WIDENED:
        return field.type if pa.types.is_integer(field.type) else read
    return read


def _is_same_value(recorded: pa.DataType | None, read: pa.DataType | None, in_range: bool) -> bool:
    """Tell whether the engine reads the values that Arrow does, perhaps as a wider type."""
    if recorded is not None and is_time(recorded):
        return recorded == read and in_range
    if (recorded, read) in _SAME_VALUES:
        return True
    if recorded is None or read is None or recorded == read:
        return recorded is not None and recorded == read
    if not in_range or not (pa.types.is_integer(recorded) and pa.types.is_integer(read)):
        return False
    (low, high), (least, greatest) = integer_range(recorded), integer_range(read)
    return least <= low and high <= greatest


_SAME_VALUES = {(pa.binary(16), pa.uuid()), (pa.float16(), pa.float32())}
"""Pairs of a recorded type and another type as which an engine reads the same values in the same order."""


def _is_same_clock(
    text: str, file: pa.DataType | None, possible: list[ParquetType], field: Field, traits: Traits
) -> bool:
    """Tell whether timestamps of the file are instants if those of the field are, and wall-clock times otherwise."""
    if not possible and text == INT96:
        possible = [ParquetType(PARQUET_INT96)]
    if not possible and file is not None:
        # Records of a table whose footers are not read: instants may have only a converted type.
        certain = not is_instant(file) or traits.converted_timestamps is Clock.INSTANT
        return certain and is_instant(file) == is_instant(field.type)
    read = [type_read(type_, traits) for type_ in possible]
    return all(column is not None and _counts_alike(column, field.type) for column in read)


def _counts_alike(read: pa.DataType, type_: pa.DataType) -> bool:
    return pa.types.is_null(read) or (pa.types.is_timestamp(read) and is_instant(read) == is_instant(type_))


class UnreadSlices:
    """Tells for which slices an engine reads values other than those recorded."""

    def __init__(
        self,
        read_types: RecordedTypes,
        calendar_open: Mask | None,
        type_: pa.DataType,
        overflowing: Callable[[bool], Mask | None],
    ) -> None:
        """`overflowing` finds slices with timestamps that wrap around, given whether the engine rounds them."""
        self._read_types = read_types
        self._calendar_open = calendar_open
        self._type = type_
        self._overflowing = overflowing
        self._found: dict[bool, Mask | None] = {}

    def of(self, semantics: Semantics) -> Mask | None:
        """Those slices; None if there are none."""
        traits = semantics.traits
        unread = union(
            self._read_types.unread(semantics),
            self._calendar_open if traits.asks_session_for_calendar else None,
        )
        if not traits.wraps_far_timestamps:
            return unread
        rounded = is_rounded(self._type, semantics)
        if rounded not in self._found:
            self._found[rounded] = self._overflowing(rounded)
        return union(unread, self._found[rounded])


def why_unknown(footer: ParquetFooter, leaf: LeafColumn | None, field: Field) -> str | None:
    """Say why it is unknown what an engine reads at this path in this file, or None (traps T2, T3)."""
    others = footer.alike(field.path, field.field_id)
    if leaf is not None and leaf in others:
        return f"the file's field id is {leaf.field_id}, the table's {field.field_id}"
    if others:
        return f"the file also has {'.'.join(others[0].path)!r}, which may be taken for this column"
    if leaf is None:
        return (
            None
            if field.absent_is_null
            else "the file does not have the column, and absent does not mean NULL"
        )
    if field.expression is not None and leaf.type is None:
        return leaf.type_text
    if leaf.repeated:
        return "the column stands inside a list or map"
    if leaf.type is None or conversion(leaf.type_text, field.type) is None:
        return f"values of type {leaf.type_text} in the file do not settle values of type {field.type} in the table"
    return None


def partly_absent(records: pa.Table, can_be_null: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell for which records some file of the slice may lack the column, so that its rows count as NULL (trap T3).

    Args:
        records: records of slices; their column `partly_absent` is null, or missing, where it was not yet recorded.
        can_be_null: whether NULLs were recorded: without any, no file with rows lacks the column.
    """
    if "partly_absent" not in records.column_names:
        return can_be_null
    column: Any = records.column("partly_absent").combine_chunks()
    return np.where(as_numpy(column.is_null()), can_be_null, as_numpy(filled(column, False)))


# Which leaf predicates the recorded values of a column can answer, whatever the index keeps of them.


def is_answerable(
    leaf: ValueLeaf,
    type_: pa.DataType,
    serves: Callable[[StorageValue], bool],
    semantics: Semantics,
) -> bool:
    """Tell whether a leaf compares the recorded values, in their recorded order.

    They are the very values that the engine compares, or the leaf allows for its rounding.

    Args:
        leaf: a leaf on the column.
        type_: type of the column as the table has it.
        serves: tells whether a literal belongs to the domain of the recorded values.
        semantics: the rules of the asking engine.
    """
    if is_text(type_) and semantics.collation != BINARY_COLLATION:
        return False
    # Such an engine compares values other than those recorded.
    if is_rounded(type_, semantics) and not _are_widened(leaf):
        return False
    match leaf:
        case PrefixLeaf():
            return is_text(type_)
        case CompareLeaf(point=point):
            return _all_serve([point], type_, serves)
        case InLeaf(points=points):
            return _all_serve(points, type_, serves)
        case RecurringLeaf():
            return kind_of(type_) is BoundsKind.INTEGER


def _are_widened(leaf: ValueLeaf) -> bool:
    """Tell whether every point spans all that may round to the literal, as `pruner.expr.exact.clock` makes points.

    Values in such a span count as less, equal and greater at once, so neither the leaf nor its NOT loses a row.
    """
    match leaf:
        case PrefixLeaf() | RecurringLeaf():
            return False
        case CompareLeaf(point=point):
            return not point.exact
        case InLeaf(points=points):
            return not any(point.exact for point in points)


def _all_serve(points: Iterable[Point], type_: pa.DataType, serves: Callable[[StorageValue], bool]) -> bool:
    floating = pa.types.is_floating(type_)
    return all(
        floating if p.nan else (p.low is None or serves(p.low)) and (p.high is None or serves(p.high))
        for p in points
    )
