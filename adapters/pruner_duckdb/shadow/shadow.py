"""A private DuckDB instance that knows only the tables' schemas, asked what its optimizer would push down to each scan.

Its tables are empty and native, because DuckDB 2.0 serializes only those. Only the optimizers that move predicates run:
with the others on, an empty table collapses or scalar subqueries fail to serialize. The setting is global to an
instance, hence instances of our own, one for each set of optimizers.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import duckdb

from pruner.limits import REMEMBERED_SLICES
from pruner_duckdb.shadow.answers import EXTENSIONS
from pruner_duckdb.sql.extents import add_lengths, has_lengths
from pruner_duckdb.sql.functions import FOLDABLE, repeatable_functions
from pruner_duckdb.sql.result_names import CALLS, aliases
from pruner_duckdb.sql.select import NotSelect, Select, Span, parse_select
from pruner_duckdb.types import quote

if TYPE_CHECKING:
    from pruner.tables.snapshot import Snapshot

# Texts that differ only in integers are normalized to one text, so that what depends on nothing else is computed once.
#
# What is computed for one text and reused for another must hold for both. So a text is shared only if there is no doubt
# where its tokens begin and end: ASCII words, numbers, plain quotes, white space and common operators. A text with
# comments, dollar quotes, prefixed quotes (`e'…'`), backslashes, non-ASCII characters or numbers written in any other
# way is not shared.

_INTEGER = r"[1-9][0-9]*+(?![a-z0-9_.'\"])"
_OTHERS = (
    # The numbers of a type are part of it: DECIMAL(18, 3), INTEGER[7].
    r"(?:(?!(?:in|values)\b)[a-z_][a-z0-9_]*+\s*+\([0-9,\s]*+\)|\[\s*+[0-9]++\s*+\]"
    r"|\s++"
    r"|[a-z_][a-z0-9_]*+(?![$'\"&])"
    r"|(?:0[0-9]*+|[0-9]++\.[0-9]++(?:e[+-]?+[0-9]++)?+|[0-9]++e[+-]?+[0-9]++)(?![a-z0-9_.'\"])"
    r"|'[^']*+'(?![a-z0-9_\"])"
    r"|\"[^\"]++\"(?![a-z0-9_'])"
    r"|-(?!-)|/(?![*/])|\*(?!/)|\.(?!\s*+[0-9.])|\?(?!\s*+[0-9?])"
    r"|!=|::|:(?![a-z0-9_:])|\|\||[(),;=<>+%\[\]])++"
)
_PLAIN = re.compile(f"(?:{_INTEGER}|{_OTHERS})*+", re.IGNORECASE | re.ASCII)
_INTEGERS = re.compile(f"(?P<integer>{_INTEGER})|{_OTHERS}", re.IGNORECASE | re.ASCII)
_UNSURE = re.compile(r"[^ -~\t\r\n]|[\\$#{}@^~`]")
"""Characters that keep a text from being shared, wherever they occur."""

_LONGEST_INTEGER = 18


def with_typical_integers(text: str) -> str:
    """Replace each integer of a plain text by one that is the same for all integers that DuckDB gives the same types;
    any other text is returned unchanged.

    It has as many digits as the one that it replaces, so positions in the text do not change. The type of a literal
    follows from its number of bits and of digits; an exact power of two, whose negative fits in a smaller type, stays.
    """
    if _UNSURE.search(text) or not _PLAIN.fullmatch(text):
        return text
    return _INTEGERS.sub(_typical, text)


def _typical(match: re.Match[str]) -> str:
    digits = match["integer"]
    if digits is None:
        return match.group()
    if len(digits) > _LONGEST_INTEGER:
        return digits
    value = int(digits)
    power = 1 << (value.bit_length() - 1)
    return digits if value == power else str(max(power + 1, 10 ** (len(digits) - 1)))


# A private DuckDB instance, with the time zone and the macros of the session for which it is asked.

Definitions: TypeAlias = "tuple[tuple[str, str], ...]"
"""Names of macros, and what follows them in a CREATE MACRO."""

_MACROS = "pruner_macros"
"""The schema that holds macros of a session."""


class NotPlanned(Exception):  # noqa: N818 - never reaches a user
    """The shadow cannot plan the statement; `str()` is the reason."""


class Instance:
    """An in-memory DuckDB database; calls are serialized by its lock."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(":memory:", config={"threads": 1})
        self.lock = threading.RLock()
        self._zone: str | None = None
        self._macros: Definitions = ()
        self._finds_macros = False
        self._kept: frozenset[str] = frozenset()
        self._questions: dict[str, duckdb.Statement] = {}
        with contextlib.suppress(duckdb.CatalogException):  # older versions know one syntax
            # Both syntaxes are understood here: a session that rejects one reports it itself.
            self.connection.execute("SET lambda_syntax = 'ENABLE_SINGLE_ARROW'")

    def question(self, sql: str) -> duckdb.Statement:
        """A query of ours, parsed: parsing takes a third of the time of a short query.

        Any connection can run it, however its own parser would read the text.
        """
        with self.lock:
            if sql not in self._questions:
                (self._questions[sql],) = self.connection.extract_statements(sql)
            return self._questions[sql]

    def keep_optimizers(self, kept: Collection[str]) -> None:
        """Disable all other optimizers."""
        with self.lock:
            every = [row[0] for row in self.connection.execute("FROM duckdb_optimizers()").fetchall()]
            disabled = ",".join(name for name in every if name not in kept)
            self.connection.execute(f"SET disabled_optimizers = '{disabled}'")
            self._kept = frozenset(kept)

    def ask_without(
        self, optimizers: Collection[str], sql: str, text: str, zone: str, macros: Definitions
    ) -> str:
        """The same as `ask`, with fewer optimizers for this call."""
        with self.lock:
            kept = self._kept
            self.keep_optimizers(kept - frozenset(optimizers))
            try:
                return self.ask(sql, text, zone, macros)
            finally:
                self.keep_optimizers(kept)

    def ask(self, sql: str, text: str, zone: str | None = None, macros: Definitions = ()) -> str:
        """The only value of a query with one parameter, in a time zone and with macros where these matter."""
        with self.lock:
            if zone is not None:
                self._set_zone(zone)
                self._find_macros(macros)
            row = self.connection.execute(self.question(sql), [text]).fetchone()
        return str(row[0]) if row else ""

    def _set_zone(self, zone: str) -> None:
        if zone != self._zone:
            self.connection.execute("SET TimeZone = ?", [zone])
            self._zone = zone

    def _find_macros(self, macros: Definitions) -> None:
        """Make these macros visible, and no others."""
        if self._finds_macros and not macros:
            self.connection.execute("SET search_path = 'main'")
            self._finds_macros = False
        elif macros and macros != self._macros:
            self._make_macros(macros)
        elif macros and not self._finds_macros:
            self.connection.execute(f"SET search_path = 'main,{_MACROS}'")
            self._finds_macros = True

    def _make_macros(self, macros: Definitions) -> None:
        run = self.connection.execute
        run("SET search_path = 'main'")
        self._macros, self._finds_macros = (), False
        run(f"DROP SCHEMA IF EXISTS {_MACROS} CASCADE")
        run(f"CREATE SCHEMA {_MACROS}")
        run(f"SET search_path = 'main,{_MACROS}'")
        self._finds_macros = True
        try:
            for name, definition in macros:
                run(f"CREATE MACRO {_MACROS}.{quote(name)}{definition}")
        except duckdb.Error as error:
            raise NotPlanned(f"cannot hold a macro of the session ({first_line(error)})") from error
        self._macros = macros


def first_line(error: object) -> str:
    """The first line of an error."""
    return str(error).strip().split("\n", 1)[0]


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
"""Optimizers that push predicates towards scans, and those that they need."""

INLINING = frozenset(["cte_inlining"])
"""Disabled where planning fails with an internal error: DuckDB 2.0 cannot bind an inlined WITH that joins others to a
semi-join ("inequal num bindings/types") before join_order has run. cte_filter_pusher pushes predicates into such a
WITH.
"""

REWRITING = frozenset(["expression_rewriter", "regex_range"])
"""Optimizers that rewrite a predicate (`ts::date = …` becomes a range of `ts`)."""

CACHE_ENTRIES = 256
"""Number of statements whose parse and plans are cached."""

CACHED_TEXT_BYTES = 1 << 16
"""Length of the longest statement that is cached."""

_FAILED_INSIDE = '{"error":true,"error_type":"internal"'

_NAN = re.compile(r'"(?:[^"\\]|\\.)*"|NAN')
"""Strings, and NaN outside of them."""

_Value = TypeVar("_Value")
_Key = TypeVar("_Key")
_Kept = TypeVar("_Kept")


@dataclass(frozen=True, slots=True)
class Relation:
    """Names and DuckDB types of a table's columns, in order."""

    columns: tuple[tuple[str, str], ...]

    def definition(self) -> str:
        """Column definitions of a CREATE TABLE."""
        return ", ".join(f"{quote(name)} {data_type}" for name, data_type in self.columns)

    def narrowed(self, wanted: Callable[[str], bool]) -> Relation:
        """The same with only the columns whose names are wanted, but at least one."""
        return Relation(tuple(column for column in self.columns if wanted(column[0])) or self.columns[:1])

    def empty_select(self) -> str:
        """A query with these columns and no rows."""
        columns = ", ".join(f"NULL::{data_type} AS {quote(name)}" for name, data_type in self.columns)
        return f"SELECT {columns} WHERE false"


class LruCache:
    """A bounded cache of what was computed for a text."""

    def __init__(self, entries: int = CACHE_ENTRIES) -> None:
        self._entries = entries
        self._values: OrderedDict[Any, Any] = OrderedDict()

    def get(self, key: Any, size: int, compute: Callable[[], _Value]) -> _Value:
        """Return the value cached under `key`, computing it first if needed; a large one is not cached."""
        if key in self._values:
            self._values.move_to_end(key)
            return self._values[key]
        value = compute()
        if size <= CACHED_TEXT_BYTES:
            self._values[key] = value
            if len(self._values) > self._entries:
                self._values.popitem(last=False)
        return value


_LEAST_SNAPSHOTS = 4
"""Number of snapshots that are held whatever their size: some threads use one while others move on to newer ones."""


class NewestValues(Generic[_Key, _Kept]):
    """A bounded cache of the values that were put last. Threads may share it."""

    def __init__(self, most: int, snapshot_of: Callable[[_Kept], Snapshot] | None = None) -> None:
        """Create an empty cache.

        Args:
            most: how many values are kept.
            snapshot_of: returns the snapshot that a value holds: fewer are kept if these are large
                (`REMEMBERED_SLICES`).
        """
        self._most = most
        self._snapshot_of = snapshot_of
        self._held: Counter[int] = Counter()
        self._slices = 0
        self._lock = threading.Lock()
        self._values: OrderedDict[_Key, _Kept] = OrderedDict()

    def get(self, key: _Key) -> _Kept | None:
        """The value; None if it is not in the cache, or no longer."""
        with self._lock:
            return self._values.get(key)

    def put(self, key: _Key, value: _Kept) -> _Kept:
        """Keep a value; if the key already has one, that one stays and is returned."""
        with self._lock:
            if key in self._values:
                return self._values[key]
            self._values[key] = value
            self._hold(value)
            while len(self._values) > self._most or (
                self._slices > REMEMBERED_SLICES and len(self._held) > _LEAST_SNAPSHOTS
            ):
                self._let_go(self._values.popitem(last=False)[1])
        return value

    def _hold(self, value: _Kept) -> None:
        if self._snapshot_of is not None:
            snapshot = self._snapshot_of(value)
            self._held[id(snapshot)] += 1
            self._slices += len(snapshot) if self._held[id(snapshot)] == 1 else 0

    def _let_go(self, value: _Kept) -> None:
        if self._snapshot_of is not None:
            snapshot = self._snapshot_of(value)
            self._held[id(snapshot)] -= 1
            if not self._held[id(snapshot)]:
                del self._held[id(snapshot)]
                self._slices -= len(snapshot)


def _mover(kept: Collection[str]) -> Instance:
    """An instance with only some optimizers."""
    made = Instance()
    made.keep_optimizers(kept)
    return made


class Shadow:
    """The private instances. One object per process serves every connection, from any thread."""

    def __init__(self) -> None:
        self._shipped = Instance()
        self._moving = {False: _mover(KEPT_OPTIMIZERS)}
        """Those that move predicates, by whether they keep their form; the one that does is created on first use."""
        self._lock = self._shipped.lock
        self._connection = self._shipped.connection
        known = self._connection.execute("SELECT lower(name) FROM duckdb_settings()").fetchall()
        self._settings = frozenset(row[0] for row in known)
        (self.extensions,) = self._connection.execute(EXTENSIONS).fetchone() or ("",)
        """The extensions that a new database has loaded."""
        self._tables_lock = threading.Lock()
        self._tables: OrderedDict[tuple[Relation, int], str] = OrderedDict()
        self._created = 0
        self._cache = LruCache()
        listed = self._connection.execute(
            "SELECT lower(function_name), list(DISTINCT function_type), bool_and(coalesce("
            "stability = 'CONSISTENT', function_type = 'macro')) FROM duckdb_functions() "
            "WHERE function_type NOT IN ('table', 'table_macro', 'pragma') GROUP BY ALL"
        ).fetchall()
        self.functions = FOLDABLE | frozenset(name for name, _, _ in listed)
        """Names of all built-in functions of DuckDB that return values, in lower case."""
        self.aggregates = frozenset(name for name, kinds, _ in listed if "aggregate" in kinds)
        self.repeatable = repeatable_functions(listed)
        """Those of them that change nothing and depend on nothing beyond what is compared."""

    def parse(self, text: str) -> Select:
        """Parse a statement.

        Raises:
            NotSelect: it is not one SELECT statement.
        """
        # Nothing that is derived here depends on the values of numbers.
        typical = with_typical_integers(text)
        with self._lock:
            parsed = self._cache.get(("parse", typical), len(text), lambda: self._parse(typical))
        if isinstance(parsed, NotSelect):
            raise parsed
        return parsed if typical == text else replace(parsed, text=text.encode())

    def result_names(self, text: bytes, replaced: Sequence[int]) -> list[tuple[Span, str]]:
        """Edits that name the columns of a SELECT whose names would otherwise show the replacements of its tables.

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

    def call_names(self, text: bytes, replaced: Sequence[int]) -> list[tuple[Span, str]]:
        """Edits that name the columns of a SELECT whose names would otherwise show the replacements of calls in it.

        Args:
            text: the statement.
            replaced: where these calls begin.
        """

        def ask(question: str) -> Callable[[str], str]:
            return lambda value: self._ask(self._shipped, f"SELECT {question}(?)", value)

        with self._lock:
            return self._cache.get(
                ("call names", text, tuple(replaced)),
                len(text),
                lambda: aliases(
                    text, replaced, ask("json_serialize_sql"), ask("json_deserialize_sql"), CALLS
                ),
            )

    def located_tree(self, text: bytes) -> dict[str, Any]:
        """The parse tree of a SELECT; each node has its position and length as far as they are known."""
        with self._lock:
            return self._cache.get(("tree", text), len(text), lambda: self._located_tree(text))

    def _located_tree(self, text: bytes) -> dict[str, Any]:
        serialized = self._ask(self._shipped, "SELECT json_serialize_sql(?)", text.decode())
        root = json.loads(serialized)["statements"][0]["node"]
        if not has_lengths(serialized):
            add_lengths(root, text)
        return root

    def question(self, sql: str) -> duckdb.Statement:
        """A query of ours that any connection can run without parsing it again; there are few of them."""
        return self._shipped.question(sql)

    def tree(self, text: str) -> dict[str, Any]:
        """The parse tree of a short statement; an error object if it is no SELECT."""
        return json.loads(self._ask(self._shipped, "SELECT json_serialize_sql(?)", text))

    def _parse(self, text: str) -> Select | NotSelect:
        serialized = self._ask(self._shipped, "SELECT json_serialize_sql(?)", text)
        try:
            return parse_select(text, serialized)
        except NotSelect as refusal:
            return refusal

    def bound_plan(self, text: str, zone: str, macros: Definitions = ()) -> str:
        """Return the serialized plan of a statement before any optimizer ran.

        A session whose plan of the same text serializes to the same result gives the text the same meaning.
        """
        with self._lock:
            return self._cache.get(
                ("bound", text, zone, macros), len(text), lambda: self._bound_plan(text, zone, macros)
            )

    def _bound_plan(self, text: str, zone: str, macros: Definitions) -> str:
        # Even the unoptimized plan depends on the set of optimizers (for RIGHT JOIN, say).
        return self._ask(self._shipped, "SELECT json_serialize_plan(?)", text, zone, macros)

    def known_settings(self, names: Sequence[str]) -> tuple[str, ...]:
        """The names that are settings of the running version."""
        return tuple(name for name in names if name.lower() in self._settings)

    def settings(self, names: Sequence[str]) -> tuple[str, ...]:
        """Values of settings in this instance."""
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

    def optimized_plans(
        self, text: str, zone: str, *, keep_form: bool, macros: Definitions = ()
    ) -> list[dict[str, Any]]:
        """Plan a statement whose tables are shadow tables.

        Args:
            text: the statement.
            zone: the session's time zone.
            keep_form: keep predicates in the form in which they were written.
            macros: the session's macros that the statement calls.

        Returns:
            DuckDB's optimized plan.

        Raises:
            NotPlanned: DuckDB rejects the statement, or its plan is not readable (NaN).
        """
        instance = self._moves(keep_form)
        question = "SELECT json_serialize_plan(?, optimize := true)"
        plan = self._ask(instance, question, text, zone, macros)
        if plan.startswith(_FAILED_INSIDE):
            plan = instance.ask_without(INLINING, question, text, zone, macros)
        return readable_plans(plan)

    def with_connection(self, use: Callable[[duckdb.DuckDBPyConnection], _Value]) -> _Value:
        """Call `use` with the connection of the instance with all optimizers."""
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
                raise NotPlanned(f"cannot hold the table's schema ({first_line(error)})") from error
            self._tables[key] = name
        self._tables.move_to_end(key)
        return self._tables[key]

    def _forget_tables(self, keep: int) -> None:
        while len(self._tables) > max(keep, CACHE_ENTRIES):
            _, name = self._tables.popitem(last=False)
            self._everywhere(f"DROP TABLE {name}")

    def _moves(self, keep_form: bool) -> Instance:
        """The instance that moves predicates and keeps their form or not, with all tables."""
        with self._tables_lock:
            if keep_form not in self._moving:
                made = _mover(KEPT_OPTIMIZERS - REWRITING)
                for (relation, _), name in self._tables.items():
                    made.connection.execute(f"CREATE TABLE {name} ({relation.definition()})")
                self._moving[keep_form] = made
            return self._moving[keep_form]

    def _everywhere(self, statement: str) -> None:
        for instance in self._moving.values():
            with instance.lock:
                instance.connection.execute(statement)

    def _ask(
        self, instance: Instance, sql: str, text: str, zone: str | None = None, macros: Definitions = ()
    ) -> str:
        return instance.ask(sql, text, zone, macros)


def setting_text(value: object) -> str:
    """The value of a setting as DuckDB writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def readable_plans(serialized: str) -> list[dict[str, Any]]:
    """Parse the answer of `json_serialize_plan`.

    Raises:
        NotPlanned: it is an error, or no JSON.
    """
    try:
        answer = readable_json(serialized)
    except (ValueError, RecursionError) as error:
        raise NotPlanned("writes a plan that is no JSON") from error
    if answer.get("error"):
        raise NotPlanned(f"cannot plan the statement ({first_line(answer.get('error_message'))})")
    if "plans" not in answer:
        raise NotPlanned("writes a plan of another form")
    return answer["plans"]


def readable_json(serialized: str) -> Any:
    """Parse JSON that DuckDB wrote.

    Raises:
        ValueError: it is no JSON.
    """
    return json.loads(_NAN.sub(_as_json, serialized) if "NAN" in serialized else serialized)


def _as_json(match: re.Match[str]) -> str:
    """Python's JSON reads `NaN`, which DuckDB 2.0 writes as `NAN`; strings stay unchanged."""
    return "NaN" if match.group() == "NAN" else match.group()
