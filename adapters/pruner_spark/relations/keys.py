"""Slice keys: what tells one slice from every other, written alike here and in java/indexes/SliceKeys.java."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.arrow import compute

if TYPE_CHECKING:
    from pruner.tables.snapshot import Snapshot

_UNSPEAKABLE = r"[\t\n\r]"


def slice_lines(snapshot: Snapshot, *, base_files_only: bool) -> str:
    """Return the key of each slice in a line of its own, in the order of the snapshot.

    A key is the base file's path and size, the names of the log files in order and their size, with tabs
    between. Slices that cannot be told apart in this way have an empty line: they are never dropped.

    Args:
        snapshot: the planner's snapshot.
        base_files_only: leave the logs out, as a read-optimized scan does.
    """
    columns: Any = snapshot.columns
    paths = columns.column("base_file")
    sizes = columns.column("base_size").fill_null(0).cast(pa.string())
    logs = columns.column("log_files")
    log_sizes = columns.column("log_size").fill_null(0).cast(pa.string())
    if base_files_only:
        names = pa.array([""] * len(snapshot), pa.string())
        log_sizes = pa.array(["0"] * len(snapshot), pa.string())
    else:
        names = _log_names(snapshot, logs)
    keys = compute.binary_join_element_wise(compute.fill_null(paths, ""), sizes, names, log_sizes, "\t")
    readable = ~compute.match_substring_regex(compute.fill_null(paths, ""), _UNSPEAKABLE).to_numpy(
        zero_copy_only=False
    )
    if base_files_only:
        readable &= paths.is_valid().to_numpy(zero_copy_only=False)
    return "\n".join(compute.if_else(pa.array(readable), keys, "").to_pylist())


def _log_names(snapshot: Snapshot, logs: Any) -> pa.Array[Any]:
    """The names of each slice's logs, in order, with slashes between."""
    names = np.full(len(snapshot), "", dtype=object)
    for ordinal in np.flatnonzero(snapshot.has_logs):
        uris: list[str] = logs[int(ordinal)].as_py()
        names[ordinal] = "/".join(sorted(uri.rsplit("/", 1)[-1] for uri in uris))
    return pa.array(names, pa.string())
