"""The index type `column_stats`, its exact facts, and its aggregates.

An aggregate is one record that bounds what each record of a run of slices says. Only records that agree in everything
that decides whether they are trusted are aggregated, so that any later schema trusts the aggregate exactly where it
trusts each of them. Bounds of an aggregate are known where those of all its slices with values are. What was equal in
each slice need not be equal in all: exactness is kept where every slice has it, and dropped together with the bounds
where some slice's own bounds are in doubt (trap S7).

Exact facts are numbers of rows and of NULLs, and extremes that are values of rows. A bound that no value passes is
enough to drop files, but is no answer. So a minimum counts as a value only if the record says that it was not
truncated, the file has the very type of the table, and the type has one way to write each value. Floating-point zeros
(there are two) are only bounds, and so are decimals and unsigned integers, which writers and readers have represented
in too many ways.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.arrow import (
    as_numpy,
    compute,
    filled,
    null_unless,
    nulls,
    number_array,
    positions,
    text_array,
    truth_array,
)
from pruner.errors import IndexDefinitionError
from pruner.expr.types import is_written_one_way
from pruner.indexes.column_stats.evidence import ColumnStatsEvidence
from pruner.indexes.column_stats.load import (
    check_rows,
    checked_for,
    flags,
    load_statistics,
    slices_of,
    unrepeated,
)
from pruner.indexes.column_stats.record import RECORD_SCHEMA, record_column
from pruner.indexes.columns.kinds import BoundsKind, conversion, kind_of
from pruner.indexes.columns.reading import partly_absent
from pruner.indexes.columns.trust import require_in_files
from pruner.indexes.optional import Aggregates
from pruner.indexes.optional_evidence import RANGED_TYPES
from pruner.metadata.segments import SLICE_COLUMN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.base import Evidence, SliceReader
    from pruner.indexes.column_stats.load import CheckedRows
    from pruner.schema import Field
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]


class ExactStatistics:
    """Facts from the statistics of one field: see `pruner.indexes.optional.ExactEvidence`. Threads may share it."""

    def __init__(self, records: pa.Table, count: int, field: Field) -> None:
        records = records.combine_chunks()
        self._evidence = ColumnStatsEvidence(load_statistics(records, count, field), field)
        self._type = field.type
        self.count = count
        self.covered = self._evidence.covered
        slices = slices_of(records)
        rows, bounds, usable = checked_for(records, count, field)
        # The row count is valid even where the column is unknown.
        counted = unrepeated(slices, (rows.row_count >= 0) & (slices >= 0) & (slices < count))
        self.row_counts = _placed(slices, counted, rows.row_count, count)
        self.null_counts = _placed(slices, usable & rows.nulls_known, rows.null_count, count)
        self.nan_free = self._marked(slices, usable & rows.nans_known & (rows.nan_count == 0))
        same = np.array([text == str(field.type) for text in rows.types] + [False])[rows.type_codes]
        # For files of another type, INT96 among them, there are bounds in the table's type, but no values.
        integers = kind_of(field.type) is BoundsKind.INTEGER and bounds.low.dtype == np.int64
        other = [integers and conversion(text, field.type) is not None for text in rows.types]
        rescaled = np.array([*other, False])[rows.type_codes] & ~same
        known = usable & (same | rescaled) & bounds.low_known & bounds.high_known
        self._rescaled = self._marked(slices, known & rescaled)
        self._ends = {
            end: _placed(slices, known & rescaled, keys, count) if rescaled.any() else None
            for end, keys in (("min", bounds.low), ("max", bounds.high))
        }
        self._at = np.full(count, -1, np.int64)
        self._at[slices[known]] = np.flatnonzero(known)
        self._records = records
        self._exact = [
            self._marked(slices, known & same & flags(records, name)[0])
            for name in ("min_exact", "max_exact")
        ]

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """See `Evidence.possible`."""
        return self._evidence.possible(leaf, outcome, semantics, at)

    def unread(self, semantics: Semantics) -> Mask | None:
        """See `ExactEvidence.unread`."""
        return self._evidence.unread(semantics)

    @property
    def low(self) -> pa.Array[Any]:
        """See `ExactEvidence.low`."""
        return self._bounds[0]

    @property
    def high(self) -> pa.Array[Any]:
        """See `ExactEvidence.high`."""
        return self._bounds[1]

    @cached_property
    def _bounds(self) -> tuple[pa.Array[Any], pa.Array[Any]]:
        return self._bound("min"), self._bound("max")

    @property
    def low_is_value(self) -> Mask:
        """See `ExactEvidence.low_is_value`."""
        return self._is_value(self.low, self._exact[0])

    @property
    def high_is_value(self) -> Mask:
        """See `ExactEvidence.high_is_value`."""
        return self._is_value(self.high, self._exact[1])

    def _bound(self, end: str) -> pa.Array[Any]:
        kind = kind_of(self._type)
        assert kind is not None
        column = self._records.column(f"{end}_{kind.value}").combine_chunks()
        there = self._at >= 0
        if not there.any():
            return nulls(self.count, column.type)
        bounds = null_unless(truth_array(there), column.take(positions(np.where(there, self._at, 0))))
        ends = self._ends[end]
        if ends is None:
            return bounds
        return compute.if_else(truth_array(self._rescaled), number_array(ends, pa.int64()), bounds)

    def _is_value(self, bounds: pa.Array[Any], exact: Mask) -> Mask:
        if not is_written_one_way(self._type):
            return np.zeros(self.count, np.bool_)
        known = exact & as_numpy(bounds.is_valid())
        if kind_of(self._type) is not BoundsKind.FLOAT:
            return known
        return known & self.nan_free & (as_numpy(filled(bounds, 0)) != 0)

    def _marked(self, slices: Integers, chosen: Mask) -> Mask:
        marked = np.zeros(self.count, np.bool_)
        marked[slices[chosen]] = True
        return marked


def _placed(slices: Integers, chosen: Mask, values: Integers, count: int) -> Integers:
    placed = np.full(count, -1, np.int64)
    placed[slices[chosen]] = values[chosen]
    return placed


# Values that are known without a record: each is written as the statistics of a slice that holds nothing else.


def records_of_values(values: pa.Array[Any]) -> pa.Table | None:
    """Records for `load`, one per value; None for types whose values have no unique spelling (float)."""
    kind = kind_of(values.type)
    if kind is None or kind is BoundsKind.FLOAT:
        return None
    count = len(values)
    is_null = values.is_null()
    bounds = _storage(values, kind)
    no = truth_array(np.zeros(count, np.bool_))
    columns: dict[str, pa.Array[Any]] = {
        "trusted": truth_array(np.ones(count, np.bool_)),
        "row_count": number_array(np.ones(count, np.int64), pa.int64()),
        "type": text_array([str(values.type)] * count),
        "absent": no,
        "null_count": is_null.cast(pa.int64()),
        "has_values": values.is_valid(),
        f"min_{kind.value}": bounds,
        f"max_{kind.value}": bounds,
        "min_exact": values.is_valid(),
        "max_exact": values.is_valid(),
        "calendar_open": no,
        "from_data": no,
    }
    arrays: list[pa.Array[Any]] = []
    for name, type_ in zip(RECORD_SCHEMA.names, RECORD_SCHEMA.types, strict=True):
        arrays.append(columns[name] if name in columns else nulls(count, type_))
    table = pa.Table.from_arrays(arrays, schema=RECORD_SCHEMA)
    return table.append_column(SLICE_COLUMN, number_array(np.arange(count, dtype=np.int32), pa.int32()))


def _storage(values: Any, kind: BoundsKind) -> pa.Array[Any]:
    if kind is BoundsKind.BYTES:
        return values.cast(pa.binary())
    if kind is BoundsKind.DECIMAL:
        return values.cast(pa.decimal128(38, values.type.scale)).view(pa.decimal128(38, 0))
    narrow = pa.types.is_date32(values.type)
    return (values.cast(pa.int32()) if narrow else values).cast(pa.int64())


MOST_ROWS = 1 << 40
"""Number of rows of a slice up to which the sums of a segment fit in 64 bits."""

_RUN = "run"
_BOUNDS = tuple((end, f"{end}_{kind.value}") for kind in BoundsKind for end in ("min", "max"))
_AGGREGATIONS = [
    *((name, "sum") for name in ("row_count", "null_count", "nan_count")),
    ("has_values", "any"),
    *((name, end) for end, name in _BOUNDS),
    *((name, "all") for name in ("min_exact", "max_exact", "from_data")),
    *((name, "all") for name in ("nulls_known", "nans_known", "bounded")),
]
_AGGREGATED = {name for name, _ in _AGGREGATIONS} | {"note"}
"""Columns that may differ within a run; all others, including those of later versions, are equal in it."""


def aggregate_records(records: pa.Table, parts: NDArray[np.int64]) -> Aggregates | None:
    """Aggregate the records of a segment: see `pruner.indexes.optional.AggregatingIndexType.aggregate`."""
    records = records.combine_chunks()
    if not records.num_rows:
        return None
    rows = check_rows(records)
    trusted = flags(records, "trusted")[0]
    # Contradictory records are rare, and a plan that reads them says so.
    if not (rows.usable | ~trusted).all() or not _bounds_hold(records, rows):
        return None
    starts = np.flatnonzero(_begins_a_run(records, rows, parts))
    runs = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, records.num_rows)))
    return Aggregates(_joined(records, rows, runs, starts), starts)


def _begins_a_run(records: pa.Table, rows: CheckedRows, parts: NDArray[np.int64]) -> Mask:
    """Tell for each record whether it differs from the one before in what must be equal."""
    counted = partly_absent(records, rows.may_count_nulls)
    begins = _differs(parts) | _differs(counted.astype(np.int64))
    for name in records.column_names:
        if name not in _AGGREGATED and name != SLICE_COLUMN:
            column: Any = records.column(name).combine_chunks()
            begins |= _differs(column.dictionary_encode().indices.fill_null(-1).to_numpy())
    return begins


def _differs(codes: NDArray[np.int64]) -> Mask:
    differs = np.ones(len(codes), np.bool_)
    differs[1:] = codes[1:] != codes[:-1]
    return differs


def _bounds_hold(records: pa.Table, rows: CheckedRows) -> bool:
    """Tell whether no minimum is above its maximum, no bound is NaN, and the counts can be summed."""
    if rows.row_count.max() > MOST_ROWS:
        return False
    for kind in BoundsKind:
        low, high = (records.column(f"{end}_{kind.value}") for end in ("min", "max"))
        if compute.any(compute.greater(low, high)).as_py():
            return False
        if kind is BoundsKind.FLOAT and any(compute.any(compute.is_nan(end)).as_py() for end in (low, high)):
            return False
    return True


def _joined(
    records: pa.Table, rows: CheckedRows, runs: NDArray[np.int64], starts: NDArray[np.int64]
) -> pa.Table:
    """One record per run."""
    grouped: Any = records.select([name for name in records.column_names if name in _AGGREGATED])
    columns: dict[str, Any] = {
        _RUN: runs,
        "has_values": rows.has_values,
        "nulls_known": rows.nulls_known,
        "nans_known": np.asarray(records.column("nan_count").is_valid()),
        "bounded": _bounded(records, rows),
    }
    for name, values in columns.items():
        grouped = _with(grouped, name, pa.array(values))
    merged = grouped.group_by(_RUN, use_threads=False).aggregate(_AGGREGATIONS).sort_by(_RUN)
    known = {
        "null_count": merged.column("nulls_known_all"),
        "nan_count": merged.column("nans_known_all"),
        **{name: merged.column("bounded_all") for _, name in _BOUNDS},
    }
    joined = records.take(pa.array(starts, pa.int64()))
    types = dict(zip(joined.column_names, joined.schema.types, strict=True))
    for name, how in _AGGREGATIONS:
        if name not in types:
            continue
        column = merged.column(f"{name}_{how}").cast(types[name])
        if name in known:
            column = null_unless(known[name], column)
        joined = _with(joined, name, column)
    joined = _with(joined, "note", pa.nulls(len(starts), pa.string()))
    return joined.drop_columns([SLICE_COLUMN])


def _bounded(records: pa.Table, rows: CheckedRows) -> Mask:
    """Records whose bounds enclose all numbers of their slice, if it has any, and are not in doubt."""
    low_known, high_known, equal = (np.zeros(records.num_rows, np.bool_) for _ in range(3))
    for kind in BoundsKind:
        low, high = (records.column(f"{end}_{kind.value}") for end in ("min", "max"))
        low_known |= low.is_valid().to_numpy()
        high_known |= high.is_valid().to_numpy()
        equal |= compute.equal(low, high).fill_null(False).to_numpy()
    exact = flags(records, "min_exact")[0] & flags(records, "max_exact")[0]
    return rows.without_numbers | (low_known & high_known & (exact | ~equal))


def _with(table: pa.Table, name: str, column: Any) -> pa.Table:
    if name not in table.column_names:
        return table.append_column(name, column)
    position = table.column_names.index(name)
    schema: Any = table.schema  # whose stubs leave types open
    return table.set_column(position, schema.field(position), column)


class ColumnStats:
    """See `pruner.indexes.optional.RowIndexType`: one record per slice and field."""

    name = "column_stats"
    partition = "column_stats"
    version = 1
    record_schema = RECORD_SCHEMA

    def check(self, field: Field, options: Mapping[str, str]) -> None:
        """Reject what cannot be indexed.

        Raises:
            IndexDefinitionError: an option (there are none), an unsupported type, a field about which files disagree,
                or one that no file holds.
        """
        if options:
            raise IndexDefinitionError(
                f"index type column_stats has no option {sorted(options)[0]!r}: leave it out"
            )
        if kind_of(field.type) is None:
            raise IndexDefinitionError(
                f"column {field.name!r} has type {field.type_name}, which column_stats cannot index: "
                f"{RANGED_TYPES} are supported"
            )
        require_in_files(field)

    def record_row(self, reader: SliceReader, field: Field, options: Mapping[str, str]) -> tuple[Any, ...]:
        """Return the record of one slice.

        Raises:
            ValueError, OSError, pyarrow.ArrowException: the file is broken.
        """
        return record_column(reader, field)

    def record(self, reader: SliceReader, field: Field, options: Mapping[str, str]) -> pa.Table:
        """Return the record of one slice as a table of one row: see `record_row`."""
        row = self.record_row(reader, field, options)
        return pa.Table.from_pylist([dict(zip(RECORD_SCHEMA.names, row, strict=True))], schema=RECORD_SCHEMA)

    def load(self, records: pa.Table, count: int, field: Field) -> Evidence:
        """Make evidence from the records of `count` slices."""
        return ColumnStatsEvidence(load_statistics(records, count, field), field)

    def load_exact(self, records: pa.Table, count: int, field: Field) -> ExactStatistics:
        """Extract exact facts from the records: see `pruner.indexes.optional.ExactIndexType`."""
        return ExactStatistics(records, count, field)

    def exact_of_values(self, values: pa.Array[Any], field: Field) -> ExactStatistics | None:
        """Exact facts about known values, each by itself; None for types that are not judged by values."""
        records = records_of_values(values)
        return None if records is None else ExactStatistics(records, len(values), field)

    def load_values(self, values: pa.Array[Any], field: Field) -> Evidence | None:
        """Make evidence from known values: see `pruner.indexes.optional.ValueIndexType`."""
        records = records_of_values(values)
        return None if records is None else self.load(records, len(values), field)

    def aggregate(self, records: pa.Table, parts: NDArray[np.int64]) -> Aggregates | None:
        """Aggregate the records of runs of slices: see `pruner.indexes.optional.AggregatingIndexType`."""
        return aggregate_records(records, parts)


COLUMN_STATS = ColumnStats()
