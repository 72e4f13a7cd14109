"""Why slices are not covered by an index: what is known of the files that they consist of."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.metadata.segments import batch_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from pruner.metadata.segment_cache import SegmentCache
    from pruner.metadata.state import SegmentEntry, State
    from pruner.tables.snapshot import Snapshot

NEW = "new"
REWRITTEN = "rewritten"
TOUCHED = "touched"
LOGS = "logs"
REFUSED = "refused"
FAILED = "failed"

REASONS = {
    NEW: "not indexed yet",
    REWRITTEN: "rewritten since",
    TOUCHED: "touched since, and not known again",
    LOGS: "with other log files since",
    REFUSED: "refused by the index",
    FAILED: "that failed",
}
"""Each reason, and what it says of slices."""


def why_uncovered(
    lacking: NDArray[np.bool_],
    refused: NDArray[np.bool_],
    entries: tuple[SegmentEntry, ...],
    state: State,
    snapshot: Snapshot,
    segments: SegmentCache,
) -> dict[str, int]:
    """Count slices that an index does not cover by the reason, one of `REASONS`.

    Args:
        lacking: these slices.
        refused: those of which a record says that they could not be indexed.
        entries: the segments of the index.
        state: the state that they are of.
        snapshot: the table.
        segments: reads the slice batches.

    Raises:
        FormatError, StorageError: a batch cannot be read.
    """
    batches = [segments.entry(state, each) for each in dict.fromkeys(entry.batch or "" for entry in entries)]
    tried = np.zeros(len(snapshot), np.bool_)
    for batch in batches:
        located = segments.located_in(batch, snapshot)
        tried[located[located >= 0]] = True
    counts: Counter[str] = Counter()
    counts[REFUSED] = int(np.count_nonzero(lacking & refused))
    counts[FAILED] = int(np.count_nonzero(lacking & ~refused & tried))
    others = batch_table(snapshot, np.flatnonzero(lacking & ~refused & ~tried))
    counts.update(_by_file(others, map(segments.read, batches)))
    return {reason: counts[reason] for reason in REASONS if counts[reason]}


def _by_file(slices: pa.Table, batches: Iterable[pa.Table]) -> list[str]:
    """The reason of each slice, of which no state was recorded that it has now."""
    if not slices.num_rows:
        return []
    versions: dict[str, tuple[int, str]] = {}
    groups: set[tuple[str, str]] = set()
    for batch in batches:
        for row in batch.to_pylist():
            groups.add((row["partition_path"], row["file_id"]))
            versions[row["base_file"]] = (row["base_size"], row["base_version"])
    return [_reason(row, versions.get(row["base_file"]), groups) for row in slices.to_pylist()]


def _reason(row: dict[str, Any], recorded: tuple[int, str] | None, groups: set[tuple[str, str]]) -> str:
    known_group = row["base_instant"] is not None and (row["partition_path"], row["file_id"]) in groups
    if recorded is None or row["base_file"] is None:
        return REWRITTEN if known_group and row["base_file"] is not None else LOGS if known_group else NEW
    now = (row["base_size"], row["base_version"])
    if row["base_instant"] is not None:
        # Hudi never writes under a file name twice, so the log files are what is new.
        return LOGS if now == recorded else REWRITTEN
    return TOUCHED if _but_for_change_time(now) == _but_for_change_time(recorded) else REWRITTEN


def _but_for_change_time(version: tuple[int, str]) -> tuple[object, ...]:
    """Size, modification time and inode of a local file; all that is known of an object."""
    size, text = version
    times = text.split("-")
    return (size, times[0], times[2]) if len(times) == 3 else version
