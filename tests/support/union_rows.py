"""What the files of a slice hold, read without any code of ours: the base file by pyarrow, each log file by hudi-rs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import hudi
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pruner.tables.snapshot import FileSlice


def union_rows(table: Path, entry: FileSlice) -> list[dict[str, Any]]:
    """Return the rows of the base file and of each log file, not merged with each other.

    hudi-rs merges the blocks of one file; the fixture tables have one data block in each.
    """
    rows = pq.read_table(entry.base_file).to_pylist() if entry.base_file else []
    if entry.log_files:
        reader = hudi.HudiTable(str(table)).create_file_group_reader_with_options()
        for file in entry.log_files:
            relative = str(Path(file).relative_to(table))
            rows += reader.read_file_slice_from_paths("", [relative]).to_pylist()
    return rows
