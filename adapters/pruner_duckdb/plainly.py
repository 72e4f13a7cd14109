"""Statements that failed over fewer files, read again as DuckDB alone would read the table.

Whether a condition that fails for some values (`day = 'x'`, a cast of text) is evaluated at all is up to DuckDB. Its
optimizer leaves it out where another condition decides, which it may know from the statistics of the files that it
reads, and the order of the conditions depends on how the files are read. So a statement over some of the files may fail
where one over all of them does not, and nobody can tell beforehand which will. A statement that has failed for a value
runs again, over all files and in each of the ways in which DuckDB may be asked to read them. Each gives the right rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

import duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator

VALUE_ERRORS: Final = (duckdb.DataError, duckdb.InvalidInputException)
"""How DuckDB fails for a value: a conversion, a number out of range, what a function does not take."""


class AccessPath(Enum):
    """How DuckDB alone may read all files of a table: by a scan or by a view of it, below which DuckDB 2.0 takes no
    condition that may fail, and with or without the statistics of all files, which `union_by_name` looks at first.
    """

    SCAN = (True, False)
    VIEW = (False, False)
    SCAN_BY_NAME = (True, True)
    VIEW_BY_NAME = (False, True)

    @property
    def bare(self) -> bool:
        """Whether the scan itself stands in FROM."""
        return self.value[0]

    @property
    def by_name(self) -> bool:
        """Whether DuckDB looks at all files first."""
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
