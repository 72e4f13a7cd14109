"""Orders in which bounds are compared: numbers by value, strings and large decimals by rank.

Strings are sorted once, when records are loaded; each slice keeps the rank of its bound among the distinct bounds. A
literal is looked up once, and comparisons of strings become exact comparisons of integers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import pyarrow as pa

from pruner.arrow import as_numpy, binary_array, compute, filled, null_unless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import StorageValue

    Numbers = NDArray[Any]
    Key = int | float

_LOOKED_UP_SINGLY = 64
"""Values up to this many are looked up one by one: the first Arrow call of a process costs 130 ms."""

_REMEMBERED = 128
"""Number of values whose keys are cached."""

_DECIMAL_OFFSET = 1 << 127


class KeyOrder(Protocol):
    """Turns values of a storage domain into keys that compare with the bounds of slices.

    Let `low` and `high` be the bounds of a slice and [a, z] an interval of values: `high >= a` holds for the bounds
    exactly where it holds for the key `first(a)`, and `low <= z` where it holds for `last(z)`.
    """

    def first(self, value: StorageValue) -> Key:
        """Key of the lower end of an interval."""
        ...

    def last(self, value: StorageValue) -> Key:
        """Key of the upper end of an interval."""
        ...

    def firsts(self, values: Sequence[StorageValue | None]) -> Numbers:
        """Keys of many lower ends; None is minus infinity. Keys outside the bounds' type are clamped to it."""
        ...

    def lasts(self, values: Sequence[StorageValue | None]) -> Numbers:
        """Keys of many upper ends; None is plus infinity."""
        ...

    def serves(self, value: StorageValue) -> bool:
        """Tell whether a value belongs to this domain."""
        ...

    def reaches(self, low: StorageValue | None, high: StorageValue | None) -> bool:
        """Tell whether an interval has a value that the bounds' type can hold; only then does it have its own keys."""
        ...


class IntegerOrder:
    """Integers (and booleans) within a NumPy type; the key is the value, of any size."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        limits: Any = np.iinfo(np.dtype[Any](dtype))
        self._least, self._greatest = int(limits.min), int(limits.max)

    def serves(self, value: StorageValue) -> bool:
        """Integers and booleans."""
        return isinstance(value, int)

    def reaches(self, low: StorageValue | None, high: StorageValue | None) -> bool:
        """False if all integers of the interval lie outside the type, on one side."""
        assert not isinstance(low, bytes)
        assert not isinstance(high, bytes)
        return (low is None or low <= self._greatest) and (high is None or high >= self._least)

    def first(self, value: StorageValue) -> Key:
        """The value."""
        assert isinstance(value, int)
        return int(value)

    last = first

    def firsts(self, values: Sequence[StorageValue | None]) -> Numbers:
        """The values, clamped to the type."""
        return self._clipped(values, self._least)

    def lasts(self, values: Sequence[StorageValue | None]) -> Numbers:
        """The values, clamped to the type."""
        return self._clipped(values, self._greatest)

    def _clipped(self, values: Sequence[StorageValue | None], infinite: int) -> Numbers:
        clipped = [
            infinite if value is None else max(self._least, min(self._greatest, int(value)))
            for value in values
        ]
        return np.array(clipped, dtype=self._dtype)


class FloatOrder:
    """Doubles; the key is the value."""

    def serves(self, value: StorageValue) -> bool:
        """Floats that are numbers."""
        return isinstance(value, float) and value == value  # noqa: PLR0124 - NaN

    def reaches(self, low: StorageValue | None, high: StorageValue | None) -> bool:
        """Every interval has keys."""
        return True

    def first(self, value: StorageValue) -> Key:
        """The value."""
        assert isinstance(value, float)
        return value

    last = first

    def firsts(self, values: Sequence[StorageValue | None]) -> Numbers:
        """The values."""
        return np.array([-np.inf if value is None else value for value in values], dtype=np.float64)

    def lasts(self, values: Sequence[StorageValue | None]) -> Numbers:
        """The values."""
        return np.array([np.inf if value is None else value for value in values], dtype=np.float64)


class RankOrder:
    """Byte strings by their rank among `distinct`, which is sorted; also decimals, encoded as bytes in order."""

    def __init__(self, distinct: pa.BinaryArray, *, decimals: bool) -> None:
        self._distinct = distinct
        self._decimals = decimals
        self._values = _Values(distinct)
        # Both ends of `=` look up one value, and the next statement may look it up again.
        self._look_up = lru_cache(maxsize=_REMEMBERED)(partial(_keys, self._values))

    def value(self, key: int) -> bytes | int:
        """The bound at a rank, or the nearest one: bytes, or an integer in the domain of decimals."""
        value = self._values[max(0, min(len(self._values) - 1, key))]
        return int.from_bytes(value, "big") - _DECIMAL_OFFSET if self._decimals else value

    def serves(self, value: StorageValue) -> bool:
        """Byte strings, or integers if the domain is that of decimals."""
        return isinstance(value, int if self._decimals else bytes)

    def reaches(self, low: StorageValue | None, high: StorageValue | None) -> bool:
        """Every interval has keys."""
        return True

    def first(self, value: StorageValue) -> Key:
        """Rank of the first bound that is not less than the value."""
        return self._look_up(self._bytes(value))[0]

    def last(self, value: StorageValue) -> Key:
        """Rank of the last bound that is not greater than the value, -1 if all are."""
        return self._look_up(self._bytes(value))[1]

    def firsts(self, values: Sequence[StorageValue | None]) -> Numbers:
        """Ranks of many values: see `first`."""
        return self._ranks(values, "left", -1, 0)

    def lasts(self, values: Sequence[StorageValue | None]) -> Numbers:
        """Ranks of many values: see `last`."""
        return self._ranks(values, "right", len(self._distinct), -1)

    def _ranks(self, values: Sequence[StorageValue | None], side: str, infinite: int, shift: int) -> Numbers:
        if len(values) <= _LOOKED_UP_SINGLY:
            look_up = bisect_left if side == "left" else bisect_right
            ranks = [infinite if v is None else look_up(self._values, self._bytes(v)) + shift for v in values]
            return np.array(ranks, dtype=np.int32)
        valid = np.array([value is not None for value in values])
        needles = binary_array([b"" if value is None else self._bytes(value) for value in values])
        ranks = as_numpy(compute.search_sorted(self._distinct, needles, side=side)).astype(np.int32)
        return np.where(valid, ranks + np.int32(shift), np.int32(infinite))

    def _bytes(self, value: StorageValue) -> bytes:
        if isinstance(value, bytes):
            return value
        shifted = int(value) + _DECIMAL_OFFSET
        return max(0, min((1 << 128) - 1, shifted)).to_bytes(16, "big")


class _Values:
    """A sorted Arrow array as a sequence of bytes for `bisect`."""

    def __init__(self, array: pa.BinaryArray) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, position: int) -> bytes:
        return self._array[position].as_py()


def _keys(values: _Values, value: bytes) -> tuple[int, int]:
    """The keys of a value: as the lower end of an interval, and as the upper one."""
    first = bisect_left(values, value)
    is_there = first < len(values) and values[first] == value
    return first, first if is_there else first - 1


def rank(
    low: pa.Array[Any], high: pa.Array[Any]
) -> tuple[NDArray[np.int32], NDArray[np.int32], pa.BinaryArray]:
    """Rank the bounds of all slices among their distinct values.

    Args:
        low: binary array of lower bounds, null where unknown.
        high: binary array of upper bounds of the same length.

    Returns:
        Ranks of both (an unknown low is -1, an unknown high the number of distinct values), and the distinct
        values in their order.
    """
    count = len(low)
    encoded = cast("Any", pa.concat_arrays([low, high])).dictionary_encode()
    order = compute.sort_indices(encoded.dictionary)
    distinct = encoded.dictionary.take(order)
    ranks = np.empty(len(distinct) + 1, dtype=np.int32)
    ranks[as_numpy(order)] = np.arange(len(distinct), dtype=np.int32)
    ranks[-1] = -1
    codes = as_numpy(filled(encoded.indices, len(distinct)))
    ranked = ranks[codes]
    lows, highs = ranked[:count], ranked[count:]
    return lows, np.where(highs < 0, np.int32(len(distinct)), highs), distinct


def decimal_words(unscaled: pa.Array[Any]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the upper and the lower 64 bits of 128-bit integers (arbitrary where null)."""
    data: Any = unscaled.buffers()[1]
    words = np.frombuffer(data, dtype=np.dtype("<u8")).reshape(-1, 2)
    words = words[unscaled.offset : unscaled.offset + len(unscaled)]
    return words[:, 1].copy().view(np.int64), words[:, 0].copy()


def decimals_as_bytes(unscaled: pa.Array[Any]) -> pa.Array[Any]:
    """Encode 128-bit integers as 16 bytes each that compare, unsigned, as the integers do; null stays null."""
    high, low = decimal_words(unscaled)
    big_endian = np.empty((len(unscaled), 2), dtype=">u8")
    big_endian[:, 0] = high.view(np.uint64) ^ np.uint64(1 << 63)
    big_endian[:, 1] = low
    plain = pa.Array.from_buffers(pa.binary(16), len(unscaled), [None, pa.py_buffer(big_endian.tobytes())])
    return null_unless(unscaled.is_valid(), plain.cast(pa.binary()))
