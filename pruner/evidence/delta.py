"""Evidence from the statistics in Delta's log, and from generated partition columns: the day or year of a partition
bounds the timestamps in it.

Writers ensure that each row has the value of a generated column's expression. The log does not say in which time zone a
timestamp was turned into a day, so bounds are widened by a day on both sides.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, as_numpy, number_array, positions
from pruner.errors import StorageError, TableError
from pruner.evidence.logged import (
    INSTANTS,
    WALL_CLOCKS,
    FileStatistics,
    LoggedStatistics,
    known_counts,
    records_of,
)
from pruner.metadata.segments import SLICE_COLUMN as _SLICE
from pruner.tables.delta.checkpoint import CommitPart
from pruner.tables.delta.schema import became_double, generation_expressions
from pruner.tables.delta.statistics import bounds_of, found_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from pruner.indexes.optional import ExactEvidence
    from pruner.parquet_type import ParquetType
    from pruner.schema import Field
    from pruner.tables.delta.checkpoint import CheckpointPart
    from pruner.tables.delta.state import DeltaState
    from pruner.tables.snapshot import Snapshot

    Rows = NDArray[np.int64]
    Ordinals = NDArray[np.intp]
    Bounds = tuple[int, int] | None


NAME: Final = "delta.statistics"
"""The name of the statistics in the log in reports."""

_ROWS: Final = ("numRecords",)
"""Key under which row counts are cached beside the parsed statistics of columns."""

_FEW: Final = 1024
"""Fewest files of a commit that is parsed once and cached. Smaller commits are parsed together, for each version."""


class DeltaStatistics(LoggedStatistics):
    """The statistics in the log, for one snapshot."""

    def __init__(self, state: DeltaState, snapshot: Snapshot) -> None:
        """`state` is the version that the snapshot was made of."""
        super().__init__(NAME, snapshot)
        self._state = state
        self._widened = became_double(state.metadata)

    def row_counts(self) -> Rows:
        """Combine the row counts of all parts of the log: see `pruner.evidence.sources.CountsRows`.

        The count of a file with a deletion vector includes its deleted rows (Delta protocol, "Per-file Statistics").
        """
        part_of: Rows = as_numpy(self._state.files.column("part"))
        row_of: Rows = as_numpy(self._state.files.column("row"))
        counts = np.full(len(part_of), -1, np.int64)
        numbers: list[int] = np.unique(part_of).tolist()
        for number in numbers:
            at = np.flatnonzero(part_of == number)
            with suppress(TableError, StorageError):
                told = _rows_of_part(self._state.parts[number])
                if len(told):  # a checkpoint may be written without any statistics
                    counts[at] = told[row_of[at]]
        return counts

    def records(self, about: Field, schema: pa.Schema) -> tuple[pa.Table, list[str]]:
        """Combine the records of all parts of the log: see `LoggedStatistics.records`.

        A part is parsed once per column, whatever commits follow.
        """
        part_of: Rows = as_numpy(self._state.files.column("part"))
        row_of: Rows = as_numpy(self._state.files.column("row"))
        records = [schema.empty_table().append_column(_SLICE, _no_slices())]
        few: list[tuple[pa.Table, Ordinals]] = []
        notes: list[str] = []
        numbers: list[int] = np.unique(part_of).tolist()
        for number in numbers:
            part, at = self._state.parts[number], np.flatnonzero(part_of == number)
            if isinstance(part, CommitPart) and len(part) < _FEW:
                few.append((part.table.take(positions(row_of[at])), at))
                continue
            try:
                records.append(_moved(self._of_part(part, about, schema), row_of[at], at))
            except (TableError, StorageError) as error:
                notes.append(str(error))
        if few:
            parsed = self._parsed([table for table, _ in few], about, schema)
            at = np.concatenate([ordinals for _, ordinals in few])
            records.append(_moved(parsed, np.arange(len(at)), at))
        return arrow.concat_tables(records), notes

    def bounds(self, about: Field) -> ExactEvidence | None:
        """Return nothing for floating point, since Delta does not count NaN: see `LoggedStatistics.bounds`."""
        return None if pa.types.is_floating(about.type) else super().bounds(about)

    def further(self, about: Field, schema: pa.Schema) -> Iterator[tuple[str, pa.Table]]:
        """Yield what generated partition columns say: see `LoggedStatistics.further`."""
        for bounds in generated_bounds(self._state, self._snapshot, about):
            low, high = ([each and each[end] for each in bounds] for end in (0, 1))
            unknown: list[None] = [None] * len(bounds)
            statistics = FileStatistics(unknown, unknown, unknown, low, high, _parquet_type(about.type))
            yield GENERATED, records_of(statistics, about, schema)

    def _of_part(self, part: CheckpointPart | CommitPart, about: Field, schema: pa.Schema) -> pa.Table:
        """The records of a part, with its row numbers as `__slice`."""
        key = (about.recorded, str(about.type), about.recorded in self._widened)
        known = part.parsed.get(key)
        if known is None:
            known = self._parsed(part.statistics(), about, schema)
            part.parsed.put(key, known)
        return known

    def _parsed(self, tables: Iterable[pa.Table], about: Field, schema: pa.Schema) -> pa.Table:
        """Parse the statistics of a column. No writer counts NaN."""
        told = found_of(tables, about)
        low, high = bounds_of(told, about.type, was_float=about.recorded in self._widened)
        statistics = FileStatistics(
            told.rows, told.nulls, None, low, high, _parquet_type(about.type), _is_exact(about.type)
        )
        return records_of(statistics, about, schema)


def _rows_of_part(part: CheckpointPart | CommitPart) -> Rows:
    """The number of rows each file of a part was written with; -1 where it does not say."""
    known = part.parsed.get(_ROWS)
    if known is None:
        known = pa.table({"rows": number_array(known_counts(list(rows_of(part.statistics()))), pa.int64())})
        part.parsed.put(_ROWS, known)
    return as_numpy(known.column("rows"))


def _moved(records: pa.Table, rows: Rows, slices: Ordinals) -> pa.Table:
    """Renumber the records of a part from its rows to slices: row `rows[n]` becomes slice `slices[n]`."""
    held: Rows = as_numpy(records.column(_SLICE))
    if not len(held):
        return records
    slice_of = np.full(max(int(held.max()), int(rows.max(initial=0))) + 1, -1, np.int32)
    slice_of[rows] = slices
    moved = slice_of[held]
    if (moved < 0).any():  # files that the version no longer has
        there = np.flatnonzero(moved >= 0)
        records, moved = records.take(positions(there)), moved[there]
    at = records.schema.get_field_index(_SLICE)
    return records.set_column(at, _SLICE, number_array(moved, pa.int32()))


def _no_slices() -> Any:
    return number_array(np.empty(0, np.int32), pa.int32())


def _is_exact(type_: Any) -> bool:
    """Whether equal bounds of a type are a value: those of truncated strings are no longer equal (`bounds_of`).

    The two zeros of floats are equal and yet two values; upper bounds of timestamps are raised above those in the log.
    """
    types = pa.types
    kinds = (types.is_integer, types.is_boolean, types.is_date, types.is_decimal, types.is_string)
    return any(is_kind(type_) for is_kind in kinds)


def _parquet_type(type_: Any) -> ParquetType | None:
    """How values of a timestamp are interpreted: the Delta type decides, whatever the files have."""
    if not pa.types.is_timestamp(type_):
        return None
    return INSTANTS if type_.tz is not None else WALL_CLOCKS


GENERATED: Final = "delta.generated"
"""The name of bounds from generated columns in reports."""

_EXPRESSION: Final = re.compile(
    r"\s*(?:CAST\s*\(\s*(?P<day>`[^`]+`|\w+)\s+AS\s+DATE\s*\)|YEAR\s*\(\s*(?P<year>`[^`]+`|\w+)\s*\))\s*",
    re.IGNORECASE,
)
_FIRST_YEAR, _LAST_YEAR = 1901, 9998
"""Earlier, writers may use other calendars, and clocks were set to solar time."""

_EPOCH: Final = date(1970, 1, 1)
_MICROSECONDS: Final = 86_400_000_000


def generated_bounds(state: DeltaState, snapshot: Snapshot, about: Field) -> Iterator[list[Bounds]]:
    """Yield, for each partition column generated from a column, the bounds that it implies in each slice.

    Args:
        state: the version that the snapshot was made of.
        snapshot: the slices.
        about: a timestamp column; nothing is yielded for others.
    """
    if not pa.types.is_timestamp(about.type) or len(about.path) != 1 or not state.protocol.generates_columns:
        return
    codes: Any = as_numpy(snapshot.column("partition"))
    for name, text in generation_expressions(state.metadata).items():
        match = _EXPRESSION.fullmatch(text)
        path = snapshot.schema.find((name,)).path
        values = snapshot.partitions.values.get(path)
        if match is None or values is None or path not in snapshot.partitions.trusted:
            continue
        source = (match["day"] or match["year"]).strip("`")
        if source.lower() != about.path[0].lower() or not _is_of(
            values.type, is_day=match["day"] is not None
        ):
            continue
        of_partitions = [_bounds(value) for value in values.to_pylist()]
        yield [of_partitions[code] for code in np.asarray(codes).tolist()]


def _is_of(type_: Any, *, is_day: bool) -> bool:
    return pa.types.is_date32(type_) if is_day else pa.types.is_signed_integer(type_)


def _bounds(value: date | int | None) -> Bounds:
    """Bounds in microseconds of all timestamps of a day or a year, in any time zone; None if unknown."""
    if value is None:
        return None
    year = value.year if isinstance(value, date) else value
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        return None
    first, last = (value, value) if isinstance(value, date) else (date(year, 1, 1), date(year, 12, 31))
    return ((first - _EPOCH).days - 1) * _MICROSECONDS, ((last - _EPOCH).days + 2) * _MICROSECONDS
