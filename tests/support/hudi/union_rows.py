"""What the files of a slice hold, read without any code of ours: the base file by pyarrow, each log file by hudi-rs."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import lru_cache
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
    place = _without_merger(table)
    rows = pq.read_table(entry.base_file).to_pylist() if entry.base_file else []
    if entry.log_files:
        reader = hudi.HudiTable(str(place)).create_file_group_reader_with_options()
        for file in entry.log_files:
            relative = str(Path(file).relative_to(table))
            rows += reader.read_file_slice_from_paths("", [relative]).to_pylist()
    return rows


@lru_cache(maxsize=16)
def _without_merger(table: Path) -> Path:
    """The table, or a copy without its merger where hudi-rs has no such one: one file by itself needs none."""
    properties = Path(".hoodie") / "hoodie.properties"
    text = (table / properties).read_text()
    if "merge.mode=CUSTOM" not in text:
        return table
    copy = Path(tempfile.mkdtemp()) / table.name
    atexit.register(shutil.rmtree, copy.parent, ignore_errors=True)
    shutil.copytree(table, copy)
    kept = [line for line in text.splitlines() if "record.merge." not in line and "payload.class" not in line]
    (copy / properties).write_text("\n".join([*kept, "hoodie.record.merge.mode=COMMIT_TIME_ORDERING"]))
    return copy
