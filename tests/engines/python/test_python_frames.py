"""Frames over the files of a plan are read in as few scans as the engines' own: counted, not timed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner

FOLDERS = {
    "plain": (["n=1/s=a/d=2024-01-02", "n=-20/s=b.C_d-2/d=2023-12-31"], True),
    "several spellings": (["n=1/s=a/d=2024-01-02", "n=01/s=a/d=2024-01-02"], True),  # texts
    "encoded": (["n=1/s=a%20b/d=2024-01-02", "n=2/s=a/d=2024-01-02"], False),
    "a NULL": (["n=1/s=__HIVE_DEFAULT_PARTITION__/d=2024-01-02", "n=2/s=a/d=2024-01-02"], False),
    "a word for NULL": (["n=1/s=null/d=2024-01-02", "n=2/s=a/d=2024-01-02"], True),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", FOLDERS)
@pytest.mark.parametrize("above", ["", "k=7"])
def test_polars_reads_plain_folders_in_one_scan(tmp_path: Path, kind: str, above: str):
    """Values of other folders come from the snapshot, with one scan per partition."""
    root = tmp_path / above / "t"
    folders, plainly = FOLDERS[kind]
    for number, folder in enumerate(folders):
        (root / folder).mkdir(parents=True)
        pq.write_table(pa.table({"id": [number]}), root / folder / "f.parquet")
    plan = pruner.open_table(str(root)).plan("true")
    frame = plan.scan_polars()
    found = frame.collect()
    assert isinstance(found, pl.DataFrame)
    assert frame.explain().count("SCAN") == (1 if plainly and not above else len(folders))
    expected = pl.from_arrow(plan.scan_pyarrow().to_table())
    assert isinstance(expected, pl.DataFrame)
    assert found.sort("id").equals(expected.sort("id"), null_equal=True)
    assert found.schema == expected.schema
    few = pl.col("s") == "a"
    assert frame.filter(few).select("id").collect().height == expected.filter(few).height


@pytest.mark.slow
def test_datafusion_reads_many_files_in_few_parts(tmp_path: Path):
    for number in range(40):
        (tmp_path / "t" / f"n={number}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [number, None]}), tmp_path / "t" / f"n={number}" / "f.parquet")
    frame: Any = pruner.open_table(str(tmp_path / "t")).plan("true").scan_datafusion()
    assert frame.execution_plan().partition_count <= (os.cpu_count() or 1)
    rows = sorted(frame.to_arrow_table().to_pylist(), key=repr)
    assert rows == sorted(({"id": i, "n": n} for n in range(40) for i in (n, None)), key=repr)
    assert frame.filter("n = 3").to_pydict() == {"id": [3, None], "n": [3, 3]}
