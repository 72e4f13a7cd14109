"""Log files in tables that were downgraded to version 6 (trap T19).

In version 6 a log file is named by the instant of its slice, from version 8 on by that of its own write. Hudi's
downgrade compacts the table and leaves the old log files as they are. So a read as of an instant before it finds log
files that are named by the instant of no slice. Hudi 1.2 asks when their writes completed, which in version 6 only the
modification time of a file of the timeline says, and a copy loses that. What a compaction took up is in its plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.tables.hudi.commits import read_compaction_plan
from pruner.tables.hudi.files import by_writing
from pruner.tables.hudi.refusals import read_instant

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pruner.storage.store import Store
    from pruner.tables.hudi.files import LogName
    from pruner.tables.hudi.listing import Group, GroupFiles
    from pruner.tables.hudi.timeline import Timeline

    Log = tuple[LogName, int]


class Compactions:
    """What the compactions of a table took up, by their plans; each is read once, where something depends on it."""

    def __init__(self, store: Store, timeline: Timeline) -> None:
        self._store = store
        self._timeline = timeline
        self._plans: dict[str, dict[Group, frozenset[str]]] = {}

    def took_up(self, instant: str, group: Group, log: str) -> bool:
        """Tell whether the base file of an instant holds the rows of an older log file.

        It does where no plan says otherwise: the writes before it were archived, or nothing ran beside it.

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
            (each.partition_path or "", each.file_id or ""): frozenset(
                path.rpartition("/")[2] for path in each.delta_file_paths or ()
            )
            for each in plan.operations or ()
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
        TableError: a plan of a compaction cannot be understood.
        StorageError: the store refuses.
    """
    slices: dict[str, list[Log]] = {instant: [] for instant in bases}
    for entry in sorted(logs, key=by_writing):
        name, written = entry[0].name, entry[0].instant
        start = written
        if start not in slices:
            start = max((instant for instant in slices if instant < written), default=written)
            # A write that was requested before a compaction and completed after its plan was made belongs behind it.
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
