"""XXH64 (seed 0) of many values at once, as array arithmetic: the library hashes one value a call.

The specification is `doc/xxhash_spec.md` of xxHash. Values of one length are hashed together, a word of all of them at
a time. Numbers wrap around at 64 bits, which is what the algorithm asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Words = NDArray[np.uint64]
    Bytes = NDArray[np.uint8]
    Starts = NDArray[np.int64]

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)
_START = (0x60EA27EEADC0B5D6, 0xC2B2AE3D27D4EB4F, 0, 0x61C8864E7A143579)
"""The four accumulators before the first stripe: what the specification makes of the primes and seed 0."""

_WORD = 8
_STRIPE = 32
_AT_ONCE = 1 << 14
"""Values that are hashed at a time, so that what lies between two steps stays in the processor's cache."""


def hash_words(words: Words) -> Words:
    """Hash numbers of 64 bits as their eight bytes, the lowest first."""
    result = np.empty(len(words), np.uint64)
    for start in range(0, len(words), _AT_ONCE):
        part = words[start : start + _AT_ONCE]
        result[start : start + len(part)] = _finished(_with_word(np.full(len(part), _short(_WORD)), part))
    return result


def hash_strings(data: Bytes, offsets: Starts) -> Words:
    """Hash byte strings.

    Args:
        data: their bytes, one behind the other.
        offsets: where each begins, and where the last one ends.
    """
    lengths = np.diff(offsets)
    result = np.empty(len(lengths), np.uint64)
    # A word is read where it begins, so the last one may reach beyond the strings.
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
    """What values of fewer bytes than a stripe begin with."""
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
