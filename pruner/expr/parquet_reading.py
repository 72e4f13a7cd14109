"""How engines read Parquet types (rule R11).

By the specification, a column's type is its logical type, or its converted type where there is no logical one.
`ParquetType.arrow` follows that, and so do Arrow and parquet-mr, hence Spark and Trino. Where an engine deviates, a
trait says so (`pruner.expr.engines`) (DuckDB 1.5 and 2.0, Spark 3.5, Trino 483).

- TIMESTAMP_MILLIS and TIMESTAMP_MICROS without a logical type (trap S20): instants; wall clocks in DuckDB.
- A logical type without its converted type, except those of time, UUID and the like: DuckDB reads the physical type.
- Times of day: Spark before 4.1 and Trino's connectors have no type for them. DuckDB adds an offset to those that are
  adjusted to UTC; the offset takes part in comparisons, and constants without one take it from the session.
- UUID: a type of its own in DuckDB; Spark and Trino do not read it unless the user declares a type.
- Float16: FLOAT in DuckDB, where it is widened exactly.
- INT96: an instant in Spark, a wall clock of microseconds in DuckDB; Trino uses a zone from its configuration.
- An INT32 that holds more than the 8 or 16 bits of its annotation (trap S24): DuckDB wraps the number. Spark wraps
  signed ones to the column's type, which other files may make wider, and reads unsigned ones as the next wider type;
  Trino reads the declared type. Both accept what fits there.

Arrow wraps numbers as DuckDB does, so indexes record them wrapped.
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
"""Types that an INT32 has only by its annotation, so that its numbers need not fit."""

_UUIDS: Final[dict[Uuids, pa.DataType | None]] = {
    Uuids.OWN_TYPE: pa.uuid(),
    Uuids.BYTES: pa.binary(16),
    Uuids.UNCERTAIN: None,
}
_NEXT_WIDER: Final[dict[pa.DataType, pa.DataType]] = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32()}
_AS_STORED: Final[dict[pa.DataType, pa.DataType]] = {pa.int8(): pa.int32(), pa.int16(): pa.int32()}


@lru_cache(maxsize=4096)
def type_read(parquet: ParquetType, traits: Traits) -> pa.DataType | None:
    """Return the type that an engine reads a Parquet type as; None where it is unknown or no index supports it."""
    if parquet.physical == INT96:
        return _timestamp("us", traits.int96)
    if parquet.physical == _GROUP:
        return None
    type_ = parquet.arrow
    if parquet.logical and traits.asks_converted_types is not False:
        told = parquet.without_logical.arrow
        if told != type_ and parameters(parquet.logical)[0] not in _TOLD_BY_LOGICAL_TYPE_ALONE:
            # Where logical and converted type disagree, the reading is unknown.
            return told if traits.asks_converted_types and not parquet.converted else None
    if type_ is None:
        return None
    if traits.narrow_integers is NarrowIntegers.AS_STORED and pa.types.is_unsigned_integer(type_):
        return None  # the table declares a type, which is unknown here
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
    """Return a field as an engine reads it from the files; the same object on every call.

    The field is in conflict where the engine reads the Parquet types of its files as different types, or where the
    reading of some of them is unknown. Where that of all of them is unknown, only fields that must be known are in
    conflict; others stay unchanged: an index has no values of them that the engine reads
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
    """Tell whether a column of this type must not be bound while the engine's reading is unknown.

    The range of a number can decide a comparison by itself; the others are read as other types, or not at all.
    """
    types = pa.types
    numbers = types.is_integer(type_) or types.is_decimal(type_) or types.is_float16(type_)
    return numbers or is_time(type_) or types.is_fixed_size_binary(type_)


def _common_type(types: set[pa.DataType]) -> pa.DataType | None:
    if len(types) > 1 and all(map(pa.types.is_signed_integer, types)):
        return max(types, key=lambda type_: type_.bit_width)
    if types and all(map(pa.types.is_timestamp, types)) and len(set(map(is_instant, types))) == 1:
        # Whether nanoseconds are rounded depends on the engine and the other files.
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
