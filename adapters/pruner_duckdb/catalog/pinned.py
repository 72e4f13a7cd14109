"""One table of a statement on one snapshot, and the plan of each scan of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import duckdb

from pruner.expr.engines import Origin
from pruner.expr.nodes import TRUE, Expr
from pruner.expr.semantics import NanOrder, Semantics
from pruner.expr.walk import without_columns
from pruner_duckdb.scans import LEFT_OUT, Scan
from pruner_duckdb.sql.select import Reference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pruner import PinnedSnapshot
    from pruner_duckdb.catalog.tables import KnownTable
    from pruner_duckdb.read.shape import ScanShape

SEMANTICS: Final = Semantics(engine="duckdb", version=duckdb.__version__, nan_order=NanOrder.GREATEST)

_READ_OTHERWISE = "DuckDB reads the column as another type than the index has"


@dataclass
class Pinned:
    """One table of a statement with the snapshot that all of its references read (R8)."""

    known: KnownTable
    snapshot: PinnedSnapshot
    shape: ScanShape
    references: list[Reference] = field(default_factory=list[Reference])

    def plan(self, expression: Expr | None, reason: str | None, semantics: Semantics) -> Scan:
        """Plan one scan; it never fails.

        Args:
            expression: the predicate; None where DuckDB scans nothing.
            reason: why the statement's predicates are not used; None where they are.
            semantics: the rules of the session.
        """
        if self.known.read_optimized:
            semantics = replace(semantics, scan_mode="read_optimized")
        shared = self.snapshot.data.partitions.shared
        if shared and self.shape.reads_paths_of(shared):
            semantics = replace(semantics, shared_partition_columns=Origin.PATH)
        try:
            if expression is None:
                return self._whole(reason or LEFT_OUT, semantics)
            hidden = self.shape.hidden
            known = without_columns(expression, lambda column: column.path[0] in hidden, _READ_OTHERWISE)
            return Scan(self.known.name, self.snapshot.plan(known, semantics=semantics), reason)
        except Exception as error:  # planning must never fail the query
            return self._whole(failure(error), semantics)

    def _whole(self, reason: str, semantics: Semantics) -> Scan:
        return Scan(self.known.name, self.snapshot.plan(TRUE, semantics=semantics), reason)


def of_references(pinned: Mapping[tuple[str, ...], Pinned]) -> dict[Reference, Pinned]:
    """Return the table of each reference in a statement."""
    return {reference: table for table in pinned.values() for reference in table.references}


_FAILED = "planning failed"


def failure(error: Exception) -> str:
    """Return why nothing is pruned, in one line."""
    first_line = str(error).strip().split("\n", 1)[0]
    return f"{_FAILED} ({type(error).__name__}: {first_line})"


def is_failure(reason: str) -> bool:
    """Tell whether nothing is pruned for a reason that may be gone the next time."""
    return reason.startswith(_FAILED)
