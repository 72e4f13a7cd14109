"""Tables of any number of files for measuring: a tree of hard links to one Parquet file.

Listing and freshness checks see real files. Their records are made up, so that each file has its own bounds, but they
are written through the metadata table's own interface and read back like any others.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.progress import track

from benchmarks.lakes.records import CARRIERS, ROWS_PER_FILE, integer_records, string_records
from pruner.metadata.segments import batch_table
from pruner.metadata.state import FILES
from pruner.metadata.table import MetadataTable
from pruner.planning.pinned import PinnedSnapshot
from pruner.storage.opening import open_store
from pruner.table import Table

INDEX = "statistics"
FILES_PER_FOLDER = 1000
LINKS_PER_FILE = 60_000
"""ext4 gives one file 65,000 names at most."""


@dataclass(frozen=True)
class Bounds:
    """Minimum and maximum of each file: `event` ascends with the files, `carrier` is random."""

    event_min: NDArray[np.int64]
    event_max: NDArray[np.int64]
    carrier_min: NDArray[np.str_]
    carrier_max: NDArray[np.str_]


def made_up_bounds(count: int) -> Bounds:
    """Make bounds of `count` files."""
    rng = np.random.default_rng(11)
    starts = np.arange(count, dtype=np.int64) * ROWS_PER_FILE
    first = rng.integers(0, len(CARRIERS) - 4, count)
    last = first + rng.integers(0, 4, count)
    return Bounds(starts, starts + ROWS_PER_FILE - 1, CARRIERS[first], CARRIERS[last])


def link_tree(root: Path, count: int) -> None:
    """Make a table of `count` files; some of them are one file under many names."""
    root.mkdir(parents=True)
    content = pa.table({"event": pa.array([1, 2, 3], pa.int64()), "carrier": pa.array(["AA", "BB", "CC"])})
    source = ""
    for number in track(range(count), f"linking {count:,} files", transient=True):
        folder = f"{root}/batch={number // FILES_PER_FOLDER:05}"
        path = f"{folder}/part-{number:07}.parquet"
        if number % FILES_PER_FOLDER == 0:
            os.mkdir(folder)  # noqa: PTH102 - a Path for each of a million files takes longer than the files do
        if number % LINKS_PER_FILE == 0:
            source = path
            pq.write_table(content, source)
        else:
            os.link(source, path)


def index_with(table: Table, bounds: Bounds) -> PinnedSnapshot:
    """Register an index over both columns, commit records with `bounds`, and return the snapshot."""
    table.create_index(INDEX, on=["event", "carrier"], build=False)
    snapshot = table.snapshot()
    metadata = MetadataTable(open_store(table.index_uri))
    definition = metadata.state().definition(INDEX)
    assert definition is not None
    ordinals = np.arange(len(snapshot.data), dtype=np.intp)
    batch = metadata.write_segment(FILES, batch_table(snapshot.data, ordinals))
    entries = [batch]
    for name, records in (
        ("event", integer_records(bounds.event_min, bounds.event_max)),
        ("carrier", string_records(bounds.carrier_min, bounds.carrier_max)),
    ):
        entries.append(
            metadata.write_segment("column_stats", records, definition=definition, field=(name,), batch=batch)
        )
    metadata.commit(lambda newest: newest.with_segments(entries))
    return table.snapshot()
