"""Cached rewritings, reused for a statement seen before, over tables that did not change, in a session that gives the
same answers.

A rewriting depends on a text, on parameters, on the session's answers to our queries, on the shapes of what else the
statement reads, and on the snapshots of tables with the state of their indexes. All of that is observed while it is
made. It is reused only if every query gets the same answer as before and every table is unchanged: whatever may change
the meaning of a statement is an answer, or keeps the rewriting from being cached.
"""

from __future__ import annotations

import datetime
import decimal
import threading
import time
import uuid
import zoneinfo
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import duckdb

from pruner_duckdb.scans import LEFT_OUT
from pruner_duckdb.session.session import describe_relation, transaction_start
from pruner_duckdb.shadow.answers import Ask
from pruner_duckdb.shadow.predicates import Parameters
from pruner_duckdb.shadow.shadow import Relation

if TYPE_CHECKING:
    from pruner import PinnedSnapshot
    from pruner_duckdb.catalog.tables import KnownTable
    from pruner_duckdb.rewrite.statement import Rewritten
    from pruner_duckdb.session.scope import Method

REMEMBERED_REWRITINGS = 128
MOST_FILES = 1 << 17
LONGEST_TEXT = 1 << 15
"""Bounds of the cache: the number of rewritings, their files in total, and the characters of a text."""

BYTES_OF_A_FILE = 150
"""Memory for a file, which grows with its path. Deleted rows, of 16 bytes each, count like files."""

SECONDS_WITH_FALLBACKS = 5.0
"""How long a plan with fallbacks is reused: an index that could not be read may be readable again."""

SECONDS_UNPRUNED = 60.0
"""How long a rewriting that reads every file is reused: a macro that it names may be better understood by then."""

SECONDS_OF_A_MOMENT = 60.0
"""How long a plan for `now()` is reused: its own moment is the lower bound, so it keeps ever more files."""

RelationOf = Callable[[str], duckdb.DuckDBPyRelation]

_PLAIN_VALUES = frozenset(
    [
        type(None),
        bool,
        int,
        float,
        str,
        bytes,
        decimal.Decimal,
        datetime.date,
        datetime.datetime,
        datetime.time,
        datetime.timedelta,
        uuid.UUID,
    ]
)
_ZONES = frozenset([type(None), datetime.timezone, zoneinfo.ZoneInfo])

_Answer: TypeAlias = "tuple[str | duckdb.Statement, list[object], tuple[Any, ...]]"
_Taken: TypeAlias = "tuple[KnownTable, PinnedSnapshot]"


@dataclass
class Observations:
    """Queries a session, describes relations and pins snapshots, and records the results."""

    ask_session: Ask
    ask_now: Ask
    """The same for queries whose answer differs each time."""
    relation_of: RelationOf
    answers: list[_Answer] = field(default_factory=list["_Answer"])
    shapes: list[tuple[str, Relation]] = field(default_factory=list[tuple[str, Relation]])
    snapshots: list[_Taken] = field(default_factory=list["_Taken"])
    zone: str = "UTC"
    """The session's time zone, one of its answers."""
    passing: bool = False
    """Whether something was learned in the process that lets the next rewriting ask less."""
    is_pristine: bool = False
    """Whether the meaning of the statement was not compared, because nothing had been defined."""
    began: int | None = None
    """When the session's transaction began, if that matters: the lower bound also holds for later ones."""

    def ask(self, sql: str | duckdb.Statement, values: list[object]) -> tuple[Any, ...]:
        """The only row of a query in the session."""
        row = self.ask_session(sql, values)
        self.answers.append((sql, values, row))
        return row

    def describe(self, text: str) -> Relation:
        """The shape of something that a statement reads besides tables of pruner.

        Raises:
            Unpruned: it is unknown.
        """
        relation = describe_relation(self.relation_of, text)
        self.shapes.append((text, relation))
        return relation

    def snapshot(self, known: KnownTable) -> PinnedSnapshot:
        """The snapshot of a table that the statement reads.

        Raises:
            TableError: the table cannot be listed completely.
        """
        snapshot = known.snapshot()
        self.snapshots.append((known, snapshot))
        return snapshot

    def transaction_start(self) -> int:
        """When the session's transaction began, in nanoseconds since 1970."""
        self.began = transaction_start(self.ask_now)
        return self.began

    def hold(self, method: Method, relation_of: RelationOf) -> bool:
        """Tell whether every query has the same answer now as before."""
        return (
            (method.answers.changes.is_pristine or not self.is_pristine)
            and all(method.answer(sql, values) == row for sql, values, row in self.answers)
            and (self.began is None or transaction_start(method.first_row) >= self.began)
            and all(known.snapshot().plans_as(snapshot) for known, snapshot in self.snapshots)
            and all(describe_relation(relation_of, text) == shape for text, shape in self.shapes)
        )


@dataclass
class _Entry:
    rewritten: Rewritten
    seen: Observations
    until: float
    files: int
    parsed: Rewritten | None = None
    """The rewriting parsed by DuckDB, which takes a third of the time of a short query."""


class RememberedRewritings:
    """A bounded LRU cache of rewritings. Threads may share it."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._newest: dict[tuple[str, ...], PinnedSnapshot] = {}
        self._lock = threading.Lock()

    def get(
        self, key: Hashable, method: Method, relation_of: RelationOf
    ) -> tuple[Rewritten, Observations] | None:
        """The rewriting under a key, with its observations, if a new one would be the same."""
        with self._lock:
            entry = self._entries.get(key)
        if entry is None or entry.until < time.monotonic() or not _holds(entry.seen, method, relation_of):
            return None
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
        if method.lazy:
            rewritten = entry.rewritten.with_other_markers()
            return None if rewritten is None else (rewritten, entry.seen)
        if entry.parsed is None:
            # The session's answers, also about its parser, are the same as those of any other that gets here.
            entry.parsed = entry.rewritten.parsed_by(method.native)
        return entry.parsed, entry.seen

    def put(self, key: Hashable, rewritten: Rewritten, seen: Observations) -> None:
        """Cache a rewriting, unless it is large, and drop those of tables that have changed since."""
        files = sum(scan.kept for scan in rewritten.scans)
        files += sum(source.bytes for source in rewritten.sources.values()) // BYTES_OF_A_FILE
        if files > MOST_FILES or len(rewritten.sql) > LONGEST_TEXT:
            return
        seconds = SECONDS_OF_A_MOMENT if seen.began is not None else float("inf")
        if any(scan.reason not in (None, LEFT_OUT) for scan in rewritten.scans):
            seconds = min(seconds, SECONDS_UNPRUNED)
        if any(scan.plan.fallbacks for scan in rewritten.scans):
            seconds = min(seconds, SECONDS_WITH_FALLBACKS)
        with self._lock:
            self._forget_older(seen)
            self._entries[key] = _Entry(rewritten, seen, time.monotonic() + seconds, files)
            self._entries.move_to_end(key)
            total = sum(entry.files for entry in self._entries.values())
            while len(self._entries) > REMEMBERED_REWRITINGS or total > MOST_FILES:
                _, oldest = self._entries.popitem(last=False)
                total -= oldest.files

    def _forget_older(self, seen: Observations) -> None:
        """Drop rewritings for previous states of the tables: they keep old snapshots in memory."""
        for known, snapshot in seen.snapshots:
            before = self._newest.get(known.path)
            self._newest[known.path] = snapshot
            if before is not None and not before.plans_as(snapshot):
                self._entries = OrderedDict(
                    (key, entry)
                    for key, entry in self._entries.items()
                    if not any(other is known for other, _ in entry.seen.snapshots)
                )


def _holds(seen: Observations, method: Method, relation_of: RelationOf) -> bool:
    try:
        return seen.hold(method, relation_of)
    except Exception:  # the problem recurs, and is reported, when the statement is rewritten again
        return False


def parameters_key(parameters: Parameters) -> Hashable:
    """A key that distinguishes parameters by type, value and the way they are written; None if there is none.

    `==` is not enough: 1, 1.0 and True are equal, and so are two decimals of different scale.
    """
    if parameters is None:
        return ()
    items = list(parameters.items() if isinstance(parameters, Mapping) else enumerate(parameters))
    for _, value in items:
        if type(value) not in _PLAIN_VALUES or type(getattr(value, "tzinfo", None)) not in _ZONES:
            return None
    return tuple((name, type(value), repr(value)) for name, value in items)
