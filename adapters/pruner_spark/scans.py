"""What happened to each scan: kept in `last_plans`, and one log record."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pruner.plan import Plan

LOGGER = logging.getLogger("pruner")

KEPT_PLANS = 64
"""Scans that `last_plans` remembers of each session."""

KNOWN_SESSIONS = 64
"""Sessions of one Java machine whose scans are remembered."""

LOGGED_REASONS = 1024
"""Reasons that are remembered as logged, so that each is logged once."""


@dataclass(frozen=True, slots=True)
class Scan:
    """One scan of a table that has an index.

    `plan` is None where planning failed; `reason` says why the scan was not pruned, or not wholly, and is
    None where all went well. `files_listed` counts the files that Spark or Hudi listed after its own pruning
    by partitions, `files_unknown` those among them that the plan's snapshot does not hold (they stay) and
    `files_dropped` those that were left out; all three are None where the plan keeps everything.
    """

    table: str
    plan: Plan | None
    reason: str | None = None
    files_listed: int | None = None
    files_unknown: int | None = None
    files_dropped: int | None = None
    seconds: float = 0.0
    """From when Spark asked until it had its answer."""

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
        """The plan's report as text, below the reason why the scan was not pruned, if there is one."""
        lines = [f"not pruned: {self.reason}"] if self.reason else []
        return "\n".join([*lines, self.plan.explain()] if self.plan is not None else lines)


class ScanLog:
    """The newest scans of each session of one Java machine. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._scans: OrderedDict[str, deque[Scan]] = OrderedDict()
        self._logged: OrderedDict[tuple[str, str], None] = OrderedDict()

    def scans(self, session: str) -> list[Scan]:
        """The newest scans of a session, oldest first."""
        with self._lock:
            return list(self._scans.get(session, ()))

    def add(self, session: str, scan: Scan) -> None:
        """Remember a scan and write its log record; a warning comes once for each table and reason."""
        with self._lock:
            if session not in self._scans and len(self._scans) >= KNOWN_SESSIONS:
                self._scans.popitem(last=False)
            self._scans.setdefault(session, deque(maxlen=KEPT_PLANS)).append(scan)
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
