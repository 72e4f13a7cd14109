"""When DuckDB is told which rows to read and not only which files.

It leaves out row groups by `file_row_number`, so a few rows of a big file cost as much as their row groups. With
smaller files, or more rows, the list of files alone is as fast or faster (measured: docs/benchmarks.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pruner import Plan

MOST_FILES = 4
"""Positions are given to all files alike, so each file adds row groups to every other one."""

LEAST_BYTES = 8 * 1024**2
"""Least size of every file: some ten row groups of DuckDB, one of Spark."""

MOST_POSITIONS = 16
"""Each may stand in a row group of its own."""


def positions_to_read(plan: Plan, files: NDArray[np.intp]) -> NDArray[np.uint32] | None:
    """The positions of the rows that are to be read of each of some base files; None where all of them are.

    Args:
        plan: whose rows are asked for.
        files: ascending slices of the plan, of which the base file alone is read.
    """
    if not 0 < len(files) <= MOST_FILES:
        return None
    sizes = plan.snapshot.columns.column("base_size").take(pa.array(files, pa.int64())).to_pylist()
    if any(size is None or size < LEAST_BYTES for size in sizes):
        return None
    rows = plan.rows
    return None if rows is None else rows.few(files, MOST_POSITIONS)
