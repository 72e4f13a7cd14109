"""Filters of one size, transposed: they say the same as the filters that they were made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pruner.expr.bound.predicates import CompareLeaf, InLeaf, Point
from pruner.expr.nodes import Operator
from pruner.expr.semantics import Semantics
from pruner.indexes.bloom_filter import BLOOM_FILTER
from pruner.indexes.bloom_filter.load import (
    MANY_ALIKE,
    BitRows,
    StripedFilters,
    WholeFilters,
    load_parts,
    turned,
)
from pruner.indexes.bloom_filter.record import RECORD_SCHEMA, striped
from pruner.indexes.columns.canonical import hash_values
from pruner.indexes.optional import RecordPart
from pruner.schema import Field
from pruner.tables.footers.filters import filter_of
from pruner.verdict import Outcome

X = Field(("x",), pa.int64())
DUCKDB = Semantics(engine="duckdb", zone="UTC")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("count", [1, 7, 8, 9, 8192, 8195])
@pytest.mark.parametrize("size", [32, 96])
def test_turning_is_what_single_bits_say(count: int, size: int) -> None:
    filters = np.random.default_rng(count).integers(0, 256, (count, size), dtype=np.uint8)
    bits = np.unpackbits(filters, axis=1, bitorder="little")
    found = np.unpackbits(turned(filters), axis=1, bitorder="little")
    assert (bits == found[:, :count].T).all()
    assert not found[:, count:].any()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("blocks", [1, 3])
def test_holders_are_those_of_filters_that_stand_side_by_side(blocks: int) -> None:
    rng = np.random.default_rng(blocks)
    held = np.sort(rng.integers(0, 2**64 - 1, (1500, 12 * blocks), np.uint64), axis=1)
    data = b"".join(filter_of(row, blocks) for row in held)
    filters = np.frombuffer(data, np.uint8).reshape(len(held), -1)
    rows = BitRows([filters[:700], filters[700:]])
    plain = WholeFilters(
        filters.view(np.uint32).reshape(-1, 8), np.arange(len(held)) * blocks, np.full(len(held), blocks)
    )
    hashes = np.concatenate([held[[3, 900], 5], rng.integers(0, 2**64 - 1, 60, np.uint64)])
    some = np.array([3, 4, 699, 700, 900, 1499])
    for asked in (hashes[:1], hashes[1:2], hashes[2:3], hashes):
        assert rows.holders(None, asked).tolist() == plain.holders(None, asked).tolist()
        assert rows.holders(some, asked).tolist() == plain.holders(some, asked).tolist()
    assert 3 in rows.holders(None, hashes[:1])


def _part(first: int, values: list[list[int]], sizes: list[int]) -> RecordPart:
    """Records of slices with these values, in filters with these numbers of blocks."""
    rows: list[dict[str, Any]] = []
    for number, (own, blocks) in enumerate(zip(values, sizes, strict=True)):
        bits = filter_of(np.unique(hash_values(pa.array(own, X.type))), blocks)
        row = {"usable": True, "distinct": len(own), "blocks": blocks, "stripes": 0, "filter": bits}
        about = {"type": str(X.type), "absent": False, "partly_absent": False, "in_range": True}
        rows.append({**row, **about, "__slice": first + number})
    schema: Any = RECORD_SCHEMA.append(pa.field("__slice", pa.int32()))
    table = pa.table(
        [pa.array([row.get(each.name) for row in rows], each.type) for each in schema], schema=schema
    )
    return RecordPart(striped(table), None, striped(table).select)


@pytest.mark.slow
def test_slices_of_all_sizes_and_segments_are_found() -> None:
    """Most filters have one size and are transposed; others are rare or cut into stripes; one slice has no record."""
    rng = np.random.default_rng(11)
    count = 3 * MANY_ALIKE
    values = rng.permutation(count * 4).reshape(count, 4).tolist()
    sizes = np.where(rng.random(count) < 0.6, 1, np.where(rng.random(count) < 0.95, 2, 5)).tolist()
    half = MANY_ALIKE + 100
    large = [rng.permutation(40_000).tolist(), rng.permutation(40_000).tolist()]
    parts = [
        _part(0, values[:half], sizes[:half]),
        _part(half, values[half:], sizes[half:]),
        _part(count, large, [2000, 2100]),
    ]
    filters = load_parts(parts, count + 3, X)
    kinds = [type(held.group) for held in filters.groups]
    assert kinds.count(BitRows) == 2
    assert {WholeFilters, StripedFilters} < set(kinds)
    evidence = BLOOM_FILTER.load_parts(parts, count + 3, X)
    for number in (0, half - 1, half, count - 1):
        leaf = CompareLeaf(X, Operator.EQ, Point(values[number][0], values[number][0]))
        kept = evidence.possible(leaf, Outcome.TRUE, DUCKDB, None)
        assert kept is not None
        assert kept[[number, count + 2]].all()
        at = np.unique([0, half - 1, half, count - 1, count, count + 2])
        asked = evidence.possible(leaf, Outcome.TRUE, DUCKDB, at)
        assert asked is not None
        assert asked.tolist() == kept[at].tolist()
    absent = [Point(count * 4 + each, count * 4 + each) for each in range(3)]
    kept = evidence.possible(InLeaf(X, tuple(absent)), Outcome.TRUE, DUCKDB, None)
    assert kept is not None
    assert kept[-1]
    assert kept.sum() < 0.02 * count
