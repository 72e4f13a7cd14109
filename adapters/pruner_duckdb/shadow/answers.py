"""A cache of a session's answers, valid until something may have changed them, and which statements change what.

DuckDB exposes no version number of its catalog, so a session is asked for each statement whether names still mean the
same. That takes a millisecond. If the adapter opened an in-memory database itself and has handed out no handle of it,
it sees every change: until one happens, each query has the same answer as before.

This module also knows after which statements every function, type and setting of a session still means what it does in
a new DuckDB. A session in which only such statements ran understands a statement as the databases do that plan for it,
so that it need not be asked. Only statements that are known to define nothing count as such.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import duckdb

EXTENSIONS: Final = (
    "SELECT coalesce(system.main.string_agg(extension_name, ',' ORDER BY extension_name), '') "
    "FROM system.main.duckdb_extensions() WHERE loaded"
)
"""Names of the extensions that a database has loaded."""

_SETTINGS: Final = (
    r"timezone|(?:worker_|external_)?threads|memory_limit|max_memory|temp_directory|max_temp_directory_size|"
    r"preserve_insertion_order|enable_progress_bar|enable_progress_bar_print|progress_bar_time|enable_object_cache|"
    r"parquet_metadata_cache|enable_external_file_cache|enable_http_metadata_cache|http_(?:timeout|retries|keep_alive)"
)
"""Settings that do not change the meaning of a statement; plans account for the time zone."""

_DEFINES_NOTHING: Final = re.compile(
    rf"""\s*(?:
        (?:select|with|from|values|table|insert|update|delete|copy|truncate|describe|desc|show|summarize)\b
        | (?:begin|start|commit|end|abort|rollback|checkpoint|vacuum|analyze|append|drop)\b
        | create\s+(?:or\s+replace\s+)?(?:(?:temp|temporary|unique)\s+)?(?:table|view|schema|sequence|index)\b
        | (?:set|reset)\s+(?:(?:session|local|global)\s+)?(?:{_SETTINGS}|time\s+zone)\b
    )[^;]*;?\s*$""",
    re.IGNORECASE | re.VERBOSE,
)
_TAKES_DEFINITIONS: Final = re.compile(r"\s*(?:copy\s+from\s+database|update\s+extensions)\b", re.IGNORECASE)
"""Statements that may bring in macros and types: from another database, or by updating extensions."""


def defines_nothing(text: str) -> bool:
    """Tell whether a statement is certain to change no function, no type and no setting that matters.

    Args:
        text: SQL, or the name of a method of DuckDB's connection; empty where a data frame is registered.
    """
    return not text or (_DEFINES_NOTHING.match(text) is not None and not _TAKES_DEFINITIONS.match(text))


def are_harmless(settings: Iterable[str]) -> bool:
    """Tell whether a database may be opened with these settings without changing the meaning of any statement."""
    return all(re.fullmatch(_SETTINGS, name, re.IGNORECASE) for name in settings)


Ask = Callable[["str | duckdb.Statement", "list[object]"], "tuple[Any, ...]"]
"""Runs a query with parameters in the user's session and returns its only row."""

MOST_ANSWERS = 256
"""Most answers kept for one connection; a plan of a long statement has a hundred kilobytes."""

_OTHERS_CHANGE = re.compile(r"attach|\b(import|load|call)\b", re.IGNORECASE)
"""Words of statements that may bring in databases which others change, or code and texts that may do so."""


def _names(*lines: str) -> frozenset[str]:
    return frozenset(name for line in lines for name in line.split())


FETCHING = _names(
    "fetchall fetchone fetchmany fetchdf fetch_df fetch_df_chunk fetchnumpy fetch_arrow_table fetch_arrow_reader",
    "fetch_record_batch df to_df arrow pl tf torch to_arrow_table to_arrow_reader to_dicts iter_rows description",
)

CHANGING_NOTHING = FETCHING | _names("rowcount interrupt query_progress extract_statements")
"""Members of DuckDB's connection that leave the session unchanged."""

SHOWING_CHANGES = _names("append begin checkpoint commit create_function remove_function rollback")
"""Members that may change the session, but hand out no handle of it."""

READING = FETCHING | _names(
    "aggregate alias close columns count describe distinct dtypes except_ explain filter head intersect join limit",
    "max mean min order project sample select set_alias shape show sort sum type types union unique",
)
"""Members of DuckDB's relations that pass rows only to the caller. Relations that they return are wrapped."""


class DatabaseChanges:
    """Tracks when a database, or a session in it, may last have changed. One per database; threads may share it."""

    def __init__(self, *, all_pass_here: bool, is_pristine: bool = False) -> None:
        """Begin to watch.

        Args:
            all_pass_here: whether no one else has a handle of the database, or will get one without `handed_out`.
            is_pristine: whether its functions, types and settings mean what they do in any new database.
        """
        self._all_pass_here = all_pass_here
        self._is_pristine = is_pristine
        self._moment = object()

    @property
    def moment(self) -> object | None:
        """An object that is a different one after each change; None if changes may go unseen."""
        return self._moment if self._all_pass_here else None

    @property
    def is_pristine(self) -> bool:
        """Whether no function, type or setting can have another meaning than in any new database. An extension may have
        been loaded nevertheless: DuckDB does so by itself.
        """
        return self._all_pass_here and self._is_pristine

    def happened(self) -> None:
        """Record that something may have changed."""
        self._moment = object()

    def handed_out(self) -> None:
        """Record that others can change the database from now on."""
        self._all_pass_here = False

    @contextmanager
    def during(self, statement: object = "") -> Generator[None]:
        """Wrap the run of something that may change the database: it may be half done, or done by the time it fails.

        Args:
            statement: its text, or the name of a method; empty where a data frame is registered or unregistered.
        """
        text = str(getattr(statement, "query", None) or statement)
        if _OTHERS_CHANGE.search(text):
            self.handed_out()
        if self._is_pristine and not defines_nothing(text):
            self._is_pristine = False
        self.happened()
        try:
            yield
        finally:
            self.happened()


class AnswerCache:
    """The answers of one connection to queries whose answers change only with the session or the catalog."""

    def __init__(self, changes: DatabaseChanges) -> None:
        self.changes = changes
        self._lock = threading.Lock()
        self._known: tuple[object, dict[object, tuple[Any, ...]]] = (object(), {})

    def to(self, sql: str | duckdb.Statement, values: list[object], ask: Ask) -> tuple[Any, ...]:
        """The answer to a query, from `ask` if it is not cached."""
        moment = self.changes.moment
        if moment is None:
            return ask(sql, values)
        with self._lock:
            if self._known[0] is not moment:
                self._known = (moment, {})
            known = self._known[1]
        key = (sql, tuple(values))
        row = known.get(key)
        if row is None:
            # If something changed meanwhile, `known` is already obsolete.
            row = ask(sql, values)
            with self._lock:
                if len(known) >= MOST_ANSWERS:
                    known.clear()
                known[key] = row
        return row
