"""The record of a slice is what its rows say one by one, however the column is read and the blobs are made."""

from __future__ import annotations

import math
from collections import defaultdict
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from pruner.indexes.bitmap import BITMAP
from pruner.indexes.bitmap.packing import checksum, pack_rows
from pruner.indexes.bitmap.record import NAN, NULL, SLICE, VALUE
from pruner.pipeline import footers
from pruner.pipeline.footers import DictionaryPage, FileReader, dictionary_pages, parse_header
from pruner.schema import Field
from tests.support.running.profiles import examples


def _slow(column: pa.ChunkedArray[Any]) -> dict[tuple[int, Any], list[int]]:
    """The rows of each entry, row by row."""
    found: dict[tuple[int, Any], list[int]] = defaultdict(list)
    for row, value in enumerate(column.to_pylist()):
        if value is None:
            found[NULL, None].append(row)
        elif isinstance(value, float) and math.isnan(value):
            found[NAN, None].append(row)
        else:
            stored = (
                value.encode()
                if isinstance(value, str)
                else value + 0.0
                if isinstance(value, float)
                else value
            )
            found[VALUE, stored].append(row)
    return found


def _recorded(file: Path, type_: pa.DataType, **options: str) -> pa.Table:
    with FileReader(str(file)) as reader:
        return BITMAP.record(reader, Field(("s",), type_), options)


def _check(file: Path, column: pa.ChunkedArray[Any]) -> None:
    records = _recorded(file, column.type)
    header, *entries = records.to_pylist()
    assert header["entry"] == SLICE
    assert (header["usable"], header["row_count"]) == (True, len(column))
    value = records.column_names[1]
    expected = _slow(column)
    assert [(each["entry"], each[value]) for each in entries] == sorted(
        expected, key=lambda entry: (entry[0], entry[1] is not None and entry[1])
    )
    for each in entries:
        rows = expected[each["entry"], each[value]]
        assert each["cardinality"] == len(rows)
        assert list(BitMap.deserialize(each["rows"])) == rows
        assert len(each["rows"]) == len(BitMap(rows).serialize())
        assert each["checksum"] == checksum(each["rows"])


TEXTS = st.lists(
    st.none() | st.sampled_from(["", "a", "b", "ü", "longer than twelve bytes", "z"]), max_size=60
)
FLOATS = st.lists(
    st.none() | st.sampled_from([0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf]), max_size=60
)


@settings(max_examples=examples(200))
@given(
    values=TEXTS | FLOATS,
    group=st.integers(1, 40),
    dictionary=st.booleans(),
    page_version=st.sampled_from(["1.0", "2.0"]),
    limit=st.sampled_from([1, 20, 1 << 20]),
)
def test_records_are_what_the_rows_say(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[Any],
    group: int,
    dictionary: bool,
    page_version: Any,
    limit: int,
) -> None:
    file = tmp_path_factory.mktemp("build") / "f.parquet"
    type_ = pa.float64() if any(isinstance(value, float) for value in values) else pa.string()
    column: Any = pa.chunked_array([pa.array(values, type_)])
    pq.write_table(
        pa.table({"s": column}),
        file,
        row_group_size=group,
        use_dictionary=dictionary,
        # With a small limit the writer gives up the dictionary in the middle of a row group.
        dictionary_pagesize_limit=limit,
        data_page_size=limit,
        write_batch_size=3,
        data_page_version=page_version,
    )
    _check(file, column)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("order", ["random", "sorted", "runs"])
@pytest.mark.parametrize("distinct", [1, 3, 40, 70_000])
@pytest.mark.parametrize("rows", [0, 1, 4097, 65_536, 65_537, 200_000])
def test_blobs_made_at_once_are_those_made_one_by_one(rows: int, distinct: int, order: str) -> None:
    rng = np.random.default_rng([rows, distinct, len(order)])
    codes = rng.integers(0, distinct, rows)
    if order == "sorted":
        codes.sort()
    if order == "runs":
        codes = np.repeat(codes, rng.integers(1, 9, rows))[:rows]
    sizes = np.bincount(codes, minlength=distinct + 2)
    wanted = cast("list[int]", rng.permutation(distinct + 2)[:60].tolist())
    narrow = np.uint16 if distinct < 1 << 16 else np.uint32
    found: list[Any] = pack_rows(codes.astype(narrow), sizes, wanted).to_pylist()
    expected = [np.flatnonzero(codes == code).tolist() for code in wanted]
    assert [list(BitMap.deserialize(blob)) for blob in found] == expected
    # A run may be written as a list if that is as long.
    assert [len(blob) for blob in found] == [len(BitMap(rows).serialize()) for rows in expected]


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("rows", "distinct", "run", "digest"),
    [
        (1_000, 7, 1, 0x570131765D9C52DE),
        (100_000, 3, 1, 0x890C3196798A6469),
        (200_000, 40, 1, 0x954166A48CE4ADD2),
        (200_000, 40, 9, 0x6BF721309BC2CE02),
        (300_000, 1_000, 1, 0xFE908195F6706B63),
        (65_537, 20_000, 1, 0xA6E928FE05D396BC),
        (1_200_000, 1_000, 1, 0xF2FD1B6ACB3098E1),
        (1_200_000, 30, 50, 0x10AAA9404C88FB1D),
        (150_000, 70_000, 1, 0x0CCAE6BB669D9389),
        (1_200_000, 12, 30_000, 0x3779481CC47373AC),
    ],
)
def test_blobs_have_the_bytes_that_they_always_had(rows: int, distinct: int, run: int, digest: int) -> None:
    """However and on whatever machine they are made: indexes of several builds are merged."""
    numbers = np.arange(rows, dtype=np.uint64) // np.uint64(run)
    codes = (numbers * np.uint64(2654435761) % np.uint64(1 << 32)) % np.uint64(distinct)
    sizes = np.bincount(codes.astype(np.int64), minlength=distinct)
    narrow = np.uint16 if distinct < 1 << 16 else np.uint32
    found: list[Any] = pack_rows(codes.astype(narrow), sizes, list(range(distinct))).to_pylist()
    assert checksum(b"".join(found)) == digest


def test_entries_of_a_dictionary_that_no_row_has_are_no_values(tmp_path: Path) -> None:
    """Also if there are more of them than `max_cardinality`."""
    file = tmp_path / "f.parquet"
    names = pa.array([f"v{number:03}" for number in range(300)])
    column: Any = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([7, 3, 7], pa.int32()), names)])
    pq.write_table(pa.table({"s": column}), file)
    assert len(_file_dictionary(file)) == 300
    records = _recorded(file, pa.string(), max_cardinality="2")
    assert records.column("value_bytes").to_pylist() == [None, b"v003", b"v007"]
    full = _recorded(file, pa.string(), max_cardinality="1")
    assert full.column("note").to_pylist() == ["there are more than max_cardinality = 1 distinct values"]


def _file_dictionary(file: Path) -> pa.Array[Any]:
    column: Any = pq.ParquetFile(file, read_dictionary=["s"]).read().column("s")
    return column.chunk(0).dictionary


def test_a_dictionary_page_with_an_entry_twice_is_read_as_values(tmp_path: Path) -> None:
    """Arrow drops the second one and gives the rows after it other values."""
    file = tmp_path / "f.parquet"
    values = ["aa", "bb", "cc", "dd"]
    pq.write_table(pa.table({"s": values * 3}), file, compression="none")
    content = file.read_bytes()
    entries = b"".join(len(value).to_bytes(4, "little") + value.encode() for value in values)
    assert content.count(entries) == 1
    file.write_bytes(content.replace(entries, entries.replace(b"bb", b"aa")))
    plain: Any = pq.read_table(file)
    assert plain.column("s").to_pylist() == ["aa", "aa", "cc", "dd"] * 3
    _check(file, plain.column("s"))


def test_headers_of_dictionary_pages(tmp_path: Path) -> None:
    file = tmp_path / "f.parquet"
    for version in ("1.0", "2.0"):
        table = pa.table({"n": list(range(6)), "s": ["x", "yy", "x", None, "zzz", "x"]})
        pq.write_table(table, file, row_group_size=3, data_page_version=cast("Any", version))
        with FileReader(str(file)) as reader:
            leaf = reader.footer.leaf(("s",))
            assert leaf is not None
            with file.open("rb") as content:
                pages = dictionary_pages(content, pq.read_metadata(file), leaf)
        assert pages == [DictionaryPage(2, 4 + 1 + 4 + 2), DictionaryPage(2, 4 + 3 + 4 + 1)]


@settings(max_examples=examples(300))
@given(st.binary(max_size=40))
def test_bytes_that_are_no_header_end_in_nothing_or_a_plain_error(data: bytes) -> None:
    try:
        found = parse_header(data)
    except (IndexError, ValueError):
        return
    assert found is None or isinstance(found, DictionaryPage)


def test_runs_are_neighbours() -> None:
    """Long runs are written in a form that also fits single rows."""
    rows = [0, 1, 2, 3, 4, 9, 10, 11, 12, 70_000]
    codes = np.ones(70_001, np.uint16)
    codes[rows] = 0
    found: Any
    (found,) = pack_rows(codes, np.bincount(codes), [0]).to_pylist()
    assert list(BitMap.deserialize(found)) == rows
    assert all(one < other for one, other in pairwise(rows))
    assert found == BitMap(rows).serialize()


IN_PARTS = (
    pa.array([1.5, 0.5, -0.0, 0.0, float("nan"), None], pa.float16()),
    pa.array([1.5, 0.5, -0.0, 0.0, float("nan"), None], pa.float32()),
    pa.array([1.5, 0.5, -0.0, 0.0, float("nan"), None], pa.float64()),
    *(pa.array([3, 1, None, 2], type_) for type_ in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *(pa.array([3, 1, None, 2], type_) for type_ in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    pa.array([True, None, False]),
    *(
        pa.array([3, 1, None, 2], type_)
        for type_ in (pa.date32(), pa.timestamp("ms"), pa.timestamp("us", "UTC"))
    ),
    *(pa.array([3, 1, None, 2], type_) for type_ in (pa.time32("ms"), pa.time64("us"), pa.timestamp("ns"))),
    *(pa.array([b"b", b"a", None], type_) for type_ in (pa.binary(), pa.binary(1), pa.large_binary())),
    *(pa.array(["b", "a", None], type_) for type_ in (pa.string(), pa.large_string())),
    *(pa.array([Decimal("1.5"), Decimal("-2"), None], pa.decimal128(digits, 2)) for digits in (4, 12, 30)),
)


@pytest.mark.parametrize("values", IN_PARTS, ids=lambda values: str(values.type))
def test_parts_with_dictionaries_of_their_own_are_recorded_as_one_part_is(
    values: pa.Array[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyarrow 26 takes the bits of half-precision floats for the numbers of the dictionary that it unifies."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": values}), path)
    field = Field(("x",), values.type)

    def recorded() -> list[Any]:
        with FileReader(str(path)) as reader:
            return BITMAP.record(reader, field, {}).to_pylist()

    whole = recorded()
    monkeypatch.setattr(footers, "BATCH_ROWS", 1)
    assert recorded() == whole
