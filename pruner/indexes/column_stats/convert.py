"""Bounds as recorded, in each file's own domain, to bounds in the table's domain (rule R7).

Lower bounds are rounded down and upper bounds up, in exact integer arithmetic; what does not fit is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pruner.arrow import as_numpy, filled, null_unless, nulls, truth_array
from pruner.indexes.columns.kinds import INT96, Conversion, Kind, conversion, kind_of, parse_type
from pruner.indexes.columns.ordering import (
    FloatOrder,
    IntegerOrder,
    RankOrder,
    decimal_words,
    decimals_as_bytes,
    rank,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.indexes.columns.ordering import Order
    from pruner.schema import Field

    Mask = NDArray[np.bool_]
    Numbers = NDArray[Any]

_INT64_DIGITS = 18
"""Digits of the decimals that are kept as 64-bit integers."""

_EXACT_IN_DOUBLE = 2**53
_WIDE = pa.decimal128(38, 0)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Keys of the bounds, one entry for each record; arbitrary where not known."""

    low: Numbers
    high: Numbers
    low_known: Mask
    high_known: Mask
    order: Order


def bounds_in(records: pa.Table, types: list[str], codes: NDArray[np.int64], field: Field) -> Bounds:
    """Convert the bounds of all records to the type of `field`.

    Args:
        records: columns as `record.RECORD_SCHEMA`, in one chunk.
        types: the distinct file types.
        codes: for each record the position of its file type among `types`, or -1.
        field: the field as the table has it now.
    """
    target = kind_of(field.type)
    if target is Kind.BYTES:
        fits = [conversion(text, field.type) is not None for text in types]
        usable = truth_array(np.array([*fits, False])[codes])
        return _ranked(_bytes_of(records, "min", usable), _bytes_of(records, "max", usable), decimals=False)
    low, high = _Ends(len(codes), target, down=True), _Ends(len(codes), target, down=False)
    for code, text in enumerate(types):
        file = parse_type(text)
        source = Kind.INTEGER if text == INT96 else kind_of(file) if file is not None else None
        how = conversion(text, field.type)
        if how is None or source is None:
            continue
        at = codes == code
        for end, name in ((low, "min"), (high, "max")):
            column = records.column(f"{name}_{source.value}").combine_chunks()
            end.take(column, at, how)
    if target is Kind.FLOAT:
        return Bounds(low.floats, high.floats, low.known, high.known, FloatOrder())
    if pa.types.is_decimal(field.type) and field.type.precision > _INT64_DIGITS:
        return _ranked(low.as_bytes(), high.as_bytes(), decimals=True)
    dtype = np.dtype(np.uint64) if pa.types.is_uint64(field.type) else np.dtype(np.int64)
    lows, low_known = low.as_integers(dtype)
    highs, high_known = high.as_integers(dtype)
    # Where one end does not fit, some value does not either: engines wrap it around or fail, and no end bounds that.
    fit = (low_known | ~low.recorded) & (high_known | ~high.recorded)
    return Bounds(lows, highs, low_known & fit, high_known & fit, IntegerOrder(dtype))


class _Ends:
    """Lower or upper bounds while they are gathered from records of several file types."""

    def __init__(self, count: int, target: Kind | None, *, down: bool) -> None:
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
            case Kind.FLOAT:
                self._take_floats(column, known, how)
            case Kind.DECIMAL:
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
        # Only what still fits after the multiplication is known.
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
            # Rounded to the nearest: one step outward holds the integer for certain where not all of them are doubles.
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
        """Decimals as bytes in their order, null where not known."""
        return decimals_as_bytes(self._wide)

    def as_integers(self, dtype: np.dtype[np.generic]) -> tuple[Numbers, Mask]:
        """The bounds in a 64-bit type, and which of them are known and fit."""
        if self._target is not Kind.DECIMAL:
            return self._integers, self.known
        high, low = decimal_words(self._wide)
        fits = (high == 0) if dtype == np.uint64 else (high == low.view(np.int64) >> 63)
        return low.view(dtype), self.known & fits


def _bytes_of(records: pa.Table, end: str, usable: pa.Array[Any]) -> pa.Array[Any]:
    column = records.column(f"{end}_{Kind.BYTES.value}").combine_chunks()
    return null_unless(usable, column)


def _ranked(low: pa.Array[Any], high: pa.Array[Any], *, decimals: bool) -> Bounds:
    lows, highs, distinct = rank(low, high)
    known = as_numpy(low.is_valid()), as_numpy(high.is_valid())
    return Bounds(lows, highs, *known, RankOrder(distinct, decimals=decimals))
