"""Bitmaps of many slices made at once equal, byte for byte, the bitmaps and records of each slice made by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.indexes.bitmap.index import BITMAP
from pruner.indexes.bitmap.packing import MOST_ROWS_OF_A_SLICE, pack_rows, pack_slices
from pruner.metadata.segments import SLICE_COLUMN
from pruner.pipeline import kernel
from pruner.pipeline.footers import FileReader
from pruner.pipeline.requests import BuildRequest, Chunk
from pruner.pipeline.slices import run_chunk
from pruner.schema import Field
from pruner.tables.snapshot import READ_COLUMNS


def _codes(rng: np.random.Generator, rows: int, distinct: int, order: str) -> np.ndarray[Any, Any]:
    codes = rng.integers(0, distinct, rows)
    if order == "sorted":
        codes.sort()
    if order == "runs":
        codes = np.repeat(codes, rng.integers(1, 40, rows))[:rows]
    return codes.astype(np.uint16)


@pytest.mark.sampled(8)
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


_FIELDS = (
    Field(("n",), pa.int64()),
    Field(("s",), pa.string()),
    Field(("f",), pa.float64()),
    Field(("b",), pa.bool_()),
)


def _write(folder: Path) -> list[str]:
    """Files with NULL, NaN and signed zeros, without rows, without a column, with too many values, and a large one."""
    rng = np.random.default_rng(5)
    paths: list[str] = []
    for number, rows in enumerate([300, 0, 7, 2_000, MOST_ROWS_OF_A_SLICE + 4, 1, *[64] * 20]):
        few = rng.integers(0, 5, rows)
        table = pa.table(
            {
                "n": pa.array(rng.integers(-9, 9, rows), mask=rng.random(rows) < 0.1),
                "s": pa.array([None if each == 4 else f"v{each}" for each in few.tolist()], pa.string()),
                "f": pa.array(np.array([0.0, -0.0, np.nan, 1.5, -2.0])[few]),
                "b": pa.array(few > 2),
            }
        )
        if number == 3:
            table = table.set_column(0, "n", pa.array(np.arange(rows)))
        if number == 8:
            table = table.drop_columns(["s"])
        paths.append(str(folder / f"{number:03}.parquet"))
        pq.write_table(table, paths[-1], row_group_size=max(1, rows // 2))
    return paths


@pytest.mark.sampled(2)
@pytest.mark.parametrize("at_once", [100, 1 << 20])
def test_records_of_many_slices_are_those_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Whether they are gathered a few slices at a time or all together."""
    monkeypatch.setattr(kernel, "GATHERED_ROWS", at_once)
    paths = _write(tmp_path)
    options = {"max_cardinality": "1000"}
    known: dict[str, Any] = {"base_file": paths, "base_size": [Path(each).stat().st_size for each in paths]}
    kinds: dict[str, pa.DataType] = {
        "base_size": pa.int64(),
        "log_size": pa.int64(),
        "log_files": pa.list_(pa.string()),
    }
    columns = [
        pa.array(known.get(name, [None] * len(paths)), kinds.get(name, pa.string())) for name in READ_COLUMNS
    ]
    slices = pa.table(columns, names=[*READ_COLUMNS])
    found = run_chunk(Chunk(0, slices), {}, [BuildRequest(BITMAP, each, options, "i") for each in _FIELDS])
    assert not found.failures
    for field, records in zip(_FIELDS, found.tables, strict=True):
        alone: list[pa.Table] = []
        for number, path in enumerate(paths):
            with FileReader(path) as reader:
                of_slice = BITMAP.record(reader, field, options)
            alone.append(of_slice.append_column(SLICE_COLUMN, pa.array([number] * len(of_slice), pa.int32())))
        assert records is not None
        arranged = BITMAP.arrange(records, field)
        expected = BITMAP.arrange(pa.concat_tables(alone), field)
        assert arranged.cast(expected.schema).equals(expected)
        assert BITMAP.layout(arranged) is not None
    assert found.tables[0] is not None
    assert "max_cardinality = 1000" in str(found.tables[0].column("note").to_pylist())
