"""The footers that tests edit by hand are read as intended."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.parquet.column_stats import write_column
from tests.support.parquet.footers import claim, edit_footer, written_by


def test_a_footer_written_back_unchanged_is_the_same(tmp_path: Path) -> None:
    path = write_column(tmp_path / "a.parquet", pa.array(["a", None, "b" * 300]), row_group_size=1)
    before = pq.read_metadata(path).to_dict()
    after = pq.read_metadata(edit_footer(path, lambda footer: None)).to_dict()
    assert {**after, "serialized_size": 0} == {**before, "serialized_size": 0}


def test_claims_are_read_as_written(tmp_path: Path) -> None:
    path = write_column(tmp_path / "a.parquet", pa.array([1, 2, None]))
    claim(
        written_by(path, "nobody version 1.2.3"),
        null_count=-1,
        min_value=struct.pack("<q", 7),
        max_value=None,
    )
    metadata = pq.read_metadata(path)
    assert metadata.created_by == "nobody version 1.2.3"
    statistics = metadata.row_group(0).column(0).statistics
    assert statistics is not None
    assert (statistics.null_count, statistics.has_min_max) == (-1, False)
    assert pq.read_table(path).column("x").to_pylist() == [1, 2, None]
