"""Turns records into arrays by slice: checked, converted to the table's type as it is now, ready for comparison.

All work is done on whole columns. A row that contradicts itself (more NULLs than rows, a minimum above the maximum) is
not used at all, and its slice counts as not covered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pruner.arrow import as_numpy, filled, null_unless, nulls, truth_array
from pruner.indexes.columns.kinds import INT96, BoundsKind, Conversion, conversion, kind_of, parse_type
from pruner.indexes.columns.ordering import (
    FloatOrder,
    IntegerOrder,
    RankOrder,
    decimal_words,
    decimals_as_bytes,
    rank,
)
from pruner.indexes.columns.reading import RecordedTypes, partly_absent, recorded_types
from pruner.metadata.segments import SLICE_COLUMN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.indexes.columns.ordering import KeyOrder
    from pruner.schema import Field

    Mask = NDArray[np.bool_]
    Numbers = NDArray[Any]

# Converts recorded bounds from each file's own domain to the table's domain (rule R7).
#
# Lower bounds are rounded down and upper bounds up, in exact integer arithmetic; a bound that does not fit is unknown.

_INT64_DIGITS = 18
"""Maximum number of digits of decimals that are kept as 64-bit integers."""

_EXACT_IN_DOUBLE = 2**53
_WIDE = pa.decimal128(38, 0)


@dataclass(frozen=True, slots=True)
class BoundKeys:
    """Keys of the bounds, one entry per record; arbitrary where unknown."""

    low: Numbers
    high: Numbers
    low_known: Mask
    high_known: Mask
    order: KeyOrder


def bounds_in(records: pa.Table, types: list[str], codes: NDArray[np.int64], field: Field) -> BoundKeys:
    """Convert the bounds of all records to the type of `field`.

    Args:
        records: columns as `record.RECORD_SCHEMA`, in one chunk.
        types: the distinct file types.
        codes: for each record the position of its file type among `types`, or -1.
        field: the field as the table has it now.
    """
    target = kind_of(field.type)
    if target is BoundsKind.BYTES:
        fits = [conversion(text, field.type) is not None for text in types]
        usable = truth_array(np.array([*fits, False])[codes])
        return _ranked(_bytes_of(records, "min", usable), _bytes_of(records, "max", usable), decimals=False)
    low, high = _Ends(len(codes), target, down=True), _Ends(len(codes), target, down=False)
    for code, text in enumerate(types):
        file = parse_type(text)
        source = BoundsKind.INTEGER if text == INT96 else kind_of(file) if file is not None else None
        how = conversion(text, field.type)
        if how is None or source is None:
            continue
        at = codes == code
        for end, name in ((low, "min"), (high, "max")):
            column = records.column(f"{name}_{source.value}").combine_chunks()
            end.take(column, at, how)
    if target is BoundsKind.FLOAT:
        return BoundKeys(low.floats, high.floats, low.known, high.known, FloatOrder())
    if pa.types.is_decimal(field.type) and field.type.precision > _INT64_DIGITS:
        return _ranked(low.as_bytes(), high.as_bytes(), decimals=True)
    dtype = np.dtype(np.uint64) if pa.types.is_uint64(field.type) else np.dtype(np.int64)
    lows, low_known = low.as_integers(dtype)
    highs, high_known = high.as_integers(dtype)
    # If one end does not fit, some value does not either: engines wrap it around or fail, and neither end bounds that.
    fit = (low_known | ~low.recorded) & (high_known | ~high.recorded)
    return BoundKeys(lows, highs, low_known & fit, high_known & fit, IntegerOrder(dtype))


class _Ends:
    """Lower or upper bounds while they are gathered from records of several file types."""

    def __init__(self, count: int, target: BoundsKind | None, *, down: bool) -> None:
        self._target = target
        self._down = down
        self.known = np.zeros(count, np.bool_)
        self.recorded = np.zeros(count, np.bool_)
        self._integers = np.zeros(count, np.int64)
        self.floats = np.zeros(count, np.float64)
        self._wide = nulls(count, _WIDE)

    def take(self, column: pa.Array[Any], at: Mask, how: Conversion) -> None:
        """Take the bounds of the records `at` from one column of the records."""
        known = at & as_numpy(column.is_valid())
        self.recorded |= known
        match self._target:
            case BoundsKind.FLOAT:
                self._take_floats(column, known, how)
            case BoundsKind.DECIMAL:
                self._take_wide(column, known, how)
            case _:
                self._take_integers(as_numpy(filled(column, 0)), known, how)

    def _take_integers(self, values: NDArray[np.int64], known: Mask, how: Conversion) -> None:
        if how == Conversion():
            self._integers = np.where(known, values, self._integers)
            self.known |= known
            return
        spread = 0 if self._down else how.spread
        reach = (2**63 - 1 - spread) // how.factor
        # Only bounds that still fit after the multiplication are known.
        fits = known & (values >= -reach) & (values <= reach)
        scaled = np.where(fits, values, 0) * how.factor + spread
        rounded = np.floor_divide(scaled if self._down else -scaled, how.divisor)
        self._integers = np.where(fits, rounded if self._down else -rounded, self._integers)
        self.known |= fits

    def _take_floats(self, column: pa.Array[Any], known: Mask, how: Conversion) -> None:
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        exact = pa.types.is_floating(column.type) and not how.to_float
        values = as_numpy(filled(column, 0))
        floats = values.astype(np.float64)
        if not exact:
            # Rounded to nearest: where not all integers are doubles, one step outward certainly encloses the integer.
            outward = np.nextafter(floats, -np.inf if self._down else np.inf)
            floats = np.where(np.abs(floats) < _EXACT_IN_DOUBLE, floats, outward)
        known = known & ~np.isnan(floats)
        self.floats = np.where(known, floats, self.floats)
        self.known |= known

    def _take_wide(self, column: pa.Array[Any], known: Mask, how: Conversion) -> None:
        picked = truth_array(known)
        digits = len(str(how.factor)) - 1
        try:
            mine = null_unless(picked, column.cast(_WIDE))
            scaled = mine.cast(pa.decimal128(38, digits)).view(_WIDE)
        except pa.ArrowInvalid:
            return  # some bound has more digits than its own type allows: all bounds of this type are unknown
        self._wide = pc.if_else(picked, scaled, self._wide)
        self.known |= known

    def as_bytes(self) -> pa.Array[Any]:
        """Decimals as bytes that sort in their order, null where unknown."""
        return decimals_as_bytes(self._wide)

    def as_integers(self, dtype: np.dtype[np.generic]) -> tuple[Numbers, Mask]:
        """The bounds in a 64-bit type, and which of them are known and fit."""
        if self._target is not BoundsKind.DECIMAL:
            return self._integers, self.known
        high, low = decimal_words(self._wide)
        fits = (high == 0) if dtype == np.uint64 else (high == low.view(np.int64) >> 63)
        return low.view(dtype), self.known & fits


def _bytes_of(records: pa.Table, end: str, usable: pa.Array[Any]) -> pa.Array[Any]:
    column = records.column(f"{end}_{BoundsKind.BYTES.value}").combine_chunks()
    return null_unless(usable, column)


def _ranked(low: pa.Array[Any], high: pa.Array[Any], *, decimals: bool) -> BoundKeys:
    lows, highs, distinct = rank(low, high)
    known = as_numpy(low.is_valid()), as_numpy(high.is_valid())
    return BoundKeys(lows, highs, *known, RankOrder(distinct, decimals=decimals))


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is known about `count` slices, by ordinal. A mask that is None is False everywhere.

    `can_be_null`, `can_hold_values` and `can_be_nan` are over-approximations, `can_hold_numbers` is about values other
    than NaN. `low` and `high` bound those numbers as keys of `order`, except where `low_open` or `high_open` is set.
    `unsure` marks equal bounds that are not known to be values (trap S7). `types` tells which engines read the values
    that the bounds are about.
    """

    count: int
    covered: Mask
    can_be_null: Mask
    can_hold_values: Mask
    can_hold_numbers: Mask
    can_be_nan: Mask | None
    low: Numbers
    high: Numbers
    low_open: Mask | None
    high_open: Mask | None
    unsure: Mask | None
    order: KeyOrder
    types: RecordedTypes
    calendar_open: Mask | None


@dataclass(slots=True)
class CheckedRows:
    """The checked columns of the records, one entry per row.

    `usable` rows are trusted and do not contradict themselves. `nan_count` is only about floating point: a file of
    integers has no NaN. `has_values` is computed from the counts where it is not recorded.
    """

    usable: Mask
    row_count: NDArray[np.int64]
    null_count: NDArray[np.int64]
    nulls_known: Mask
    nan_count: NDArray[np.int64]
    nans_known: Mask
    has_values: Mask
    type_codes: NDArray[np.int64]
    types: list[str]

    @property
    def may_count_nulls(self) -> Mask:
        """Rows of slices in which NULLs were counted, or may have been."""
        return ~self.nulls_known | (self.null_count > 0)

    @property
    def all_nan(self) -> Mask:
        """Rows of slices whose values are all known to be NaN."""
        known = self.nans_known & self.nulls_known & (self.nan_count > 0)
        return known & (self.nan_count + self.null_count == self.row_count)

    @property
    def without_numbers(self) -> Mask:
        """Rows of slices that are known to hold only NULL and NaN."""
        return ~self.has_values | self.all_nan


def load_statistics(records: pa.Table, count: int, field: Field) -> Statistics:
    """Load the records of one field.

    Args:
        records: columns as `record.RECORD_SCHEMA`, and `__slice` with the ordinal of each row's slice.
        count: number of slices.
        field: the field as the table has it now.
    """
    records = records.combine_chunks()
    rows, bounds, usable = checked_for(records, count, field)
    return _scatter(records, usable, rows, bounds, count, field)


def checked_for(records: pa.Table, count: int, field: Field) -> tuple[CheckedRows, BoundKeys, Mask]:
    """The checked columns of records (in one chunk), their bounds in the table's domain, and which records count.

    Takes the arguments of `load_statistics`.
    """
    slices = slices_of(records)
    rows = check_rows(records)
    _distrust_other_columns(records, rows, field)
    bounds = bounds_in(records, rows.types, rows.type_codes, field)
    rows.usable &= ~(bounds.low_known & bounds.high_known & (bounds.low > bounds.high))
    rows.usable &= (slices >= 0) & (slices < count)
    return rows, bounds, unrepeated(slices, rows.usable)


def slices_of(records: pa.Table) -> NDArray[np.int64]:
    """The slice of each record."""
    return _ints(records, SLICE_COLUMN)[0]


def check_rows(records: pa.Table) -> CheckedRows:
    """Read counts and types, and mark rows that are untrusted or contradict themselves, whatever the table is now."""
    row_count, rows_known = _ints(records, "row_count")
    null_count, nulls_known = _ints(records, "null_count")
    nan_count, nans_known = _ints(records, "nan_count")
    has_values, has_values_known = flags(records, "has_values")
    absent, _ = flags(records, "absent")
    column: pa.Array[Any] = records.column("type").combine_chunks()
    encoded = cast("Any", column).dictionary_encode()
    types: list[str] = encoded.dictionary.to_pylist()
    codes = as_numpy(filled(encoded.indices, -1)).astype(np.int64)

    usable = flags(records, "trusted")[0] & rows_known & (row_count >= 0)
    usable &= ~nulls_known | ((null_count >= 0) & (null_count <= row_count))
    usable &= ~absent | (nulls_known & (null_count == row_count))
    usable &= ~nans_known | (
        (nan_count >= 0) & (nan_count + np.where(nulls_known, null_count, 0) <= row_count)
    )
    usable &= ~(nulls_known & has_values_known) | (has_values == (null_count < row_count))
    usable &= ~(has_values_known & has_values) | (row_count > 0)

    # Only floating point can be NaN; a file of integers under a column of doubles has none.
    without_nan = np.array([not _is_floating(text) for text in types] + [True])[codes]
    rows = CheckedRows(
        usable,
        row_count,
        null_count,
        nulls_known,
        np.where(without_nan, 0, nan_count),
        nans_known | without_nan,
        np.where(has_values_known, has_values, np.where(nulls_known, null_count < row_count, row_count > 0)),
        codes,
        types,
    )
    rows.usable &= ~(_recorded(records) & rows.without_numbers)
    return rows


def _recorded(records: pa.Table) -> Mask:
    """Rows with a bound of any kind."""
    recorded = np.zeros(records.num_rows, np.bool_)
    for kind in BoundsKind:
        for end in ("min", "max"):
            recorded |= as_numpy(records.column(f"{end}_{kind.value}").combine_chunks().is_valid())
    return recorded


def _distrust_other_columns(records: pa.Table, rows: CheckedRows, field: Field) -> None:
    """Distrust rows about another column, or another type, than the table has now (R7)."""
    absent, _ = flags(records, "absent")
    if field.conflict is not None:
        rows.usable &= False
    fits = np.array([conversion(text, field.type) is not None for text in rows.types] + [False])
    rows.usable &= np.where(absent, field.absent_is_null, fits[rows.type_codes])
    if not field.absent_is_null:
        # NULLs that were counted for files without the column now read as something else (trap T3).
        rows.usable &= ~partly_absent(records, rows.may_count_nulls)
    if field.field_id is not None:
        ids, ids_known = _ints(records, "field_id")
        rows.usable &= ~ids_known | (ids == field.field_id)


def unrepeated(slices: NDArray[np.int64], usable: Mask) -> Mask:
    """Usable rows of slices with only one row: of two records of one slice, neither is known to be right."""
    if len(slices) and np.all(slices[1:] > slices[:-1]):
        return usable
    _, inverse, times = np.unique(slices, return_inverse=True, return_counts=True)
    return usable & (times[inverse] == 1)


def _scatter(
    records: pa.Table, usable: Mask, rows: CheckedRows, bounds: BoundKeys, count: int, field: Field
) -> Statistics:
    slices = slices_of(records)
    straight = len(slices) == count and bool(usable.all()) and bool((slices == np.arange(count)).all())
    where = slices[usable]

    def place(values: Numbers, default: object) -> Numbers:
        if straight:
            return values
        placed = np.full(count, default, dtype=values.dtype)
        placed[where] = values[usable]
        return placed

    def mask(values: Mask, default: bool) -> Mask:
        return place(values, default).astype(np.bool_, copy=False)

    has_rows = rows.row_count > 0
    can_be_null = has_rows & rows.may_count_nulls
    can_hold_values = has_rows & rows.has_values
    can_hold_numbers = mask(can_hold_values & ~rows.all_nan, True)
    can_be_nan = mask(can_hold_values & (~rows.nans_known | (rows.nan_count > 0)), True)
    exact = flags(records, "min_exact")[0] & flags(records, "max_exact")[0]
    both = bounds.low_known & bounds.high_known
    low_open = ~mask(bounds.low_known, False) & can_hold_numbers
    high_open = ~mask(bounds.high_known, False) & can_hold_numbers
    return Statistics(
        count=count,
        covered=mask(np.ones(len(slices), np.bool_), False),
        can_be_null=mask(can_be_null, True),
        can_hold_values=mask(can_hold_values, True),
        can_hold_numbers=can_hold_numbers,
        can_be_nan=_or_none(can_be_nan) if pa.types.is_floating(field.type) else None,
        low=_narrowed(place(bounds.low, 0)),
        high=_narrowed(place(bounds.high, 0)),
        low_open=_or_none(low_open),
        high_open=_or_none(high_open),
        unsure=_or_none(mask(both & ~exact & (bounds.low == bounds.high), False)),
        order=bounds.order,
        types=recorded_types(records, rows.types, rows.type_codes, place, field),
        calendar_open=_or_none(mask(flags(records, "calendar_open")[0], False)),
    )


def _narrowed(values: Numbers) -> Numbers:
    """Narrow to 32 bits if all values fit: comparing a million bounds takes as long as reading them."""
    if values.dtype != np.int64 or not len(values):
        return values
    limits = np.iinfo(np.int32)
    fits = limits.min <= values.min() and values.max() <= limits.max
    return values.astype(np.int32) if fits else values


def _or_none(mask: Mask) -> Mask | None:
    return mask if mask.any() else None


def _is_floating(type_text: str) -> bool:
    type_ = parse_type(type_text)
    return type_ is not None and kind_of(type_) is BoundsKind.FLOAT


def _ints(records: pa.Table, name: str) -> tuple[NDArray[np.int64], Mask]:
    """A column of integers as int64 (0 where null), and where it is not null."""
    column = records.column(name).combine_chunks()
    return as_numpy(filled(column, 0)).astype(np.int64, copy=False), as_numpy(column.is_valid())


def flags(records: pa.Table, name: str) -> tuple[Mask, Mask]:
    """Return a column of booleans (False where null), and where it is not null."""
    column = records.column(name).combine_chunks()
    return as_numpy(filled(column, False)), as_numpy(column.is_valid())
