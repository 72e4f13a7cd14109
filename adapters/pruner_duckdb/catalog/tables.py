"""The tables that a connection knows, the names that refer to them, and the plans of their scans on one snapshot."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import duckdb

import pruner
from pruner import Table
from pruner.errors import TableError
from pruner.expr.engines import Origin
from pruner.expr.nodes import TRUE, Expr
from pruner.expr.semantics import Semantics
from pruner.expr.walk import without_columns
from pruner_duckdb.read.native import NativeColumns
from pruner_duckdb.read.reading import PlanReader
from pruner_duckdb.read.shape import ScanShape, scan_shape
from pruner_duckdb.scans import LEFT_OUT, Scan
from pruner_duckdb.shadow.shadow import Relation
from pruner_duckdb.sql.select import TableReference
from pruner_duckdb.types import quote

if TYPE_CHECKING:
    from pruner import PinnedSnapshot
    from pruner_duckdb.sql.select import Select, Span

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
    """Return a name if statements can use it.

    Raises:
        TableError: one of its parts (catalog, schema or table) is empty.
    """
    # For callers without a type checker.
    if not isinstance(name, str) or not all(part.strip() for part in name.split(".")):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TableError(
            f"{name!r} is not a valid table name: give a name, optionally with a schema in front, as in 'flights' or "
            "'web.flights'"
        )
    return name


def name_is_taken(name: str) -> TableError:
    """The error for a database that already has a table or view of this name."""
    return TableError(f"the database already has a table or view named {name}: choose another name")


class KnownTable:
    """One name and the table behind it, opened when a statement first reads it."""

    def __init__(self, name: str, spec: TableSpec) -> None:
        self.name = _checked_name(name)
        self.path = tuple(part.lower() for part in name.split("."))
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
        """Shape of the last snapshot that was read; None before the first."""

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
        """Whether the user allows listings older than a statement."""
        return bool(self._options.get("max_staleness") or self._options.get("feed"))

    def look_again(self) -> None:
        """Make the next snapshot a fresh one, whatever staleness the table allows (rule R8)."""
        self._look_again = True

    @property
    def reader(self) -> PlanReader:
        """The reader for plans of this table.

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


Path = tuple[str, ...]
"""The parts of a name in lower case, the table's own name last."""


class TableNames:
    """The tables of a connection and all of its cursors, by their names."""

    def __init__(self, tables: Mapping[Path, KnownTable]) -> None:
        self._tables = tables
        self._homes: tuple[Path, ...] = ()
        self._last_parts = frozenset(path[-1].replace('"', '""') for path in tables)
        self.plain = frozenset(path[0] for path in tables if len(path) == 1)
        """Names of tables without a schema."""
        self.written = tuple(".".join(path) for path in tables)
        """All names, with dots between their parts."""

    @property
    def paths(self) -> list[Path]:
        """All names, sorted."""
        return sorted(self._tables)

    def __iter__(self) -> Iterator[KnownTable]:
        return iter(self._tables.values())

    def __getitem__(self, path: Path) -> KnownTable:
        return self._tables[path]

    def called(self, name: str, *, whole: bool = False) -> str | None:
        """The table that a name refers to, matched by its last part alone unless `whole`; None if there is none."""
        parts = tuple(part.strip('"').lower() for part in name.split("."))
        for path, known in self._tables.items():
            if path == parts or (not whole and path[-1] == parts[-1]):
                return known.name
        return None

    def is_meant(self, missing: str, name: str, written: str) -> bool:
        """Tell whether a name that DuckDB does not find, or its last part, is that of the table in the statement."""
        if self.called(missing, whole=True) == name:
            return True
        return "." not in missing and name.lower() in written.lower().replace('"', "")

    def mentioned_in(self, text: str) -> bool:
        """Tell cheaply whether a text may read any of the tables."""
        lowered = text.lower()
        return any(last in lowered for last in self._last_parts)

    def paths_in(self, text: str) -> list[Path]:
        """Names of the tables that a text may read, sorted."""
        lowered = text.lower()
        return [path for path in self.paths if path[-1].replace('"', '""') in lowered]

    def read_by(self, select: Select) -> list[TableReference]:
        """References of a statement that name one of the tables."""
        return [reference for reference in select.references if self.of(reference) is not None]

    def of(self, reference: TableReference) -> KnownTable | None:
        """The table that a reference names, possibly qualified by the database and schema that the connection
        began with.
        """
        if reference.function:
            return None
        path = lower(reference.path)
        for home in ((), *self._homes):
            if path[: len(home)] == home and path[len(home) :] in self._tables:
                return self._tables[path[len(home) :]]
        return None

    def shortened(self, select: Select, replaced: Sequence[TableReference]) -> list[tuple[Span, str]]:
        """Edits from `schema.table.column` to `table.column` for tables and views whose replacement has no schema. A
        column may spell the table's name differently from FROM.
        """
        if not select.qualified:
            return []
        bare = {
            self._without_home(lower(reference.path)) for reference in replaced if reference.alias is None
        }
        edits: list[tuple[Span, str]] = []
        for names, span in select.qualified:
            for length in range(len(names) - 1, 1, -1):
                if self._without_home(lower(names[:length])) in bare:
                    edits.append((span, ".".join(quote(part) for part in names[length - 1 :])))
                    break
        return edits

    def _without_home(self, path: Path) -> Path:
        """A name without the database and schema that the connection began with."""
        home = next((home for home in reversed(self._homes) if path[: len(home)] == home), ())
        return path[len(home) :] if len(path) > len(home) else path

    def begin_in(self, database: str, schema: str) -> None:
        """Learn the database and the schema that the connection begins with."""
        first, second = database.lower(), schema.lower()
        self._homes = ((second,), (first,), (first, second))

    def look_again(self) -> None:
        """Make the next plans use fresh snapshots, whatever staleness the tables allow (rule R8)."""
        for known in self._tables.values():
            known.look_again()


def lower(path: Sequence[str]) -> Path:
    """A name's parts in lower case."""
    return tuple(part.lower() for part in path)


SEMANTICS: Final = Semantics(engine="duckdb", version=duckdb.__version__)

_READ_OTHERWISE = "DuckDB reads the column as another type than the index has"


@dataclass
class Pinned:
    """One table of a statement with the snapshot that all of its references read (R8)."""

    known: KnownTable
    snapshot: PinnedSnapshot
    shape: ScanShape
    references: list[TableReference] = field(default_factory=list[TableReference])

    def plan(self, expression: Expr | None, reason: str | None, semantics: Semantics) -> Scan:
        """Plan one scan; never raises an error.

        Args:
            expression: the predicate; None if DuckDB scans nothing.
            reason: why the statement's predicates are not used; None if they are.
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


def of_references(pinned: Mapping[tuple[str, ...], Pinned]) -> dict[TableReference, Pinned]:
    """Return the table of each reference in a statement."""
    return {reference: table for table in pinned.values() for reference in table.references}


_FAILED = "planning failed"


def failure(error: Exception) -> str:
    """Return why nothing is pruned, in one line."""
    first_line = str(error).strip().split("\n", 1)[0]
    return f"{_FAILED} ({type(error).__name__}: {first_line})"


def is_failure(reason: str) -> bool:
    """Tell whether nothing is pruned for a reason that may not recur."""
    return reason.startswith(_FAILED)
