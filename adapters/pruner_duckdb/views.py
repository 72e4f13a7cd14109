"""Views of the session over tables of pruner: the database keeps their text, every statement reads them anew.

DuckDB makes a view only when it finds the tables. So empty tables of the same shape stand in for them while
the view is made, in one transaction, and are gone afterwards. DuckDB alone then says that the view's table
does not exist; a statement that comes through the adapter has the view's text put in the place of its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import dropwhile, islice
from typing import TYPE_CHECKING, Any

import duckdb

from pruner.errors import PrunerError
from pruner_duckdb.answers import Ask
from pruner_duckdb.forms import form_of
from pruner_duckdb.select import Reference, Select, Span
from pruner_duckdb.session import session_state
from pruner_duckdb.shadow import Relation, Shadow
from pruner_duckdb.tokens import tokens
from pruner_duckdb.types import quote

if TYPE_CHECKING:
    from pruner_duckdb.names import TableNames

_DEEPEST = 16
_LIST_VIEWS = (
    "SELECT system.main.current_database(), system.main.current_schema(), system.main.list({"
    "'database': database_name, 'schema': schema_name, 'name': view_name, 'sql': sql}) FROM ("
    "SELECT database_name, schema_name, view_name, sql FROM system.main.duckdb_views() WHERE NOT internal "
    "UNION ALL SELECT database_name, schema_name, table_name, NULL FROM system.main.duckdb_tables() "
    "WHERE temporary)"
)
"""Temporary tables are among them, since they hide views of their names."""

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
    """Names of the columns in brackets, or nothing."""

    def is_called(self, path: Sequence[str], home: tuple[str, str]) -> bool:
        """Tell whether a statement in the database and schema `home` means this view by a name."""
        *front, name = (part.lower() for part in path)
        if name != self.name.lower():
            return False
        database, schema = self.database.lower(), self.schema.lower()
        if not front:
            return database == "temp" or (database, schema) == home
        if len(front) == 1:
            if front[0] == schema and database in (home[0], "temp"):
                return True
            return front[0] == database and schema == "main"
        return tuple(front) == (database, schema)


class Views:
    """The session's views that read tables of pruner; one serves a connection and all of its cursors."""

    def __init__(self, tables: TableNames, shadow: Shadow) -> None:
        self._tables = tables
        self._shadow = shadow
        self._names: frozenset[str] = frozenset()

    def mentioned_in(self, text: str) -> bool:
        """Tell cheaply whether a text may read one of the views known so far."""
        lowered = text.lower()
        return any(name in lowered for name in self._names)

    def look(self, ask: Ask) -> None:
        """Learn the names of the session's views that may read a table of pruner."""
        views, _ = _list_views(ask)
        names: set[str] = set()
        while True:
            found = {
                view.name.lower()
                for view in views
                if self._tables.mentioned_in(view.query) or any(n in view.query.lower() for n in names)
            }
            if found == names:
                break
            names = found
        self._names = frozenset(names)

    def expanded(self, text: str, ask: Ask) -> str:
        """Put the texts of views into the place of their names.

        Raises:
            PrunerError: a name in a view would mean another thing there.
        """
        views, home = _list_views(ask)
        return self._expanded(text, views, home, _DEEPEST)

    def _expanded(self, text: str, views: Sequence[_View], home: tuple[str, str], depth: int) -> str:
        form = form_of(text, self._shadow.parse)
        if form is None or depth == 0:
            return text
        edits: list[tuple[Span, str]] = []
        replaced: list[Reference] = []
        for reference in form.select.references:
            view = _view_called(reference, views, home)
            if view is None or not view.query or reference.name is None:
                continue
            query = self._expanded(view.query, views, home, depth - 1)
            inner = self._select(query)
            if inner is None or not self._tables.read_by(inner):
                continue
            _require_same_names(view, inner, form.select, home)
            edits.append((reference.name, _inlined(view, query, reference)))
            replaced.append(reference)
        if not edits:
            return text
        if form.select.named_by_text and form.is_select:
            edits += self._shadow.result_names(form.select.text, [span.start for span, _ in edits])
        return form.spliced([*edits, *self._tables.shortened(form.select, replaced)])

    def _with_queries(self, text: str, views: Sequence[_View]) -> str:
        """A text with the queries of all views behind it that it may read."""
        unread = list(views)
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
        """Run a CREATE VIEW with empty tables in the place of those of pruner.

        Raises:
            PrunerError: a table cannot be listed completely, or the view has the name of a table that it reads.
            duckdb.Error: DuckDB refuses the view.
        """
        query = _definition(text)[0] or text  # without the view's own name
        stubs = self._shapes_for(self._with_queries(query, _list_views(ask)[0]), ask)
        name = _created_name(text)
        if any(path[-1] == name for path, _ in stubs):
            raise PrunerError(f"view {name} would hide the table {name} that it reads: give it another name")
        own = _outside_transaction(ask)
        if own:
            run("BEGIN TRANSACTION")
        try:
            made = [each for path, shape in stubs for each in _make_stub(run, ask, path, shape)]
            run(text)
            for each in reversed(made):
                run(f"DROP {each}")
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
            (each.path, self._shadow.with_connection(partial(each.shape, each.snapshot())).relation)
            for each in tables
        ]


def is_create_view(text: str) -> bool:
    """Tell whether a text is a CREATE VIEW."""
    if not _CREATES.search(text):
        return False
    words = [token.text.lower() for token, _ in zip(tokens(text.encode()), range(6), strict=False)]
    after = [word for word in words[1:] if word not in _CREATE_WORDS]
    return words[:1] == ["create"] and after[:1] == ["view"]


def _created_name(text: str) -> str | None:
    """The last part of the name of the view that a CREATE VIEW makes, in lower case."""
    names = dropwhile(lambda token: token.text.lower() != "view", tokens(text.encode()))
    found = [token for token in islice(names, 1, 9) if token.text.lower() not in ("if", "not", "exists")]
    last = 0
    while last + 2 < len(found) and found[last + 1].text == ".":
        last += 2
    return found[last].identifier if found else None


def _list_views(ask: Ask) -> tuple[list[_View], tuple[str, str]]:
    database, schema, rows = ask(_LIST_VIEWS, [])
    views = [
        _View(row["database"], row["schema"], row["name"], *_definition(row["sql"] or ""))
        for row in rows or ()
    ]
    return views, (str(database).lower(), str(schema).lower())


def _definition(sql: str) -> tuple[str, str]:
    """The query of a CREATE VIEW and its column names in brackets, as DuckDB writes it."""
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


def _view_called(reference: Reference, views: Sequence[_View], home: tuple[str, str]) -> _View | None:
    if reference.function:
        return None
    found = [view for view in views if view.is_called(reference.path, home)]
    # A temporary one hides others of its name.
    return min(found, key=lambda view: view.database != "temp", default=None)


def _require_same_names(view: _View, inner: Select, outer: Select, home: tuple[str, str]) -> None:
    """Make sure that the names in a view mean the same inside a statement.

    Raises:
        PrunerError: one does not.
    """
    bare = {each.path[0].lower() for each in inner.references if len(each.path) == 1 and not each.function}
    hidden = sorted(bare & outer.ctes)
    if hidden:
        raise PrunerError(
            f"view {view.name} reads {hidden[0]}, and a WITH of the statement has that name, too: give the "
            "WITH another name"
        )
    elsewhere = view.database != "temp" and (view.database.lower(), view.schema.lower()) != home
    if elsewhere and bare:
        raise PrunerError(
            f"view {view.name} reads {min(bare)} by its bare name and belongs to another schema than the "
            f"current one: make {view.schema} of {view.database} the current one with USE"
        )


def _inlined(view: _View, query: str, reference: Reference) -> str:
    text = f"(SELECT * FROM ({query}) AS pruner_view{view.columns})" if view.columns else f"({query})"
    return text if reference.alias is not None else f"{text} AS {quote(reference.path[-1])}"


def _outside_transaction(ask: Ask) -> bool:
    """Tell whether each statement is a transaction of its own: only then do their numbers differ."""
    number = "SELECT system.main.txid_current()"
    return ask(number, []) != ask(number, [])


def _make_stub(run: Callable[[str], Any], ask: Ask, path: Sequence[str], shape: Relation) -> list[str]:
    """Make an empty table, and its schema where there is none; return what is to be dropped again."""
    made: list[str] = []
    schema = ".".join(quote(part) for part in path[:-1])
    if schema:
        known = "SELECT system.main.count(*) FROM system.main.duckdb_schemas() WHERE lower(schema_name) = ?"
        if ask(known, [path[-2].lower()]) == (0,):
            run(f"CREATE SCHEMA {schema}")
            made.append(f"SCHEMA {schema}")
    # A temporary one is no write to any database: a transaction may write to one alone.
    table = ".".join(quote(part) for part in (path if schema else ("temp", "main", *path)))
    run(f"CREATE {'' if schema else 'TEMP '}TABLE {table} ({shape.definition()})")
    made.append(f"TABLE {table}")
    return made
