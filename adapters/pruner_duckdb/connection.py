"""A DuckDB connection that reads pruned tables by name and passes everything else to DuckDB."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from types import FrameType
from typing import Any, Literal, overload

import duckdb

from pruner import Plan, Table
from pruner.adapters import Newest
from pruner.errors import PrunerError, StorageError, TableError
from pruner_duckdb.catalog.tables import KnownTable, Path, TableNames, TableSpec, name_is_taken
from pruner_duckdb.catalog.views import SessionViews
from pruner_duckdb.native_scan.connecting import (
    NativeConnection,
    attach_native,
    open_native,
    why_not,
    why_not_attached,
)
from pruner_duckdb.native_scan.library import NoExtensionError
from pruner_duckdb.read.native import folded
from pruner_duckdb.relation import (
    LazyRelation,
    is_about_columns,
    read_by,
    shows_a_table,
    with_condition,
    with_limit,
    with_order,
)
from pruner_duckdb.rewrite.rewrite import Rewriter
from pruner_duckdb.rewrite.statement import Statement
from pruner_duckdb.scans import LOGGER, Scan
from pruner_duckdb.session.scope import NO_VARIABLES, Scope
from pruner_duckdb.session.session import session_state
from pruner_duckdb.shadow.answers import (
    CHANGING_NOTHING,
    FETCHING,
    SHOWING_CHANGES,
    Ask,
    DatabaseChanges,
    are_harmless,
)
from pruner_duckdb.shadow.predicates import Predicates
from pruner_duckdb.shadow.selftest import TESTED_VERSIONS, find_problem, plan_format_problem
from pruner_duckdb.shadow.shadow import Shadow
from pruner_duckdb.sql.engine_faults import EXPRESSIONS_ARE_TEXT, SHOWS_WHAT_WAS_DONE
from pruner_duckdb.sql.select import NotSelect
from pruner_duckdb.statements import LearnedViews, StatementRunner
from pruner_duckdb.types import quote

KEPT_PLANS = 64
"""Number of scans that `last_plans` keeps."""

_shared: list[tuple[Shadow, Predicates]] = []


def _shadow_and_predicates() -> tuple[Shadow, Predicates]:
    """The shadow database of this process, created when it is first needed."""
    if not _shared:
        shadow = Shadow()
        _shared.append((shadow, Predicates(shadow)))
    return _shared[0]


def ask_unknown_version() -> None:
    """Check that the plans of an untested DuckDB version are understood; warn if they are not."""
    if duckdb.__version__ not in TESTED_VERSIONS:
        shadow, _ = _shadow_and_predicates()
        plan_format_problem(shadow)


def self_test() -> str | None:
    """Test the running DuckDB, whether its version is tested or not; return the first problem, None without one."""
    shadow, _ = _shadow_and_predicates()
    return find_problem(shadow)


class Connection:
    """Wraps a DuckDB connection; members not defined here are DuckDB's own.

    `sql` and `execute` read the tables by name, each scan pruned by what DuckDB's optimizer would push down to it.
    `last_plans` holds the newest scans (bounded), oldest first. `unserved` maps each table without a native scan to the
    reason, if one was requested where possible (`native="auto"`).
    """

    def __init__(self, runner: StatementRunner, unserved: Mapping[str, str] | None = None) -> None:
        self._runner = runner
        self.last_plans = runner.last_plans
        self.unserved = dict(unserved or {})

    @property
    def native(self) -> duckdb.DuckDBPyConnection:
        """DuckDB's own connection, which does not know the tables."""
        self._runner.changes.handed_out()
        return self._runner.native

    def execute(self, query: Any, parameters: Any = None) -> Connection:
        """Run one or more statements; fetch from the connection itself, as with DuckDB.

        Raises:
            PrunerError: a table cannot be listed completely, or cannot be read by this kind of statement.
            duckdb.Error: DuckDB rejects the statement.
        """
        scope = self._scope(_caller(inspect.currentframe()))
        for statement in self._runner.statements(query, parameters, self._runner.method(lazy=False), scope):
            self._runner.run(statement)
        return self

    def sql(self, query: Any, *, alias: str = "", params: Any = None) -> Any:
        """Return a `LazyRelation` over a SELECT; run any other statement immediately, as DuckDB does.

        The relation plans again each time it runs: it never misses a file that was committed after this call.

        Raises:
            PrunerError: a table cannot be listed completely, or cannot be read by this kind of statement.
            duckdb.Error: DuckDB rejects the statement.
        """
        return self._sql(query, alias, params, self._scope(_caller(inspect.currentframe())))

    def query(self, query: Any, *, alias: str = "", params: Any = None) -> Any:
        """The same as `sql`."""
        return self._sql(query, alias, params, self._scope(_caller(inspect.currentframe())))

    def from_query(self, query: Any, *, alias: str = "", params: Any = None) -> Any:
        """The same as `sql`."""
        return self._sql(query, alias, params, self._scope(_caller(inspect.currentframe())))

    def table(self, table_name: str) -> Any:
        """Return a relation over one table or view by name."""
        return self._named(table_name, "table")

    def view(self, view_name: str) -> Any:
        """The same as `table`."""
        return self._named(view_name, "view")

    def _named(self, name: str, method: str) -> Any:
        runner = self._runner
        if runner.tables.called(name, whole=True) is None and not runner.views.mentioned_in(name):
            return getattr(self.native, method)(name)
        path = ".".join(quote(part.strip('"')) for part in name.split("."))
        return self._sql(f"SELECT * FROM {path}", "", None, NO_VARIABLES)

    def cursor(self) -> Connection:
        """Return another connection to the same database that knows the same tables."""
        return Connection(self._runner.on(self._runner.native.cursor()), self.unserved)

    duplicate = cursor

    def executemany(self, query: Any, parameters: Any = None) -> Connection:
        """Run a statement once for each set of parameters; the rows of the last run can be fetched.

        Raises:
            PrunerError: a table cannot be listed completely, or cannot be read by this kind of statement.
            duckdb.Error: DuckDB rejects the statement.
        """
        runner, scope = self._runner, self._scope(_caller(inspect.currentframe()))
        method = runner.method(lazy=False)
        if not any(map(runner.stored.reads_tables, runner.statements(query, None, method, scope))):
            with runner.changes.during(query):
                runner.native.executemany(query, parameters)
            return self
        for parameter in parameters or (None,):
            for statement in runner.statements(query, parameter, method, scope):
                runner.run(statement)
        return self

    def register(self, view_name: str, python_object: Any) -> Connection:
        """Register a data frame or relation under a name; a relation over pruned tables plans again on each read."""
        self.unregister(view_name)
        if isinstance(python_object, LazyRelation):
            self._runner.registered[view_name] = python_object
        else:
            with self._runner.changes.during():
                self._runner.native.register(view_name, python_object)
        return self

    def unregister(self, view_name: str) -> Connection:
        """Forget what was registered under a name."""
        if self._runner.registered.pop(view_name, None) is None:
            with self._runner.changes.during():
                self._runner.native.unregister(view_name)
        return self

    def _scope(self, frame: FrameType | None) -> Scope:
        return Scope(frame, self._runner.registered)

    def close(self) -> None:
        """Close DuckDB's connection."""
        self._runner.native.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        runner = self._runner
        if name not in CHANGING_NOTHING | SHOWING_CHANGES:
            runner.changes.handed_out()
        member = getattr(runner.native, name)
        return self._returning_self(name, member) if callable(member) else member

    def _returning_self(self, name: str, member: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if name in FETCHING:
                return self._runner.fetched(lambda: member(*arguments, **named))
            with nullcontext() if name in CHANGING_NOTHING else self._runner.changes.during(name):
                result = member(*arguments, **named)
            return self if isinstance(result, duckdb.DuckDBPyConnection) else result

        return call

    def _sql(self, query: Any, alias: str, params: Any, scope: Scope) -> Any:
        runner = self._runner
        # A relation runs later, but with the parameter values of now.
        *before, last = runner.statements(query, copy(params), runner.method(lazy=True), scope)
        for statement in before:
            runner.run(statement)
        if alias:
            last = replace(last, method=runner.method(lazy=True, alias=alias))
        try:
            return self._relation(last)
        except LearnedViews:
            return self._relation(last)

    def _relation(self, statement: Statement) -> LazyRelation | duckdb.DuckDBPyRelation | None:
        """A relation of one statement, lazy where DuckDB's own would be fixed to the present files.

        Raises:
            LearnedViews: the caller must try again.
        """
        runner, scope = self._runner, statement.scope
        statement = runner.stored.written_out(statement)
        form = statement.form

        def make() -> duckdb.DuckDBPyRelation:
            return runner.run(statement)

        def restated(error: duckdb.Error) -> Exception:
            return runner.restated(error, statement)

        made = runner.stored.run(statement)
        if made is not None:
            if not SHOWS_WHAT_WAS_DONE:
                return None
            # Lazy, so that callers get a handle of the database only if they ask for one.
            return LazyRelation(
                lambda: made, restated, runner.tables.look_again, handed_out=runner.changes.handed_out
            )
        if form is None or not form.lazy:
            # DuckDB's relation would be fixed to the files that a lazy relation in a variable reads now.
            variables = runner.lazy_variables(statement)
            result = runner.attempt(statement)
            scope.keep(variables)
            if result is None:
                return None
            if form is not None and form.explains and not variables:
                return LazyRelation(
                    lambda: result, restated, runner.tables.look_again, handed_out=runner.changes.handed_out
                )
            runner.changes.handed_out()
            return LazyRelation(make, restated, runner.tables.look_again) if variables else result
        select = form.select
        scope.keep({reference.path[-1] for reference in select.references if len(reference.path) == 1})
        if form.literal or not runner.rewriter.binds(select, statement.parameters, runner.relation_of(scope)):
            # An error must be raised here, as DuckDB does.
            runner.attempt(statement, record=False)

        def composed(method: str, given: Sequence[object]) -> LazyRelation | None:
            return self._composed(statement, method, given)

        def retry_in_full(error: duckdb.Error, use: Callable[[duckdb.DuckDBPyRelation], Any]) -> Any:
            return runner.retry_in_full(statement, error, use)

        return LazyRelation(
            make, restated, runner.tables.look_again, composed, runner.changes.handed_out, retry_in_full
        )

    def _composed(self, statement: Statement, method: str, given: Sequence[object]) -> LazyRelation | None:
        """A relation whose statement includes what a method adds; None where DuckDB itself must apply or reject it."""
        text = None
        try:
            if method == "filter" and len(given) == 1:
                text = self._filtered(statement, given[0])
            elif method == "order" and len(given) == 1:
                text = self._ordered(statement, given[0])
            elif method == "limit" and given:
                limited = any("LIMIT" in modifier for modifier in _modifiers(self._tree(statement.text)))
                text = None if limited else with_limit(statement.text, *given)
        except NotSelect:
            return None
        whole = None if text is None else statement.with_text(text)
        if whole is None or whole.form is None or not whole.form.lazy:
            return None
        try:
            relation = self._relation(whole)
        except (duckdb.Error, PrunerError, LearnedViews):
            return None
        if method == "limit" and relation is not None:
            names = [folded(name) for name in relation.columns]
            if len(set(names)) < len(names):
                return None  # DuckDB's own method makes the names of its result distinct
        return relation if isinstance(relation, LazyRelation) else None

    def _filtered(self, statement: Statement, condition: object) -> str | None:
        """A statement with a condition; None where the condition is no text, or would read something that it does not
        mean.

        Raises:
            NotSelect: the statement is no SELECT.
        """
        if EXPRESSIONS_ARE_TEXT and isinstance(condition, duckdb.Expression):
            condition = str(condition)  # as DuckDB does
        if not isinstance(condition, str):
            return None
        tables, read = self._runner.tables, read_by(condition, self._runner.rewriter.parse)
        # A condition refers to the variables of the caller of `filter`, not to those of the statement.
        if read is None or statement.scope.has_any(
            reference.path[-1] for reference in read if not tables.of(reference)
        ):
            return None
        tree = self._tree(statement.text)
        beside = shows_a_table(tree) and not tree.get("where_clause") and not read
        asked = self._runner.rewriter.parse(f"SELECT ({condition}\n)")
        alias = None if beside and is_about_columns(asked) else statement.method.alias
        return with_condition(statement.text, condition, alias)

    def _ordered(self, statement: Statement, order: object) -> str | None:
        """A statement with an order; None where the order is no text, or more than an order of columns.

        Raises:
            NotSelect: the statement or the order cannot be parsed as part of a SELECT.
        """
        if not isinstance(order, str):
            return None
        asked = self._runner.rewriter.parse(f"SELECT 1 ORDER BY {order}\n")
        beside = shows_a_table(self._tree(statement.text)) and is_about_columns(asked)
        text = with_order(statement.text, order, None if beside else statement.method.alias)
        plain = text is not None and _modifiers(self._tree(text)) == ["ORDER_MODIFIER"]
        return text if plain and not asked.references else None

    def _tree(self, text: str) -> Mapping[str, Any]:
        """DuckDB's parse tree of a SELECT.

        Raises:
            NotSelect: it is no SELECT, or one whose last part is not at the top of the tree.
        """
        rewriter = self._runner.rewriter
        tree = rewriter.shadow.located_tree(rewriter.parse(text).text)
        if tree["type"] not in ("SELECT_NODE", "SET_OPERATION_NODE"):
            raise NotSelect(f"it is a {tree['type']}", syntax=False)
        return tree


def _modifiers(tree: Mapping[str, Any]) -> list[str]:
    """What follows a SELECT in DuckDB's parse tree: ORDER_MODIFIER, LIMIT_MODIFIER and others."""
    return [str(modifier["type"]) for modifier in tree["modifiers"]]


def _caller(frame: FrameType | None) -> FrameType | None:
    return frame.f_back if frame is not None else None


@overload
def connect(
    tables: Mapping[str, TableSpec],
    database: str = ":memory:",
    config: Mapping[str, Any] | None = None,
    read_only: bool = False,
    native: Literal["off"] = "off",
) -> Connection: ...


@overload
def connect(
    tables: Mapping[str, TableSpec],
    database: str = ":memory:",
    config: Mapping[str, Any] | None = None,
    read_only: bool = False,
    *,
    native: str,
) -> Connection | NativeConnection: ...


def connect(
    tables: Mapping[str, TableSpec],
    database: str = ":memory:",
    config: Mapping[str, Any] | None = None,
    read_only: bool = False,
    native: str = "off",
) -> Connection | NativeConnection:
    """Open a DuckDB database and let its statements read tables of pruner by name.

    Args:
        tables: for each name (optionally with a schema in front) a path or URI, several roots, a
            `pruner.Table`, or a dict with `uri` and the options of `pruner.open_table`, `as_of` and
            `read_optimized`. A table is opened when it is first read.
        database: DuckDB's database file.
        config: DuckDB's configuration.
        read_only: open the database read-only.
        native: "auto" and "on" let DuckDB ask for files while it plans, through an unsigned extension
            (docs/native-scan.md). With "auto", statements are rewritten where that is not possible.

    Raises:
        PrunerError: the database has a table of one of the names, an option is unknown, or there is no native scan and
            `native` is "on".
        duckdb.Error: the database cannot be opened.
    """
    given = dict(config or {})
    native_connection, reason = _native(
        tables,
        native,
        lambda: why_not(database, given),
        lambda *ready: open_native(ready[0], given, read_only, *ready[1:]),
    )
    if native_connection is not None:
        return native_connection
    con = duckdb.connect(database, read_only=read_only, config=given)
    own = database == ":memory:"
    changes = DatabaseChanges(all_pass_here=own, is_pristine=own and are_harmless(config or ()))
    return _attached(con, tables, changes, reason)


def _native(
    tables: Mapping[str, TableSpec],
    native: str,
    why_not: Callable[[], str | None],
    make: Callable[..., NativeConnection],
) -> tuple[NativeConnection | None, str | None]:
    """A connection with the native scan, or the reason why there is none although it was requested.

    Raises:
        PrunerError: an option is unknown, or there is no native scan and `native` is "on".
    """
    if native not in ("off", "auto", "on"):
        raise TableError(f"native is 'off', 'auto' or 'on', not {native!r}")
    if native == "off":
        return None, None
    known = list(_known(tables).values())
    plans: Newest[Scan] = Newest(maxlen=KEPT_PLANS)

    def other_way(con: duckdb.DuckDBPyConnection, rest: Mapping[str, KnownTable]) -> Connection:
        names = TableNames({table.path: table for table in rest.values()})
        return _over(con, names, DatabaseChanges(all_pass_here=False), plans)

    try:
        reason = why_not()
        if reason is not None:
            raise NoExtensionError(reason)
        shadow, _ = _shadow_and_predicates()
        return make(known, shadow, other_way, plans), None
    except NoExtensionError as error:
        if native == "on":
            raise TableError(
                f"the native scan is not available, because {error}; give native='auto' "
                "to have statements rewritten instead"
            ) from None
        LOGGER.info("DuckDB reads tables by rewriting statements: %s", error)
        return None, str(error)


@overload
def attach(
    con: duckdb.DuckDBPyConnection, tables: Mapping[str, TableSpec], native: Literal["off"] = "off"
) -> Connection: ...


@overload
def attach(
    con: duckdb.DuckDBPyConnection, tables: Mapping[str, TableSpec], *, native: str
) -> Connection | NativeConnection: ...


def attach(
    con: duckdb.DuckDBPyConnection, tables: Mapping[str, TableSpec], native: str = "off"
) -> Connection | NativeConnection:
    """Let statements of an existing connection read tables of pruner by name, through the returned wrapper.

    A table or view that DuckDB itself finds under a name hides the table of pruner, as a temporary table hides one of
    the catalog. If it already exists, `attach` rejects the name.

    Args:
        con: DuckDB's connection.
        tables: see `connect`.
        native: see `connect`. The database must be in-memory and allow unsigned extensions; a view is created in it for
            each table.

    Raises:
        PrunerError: the database has a table of one of the names, an option is unknown, or there is no native scan and
            `native` is "on".
    """
    native_connection, reason = _native(
        tables, native, lambda: why_not_attached(con), lambda *ready: attach_native(con, *ready)
    )
    if native_connection is not None:
        return native_connection
    return _attached(con, tables, DatabaseChanges(all_pass_here=False), reason)


def _attached(
    con: duckdb.DuckDBPyConnection,
    tables: Mapping[str, TableSpec],
    changes: DatabaseChanges,
    reason: str | None,
) -> Connection:
    known = _known(tables)
    connection = _over(con, TableNames(known), changes, Newest(maxlen=KEPT_PLANS))
    if reason is not None:
        connection.unserved.update((table.name, reason) for table in known.values())
    return connection


def _over(
    con: duckdb.DuckDBPyConnection, names: TableNames, changes: DatabaseChanges, plans: Newest[Scan]
) -> Connection:
    shadow, predicates = _shadow_and_predicates()
    views = SessionViews(names, shadow)
    runner = StatementRunner(con, Rewriter(names, shadow, predicates), views, plans, changes)
    ask = runner.method(lazy=False).first_row
    _require_free(names, shadow, ask)
    names.begin_in(*ask("SELECT system.main.current_database(), system.main.current_schema()", []))
    if not changes.is_pristine:
        # A new database has no views; listing none takes DuckDB 7 ms, because it creates its own first.
        views.look(ask, for_macros=False)
    return Connection(runner)


def _require_free(names: TableNames, shadow: Shadow, ask: Ask) -> None:
    """Make sure that a session has no table or view under any of the names.

    Raises:
        PrunerError: it has one.
    """
    for path in session_state(ask, shadow, names.paths).known:
        raise name_is_taken(names[path].name)


def _known(tables: Mapping[str, TableSpec]) -> dict[Path, KnownTable]:
    # For callers without a type checker.
    if not isinstance(tables, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TableError(f"tables are given by name, as in {{'flights': 'lake/flights'}}, not as {tables!r}")
    known: dict[Path, KnownTable] = {}
    for name, spec in tables.items():
        table = KnownTable(name, spec)
        if table.path in known:
            raise TableError(
                f"tables {known[table.path].name} and {name} have the same name: DuckDB names are case-insensitive"
            )
        known[table.path] = table
    return known


_PROBED = "probed"

installed_version: str = duckdb.__version__
tested_versions: tuple[str, ...] = tuple(sorted(TESTED_VERSIONS))


def probe(table: Table, plan: Plan) -> None:
    """Read one row of a table as statements do: see `pruner.adapters.ProbingAdapter`."""
    con = connect({_PROBED: table})
    try:
        con.execute(f"SELECT * FROM {_PROBED} LIMIT 1").fetchmany(1)
    except StorageError as error:  # the user did not choose this name
        raise StorageError(str(error).removeprefix(f"table {_PROBED}: ")) from None
    finally:
        con.close()
