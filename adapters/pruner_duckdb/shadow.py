"""A private DuckDB instance that knows the tables' schemas and nothing else, asked what its optimizer would
push to each scan.

Its tables are empty and native, because only those are serialized by DuckDB 2.0. Of the optimizers only
those run that move predicates: with the others on, an empty table collapses or scalar subqueries fail to
serialize. The setting is global to an instance, hence instances of our own, one for each set of optimizers.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import duckdb

from pruner_duckdb.result_names import aliases
from pruner_duckdb.select import NotSelect, Select, Span, parse_select
from pruner_duckdb.types import quote
from pruner_duckdb.typical import with_typical_integers

KEPT_OPTIMIZERS = frozenset(
    [
        "filter_pullup",
        "filter_pushdown",
        "cte_filter_pusher",
        "cte_inlining",
        "expression_rewriter",
        "regex_range",
        "deliminator",
        "unnest_rewriter",
        "outer_join_simplification",
    ]
)
"""Optimizers that move predicates towards scans, and those that they need."""

INLINING = frozenset(["cte_inlining"])
"""Left out where planning fails inside: DuckDB 2.0 cannot bind an inlined WITH that joins others to a semi-join
("inequal num bindings/types") before join_order ran. Predicates enter such a WITH by cte_filter_pusher.
"""

REWRITING = frozenset(["expression_rewriter", "regex_range"])
"""Optimizers that give a predicate another form (`ts::date = …` becomes a range of `ts`)."""

CACHE_ENTRIES = 256
"""Statements whose parse and plans are remembered."""

CACHED_TEXT_BYTES = 1 << 16
"""Longest statement that is remembered."""

_FAILED_INSIDE = '{"error":true,"error_type":"internal"'

_NAN = re.compile(r'"(?:[^"\\]|\\.)*"|NAN')
"""Texts, and NaN outside of them."""

_Value = TypeVar("_Value")


class NotPlanned(Exception):  # noqa: N818 - never reaches a user
    """The shadow cannot plan the statement; `str()` is the reason."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Names and DuckDB types of a table's columns, in order."""

    columns: tuple[tuple[str, str], ...]

    def definition(self) -> str:
        """Column definitions of a CREATE TABLE."""
        return ", ".join(f"{quote(name)} {data_type}" for name, data_type in self.columns)

    def narrowed(self, wanted: Callable[[str], bool]) -> Relation:
        """The same with the columns alone whose names are wanted, but never without any column."""
        return Relation(tuple(each for each in self.columns if wanted(each[0])) or self.columns[:1])

    def empty_select(self) -> str:
        """A query of this shape without rows."""
        columns = ", ".join(f"NULL::{data_type} AS {quote(name)}" for name, data_type in self.columns)
        return f"SELECT {columns} WHERE false"


class LruCache:
    """A bounded memory of what was worked out for a text."""

    def __init__(self, entries: int = CACHE_ENTRIES) -> None:
        self._entries = entries
        self._values: OrderedDict[Any, Any] = OrderedDict()

    def get(self, key: Any, size: int, compute: Callable[[], _Value]) -> _Value:
        """Return what is remembered under `key`, computing it first where needed; a large one is not
        remembered.
        """
        if key in self._values:
            self._values.move_to_end(key)
            return self._values[key]
        value = compute()
        if size <= CACHED_TEXT_BYTES:
            self._values[key] = value
            if len(self._values) > self._entries:
                self._values.popitem(last=False)
        return value


class _Instance:
    """A DuckDB database in memory; calls are serialized by its lock."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(":memory:", config={"threads": 1})
        self.lock = threading.RLock()
        self._zone: str | None = None
        self._kept: frozenset[str] = frozenset()
        self._questions: dict[str, duckdb.Statement] = {}
        with contextlib.suppress(duckdb.CatalogException):  # older versions know one syntax
            # Both syntaxes are understood here: a session that refuses one says so itself.
            self.connection.execute("SET lambda_syntax = 'ENABLE_SINGLE_ARROW'")

    def question(self, sql: str) -> duckdb.Statement:
        """A query of ours as DuckDB's parser leaves it: parsing takes a third of what a short query takes.

        Any connection runs it, whatever its own parser would make of the text.
        """
        with self.lock:
            if sql not in self._questions:
                (self._questions[sql],) = self.connection.extract_statements(sql)
            return self._questions[sql]

    def keep_optimizers(self, kept: Collection[str]) -> None:
        """Let no other optimizers run."""
        with self.lock:
            every = [row[0] for row in self.connection.execute("FROM duckdb_optimizers()").fetchall()]
            disabled = ",".join(name for name in every if name not in kept)
            self.connection.execute(f"SET disabled_optimizers = '{disabled}'")
            self._kept = frozenset(kept)

    def ask_without(self, optimizers: Collection[str], sql: str, text: str, zone: str) -> str:
        """The same as `ask`, with fewer optimizers for once."""
        with self.lock:
            kept = self._kept
            self.keep_optimizers(kept - frozenset(optimizers))
            try:
                return self.ask(sql, text, zone)
            finally:
                self.keep_optimizers(kept)

    def ask(self, sql: str, text: str, zone: str | None = None) -> str:
        """The one value of a query with one parameter, in a time zone where it matters."""
        with self.lock:
            if zone is not None and zone != self._zone:
                self.connection.execute("SET TimeZone = ?", [zone])
                self._zone = zone
            row = self.connection.execute(self.question(sql), [text]).fetchone()
        return str(row[0]) if row else ""


class Shadow:
    """The private instances. One object per process serves every connection, from any thread."""

    def __init__(self) -> None:
        self._shipped = _Instance()
        self._moving = {True: _Instance(), False: _Instance()}
        """Those that move predicates, by whether they keep the form of them."""
        self._moving[True].keep_optimizers(KEPT_OPTIMIZERS - REWRITING)
        self._moving[False].keep_optimizers(KEPT_OPTIMIZERS)
        self._lock = self._shipped.lock
        self._connection = self._shipped.connection
        known = self._connection.execute("SELECT lower(name) FROM duckdb_settings()").fetchall()
        self._settings = frozenset(row[0] for row in known)
        self._tables_lock = threading.Lock()
        self._tables: OrderedDict[tuple[Relation, int], str] = OrderedDict()
        self._created = 0
        self._cache = LruCache()
        self.aggregates = frozenset(
            row[0]
            for row in self._connection.execute(
                "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
            ).fetchall()
        )

    def parse(self, text: str) -> Select:
        """Take a statement apart.

        Raises:
            NotSelect: it is not one SELECT statement.
        """
        # Nothing that is learned here depends on the values of numbers.
        typical = with_typical_integers(text)
        with self._lock:
            parsed = self._cache.get(("parse", typical), len(text), lambda: self._parse(typical))
        if isinstance(parsed, NotSelect):
            raise parsed
        return parsed if typical == text else replace(parsed, text=text.encode())

    def result_names(self, text: bytes, replaced: Sequence[int]) -> list[tuple[Span, str]]:
        """Edits that name the columns of a SELECT whose names would show what is put in the place of its tables.

        Args:
            text: the statement.
            replaced: where the names of these tables begin.
        """

        def ask(question: str) -> Callable[[str], str]:
            return lambda value: self._ask(self._shipped, f"SELECT {question}(?)", value)

        with self._lock:
            return self._cache.get(
                ("names", text, tuple(replaced)),
                len(text),
                lambda: aliases(text, replaced, ask("json_serialize_sql"), ask("json_deserialize_sql")),
            )

    def question(self, sql: str) -> duckdb.Statement:
        """A query of ours that any connection runs without parsing it again; there are few of them."""
        return self._shipped.question(sql)

    def _parse(self, text: str) -> Select | NotSelect:
        serialized = self._ask(self._shipped, "SELECT json_serialize_sql(?)", text)
        try:
            return parse_select(text, serialized)
        except NotSelect as refusal:
            return refusal

    def bound_plan(self, text: str, zone: str) -> str:
        """Return the serialized plan of a statement before any optimizer ran.

        A session that serializes the same text to the same plan gives it the same meaning.
        """
        with self._lock:
            return self._cache.get(("bound", text, zone), len(text), lambda: self._bound_plan(text, zone))

    def _bound_plan(self, text: str, zone: str) -> str:
        # Even the plan before optimization differs with the set of optimizers (for RIGHT JOIN, say).
        return self._ask(self._shipped, "SELECT json_serialize_plan(?)", text, zone)

    def known_settings(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of the names that are settings of the running version."""
        return tuple(name for name in names if name.lower() in self._settings)

    def settings(self, names: Sequence[str]) -> tuple[str, ...]:
        """Values of settings as this instance has them."""
        with self._lock:
            key = ("settings", *names)
            shown = ", ".join(f"current_setting('{name}')" for name in names)
            return self._cache.get(
                key,
                0,
                lambda: tuple(
                    map(setting_text, self._connection.execute(f"SELECT {shown}").fetchone() or ())
                ),
            )

    def optimized_plans(self, text: str, zone: str, *, keep_form: bool) -> list[dict[str, Any]]:
        """Plan a statement whose tables are shadow tables.

        Args:
            text: the statement.
            zone: the session's time zone.
            keep_form: leave predicates in the form in which they were written.

        Returns:
            DuckDB's optimized plan.

        Raises:
            NotPlanned: DuckDB refuses the statement, or its plan is not readable (NaN).
        """
        instance = self._moving[keep_form]
        question = "SELECT json_serialize_plan(?, optimize := true)"
        plan = self._ask(instance, question, text, zone)
        if plan.startswith(_FAILED_INSIDE):
            plan = instance.ask_without(INLINING, question, text, zone)
        return readable_plans(plan)

    def with_connection(self, use: Callable[[duckdb.DuckDBPyConnection], _Value]) -> _Value:
        """Let `use` run something on the instance with all optimizers."""
        with self._lock:
            return use(self._connection)

    def table_names(self, relations: Sequence[Relation]) -> list[str]:
        """Return a shadow table for each relation; two of the same shape get two tables."""
        with self._tables_lock:
            counts: dict[Relation, int] = {}
            names: list[str] = []
            for relation in relations:
                number = counts.get(relation, 0)
                counts[relation] = number + 1
                names.append(self._table(relation, number))
            self._forget_tables(keep=len(names))
            return names

    def _table(self, relation: Relation, number: int) -> str:
        key = (relation, number)
        if key not in self._tables:
            name = f"pruner_shadow_{self._created}"
            self._created += 1
            try:
                self._everywhere(f"CREATE TABLE {name} ({relation.definition()})")
            except duckdb.Error as error:
                raise NotPlanned(f"cannot hold the table's schema ({_first_line(error)})") from error
            self._tables[key] = name
        self._tables.move_to_end(key)
        return self._tables[key]

    def _forget_tables(self, keep: int) -> None:
        while len(self._tables) > max(keep, CACHE_ENTRIES):
            _, name = self._tables.popitem(last=False)
            self._everywhere(f"DROP TABLE {name}")

    def _everywhere(self, statement: str) -> None:
        for instance in self._moving.values():
            with instance.lock:
                instance.connection.execute(statement)

    def _ask(self, instance: _Instance, sql: str, text: str, zone: str | None = None) -> str:
        return instance.ask(sql, text, zone)


def setting_text(value: object) -> str:
    """The value of a setting as DuckDB writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def readable_plans(serialized: str) -> list[dict[str, Any]]:
    """Parse the answer of `json_serialize_plan`.

    Raises:
        NotPlanned: it holds an error, or is no JSON.
    """
    try:
        answer = json.loads(_NAN.sub(_as_json, serialized) if "NAN" in serialized else serialized)
    except (ValueError, RecursionError) as error:
        raise NotPlanned("writes a plan that is no JSON") from error
    if answer.get("error"):
        raise NotPlanned(f"cannot plan the statement ({_first_line(answer.get('error_message'))})")
    if "plans" not in answer:
        raise NotPlanned("writes a plan of another form")
    return answer["plans"]


def _as_json(found: re.Match[str]) -> str:
    """Python's JSON knows `NaN`, which DuckDB 2.0 writes as `NAN`; texts stay as they are."""
    return "NaN" if found.group() == "NAN" else found.group()


def _first_line(error: object) -> str:
    return str(error).strip().split("\n", 1)[0]
