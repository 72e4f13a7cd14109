"""The slices of a Hudi table by the names of its files and its timeline.

The rules are those of Hudi's own file system view (`AbstractTableFileSystemView` and `HoodieFileGroup` of 1.2). A
slice begins with the base file of a completed instant, or with log files alone. Up to table version 6 a log file's
name gives the slice that it belongs to. From version 8 on it belongs to the newest slice that had begun when it was
completed; the same holds in a table that was downgraded to version 6, which keeps its earlier log files. File groups
that a completed instant replaced are gone. Any inconsistency is an error, never a shorter listing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pruner.errors import TableError
from pruner.tables.hudi.archived import ArchivedTimeline, Cleaned
from pruner.tables.hudi.listing import (
    HudiSlice,
    Listing,
    LogName,
    by_writing,
    folders_of,
    misread_by_hudi_rs,
    with_shared_logs,
)
from pruner.tables.hudi.timeline import (
    COMPLETION_TIMES,
    REPLACING,
    incomplete,
    read_commit,
    read_compaction_plan,
    read_instant,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from pruner.storage.store import Store
    from pruner.tables.hudi.listing import Folders, Found, Group, GroupFiles
    from pruner.tables.hudi.timeline import Commit, Finished, Timeline

    Log = tuple[LogName, int]


# Log files in tables that were downgraded to version 6 (trap T19).
#
# In version 6 a log file is named by the instant of its slice, from version 8 on by that of its own write. Hudi's
# downgrade compacts the table and leaves the old log files unchanged. So a read as of an instant before it finds log
# files that are named by the instant of no slice. Hudi 1.2 checks when their writes completed, which in version 6
# only the modification time of a timeline file says, and a copy loses that. What a compaction included is in its
# plan.


class Compactions:
    """What the compactions of a table included, by their plans; each plan is read once, and only if needed."""

    def __init__(self, store: Store, timeline: Timeline) -> None:
        self._store = store
        self._timeline = timeline
        self._plans: dict[str, dict[Group, frozenset[str]]] = {}

    def took_up(self, instant: str, group: Group, log: str) -> bool:
        """Tell whether the base file of an instant holds the rows of an older log file.

        It does unless a plan says otherwise: the writes before it were archived, or nothing ran beside it.

        Raises:
            TableError: the plan cannot be understood.
            StorageError: the store refuses.
        """
        if f"{instant}.compaction.requested" not in self._timeline.names:
            return True
        plan = self._plans.get(instant)
        if plan is None:
            plan = self._plans[instant] = self._plan(f"{instant}.compaction.requested")
        return group not in plan or log in plan[group]

    def _plan(self, name: str) -> dict[Group, frozenset[str]]:
        plan = read_instant(self._store, self._timeline, name, read_compaction_plan)
        return {
            (operation.partition_path or "", operation.file_id or ""): frozenset(
                path.rpartition("/")[2] for path in operation.delta_file_paths or ()
            )
            for operation in plan.operations or ()
        }


def logs_by_slice(
    group: Group, bases: Collection[str], logs: Iterable[Log], compactions: Compactions
) -> dict[str, list[Log]]:
    """Return the log files of each slice of a file group of version 6, by the instant at which it began.

    Args:
        group: the file group.
        bases: the instants of its base files.
        logs: its log files. Both are of completed instants.
        compactions: those of the table.

    Raises:
        TableError: a compaction plan cannot be understood.
        StorageError: the store refuses.
    """
    slices: dict[str, list[Log]] = {instant: [] for instant in bases}
    for entry in sorted(logs, key=by_writing):
        name, written = entry[0].name, entry[0].instant
        start = written
        if start not in slices:
            start = max((instant for instant in slices if instant < written), default=written)
            # A write that was requested before a compaction and completed after it was planned belongs after it.
            for later in sorted(instant for instant in bases if instant > written):
                if compactions.took_up(later, group, name):
                    break
                start = later
        slices.setdefault(start, []).append(entry)
    return slices


def any_named_by_write(files: GroupFiles, timeline: Timeline) -> bool:
    """Tell whether a file group has a log file that belongs to an older slice than its name says."""
    oldest = min(filter(timeline.committed, files.bases), default=None)
    return oldest is not None and any(
        log.instant > oldest and log.instant not in files.bases and timeline.committed(log.instant)
        for log, _ in files.logs
    )


_MAX_COMMIT_BYTES = 1 << 30


def list_slices(store: Store, timeline: Timeline, as_of: str | None, *, under: str = "") -> list[HudiSlice]:
    """Return the newest slice of each file group by the names of its files, sorted by partition path and file id.

    Args:
        store: the table's root.
        timeline: which instants have completed.
        as_of: leaves out slices that began later, and what later instants replaced; None for the newest.
        under: only those in this folder and below it.

    Raises:
        TableError: the slices cannot be determined reliably.
        StorageError: the store refuses.
    """
    return list(slices_among(store, timeline, as_of, listing_of(store, folders_of(store, under))))


def listing_of(
    store: Store, folders: Folders, *, marked: bool = True, refuse_strange: bool = False
) -> Listing:
    """The files of a table: see `Listing`.

    Raises:
        TableError: as `Listing` does.
        StorageError: the store refuses.
    """
    try:
        return Listing(folders, marked=marked, refuse_strange=refuse_strange)
    except TableError as error:
        raise incomplete(store, str(error)) from None


def slices_among(
    store: Store,
    timeline: Timeline,
    as_of: str | None,
    listing: Listing,
    *,
    shared: bool = False,
    certain: bool = False,
) -> Iterator[HudiSlice]:
    """Yield the newest slice of each file group: see `list_slices`.

    Args:
        store: the table's root.
        timeline: which instants have completed.
        as_of: see `list_slices`.
        listing: the files.
        shared: also give slices the log files that running writes of version 6 append to (`with_shared_logs`).
        certain: refuse a slice of a write that may have failed.

    Raises:
        TableError: the slices cannot be determined reliably.
        StorageError: the store refuses.
    """
    replaced = set(_replaced(store, timeline, as_of))
    archived = ArchivedTimeline(store, timeline)
    completed_at = _Completions(store, timeline, archived)
    compactions = Compactions(store, timeline)
    cleaned = Cleaned(store, timeline, archived, as_of)
    shared = shared and misread_by_hudi_rs(timeline)
    certain = certain and bool(timeline.running_since)
    for group, files in listing.groups():
        if group in replaced:
            continue
        if timeline.properties.version < COMPLETION_TIMES:
            start, logs = _newest_by_names(group, files, timeline, as_of, compactions)
        else:
            start, logs = _newest(files, timeline, as_of, completed_at)
        cleaned.seen(group, start)
        if start is not None:
            if certain and any(map(timeline.may_have_failed, (start, *(log.instant for log, _ in logs)))):
                raise incomplete(
                    store, f"files of {start} or later in {group[1]} may be of a write that failed"
                )
            base = _committed(store, timeline, group, start, files.bases.get(start, ()))
            entry = _slice(group, start, base, logs)
            yield with_shared_logs(entry, files.logs) if shared else entry
    cleaned.require_all_seen(replaced)


def _committed(
    store: Store, timeline: Timeline, group: Group, instant: str, bases: Sequence[Found]
) -> Found | None:
    """The base file of a slice, None without one: of several, the one that the commit names.

    Spark shows the last one of its listing, in whatever order the store lists.

    Raises:
        TableError: no commit names exactly one of several.
        StorageError: the store refuses.
    """
    if len(bases) < 2:
        return bases[0] if bases else None
    finished = timeline.finished.get(instant)
    if finished is not None:
        stats = _commit(store, timeline, finished).partition_to_write_stats or {}
        named = {stat.path for stat in stats.get(group[0], ()) if stat.file_id == group[1]}
        bases = [base for base in bases if (f"{group[0]}/{base[0]}" if group[0] else base[0]) in named]
    if finished is None or len(bases) != 1:
        raise incomplete(
            store,
            f"file group {group[1]} has several base files of {instant}, and no commit tells which counts",
        )
    return bases[0]


def _replaced(store: Store, timeline: Timeline, as_of: str | None) -> Iterable[Group]:
    """Yield the file groups that completed instants replaced; what older instants replaced was deleted with them."""
    for instant in timeline.finished.values():
        if instant.action not in REPLACING or (as_of is not None and instant.requested > as_of):
            continue
        yield from _commit(store, timeline, instant).replaced()


def _commit(store: Store, timeline: Timeline, instant: Finished) -> Commit:
    return read_instant(store, timeline, instant.name, read_commit, _MAX_COMMIT_BYTES)


def _newest_by_names(
    group: Group, files: GroupFiles, timeline: Timeline, as_of: str | None, compactions: Compactions
) -> tuple[str | None, list[tuple[LogName, int]]]:
    """The newest slice of a group up to table version 6: see `_newest`."""
    bases = {instant for instant in files.bases if timeline.committed(instant)}
    logs = [entry for entry in files.logs if timeline.committed(entry[0].instant)]
    slices = logs_by_slice(group, bases, logs, compactions)
    start = _last(slices, as_of)
    return start, [] if start is None else slices[start]


def _newest(
    files: GroupFiles, timeline: Timeline, as_of: str | None, completed_at: _Completions
) -> tuple[str | None, list[tuple[LogName, int]]]:
    """The newest slice of a group that began in a completed write, up to `as_of`: its instant and its log files.

    The instant is None if there is no such slice.
    """
    bases = {instant for instant in files.bases if timeline.committed(instant)}
    logs = [entry for entry in files.logs if timeline.committed(entry[0].instant)]
    start = _last(bases, as_of)
    later = min((instant for instant in bases if start is None or instant > start), default=None)
    logs = [entry for entry in logs if completed_at.within(entry[0].instant, start, later)]
    if start is None:  # log files alone, up to the first base file
        start = _last([log.instant for log, _ in logs], as_of, first=True)
    return start, logs


def _last(instants: Iterable[str], as_of: str | None, *, first: bool = False) -> str | None:
    """The last (or first) of some instants up to `as_of`; None if there is none."""
    until = [instant for instant in instants if as_of is None or instant <= as_of]
    return (min if first else max)(until, default=None)


def _slice(group: Group, instant: str, base: Found | None, logs: list[tuple[LogName, int]]) -> HudiSlice:
    ordered = sorted(logs, key=by_writing)
    return HudiSlice(
        partition=group[0],
        file_id=group[1],
        instant=instant,
        base="" if base is None else base[0],
        base_size=0 if base is None else base[1],
        logs=tuple(log.name for log, _ in ordered),
        log_sizes=tuple(size for _, size in ordered),
    )


class _Completions:
    """When instants completed; the archived timeline is read where the active one does not tell."""

    def __init__(self, store: Store, timeline: Timeline, archived: ArchivedTimeline) -> None:
        self._store = store
        self._timeline = timeline
        self._archived = archived

    def within(self, instant: str, start: str | None, end: str | None) -> bool:
        """Tell whether a completed instant completed at or after `start` and before `end`; None is no bound."""
        return (start is None or self._not_before(instant, start)) and (
            end is None or not self._not_before(instant, end)
        )

    def _not_before(self, instant: str, moment: str) -> bool:
        # What was requested later than that completed even later.
        return instant >= moment or self._completed(instant) >= moment

    def _completed(self, instant: str) -> str:
        known = self._timeline.finished.get(instant)
        if known is not None:
            return known.completed
        archived = self._archived.completed_at.get(instant)
        if archived is None:
            raise incomplete(
                self._store, f"neither timeline tells when instant {instant}, which has log files, completed"
            )
        return archived
