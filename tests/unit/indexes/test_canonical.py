"""Hashes of whole columns equal those of their values one by one, and equal values of all types of a domain agree."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from pruner.arrow import arrow
from pruner.indexes.columns.canonical import encoded, hash_of, hash_strings, hash_values, hash_words

LEAST, GREATEST = -(2**63), 2**63 - 1


def _integers(bits: int, *, signed: bool = True) -> list[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    rng = random.Random(bits)
    return [low, low + 1, 0, 1, high - 1, high, *(rng.randint(low, high) for _ in range(200))]


def _unscaled(precision: int) -> list[int]:
    """Integers of all lengths up to a precision, many of which end in zeros."""
    rng = random.Random(precision)
    lengths = [rng.randint(1, precision) for _ in range(300)]
    drawn = [
        rng.randrange(10**length) // 10 ** (cut := rng.randint(0, length)) * 10**cut for length in lengths
    ]
    return [0, 10**precision - 1, 1 - 10**precision, *drawn, *(-value for value in drawn)]


def _moments() -> list[int]:
    rng = random.Random(1)
    return [
        LEAST,
        GREATEST,
        0,
        -1,
        *(rng.randint(-(2**bits), 2**bits - 1) for bits in (31, 41, 51, 63) for _ in range(50)),
    ]


def _array(stored: list[Any], type_: pa.DataType) -> pa.Array[Any]:
    """The values of a storage domain as an array, with NULLs between them and one value sliced off at the front."""
    listed: list[Any] = [stored[0], *(value for each in stored for value in (each, None))]
    if pa.types.is_decimal(type_):
        with localcontext(prec=60):
            listed = [None if value is None else Decimal(value).scaleb(-type_.scale) for value in listed]
    number = pa.int32() if pa.types.is_date32(type_) else pa.int64()
    if pa.types.is_timestamp(type_) or pa.types.is_date32(type_):
        return pa.array(listed, number).view(type_)[1:]
    return pa.array(listed, type_)[1:]


CASES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False]),
    *((type_, _integers(type_.bit_width)) for type_ in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *(
        (type_, _integers(type_.bit_width, signed=False))
        for type_ in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    ),
    *(
        (pa.decimal128(precision, scale), _unscaled(precision))
        for precision, scale in ((5, 2), (10, 4), (18, 0), (20, 18), (38, 0), (38, 10), (38, 38))
    ),
    (pa.date32(), _integers(32)),
    *(
        (arrow.timestamp(unit, zone), _moments())
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC")
    ),
    (pa.float32(), [0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), -float("nan")]),
    (pa.float64(), [0.0, -0.0, 0.1, 1e300, float("inf"), float("nan"), -float("nan")]),
    (pa.string(), ["", "a", "ü", "a ", "x" * 40]),
    (pa.large_string(), ["", "ü"]),
    (pa.string_view(), ["", "ü"]),
    (pa.binary(), [b"", b"\0", bytes(range(100))]),
    (pa.binary(16), [b"0123456789abcdef"]),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("type_", "stored"), CASES, ids=lambda value: str(value) if isinstance(value, pa.DataType) else ""
)
def test_a_column_is_hashed_as_its_values_are(type_: pa.DataType, stored: list[Any]) -> None:
    values = [value.encode() if isinstance(value, str) else value for value in stored]
    assert hash_values(_array(stored, type_)).tolist() == [hash_of(value, type_) for value in values]
    assert hash_values(pa.array([None], type_)).tolist() == []


def test_i1_values_of_one_domain_are_hashed_alike_whatever_their_type() -> None:
    """I1 (datafusion#22994, milvus#51140, trino#30544)."""
    ones = {
        *(hash_of(1, type_) for type_ in (pa.bool_(), pa.int8(), pa.int64(), pa.uint64(), pa.date32())),
        hash_of(100, pa.decimal128(5, 2)),
        hash_of(10**10, pa.decimal128(38, 10)),
        hash_of(1, pa.timestamp("ns")),
    }
    assert ones == {xxhash.xxh64_intdigest(b"\1\0\0\0\0\0\0\0")}
    assert hash_of(150, pa.decimal128(5, 2)) == hash_of(15000, pa.decimal128(10, 4))
    assert hash_of(2**63, pa.uint64()) == hash_of(2**63 * 10, pa.decimal128(38, 1))
    assert (
        len(
            {
                hash_of(moment, arrow.timestamp(unit))
                for moment, unit in ((1, "s"), (10**6, "us"), (10**9, "ns"))
            }
        )
        == 1
    )
    assert hash_of(LEAST, pa.timestamp("s")) not in (
        hash_of(0, pa.timestamp("s")),
        hash_of(LEAST, pa.int64()),
    )
    assert hash_of(0.5, pa.float32()) == hash_of(0.5, pa.float64())
    assert hash_of(b"a", pa.binary()) == hash_of(b"a", pa.string()) != hash_of(b"a ", pa.string())


def test_s6_signed_zeros_and_nan_are_one_value_each() -> None:
    """S6 (databend#20520): -0.0 equals 0.0; the bits of NaN do not matter."""
    odd = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    assert set(hash_values(pa.array(odd)).tolist()) == {hash_of(float("nan"), pa.float64())}
    assert hash_of(-0.0, pa.float64()) == hash_of(0.0, pa.float64()) == hash_of(0, pa.float64())


def test_encodings_do_not_change() -> None:
    """Later versions look up what indexes store."""
    assert encoded(-2, pa.int16()).hex() == "feffffffffffffff"
    assert encoded(-150, pa.decimal128(5, 2)).hex() == "01f1ffffffffffffffffffffffffffffff"
    assert encoded(2**63, pa.uint64()).hex() == "0000000000000000800000000000000000"
    assert encoded(1_500, pa.timestamp("ms")).hex() == "002f685900000000"
    assert encoded(-0.0, pa.float32()).hex() == "0000000000000000"
    assert encoded(float("nan"), pa.float64()).hex() == "000000000000f87f"


def test_hashes_of_arrays_are_those_of_the_library() -> None:
    rng = random.Random(3)
    strings = [rng.randbytes(length) for length in [*range(130), 0, 36, 1000, 36] for _ in range(3)]
    rng.shuffle(strings)
    ends = np.cumsum([0, *map(len, strings)]).astype(np.int64)
    found = hash_strings(np.frombuffer(b"".join(strings), np.uint8), ends)
    assert found.tolist() == [xxhash.xxh64_intdigest(value) for value in strings]
    words = np.frombuffer(rng.randbytes(8 * 20_000), np.uint64)
    assert hash_words(words).tolist() == [xxhash.xxh64_intdigest(word.tobytes()) for word in words]
    assert hash_strings(np.empty(0, np.uint8), np.zeros(1, np.int64)).tolist() == []
