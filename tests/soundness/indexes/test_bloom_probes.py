"""No recorded value is ever missed: filters and keys of every type, probed for each of their values.

`make fuzz N=…` probes N thousand times; a million probes take a second.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import localcontext
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from pruner.arrow import arrow
from pruner.indexes.columns.canonical import hash_of, hash_values
from pruner.indexes.optional import RecordPart
from pruner.indexes.record_index.packing import SegmentKeys, order_of, packed
from pruner.indexes.record_index.record import RECORD_SCHEMA
from pruner.tables.footers.filters import WORDS, block_of, blocks_for, filter_of, masks_of
from tests.support.running import profiles

PROBES = 500_000 if profiles.IS_FIXED else max(500_000, 1_000 * profiles.REQUESTED)
"""Over all types together."""

SINGLY = 200
"""Values of each type that are looked up one by one, as literals are."""

Generator = np.random.Generator


def _whole(bits: int) -> Callable[[Generator, int], NDArray[Any]]:
    return lambda rng, count: rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), count)


def _decimals(rng: Generator, count: int) -> Any:
    """Unscaled integers of 128 bits below 10^38, most of them with zeros at the end."""
    words = np.empty((count, 2), np.uint64)
    words[:, 0] = rng.integers(0, 2**64 - 1, count, np.uint64)
    words[:, 1] = np.where(rng.random(count) < 0.5, 0, rng.integers(0, 2**61, count, np.uint64))
    round_ = rng.random(count) < 0.7
    words[round_, 0] = rng.integers(0, 10**6, int(round_.sum()), np.uint64) * np.uint64(1000)
    words[round_, 1] = 0
    return pa.Array.from_buffers(pa.decimal128(38, 5), count, [None, pa.py_buffer(words.tobytes())])


def _texts(rng: Generator, count: int) -> Any:
    numbers = pa.array(rng.integers(0, 10 ** rng.integers(1, 18, count)))
    return numbers.cast(pa.string())


def _doubles(rng: Generator, count: int) -> Any:
    return pa.array(rng.integers(0, 2**64 - 1, count, np.uint64).view(np.float64))


TYPES: dict[str, Callable[[Generator, int], Any]] = {
    **{
        f"int{bits}": lambda rng, count, bits=bits: pa.array(_whole(bits)(rng, count)).cast(
            arrow.type_for_alias(f"int{bits}")
        )
        for bits in (8, 16, 32, 64)
    },
    "uint64": lambda rng, count: pa.array(rng.integers(0, 2**64 - 1, count, np.uint64)),
    "boolean": lambda rng, count: pa.array(rng.random(count) < 0.5),
    "decimal": _decimals,
    "float": lambda rng, count: pa.array(rng.integers(0, 2**32, count, np.uint32).view(np.float32)),
    "double": _doubles,
    "string": _texts,
    "binary": lambda rng, count: pa.array(rng.integers(0, 2**40, count)).cast(pa.string()).cast(pa.binary()),
    "uuid": lambda rng, count: pa.Array.from_buffers(
        pa.binary(16), count, [None, pa.py_buffer(rng.bytes(16 * count))]
    ),
    "date": lambda rng, count: pa.array(_whole(32)(rng, count)).cast(pa.int32()).view(pa.date32()),
    **{
        f"timestamp {unit}": lambda rng, count, unit=unit: pa.array(_whole(64)(rng, count)).view(
            arrow.timestamp(unit)
        )
        for unit in ("ms", "us", "ns")
    },
}


@pytest.mark.parametrize("name", TYPES)
def test_no_value_is_missed(name: str, request: pytest.FixtureRequest) -> None:
    rng = np.random.default_rng(int(request.config.option.hypothesis_seed) + len(name))
    values = TYPES[name](rng, PROBES // len(TYPES))
    hashes = hash_values(values)
    distinct = np.unique(hashes)
    for fpp in (0.1, 0.001):
        blocks = blocks_for(len(distinct), fpp)
        words = np.frombuffer(filter_of(distinct, blocks), "<u4").reshape(-1, WORDS)
        held = words[block_of(hashes, np.full(1, blocks, np.uint64))] & masks_of(hashes)
        assert held.all(), f"{np.count_nonzero(~held.all(axis=1))} values of type {values.type} are missed"
    assert [hash_of(each, values.type) for each in _stored(values.slice(0, SINGLY))] == hashes[
        :SINGLY
    ].tolist()


@pytest.mark.parametrize("name", TYPES)
def test_every_row_of_a_key_is_found(name: str, request: pytest.FixtureRequest) -> None:
    """Each value is in the slice and at the position that the index gives, and what it gives holds that value."""
    rng = np.random.default_rng(int(request.config.option.hypothesis_seed) + len(name))
    count = PROBES // len(TYPES)
    hashes = hash_values(TYPES[name](rng, count))
    ends = [0, count // 7, count // 7, count // 2, count]
    rows: list[tuple[int, int, bytes, bytes]] = []
    for start, end in pairwise(ends):
        order = order_of(hashes[start:end])
        positions = order.astype("<u4").tobytes()
        rows.append((end - start, end - start, hashes[start:end][order].tobytes(), positions))
    named: Any = dict(zip(("row_count", "keys", "hashes", "positions"), zip(*rows, strict=True), strict=True))
    columns = {
        each.name: pa.array(named.get(each.name, [None] * len(rows)), each.type)
        for each in cast("Any", RECORD_SCHEMA)
    }
    stored = packed(pa.table({**columns, "__slice": pa.array(range(len(rows)), pa.int32())}))
    keys = SegmentKeys(RecordPart(stored, None, stored.select))
    asked = np.unique(np.concatenate([hashes, rng.integers(0, 2**64 - 1, 1_000, np.uint64)]))
    found = np.zeros(count, np.bool_)
    for hits in keys.find(asked):
        at = np.array(ends)[hits.slices] + keys.positions(hits.places)
        assert np.array_equal(hashes[at], asked[hits.which])
        assert not found[at].any()
        found[at] = True
    assert found.all(), f"{np.count_nonzero(~found)} rows are missed"


def _stored(values: Any) -> list[Any]:
    """Values in their storage domain (`pruner.expr.bound.predicates.StorageValue`)."""
    types, type_ = pa.types, values.type
    if types.is_decimal(type_):
        with localcontext(prec=60):
            return [int(value.scaleb(type_.scale)) for value in values.to_pylist()]
    if types.is_date32(type_):
        return values.view(pa.int32()).to_pylist()
    if types.is_timestamp(type_):
        return values.view(pa.int64()).to_pylist()
    listed = values.to_pylist()
    return [value.encode() if isinstance(value, str) else value for value in listed]
