"""One encoding of each value as bytes, whatever type holds it, and the hash of these bytes (trap I1).

Values of one domain that an engine may find equal have the same bytes:

| domain | types | bytes |
|---|---|---|
| exact numbers | boolean, integers, decimals, dates (days), moments (nanoseconds) | 8 of a whole number; else 17 |
| floating point | all of them | 8 of the double; -0.0 is 0.0 (trap S6), and all NaNs are one |
| bytes | text (UTF-8), binary, UUIDs | unchanged |

Moments are timestamps and times of day. Numbers that are not whole, or need more than 64 bits, are 17 bytes: the number
of decimal places, then all digits as a 16-byte number, without trailing zeros. So `1`, `1::bigint` and `1.00` are the
same 8 bytes, and `1.5::decimal(5, 2)` and `1.5::decimal(10, 4)` the same 17. Numbers are little-endian. Trailing spaces
are ordinary bytes: where an engine does not distinguish them, its literal is several values (trap S11). The hash is
XXH64 with seed 0.

Many values are hashed at once, with array arithmetic: the library hashes one value per call. The specification is
`doc/xxhash_spec.md` of xxHash. Values of one length are hashed together, one word of each at a time. Numbers wrap
around at 64 bits, as the algorithm requires.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa
import xxhash

from pruner.indexes.columns.kinds import is_binary, is_text
from pruner.indexes.columns.ordering import decimal_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import StorageValue

    Words = NDArray[np.uint64]
    Bytes = NDArray[np.uint8]
    Starts = NDArray[np.int64]

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)
_START = (0x60EA27EEADC0B5D6, 0xC2B2AE3D27D4EB4F, 0, 0x61C8864E7A143579)
"""The four accumulators before the first stripe, as the specification derives them from the primes and seed 0."""

_WORD = 8
_STRIPE = 32
_AT_ONCE = 1 << 14
"""Values hashed at a time, so that intermediate results stay in the CPU cache."""


def hash_words(words: Words) -> Words:
    """Hash 64-bit numbers as their eight bytes, little-endian."""
    result = np.empty(len(words), np.uint64)
    for start in range(0, len(words), _AT_ONCE):
        part = words[start : start + _AT_ONCE]
        result[start : start + len(part)] = _finished(_with_word(np.full(len(part), _short(_WORD)), part))
    return result


def hash_strings(data: Bytes, offsets: Starts) -> Words:
    """Hash byte strings.

    Args:
        data: their bytes, concatenated.
        offsets: where each begins, and where the last one ends.
    """
    lengths = np.diff(offsets)
    result = np.empty(len(lengths), np.uint64)
    # A whole word is read from where it begins, so the last one may reach beyond the strings.
    padded = np.concatenate([data[: int(offsets[-1]) if len(offsets) else 0], np.zeros(_WORD, np.uint8)])
    order = np.argsort(lengths, kind="stable")
    firsts = np.flatnonzero(np.diff(lengths[order], prepend=-1))
    for chosen in np.split(order, firsts[1:]) if len(order) else ():
        length = int(lengths[chosen[0]])
        for start in range(0, len(chosen), _AT_ONCE):
            part = chosen[start : start + _AT_ONCE]
            result[part] = _of_length(padded, offsets[part], length)
    return result


def _of_length(data: Bytes, starts: Starts, length: int) -> Words:
    """Hash strings of one length."""
    words = _overlapping(data, np.dtype("<u8"))
    done = length - length % _STRIPE
    if done:
        hashes = _stripes(lambda at: words[starts + at], done, len(starts)) + np.uint64(length)
    else:
        hashes = np.full(len(starts), _short(length))
    while length - done >= _WORD:
        hashes = _with_word(hashes, words[starts + done])
        done += _WORD
    if length - done >= _WORD // 2:
        half = _overlapping(data, np.dtype("<u4"))[starts + done].astype(np.uint64)
        hashes = _rotated(hashes ^ (half * _PRIME_1), 23) * _PRIME_2 + _PRIME_3
        done += _WORD // 2
    for at in range(done, length):
        hashes = _rotated(hashes ^ (data[starts + at].astype(np.uint64) * _PRIME_5), 11) * _PRIME_1
    return _finished(hashes)


def _overlapping(data: Bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The number that begins at each byte."""
    return np.ndarray((max(len(data) - dtype.itemsize + 1, 0),), dtype, data, strides=(1,))


def _short(length: int) -> np.uint64:
    """The initial hash of values shorter than a stripe."""
    return np.uint64((int(_PRIME_5) + length) & 0xFFFFFFFFFFFFFFFF)


def _stripes(word: Callable[[int], Words], end: int, count: int) -> Words:
    lanes = [np.full(count, start, np.uint64) for start in _START]
    for at in range(0, end, _STRIPE):
        lanes = [_round(lane, word(at + _WORD * number)) for number, lane in enumerate(lanes)]
    hashes = sum(
        (_rotated(lane, by) for lane, by in zip(lanes[1:], (7, 12, 18), strict=True)), _rotated(lanes[0], 1)
    )
    for lane in lanes:
        hashes = (hashes ^ _round(np.uint64(0), lane)) * _PRIME_1 + _PRIME_4
    return hashes


def _round(lane: Any, words: Words) -> Words:
    return _rotated(lane + words * _PRIME_2, 31) * _PRIME_1


def _with_word(hashes: Words, words: Words) -> Words:
    return _rotated(hashes ^ _round(np.uint64(0), words), 27) * _PRIME_1 + _PRIME_4


def _rotated(words: Words, by: int) -> Words:
    return (words << np.uint64(by)) | (words >> np.uint64(64 - by))


def _finished(hashes: Words) -> Words:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _PRIME_2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _PRIME_3
    return hashes ^ (hashes >> np.uint64(32))


_NANOSECONDS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_LEAST, _GREATEST = -(1 << 63), (1 << 63) - 1
_CANONICAL_NAN = struct.pack("<Q", 0x7FF8000000000000)
_WIDE_BYTES = 17


def hash_of(value: StorageValue, type_: pa.DataType) -> int:
    """The hash of one value in the storage domain of a type."""
    return xxhash.xxh64_intdigest(encoded(value, type_))


def encoded(value: StorageValue, type_: pa.DataType) -> bytes:
    """The canonical bytes of one value in the storage domain of a type."""
    if isinstance(value, bytes):
        return value
    if pa.types.is_floating(type_):
        return _CANONICAL_NAN if math.isnan(value) else struct.pack("<d", value + 0.0)
    factor, scale = _measure(type_)
    return _exact(int(value) * factor, scale)


def _measure(type_: pa.DataType) -> tuple[int, int]:
    """The factor of stored integers, and how many of their digits are decimal places."""
    if pa.types.is_timestamp(type_) or pa.types.is_time(type_):
        return _NANOSECONDS[type_.unit], 0
    return 1, type_.scale if pa.types.is_decimal(type_) else 0


def _exact(unscaled: int, scale: int) -> bytes:
    while scale > 0 and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    if scale == 0 and _LEAST <= unscaled <= _GREATEST:
        return struct.pack("<q", unscaled)
    return bytes([scale]) + unscaled.to_bytes(16, "little", signed=True)


def hash_values(values: pa.Array[Any]) -> Words:
    """The hashes of the values of an array, in its order, without NULLs."""
    type_, stored = values.type, cast("Any", values)
    if is_text(type_) or is_binary(type_):
        return _hash_bytes(stored.cast(pa.large_binary()).drop_null())
    if pa.types.is_null(type_):
        return np.empty(0, np.uint64)
    plain = stored.drop_null()
    if pa.types.is_floating(type_):
        return _hash_floats(plain.to_numpy(zero_copy_only=False))
    factor, scale = _measure(type_)
    if pa.types.is_decimal(type_):
        upper, lower = decimal_words(plain)
        return _hash_decimals(upper, lower, scale)
    if pa.types.is_uint64(type_):
        lower = plain.to_numpy()
        return _hash_decimals(np.zeros(len(lower), np.int64), lower, 0)
    return _hash_integers(_integers(plain), factor)


def _hash_bytes(values: Any) -> Words:
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int64)[values.offset :][: len(values) + 1]
    plain = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return hash_strings(plain[int(ends[0]) :], ends - ends[0])


def _hash_floats(values: NDArray[np.floating[Any]]) -> Words:
    with np.errstate(invalid="ignore"):  # signaling NaNs warn when used
        words = (values.astype(np.float64) + 0.0).view(np.uint64)
    words[np.isnan(values)] = np.frombuffer(_CANONICAL_NAN, np.uint64)
    return hash_words(words)


def _integers(values: Any) -> NDArray[np.int64]:
    types, type_ = pa.types, values.type
    if types.is_boolean(type_):
        return np.asarray(values).astype(np.int64)
    if types.is_date32(type_) or types.is_time32(type_):
        return values.view(pa.int32()).to_numpy().astype(np.int64)
    if types.is_timestamp(type_) or types.is_time64(type_):
        return values.view(pa.int64()).to_numpy()
    return values.to_numpy().astype(np.int64)


def _hash_integers(values: NDArray[np.int64], factor: int) -> Words:
    """Hash integers times a factor; products beyond 64 bits are rare, being centuries from now."""
    if factor == 1:
        return hash_words(values.view(np.uint64))
    hashes = hash_words((values * np.int64(factor)).view(np.uint64))
    far = np.flatnonzero((values > _GREATEST // factor) | (values < -(_GREATEST // factor)))
    if len(far):
        distinct, codes = np.unique(values[far], return_inverse=True)
        wide = [xxhash.xxh64_intdigest(_exact(value * factor, 0)) for value in distinct.tolist()]
        hashes[far] = np.array(wide, np.uint64)[codes]
    return hashes


def _hash_decimals(upper: NDArray[np.int64], lower: Words, scale: int) -> Words:
    """Hash 128-bit integers with `scale` decimal places."""
    hashes = np.empty(len(lower), np.uint64)
    is_narrow = upper == (lower.view(np.int64) >> np.int64(63))
    for chosen, shortened in ((is_narrow, _shortened_narrow), (~is_narrow, _shortened_wide)):
        if chosen.any():
            hashes[chosen] = _hash_shortened(*shortened(upper[chosen], lower[chosen], scale))
    return hashes


def _hash_shortened(high: Words, low: Words, scales: NDArray[np.int64]) -> Words:
    """Hash 128-bit integers without trailing zeros in their decimal places."""
    narrow = (scales == 0) & (high.view(np.int64) == (low.view(np.int64) >> np.int64(63)))
    hashes = np.empty(len(low), np.uint64)
    hashes[narrow] = hash_words(low[narrow])
    wide = np.flatnonzero(~narrow)
    rows = np.empty((len(wide), _WIDE_BYTES), np.uint8)
    rows[:, 0] = scales[wide]
    rows[:, 1:9] = low[wide].astype("<u8").view(np.uint8).reshape(-1, 8)
    rows[:, 9:] = high[wide].astype("<u8").view(np.uint8).reshape(-1, 8)
    hashes[wide] = hash_strings(rows.reshape(-1), np.arange(len(wide) + 1, dtype=np.int64) * _WIDE_BYTES)
    return hashes


def _shortened_narrow(
    upper: NDArray[np.int64], lower: Words, scale: int
) -> tuple[Words, Words, NDArray[np.int64]]:
    """Drop trailing decimal zeros of integers that fit 64 bits; returns them in 128 bits, and their scales."""
    values, scales = lower.view(np.int64).copy(), np.full(len(lower), scale, np.int64)
    left = np.arange(len(values))
    for _ in range(scale):
        left = left[values[left] % 10 == 0]
        values[left] //= 10
        scales[left] -= 1
    return upper.view(np.uint64), values.view(np.uint64), scales


def _shortened_wide(
    upper: NDArray[np.int64], lower: Words, scale: int
) -> tuple[Words, Words, NDArray[np.int64]]:
    """The same for integers of any size."""
    limbs, scales = _magnitude(upper, lower), np.full(len(lower), scale, np.int64)
    left = np.arange(len(lower))
    for _ in range(scale):
        quotients, rest = _divided_by_ten([limb[left] for limb in limbs])
        left = left[rest == 0]
        for limb, quotient in zip(limbs, quotients, strict=True):
            limb[left] = quotient[rest == 0]
        scales[left] -= 1
    high, low = (limbs[0] << np.uint64(32)) | limbs[1], (limbs[2] << np.uint64(32)) | limbs[3]
    return *_signed(high, low, upper < 0), scales


def _magnitude(upper: NDArray[np.int64], lower: Words) -> list[Words]:
    """The absolute values as four 32-bit limbs, the highest first."""
    high, low = _signed(upper.view(np.uint64), lower, upper < 0)
    mask = np.uint64(0xFFFFFFFF)
    return [high >> np.uint64(32), high & mask, low >> np.uint64(32), low & mask]


def _signed(high: Words, low: Words, negative: NDArray[np.bool_]) -> tuple[Words, Words]:
    """Negate some 128-bit integers."""
    flipped = ~low + np.uint64(1)
    carried = ~high + (flipped == 0).astype(np.uint64)
    return np.where(negative, carried, high), np.where(negative, flipped, low)


def _divided_by_ten(limbs: list[Words]) -> tuple[list[Words], Words]:
    ten = np.uint64(10)
    rest = np.zeros(len(limbs[0]), np.uint64)
    quotients: list[Words] = []
    for limb in limbs:
        current = (rest << np.uint64(32)) | limb
        quotients.append(current // ten)
        rest = current % ten
    return quotients, cast("Words", rest)
