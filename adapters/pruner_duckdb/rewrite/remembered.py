"""Rewritings that serve again: of a statement seen before, over tables that did not change, in a session that
answers as it did.

A rewriting is made from a text, from parameters, from what the session answered to our questions, from the shapes of
what else the statement reads, and from the snapshots of tables with the state of their indexes. All of that is
observed while it is made. It serves again only if every question gets the same answer as then and every table is as
it was: whatever may change the meaning of a statement is an answer, or keeps the rewriting from being remembered.
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
"""What is remembered is bounded: so many rewritings, with so many files in all, and texts of so many characters."""

BYTES_OF_A_FILE = 150
"""What a file takes of memory, the more the longer its path. Deleted rows, of 16 bytes each, count like files."""

SECONDS_WITH_FALLBACKS = 5.0
"""How long a plan serves that could not use something: an index that could not be read may be readable again."""

SECONDS_UNPRUNED = 60.0
"""How long a rewriting serves that reads every file: a macro that it names may be better understood by then."""

SECONDS_OF_A_MOMENT = 60.0
"""How long a plan serves that says `now()`: it is bounded below by its own moment, so that it keeps ever more."""

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
    """Asks a session, describes relations and pins snapshots, and knows afterwards what it was told."""

    ask_session: Ask
    ask_now: Ask
    """The same, where the answer is another one each time."""
    relation_of: RelationOf
    answers: list[_Answer] = field(default_factory=list["_Answer"])
    shapes: list[tuple[str, Relation]] = field(default_factory=list[tuple[str, Relation]])
    snapshots: list[_Taken] = field(default_factory=list["_Taken"])
    zone: str = "UTC"
    """The session's time zone, one of its answers."""
    passing: bool = False
    """Whether something was learned on the way that makes the next rewriting ask for less."""
    is_pristine: bool = False
    """Whether the meaning of the statement was not compared, because nobody had defined anything."""
    began: int | None = None
    """When the session's transaction began, where that matters: for a later one the same is bounded below."""

    def ask(self, sql: str | duckdb.Statement, values: list[object]) -> tuple[Any, ...]:
        """The only row of a query in the session."""
        row = self.ask_session(sql, values)
        self.answers.append((sql, values, row))
        return row

    def describe(self, text: str) -> Relation:
        """The shape of something else that a statement reads.

        Raises:
            Unpruned: it is not known.
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
        """Tell whether everything is answered now as it was then."""
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
    """The same as DuckDB's parser leaves it, which takes a third of the time of a short query."""


class RememberedRewritings:
    """A bounded memory of rewritings, the least recently used forgotten first. Threads may share it."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._newest: dict[tuple[str, ...], PinnedSnapshot] = {}
        self._lock = threading.Lock()

    def get(
        self, key: Hashable, method: Method, relation_of: RelationOf
    ) -> tuple[Rewritten, Observations] | None:
        """The rewriting under a key if it would be made again, with what it was made from."""
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
            # The session answers as any other one that comes here, also about its parser.
            entry.parsed = entry.rewritten.parsed_by(method.native)
        return entry.parsed, entry.seen

    def put(self, key: Hashable, rewritten: Rewritten, seen: Observations) -> None:
        """Remember a rewriting, unless it is large, and forget those of tables that have changed since."""
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
        """Forget what was made for tables as they are no more: it holds on to their old snapshots."""
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
    except Exception:  # what is the matter is met again, and reported, where the rewriting is made anew
        return False


def parameters_key(parameters: Parameters) -> Hashable:
    """What tells parameters apart by type, value and the way they are written; None where that is not known.

    Not by `==` alone: 1, 1.0 and True are equal, and so are two decimals of different scale.
    """
    if parameters is None:
        return ()
    items = list(parameters.items() if isinstance(parameters, Mapping) else enumerate(parameters))
    for _, value in items:
        if type(value) not in _PLAIN_VALUES or type(getattr(value, "tzinfo", None)) not in _ZONES:
            return None
    return tuple((name, type(value), repr(value)) for name, value in items)
