"""Bitmaps of many slices made at once: the bytes of each slice packed by itself, and the records of each by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pruner.indexes.bitmap.packing import pack_rows
from pruner.indexes.bitmap.packing_slices import MOST_ROWS_OF_A_SLICE, pack_slices


def _codes(rng: np.random.Generator, rows: int, distinct: int, order: str) -> np.ndarray[Any, Any]:
    codes = rng.integers(0, distinct, rows)
    if order == "sorted":
        codes.sort()
    if order == "runs":
        codes = np.repeat(codes, rng.integers(1, 40, rows))[:rows]
    return codes.astype(np.uint16)


@pytest.mark.parametrize("order", ["random", "sorted", "runs"])
@pytest.mark.parametrize("distinct", [1, 2, 9, 300, 20_000])
def test_blobs_of_many_slices_are_those_of_each(distinct: int, order: str) -> None:
    rng = np.random.default_rng([distinct, len(order)])
    rows = [0, 1, 400, 3, 4_096, 4_097, MOST_ROWS_OF_A_SLICE, 0, *rng.integers(0, 900, 30).tolist()]
    codes = [_codes(rng, count, distinct, order) for count in rows]
    sizes = [np.bincount(each, minlength=distinct + 2) for each in codes]
    found: list[Any] = pack_slices(codes, sizes).to_pylist()
    expected: list[Any] = []
    for each, of_each in zip(codes, sizes, strict=True):
        expected += pack_rows(each, of_each, np.flatnonzero(of_each).tolist()).to_pylist()
    assert found == expected


def test_no_slices_have_no_blobs() -> None:
    assert len(pack_slices([], [])) == 0
    assert len(pack_slices([np.empty(0, np.uint16)], [np.zeros(2, np.int64)])) == 0
