"""One statement on its way to DuckDB: rewritten where it reads pruned tables, run as the caller would."""

from __future__ import annotations

import builtins
import re
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import duckdb

from pruner.errors import PrunerError, TableError
from pruner_duckdb.forms import Form, form_of
from pruner_duckdb.merging import TableChanged
from pruner_duckdb.predicates import Parameters
from pruner_duckdb.prepared import PreparedStatements
from pruner_duckdb.reading import Sources
from pruner_duckdb.relation import LazyRelation
from pruner_duckdb.rewrite import Rewriter, Rewritten
from pruner_duckdb.scans import Scan
from pruner_duckdb.session import Ask
from pruner_duckdb.statement import NotSelect
from pruner_duckdb.types import quote_text
from pruner_duckdb.views import is_create_view

_SCOPED_CALL = compile("__pruner_call(__pruner_sql, **__pruner_named)", "<pruner>", "eval")
_MISSING_TABLE = re.compile(r"Table with name \"?(.+?)\"? does not exist")


class Scope:
    """The variables that the caller of `sql` or `execute` sees: DuckDB reads data frames from them.

    A relation that was registered under a name stands before a variable of that name.
    """

    def __init__(self, frame: FrameType | None, registered: Mapping[str, LazyRelation] | None = None) -> None:
        self._registered = registered or {}
        self._locals: Mapping[str, Any] = frame.f_locals if frame is not None else {}
        self._globals: Mapping[str, Any] = frame.f_globals if frame is not None else {}

    def keep(self, names: set[str]) -> None:
        """Hold on to these variables alone, for later."""
        self._locals = {name: self._locals[name] for name in names if name in self._locals}
        self._globals = {name: self._globals[name] for name in names if name in self._globals}

    def lazy_names(self) -> set[str]:
        """Names of variables that hold a `LazyRelation`."""
        names = (*self._globals.items(), *self._locals.items(), *self._registered.items())
        return {name for name, value in names if isinstance(value, LazyRelation)}

    def call(
        self,
        function: Callable[..., Any],
        sql: Any,
        named: dict[str, Any],
        tables: Container[str] = (),
        sources: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a method of DuckDB as from the caller's frame, with `sources` beside the caller's variables; no
        variable stands in for one of `tables`.
        """
        every = {**self._globals, **self._locals, **self._registered}
        lowered = str(sql).lower()
        variables = {
            key: value.native() if isinstance(value, LazyRelation) else value
            for key, value in every.items()
            if not key.startswith("__")
            and key.lower() not in tables
            and (not isinstance(value, LazyRelation) or _names(lowered, key.lower()))
        }
        internal = {"__pruner_call": function, "__pruner_sql": sql, "__pruner_named": named}
        return eval(_SCOPED_CALL, {"__builtins__": builtins}, {**variables, **internal, **(sources or {})})


def _names(text: str, variable: str) -> bool:
    """Tell whether a text may name a variable, both in lower case: a relation that it does not name is not to run."""
    return re.search(rf"(?<!\w){re.escape(variable)}(?!\w)", text) is not None


NOWHERE = Scope(None)


class LearnedViews(Exception):  # noqa: N818 - never reaches a user
    """The statement reads a view that was not known to read a table of pruner; now it is: begin again."""


@dataclass(frozen=True)
class Method:
    """`execute` or `sql` of DuckDB's connection, with the name by which it takes parameters."""

    call: Callable[..., Any]
    parameters_name: str
    options: dict[str, Any] = field(default_factory=dict[str, Any])


class Runner:
    """Runs statements on one DuckDB connection."""

    def __init__(
        self, native: duckdb.DuckDBPyConnection, rewriter: Rewriter, last_plans: deque[Scan]
    ) -> None:
        self.native = native
        self.rewriter = rewriter
        self.last_plans = last_plans
        self.registered: dict[str, LazyRelation] = {}
        self._prepared = PreparedStatements()
        self._recording = True
        self._sources: Sources = {}

    def run(
        self, text: Any, parameters: Parameters, method: Method, scope: Scope, *, record: bool = True
    ) -> Any:
        """Run one statement; a file that was removed in between is met by planning again, once.

        Args:
            text: the statement.
            parameters: the user's.
            method: through which of DuckDB's methods.
            scope: what the user's variables are.
            record: whether its scans are logged and remembered.

        Raises:
            PrunerError: a table cannot be listed completely, or not be read by this kind of statement.
            duckdb.Error: whatever DuckDB refuses.
        """
        try:
            return self.attempt(text, parameters, method, scope, record=record)
        except LearnedViews:
            return self.attempt(text, parameters, method, scope, record=record)

    def attempt(
        self, text: Any, parameters: Parameters, method: Method, scope: Scope, *, record: bool = True
    ) -> Any:
        """The same as `run`, except that a view may be met which has to be learned first.

        Raises:
            LearnedViews: begin again.
        """
        if isinstance(text, str):
            if self._outlives(text, method, scope):
                return None
            text = self.written_out(text, method)
        try:
            rewritten = self._rewritten(text, parameters, method, scope)
        except TableChanged:
            self.rewriter.look_again()
            rewritten = self._rewritten(text, parameters, method, scope)
        if rewritten is None:
            return self._unchanged(text, parameters, method, scope)
        try:
            return self._call_rewritten(rewritten, method, scope, record)
        except (duckdb.IOException, TableError):
            self.rewriter.look_again()
            again = self._rewritten(text, parameters, method, scope)
            if again is None or _snapshots(again) == _snapshots(rewritten):
                raise
            return self._call_rewritten(again, method, scope, record)

    def statements(self, query: Any, parameters: Parameters) -> Sequence[tuple[Any, Parameters]]:
        """The statements of a text one by one; only the last one takes parameters, as with DuckDB."""
        if not isinstance(query, str) or ";" not in query or not self._concerns(query):
            return [(query, parameters)]
        try:
            parts = [str(each.query) for each in self.native.extract_statements(query)]
        except duckdb.Error:
            return [(query, parameters)]
        if len(parts) < 2:
            return [(query, parameters)]
        return [*((part, None) for part in parts[:-1]), (parts[-1], parameters)]

    def _concerns(self, text: str) -> bool:
        """Tell cheaply whether a text may read a table, a view or a prepared statement of ours."""
        rewriter = self.rewriter
        return rewriter.mentions_table(text) or rewriter.views.mentioned_in(text) or self._prepared.any

    def form(self, text: Any) -> Form | None:
        """The statement taken apart, if it may read one of the tables and is of a kind that can."""
        if not isinstance(text, str) or not self.rewriter.mentions_table(text):
            return None
        form = form_of(text, self.rewriter.shadow.parse)
        return form if form is not None and self.rewriter.candidates(form.select) else None

    def written_out(self, text: str, method: Method) -> str:
        """Put what EXECUTE stands for, and the texts of views, into the place of their names.

        Raises:
            PrunerError: the arguments do not fit the statement, or a name in a view would mean another thing.
        """
        text = self._prepared.executed(text, lambda value: self._value_of(value, method))
        views = self.rewriter.views
        return views.expanded(text, self._asking(method)) if views.mentioned_in(text) else text

    def _value_of(self, expression: str, method: Method) -> str:
        """A literal of an expression's value, with its type."""
        data_type, value = self._ask(
            "SELECT system.main.typeof(pruner_value), pruner_value::VARCHAR FROM "
            f"(SELECT ({expression}) AS pruner_value)",
            [],
            method,
        )
        return f"{'NULL' if value is None else quote_text(value)}::{data_type}"

    def _outlives(self, text: str, method: Method, scope: Scope) -> bool:
        """Run a statement that outlives its run, PREPARE or CREATE VIEW, if it reads one of the tables."""
        rewriter = self.rewriter
        ours = rewriter.mentions_table(text) or rewriter.views.mentioned_in(text)
        if ours and is_create_view(text):
            rewriter.views.create(lambda sql: _call(sql, None, method, scope), self._asking(method), text)
            return True
        return self._prepared.keep(text, lambda statement: self.reads_tables(statement, method))

    def reads_tables(self, statement: Any, method: Method) -> bool:
        """Tell whether a statement names one of the tables, itself or by way of a view or a prepared statement."""
        if not isinstance(statement, str) or not self._concerns(statement):
            return False
        return self.form(self.written_out(statement, method)) is not None

    def lazy_variables(self, text: Any, scope: Scope) -> set[str]:
        """Names of the variables with a `LazyRelation` that a SELECT reads, as DuckDB reads data frames."""
        names = {name.lower(): name for name in scope.lazy_names()}
        if not names or not isinstance(text, str):
            return set()
        try:
            references = self.rewriter.shadow.parse(text).references
        except NotSelect:
            return set()
        return {names[each.path[0].lower()] for each in references if each.path[0].lower() in names}

    def relation_of(self, scope: Scope) -> Callable[[str], duckdb.DuckDBPyRelation]:
        """Makes a relation of a query that sees the user's variables, to look at its shape: nothing is read."""

        def relation(sql: str) -> duckdb.DuckDBPyRelation:
            self._recording = False
            try:
                return scope.call(self.native.sql, sql, {})
            finally:
                self._recording = True

        return relation

    def _rewritten(self, text: Any, parameters: Parameters, method: Method, scope: Scope) -> Rewritten | None:
        if not isinstance(text, str) or not self.rewriter.mentions_table(text):
            return None

        form = self.form(text)
        if form is None:
            return None
        return self.rewriter.rewrite(form, parameters, self._asking(method), self.relation_of(scope))

    def _call_rewritten(self, rewritten: Rewritten, method: Method, scope: Scope, record: bool) -> Any:
        for scan in rewritten.scans if record and self._recording else ():
            self.last_plans.append(scan)
            scan.log()
        self._sources = rewritten.sources
        try:
            return _call(rewritten.sql, rewritten.parameters, method, scope, sources=rewritten.sources)
        except duckdb.Error as error:
            if isinstance(error, duckdb.CatalogException):
                self._learn_views(error, rewritten.sql, method)
            raise self.told(error) from error.__cause__

    def told(self, error: duckdb.Error) -> Exception:
        """The error of pruner behind one of DuckDB's, where reading merged rows was what failed."""
        failures = [source.failure for source in self._sources.values() if source.failure is not None]
        if failures:
            return failures[0]
        if any(name in str(error) for name in self._sources):
            return PrunerError(
                "slices with log files cannot be read while python_enable_replacements is false: "
                "SET python_enable_replacements = true, or give the table the option read_optimized"
            )
        return error

    def _unchanged(self, text: Any, parameters: Parameters, method: Method, scope: Scope) -> Any:
        try:
            return _call(text, parameters, method, scope, self.rewriter.plain_names)
        except duckdb.CatalogException as error:
            self._learn_views(error, text, method)
            raise

    def _learn_views(self, error: duckdb.CatalogException, text: Any, method: Method) -> None:
        """Find out why DuckDB misses one of the tables, if that is what the error says.

        Raises:
            LearnedViews: the statement reads it by way of a view.
            PrunerError: the statement is of a kind that cannot read it.
        """
        missing = _MISSING_TABLE.search(str(error))
        name = self.rewriter.table_called(missing.group(1)) if missing else None
        if name is None:
            return
        views = self.rewriter.views
        if not views.mentioned_in(str(text)):
            try:
                views.look(self._asking(method))
            except duckdb.Error:  # the error ended the user's transaction
                raise error from None
            if views.mentioned_in(str(text)):
                raise LearnedViews from None
        raise PrunerError(
            f"table {name} cannot be read in this kind of statement, nor changed by any: use a query, a view, "
            "a prepared statement, or CREATE TABLE … AS"
        ) from error

    def _asking(self, method: Method) -> Ask:
        return lambda sql, values: self._ask(sql, values, method)

    def _ask(self, sql: str | duckdb.Statement, parameters: list[object], method: Method) -> tuple[Any, ...]:
        # Through the statement's own method: the other one may meet a result not fetched to its end.
        rows = _call(sql, parameters or None, Method(method.call, method.parameters_name), NOWHERE).fetchall()
        return tuple(rows[0])


def _call(
    sql: Any,
    parameters: Any,
    method: Method,
    scope: Scope,
    tables: Container[str] = (),
    sources: Sources | None = None,
) -> Any:
    named = dict(method.options)
    if parameters is not None:
        named[method.parameters_name] = parameters
    return scope.call(method.call, sql, named, tables, sources)


def _snapshots(rewritten: Rewritten) -> list[str]:
    return [scan.snapshot_id for scan in rewritten.scans]
