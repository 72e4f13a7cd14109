"""What an engine makes of Parquet types (rule R11).

By the specification a column is what its logical type says, or the converted type where there is no logical one. That
is what `ParquetType.arrow` follows, and what parquet-mr, hence Spark and Trino, and Arrow do. Where an engine does
otherwise, a trait says so (`pruner.expr.engines`) (DuckDB 1.5 and 2.0, Spark 3.5, Trino 483).

- TIMESTAMP_MILLIS and TIMESTAMP_MICROS without a logical type (trap S20): instants; in DuckDB a wall clock.
- A logical type without its converted type, those of time, UUID and the like aside: DuckDB reads the physical type.
- Times of day: Spark before 4.1 and Trino's connectors have no type for them. DuckDB adds to those that are adjusted to
  UTC an offset, which takes part in comparisons and which constants without one take from the session.
- UUID: a type of its own in DuckDB; Spark and Trino do not read it without a type that the user declares.
- Float16: FLOAT in DuckDB, where it is widened exactly.
- INT96: an instant in Spark, a wall clock of microseconds in DuckDB; in Trino by a zone of its configuration.
- An INT32 that holds more than the 8 or 16 bits of its annotation (trap S24): DuckDB wraps the number. Spark wraps
  signed ones to the column's type, which other files may make wider, and reads unsigned ones as the next wider type;
  Trino reads the declared type. Both take what fits there.

Arrow wraps numbers as DuckDB does, so an index has recorded them wrapped.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pruner.expr.engines import Clock, NarrowIntegers, Times, Uuids
from pruner.expr.types import Unit, is_instant, is_time, timestamp, unit_of
from pruner.parquet_type import ParquetType, parameters

if TYPE_CHECKING:
    from pruner.expr.engines import Traits
    from pruner.expr.semantics import Semantics
    from pruner.schema import Field

INT96: Final = "INT96"

_GROUP = "GROUP"
_TOLD_BY_LOGICAL_TYPE_ALONE = frozenset(
    {"Timestamp", "Time", "UUID", "Float16", "Null", "Variant", "Geometry", "Geography"}
)


NARROW: Final = frozenset({pa.int8(), pa.int16(), pa.uint8(), pa.uint16()})
"""Types that an INT32 has by its annotation alone, so that its numbers need not fit."""

_UUIDS: Final[dict[Uuids, pa.DataType | None]] = {
    Uuids.OWN_TYPE: pa.uuid(),
    Uuids.BYTES: pa.binary(16),
    Uuids.UNCERTAIN: None,
}
_NEXT_WIDER: Final[dict[pa.DataType, pa.DataType]] = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32()}
_AS_STORED: Final[dict[pa.DataType, pa.DataType]] = {pa.int8(): pa.int32(), pa.int16(): pa.int32()}


@lru_cache(maxsize=4096)
def type_read(parquet: ParquetType, traits: Traits) -> pa.DataType | None:
    """Return the type that an engine reads a Parquet type as; None where that is not known, or no index supports it."""
    if parquet.physical == INT96:
        return _timestamp("us", traits.int96)
    if parquet.physical == _GROUP:
        return None
    type_ = parquet.arrow
    if parquet.logical and traits.asks_converted_types is not False:
        told = parquet.without_logical.arrow
        if told != type_ and parameters(parquet.logical)[0] not in _TOLD_BY_LOGICAL_TYPE_ALONE:
            # Where the two say different things nobody knows.
            return told if traits.asks_converted_types and not parquet.converted else None
    if type_ is None:
        return None
    if traits.narrow_integers is NarrowIntegers.AS_STORED and pa.types.is_unsigned_integer(type_):
        return None  # the table declares a type, and that is not known here
    if type_ in NARROW:
        return _narrow_type(type_, traits)
    if is_time(type_):
        adjusted = parquet.logical.endswith("utc)")
        read = traits.times is Times.ALL or (traits.times is Times.LOCAL and not adjusted)
        return type_ if read else None
    if pa.types.is_float16(type_):
        return pa.float32() if traits.reads_half_floats else None
    if parquet.logical == "UUID":
        return _UUIDS[traits.uuids]
    if parquet.logical or not is_instant(type_):
        return type_
    return _timestamp(unit_of(type_), traits.converted_timestamps)


def _timestamp(unit: Unit, clock: Clock) -> pa.DataType | None:
    return None if clock is Clock.UNCERTAIN else timestamp(unit, instant=clock is Clock.INSTANT)


def _narrow_type(type_: pa.DataType, traits: Traits) -> pa.DataType:
    match traits.narrow_integers:
        case NarrowIntegers.WRAPPED:
            return type_
        case NarrowIntegers.UNSIGNED_WIDENED:
            return _NEXT_WIDER.get(type_, type_)
        case NarrowIntegers.AS_STORED:
            return _AS_STORED.get(type_, type_)


def as_read(field: Field, semantics: Semantics) -> Field:
    """Return a field as an engine reads it from the files; the same object for every question about it.

    Where files hold it by Parquet types of which the engine makes different ones, or of one of which it is not known
    what it makes, the field is in conflict, and so is a number where that is not known of any of them. Other
    fields then stay as they are: an index has no values of them that the engine reads
    (`pruner.indexes.columns.reading`).
    """
    if not field.parquet or field.conflict is not None:
        return field
    return _as_read(field, semantics.traits)


@lru_cache(maxsize=4096)
def _as_read(field: Field, traits: Traits) -> Field:
    readings = {type_: type_read(type_, traits) for type_ in field.parquet or ()}
    types = {reading for reading in readings.values() if reading is not None}
    if not types:
        if not _must_be_known(field.type):
            return field
        shown = ", ".join(sorted(map(str, readings)))
        return replace(field, conflict=f"what {traits.title} makes of {shown} is not known")
    if len(types) < len(set(readings.values())):
        return replace(field, conflict=_conflict(readings, traits))
    if all(read == parquet.arrow for parquet, read in readings.items()):
        return field
    common = _common_type(types - {pa.null()})
    if common is None:
        return replace(field, conflict=_conflict(readings, traits))
    return replace(field, type=common)


def _must_be_known(type_: pa.DataType) -> bool:
    """Tell whether nothing may be bound to a column of this type as long as it is not known what the engine reads.

    The range of a number can decide a comparison by itself; the others come as types of other names, or as none.
    """
    types = pa.types
    numbers = types.is_integer(type_) or types.is_decimal(type_) or types.is_float16(type_)
    return numbers or is_time(type_) or types.is_fixed_size_binary(type_)


def _common_type(types: set[pa.DataType]) -> pa.DataType | None:
    if len(types) > 1 and all(map(pa.types.is_signed_integer, types)):
        return max(types, key=lambda type_: type_.bit_width)
    if types and all(map(pa.types.is_timestamp, types)) and len(set(map(is_instant, types))) == 1:
        # Nanoseconds are rounded or not, by the engine and the other files.
        units = {unit_of(type_) for type_ in types}
        return (
            timestamp("us", instant=is_instant(next(iter(types)))) if units == {"ms", "us"} else _only(types)
        )
    return _only(types)


def _only(types: set[pa.DataType]) -> pa.DataType | None:
    return next(iter(types)) if len(types) == 1 else None


def _conflict(readings: dict[ParquetType, pa.DataType | None], traits: Traits) -> str:
    told = sorted(
        f"{parquet} as {'what is not known' if read is None else read}" for parquet, read in readings.items()
    )
    return f"files hold it in ways of which {traits.title} makes different types: {', '.join(told)}"
