"""A connection whose tables are views over the native scan, and how it is opened."""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import Any, Final, TypeAlias

import duckdb

from pruner.adapters import Newest
from pruner.errors import PrunerError, TableError
from pruner.expr.nodes import Column, IsNull
from pruner_duckdb.catalog.stores import grant_to
from pruner_duckdb.catalog.tables import SEMANTICS, KnownTable, name_is_taken
from pruner_duckdb.native_scan.answering import TableAnswers
from pruner_duckdb.native_scan.library import Library, NoExtensionError, Workers, load, reason_against
from pruner_duckdb.native_scan.serving import not_served, pin
from pruner_duckdb.scans import LOGGER, Scan
from pruner_duckdb.session.scope import called_as_by
from pruner_duckdb.shadow.shadow import Shadow
from pruner_duckdb.types import is_remote, quote, quote_text

OtherWay: TypeAlias = "Callable[[duckdb.DuckDBPyConnection, Mapping[str, KnownTable]], Any]"
"""Makes a connection that rewrites statements for some tables."""

_REMOVED: Final = "was removed while the statement ran"
"""Part of the extension's error about a file that existed when the statement was planned."""

_UNSIGNED: Final = "allow_unsigned_extensions"


class _Process:
    """What all databases of this process share: the answering threads, and the tables of each database."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._workers: Workers | None = None
        self._databases: dict[str, TableAnswers] = {}

    def serve(self, library: Library, database: str, answers: TableAnswers) -> None:
        """Answer for one more database.

        Raises:
            NoExtensionError: the database is already served.
        """
        with self._lock:
            if database in self._databases:
                raise NoExtensionError("the database has a native scan of other tables")
            if self._workers is None or self._pid != os.getpid():
                # Threads do not survive a fork.
                self._pid = os.getpid()
                self._workers = Workers(library, self._answer)
            self._databases[database] = answers

    def forget(self, database: str) -> None:
        """Stop answering for a database."""
        self._databases.pop(database, None)

    def settle(self) -> None:
        """Wait until every scan that has begun is recorded."""
        if self._workers is not None and self._pid == os.getpid():
            self._workers.settle()

    def _answer(self, question: dict[str, Any]) -> Sequence[str]:
        if question["kind"] == "told":
            for message in question["messages"]:
                # An error with the message of one database must not affect the others.
                with contextlib.suppress(Exception):
                    self._answer(message)
            return ()
        if question["kind"] == "gone":
            self.forget(question["database"])
            return ()
        answers = self._databases.get(question["database"])
        if answers is None:
            raise TableError("nobody knows the tables of this database any more")
        return answers.answer(question)


_process: list[_Process] = []
_process_lock = threading.Lock()


def _shared() -> _Process:
    with _process_lock:
        if not _process:
            _process.append(_Process())
        return _process[0]


class NativeConnection:
    """Wraps a DuckDB connection in whose catalog the tables are views; members not defined here are DuckDB's own.

    `last_plans` holds the newest scans (bounded), oldest first. `unserved` maps the tables that are read by rewriting
    statements to the reasons; if there are any, statements go through a connection of that kind.
    """

    def __init__(self, inner: Any, last_plans: Newest[Scan], unserved: Mapping[str, str]) -> None:
        self._inner = inner
        self._last_plans = last_plans
        self.unserved = dict(unserved)

    @property
    def last_plans(self) -> Newest[Scan]:
        """The newest scans, oldest first."""
        _shared().settle()
        return self._last_plans

    @property
    def native(self) -> duckdb.DuckDBPyConnection:
        """DuckDB's own connection, which knows those tables that are views."""
        inner = self._inner
        return inner if isinstance(inner, duckdb.DuckDBPyConnection) else inner.native

    def cursor(self) -> NativeConnection:
        """Return another connection to the same database, and so to the same tables."""
        return NativeConnection(self._inner.cursor(), self._last_plans, self.unserved)

    duplicate = cursor

    def __enter__(self) -> NativeConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self._inner.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        # DuckDB looks for data frames among the caller's variables: there must be no call of ours in between.
        if name == "execute" and self._inner is self.native:
            return self._execute
        return getattr(self._inner, name)

    def _execute(self, query: Any, parameters: Any = None) -> duckdb.DuckDBPyConnection:
        """Run one or more statements; a single SELECT that misses a removed file runs again, once."""
        # A frame that references itself would keep the caller's variables alive until garbage collection.
        caller = _caller(inspect.currentframe())
        run = partial(called_as_by, caller, self._inner.execute, query, {"parameters": parameters})
        try:
            return run()
        except duckdb.IOException as error:
            if _REMOVED not in str(error) or not self._reads_alone(query):
                raise
            with contextlib.suppress(duckdb.Error):  # in a transaction the first error has ended it
                return run()
            raise

    def _reads_alone(self, query: Any) -> bool:
        """Whether a text is a single statement that writes nothing."""
        statements = [query] if isinstance(query, duckdb.Statement) else self._inner.extract_statements(query)
        return [statement.type for statement in statements] == [duckdb.StatementType.SELECT]


def _caller(frame: FrameType | None) -> FrameType | None:
    return frame.f_back if frame is not None else None


def why_not(database: str, config: Mapping[str, Any]) -> str | None:
    """Return why a connection cannot have a native scan at all; None if it may.

    Args:
        database: DuckDB's database file.
        config: DuckDB's configuration, as the caller gave it.
    """
    if database != ":memory:":
        return "the views of the native scan would be left behind in a database file"
    allowed = config.get(_UNSIGNED)
    if allowed is not None and str(allowed).lower() not in ("true", "1"):
        return f"the configuration has {_UNSIGNED} = {allowed}"
    if str(config.get("enable_external_access", True)).lower() in ("false", "0"):
        return "the configuration has enable_external_access = false"
    return reason_against()


def why_not_attached(con: duckdb.DuckDBPyConnection) -> str | None:
    """Return why an existing connection cannot have a native scan at all; None if it may."""
    if not _value(con, f"SELECT current_setting('{_UNSIGNED}')"):
        return f"the database was opened with {_UNSIGNED} = false"
    if not _value(con, "SELECT current_setting('enable_external_access')"):
        return "the database has enable_external_access = false"
    here = "database_name = system.main.current_database()"
    if _value(con, f"SELECT path IS NOT NULL FROM system.main.duckdb_databases() WHERE {here}"):
        return "the views of the native scan would be left behind in a database file"
    return reason_against()


def open_native(
    known: Sequence[KnownTable],
    config: Mapping[str, Any],
    read_only: bool,
    shadow: Shadow,
    other_way: OtherWay,
    last_plans: Newest[Scan],
) -> NativeConnection:
    """Open an in-memory database with a view for each table that the native scan can read.

    Args:
        known: the tables.
        config: DuckDB's configuration.
        read_only: open the database read-only.
        shadow: describes files.
        other_way: makes a connection of the other kind for tables that the native scan cannot read.
        last_plans: receives the scans.

    Raises:
        NoExtensionError: the extension cannot be loaded, or does not work as expected.
        PrunerError: the name of a table is taken.
    """
    con = duckdb.connect(":memory:", read_only=read_only, config={**config, _UNSIGNED: "true"})
    try:
        return attach_native(con, known, shadow, other_way, last_plans, own=True)
    except BaseException:
        con.close()
        raise


def attach_native(
    con: duckdb.DuckDBPyConnection,
    known: Sequence[KnownTable],
    shadow: Shadow,
    other_way: OtherWay,
    last_plans: Newest[Scan],
    *,
    own: bool = False,
) -> NativeConnection:
    """Create a view in an in-memory database for each table that the native scan can read.

    Args:
        con: a connection to the database, which allows unsigned extensions.
        known: the tables.
        shadow: describes files.
        other_way: makes a connection of the other kind for tables that the native scan cannot read.
        last_plans: receives the scans.
        own: whether no one else uses the database: then no other unsigned extension can be loaded afterwards.

    Raises:
        NoExtensionError: the extension cannot be loaded, or does not work as expected.
        PrunerError: the name of a table is taken.
    """
    made: list[str] = []
    try:
        library = load(con)
        if own:
            # Users of the connection cannot load another one: DuckDB does not allow this to be set to true at runtime.
            con.execute(f"SET {_UNSIGNED} = false")
        unserved = _unserved(con, known, shadow)
        served = [table for table in known if table.name not in unserved]
        database = str(_value(con, "SELECT system.main.pruner_database()"))
        _shared().serve(library, database, TableAnswers(served, shadow, last_plans))
        try:
            for each in served:
                made.append(_make_view(con, each))
            _require_answers(con, served)
            _warm(served, shadow)
        except BaseException:
            for path in made:
                con.execute(f"DROP VIEW {path}")
            _shared().forget(database)
            raise
    except duckdb.Error as error:
        first_line = str(error).strip().split("\n", 1)[0]
        raise NoExtensionError(f"the extension does not do what it is meant to ({first_line})") from error
    for name, reason in unserved.items():
        LOGGER.info("table %s is read by rewriting statements: %s", name, reason)
    if not unserved:
        return NativeConnection(con, last_plans, {})
    rest = {table.name: table for table in known if table.name in unserved}
    return NativeConnection(other_way(con, rest), last_plans, unserved)


def _unserved(con: duckdb.DuckDBPyConnection, known: Sequence[KnownTable], shadow: Shadow) -> dict[str, str]:
    def ask(query: Any, values: list[Any]) -> tuple[Any, ...]:
        return con.execute(query, values).fetchall()[0]

    reasons: dict[str, str] = {}
    for table in known:
        if len(table.path) > 2:
            reasons[table.name] = "the native scan does not serve tables of other catalogs yet"
            continue
        try:
            reason = not_served(table, shadow)
            if reason is None:
                grant_to(ask, table.name, table.table, table.snapshot().data)
        except PrunerError as error:
            # Reported when the table is read, as usual.
            reason = str(error)
        if reason is not None:
            reasons[table.name] = reason
    return reasons


def _make_view(con: duckdb.DuckDBPyConnection, known: KnownTable) -> str:
    """Create the view of a table; return its name in SQL.

    Raises:
        TableError: the name is taken.
    """
    *schema, name = known.name.split(".")
    for field in schema:
        con.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(field)}")
    path = ".".join(map(quote, [*schema, name]))
    try:
        con.execute(f"CREATE VIEW {path} AS SELECT * FROM system.main.pruner_scan({quote_text(known.name)})")
    except duckdb.CatalogException:
        raise name_is_taken(known.name) from None
    return path


def _require_answers(con: duckdb.DuckDBPyConnection, served: Sequence[KnownTable]) -> None:
    """Make sure that the extension asks and accepts answers, by a statement that needs no row of a table.

    Raises:
        NoExtensionError: it returns rows.
        duckdb.Error: the statement fails.
    """
    for table in served[:1]:
        path = ".".join(map(quote, table.name.split(".")))
        if _value(con, f"SELECT count(*) FROM (SELECT * FROM {path} WHERE false)") != 0:
            raise NoExtensionError("the extension returns rows where there are none")


def _warm(served: Sequence[KnownTable], shadow: Shadow) -> None:
    """Import what plans need now; otherwise the first statement would wait for it."""
    seen: set[str] = set()
    for table in served:
        if is_remote(table.table.uri):
            continue
        with contextlib.suppress(PrunerError):
            for definition in table.table.indexes():
                if definition.using not in seen and definition.fields:
                    seen.add(definition.using)
                    column = Column(tuple(definition.fields[0].path))
                    pin(table, table.snapshot(), shadow).plan(IsNull(column), None, SEMANTICS)


def _value(con: duckdb.DuckDBPyConnection, query: str) -> Any:
    # A partially read result would keep the connection busy.
    rows = con.execute(query).fetchall()
    return rows[0][0] if rows else None
