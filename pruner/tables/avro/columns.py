"""Many Avro records of one schema at once: each field is read for all of them in one step, with NumPy.

fastavro takes about 13 µs for a record of statistics, most of it for Python objects of fields that are not needed.
Here a field that is not needed costs one step of arithmetic. Anything unknown is refused, and nothing is guessed: the
caller then decodes record by record with fastavro, which reports what is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Places: TypeAlias = NDArray[np.int64]
    Values: TypeAlias = Callable[[], list[Any]]
    """Makes the values of a field, one for each record; called only where they are wanted."""

PADDING = 16
"""Zeros after the last record, so that a truncated number or float reads no other memory."""

_FLOATS: Final = {"float": "<f4", "double": "<f8"}
_NUMBERS: Final = frozenset({"int", "long"})
_TEXTS: Final = frozenset({"string", "bytes"})
_LAST_SHIFT = 63
_LOW = 0x7F


class NotColumnarError(Exception):
    """The records cannot be decoded this way: a type is not supported here, or bytes are damaged."""


def decode_field(records: Sequence[bytes], schema: Any, field: str) -> list[Any]:
    """Return the value of one field in each of some records, as fastavro returns it with `return_record_name`.

    Args:
        records: in Avro's binary encoding.
        schema: the records' schema, as `fastavro.parse_schema` returns it, without logical types.
        field: its name.

    Raises:
        NotColumnarError: see there. Otherwise each record was read exactly to its end.
    """
    lengths = np.fromiter(map(len, records), np.int64, len(records))
    ends = np.cumsum(lengths)
    try:
        reader = _Reader(b"".join(records), schema.get("__named_schemas", {}))
        made, behind = reader.fields(schema, ends - lengths)
        if not np.array_equal(behind, ends):
            raise NotColumnarError("a record ends elsewhere than its schema says")
        return made[field]()
    except (IndexError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise NotColumnarError(repr(error)) from None


def numbers_at(stored: NDArray[np.uint8], at: Places) -> tuple[Places, Places]:
    """Return the numbers at some offsets, and the offsets after them.

    Numbers have seven bits per byte, the last byte is below 128, and the sign is in the lowest bit.

    Raises:
        NotColumnarError: one is too long.
        IndexError: one ends after the last byte.
    """
    byte = stored[at]
    value, at = byte.astype(np.uint64), at + 1
    if np.bitwise_or.reduce(byte) > _LOW:
        going = np.flatnonzero(byte > _LOW)
        value &= _LOW
        shift = 0
        while going.size:
            shift += 7
            byte = stored[at[going]].astype(np.uint64)
            if shift > _LAST_SHIFT or (shift == _LAST_SHIFT and (byte > 1).any()):
                raise NotColumnarError("a number is too long")
            value[going] |= (byte & _LOW) << np.uint64(shift)
            at[going] += 1
            going = going[byte > _LOW]
    # Zigzag encoding: 0, -1, 1, -2 and so on.
    return (value >> np.uint64(1)).astype(np.int64) ^ -(value & 1).astype(np.int64), at


class _Reader:
    """Reads many records field by field; a position for each record advances along."""

    def __init__(self, data: bytes, named: dict[str, Any]) -> None:
        self._size = len(data)
        self._buffer = pa.py_buffer(data)
        self._bytes = np.frombuffer(data + bytes(PADDING), np.uint8)
        self._named = named

    def fields(self, schema: Any, at: Places) -> tuple[dict[str, Values], Places]:
        """The fields of a record, and the positions after it."""
        made: dict[str, Values] = {}
        for field in schema["fields"]:
            made[field["name"]], at = self._read(field["type"], at)
        return made, at

    def _read(self, schema: Any, at: Places) -> tuple[Values, Places]:
        if isinstance(schema, list):
            return self._union(cast("list[Any]", schema), at)
        kind: Any = cast("dict[str, Any]", schema)["type"] if isinstance(schema, dict) else schema
        if kind == "record":
            made, behind = self.fields(schema, at)
            return lambda: _dictionaries(made, len(at)), behind
        if kind == "null":
            return lambda: [None] * len(at), at
        if kind in _NUMBERS:
            numbers, behind = numbers_at(self._bytes, at)
            return numbers.tolist, behind
        if kind == "boolean":
            return self._booleans(at)
        if kind in _FLOATS:
            return self._floats(_FLOATS[kind], at)
        if kind in _TEXTS:
            return self._texts(at, is_text=kind == "string")
        if kind in self._named:
            return self._read(self._named[kind], at)
        raise NotColumnarError(f"the type {kind} is not read here")

    def _union(self, schema: list[Any], at: Places) -> tuple[Values, Places]:
        """A union: the records are read branch by branch."""
        chosen, at = numbers_at(self._bytes, at)
        parts: list[tuple[Places, str | None, Values]] = []
        for branch in np.unique(chosen).tolist():
            if branch < 0:
                raise NotColumnarError("a union has no such branch")
            rows = np.flatnonzero(chosen == branch)
            values, at[rows] = self._read(schema[branch], at[rows])
            parts.append((rows, self._record_name(schema[branch]), values))
        return lambda: _scattered(parts, len(at)), at

    def _record_name(self, schema: Any) -> str | None:
        """The name of a record in a union, by which fastavro identifies its branch; None for other types."""
        record: Any = self._named.get(schema) if isinstance(schema, str) else schema
        if not isinstance(record, dict):
            return None
        named = cast("dict[str, Any]", record)
        return str(named["name"]) if named["type"] == "record" else None

    def _booleans(self, at: Places) -> tuple[Values, Places]:
        stored = self._bytes[at]
        if (stored > 1).any():
            raise NotColumnarError("a boolean is neither 0 nor 1")
        return stored.astype(np.bool_).tolist, at + 1

    def _floats(self, kind: str, at: Places) -> tuple[Values, Places]:
        width = np.dtype(kind).itemsize
        places = at[:, None] + np.arange(width)
        return self._bytes[places].view(kind)[:, 0].tolist, at + width

    def _texts(self, at: Places, *, is_text: bool) -> tuple[Values, Places]:
        """Strings or bytes: an array over the records' own bytes, of which every second element is a value."""
        lengths, start = numbers_at(self._bytes, at)
        if (lengths < 0).any() or (lengths > self._size - start).any():
            raise NotColumnarError("a text has a length that cannot be")
        end = start + lengths
        if not len(at):
            return list, end
        offsets = np.stack([start, end], axis=1).reshape(-1)
        if (np.diff(offsets) < 0).any():
            raise NotColumnarError("texts overlap")
        array: Any = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets.tobytes()), self._buffer]
        )
        values = array.take(pa.array(np.arange(0, len(offsets), 2)))
        if is_text:
            values = values.cast(pa.large_string())  # which refuses what is not UTF-8
        return values.to_pylist, end


def _dictionaries(fields: dict[str, Values], count: int) -> list[dict[str, Any]]:
    if not fields:
        return [{} for _ in range(count)]
    names = tuple(fields)
    columns = [values() for values in fields.values()]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _scattered(parts: list[tuple[Places, str | None, Values]], count: int) -> list[Any]:
    """The values of all branches of a union, each at the position of its record."""
    made = [
        (rows, values() if name is None else [(name, value) for value in values()])
        for rows, name, values in parts
    ]
    if len(made) == 1:
        return made[0][1]
    collected: list[Any] = [None] * count
    for rows, values in made:
        for row, value in zip(rows.tolist(), values, strict=True):
            collected[row] = value
    return collected
