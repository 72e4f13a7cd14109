"""A DuckDB connection that reads pruned tables by their names and hands everything else to DuckDB."""

from __future__ import annotations

import builtins
import re
import sys
from collections import deque
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

import duckdb

from pruner.errors import PrunerError
from pruner_duckdb.embedded import embedded_select
from pruner_duckdb.predicates import Parameters, Predicates
from pruner_duckdb.relation import LazyRelation
from pruner_duckdb.rewrite import Rewriter, Rewritten
from pruner_duckdb.scans import Scan
from pruner_duckdb.shadow import Shadow
from pruner_duckdb.statement import NotSelect, Select
from pruner_duckdb.tables import KnownTable, TableSpec
from pruner_duckdb.types import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT_PLANS = 64
"""Scans that `last_plans` remembers."""

_SCOPED_CALL = compile("__pruner_call(__pruner_sql, **__pruner_named)", "<pruner>", "eval")

_shared: list[tuple[Shadow, Predicates]] = []


def _shadow_and_predicates() -> tuple[Shadow, Predicates]:
    """The shadow database of this process, made when it is first needed."""
    if not _shared:
        shadow = Shadow()
        _shared.append((shadow, Predicates(shadow)))
    return _shared[0]


class Connection:
    """Wraps a DuckDB connection; what is not here is DuckDB's own.

    `sql` and `execute` read the tables by name, each scan pruned by what DuckDB's optimizer would push to
    it. `last_plans` holds the newest scans (bounded), oldest first.
    """

    def __init__(
        self,
        native: duckdb.DuckDBPyConnection,
        tables: Mapping[tuple[str, ...], KnownTable],
        last_plans: deque[Scan] | None = None,
    ) -> None:
        self._native = native
        self._tables = tables
        self.last_plans: deque[Scan] = deque(maxlen=KEPT_PLANS) if last_plans is None else last_plans
        self._shadow, predicates = _shadow_and_predicates()
        self._rewriter = Rewriter(tables, self._shadow, predicates)

    @property
    def native(self) -> duckdb.DuckDBPyConnection:
        """DuckDB's own connection, which does not know the tables."""
        return self._native

    def execute(self, query: Any, parameters: Any = None) -> Connection:
        """Run a statement (or several); fetch from the connection itself, as with DuckDB.

        Raises:
            PrunerError: a table cannot be listed or read.
            duckdb.Error: whatever DuckDB refuses.
        """
        scope = _Scope(sys._getframe(1))
        for text, values in self._statements(query, parameters):
            run = _Run(self, scope, self._native.execute, "parameters")
            run.statement(text, values)
        return self

    def sql(self, query: Any, *, alias: str = "", params: Any = None) -> LazyRelation | None:
        """Return a relation over a SELECT; run any other statement at once and return None.

        The relation plans again each time it runs, so it never misses a file that was committed after this
        call.

        Raises:
            PrunerError: a table cannot be listed or read.
            duckdb.Error: whatever DuckDB refuses.
        """
        return self._sql(query, alias, params, _Scope(sys._getframe(1)))

    def query(self, query: Any, *, alias: str = "", params: Any = None) -> LazyRelation | None:
        """The same as `sql`."""
        return self._sql(query, alias, params, _Scope(sys._getframe(1)))

    def from_query(self, query: Any, *, alias: str = "", params: Any = None) -> LazyRelation | None:
        """The same as `sql`."""
        return self._sql(query, alias, params, _Scope(sys._getframe(1)))

    def table(self, table_name: str) -> Any:
        """A relation over one table by its name."""
        key = tuple(part.strip('"').lower() for part in table_name.split("."))
        if key not in self._tables:
            return self._native.table(table_name)
        path = ".".join(quote(part) for part in table_name.replace('"', "").split("."))
        return self._sql(f"SELECT * FROM {path}", "", None, _Scope(None))

    def cursor(self) -> Connection:
        """Another connection to the same database that knows the same tables."""
        return Connection(self._native.cursor(), self._tables, self.last_plans)

    duplicate = cursor

    def close(self) -> None:
        """Close DuckDB's connection."""
        self._native.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        member = getattr(self._native, name)
        return self._returning_self(member) if callable(member) else member

    def _returning_self(self, member: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            result = member(*arguments, **named)
            return self if isinstance(result, duckdb.DuckDBPyConnection) else result

        return call

    def _sql(self, query: Any, alias: str, params: Any, scope: _Scope) -> LazyRelation | None:
        *before, (text, values) = self._statements(query, params)
        for each, _ in before:
            _Run(self, scope, self._native.sql, "params").statement(each, None)
        run = _Run(self, scope, self._native.sql, "params", {"alias": alias} if alias else {})
        select = self._select(text)
        if select is None or not self._rewriter.candidates(select):
            return run.statement(text, values)
        scope.keep(_names(select))

        def make() -> duckdb.DuckDBPyRelation:
            return run.statement(text, values)

        if not self._rewriter.binds(select, values):
            make()  # so that a mistake is reported here, as DuckDB does
        return LazyRelation(make)

    def _select(self, text: Any) -> Select | None:
        if not isinstance(text, str) or not self._rewriter.mentions_table(text):
            return None
        try:
            return self._shadow.parse(text)
        except NotSelect:
            return None

    def _statements(self, query: Any, parameters: Any) -> Sequence[tuple[Any, Any]]:
        """The statements of a text one by one; only the last one takes parameters, as with DuckDB."""
        if not isinstance(query, str) or ";" not in query or not self._rewriter.mentions_table(query):
            return [(query, parameters)]
        try:
            parts = [str(each.query) for each in self._native.extract_statements(query)]
        except duckdb.Error:
            return [(query, parameters)]
        if len(parts) < 2:
            return [(query, parameters)]
        return [*((part, None) for part in parts[:-1]), (parts[-1], parameters)]


class _Scope:
    """The variables that the caller of `sql` or `execute` sees; DuckDB reads data frames from them."""

    def __init__(self, frame: FrameType | None) -> None:
        self._locals: Mapping[str, Any] = frame.f_locals if frame is not None else {}
        self._globals: dict[str, Any] = frame.f_globals if frame is not None else {}

    def keep(self, names: set[str]) -> None:
        """Hold on to these variables alone, for later."""
        found = {name: self._locals[name] for name in names if name in self._locals}
        self._globals = {name: self._globals[name] for name in names if name in self._globals}
        self._locals = found

    def call(self, function: Callable[..., Any], sql: Any, named: dict[str, Any]) -> Any:
        """Call a method of DuckDB as if from the caller's frame."""
        variables = {
            key: value.native() if isinstance(value, LazyRelation) else value
            for key, value in {**self._globals, **self._locals}.items()
            if not key.startswith("__")
        }
        internal = {"__pruner_call": function, "__pruner_sql": sql, "__pruner_named": named}
        return eval(_SCOPED_CALL, {"__builtins__": builtins}, {**variables, **internal})


class _Run:
    """One statement on its way to DuckDB, through one of its two methods."""

    def __init__(
        self,
        connection: Connection,
        scope: _Scope,
        method: Callable[..., Any],
        parameters_name: str,
        options: dict[str, Any] | None = None,
    ) -> None:
        self._connection = connection
        self._scope = scope
        self._method = method
        self._parameters_name = parameters_name
        self._options = options or {}

    def statement(self, text: Any, parameters: Any) -> Any:
        """Run one statement; a file that was removed in between is met by planning again, once."""
        rewritten = self._rewritten(text, parameters)
        if rewritten is None:
            return self._unchanged(text, parameters)
        try:
            return self._rewritten_call(rewritten)
        except duckdb.IOException:
            again = self._rewritten(text, parameters)
            if again is None or _snapshots(again) == _snapshots(rewritten):
                raise
            return self._rewritten_call(again)

    def _rewritten(self, text: Any, parameters: Any) -> Rewritten | None:
        connection = self._connection
        if not isinstance(text, str) or not connection._rewriter.mentions_table(text):
            return None
        try:
            return self._rewrite(connection._shadow.parse(text), parameters)
        except NotSelect as refusal:
            if refusal.syntax:
                return None
        found = embedded_select(text, connection._shadow.parse)
        if found is None:
            return None
        before, select, after = found
        inner = self._rewrite(select, parameters)
        return None if inner is None else Rewritten(before + inner.sql + after, inner.parameters, inner.scans)

    def _rewrite(self, select: Select, parameters: Parameters) -> Rewritten | None:
        return self._connection._rewriter.rewrite(select, parameters, self._ask, self._relation_of)

    def _rewritten_call(self, rewritten: Rewritten) -> Any:
        for scan in rewritten.scans:
            self._connection.last_plans.append(scan)
            scan.log()
        return self._call(rewritten.sql, rewritten.parameters)

    def _unchanged(self, text: Any, parameters: Any) -> Any:
        try:
            return self._call(text, parameters)
        except duckdb.CatalogException as error:
            name = self._unreadable_name(str(error))
            if name is None:
                raise
            raise PrunerError(
                f"table {name} cannot be read in this kind of statement: only SELECT, EXPLAIN, "
                "CREATE TABLE … AS, INSERT … SELECT and COPY (SELECT …) TO read it"
            ) from error

    def _unreadable_name(self, message: str) -> str | None:
        missing = re.search(r"Table with name \"?(.+?)\"? does not exist", message)
        if missing is None:
            return None
        wanted = missing.group(1).lower().split(".")[-1]
        return next(
            (each.name for path, each in self._connection._tables.items() if path[-1] == wanted), None
        )

    def _call(self, sql: Any, parameters: Any) -> Any:
        named = dict(self._options)
        if parameters is not None:
            named[self._parameters_name] = parameters
        return self._scope.call(self._method, sql, named)

    def _ask(self, sql: str, parameters: list[object]) -> tuple[Any, ...]:
        named = {self._parameters_name: parameters} if parameters else {}
        rows = _Scope(None).call(self._method, sql, named).fetchall()
        return tuple(rows[0])

    def _relation_of(self, sql: str) -> duckdb.DuckDBPyRelation:
        return self._scope.call(self._connection._native.sql, sql, {})


def _snapshots(rewritten: Rewritten) -> list[str]:
    return [scan.snapshot_id for scan in rewritten.scans]


def _names(select: Select) -> set[str]:
    return {each.path[-1] for each in select.references if len(each.path) == 1}


def connect(
    tables: Mapping[str, TableSpec],
    database: str = ":memory:",
    config: Mapping[str, Any] | None = None,
    read_only: bool = False,
) -> Connection:
    """Open a DuckDB database and let its statements read tables of pruner by name.

    Args:
        tables: for each name (with a schema in front, if wanted) a path or URI, several roots, a
            `pruner.Table`, or a dict with `uri` and the options of `pruner.open_table`, `as_of` and
            `read_optimized`. Opened when first read.
        database: DuckDB's database file.
        config: DuckDB's configuration.
        read_only: open the database for reading only.

    Raises:
        PrunerError: the database has a table of one of the names, or an option is unknown.
        duckdb.Error: the database cannot be opened.
    """
    return attach(duckdb.connect(database, read_only=read_only, config=dict(config or {})), tables)


def attach(con: duckdb.DuckDBPyConnection, tables: Mapping[str, TableSpec]) -> Connection:
    """Let statements of an existing connection read tables of pruner by name, through the returned wrapper.

    A table or view that the connection itself knows under a name hides the table of pruner, as it does
    everywhere in DuckDB; one that exists already is refused here.

    Args:
        con: DuckDB's connection.
        tables: see `connect`.

    Raises:
        PrunerError: the database has a table of one of the names, or an option is unknown.
    """
    known = [KnownTable(name, spec) for name, spec in tables.items()]
    wrapped = Connection(con, {each.path: each for each in known})
    wrapped._rewriter.require_free_names(lambda sql, values: tuple(con.execute(sql, values).fetchone() or ()))
    return wrapped
