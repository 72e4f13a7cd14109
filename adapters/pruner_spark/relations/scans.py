"""The record of each scan: in `last_plans`, and as one log record."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING

from pruner.adapters import Newest

if TYPE_CHECKING:
    from pruner import Plan

LOGGER = logging.getLogger("pruner")

KEPT_PLANS = 64
"""Scans that `last_plans` remembers of each session."""

KNOWN_SESSIONS = 64
"""Sessions of one JVM whose scans are remembered."""

LOGGED_REASONS = 1024
"""Reasons that are remembered as logged, so that each is logged once."""


@dataclass(slots=True, eq=False)
class Scan:
    """One scan of a table that has an index.

    `plan` is None where planning failed, and where Spark found no partition for the condition, so that there was no
    file to plan for (`files_listed` is 0 then); `reason` says why the scan was not pruned, or not fully, and is
    None where all went well. `files_listed` counts the files that Spark or Hudi listed after its own partition
    pruning, `files_unknown` those among them that the plan's snapshot does not hold (they stay) and `files_dropped`
    those that were left out; all three are None where the plan keeps everything.

    `files_left` is the number of files that the scan was given, and `files_read` the number that it read: fewer where
    dynamic partition pruning dropped some when the query ran. `last_plans` fills in both from Spark's own metrics
    (`staticFilesNum` and `numFiles`) once the query has ended. They stay None where it failed, and where Spark does
    not show the plan that ran (CREATE TABLE AS SELECT, MERGE INTO).
    """

    table: str
    plan: Plan | None
    reason: str | None = None
    files_listed: int | None = None
    files_unknown: int | None = None
    files_dropped: int | None = None
    seconds: float = 0.0
    """Time from Spark's request to its answer."""
    number: int | None = None
    """Sequence number in the JVM; None for a relation that was found not to be prunable before any scan."""
    files_left: int | None = None
    files_read: int | None = None
    left: Plan | None = None
    """Where metadata answers part of the query, or locates its first rows: the plan of what is read."""
    notes: tuple[str, ...] = ()
    """Further remarks on the scan, such as that Hudi's own data skipping is off."""

    @property
    def kept(self) -> int | None:
        """Number of slices that the plan keeps; None without a plan."""
        return None if self.plan is None else self.plan.kept

    @property
    def total(self) -> int | None:
        """Number of slices of the table; None without a plan."""
        return None if self.plan is None else self.plan.total

    @property
    def snapshot_id(self) -> str | None:
        """Identity of the snapshot that was planned over; None without a plan."""
        return None if self.plan is None else self.plan.snapshot_id

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """Each reason why something could not be used to prune."""
        mine = (self.reason,) if self.reason else ()
        return mine if self.plan is None else (*mine, *self.plan.fallbacks)

    def explain(self) -> str:
        """The plan's report as text, after the reason why the scan was not pruned, if any, and the notes."""
        lines = [f"not pruned: {self.reason}"] if self.reason else []
        if self.plan is None and self.files_listed == 0:
            lines.append("no plan was needed: Spark found no partition for this condition")
        lines += [f"note: {note}" for note in self.notes]
        read = self.plan if self.left is None else self.left
        return "\n".join(lines if read is None else [*lines, read.explain()])


class ScanLog:
    """The newest scans of each session of one JVM. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._scans: OrderedDict[str, Newest[Scan]] = OrderedDict()
        self._logged: OrderedDict[tuple[str, str], None] = OrderedDict()

    def scans(self, session: str) -> list[Scan]:
        """The newest scans of a session, oldest first."""
        with self._lock:
            return list(self._scans.get(session, ()))

    def open_scans(self, session: str) -> bool:
        """Tell whether the session has a scan whose number of read files is not known yet."""
        return any(scan.number is not None and scan.files_read is None for scan in self.scans(session))

    def read(self, counts: Mapping[int, tuple[int, int]]) -> None:
        """Record, by scan number, how many files were left to scans and how many of them they read."""
        with self._lock:
            for scan in chain.from_iterable(self._scans.values()):
                if scan.number is not None and scan.number in counts:
                    scan.files_left, scan.files_read = counts[scan.number]

    def add(self, session: str, scan: Scan) -> None:
        """Remember a scan and write its log record; a warning is logged once for each table and reason."""
        with self._lock:
            if session not in self._scans and len(self._scans) >= KNOWN_SESSIONS:
                self._scans.popitem(last=False)
            _put(self._scans.setdefault(session, Newest(maxlen=KEPT_PLANS)), scan)
            first = scan.reason is not None and self._is_first((scan.table, scan.reason))
        if first:
            LOGGER.warning("scan of %s is not pruned: %s", scan.table, scan.reason)
        _log(scan)

    def _is_first(self, key: tuple[str, str]) -> bool:
        if key in self._logged:
            return False
        if len(self._logged) >= LOGGED_REASONS:
            self._logged.popitem(last=False)
        self._logged[key] = None
        return True


def _put(scans: Newest[Scan], scan: Scan) -> None:
    """Add a scan in the order in which scans began: Java reports a scan without a plan asynchronously."""
    later: list[Scan] = []
    while scan.number is not None and scans and (scans[-1].number or 0) > scan.number:
        later.append(scans.pop())
    for each in (scan, *reversed(later)):
        scans.append(each)


def _log(scan: Scan) -> None:
    if not LOGGER.isEnabledFor(logging.INFO):
        return
    size = None if scan.plan is None else scan.plan.bytes_kept
    LOGGER.info(
        "scan of %s: %s of %s files, %s bytes%s",
        scan.table,
        scan.kept,
        scan.total,
        size,
        f"; not pruned: {scan.reason}" if scan.reason else "",
        extra={
            "pruner_table": scan.table,
            "pruner_kept": scan.kept,
            "pruner_total": scan.total,
            "pruner_bytes": size,
            "pruner_reason": scan.reason,
        },
    )
