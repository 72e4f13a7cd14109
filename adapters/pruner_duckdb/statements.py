"""One statement on its way to DuckDB: rewritten where it reads pruned tables, run as the caller would."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import duckdb

from pruner.adapters import Newest
from pruner.ddl import CreateIndex, DropIndex, SqlResult, StatementError, execute, parse_statement
from pruner.errors import PrunerError, TableError
from pruner.tables.hudi.merging.slices import TableChanged
from pruner_duckdb.catalog.table_macros import is_create_table_macro
from pruner_duckdb.catalog.views import SessionViews, is_create_view
from pruner_duckdb.plainly import VALUE_ERRORS, AccessPath, FullScan, full_scans_after
from pruner_duckdb.read.reading import Sources
from pruner_duckdb.relation import LazyRelation
from pruner_duckdb.rewrite.errors import refusal, restated
from pruner_duckdb.rewrite.markers import without_gone
from pruner_duckdb.rewrite.rewrite import Rewriter
from pruner_duckdb.rewrite.statement import Rewritten, Statement
from pruner_duckdb.scans import Scan
from pruner_duckdb.session.scope import Method, Scope
from pruner_duckdb.session.session import session_state
from pruner_duckdb.shadow.answers import AnswerCache, DatabaseChanges
from pruner_duckdb.shadow.predicates import Parameters
from pruner_duckdb.sql.select import NotSelect, Span, splice
from pruner_duckdb.sql.tokens import CLOSING, OPENING, Token, tokens
from pruner_duckdb.types import quote, quote_text

if TYPE_CHECKING:
    from pruner import Table
    from pruner_duckdb.catalog.tables import KnownTable, TableNames
    from pruner_duckdb.shadow.shadow import Shadow

# PREPARE, EXECUTE and DEALLOCATE of statements over tables of pruner: their text is kept, never a list of files.
#
# Each EXECUTE becomes the statement itself with the values of its arguments in the place of its parameters.

_CONCERNED = re.compile("prepare|deallocate", re.IGNORECASE)


class WrongArgumentsError(PrunerError):
    """An EXECUTE gives other parameters than its statement takes, for which DuckDB has an error of its own.

    `stand_in` is a PREPARE of the same name with the same parameters that reads nothing, `name` that name, quoted.
    """

    def __init__(self, name: str, marks: Sequence[str]) -> None:
        super().__init__(f"prepared statement {name} takes other parameters")
        self.name = quote(name)
        self.stand_in = f"PREPARE {self.name} AS SELECT {', '.join(marks) or 1}"


@dataclass
class PreparedStatements:
    """The prepared statements of one DuckDB connection that read tables of pruner."""

    texts: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self.texts)

    def keep(self, text: str, reads_tables: Callable[[str], bool]) -> bool:
        """Remember the statement of a PREPARE that reads tables of pruner, or forget that of a DEALLOCATE.

        Args:
            text: any statement.
            reads_tables: tells whether a statement does.

        Returns:
            False for a text that is left to DuckDB.
        """
        if not _CONCERNED.search(text):
            return False
        found = list(islice(tokens(text.encode()), 4))
        words = [token.text.lower() for token in found]
        if words[:1] == ["prepare"] and words[2:3] == ["as"]:
            name, statement = str(found[1].identifier), text.encode()[found[2].stop :].decode().strip()
            self.texts.pop(name, None)
            if not reads_tables(statement):
                return False
            self.texts[name] = statement
            return True
        names = [token.identifier for token in found if token.text.lower() not in ("prepare", ";")]
        if words[:1] == ["deallocate"] and len(names) == 2:
            return self.texts.pop(str(names[1]), None) is not None
        return False

    def executed(self, text: str, found: Sequence[Token], value_of: Callable[[str], str]) -> str:
        """Write out what an EXECUTE of one of the statements stands for, perhaps behind EXPLAIN; other text
        stays.

        Args:
            text: any statement.
            found: its tokens.
            value_of: turns an expression into a literal of its value, which is the same for all rows.

        Raises:
            WrongArgumentsError: the arguments do not fit the statement.
        """
        encoded = text.encode()
        found = [token for token in found if token.text != ";"]
        start = next((n for n, token in enumerate(found[:4]) if token.text.lower() == "execute"), None)
        if start is None or [t.text.lower() for t in found[:start]] not in (
            [],
            ["explain"],
            ["explain", "analyze"],
        ):
            return text
        name = found[start + 1].identifier if start + 1 < len(found) else None
        if name not in self.texts:
            return text
        values = _arguments(encoded, found[start + 2 :], value_of)
        before = encoded[: found[start].start].decode()
        return before + _with_arguments(str(name), self.texts[str(name)], values)


def _arguments(text: bytes, found: Sequence[Token], value_of: Callable[[str], str]) -> dict[str, str]:
    """The arguments of an EXECUTE by name or number, literals as they stand."""
    groups: list[list[Token]] = [[]]
    depth = 0
    for token in found[1:-1]:
        sign = token.text.encode()[0] if token.kind == "sign" else 0
        depth += (sign in OPENING) - (sign in CLOSING)
        if depth == 0 and token.text == ",":
            groups.append([])
        else:
            groups[-1].append(token)
    values: dict[str, str] = {}
    for number, group in enumerate((group for group in groups if group), 1):
        signs = "".join(token.text for token in group[1:3])
        named = len(group) > 2 and signs[:2] in (":=", "=>")
        first = group[3 if named else 0] if len(group) > 3 or not named else group[-1]
        key = group[0].text.lower() if named else str(number)
        value = text[first.start : group[-1].stop].decode()
        literal = all(_is_literal(token) for token in group if token.start >= first.start)
        values[key] = value if literal else value_of(value)
    return values


def _is_literal(token: Token) -> bool:
    return token.kind != "name" or token.text.lower() in ("null", "true", "false")


def _with_arguments(name: str, text: str, values: dict[str, str]) -> str:
    """Put arguments in the place of parameters.

    Raises:
        WrongArgumentsError: one of the two lacks a counterpart.
    """
    edits: list[tuple[Span, str]] = []
    wanted: set[str] = set()
    marks = [token for token in tokens(text.encode()) if token.kind == "mark"]
    for number, token in enumerate(marks, 1):
        key = token.text[1:].lower() or str(number)
        wanted.add(key)
        if key in values:
            edits.append((Span(token.start, token.stop), f"({values[key]})"))
    if wanted != set(values):
        raise WrongArgumentsError(name, [token.text for token in marks])
    return splice(text.encode(), edits)


# Statements about indexes over a table of pruner: CREATE, DROP, REFRESH INDEX and SHOW INDEXES, in DuckDB's SQL.
#
# DuckDB has statements of these names for its own tables, which stay its own: one that it cannot find, and that names
# a table of pruner, is about an index of pruner.

_ABOUT_INDEXES: Final = re.compile(
    r"\s*(?:CREATE\s+(?:FUNCTION\s+)?INDEX|DROP\s+INDEX|REFRESH\s+INDEX|SHOW\s+INDEXES)\b", re.IGNORECASE
)
_SHOWN: Final = ("name", "using", "columns", "where", "covered", "coverable", "bytes", "usable", "note")


def shown_instead(statement: Statement, shadow: Shadow) -> str | None:
    """Run a statement about an index of pruner; returns the query whose rows say what was done, None for any other.

    Raises:
        PrunerError: the statement cannot be read, or not be done.
    """
    if not statement.mentions_table or not _ABOUT_INDEXES.match(statement.text):
        return None
    known = _table_in(statement, shadow)
    if known is None:
        return None
    return _rows(execute(parse_statement(statement.text), _OneTable(known), dialect="duckdb"))


def _table_in(statement: Statement, shadow: Shadow) -> KnownTable | None:
    """The table of pruner that a statement is about."""
    names = statement.tables
    try:
        parsed = parse_statement(statement.text)
    except StatementError:
        named = re.search(r"\b(?:ON|FROM|IN)\s+(?:TABLE\s+)?([\w.\"]+)", statement.text, re.IGNORECASE)
        written = named.group(1) if named else None
    else:
        written = parsed.table
        if isinstance(parsed, CreateIndex | DropIndex) and written is None:
            return None
    path = None if written is None else _path(written, names)
    if path is None or session_state(statement.first_row, shadow, [path]).known:
        return None
    return names[path]


def _path(written: str, names: TableNames) -> tuple[str, ...] | None:
    name = names.called(written, whole=True)
    return None if name is None else tuple(name.lower().split("."))


class _OneTable:
    """The table that the statement names: see `pruner.ddl.execute.Tables`."""

    def __init__(self, known: KnownTable) -> None:
        self._known = known

    def names(self) -> Sequence[str]:
        """Its name."""
        return [self._known.name]

    def open(self, name: str) -> Table:
        """Open it.

        Raises:
            TableError: it is read as of an instant.
        """
        if self._known.as_of is not None:
            raise TableError(
                f"table {self._known.name} is read as of {self._known.as_of}: indexes describe its present state"
            )
        return self._known.table


def _rows(result: SqlResult) -> str:
    """What a statement did, as a query of constants."""
    if result.status is not None:
        rows = [[row[name] for name in _SHOWN] for row in result.rows]
        values = ", ".join(f"({', '.join(map(_constant, row))})" for row in rows)
        names = ", ".join(f'"{name}"' for name in _SHOWN)
        nothing = ", ".join(f'NULL::VARCHAR AS "{name}"' for name in _SHOWN)
        return f"SELECT * FROM (VALUES {values}) t({names})" if rows else f"SELECT {nothing} WHERE false"
    built = result.refresh
    indexed, failed = (0, 0) if built is None else (built.indexed, len(built.failures))
    return (
        f'SELECT {_constant(result.statement)} AS statement, {_constant(result.table)} AS "table", '
        f'{_constant(result.index)} AS "index", {_constant(result.changed)} AS changed, '
        f"{indexed}::BIGINT AS indexed, {failed}::BIGINT AS failed"
    )


def _constant(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool() | int():
            return str(value)
        case tuple():
            texts = cast("tuple[str, ...]", value)
            return f"[{', '.join(map(quote_text, texts))}]::VARCHAR[]"
        case _:
            return quote_text(str(value))


_NOTHING_COUNTED = 'SELECT 0::BIGINT AS "Count" WHERE false'
_NOTHING_DONE = 'SELECT true AS "Success" WHERE false'
"""What the connection shows after a CREATE VIEW, and after a PREPARE."""

_MISSING_TABLE = re.compile(r"Table with name \"?(.+?)\"? does not exist")


_TOO_LATE = FullScan(
    AccessPath.SCAN, "the statement may have begun later than the moments in it were planned for"
)

_Result = TypeVar("_Result")


def _as_it_is(made: Any) -> Any:
    return made


class LearnedViews(Exception):  # noqa: N818 - never reaches a user
    """The statement reads a view that was not known to read a table of pruner; now it is: begin again."""


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
        self._prepared = PreparedStatements()
        self._recording = True
        self._sources: Sources = {}
        self._unread: Statement | None = None
        """What `execute` ran last over pruned tables, until a row of it has been fetched."""

    def on(self, native: duckdb.DuckDBPyConnection) -> StatementRunner:
        """The same for another connection to the database."""
        return StatementRunner(native, self.rewriter, self.views, self.last_plans, self.changes)

    def method(self, *, lazy: bool, alias: str = "") -> Method:
        """One of the two ways to run a statement."""
        return Method(self.native, lazy, self._answers, alias)

    def statements(
        self, query: Any, parameters: Parameters, method: Method, scope: Scope
    ) -> Sequence[Statement]:
        """The statements of a text one by one; only the last one takes parameters, as with DuckDB."""
        if isinstance(query, duckdb.Statement) and self._concerns(query.query):
            query = query.query

        def statement(text: Any, values: Parameters) -> Statement:
            return Statement(text, values, method, scope, self.tables, self.rewriter.parse)

        if not isinstance(query, str) or ";" not in query or not self._concerns(query):
            return [statement(query, parameters)]
        try:
            parts = [str(each.query) for each in self.native.extract_statements(query)]
        except duckdb.Error:
            return [statement(query, parameters)]
        if len(parts) < 2:
            return [statement(query, parameters)]
        return [*(statement(part, None) for part in parts[:-1]), statement(parts[-1], parameters)]

    def run(self, statement: Statement, *, record: bool = True) -> Any:
        """Run one statement; a file that was removed in between is met by planning again, once.

        Args:
            statement: the statement.
            record: whether its scans are logged and remembered.

        Raises:
            PrunerError: a table cannot be listed completely, or not be read by this kind of statement.
            duckdb.Error: whatever DuckDB refuses.
        """
        try:
            return self.attempt(statement, record=record)
        except LearnedViews:
            return self.attempt(statement, record=record)

    def attempt(self, statement: Statement, *, record: bool = True) -> Any:
        """The same as `run`, except that a view may be met which has to be learned first.

        Raises:
            LearnedViews: begin again.
        """
        self._unread = None
        about_index = shown_instead(statement, self.rewriter.shadow)
        if about_index is not None:
            return statement.with_text(about_index).call()
        made = self.run_stored_definition(statement)
        if made is not None:
            return made
        statement = self.written_out(statement)
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
            use: what is made of its result.
            record: whether its scans are logged and remembered.

        Raises:
            duckdb.Error: it fails so, too; the error is the first one.
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
        """What comes of DuckDB's result. The first of it may be the first to fail for a value: DuckDB goes on working
        while rows are fetched.
        """
        statement, self._unread = self._unread, None
        try:
            return fetch()
        except VALUE_ERRORS as error:
            if statement is None:
                raise
            return self.retry_in_full(statement, error, lambda _: fetch())

    def _concerns(self, text: str) -> bool:
        """Tell cheaply whether a text may read a table, a view or a prepared statement of ours."""
        return self.tables.mentioned_in(text) or self.views.mentioned_in(text) or self._prepared.any

    def written_out(self, statement: Statement) -> Statement:
        """Put what EXECUTE stands for, and the texts of views, into the place of their names.

        Raises:
            duckdb.Error: the arguments do not fit the statement.
            PrunerError: a name in a view would mean another thing.
        """
        if not isinstance(statement.text, str):
            return statement
        if self._prepared.any:
            found = statement.tokens
            try:
                text = self._prepared.executed(
                    statement.text, found, lambda value: _value_of(value, statement)
                )
            except WrongArgumentsError as error:
                self._refuse(statement.text, error)
                raise
            if text != statement.text:
                statement = replace(statement, text=text, executes=True)
        if self.views.mentioned_in(statement.text):
            text = self.views.expanded(statement.text, statement.answer)
            if text != statement.text:
                left, values = without_gone(text, statement.text, statement.parameters)
                statement = replace(statement, text=left, parameters=values, original=statement.written)
        return statement

    def _refuse(self, text: str, wrong: WrongArgumentsError) -> None:
        """Let DuckDB say what is wrong with the arguments of an EXECUTE.

        Raises:
            duckdb.Error: what it says.
        """
        self.native.execute(wrong.stand_in)
        try:
            self.native.execute(text)
        except duckdb.Error as error:
            raise error from None
        finally:
            self.native.execute(f"DEALLOCATE {wrong.name}")

    def run_stored_definition(self, statement: Statement) -> Any:
        """Run a statement that outlives its run, PREPARE or CREATE VIEW, if it reads one of the tables.

        Returns:
            What DuckDB returns of it; None for any other statement.
        """
        if not isinstance(statement.text, str):
            return None
        ours = statement.mentions_table or self.views.mentioned_in(statement.text)

        def run(sql: str) -> Any:
            with self.changes.during(sql):
                return statement.scope.call(statement.method.call, sql, statement.method.named(None))

        if ours and (is_create_view(statement.text) or is_create_table_macro(statement.text)):
            self.views.create(run, statement.first_row, statement.text)
            return run(_NOTHING_COUNTED)
        kept = self._prepared.keep(statement.text, lambda text: self.reads_tables(statement.with_text(text)))
        return run(_NOTHING_DONE) if kept else None

    def reads_tables(self, statement: Statement) -> bool:
        """Tell whether a statement names one of the tables, itself or by way of a view or a prepared statement."""
        if not isinstance(statement.text, str) or not self._concerns(statement.text):
            return False
        return self.written_out(statement).form is not None

    def lazy_variables(self, statement: Statement) -> set[str]:
        """Names of the variables with a `LazyRelation` that a SELECT reads, as DuckDB reads data frames."""
        names = {name.lower(): name for name in statement.scope.lazy_names()}
        if not names or not isinstance(statement.text, str):
            return set()
        try:
            references = statement.parse(statement.text).references
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
        """Run a statement, and once more over all files if it may have begun too late for its plan.

        DuckDB's `now()` is when the transaction began, by the clock of this machine, and that was before now.
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
        """Run a statement once more, over all files; its scans count once its result was of use."""
        found = use(self._call_rewritten(again, statement))
        self._record(again, record)
        return found

    def restated(self, error: duckdb.Error, statement: Statement) -> Exception:
        """An error of DuckDB as one about the statement that was asked for; where reading merged rows was what failed,
        the error of pruner behind it.
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
        """Find out why DuckDB misses one of the tables, if that is what the error says.

        Raises:
            LearnedViews: the statement reads it by way of a view.
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
            return  # another schema, or a part of the name: DuckDB says that there is no such table
        macro = self.views.macro_in(written)
        if macro is not None:
            raise PrunerError(
                f"macro {macro} reads table {name}, and this call of it is not understood: give it one argument for "
                "each parameter"
            ) from error
        raise refusal(name, written, statement.tokens) from error


def _value_of(expression: str, statement: Statement) -> str:
    """A literal of an expression's value, with its type."""
    data_type, value = statement.first_row(
        "SELECT system.main.typeof(pruner_value), pruner_value::VARCHAR FROM "
        f"(SELECT ({expression}) AS pruner_value)",
        [],
    )
    return f"{'NULL' if value is None else quote_text(value)}::{data_type}"


def _snapshots(rewritten: Rewritten) -> list[str]:
    return [scan.snapshot_id for scan in rewritten.scans]
