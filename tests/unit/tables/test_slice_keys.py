"""The join of slice batches to a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.tables import slice_keys
from pruner.tables.slice_keys import aligned, locate, locate_all

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


@given(snapshot=st.lists(st.one_of(_KEY, st.none()), max_size=12), batch=st.lists(_KEY, max_size=4))
def test_few_slices_are_found_among_many_as_they_are_among_few(
    snapshot: list[bytes | None], batch: list[bytes]
) -> None:
    """Many others after them do not change their positions, nor does a NULL among them."""
    others: list[bytes | None] = [number.to_bytes(16, "big") for number in range(1 << 20, (1 << 20) + 100)]
    found = locate(_array([*snapshot, *others]), _array([*batch, others[7] or b""]))
    assert found.tolist() == [*locate(_array(snapshot), _array(batch)).tolist(), len(snapshot) + 7]


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


def _keys(count: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**63, size=(count, 2), dtype=np.uint64)


def _is_joined(snapshot: np.ndarray, batch: np.ndarray) -> None:
    """The result equals that of a dictionary of all keys."""
    places = {tuple(key): place for place, key in enumerate(snapshot.tolist())}
    expected: list[int] = []
    seen: set[tuple[int, int]] = set()
    for key in map(tuple, batch.tolist()):
        expected.append(-1 if key in seen else places.get(key, -1))
        seen.add(key)
    assert locate(_from_words(snapshot), _from_words(batch)).tolist() == expected


@pytest.mark.sampled(5)
@pytest.mark.parametrize("count", [4095, 4096, 9000])
@pytest.mark.parametrize("changes", [0, 1, 40, 3000])
def test_batches_are_found_after_changes_anywhere(count: int, changes: int) -> None:
    """Slices that were added, removed, replaced, and moved, in few positions and in many."""
    rng = np.random.default_rng([count, changes])
    batch = _keys(count)
    left = np.delete(batch, rng.integers(0, count, changes), axis=0)
    snapshot = np.insert(left, np.sort(rng.integers(0, len(left), changes)), _keys(changes, 4), axis=0)
    _is_joined(snapshot, batch)
    replaced = batch.copy()
    replaced[rng.integers(0, count, changes)] = _keys(changes, 5)
    _is_joined(replaced, batch)
    moved = np.concatenate([left[changes // 2 :], left[: changes // 2], batch[:0]])
    _is_joined(moved, batch)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("gap", [1, 255, 256, 257, 5000])
def test_batches_are_found_around_gaps(gap: int) -> None:
    snapshot = _keys(10_000)
    _is_joined(snapshot, np.delete(snapshot, np.s_[700 : 700 + gap], axis=0))
    _is_joined(np.delete(snapshot, np.s_[700 : 700 + gap], axis=0), snapshot)
    _is_joined(snapshot, snapshot[gap : gap + 4500])
    parts = [snapshot[start : start + gap] for start in range(0, 10_000, 2 * gap)]
    _is_joined(snapshot, np.concatenate(parts))
    _is_joined(snapshot[gap:], snapshot[:-gap])
    _is_joined(snapshot[:-gap], snapshot[gap:])


def test_keys_that_begin_alike_are_others() -> None:
    snapshot = _keys(6000)
    snapshot[:, 0] %= 3
    replaced = snapshot.copy()
    replaced[[5, 900, 5999], 1] += np.uint64(1)
    _is_joined(snapshot, replaced)
    _is_joined(snapshot, np.delete(snapshot, np.s_[40:1000], axis=0))


def test_keys_are_aligned_where_they_are_in_order() -> None:
    """Nothing is claimed for keys in no order."""
    snapshot = _keys(10_000)
    part = np.delete(snapshot[5000:], [0, 70, 71, 4000], axis=0)
    found = aligned(snapshot.reshape(-1), part.reshape(-1))
    assert found is not None
    assert found.tolist() == np.delete(np.arange(5000, 10_000), [0, 70, 71, 4000]).tolist()
    parts = np.concatenate([snapshot[:1024], snapshot[3072:4096], snapshot[8000:]])
    found = aligned(snapshot.reshape(-1), parts.reshape(-1))
    assert found is not None
    assert found.tolist() == [*range(1024), *range(3072, 4096), *range(8000, 10_000)]
    assert aligned(snapshot.reshape(-1), _keys(10_000, 9).reshape(-1)) is None
    backwards = aligned(snapshot.reshape(-1), snapshot[::-1].reshape(-1))
    assert backwards is None or np.count_nonzero(backwards >= 0) <= 1


@pytest.mark.slow
def test_of_equal_rows_in_a_large_batch_the_first_counts() -> None:
    snapshot = _keys(6000)
    _is_joined(snapshot, np.concatenate([snapshot[500:501], snapshot]))
    _is_joined(snapshot, np.concatenate([snapshot, snapshot[500:501]]))
    _is_joined(snapshot, np.insert(snapshot, 300, snapshot[4000], axis=0))
    # Both are now apart from their former neighbors.
    moved = np.concatenate([snapshot[:500], snapshot[501:], snapshot[500:501]])
    _is_joined(moved, np.insert(snapshot, 501, snapshot[500], axis=0))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("changes", [0, 1, 40])
@pytest.mark.parametrize("order", ["as built", "mixed", "in pieces", "begun anew"])
def test_batches_are_found_together_in_whatever_order_they_were_built(
    monkeypatch: pytest.MonkeyPatch, changes: int, order: str
) -> None:
    """Several processes finish batches in any order, refreshes add small ones, and slices are removed."""
    random = np.random.default_rng(7)
    keys = _keys(30_000)
    sizes = [5000, 5000, 5000, 5000, 5000, 4500]
    batches = np.split(keys[: sum(sizes)], np.cumsum(sizes)[:-1])
    if order == "mixed":
        batches = [batches[at] for at in random.permutation(len(batches))]
    if order == "in pieces":
        pieces = np.split(np.concatenate(batches), np.arange(1000, sum(sizes), 1000))
        for at in (3, 12, 25):
            pieces[at : at + 3] = [pieces[at + 2], pieces[at], pieces[at + 1]]
        batches = np.split(np.concatenate(pieces), np.cumsum(sizes)[:-1])
    new = _keys(changes, seed=4)
    batches += [new[: changes // 2], new[changes // 2 :]]
    if order == "begun anew":
        batches = batches[::-1]
    gone = random.choice(len(keys), changes, replace=False)
    snapshot = np.insert(
        np.delete(keys, gone, axis=0), random.integers(0, len(keys) - changes, changes), new, axis=0
    )
    joined: list[int] = []
    whole = slice_keys._joined

    def counted(snapshot_keys: pa.Array[Any], keys: Any) -> Any:
        joined.append(len(keys))
        return whole(snapshot_keys, keys)

    monkeypatch.setattr(slice_keys, "_joined", counted)
    found = locate_all(_from_words(snapshot), [_from_words(batch) for batch in batches])
    places = {tuple(key): place for place, key in enumerate(snapshot.tolist())}
    for batch, ordinals in zip(batches, found, strict=True):
        assert ordinals.tolist() == [places.get(tuple(key), -1) for key in batch.tolist()]
    assert sum(joined) <= 2 * changes, "all others are found by their order"


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
