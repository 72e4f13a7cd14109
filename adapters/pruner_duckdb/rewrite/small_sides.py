"""Joins with a small side of pruned tables: its keys are read first, to skip files of the other sides.

`FROM flights JOIN airports ON origin = code WHERE country = 'IS'` needs the flights of few airports, but which these
are is stored in the files of `airports`. If the condition leaves few bytes of them, reading them takes less time than
the files that the keys skip. Keys and statement read the same files, which belong to one snapshot of the table: commits
in between change neither. Tables of the session itself have no such snapshot, and are not read for keys.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import duckdb
import numpy as np

from pruner.expr.nodes import TRUE
from pruner_duckdb.catalog.tables import failure
from pruner_duckdb.decode.join_keys import MOST_KEYS
from pruner_duckdb.read.scan import Wanted
from pruner_duckdb.scans import LOGGER
from pruner_duckdb.shadow.shadow import NewestValues
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
"""Most bytes and files of a small side."""

BYTES_OF_A_FILE: Final = 1 << 16
"""Opening a file takes as long as reading this many bytes."""

TIMES_LARGER: Final = 8
"""How many times larger than a small side the other side must be for its keys to be worth reading."""

LEAST_BYTES: Final = 4 << 20
"""Fewer bytes than this are read in the time that the query for keys takes."""

FEW_KEYS: Final = 128
KEYS_OF_A_FILE: Final = 4
"""The number of keys that are looked up in any case, and the number for each file that may be skipped: a key takes as
long as a tenth of a small file.
"""

MOST_SIDES: Final = 4
"""Most small sides whose keys are read for one scan."""

_KEPT_LISTS: Final = 32
"""Most lists of keys that are cached: thirty megabytes at most."""
_LONGEST_PAUSE: Final = 64
"""Most statements to wait before keys that skipped too few files are tried again."""

_WORTHWHILE: Final = 0.9
"""Keys are worth reading if they leave at most this fraction of the files."""

_SHOWN: Final = {
    # As plans write them: days and microseconds since 1970. Infinite values have no such number.
    "DATE": "system.main.date_diff('day', DATE '1970-01-01', {})",
    **dict.fromkeys(["TIMESTAMP", "TIMESTAMP WITH TIME ZONE"], "system.main.epoch_us({})"),
}

_Values: TypeAlias = "list[object]"
_PairOfTables: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], str]


class Side(NamedTuple):
    """One scan of a statement: its table, its plan without keys, and its condition; None if it is not scanned."""

    table: Pinned
    scan: Scan
    condition: Expr | None

    @property
    def effort(self) -> int:
        """The cost of reading it, in bytes."""
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
    """How many times in a row the keys of one table skipped too little of another, and the statements left to wait."""

    misses: int = 0
    pausing: int = 0


class SmallSides:
    """Reads the keys of small sides; one serves a connection and all of its cursors."""

    def __init__(self, describe: Describe) -> None:
        """`describe` returns what DuckDB reads from a file."""
        self._describe = describe
        self._known: NewestValues[tuple[str, str, str], _Values] = NewestValues(_KEPT_LISTS)
        self._experiences: dict[_PairOfTables, _Experience] = {}
        self._lock = threading.Lock()

    def narrowed(
        self,
        conditions: StatementConditions,
        sides: Sequence[Side],
        answered: ReferenceKeys,
        with_keys: Callable[[ReferenceKeys], Sequence[Expr | None]],
        plan: Callable[[int, Expr | None], Scan],
        ask: Ask,
    ) -> dict[int, Scan]:
        """The scans for which keys skip files, by their positions among the sides.

        Args:
            conditions: of the statement.
            sides: its scans of pruned tables.
            answered: keys known from metadata.
            with_keys: returns the conditions of the scans, given known keys.
            plan: plans a scan with another condition.
            ask: runs a query in the session.

        Raises:
            duckdb.Error: the query for keys was interrupted, or failed in a transaction, which is then over.
        """
        wanted = self._wanted(conditions, sides, answered)
        try:
            expressions = self._known_conditions(conditions, sides, answered, wanted, with_keys, ask)
        except duckdb.Error as error:
            if isinstance(error, duckdb.InterruptException) or _is_aborted(ask):
                raise
            expressions = _without_keys(conditions, error)
        except Exception as error:  # it only costs time
            expressions = _without_keys(conditions, error)
        narrowed: dict[int, Scan] = {}
        for place, columns in wanted.items():
            before, condition = sides[place], expressions[place]
            scan = before.scan if condition == before.condition else plan(place, condition)
            self._learn(sides, place, columns, scan.kept <= _WORTHWHILE * before.scan.kept)
            if scan.kept < before.scan.kept:
                narrowed[place] = scan if scan.kept else _of_one_file(before.scan)
        return narrowed

    def _known_conditions(
        self,
        conditions: StatementConditions,
        sides: Sequence[Side],
        answered: ReferenceKeys,
        wanted: Mapping[int, set[ReferenceColumn]],
        with_keys: Callable[[ReferenceKeys], Sequence[Expr | None]],
        ask: Ask,
    ) -> Sequence[Expr | None]:
        """The conditions of scans, given the keys: those that restrict small sides are read first, then their own."""
        columns = {column for columns in wanted.values() for column in columns} - answered.keys()
        most = max((_most_keys(sides[place].scan) for place in wanted), default=0)
        keys = self._keys(_of_their_own(conditions, sides, columns), sides, most, ask)
        expressions = with_keys(keys) if keys else conditions.expressions
        known = [
            side._replace(condition=condition) for side, condition in zip(sides, expressions, strict=True)
        ]
        keys = {**keys, **self._keys(columns, known, most, ask)}
        return with_keys({**keys, **answered}) if keys or answered else expressions

    def _keys(
        self, columns: Iterable[ReferenceColumn], sides: Sequence[Side], most: int, ask: Ask
    ) -> dict[ReferenceColumn, _Values]:
        """The values of those columns that have at most `most`; an aggregate is one of its values, or NULL."""
        read = {
            column: self._values(sides[column.reference], column, most, ask) for column in sorted(columns)
        }
        return {
            column: [*values, None] if column.aggregate else values
            for column, values in read.items()
            if values is not None
        }

    def _wanted(
        self, conditions: StatementConditions, sides: Sequence[Side], answered: ReferenceKeys
    ) -> Mapping[int, set[ReferenceColumn]]:
        """The columns whose values are needed, by the scans that need them."""
        wanted: dict[int, set[ReferenceColumn]] = {}
        for place, alternatives in conditions.joined.items():
            large = sides[place]
            if large.scan.reason is not None or large.scan.kept < 2:
                continue
            by_effort: list[tuple[int, frozenset[ReferenceColumn]]] = []
            for columns in alternatives:
                smalls = [sides[column.reference] for column in columns - answered.keys()]
                effort = sum(small.effort for small in smalls)
                if not smalls or (
                    large.effort >= max(LEAST_BYTES, TIMES_LARGER * effort)
                    and all(small.is_small for small in smalls)
                    and self._is_worth_a_try(sides, place, columns)
                ):
                    by_effort.append((effort, columns))
            for _, columns in sorted(by_effort, key=lambda each: (each[0], sorted(each[1])))[:MOST_SIDES]:
                wanted.setdefault(place, set()).update(columns)
        return wanted

    def _values(self, side: Side, column: ReferenceColumn, most: int, ask: Ask) -> _Values | None:
        """The distinct values of a column among the rows that matter, as plans write them; None if there are too many,
        they cannot be read by one query, or one of them is infinite.
        """
        question = self._question(side, column, most)
        if question is None:
            return None
        # The result depends on more than the written condition, such as the files that the whole condition keeps.
        key = (side.table.snapshot.id, question[0], repr(question[1]))
        values = self._known.get(key)
        if values is None:
            listed, is_finite = ask(*question)
            if is_finite is False:
                return None
            values = self._known.put(key, [*(listed or ())])
        return values if len(values) <= most else None

    def _question(self, side: Side, column: ReferenceColumn, most: int) -> tuple[str, list[object]] | None:
        """A query for the values, up to `most` + 1, and for whether they are finite, with its parameters."""
        assert side.condition is not None
        condition, names = written_condition(side.condition)
        parameters: list[object] = []
        sources: Sources = {}

        def bind(value: object) -> str:
            parameters.append(value)
            return f"${len(parameters)}"

        wanted = Wanted((names | {column.column}).__contains__, narrow=True, every=False)
        source = side.table.known.reader.sql(
            side.scan.plan, side.table.shape, bind, sources, self._describe, wanted
        )
        if sources:  # deleted rows and merged ones are Arrow datasets of the statement itself
            return None
        shown = _SHOWN.get(column.data_type)
        finite = "true" if shown is None else "system.main.bool_and(key IS NULL OR system.main.isfinite(key))"
        listed = (
            "key" if shown is None else f"CASE WHEN system.main.isfinite(key) THEN {shown.format('key')} END"
        )
        sql = (
            f"SELECT system.main.list({listed}), {finite} FROM (SELECT DISTINCT {quote(column.column)} AS key "
            f"FROM {source} AS pruner_side WHERE {condition} LIMIT {most + 1})"
        )
        return sql, parameters

    def _is_worth_a_try(self, sides: Sequence[Side], place: int, columns: frozenset[ReferenceColumn]) -> bool:
        """Tell whether keys of these tables recently skipped enough; if not, the wait before a retry grows."""
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
    """The keys that restrict the rows of small sides themselves: those of other small sides with a condition."""
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


def _most_keys(scan: Scan) -> int:
    """How many keys are looked up to skip files of a scan."""
    return min(MOST_KEYS, max(FEW_KEYS, KEYS_OF_A_FILE * scan.kept))


def _without_keys(conditions: StatementConditions, error: Exception) -> Sequence[Expr | None]:
    LOGGER.debug("the keys of a small side were not read: %s", failure(error))
    return conditions.expressions


def _is_aborted(ask: Ask) -> bool:
    """Tell whether a failed query has aborted the user's transaction: then its error is that of the statement."""
    try:
        ask("SELECT 1", [])
    except duckdb.TransactionException:
        return True
    return False


def _of_one_file(scan: Scan) -> Scan:
    """A scan that reads one file although no file has a key: without a scan there is no join, and no error of it."""
    listed = np.zeros(scan.total, np.bool_)
    listed[scan.plan.ordinals[0]] = True
    return replace(scan, plan=scan.plan.among(listed))


def _pairs(
    sides: Sequence[Side], place: int, columns: set[ReferenceColumn] | frozenset[ReferenceColumn]
) -> Iterator[_PairOfTables]:
    """The pairs of tables for which to record experience: one for each column."""
    for column in columns:
        yield sides[place].table.known.path, sides[column.reference].table.known.path, column.column
