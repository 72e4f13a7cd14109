"""Views and table macros over tables of pruner: the database keeps their text, and every statement reads it again.

DuckDB creates a view only if it finds the tables. So empty tables of the same shape stand in for them while the view is
created, in one transaction, and are dropped afterwards. DuckDB alone then reports that the view's table does not exist;
in a statement that comes through the adapter, the name of a view is replaced by the view's text, and the call of a
macro by that of the macro.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import dropwhile, islice
from typing import TYPE_CHECKING, Any

import duckdb

from pruner.errors import PrunerError
from pruner_duckdb.catalog.table_macros import (
    MacroCall,
    TableMacro,
    calls_one_of,
    forms_created,
    list_table_macros,
    mentions,
    require_understood,
    with_arguments,
    written_call,
)
from pruner_duckdb.session.session import session_state
from pruner_duckdb.shadow.answers import Ask
from pruner_duckdb.shadow.shadow import Relation, Shadow
from pruner_duckdb.sql.engine_faults import with_readable_brackets
from pruner_duckdb.sql.forms import form_of, with_numbers
from pruner_duckdb.sql.select import Select, Span, TableReference
from pruner_duckdb.sql.tokens import tokens
from pruner_duckdb.types import quote

if TYPE_CHECKING:
    from pruner_duckdb.catalog.tables import TableNames

_DEEPEST = 16
_LIST_VIEWS = (
    "SELECT system.main.current_database(), system.main.current_schema(), system.main.list({"
    "'database': database_name, 'schema': schema_name, 'name': view_name, 'sql': sql}) FROM ("
    "SELECT database_name, schema_name, view_name, sql FROM system.main.duckdb_views() WHERE NOT internal "
    "UNION ALL SELECT database_name, schema_name, table_name, NULL FROM system.main.duckdb_tables() "
    "WHERE temporary)"
)
"""Temporary tables are included, since they hide views of the same name."""

_CREATES = re.compile("create", re.IGNORECASE)
_CREATE_WORDS = frozenset(["or", "replace", "temp", "temporary"])


@dataclass(frozen=True, slots=True)
class _View:
    database: str
    schema: str
    name: str
    query: str
    """Empty for a temporary table, and for a text that is not understood."""
    columns: str
    """Names of the columns in parentheses, or an empty text."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The views and macros of a session at the time of a statement, and its current database and schema."""

    views: Sequence[_View]
    macros: Sequence[TableMacro]
    home: tuple[str, str]


class SessionViews:
    """The session's views that read tables of pruner; one serves a connection and all of its cursors."""

    def __init__(self, tables: TableNames, shadow: Shadow) -> None:
        self._tables = tables
        self._shadow = shadow
        self._names: frozenset[str] = frozenset()
        self._macros: frozenset[str] = frozenset()

    def mentioned_in(self, text: str) -> bool:
        """Tell cheaply whether a text may read one of the views or macros known so far."""
        lowered = text.lower()
        return any(name in lowered for name in self._names) or bool(calls_one_of(lowered, self._macros))

    def macro_in(self, text: str) -> str | None:
        """The name of a macro known so far that a text may call."""
        return calls_one_of(text.lower(), self._macros)

    def look(self, ask: Ask, *, for_macros: bool = True) -> bool:
        """Learn the names of the session's views and table macros that may read a table of pruner.

        Args:
            ask: asks the session.
            for_macros: whether to list macros, too, which takes DuckDB some 17 ms.

        Returns:
            Whether the names differ from those known before.
        """
        known = _list(ask, for_macros=for_macros)
        names, macros = _that_read(self._tables, known)
        before, self._names, self._macros = (self._names, self._macros), names, macros
        return before != (names, macros)

    def expanded(self, text: str, ask: Ask) -> str:
        """Replace the names of views by their texts.

        Raises:
            PrunerError: a name in a view would change its meaning there.
        """
        known = _list(ask, for_macros=False)
        if self._macros and self.macro_in(self._with_queries(text, known)):
            known = replace(known, macros=list_table_macros(ask))
            # The macro may use an argument more than once, or not at all.
            text = with_numbers(text.encode())[0].decode()
        return self._expanded(text, known, _DEEPEST)

    def _expanded(self, text: str, known: _Known, depth: int) -> str:
        form = form_of(text, self._shadow.parse)
        if form is None or depth == 0:
            return text
        edits: list[tuple[Span, str]] = []
        replaced: list[TableReference] = []
        for reference in form.select.references:
            edit = (self._macro if reference.function else self._view)(reference, form.select, known, depth)
            if edit is not None:
                edits.append(edit)
                replaced.append(reference)
        if not edits:
            return text
        if form.select.named_by_text and form.is_select:
            edits += self._shadow.result_names(form.select.text, [span.start for span, _ in edits])
        return form.spliced([*edits, *self._tables.shortened(form.select, replaced)])

    def _view(
        self, reference: TableReference, outer: Select, known: _Known, depth: int
    ) -> tuple[Span, str] | None:
        """The replacement of a view's name; None for a reference that reads no table of pruner."""
        view = _view_called(reference, known)
        if view is None or not view.query or reference.name is None:
            return None
        query = self._expanded(view.query, known, depth - 1)
        inner = self._select(query)
        if inner is None or not self._tables.read_by(inner):
            return None
        _require_same_names(view, inner, outer, known.home)
        return reference.name, _inlined(view, query, reference)

    def _macro(
        self, reference: TableReference, outer: Select, known: _Known, depth: int
    ) -> tuple[Span, str] | None:
        """The replacement of a macro call; None if it reads no table of pruner, and if the call is left to DuckDB."""
        forms = _forms_called(reference, known)
        call = _call(outer, reference) if forms else None
        if call is None or any(form.parameters is None for form in forms):
            return None
        fitting = [
            (form, values) for form in forms if (values := call.values(form.parameters or ())) is not None
        ]
        if len(fitting) != 1:
            return None
        ((macro, values),) = fitting
        text = with_arguments(macro.query, values, self._shadow.tree)
        query = None if text is None else self._expanded(text, known, depth - 1)
        inner = None if query is None else self._select(query)
        if inner is None or not self._tables.read_by(inner):
            return None
        if query != text:
            # In DuckDB, a WITH of the statement hides tables that the macro itself reads, but not those of views.
            _require_not_hidden(f"macro {macro.name}", inner, outer)
        return call.span, f"({query})"

    def _with_queries(self, text: str, known: _Known) -> str:
        """A text, followed by the queries of all views and macros that it may read."""
        unread: list[_View | TableMacro] = [*known.views, *known.macros]
        while True:
            lowered = text.lower()
            read = [view for view in unread if view.name.lower() in lowered]
            if not read:
                return text
            text = "\n".join([text, *(view.query for view in read)])
            unread = [view for view in unread if view not in read]

    def _select(self, query: str) -> Select | None:
        form = form_of(query, self._shadow.parse)
        return None if form is None else form.select

    def create(self, run: Callable[[str], Any], ask: Ask, text: str) -> None:
        """Run a CREATE VIEW or CREATE MACRO … AS TABLE with empty tables instead of those of pruner.

        Raises:
            PrunerError: a table cannot be listed completely, the view has the name of a table that it reads, or calls
                of the macro could not be expanded.
            duckdb.Error: DuckDB rejects the view or macro.
        """
        forms = forms_created(text)
        query = text if forms else _definition(text)[0] or text  # without the view's own name
        known = _list(ask, for_macros=True)
        stubs = self._shapes_for(self._with_queries(query, known), ask)
        name = _created_name(text)
        if forms:
            reading = {path[-1].lower() for path, _ in stubs}.union(*_that_read(self._tables, known))
            if any(mentions(query, reading) for _, query in forms):
                require_understood(forms, self._shadow.tree)
        elif any(path[-1] == name for path, _ in stubs):
            raise PrunerError(f"view {name} would hide the table {name} that it reads: give it another name")
        own = _outside_transaction(ask)
        if own:
            run("BEGIN TRANSACTION")
        try:
            made = [statement for path, shape in stubs for statement in _make_stub(run, ask, path, shape)]
            run(with_readable_brackets(text))
            for statement in reversed(made):
                run(f"DROP {statement}")
            if own:
                run("COMMIT")
        except duckdb.Error:
            if own:
                run("ROLLBACK")
            raise
        self.look(ask)

    def _shapes_for(self, text: str, ask: Ask) -> list[tuple[tuple[str, ...], Relation]]:
        """Paths and shapes of the tables that a text may read, as they are now.

        Raises:
            PrunerError: a table cannot be listed completely.
        """
        paths = self._tables.paths_in(text)
        hidden = session_state(ask, self._shadow, paths).known
        tables = [self._tables[path] for path in paths if path not in hidden]
        return [
            (table.path, self._shadow.with_connection(partial(table.shape, table.snapshot())).relation)
            for table in tables
        ]


def is_create_view(text: str) -> bool:
    """Tell whether a text is a CREATE VIEW."""
    if not _CREATES.search(text):
        return False
    words = [token.text.lower() for token, _ in zip(tokens(text.encode()), range(6), strict=False)]
    after = [word for word in words[1:] if word not in _CREATE_WORDS]
    return words[:1] == ["create"] and after[:1] == ["view"]


def _created_name(text: str) -> str | None:
    """The last part of the name of the view that a CREATE VIEW creates, in lower case."""
    names = dropwhile(lambda token: token.text.lower() != "view", tokens(text.encode()))
    words = [token for token in islice(names, 1, 9) if token.text.lower() not in ("if", "not", "exists")]
    last = 0
    while last + 2 < len(words) and words[last + 1].text == ".":
        last += 2
    return words[last].identifier if words else None


def _that_read(tables: TableNames, known: _Known) -> tuple[frozenset[str], frozenset[str]]:
    """Names of the views and of the macros that may read one of the tables, in lower case."""
    views: frozenset[str] = frozenset()
    macros: frozenset[str] = frozenset()

    def reads(query: str) -> bool:
        lowered = query.lower()
        return (
            tables.mentioned_in(query)
            or any(name in lowered for name in views)
            or calls_one_of(lowered, macros) is not None
        )

    while True:
        names = (
            frozenset(view.name.lower() for view in known.views if reads(view.query)),
            frozenset(macro.name.lower() for macro in known.macros if reads(macro.query)),
        )
        if names == (views, macros):
            return names
        views, macros = names


def _list(ask: Ask, *, for_macros: bool) -> _Known:
    database, schema, rows = ask(_LIST_VIEWS, [])
    views = [
        _View(row["database"], row["schema"], row["name"], *_definition(row["sql"] or ""))
        for row in rows or ()
    ]
    macros = list_table_macros(ask) if for_macros else []
    return _Known(views, macros, (str(database).lower(), str(schema).lower()))


def _definition(sql: str) -> tuple[str, str]:
    """The query of a CREATE VIEW and its column names in parentheses, from the text as DuckDB writes it."""
    text = sql.encode()
    columns = Span(0, 0)
    for token in tokens(text):
        if token.text == "(" and not columns.start:
            columns = Span(token.start, token.stop)
        elif token.text == ")":
            columns = Span(columns.start, token.stop)
        elif token.text.lower() == "as":
            query = text[token.stop :].decode().strip().removesuffix(";")
            return query, text[columns.start : columns.stop].decode()
    return "", ""


def _view_called(reference: TableReference, known: _Known) -> _View | None:
    called = [view for view in known.views if _is_called(view, reference.path, known.home)]
    # A temporary view or table hides others of its name.
    return min(called, key=lambda view: view.database != "temp", default=None)


def _forms_called(reference: TableReference, known: _Known) -> list[TableMacro]:
    called = [macro for macro in known.macros if _is_called(macro, reference.path, known.home)]
    temporary = [macro for macro in called if macro.database == "temp"]
    return temporary or called


def _call(outer: Select, reference: TableReference) -> MacroCall | None:
    return (
        None if reference.whole is None else written_call(outer.text, reference.path, reference.whole.start)
    )


def _is_called(each: _View | TableMacro, path: Sequence[str], home: tuple[str, str]) -> bool:
    """Tell whether a name refers to this view or macro in a statement run in the database and schema `home`."""
    *front, name = (part.lower() for part in path)
    if name != each.name.lower():
        return False
    database, schema = each.database.lower(), each.schema.lower()
    if not front:
        return database == "temp" or (database, schema) == home
    if len(front) == 1:
        if front[0] == schema and database in (home[0], "temp"):
            return True
        return front[0] == database and schema == "main"
    return tuple(front) == (database, schema)


def _require_same_names(view: _View, inner: Select, outer: Select, home: tuple[str, str]) -> None:
    """Make sure that the names in a view mean the same inside a statement.

    Raises:
        PrunerError: one does not.
    """
    bare = _require_not_hidden(f"view {view.name}", inner, outer)
    elsewhere = view.database != "temp" and (view.database.lower(), view.schema.lower()) != home
    if elsewhere and bare:
        raise PrunerError(
            f"view {view.name} reads {min(bare)} by its bare name and belongs to another schema than the "
            f"current one: make {view.schema} of {view.database} the current one with USE"
        )


def _require_not_hidden(name: str, inner: Select, outer: Select) -> set[str]:
    """Return the tables that a text reads by their bare names, after checking that no WITH of the statement hides one.

    Raises:
        PrunerError: a WITH has one of these names.
    """
    bare = {
        reference.path[0].lower()
        for reference in inner.references
        if len(reference.path) == 1 and not reference.function
    }
    hidden = sorted(bare & outer.ctes)
    if hidden:
        raise PrunerError(
            f"{name} reads {hidden[0]}, and a WITH of the statement has that name, too: give the "
            "WITH another name"
        )
    return bare


def _inlined(view: _View, query: str, reference: TableReference) -> str:
    text = f"(SELECT * FROM ({query}) AS pruner_view{view.columns})" if view.columns else f"({query})"
    return text if reference.alias is not None else f"{text} AS {quote(reference.path[-1])}"


def _outside_transaction(ask: Ask) -> bool:
    """Tell whether each statement is its own transaction: only then do the transaction ids differ."""
    number = "SELECT system.main.txid_current()"
    return ask(number, []) != ask(number, [])


def _make_stub(run: Callable[[str], Any], ask: Ask, path: Sequence[str], shape: Relation) -> list[str]:
    """Create an empty table, and its schema if there is none; return what must be dropped again."""
    made: list[str] = []
    schema = ".".join(quote(part) for part in path[:-1])
    if schema:
        known = "SELECT system.main.count(*) FROM system.main.duckdb_schemas() WHERE lower(schema_name) = ?"
        if ask(known, [path[-2].lower()]) == (0,):
            run(f"CREATE SCHEMA {schema}")
            made.append(f"SCHEMA {schema}")
    # Creating a temporary table writes to no database: a transaction may write to only one.
    table = ".".join(quote(part) for part in (path if schema else ("temp", "main", *path)))
    run(f"CREATE {'' if schema else 'TEMP '}TABLE {table} ({shape.definition()})")
    made.append(f"TABLE {table}")
    return made
