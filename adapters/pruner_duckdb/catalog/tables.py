"""The tables that a connection knows by name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeAlias

import duckdb

import pruner
from pruner import Table
from pruner.errors import TableError
from pruner_duckdb.read.native import NativeColumns
from pruner_duckdb.read.reading import PlanReader
from pruner_duckdb.read.shape import ScanShape, scan_shape
from pruner_duckdb.shadow.shadow import Relation

if TYPE_CHECKING:
    from pruner import PinnedSnapshot

TableSpec: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, Any] | Table"
"""A path or URI, several roots, a table, or options: `uri` and those of `pruner.open_table`, `as_of`,
`read_optimized`.
"""

_OPTIONS = frozenset(
    [
        "uri",
        "storage_options",
        "index_uri",
        "max_staleness",
        "files",
        "feed",
        "confirm_after",
        "index_memory",
        "hudi_indexes",
        "file_filters",
        "as_of",
        "read_optimized",
    ]
)
_KEPT_SHAPES = 8


def _checked_name(name: str) -> str:
    """A name that statements can use.

    Raises:
        TableError: it has nothing where a catalog, a schema or a table would stand.
    """
    # For callers that no type checker warns.
    if not isinstance(name, str) or not all(part.strip() for part in name.split(".")):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TableError(
            f"{name!r} is not a valid table name: give a name, optionally with a schema in front, as in 'flights' or "
            "'web.flights'"
        )
    return name


def name_is_taken(name: str) -> TableError:
    """The error that a database has something of a table's name."""
    return TableError(f"the database already has a table or view named {name}: choose another name")


class KnownTable:
    """One name and the table behind it, opened when a statement first reads it."""

    def __init__(self, name: str, spec: TableSpec) -> None:
        self.name = _checked_name(name)
        self.path = tuple(part.lower() for part in name.split("."))
        self._spec = spec
        self._options = _checked_options(name, spec)
        self._lock = RLock()
        self._table: Table | None = spec if isinstance(spec, Table) else None
        self._shapes: dict[str, ScanShape] = {}
        self._native = NativeColumns()
        self._reader: PlanReader | None = None
        self._look_again = False
        self.as_of: str | None = self._options.get("as_of")
        self.read_optimized = bool(self._options.get("read_optimized"))
        self.last_relation: Relation | None = None
        """Shape of the newest snapshot that was read; None before the first."""

    @property
    def table(self) -> Table:
        """The table.

        Raises:
            TableError: it cannot be opened.
        """
        with self._lock:
            if self._table is None:
                options = {key: self._options[key] for key in _OPTIONS & self._options.keys()}
                for key in ("as_of", "read_optimized"):
                    options.pop(key, None)
                self._table = pruner.open_table(options.pop("uri"), **options)
            return self._table

    def snapshot(self) -> PinnedSnapshot:
        """The snapshot that a statement reads.

        Raises:
            TableError: it cannot be listed completely.
        """
        fresh, self._look_again = self._look_again, False
        return self.table.snapshot(self.as_of, fresh=fresh)

    @property
    def may_be_stale(self) -> bool:
        """Whether the user allows listings that are older than a statement."""
        return bool(self._options.get("max_staleness") or self._options.get("feed"))

    def look_again(self) -> None:
        """Let the next snapshot be taken of the table as it is then, whatever staleness it allows (rule R8)."""
        self._look_again = True

    @property
    def reader(self) -> PlanReader:
        """What reads the plans of this table.

        Raises:
            TableError: the table cannot be opened.
        """
        with self._lock:
            if self._reader is None:
                table = self.table
                self._reader = PlanReader(self.name, table.uri, table.storage_options, self.as_of)
            return self._reader

    def shape(self, snapshot: PinnedSnapshot, shadow_connection: duckdb.DuckDBPyConnection) -> ScanShape:
        """How the columns of a snapshot are read."""
        with self._lock:
            shape = self._shapes.get(snapshot.id)
            if shape is None:
                shape = scan_shape(snapshot.data, shadow_connection, self.name, self._native)
                while len(self._shapes) >= _KEPT_SHAPES:
                    self._shapes.pop(next(iter(self._shapes)))
                self._shapes[snapshot.id] = shape
            self.last_relation = shape.relation
            return shape


def _checked_options(name: str, spec: TableSpec) -> dict[str, Any]:
    if isinstance(spec, Table):
        return {}
    if not isinstance(spec, Mapping):
        return {"uri": spec}
    options = dict(spec)
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise TableError(
            f"table {name}: unknown option {unknown[0]!r}; there are {', '.join(sorted(_OPTIONS))}"
        )
    if "uri" not in options:
        raise TableError(f"table {name}: the option 'uri' is missing")
    return options
