"""What happened to each scan: kept in `last_plans`, and one log record."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pruner import Plan

LOGGER = logging.getLogger("pruner")

LEFT_OUT = "DuckDB's optimizer leaves the scan out, so that no file is read"
"""Why a scan is not pruned of which a statement needs no row, whatever its table holds: `WHERE 5 + 5 = 11`."""


@dataclass(frozen=True, slots=True)
class Scan:
    """One table reference of a statement: its plan, and why the statement's predicate was not used (None if
    it was).
    """

    table: str
    plan: Plan
    reason: str | None

    @property
    def is_unread(self) -> bool:
        """Whether DuckDB leaves the scan out: see `LEFT_OUT`."""
        return self.reason == LEFT_OUT

    @property
    def kept(self) -> int:
        """Number of slices that were read."""
        return self.plan.kept

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
        """Each reason why something could not be used to prune."""
        return ((self.reason,) if self.reason else ()) + tuple(self.plan.fallbacks)

    def explain(self) -> str:
        """The plan's report as text, below the reason why nothing could be pruned, if there is one."""
        report = self.plan.explain()
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
                f"; not pruned: {self.reason}" if self.reason else "",
                extra={
                    "pruner_table": self.table,
                    "pruner_kept": self.kept,
                    "pruner_total": self.total,
                    "pruner_bytes": self.plan.bytes_kept,
                    "pruner_reason": self.reason,
                },
            )
