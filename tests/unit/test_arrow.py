"""Columns made without `pa.array` equal those that it makes, and so do those read without `to_numpy`."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pruner.arrow as module
from pruner.arrow import (
    Condensed,
    as_numpy,
    bytes_array,
    empty_table,
    filled,
    index_of_few,
    number_array,
    rows_at,
    text_array,
    truth_array,
)
from tests.support.running.profiles import examples

INTEGERS = st.lists(st.none() | st.integers(-(2**31), 2**31 - 1))
TEXTS = st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5))
CUTS = st.tuples(st.integers(0, 12), st.integers(0, 12))


def checked(made: Any, expected: pa.Array[Any]) -> None:
    made.validate(full=True)
    assert made.type == expected.type
    assert made.equals(expected)
    assert made.null_count == expected.null_count


@settings(max_examples=examples(100))
@given(values=INTEGERS)
def test_numbers(values: list[int | None]) -> None:
    nulls = [value is None for value in values]
    for type_, dtype in ((pa.int32(), np.int32), (pa.int64(), np.int64), (pa.date32(), np.int32)):
        plain = np.array([value or 0 for value in values], dtype)
        checked(number_array(plain, type_, nulls), pa.array(values, pa.int64()).cast(pa.int32()).cast(type_))
        checked(number_array(plain[::-1], type_), pa.array(plain[::-1].copy()).cast(type_))
    with pytest.raises(AssertionError):
        number_array(np.zeros(3, np.int32), pa.int64())


@settings(max_examples=examples(100))
@given(values=TEXTS)
def test_texts(values: list[str | None]) -> None:
    nulls = [value is None for value in values]
    made = text_array([value or "" for value in values], nulls)
    checked(made, pa.array(values, pa.string()))
    with patch.object(module, "_MOST_BYTES", 3):
        long = text_array([value or "" for value in values], nulls)
    assert long.to_pylist() == values


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        text_array(["a", "\udc80"])


@settings(max_examples=examples(100))
@given(values=st.lists(st.booleans()), cut=CUTS)
def test_booleans(values: list[bool], cut: tuple[int, int]) -> None:
    checked(truth_array(values), pa.array(values, pa.bool_()))
    part = pa.array(values, pa.bool_()).slice(min(cut[0], len(values)), cut[1])
    assert as_numpy(part).tolist() == part.to_pylist()
    assert as_numpy(part).dtype == np.bool_
    assert (
        as_numpy(pa.chunked_array([part, pa.array(values, pa.bool_())])).tolist() == part.to_pylist() + values
    )


@settings(max_examples=examples(100))
@given(values=INTEGERS, cut=CUTS, default=st.integers(-1, 1))
def test_columns_of_numbers(values: list[int | None], cut: tuple[int, int], default: int) -> None:
    expected = [default if value is None else value for value in values]
    for type_ in (pa.int32(), pa.int64(), pa.float64()):
        column = pa.array(values, pa.int64()).cast(type_)
        whole = filled(column, default)
        assert (whole.type, whole.to_pylist()) == (type_, expected)
        part = whole.slice(min(cut[0], len(values)), cut[1])
        assert as_numpy(part).tolist() == part.to_pylist()
        chunks = pa.chunked_array([column, column], type_)
        assert as_numpy(filled(chunks, default)).tolist() == expected * 2
    assert as_numpy(pa.chunked_array([], pa.int64())).tolist() == []


def test_columns_of_booleans_are_filled() -> None:
    column = pa.array([True, None, False])
    assert filled(column, value=0).to_pylist() == [True, False, False]
    assert filled(column, value=1).to_pylist() == [True, True, False]


def test_byte_strings_of_one_width() -> None:
    checked(bytes_array([b"ab", b"cd"], 2), pa.array([b"ab", b"cd"], pa.binary(2)))
    checked(bytes_array([], 2), pa.array([], pa.binary(2)))
    with pytest.raises(pa.ArrowInvalid):
        bytes_array([b"abc", b"d"], 2)


def test_tables_without_rows() -> None:
    schema = pa.schema({"a": pa.int64(), "b": pa.list_(pa.string()), "c": pa.binary(16)}, {"k": "v"})
    assert empty_table(schema).equals(schema.empty_table(), check_metadata=True)


HELD: tuple[Any, ...] = (
    pa.int64(),
    pa.bool_(),
    pa.string(),
    pa.binary(),
    pa.decimal128(38, 0),
    pa.list_(pa.string()),
    pa.float64(),
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("type_", [*HELD, pa.binary(16), pa.int8(), pa.timestamp("us"), pa.large_string()])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_columns_of_nulls(type_: Any, count: int) -> None:
    checked(module.nulls(count, type_), pa.nulls(count, type_))
    doubled: Any = pa.chunked_array([module.nulls(count, type_), module.nulls(count, type_)]).combine_chunks()
    checked(doubled, pa.nulls(2 * count, type_))


VALUES = {
    pa.int64(): (5, 6),
    pa.bool_(): (True, False),
    pa.string(): ("", "x"),
    pa.binary(): (b"y", b""),
    pa.decimal128(38, 0): (7, 8),
    pa.float64(): (0.0, -0.0),
    pa.list_(pa.string()): ([], ["z"]),
}


@settings(max_examples=examples(200))
@given(data=st.data(), rows=st.integers(0, 6), chunks=st.integers(1, 3))
def test_a_table_that_is_held_is_the_table_that_was_read(data: st.DataObject, rows: int, chunks: int) -> None:
    """NULL, one value and several, in any order; -0.0 is preserved."""
    types = data.draw(st.lists(st.sampled_from(HELD), min_size=1, max_size=6))
    parts: list[pa.Table] = []
    for _ in range(chunks):
        columns = [
            data.draw(st.lists(st.sampled_from((None, *VALUES[type_])), min_size=rows, max_size=rows))
            for type_ in types
        ]
        arrays = [pa.array(values, type_) for values, type_ in zip(columns, types, strict=True)]
        parts.append(pa.Table.from_arrays(arrays, names=["same name"] * len(types)))
    table: Any = pa.concat_tables(parts)
    held = Condensed(table).table()
    held.validate(full=True)
    assert held.schema.equals(table.schema)
    assert [repr(column.to_pylist()) for column in held.columns] == [
        repr(column.to_pylist()) for column in table.columns
    ]


def test_a_column_of_one_value_takes_the_memory_of_one_row() -> None:
    table = pa.table({"type": ["int64"] * 1000, "rows": [3] * 1000, "none": pa.nulls(1000, pa.int64())})
    assert Condensed(table).nbytes < 40
    assert Condensed(table).table().equals(table)
    assert Condensed(table.append_column("n", pa.array(range(1000)))).nbytes == 8000 + Condensed(table).nbytes


@given(
    lengths=st.lists(st.integers(0, 40), max_size=8),
    count=st.integers(0, 30),
    seed=st.integers(0, 99),
    few_of=st.sampled_from([1, 1 << 30]),
    as_array=st.booleans(),
)
def test_rows_of_a_table_in_pieces(
    lengths: list[int], count: int, seed: int, few_of: int, as_array: bool
) -> None:
    rng = np.random.default_rng(seed)
    total = sum(lengths)
    made: dict[str, Any] = {
        "text": [None if at % 7 == 3 else f"text {at}" for at in range(total)],
        "number": pa.array(range(total), pa.int64()),
        "list": pa.array(
            [[str(at)] * (at % 3) if at % 2 else None for at in range(total)], pa.list_(pa.string())
        ),
        "nothing": pa.nulls(total, pa.string()),
    }
    made["text"] = pa.array(made["text"], pa.string())
    whole = pa.table(made)
    ends = np.cumsum(lengths, dtype=np.int64).tolist()
    parts = [whole.slice(end - length, length) for end, length in zip(ends, lengths, strict=True)]
    table: Any = pa.concat_tables([whole.slice(0, 0), *parts])
    chosen = rng.integers(0, max(total, 1), count if total else 0)
    at: Any = pa.array(chosen, pa.int64()) if as_array else chosen
    with patch.object(module, "_FEW_OF", few_of):
        assert rows_at(table, at).equals(whole.take(pa.array(chosen, pa.int64())))
        with_null: Any = pa.array([*chosen.tolist(), None], pa.int64())
        assert rows_at(table, with_null).equals(whole.take(with_null))
        if total:
            with pytest.raises(pa.ArrowIndexError):
                rows_at(table, pa.array([total], pa.int64()))


@settings(max_examples=examples(100))
@given(
    among=st.lists(st.none() | st.binary(min_size=4, max_size=4), max_size=30),
    chosen=st.lists(st.integers(0, 29), max_size=8),
    others=st.lists(st.none() | st.binary(min_size=4, max_size=4), max_size=4),
    cut=st.integers(0, 3),
)
def test_few_digests_are_found_where_arrow_finds_them(
    among: list[bytes | None],
    chosen: list[int],
    others: list[bytes | None],
    cut: int,
) -> None:
    """Digests with a common prefix are distinguished, and a column that begins within its buffer is read from there."""
    few = [*(among[at] for at in chosen if at < len(among)), *others]

    def digests(values: list[bytes | None]) -> Any:
        return pa.array([None if value is None else value * 4 for value in values], pa.binary(16))

    wanted, held = digests(few).slice(cut), digests(among).slice(cut)
    for skip_nulls in (False, True):
        found = index_of_few(wanted, held, skip_nulls=skip_nulls)
        expected = module.compute.index_in(wanted, value_set=held, skip_nulls=skip_nulls)
        assert found.to_pylist() == expected.to_pylist()


def test_digests_that_begin_alike_are_no_others() -> None:
    begin = b"ab"
    held = pa.array([begin + bytes([at]) * 14 for at in range(9)], pa.binary(16))
    assert index_of_few(held.slice(3, 2), held.slice(1)).to_pylist() == [2, 3]
    assert index_of_few(held.slice(0, 1), held.slice(1)).to_pylist() == [None]


def test_digests_of_a_column_that_begins_within_its_memory() -> None:
    held = pa.array([bytes([at]) * 16 for at in range(9)], pa.binary(16))
    assert index_of_few(held.slice(3, 2), held.slice(1)).to_pylist() == [2, 3]
