"""The join of slice batches to a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.metadata import locate

_KEY = st.integers(0, 6).map(lambda number: bytes([number % 2]) * 8 + bytes([number // 2]) * 8)
_KEYS = st.lists(_KEY, max_size=12)


def _array(keys: Sequence[bytes | None]) -> pa.Array[Any]:
    return pa.array(keys, pa.binary(16))


@given(snapshot=_KEYS, batch=_KEYS, skip=st.integers(0, 3))
def test_every_answer_is_the_same_slice_and_none_is_missed(
    snapshot: list[bytes], batch: list[bytes], skip: int
) -> None:
    # Sliced arrays start at an offset into their buffers.
    found = locate(_array([b"?" * 16] * skip + snapshot)[skip:], _array([b"!" * 16] * skip + batch)[skip:])
    assert found.dtype == np.int64
    assert len(found) == len(batch)
    hits = [(row, int(ordinal)) for row, ordinal in enumerate(found) if ordinal >= 0]
    assert all(snapshot[ordinal] == batch[row] for row, ordinal in hits)
    assert len({ordinal for _, ordinal in hits}) == len(hits)
    assert {batch[row] for row, _ in hits} == set(snapshot) & set(batch)
    assert set(found[found < 0]) <= {-1}


def test_of_equal_rows_in_a_batch_the_first_counts() -> None:
    a, b, c = b"a" * 16, b"b" * 16, b"c" * 16
    assert locate(_array([a, b]), _array([b, c, b, a])).tolist() == [1, -1, -1, 0]


def test_slices_of_arrays_are_compared_where_they_start() -> None:
    a, b, c = b"a" * 16, b"b" * 16, b"c" * 16
    snapshot, batch = _array([c, c, a, b])[2:], _array([c, c, b, b])[2:]
    assert locate(snapshot, batch).tolist() == [1, -1]
    assert locate(snapshot, _array([c, a, b])[1:]).tolist() == [0, 1]


def test_null_is_not_a_key() -> None:
    a = b"a" * 16
    assert locate(_array([None, a]), _array([a, None])).tolist() == [1, -1]
    assert locate(_array([None, a]), _array([None, a])).tolist() == [-1, 1]


def _million(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**63, size=(1_000_000, 2), dtype=np.uint64)


def _from_words(words: np.ndarray) -> pa.Array[Any]:
    data = pa.py_buffer(np.ascontiguousarray(words).tobytes())
    return pa.Array.from_buffers(pa.binary(16), len(words), [None, data])


@pytest.mark.load
@pytest.mark.parametrize("order", ["same", "mixed"])
def test_a_million_by_a_million(order: str) -> None:
    words = _million(1)
    order_of = np.arange(len(words)) if order == "same" else np.random.default_rng(2).permutation(len(words))
    snapshot, batch = _from_words(words), _from_words(words[order_of])
    assert np.array_equal(locate(snapshot, batch), order_of)
