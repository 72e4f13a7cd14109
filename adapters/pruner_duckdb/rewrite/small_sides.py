"""Joins with a small side of pruned tables: its keys are read first, and leave out files of the other sides.

`FROM flights JOIN airports ON origin = code WHERE country = 'IS'` needs the flights of few airports, but which these
are stands in the files of `airports`. If few bytes of them are left by the condition, reading them takes less than the
files that the keys leave out. Keys and statement read the same files, which belong to one snapshot of the table: what
somebody commits in between changes neither. Tables of the session itself have no such snapshot, and are not asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from pruner.bounded_cache import BoundedCache
from pruner.expr.nodes import TRUE
from pruner_duckdb.catalog.tables import failure
from pruner_duckdb.decode.join_keys import MOST_KEYS
from pruner_duckdb.read.scan import Wanted
from pruner_duckdb.scans import LOGGER
from pruner_duckdb.sql.conditions import written_condition
from pruner_duckdb.types import quote

if TYPE_CHECKING:
    from pruner.expr.nodes import Expr
    from pruner_duckdb.catalog.tables import Pinned
    from pruner_duckdb.read.native import Describe
    from pruner_duckdb.read.reading import Sources
    from pruner_duckdb.scans import Scan
    from pruner_duckdb.shadow.answers import Ask
    from pruner_duckdb.shadow.predicates import ReferenceColumn, ReferenceKeys, StatementConditions

MOST_BYTES: Final = 2 << 20
MOST_FILES: Final = 16
"""A small side has so many bytes and files at most."""

BYTES_OF_A_FILE: Final = 1 << 16
"""To open a file takes as long as to read so many bytes."""

TIMES_LARGER: Final = 8
"""How many times larger than a side the other one must be, for its keys to be worth reading."""

LEAST_BYTES: Final = 4 << 20
"""Less than so much is read in the time that asking takes."""

_KEY_BYTES: Final = 64
_KEPT_KEYS_BYTES: Final = 16 << 20
_LONGEST_PAUSE: Final = 64
"""So many statements at most go by before keys are tried again that left out too little."""

_WORTHWHILE: Final = 0.9
"""Keys are worth reading that leave at most this part of the files."""

_SHOWN: Final = {
    # As plans write them: days and microseconds since 1970. An infinite one is none of these.
    "DATE": "system.main.date_diff('day', DATE '1970-01-01', {})",
    "TIMESTAMP": "system.main.epoch_us({})",
}

_Values: TypeAlias = "list[object]"
_PairOfTables: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], str]


class Side(NamedTuple):
    """One scan of a statement: its table, its plan by conditions alone, and these; None for one that is not scanned."""

    table: Pinned
    scan: Scan
    condition: Expr | None

    @property
    def effort(self) -> int:
        """What it takes to read, in bytes."""
        return self.scan.plan.bytes_kept + self.scan.kept * BYTES_OF_A_FILE

    @property
    def is_small(self) -> bool:
        """Whether its keys may be read first."""
        return (
            self.condition is not None
            and self.scan.reason is None
            and self.scan.kept <= MOST_FILES
            and self.scan.plan.bytes_kept <= MOST_BYTES
        )


@dataclass
class _Experience:
    """How often in a row the keys of one table left out too little of another, and the statements that still pass."""

    misses: int = 0
    pausing: int = 0


class SmallSides:
    """Reads the keys of small sides; one serves a connection and all of its cursors."""

    def __init__(self, describe: Describe) -> None:
        """`describe` tells what DuckDB reads of a file."""
        self._describe = describe
        self._known: BoundedCache[tuple[object, ...], _Values] = BoundedCache(_KEPT_KEYS_BYTES)
        self._experiences: dict[_PairOfTables, _Experience] = {}
        self._lock = threading.Lock()

    def narrowed(
        self,
        conditions: StatementConditions,
        sides: Sequence[Side],
        with_keys: Callable[[ReferenceKeys], Sequence[Expr | None]],
        plan: Callable[[int, Expr | None], Scan],
        ask: Ask,
    ) -> dict[int, tuple[Expr | None, Scan]]:
        """The sides of joins of which keys leave out files, with their conditions and plans.

        Args:
            conditions: of the statement.
            sides: its scans of pruned tables.
            with_keys: makes conditions of the scans where keys are known.
            plan: plans a scan by another condition.
            ask: the session.
        """
        try:
            wanted = self._wanted(conditions, sides)
            columns = {column for columns in wanted.values() for column in columns}
            keys = self._keys(_of_their_own(conditions, sides, columns), sides, ask)
            expressions = with_keys(keys) if keys else conditions.expressions
            known = [
                side._replace(condition=condition) for side, condition in zip(sides, expressions, strict=True)
            ]
            keys.update(self._keys(columns, known, ask))
            expressions = with_keys(keys) if keys else expressions
        except Exception as error:  # nothing is lost but time
            LOGGER.debug("the keys of a small side were not read: %s", failure(error))
            return {}
        narrowed: dict[int, tuple[Expr | None, Scan]] = {}
        for place, columns in wanted.items():
            if expressions[place] != sides[place].condition:
                scan = plan(place, expressions[place])
                self._learn(sides, place, columns, scan.kept <= _WORTHWHILE * sides[place].scan.kept)
                narrowed[place] = expressions[place], scan if scan.kept else _of_one_file(sides[place].scan)
        return narrowed

    def _keys(
        self, columns: Iterable[ReferenceColumn], sides: Sequence[Side], ask: Ask
    ) -> dict[ReferenceColumn, _Values]:
        """The values of columns, of those of which they are known."""
        read = {column: self._values(sides[column.reference], column, ask) for column in sorted(columns)}
        return {column: values for column, values in read.items() if values is not None}

    def _wanted(
        self, conditions: StatementConditions, sides: Sequence[Side]
    ) -> Mapping[int, set[ReferenceColumn]]:
        """The columns whose values are to be read, by the scans that they are read for."""
        wanted: dict[int, set[ReferenceColumn]] = {}
        for place, alternatives in conditions.joined.items():
            large = sides[place]
            if large.scan.reason is not None or large.scan.kept < 2 or large.effort < LEAST_BYTES:
                continue
            for columns in alternatives:
                smalls = [sides[column.reference] for column in columns]
                if (
                    all(small.is_small for small in smalls)
                    and large.effort >= TIMES_LARGER * sum(small.effort for small in smalls)
                    and self._is_worth_a_try(sides, place, columns)
                ):
                    wanted.setdefault(place, set()).update(columns)
        return wanted

    def _values(self, side: Side, column: ReferenceColumn, ask: Ask) -> _Values | None:
        """The different values of a column among the rows that matter, as plans write them; None for too many."""
        assert side.condition is not None
        condition, names = written_condition(side.condition)
        key = (side.table.known.path, side.table.snapshot.id, column.column, column.data_type, condition)
        values = self._known.get(key)
        if values is None:
            read = self._read(side, column, condition, names | {column.column}, ask)
            if read is None:
                return None
            values = self._known.put(key, read, _KEY_BYTES * len(read) + len(condition))
        return values if len(values) <= MOST_KEYS else None

    def _read(
        self, side: Side, column: ReferenceColumn, condition: str, names: frozenset[str], ask: Ask
    ) -> _Values | None:
        """None where they cannot be read by one query, or one of them is infinite."""
        parameters: list[object] = []
        sources: Sources = {}

        def bind(value: object) -> str:
            parameters.append(value)
            return f"${len(parameters)}"

        wanted = Wanted(names.__contains__, narrow=True, every=False)
        source = side.table.known.reader.sql(
            side.scan.plan, side.table.shape, bind, sources, self._describe, wanted
        )
        if sources:  # deleted rows and merged ones are data of the statement's own
            return None
        shown = _SHOWN.get(column.data_type)
        finite = "true" if shown is None else "bool_and(key IS NULL OR system.main.isfinite(key))"
        listed = (
            "key" if shown is None else f"CASE WHEN system.main.isfinite(key) THEN {shown.format('key')} END"
        )
        row = ask(
            f"SELECT system.main.list({listed}), {finite} FROM (SELECT DISTINCT {quote(column.column)} AS key "
            f"FROM {source} AS pruner_side WHERE {condition} LIMIT {MOST_KEYS + 1})",
            parameters,
        )
        return None if row[1] is False else list(row[0] or ())

    def _is_worth_a_try(self, sides: Sequence[Side], place: int, columns: frozenset[ReferenceColumn]) -> bool:
        """Tell whether keys of these tables left out enough lately; where they did not, ever more statements pass."""
        with self._lock:
            for pair in _pairs(sides, place, columns):
                experience = self._experiences.setdefault(pair, _Experience())
                if experience.pausing:
                    experience.pausing -= 1
                    return False
        return True

    def _learn(
        self, sides: Sequence[Side], place: int, columns: set[ReferenceColumn], was_worthwhile: bool
    ) -> None:
        with self._lock:
            for pair in _pairs(sides, place, columns):
                experience = self._experiences.setdefault(pair, _Experience())
                experience.misses = 0 if was_worthwhile else experience.misses + 1
                experience.pausing = min(2**experience.misses - 1, _LONGEST_PAUSE)


def _of_their_own(
    conditions: StatementConditions, sides: Sequence[Side], columns: Iterable[ReferenceColumn]
) -> set[ReferenceColumn]:
    """The keys by which small sides know which of their own rows matter: those of small sides with a condition."""
    return {
        key
        for place in {column.reference for column in columns}
        for alternatives in conditions.joined.get(place, ())
        for key in alternatives
        if all(
            sides[each.reference].is_small and sides[each.reference].condition != TRUE
            for each in alternatives
        )
    }


def _of_one_file(scan: Scan) -> Scan:
    """A scan that reads one file although no key is in any: without a scan there is no join, and no error of it."""
    listed = np.zeros(scan.total, np.bool_)
    listed[scan.plan.ordinals[0]] = True
    return replace(scan, plan=scan.plan.among(listed))


def _pairs(
    sides: Sequence[Side], place: int, columns: set[ReferenceColumn] | frozenset[ReferenceColumn]
) -> Iterator[_PairOfTables]:
    """What is learned of columns is learned of each of them."""
    for column in columns:
        yield sides[place].table.known.path, sides[column.reference].table.known.path, column.column
