"""Follows a Hudi table from one moment to the next by what its commits say, so that nothing is listed again.

The result is what a listing would yield, or nothing: any history that is not known to yield the same
raises `NotFollowedError` with the reason, and the table is listed. Followed are inserts, upserts, deletes, bulk
inserts, overwrites, clustering, compaction, log compaction and cleans that ran one after another, with nothing
pending before or after. Each file must be there with the size that its commit says, and each update must name the
slice that it found.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from pruner.tables.hudi.listing import HudiSlice, LogName, group_of, instant_of, log_name, mark_unsettled
from pruner.tables.hudi.timeline import (
    COMMIT_BYTES,
    COMPLETION_TIMES,
    UnreadCommitError,
    read_clean,
    read_commit,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pruner.storage.store import Store
    from pruner.tables.hudi.slice_columns import Changes, Group
    from pruner.tables.hudi.timeline import Commit, Finished, Timeline, WriteStat

MOST_INSTANTS = 64
"""Completed instants that are followed at once: beyond, a listing costs no more than reading that many commits."""

_WRITES = frozenset({"commit", "deltacommit", "replacecommit"})
_OPERATIONS = frozenset(
    {
        *("INSERT", "INSERT_PREPPED", "UPSERT", "UPSERT_PREPPED", "BULK_INSERT", "BULK_INSERT_PREPPED"),
        *("DELETE", "DELETE_PREPPED", "DELETE_PARTITION", "INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE"),
        *("CLUSTER", "COMPACT", "LOG_COMPACT", "UNKNOWN"),
    }
)
"""Operations whose commits report all they did; in version 6 a compaction is UNKNOWN."""

_NO_COMMIT = "null"
_SIZED_AT_ONCE = 32


class NotFollowedError(Exception):
    """The change is not known to match what a listing would show; the text is a clause that says why."""


class KnownSlices(Protocol):
    """The newest slices of a table at some moment."""

    def expect(self, groups: Sequence[Group]) -> None:
        """Prepare for lookups of some file groups."""
        ...

    def slice_of(self, group: Group) -> HudiSlice | None:
        """Return the newest slice of a group by the names of its files; None when there is no such group.

        Raises:
            FormatError, StorageError: it cannot be read.
        """
        ...


@dataclass
class _State:
    """The newest slices while commits are applied: what changed over what was there."""

    known: KnownSlices
    changes: Changes

    def slice_of(self, group: Group) -> HudiSlice | None:
        return self.changes[group] if group in self.changes else self.known.slice_of(group)


def follow(store: Store, before: Timeline, now: Timeline, known: KnownSlices) -> Changes:
    """Return the newest slice of each file group that changed between two reads of a table's timeline.

    Args:
        store: the table's root, to read commits and the sizes of new files.
        before: the timeline then.
        now: the timeline now.
        known: the newest slices then.

    Raises:
        NotFollowedError: only a listing of the table can tell.
        StorageError: the store refuses.
    """
    state = _State(known, {})
    for instant in _one_after_the_other(before, now):
        data = _bytes(store, f"{now.properties.timeline_path}/{instant.name}")
        try:
            if instant.action == "clean":
                _clean(data, state)
            else:
                _apply(read_commit(data), instant, now, state)
        except UnreadCommitError as error:
            raise NotFollowedError(f"{instant.name} {error}") from None
    _check_sizes(store, state.changes)
    marked = mark_unsettled([entry for entry in state.changes.values() if entry is not None], now)
    settled = {(entry.partition, entry.file_id): entry for entry in marked}
    return {group: settled.get(group) for group in state.changes}


def _one_after_the_other(before: Timeline, now: Timeline) -> Iterator[Finished]:
    """Yield the instants that completed since, after checking that nothing else happened."""
    if (before.properties.raw, before.history) != (now.properties.raw, now.history):
        raise NotFollowedError("the table's properties changed, or instants were archived")
    if before.schemas != now.schemas:
        raise NotFollowedError("the schema was changed")
    if before.pending or now.pending:
        raise NotFollowedError("a write or service is pending")
    if not set(before.names) <= set(now.names):
        raise NotFollowedError("instants are gone from the timeline")
    if not before.finished:
        raise NotFollowedError("nothing was committed before")
    new = [finished for instant, finished in now.finished.items() if instant not in before.finished]
    if len(new) > MOST_INSTANTS:
        raise NotFollowedError(f"{len(new)} instants completed since")
    has_times = now.properties.version >= COMPLETION_TIMES
    newest = max(max(finished.requested, finished.completed) for finished in before.finished.values())
    for instant in new:
        if instant.action != "clean" and instant.action not in _WRITES:
            raise NotFollowedError(f"a {instant.action} completed")
        if instant.requested <= newest:
            raise NotFollowedError("instants overlapped")
        newest = instant.completed if has_times else instant.requested
        yield instant


def _bytes(store: Store, path: str) -> bytes:
    # Checked first, so that a file that is too large is a reason to list and not a failure.
    info = store.info(path)
    if info is None or info.size > COMMIT_BYTES:
        raise NotFollowedError(f"{path} is {'gone' if info is None else 'too large to be worth reading'}")
    return store.get(path, COMMIT_BYTES)


def _apply(commit: Commit, instant: Finished, now: Timeline, state: _State) -> None:
    if commit.operation_type not in _OPERATIONS:
        raise NotFollowedError(f"{instant.name} did {commit.operation_type}, which is not known")
    replaced = commit.partition_to_replace_file_ids or {}
    if replaced and instant.action != "replacecommit":
        raise NotFollowedError(f"{instant.name} replaces file groups without being a replace commit")
    written = (commit.partition_to_write_stats or {}).items()
    groups = [(partition, stat.file_id or "") for partition, stats in written for stat in stats]
    state.known.expect([*groups, *((partition, gone) for partition, of in replaced.items() for gone in of)])
    # In the order of the slices: where these are read in blocks, neighbors are in the same one.
    for partition, stats in sorted(written):
        for stat in sorted(stats, key=lambda stat: stat.file_id or ""):
            _written(partition, stat, instant, now, state)
    for partition, file_ids in sorted(replaced.items()):
        for file_id in sorted(file_ids):
            entry = state.slice_of((partition, file_id))
            if entry is not None and entry.instant == instant.requested:
                raise NotFollowedError(f"{instant.name} replaces a file group that it wrote")
            state.changes[partition, file_id] = None


def _written(partition: str, stat: WriteStat, instant: Finished, now: Timeline, state: _State) -> None:
    """Process one file that a commit wrote."""
    if stat.file_id is None or stat.path is None or not stat.file_size_in_bytes or stat.cdc_stats is not None:
        raise NotFollowedError(f"{instant.name} wrote something that is neither a base file nor a log file")
    folder, _, name = stat.path.rpartition("/")
    if folder != partition or group_of(name) != stat.file_id:
        raise NotFollowedError(
            f"{instant.name} wrote {stat.path}, which is of another file group than it says"
        )
    entry = state.slice_of((partition, stat.file_id))
    log = log_name(name)
    if log is None:
        made = _new_base(partition, stat, name, instant, entry)
    elif entry is None:
        raise NotFollowedError(f"{instant.name} wrote a log file without a base file")
    else:
        made = _more_logs(entry, stat, log, instant, now)
    state.changes[partition, stat.file_id] = made


def _new_base(
    partition: str, stat: WriteStat, name: str, instant: Finished, entry: HudiSlice | None
) -> HudiSlice:
    before = None if stat.prev_commit in (None, "", _NO_COMMIT) else stat.prev_commit
    if (
        instant_of(name) != instant.requested
        or before != (entry.instant if entry else None)
        or not name.endswith(".parquet")
    ):
        raise NotFollowedError(f"{instant.name} wrote {name} on top of another file slice than the newest")
    return HudiSlice(
        partition=partition,
        file_id=stat.file_id or "",
        instant=instant.requested,
        base=name,
        base_size=stat.file_size_in_bytes or 0,
        logs=(),
        log_sizes=(),
    )


def _more_logs(
    entry: HudiSlice, stat: WriteStat, log: LogName, instant: Finished, now: Timeline
) -> HudiSlice:
    """The slice with one more log file, or a log file that grew (version 6)."""
    has_times = now.properties.version >= COMPLETION_TIMES
    if log.instant != (instant.requested if has_times else entry.instant):
        raise NotFollowedError(f"{instant.name} wrote a log file of another file slice than the newest")
    logs = dict(zip(entry.logs, entry.log_sizes, strict=True))
    logs[log.name] = stat.file_size_in_bytes or 0
    if not set(stat.log_files or [log.name]) <= set(logs):
        raise NotFollowedError(f"{instant.name} knows log files that were not there")
    names = sorted(logs, key=_by_number)
    if names != sorted(logs, key=_by_text):
        raise NotFollowedError("the order of log files is not clear")
    return replace(entry, logs=tuple(names), log_sizes=tuple(logs[name] for name in names))


def _by_number(name: str) -> tuple[str, int, str]:
    log = log_name(name)
    return (log.instant, log.version, log.token) if log else ("", 0, name)


def _by_text(name: str) -> tuple[str, str, str]:
    instant, version, token = _by_number(name)
    return instant, str(version), token


def _clean(data: bytes, state: _State) -> None:
    clean = read_clean(data)
    if clean.bootstrap_partition_metadata:
        raise NotFollowedError("a cleaner deleted files of a bootstrap")
    deleted = sorted(set(clean.deleted()))
    of_groups = [(partition, group_of(name)) for partition, name in deleted]
    state.known.expect([(partition, group) for partition, group in of_groups if group is not None])
    for (partition, name), (_, group) in zip(deleted, of_groups, strict=True):
        entry = None if group is None else state.slice_of((partition, group))
        if group is None or (entry is not None and name in (entry.base, *entry.logs)):
            raise NotFollowedError(
                f"a cleaner deleted {name}, which is of the newest file slice or is not known"
            )


def _check_sizes(store: Store, changes: Changes) -> None:
    """Check that each file that changed is there with the size that its commit says."""
    wanted = [
        (f"{entry.partition}/{name}" if entry.partition else name, size)
        for entry in changes.values()
        if entry is not None
        for name, size in zip((entry.base, *entry.logs), (entry.base_size, *entry.log_sizes), strict=True)
        if name
    ]

    def fits(file: tuple[str, int]) -> bool:
        info = store.info(file[0])
        return info is not None and info.size == file[1]

    if store.uri.startswith("/"):
        fine = all(map(fits, wanted))
    else:
        with ThreadPoolExecutor(_SIZED_AT_ONCE) as threads:
            fine = all(threads.map(fits, wanted))
    if not fine:
        raise NotFollowedError("a file is not there, or not of the size that its commit says")
