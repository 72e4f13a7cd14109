"""Whether the metadata table's list of files may be listed by: hudi-rs does, without asking whether it is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.errors import FormatError
from pruner.storage.store import LargerError, NotFoundError
from pruner.tables.hudi_commits import COMMIT_BYTES, UnreadCommitError, read_commit
from pruner.tables.hudi_metadata.listing import FILES, metadata_slices, read_metadata_timeline
from pruner.tables.hudi_metadata.partition import file_groups
from pruner.tables.hudi_timeline import WRITES

if TYPE_CHECKING:
    from pruner.storage.store import Store
    from pruner.tables.hudi_commits import WriteStat
    from pruner.tables.hudi_metadata.listing import MetadataTimeline
    from pruner.tables.hudi_timeline import Finished, Timeline


def lists_all_files(store: Store, table: Timeline) -> bool:
    """Tell whether the metadata table's list of files has those of all writes that have completed.

    It has them where each write has completed in the metadata table, too, which is written first, or had completed when
    the metadata table was made. A copy of a table that was made while it was written may have an older one. And the
    list must be whole: hudi-rs passes over its log files that are damaged or gone.

    Args:
        store: the root of the metadata table.
        table: the timeline of the table that it is about.

    Raises:
        StorageError: the store refuses.
    """
    try:
        timeline = read_metadata_timeline(store, table)
        if not (_in_step(timeline) and _is_complete(store, timeline)):
            return False
        # This refuses files whose blocks do not add up.
        return bool(file_groups(store, timeline, FILES))
    except (FormatError, UnreadCommitError, NotFoundError, LargerError):
        return False


def _in_step(timeline: MetadataTimeline) -> bool:
    made = min((each.completed for each in timeline.own.finished.values()), default="")
    return all(
        timeline.own.committed(each.requested) or each.completed < made
        for each in timeline.table.finished.values()
        if each.action in WRITES
    )


def _is_complete(store: Store, timeline: MetadataTimeline) -> bool:
    """Tell whether the list's files are those that commits of the metadata table name, with their sizes."""
    slices = metadata_slices(store, timeline, FILES)
    if len(slices) != 1:
        return False
    (newest,) = slices
    started = newest.instant if newest.base else ""
    # By completion: what a compaction passed over may have been requested before it.
    written = [
        (commit.requested, stat)
        for commit in timeline.own.finished.values()
        if commit.action in WRITES and commit.completed >= started
        for stat in _written(store, timeline.own, commit)
    ]
    compacted = max((requested for requested, stat in written if not stat.log_files), default="")
    counted = [stat for requested, stat in written if stat.log_files or requested == compacted]
    stored = zip((newest.base, *newest.logs), (newest.base_size, *newest.log_sizes), strict=True)
    named = {(stat.path, stat.file_size_in_bytes) for stat in counted}
    return named == {(f"{FILES}/{name}", size) for name, size in stored if name}


def _written(store: Store, timeline: Timeline, commit: Finished) -> list[WriteStat]:
    """What a commit says that it wrote into the list of files."""
    data = store.get(f"{timeline.properties.timeline_path}/{commit.name}", COMMIT_BYTES)
    return (read_commit(data).partition_to_write_stats or {}).get(FILES, [])
