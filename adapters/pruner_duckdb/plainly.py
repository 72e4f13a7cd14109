"""Retries of statements that failed over fewer files: they run again as DuckDB alone would read the table.

Whether a condition that fails for some values (`day = 'x'`, a cast of text) is evaluated at all is up to DuckDB. Its
optimizer drops it where another condition decides, which it may know from the statistics of the files that it reads,
and the order of the conditions depends on how the files are read. So a statement over some of the files may fail where
one over all of them does not, and the adapter cannot predict which will. A statement that failed for a value runs
again, over all files and in each of the ways in which DuckDB can read them. Each gives the right rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

import duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUE_ERRORS: Final = (duckdb.DataError, duckdb.InvalidInputException)
"""DuckDB's errors about a value: a failed conversion, a number out of range, an argument that a function rejects."""


class AccessPath(Enum):
    """How DuckDB alone may read all files of a table: through a scan or through a view of it, below which DuckDB 2.0
    pushes no condition that may fail, and with or without the statistics of all files, which `union_by_name` reads
    first.
    """

    SCAN = (True, False)
    VIEW = (False, False)
    SCAN_BY_NAME = (True, True)
    VIEW_BY_NAME = (False, True)

    @property
    def bare(self) -> bool:
        """Whether the scan itself is in FROM."""
        return self.value[0]

    @property
    def by_name(self) -> bool:
        """Whether DuckDB opens all files first."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class FullScan:
    """A scan of all files: how DuckDB reads them, and why nothing is pruned, in one line."""

    access: AccessPath
    reason: str


def full_scans_after(error: BaseException) -> Iterator[FullScan]:
    """Every way to read all files for a pruned statement that failed."""
    reason = f"the pruned statement failed ({str(error).strip().partition(chr(10))[0]})"
    return (FullScan(access, reason) for access in AccessPath)
