"""Whether a partition of the metadata table is complete, by what the metadata table's commits say they wrote.

hudi-rs lists by the partition `files`, the list of files, without checking that. In the record index, a log file may
say that one key was added and another removed, so without it the number of keys still equals that of the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.errors import FormatError
from pruner.storage.store import LargerError, NotFoundError
from pruner.tables.hudi.listing import instant_of
from pruner.tables.hudi.metadata import payloads
from pruner.tables.hudi.metadata.listing import FILES, metadata_slices, read_metadata_timeline
from pruner.tables.hudi.metadata.partition import file_groups
from pruner.tables.hudi.metadata.payloads import body
from pruner.tables.hudi.timeline import COMMIT_BYTES, WRITES, UnreadCommitError, read_commit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pruner.storage.store import Store
    from pruner.tables.hudi.listing import Folders, Found, HudiSlice
    from pruner.tables.hudi.metadata.listing import MetadataTimeline
    from pruner.tables.hudi.metadata.partition import FileGroup
    from pruner.tables.hudi.metadata.payloads import Record
    from pruner.tables.hudi.timeline import Finished, Timeline, WriteStat

_ALL_PARTITIONS = b"__all_partitions__"
"""The key of the record that lists the partitions."""

_NO_PARTITION = "."
"""The key of the table's root (Hudi's `NON_PARTITIONED_NAME`)."""


def list_of_files(store: Store, table: Timeline) -> list[FileGroup] | None:
    """The metadata table's list of files, if it covers all completed writes and is complete; else None.

    It covers them if each write has also completed in the metadata table, which is written first, or had completed when
    the metadata table was created. A copy of a table that was made during writes may have an older one. And the
    list must be complete: hudi-rs skips its log files that are damaged or gone.

    Args:
        store: the root of the metadata table.
        table: the timeline of the table that it describes.

    Raises:
        StorageError: the store refuses.
    """
    try:
        timeline = read_metadata_timeline(store, table)
        if not (_in_step(timeline) and _is_complete(store, timeline)):
            return None
        # This refuses files whose blocks are inconsistent.
        return file_groups(store, timeline, FILES) or None
    except (FormatError, UnreadCommitError, NotFoundError, LargerError):
        return None


def listed_files(groups: Sequence[FileGroup], partitions: Sequence[str] | None = None) -> Folders:
    """Yield the files of each partition, or of some partitions, by the list of files.

    Raises:
        FormatError: the list is damaged.
        StorageError: it cannot be read.
    """
    keys = None if partitions is None else [(path or _NO_PARTITION).encode() for path in partitions]
    for group in groups:
        for key, record in group.records_in_order() if keys is None else group.look_up(keys):
            files = body(record, payloads.FILES)
            if key != _ALL_PARTITIONS and files:
                yield _partition(key), _present(files)


def list_bytes(groups: Sequence[FileGroup]) -> int:
    """How many bytes the stored list of files has."""
    layers = (hfile for group in groups for hfile, _ in group.layers())
    return sum(hfile.size for hfile in layers if hfile is not None)


def partition_bytes(groups: Sequence[FileGroup]) -> dict[str, int]:
    """How many bytes the list of files has about each partition: roughly proportional to its number of files. A
    partition may no longer have any.

    Raises:
        FormatError: the list is damaged.
        StorageError: it cannot be read.
    """
    counts: dict[str, int] = {}
    for group in groups:
        for hfile, _ in group.layers():
            for key, value in () if hfile is None else hfile.scan(b""):
                if key != _ALL_PARTITIONS:
                    path = _partition(key)
                    counts[path] = counts.get(path, 0) + len(value)
    return counts


def _partition(key: bytes) -> str:
    try:
        partition = key.decode()
    except UnicodeDecodeError:
        raise FormatError(f"the list of files names a partition {key!r}, which is not UTF-8") from None
    return "" if partition == _NO_PARTITION else partition


def _present(files: dict[str, Record]) -> Iterator[Found]:
    return ((name, info["size"]) for name, info in files.items() if not info["isDeleted"])


def _in_step(timeline: MetadataTimeline) -> bool:
    made = min((finished.completed for finished in timeline.own.finished.values()), default="")
    return all(
        timeline.own.committed(finished.requested) or finished.completed < made
        for finished in timeline.table.finished.values()
        if finished.action in WRITES
    )


def _is_complete(store: Store, timeline: MetadataTimeline) -> bool:
    """Tell whether the list's files are those that the metadata table's commits name, with their sizes."""
    slices = metadata_slices(store, timeline, FILES)
    # Hudi begins the list with a base file: where none counts, its commit is gone.
    if len(slices) != 1 or not slices[0].base:
        return False
    (newest,) = slices
    # By completion: what a compaction left out may have been requested before it.
    written = [
        (commit.requested, stat)
        for commit in timeline.own.finished.values()
        if commit.action in WRITES and commit.completed >= newest.instant
        for stat in _written(store, timeline.own, commit, FILES)
    ]
    compacted = max((requested for requested, stat in written if not stat.log_files), default="")
    counted = [stat for requested, stat in written if stat.log_files or requested == compacted]
    named = {(stat.path, stat.file_size_in_bytes) for stat in counted}
    # An empty log file of the base file's own instant is a placeholder, which no commit names.
    logs = [
        (name, size)
        for name, size in zip(newest.logs, newest.log_sizes, strict=True)
        if instant_of(name) != newest.instant
    ]
    return named == {(f"{FILES}/{name}", size) for name, size in ((newest.base, newest.base_size), *logs)}


def refuse_lost_logs(store: Store, timeline: MetadataTimeline, partition: str) -> None:
    """Refuse a partition of the metadata table whose newest slices lack log files that commits name.

    Raises:
        FormatError: they do, or a commit cannot be read.
        StorageError: the store refuses.
    """
    newest = {entry.file_id: entry for entry in metadata_slices(store, timeline, partition)}
    oldest = min((entry.instant if entry.base else "" for entry in newest.values()), default="")
    for commit in timeline.own.finished.values():
        if commit.action not in WRITES or (commit.completed or commit.requested) < oldest:
            continue
        try:
            written = _written(store, timeline.own, commit, partition)
        except UnreadCommitError as error:
            raise FormatError(f"the commit {commit.name} of {store.uri} {error}") from None
        for stat in written:
            lost = _logs_of_newest(stat, commit, newest) - _logs_in(newest, stat)
            if lost:
                raise FormatError(f"{store.uri}/{partition} has lost the log file {min(lost)}")


def _logs_of_newest(stat: WriteStat, commit: Finished, newest: Mapping[str, HudiSlice]) -> set[str]:
    """The log files that a commit lists for its slice, if that slice is the newest one."""
    named = {name.rpartition("/")[2] for name in stat.log_files or ()}
    entry = newest.get(stat.file_id or "")
    if entry is None:
        return named
    if commit.completed:
        return named if not entry.base or commit.completed >= entry.instant else set()
    # Up to version 6 the name of a log file has the instant of its slice.
    return {name for name in named if instant_of(name) == entry.instant}


def _logs_in(newest: Mapping[str, HudiSlice], stat: WriteStat) -> set[str]:
    entry = newest.get(stat.file_id or "")
    return set(entry.logs) if entry is not None else set()


def _written(store: Store, timeline: Timeline, commit: Finished, partition: str) -> list[WriteStat]:
    """What a commit says it wrote into one partition."""
    data = store.get(f"{timeline.properties.timeline_path}/{commit.name}", COMMIT_BYTES)
    return (read_commit(data).partition_to_write_stats or {}).get(partition, [])
