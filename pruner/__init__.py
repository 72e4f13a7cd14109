"""One set of indexes over a lake table; every engine skips files with it.

    import pruner

    table = pruner.open_table("s3://lake/flights")
    table.create_index("carrier_idx", on="carrier")
    plan = table.plan("carrier = 'AA' AND delay > 60", dialect="duckdb")
    plan.files

A plan never leaves out a file that holds a row for which the predicate is true: see docs/guarantee.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pruner.version import __version__

if TYPE_CHECKING:
    from pruner.catalog import open_table
    from pruner.compaction import CompactResult
    from pruner.ddl import sql
    from pruner.errors import (
        ConflictError,
        FormatError,
        IndexDefinitionError,
        PredicateError,
        PrunerError,
        SchemaError,
        StorageError,
        TableError,
    )
    from pruner.expr.semantics import NanOrder, Semantics
    from pruner.indexing import RefreshResult
    from pruner.inspection import IndexEntry
    from pruner.pinned import PinnedSnapshot
    from pruner.plan import FunnelStep, Plan
    from pruner.row_reader import read_rows, row_groups
    from pruner.status import IndexStatus, TableStatus
    from pruner.table import Table
    from pruner.tables.snapshot import FileSlice

__all__ = [
    "CompactResult",
    "ConflictError",
    "FileSlice",
    "FormatError",
    "FunnelStep",
    "IndexDefinitionError",
    "IndexEntry",
    "IndexStatus",
    "NanOrder",
    "PinnedSnapshot",
    "Plan",
    "PredicateError",
    "PrunerError",
    "RefreshResult",
    "SchemaError",
    "Semantics",
    "StorageError",
    "Table",
    "TableError",
    "TableStatus",
    "__version__",
    "open_table",
    "read_rows",
    "row_groups",
    "sql",
]

_HOMES = {
    "pruner.catalog": ("open_table",),
    "pruner.compaction": ("CompactResult",),
    "pruner.ddl": ("sql",),
    "pruner.errors": (
        "ConflictError",
        "FormatError",
        "IndexDefinitionError",
        "PredicateError",
        "PrunerError",
        "SchemaError",
        "StorageError",
        "TableError",
    ),
    "pruner.expr.semantics": ("NanOrder", "Semantics"),
    "pruner.indexing": ("RefreshResult",),
    "pruner.inspection": ("IndexEntry",),
    "pruner.plan": ("FunnelStep", "Plan"),
    "pruner.row_reader": ("read_rows", "row_groups"),
    "pruner.status": ("IndexStatus", "TableStatus"),
    "pruner.pinned": ("PinnedSnapshot",),
    "pruner.table": ("Table",),
    "pruner.tables.snapshot": ("FileSlice",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: `pruner --help` must not wait for Arrow."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'pruner' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
