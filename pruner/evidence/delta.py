"""Evidence from the statistics in Delta's log.

A file's statistics bound the rows that it was written with, and so what a deletion vector leaves of them (R13). From
here on they are records of a `column_stats` index, and what they prove is judged as theirs is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, nulls, number_array, truth_array
from pruner.errors import IndexDefinitionError
from pruner.evidence.sources import RecordsSource
from pruner.indexes.optional import RowIndexType
from pruner.indexes.registry import index_type
from pruner.tables.delta.schema import became_double
from pruner.tables.delta.statistics import Bounds, Found, bounds_of, found_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pruner.evidence.sources import KnowsFields, Source, Sources
    from pruner.expr.bound.predicates import BoundExpr, InLeaf
    from pruner.expr.semantics import Semantics
    from pruner.schema import Field
    from pruner.tables.delta.state import DeltaState
    from pruner.tables.snapshot import Snapshot

NAME: Final = "delta.statistics"
"""How reports call the statistics in the log."""

_USING: Final = "column_stats"
_INSTANTS: Final = "INT64 TIMESTAMP_MICROS Timestamp(us,utc)"
_LOCAL: Final = "INT64 - Timestamp(us)"
_UNKNOWN_ROWS: Final = 1 << 40
"""Rows of a file that does not say how many: more than any has, so that no count of NULLs is all of them."""


class DeltaStatistics:
    """The statistics in the log, for one snapshot: see `pruner.evidence.sources.OwnIndexes`."""

    def __init__(self, state: DeltaState, snapshot: Snapshot) -> None:
        """`state` is the version that the snapshot was made of; nothing is read yet."""
        self._state = state
        self._snapshot = snapshot
        self._widened = became_double(state.metadata)
        self.names: tuple[str, ...] = (NAME,)
        self.expressions: list[tuple[str, str]] = []

    def implied(
        self, predicate: BoundExpr, semantics: Semantics
    ) -> Iterator[tuple[InLeaf, KnowsFields | None]]:
        """Yield nothing: see `OwnIndexes`."""
        yield from ()

    def described(self) -> dict[str, str]:
        """Say that they are used: see `OwnIndexes`."""
        return {NAME: "used"}

    def add(self, about: Field, found: Sources) -> None:
        """Add what the log says of a column, unless an index of pruner's covers it in every file: see `OwnIndexes`."""
        if about.expression is not None or not about.in_file or any(map(self._covers_all, found.usable)):
            return
        kind = index_type(_USING)
        assert isinstance(kind, RowIndexType)
        try:
            kind.check(about, {})
        except IndexDefinitionError:
            return
        told, notes = found_of(self._state, about)
        found.fallbacks += [f"{NAME}: {note}" for note in notes]
        was_float = about.recorded in self._widened
        records = _records(told, bounds_of(told, about.type, was_float=was_float), about, kind.record_schema)
        if records.num_rows:
            found.usable.append(RecordsSource(NAME, _USING, kind.load(records, len(self._snapshot), about)))

    def _covers_all(self, source: Source) -> bool:
        if source.using != _USING:
            return False
        uncovered = source.uncovered
        return uncovered is None or not (uncovered & self._snapshot.coverable).any()


def _records(found: Found, bounds: Bounds, about: Field, schema: pa.Schema) -> pa.Table:
    """Records of a `column_stats` index, of the files that say anything of the column.

    No bound is known to be a value: writers cut and round them. How many values are NaN no writer says.
    """
    rows, rows_known = _counts(found.rows)
    null_counts, nulls_known = _counts(found.nulls)
    rows = np.where(rows_known, rows, _UNKNOWN_ROWS)
    low, high = (np.array([value is not None for value in ends], np.bool_) for ends in bounds)
    told = np.flatnonzero(nulls_known | low | high)
    kind = _kind_of(about.type)
    of_records: Any = schema
    count = len(told)
    no, yes = truth_array(np.zeros(count, np.bool_)), truth_array(np.ones(count, np.bool_))
    columns: dict[str, Any] = {
        "trusted": yes,
        "row_count": number_array(rows[told], pa.int64()),
        "type": arrow.repeat(arrow.scalar(str(about.type), pa.string()), count),
        "absent": no,
        "null_count": number_array(null_counts[told], pa.int64(), ~nulls_known[told]),
        "min_exact": no,
        "max_exact": no,
        "calendar_open": no,
        "from_data": no,
        "in_range": yes,
        "parquet": arrow.repeat(arrow.scalar(_parquet_type(about.type), pa.string()), count),
        "partly_absent": no,
    }
    for name, ends in (("min", bounds.low), ("max", bounds.high)):
        column = f"{name}_{kind}"
        columns[column] = _column([ends[at] for at in told.tolist()], of_records.field(column).type)
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else nulls(count, field.type)
        for field in of_records
    ]
    table = arrow.Table.from_arrays(arrays, schema=schema)
    return table.append_column("__slice", number_array(told.astype(np.int32), pa.int32()))


def _parquet_type(type_: Any) -> str | None:
    """How the values of a timestamp are meant: whatever the files have, a type of Delta's says it."""
    if not pa.types.is_timestamp(type_):
        return None
    return _INSTANTS if type_.tz is not None else _LOCAL


def _column(values: list[Any], type_: pa.DataType) -> Any:
    try:
        return arrow.array(values, type_)
    except (pa.ArrowException, OverflowError):
        return arrow.array([_fitting(value, type_) for value in values], type_)


def _fitting(value: Any, type_: pa.DataType) -> Any:
    try:
        return arrow.scalar(value, type_).as_py()
    except (pa.ArrowException, OverflowError):
        return None


def _counts(
    values: list[Any],
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.bool_]]]:
    """Counts, and which of them are known."""
    known = [type(value) is int and 0 <= value < _UNKNOWN_ROWS for value in values]
    counts = np.fromiter(
        (value if is_known else 0 for value, is_known in zip(values, known, strict=True)), np.int64
    )
    return counts, np.array(known, np.bool_)


def _kind_of(type_: pa.DataType) -> str:
    """Which columns of the records have the bounds of a type."""
    types = pa.types
    if types.is_floating(type_):
        return "float"
    if types.is_decimal(type_):
        return "decimal"
    return "bytes" if types.is_string(type_) or types.is_binary(type_) else "integer"
