"""Single values as manifests store them: column bounds, decoded for many files at once.

Source: the Iceberg table specification, appendix D ("Single-value serialization", binary).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, time
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, as_numpy, compute, filled, null_unless, nulls, number_array, truth_array
from pruner.errors import TableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_DECIMAL_BYTES: Final = 16
_UUID_BYTES: Final = 16
_NARROW: Final = 4
"""Bytes of a value whose type has been promoted since."""

_EXACT: Final = Context(prec=60)


def decode_values(values: Any, type_: pa.DataType) -> Any:
    """Return bounds as values of a column's type.

    Args:
        values: a binary array; each value was written as the type, or as one that was promoted to it.
        type_: an Arrow type as `iceberg_schema` returns it.

    Returns:
        An array of the same length; null where a value is null, or its bytes are invalid for the type.
    """
    types = pa.types
    if types.is_boolean(type_):
        return _of_width(values, 1, lambda data: truth_array(np.frombuffer(data, np.uint8) != 0), type_)
    if types.is_int32(type_) or types.is_date32(type_):
        return _of_width(values, 4, lambda data: number_array(np.frombuffer(data, "<i4"), type_), type_)
    if types.is_int64(type_):
        return _promoted(values, "<i4", "<i8", type_)
    if types.is_float32(type_):
        return _of_width(values, 4, lambda data: number_array(np.frombuffer(data, "<f4"), type_), type_)
    if types.is_float64(type_):
        return _promoted(values, "<f4", "<f8", type_)
    if types.is_timestamp(type_) or types.is_time64(type_):
        return _of_width(values, 8, lambda data: number_array(np.frombuffer(data, "<i8"), type_), type_)
    if types.is_string(type_):
        return _texts(values)
    if types.is_decimal128(type_):
        return _decimals(values, type_)
    if types.is_binary(type_):
        return values
    if types.is_fixed_size_binary(type_) or isinstance(type_, pa.UuidType):
        width = _UUID_BYTES if isinstance(type_, pa.UuidType) else type_.byte_width
        storage = pa.binary(width)
        return _of_width(
            values,
            width,
            lambda data: arrow.Array.from_buffers(storage, len(data) // width, [None, data]),
            storage,
        )
    return nulls(len(values), type_)


def value_of_partition(value: Any, type_: pa.DataType) -> Any:
    """Return a partition value, as Avro stores it, as an Arrow scalar of a column's type.

    Raises:
        pa.ArrowInvalid: it is invalid for the type.
    """
    if pa.types.is_decimal(type_):
        unscaled = int.from_bytes(value, "big", signed=True)
        return arrow.scalar(Decimal(unscaled).scaleb(-type_.scale, _EXACT), type_)
    storage = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_
    if pa.types.is_temporal(storage):
        width = pa.int32() if pa.types.is_date32(storage) else pa.int64()
        return arrow.scalar(value, width).cast(storage)
    return arrow.scalar(value, storage)


def default_value(value: Any, type_: Any, what: str) -> Any:
    """Return an initial default from the schema's JSON as an Arrow scalar of a column's type.

    Source: the Iceberg table specification, appendix D ("JSON single-value serialization").

    Args:
        value: the JSON value.
        type_: an Arrow type as `iceberg_schema` returns it.
        what: the field that has the default, for errors.

    Raises:
        TableError: it is invalid for the type, or the type is not supported (structs, lists and maps).
    """
    known = next((default for default in _DEFAULTS if default.of(type_)), None)
    if known is None:
        raise TableError(
            f"{what} has a default for older rows of type {type_}, which this reader does not fill in: rewrite the "
            "data files"
        )
    try:
        if not isinstance(value, known.written) or (isinstance(value, bool) and known.written is not bool):
            raise ValueError(repr(value))
        if pa.types.is_timestamp(type_):
            return arrow.scalar(value, pa.string()).cast(type_)  # also nanoseconds
        return arrow.scalar(known.made(value), type_)
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException) as error:
        raise TableError(f"{what} has a default for older rows that is no {type_}: {error}") from None


def _uuid_of(text: str) -> bytes:
    return UUID(text).bytes


@dataclass(frozen=True, slots=True)
class _Default:
    """How defaults of some types are written in JSON, and how to convert them."""

    of: Callable[[Any], bool]
    written: type | tuple[type, ...]
    made: Callable[[Any], Any]


_DEFAULTS: Final = (
    _Default(lambda type_: isinstance(type_, pa.UuidType), str, _uuid_of),
    _Default(pa.types.is_boolean, bool, bool),
    _Default(pa.types.is_integer, int, int),
    _Default(pa.types.is_floating, (int, float), float),
    _Default(pa.types.is_decimal, str, Decimal),
    _Default(pa.types.is_string, str, str),
    _Default(pa.types.is_binary, str, bytes.fromhex),
    _Default(pa.types.is_fixed_size_binary, str, bytes.fromhex),
    _Default(pa.types.is_date32, str, date.fromisoformat),
    _Default(pa.types.is_time64, str, time.fromisoformat),
    _Default(pa.types.is_timestamp, str, str),
)


def _of_width(values: Any, width: int, made: Callable[[Any], Any], type_: pa.DataType) -> Any:
    """The values of one width, which `made` converts from their concatenated bytes; null for others."""
    fits = truth_array(_lengths(values) == width)
    data = _bytes_of(values.filter(fits))
    return compute.replace_with_mask(nulls(len(values), type_), fits, made(data).cast(type_))


def _promoted(values: Any, narrow: str, wide: str, type_: pa.DataType) -> Any:
    """Values of a type that columns can be promoted to: those of four bytes were written before the promotion."""
    short = _lengths(values) == _NARROW
    array = _of_width(values, 8, lambda data: number_array(np.frombuffer(data, wide), type_), type_)
    if not short.any():
        return array
    chosen = truth_array(short)
    old = np.frombuffer(_bytes_of(values.filter(chosen)), narrow)
    return compute.replace_with_mask(array, chosen, number_array(old.astype(wide), type_))


def _lengths(values: Any) -> NDArray[np.int64]:
    """The length of each value in bytes; -1 where it is null."""
    return as_numpy(filled(compute.binary_length(values), -1)).astype(np.int64)


def _bytes_of(values: Any) -> Any:
    """The concatenated bytes of an array without nulls."""
    if not len(values):
        return pa.py_buffer(b"")
    offsets = np.frombuffer(values.buffers()[1], np.int32)
    start, stop = int(offsets[values.offset]), int(offsets[values.offset + len(values)])
    return (
        values.buffers()[2].slice(start, stop - start)
        if values.buffers()[2] is not None
        else pa.py_buffer(b"")
    )


def _texts(values: Any) -> Any:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return arrow.array([_text(value) for value in values.to_pylist()], pa.string())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _decimals(values: Any, type_: Any) -> Any:
    """Big-endian two's complement in the fewest bytes; null for values with more digits than the type."""
    lengths = np.maximum(_lengths(values), 0)
    fits = (lengths > 0) & (lengths <= _MOST_DECIMAL_BYTES)
    wide = np.zeros((len(values), _MOST_DECIMAL_BYTES), np.uint8)
    kept = values if fits.all() else values.filter(truth_array(fits))
    data = np.frombuffer(_bytes_of(kept), np.uint8)
    some = lengths[fits]
    starts = np.cumsum(some) - some
    at = np.flatnonzero(fits)
    # From the last byte, which is the lowest: what precedes the first one is sign extension.
    for place in range(_MOST_DECIMAL_BYTES):
        inside = place < some
        wide[at[inside], place] = data[(starts + some - 1 - place)[inside]]
    negative = np.zeros(len(values), np.bool_)
    negative[at] = data[starts] > 127 if len(at) else False
    padding = np.arange(_MOST_DECIMAL_BYTES)[None, :] >= lengths[:, None]
    wide[padding & negative[:, None]] = 255
    array = arrow.Array.from_buffers(
        pa.decimal128(38, type_.scale), len(values), [_validity(fits), pa.py_buffer(wide.tobytes())]
    )
    try:
        return array.cast(type_)
    except pa.ArrowInvalid:
        limit = Decimal((0, (1,), type_.precision - type_.scale))
        within = [value is not None and -limit < value < limit for value in array.to_pylist()]
        return null_unless(truth_array(within), array).cast(type_)


def _validity(valid: NDArray[np.bool_]) -> Any:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
