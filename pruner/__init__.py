"""One set of indexes over a lake table, with which every engine skips files.

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
    from pruner.advice.forecast import SampleLimits
    from pruner.advice.proposals import Advice
    from pruner.catalog.names import open_table
    from pruner.catalog.notify import notify
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
    from pruner.examples import example
    from pruner.expr.semantics import NanOrder, Semantics
    from pruner.lineage import open_lineage
    from pruner.maintenance.build import RefreshResult
    from pruner.maintenance.compaction import CompactResult
    from pruner.maintenance.estimate import IndexEstimate
    from pruner.maintenance.inspection import IndexEntry
    from pruner.maintenance.mapping import TableMap
    from pruner.maintenance.status import IndexStatus, TableStatus
    from pruner.planning.answering import Answer
    from pruner.planning.pinned import PinnedSnapshot
    from pruner.planning.plan import Plan
    from pruner.planning.report import FunnelStep
    from pruner.planning.row_reader import read_rows, row_groups
    from pruner.table import Table
    from pruner.tables.snapshot import FileSlice

__all__ = [
    "Advice",
    "Answer",
    "CompactResult",
    "ConflictError",
    "FileSlice",
    "FormatError",
    "FunnelStep",
    "IndexDefinitionError",
    "IndexEntry",
    "IndexEstimate",
    "IndexStatus",
    "NanOrder",
    "PinnedSnapshot",
    "Plan",
    "PredicateError",
    "PrunerError",
    "RefreshResult",
    "SampleLimits",
    "SchemaError",
    "Semantics",
    "StorageError",
    "Table",
    "TableError",
    "TableMap",
    "TableStatus",
    "__version__",
    "example",
    "notify",
    "open_lineage",
    "open_table",
    "read_rows",
    "row_groups",
    "sql",
]

_HOMES = {
    "pruner.advice.forecast": ("SampleLimits",),
    "pruner.advice.proposals": ("Advice",),
    "pruner.catalog.names": ("open_table",),
    "pruner.catalog.notify": ("notify",),
    "pruner.maintenance.compaction": ("CompactResult",),
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
    "pruner.examples": ("example",),
    "pruner.expr.semantics": ("NanOrder", "Semantics"),
    "pruner.lineage": ("open_lineage",),
    "pruner.maintenance.build": ("RefreshResult",),
    "pruner.maintenance.estimate": ("IndexEstimate",),
    "pruner.maintenance.inspection": ("IndexEntry",),
    "pruner.planning.answering": ("Answer",),
    "pruner.planning.plan": ("Plan",),
    "pruner.planning.report": ("FunnelStep",),
    "pruner.planning.row_reader": ("read_rows", "row_groups"),
    "pruner.maintenance.mapping": ("TableMap",),
    "pruner.maintenance.status": ("IndexStatus", "TableStatus"),
    "pruner.planning.pinned": ("PinnedSnapshot",),
    "pruner.table": ("Table",),
    "pruner.tables.snapshot": ("FileSlice",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    """Import a public name on first use: `pruner --help` must not wait for Arrow."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'pruner' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
