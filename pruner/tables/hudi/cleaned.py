"""What cleaners took from the history of a Hudi table: a read as of an instant whose files are gone is no read (T20).

Under the policy that keeps commits, a clean says from which commit on everything is there, and Hudi refuses what is
older. Under the policy that keeps versions of files it says no such thing, and Hudi returns the rows that are left.
What a cleaner did may have been archived since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.errors import TableError
from pruner.tables.hudi.commits import read_clean
from pruner.tables.hudi.files import base_name, log_name
from pruner.tables.hudi.refusals import read_instant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pruner.storage.store import Store
    from pruner.tables.hudi.archived import ArchivedTimeline
    from pruner.tables.hudi.commits import Clean
    from pruner.tables.hudi.listing import Group
    from pruner.tables.hudi.timeline import Timeline


class CleanedError(TableError):
    """Files of the instant that is read were deleted."""


class Cleaned:
    """The newest file of each file group that cleaners deleted, up to an instant."""

    def __init__(
        self, store: Store, timeline: Timeline, archived: ArchivedTimeline, as_of: str | None
    ) -> None:
        """Read the cleans of both timelines; none for the newest slices, which no cleaner touches.

        Raises:
            CleanedError: by what a cleaner says, files of that instant are gone.
            TableError: what a cleaner says cannot be understood.
            StorageError: the store refuses.
        """
        self._where = (store.uri, as_of)
        self._archived = archived
        self._newest: dict[Group, str] = {}
        if as_of is None:
            return
        kept_from = ""
        for clean in _cleans_after(as_of, store, timeline, archived):
            # No cleaner deletes what belongs to the table when it runs. Nor does one that keeps commits delete what has
            # belonged to it since the first of them. So whole file groups that it deleted had been replaced before, by
            # a write that may have been archived since.
            if clean.earliest_commit_to_retain:
                kept_from = max(kept_from, clean.earliest_commit_to_retain)
            else:
                self._take(clean, timeline, as_of)
        if as_of < kept_from:
            raise self._error(f"keeps what was written from {kept_from} on")

    def _take(self, clean: Clean, timeline: Timeline, as_of: str) -> None:
        for partition, name in clean.deleted():
            base, log = base_name(name), log_name(name)
            # A slice can consist of log files alone. Each of them is older than the base file of the next slice.
            file = base or (log if log is not None and timeline.committed(log.instant) else None)
            if file is not None and file.instant <= as_of:
                group = (partition, file.file_id)
                self._newest[group] = max(file.instant, self._newest.get(group, ""))

    def seen(self, group: Group, start: str | None) -> None:
        """Take note of the slice that is left of a group, or that the group does not count.

        Raises:
            CleanedError: it is older than one that was deleted.
        """
        deleted = self._newest.pop(group, None)
        if deleted is not None and (start is None or start < deleted):
            raise self._error(f"deleted files of {deleted} in partition {group[0]!r}")

    def require_all_seen(self, without: set[Group]) -> None:
        """Refuse where a file group has no file left.

        Args:
            without: file groups that were replaced by then.

        Raises:
            CleanedError: one has none.
            TableError: what was archived cannot be understood.
            StorageError: the store refuses.
        """
        missing = {group: deleted for group, deleted in self._newest.items() if group not in without}
        if not missing:
            return
        earlier = set(self._archived.replaced(self._where[1] or ""))
        for group, deleted in missing.items():
            if group not in earlier:
                raise self._error(f"deleted files of {deleted} in partition {group[0]!r}")

    def _error(self, what: str) -> CleanedError:
        root, as_of = self._where
        return CleanedError(
            f"{root} cannot be read as of {as_of}: Hudi's cleaner {what}; read a later instant, "
            "or let the cleaner retain more commits"
        )


def _cleans_after(
    as_of: str, store: Store, timeline: Timeline, archived: ArchivedTimeline
) -> Iterator[Clean]:
    """What cleaners did that were requested after an instant.

    Hudi finishes a clean before it plans another, and archives the oldest first. So all of them are in the active
    timeline where an earlier one is.
    """
    cleans = [instant for instant in timeline.finished.values() if instant.action == "clean"]
    if all(instant.requested > as_of for instant in cleans):
        yield from archived.cleans(as_of)
    for instant in cleans:
        if instant.requested > as_of:
            yield read_instant(store, timeline, instant.name, read_clean)
