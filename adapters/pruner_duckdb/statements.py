"""One statement on its way to DuckDB: rewritten where it reads pruned tables, and run as the caller would run it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from pruner.adapters import Newest
from pruner.errors import PrunerError, TableError
from pruner.tables.hudi.merging.slices import TableChanged
from pruner_duckdb.catalog.views import SessionViews
from pruner_duckdb.index_statements import shown_instead
from pruner_duckdb.plainly import VALUE_ERRORS, AccessPath, FullScan, full_scans_after
from pruner_duckdb.read.reading import Sources
from pruner_duckdb.relation import LazyRelation
from pruner_duckdb.rewrite.errors import refusal, restated
from pruner_duckdb.rewrite.rewrite import Rewriter
from pruner_duckdb.rewrite.statement import Rewritten, Statement
from pruner_duckdb.scans import Scan
from pruner_duckdb.session.scope import Method, Scope
from pruner_duckdb.shadow.answers import AnswerCache, DatabaseChanges
from pruner_duckdb.shadow.predicates import Parameters
from pruner_duckdb.sql.select import NotSelect
from pruner_duckdb.stored import StoredDefinitions

if TYPE_CHECKING:
    pass

_MISSING_TABLE = re.compile(r"Table with name \"?(.+?)\"? does not exist")


_TOO_LATE = FullScan(
    AccessPath.SCAN, "the statement may have begun later than the moments in it were planned for"
)

_Result = TypeVar("_Result")


def _as_it_is(made: Any) -> Any:
    return made


class LearnedViews(Exception):  # noqa: N818 - never reaches a user
    """The statement reads a view that was not known to read a table of pruner; now it is, and a retry will succeed."""


class StatementRunner:
    """Runs statements on one DuckDB connection."""

    def __init__(
        self,
        native: duckdb.DuckDBPyConnection,
        rewriter: Rewriter,
        views: SessionViews,
        last_plans: Newest[Scan],
        changes: DatabaseChanges,
    ) -> None:
        self.native = native
        self.rewriter = rewriter
        self.tables = rewriter.tables
        self.views = views
        self.last_plans = last_plans
        self.changes = changes
        self._answers = AnswerCache(changes)
        self.registered: dict[str, LazyRelation] = {}
        self.stored = StoredDefinitions(native, rewriter.tables, views, changes)
        self._recording = True
        self._sources: Sources = {}
        self._unread: Statement | None = None
        """The statement over pruned tables that `execute` ran last, until its rows are first fetched."""

    def on(self, native: duckdb.DuckDBPyConnection) -> StatementRunner:
        """A runner for another connection to the same database."""
        return StatementRunner(native, self.rewriter, self.views, self.last_plans, self.changes)

    def method(self, *, lazy: bool, alias: str = "") -> Method:
        """One of the two ways to run a statement."""
        return Method(self.native, lazy, self._answers, alias)

    def statements(
        self, query: Any, parameters: Parameters, method: Method, scope: Scope
    ) -> Sequence[Statement]:
        """The statements of a text, in order; only the last one takes parameters, as with DuckDB."""
        if isinstance(query, duckdb.Statement) and self.stored.concern(query.query):
            query = query.query

        def statement(text: Any, values: Parameters) -> Statement:
            return Statement(text, values, method, scope, self.tables, self.rewriter.parse)

        if not isinstance(query, str) or ";" not in query or not self.stored.concern(query):
            return [statement(query, parameters)]
        try:
            parts = [str(statement.query) for statement in self.native.extract_statements(query)]
        except duckdb.Error:
            return [statement(query, parameters)]
        if len(parts) < 2:
            return [statement(query, parameters)]
        return [*(statement(part, None) for part in parts[:-1]), statement(parts[-1], parameters)]

    def run(self, statement: Statement, *, record: bool = True) -> Any:
        """Run one statement; if a file was removed after planning, plan again, once.

        Args:
            statement: the statement.
            record: whether its scans are logged and remembered.

        Raises:
            PrunerError: a table cannot be listed completely, or cannot be read by this kind of statement.
            duckdb.Error: DuckDB rejects the statement.
        """
        try:
            return self.attempt(statement, record=record)
        except LearnedViews:
            return self.attempt(statement, record=record)

    def attempt(self, statement: Statement, *, record: bool = True) -> Any:
        """The same as `run`, without the retry for a view that must be learned first.

        Raises:
            LearnedViews: a view was learned; the caller must try again.
        """
        self._unread = None
        about_index = shown_instead(statement, self.rewriter.shadow)
        if about_index is not None:
            return statement.with_text(about_index).call()
        made = self.stored.run(statement)
        if made is not None:
            return made
        statement = self.stored.written_out(statement)
        try:
            rewritten = self._rewritten(statement)
        except TableChanged:
            self.tables.look_again()
            rewritten = self._rewritten(statement)
        if rewritten is None:
            return self._unchanged(statement)
        try:
            made = self._call_in_time(rewritten, statement, record)
            self._unread = None if statement.method.lazy else statement
            return made
        except (duckdb.IOException, TableError):
            self.tables.look_again()
            again = self._rewritten(statement)
            if again is None or _snapshots(again) == _snapshots(rewritten):
                raise
            return self._call_in_time(again, statement, record)
        except VALUE_ERRORS as error:
            return self.retry_in_full(statement, error, record=record)

    def retry_in_full(
        self,
        statement: Statement,
        error: duckdb.Error,
        use: Callable[[Any], _Result] = _as_it_is,
        *,
        record: bool = True,
    ) -> _Result:
        """Run a statement that failed for a value as DuckDB alone would (see `pruner_duckdb.plainly`).

        Args:
            statement: the statement.
            error: how it failed.
            use: is applied to its result.
            record: whether its scans are logged and remembered.

        Raises:
            duckdb.Error: it fails this way, too; the first error is raised.
        """
        relation_of = self.relation_of(statement.scope)
        tried: set[str] = set()
        for full_scan in full_scans_after(error):
            try:
                again = self.rewriter.in_full(statement, relation_of, full_scan)
                if again is not None and again.form not in tried:
                    tried.add(again.form)
                    return self._run_again(again, statement, use, record=record)
            except (duckdb.Error, PrunerError):
                continue  # in a transaction the first error has ended it
        raise error

    def fetched(self, fetch: Callable[[], _Result]) -> _Result:
        """Fetch from DuckDB's result. A value may make the statement fail only at the first fetch: DuckDB continues to
        execute while rows are fetched.
        """
        statement, self._unread = self._unread, None
        try:
            return fetch()
        except VALUE_ERRORS as error:
            if statement is None:
                raise
            return self.retry_in_full(statement, error, lambda _: fetch())

    def lazy_variables(self, statement: Statement) -> set[str]:
        """Names of the variables holding a `LazyRelation` that a SELECT reads, as DuckDB reads data frames."""
        names = {name.lower(): name for name in statement.scope.lazy_names()}
        if not names or not isinstance(statement.text, str):
            return set()
        try:
            references = statement.parse(statement.text).references
        except NotSelect:
            return set()
        return {
            names[reference.path[0].lower()] for reference in references if reference.path[0].lower() in names
        }

    def relation_of(self, scope: Scope) -> Callable[[str], duckdb.DuckDBPyRelation]:
        """Return a function that makes relations of queries over the user's variables, only for their shapes."""

        def relation(sql: str) -> duckdb.DuckDBPyRelation:
            self._recording = False
            try:
                return scope.call(self.native.sql, sql, {})
            finally:
                self._recording = True

        return relation

    def _rewritten(self, statement: Statement) -> Rewritten | None:
        if not statement.mentions_table:
            return None
        return self.rewriter.rewrite(statement, self.relation_of(statement.scope))

    def _record(self, rewritten: Rewritten, record: bool) -> None:
        for scan in rewritten.scans if record and self._recording else ():
            self.last_plans.append(scan)
            scan.log()

    def _call_rewritten(self, rewritten: Rewritten, statement: Statement) -> Any:
        self._sources = rewritten.sources
        method, scope = statement.method, statement.scope
        try:
            named = method.named(rewritten.parameters)
            with nullcontext() if rewritten.harmless else self.changes.during(statement.text):
                return scope.call(method.call, rewritten.to_run, named, sources=rewritten.sources)
        except duckdb.Error as error:
            self.changes.happened()
            if isinstance(error, duckdb.CatalogException):
                self._learn_views(error, statement.with_text(rewritten.sql))
            raise self.restated(error, statement) from error.__cause__

    def _call_in_time(self, rewritten: Rewritten, statement: Statement, record: bool) -> Any:
        """Run a statement, and run it again over all files if it may have begun too late for its plan.

        DuckDB's `now()` is the start of the transaction by this machine's clock, and that was before now.
        """
        self._record(rewritten, record)
        made = self._call_rewritten(rewritten, statement)
        if rewritten.begins_by is None or time.time_ns() <= rewritten.begins_by:
            return made
        again = self.rewriter.in_full(statement, self.relation_of(statement.scope), _TOO_LATE)
        if again is None:
            raise PrunerError("the tables of the statement were gone before it began: run it again")
        return self._run_again(again, statement, _as_it_is, record=record)

    def _run_again(
        self, again: Rewritten, statement: Statement, use: Callable[[Any], _Result], *, record: bool
    ) -> _Result:
        """Run a statement again, over all files; its scans are recorded once its result has been used successfully."""
        result = use(self._call_rewritten(again, statement))
        self._record(again, record)
        return result

    def restated(self, error: duckdb.Error, statement: Statement) -> Exception:
        """Restate an error of DuckDB in terms of the original statement; if reading merged rows failed, return the
        underlying error of pruner.
        """
        failures = [source.failure for source in self._sources.values() if source.failure is not None]
        if failures:
            return failures[0]
        named = [source for name, source in self._sources.items() if name in str(error)]
        if named:
            return named[0].hidden()
        return restated(error, statement.written, self.tables.written, with_place=not statement.executes)

    def _unchanged(self, statement: Statement) -> Any:
        self.rewriter.meaning.macros.may_change(str(statement.text))
        try:
            with self.changes.during(statement.text):
                return statement.call()
        except duckdb.CatalogException as error:
            self._learn_views(error, statement)
            raise restated(error, statement.written, self.tables.written) from error.__cause__

    def _learn_views(self, error: duckdb.CatalogException, statement: Statement) -> None:
        """Find out why DuckDB does not find one of the tables, if that is what the error says.

        Raises:
            LearnedViews: the statement reads it through a view.
            PrunerError: the statement is of a kind that cannot read it.
        """
        missing = _MISSING_TABLE.search(str(error))
        name = self.tables.called(missing.group(1)) if missing else None
        if name is None:
            return
        try:
            others = self.views.look(statement.first_row)
        except duckdb.Error:
            raise PrunerError(
                f"the error about table {name} has ended the transaction: call a macro of an earlier session or of "
                "another handle once before BEGIN"
            ) from error
        if others and self.views.mentioned_in(str(statement.text)):
            raise LearnedViews from None
        written = str(statement.text)
        if missing is not None and not self.tables.is_meant(missing.group(1), name, written):
            return  # another schema, or a part of the name: DuckDB's error that there is no such table stands
        macro = self.views.macro_in(written)
        if macro is not None:
            raise PrunerError(
                f"macro {macro} reads table {name}, and this call of it is not understood: give it one argument for "
                "each parameter"
            ) from error
        raise refusal(name, written, statement.tokens) from error


def _snapshots(rewritten: Rewritten) -> list[str]:
    return [scan.snapshot_id for scan in rewritten.scans]
