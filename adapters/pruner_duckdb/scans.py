"""The outcome of each scan: an entry in `last_plans`, and one log record."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pruner import Plan

LOGGER = logging.getLogger("pruner")

LEFT_OUT = "DuckDB's optimizer leaves the scan out, so that no file is read"
"""Why a scan is not pruned if the statement needs none of its rows, whatever its table holds: `WHERE 5 + 5 = 11`."""


@dataclass(frozen=True, slots=True)
class Scan:
    """One table reference of a statement: its plan, and why the statement's predicate was not used (None if
    it was).
    """

    table: str
    plan: Plan
    reason: str | None
    left: Plan | None = None
    """The plan of what is read if metadata answers for the rest, or if fewer files hold the first rows; None if all
    that `plan` keeps is read.
    """

    @property
    def is_unread(self) -> bool:
        """Whether no file is read: DuckDB leaves the scan out (see `LEFT_OUT`), or metadata answers for all files."""
        return self.reason == LEFT_OUT or (self.left is not None and not self.left.kept)

    @property
    def kept(self) -> int:
        """Number of slices that the predicate leaves."""
        return self.plan.kept

    @property
    def read(self) -> int:
        """Number of those slices that are read."""
        return self.plan.kept if self.left is None else self.left.kept

    @property
    def total(self) -> int:
        """Number of slices of the table."""
        return self.plan.total

    @property
    def snapshot_id(self) -> str:
        """Identity of the snapshot that was read."""
        return self.plan.snapshot_id

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """Reasons why something could not be used for pruning."""
        return ((self.reason,) if self.reason else ()) + tuple(self.plan.fallbacks)

    def explain(self) -> str:
        """The plan's report as text, preceded by the reason why nothing could be pruned, if there is one."""
        report = (self.plan if self.left is None else self.left).explain()
        return f"not pruned: {self.reason}\n{report}" if self.reason else report

    def log(self) -> None:
        """Write the scan's one log record."""
        if LOGGER.isEnabledFor(logging.INFO):
            LOGGER.info(
                "scan of %s: %d of %d files, %d of %d bytes%s",
                self.table,
                self.kept,
                self.total,
                self.plan.bytes_kept,
                self.plan.bytes_total,
                f"; not pruned: {self.reason}" if self.reason else self._told,
                extra={
                    "pruner_table": self.table,
                    "pruner_kept": self.kept,
                    "pruner_read": self.read,
                    "pruner_total": self.total,
                    "pruner_bytes": self.plan.bytes_kept,
                    "pruner_reason": self.reason,
                },
            )

    @property
    def _told(self) -> str:
        return "" if self.left is None else f"; {self.read} read: {self.left.steps[-1].clause}"
