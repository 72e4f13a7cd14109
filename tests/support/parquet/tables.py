"""Writes small Parquet tables for tests, and tells which value each file has in its path."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

import pruner
from pruner.tables.snapshot import Snapshot


def write_file(path: Path, **columns: Any) -> Path:
    """Write one Parquet file, with its folders, of columns given as arrays or lists (default: `x = [1]`)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns or {"x": [1]}), path)
    return path


def table_of(root: Path, **files: dict[str, Any]) -> pruner.Table:
    """Write a file of columns for each name, below `root`, and open them as a table."""
    for name, columns in files.items():
        write_file(root / f"{name}.parquet", **columns)
    return pruner.open_table(str(root))


def write_tree(root: Path, *paths: str) -> Path:
    """Write a file at each path below `root`, whose column `x` is the number of the file; return `root`."""
    for position, path in enumerate(paths):
        write_file(root / path, x=[position])
    return root


def names(snapshot: Snapshot) -> list[str]:
    """Return the paths of all files relative to the root, in the order of the slices."""
    return [file.removeprefix(snapshot.root + "/") for file in base_files(snapshot)]


def base_files(snapshot: Snapshot) -> list[str]:
    """Return the URIs of all base files, in the order of the slices."""
    return [str(file) for file in snapshot.columns.column("base_file").to_pylist()]


def slice_keys(snapshot: Snapshot) -> list[bytes]:
    """Return the slice keys, in the order of the slices."""
    return cast("list[bytes]", snapshot.keys.to_pylist())


def path_values(snapshot: Snapshot, column: str) -> dict[str, Any]:
    """Return the value that a partition column has for each file, by URI."""
    values = snapshot.partitions.values[(column,)].take(snapshot.columns.column("partition").combine_chunks())
    return dict(zip(base_files(snapshot), values.to_pylist(), strict=True))
