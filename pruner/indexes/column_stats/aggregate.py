"""Aggregates of column statistics: one record that bounds what each record of a run of slices says.

Only records that are alike in everything that decides whether they are believed go together, so that a schema of any
later day believes the aggregate exactly where it believes each of them. Bounds of an aggregate are known where those of
all its slices with values are. What was equal in each slice need not be in all: exactness is kept where every
slice has it, and dropped together with the bounds where some slice's own bounds are in doubt (trap S7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.arrow import compute, null_unless
from pruner.indexes.column_stats.load import check_rows, flags
from pruner.indexes.columns.kinds import Kind
from pruner.indexes.columns.unknown import partly_absent
from pruner.indexes.optional import Aggregates
from pruner.metadata.segments import SLICE_COLUMN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.indexes.column_stats.load import CheckedRows

    Mask = NDArray[np.bool_]

MOST_ROWS = 1 << 40
"""Rows of a slice up to which the sums of a segment fit into 64 bits."""

_RUN = "run"
_BOUNDS = tuple((end, f"{end}_{kind.value}") for kind in Kind for end in ("min", "max"))
_AGGREGATIONS = [
    *((name, "sum") for name in ("row_count", "null_count", "nan_count")),
    ("has_values", "any"),
    *((name, end) for end, name in _BOUNDS),
    *((name, "all") for name in ("min_exact", "max_exact", "from_data")),
    *((name, "all") for name in ("nulls_known", "nans_known", "bounded")),
]
_AGGREGATED = {name for name, _ in _AGGREGATIONS} | {"note"}
"""Columns that may differ within a run; all others, those of later versions too, are alike in it."""


def aggregate_records(records: pa.Table, parts: NDArray[np.int64]) -> Aggregates | None:
    """Aggregate the records of a segment: see `pruner.indexes.optional.AggregatingIndexType.aggregate`."""
    records = records.combine_chunks()
    if not records.num_rows:
        return None
    rows = check_rows(records)
    trusted = flags(records, "trusted")[0]
    # What contradicts itself is rare, and a plan that reads it says so.
    if not (rows.usable | ~trusted).all() or not _bounds_hold(records, rows):
        return None
    starts = np.flatnonzero(_begins_a_run(records, rows, parts))
    runs = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, records.num_rows)))
    return Aggregates(_joined(records, rows, runs, starts), starts)


def _begins_a_run(records: pa.Table, rows: CheckedRows, parts: NDArray[np.int64]) -> Mask:
    """Tell of each record whether it differs from the one before in what must be alike."""
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
    """Tell whether no minimum lies above its maximum, none is NaN, and the counts can be added up."""
    if rows.row_count.max() > MOST_ROWS:
        return False
    for kind in Kind:
        low, high = (records.column(f"{end}_{kind.value}") for end in ("min", "max"))
        if compute.any(compute.greater(low, high)).as_py():
            return False
        if kind is Kind.FLOAT and any(compute.any(compute.is_nan(end)).as_py() for end in (low, high)):
            return False
    return True


def _joined(
    records: pa.Table, rows: CheckedRows, runs: NDArray[np.int64], starts: NDArray[np.int64]
) -> pa.Table:
    """One record for each run."""
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
    found = grouped.group_by(_RUN, use_threads=False).aggregate(_AGGREGATIONS).sort_by(_RUN)
    known = {
        "null_count": found.column("nulls_known_all"),
        "nan_count": found.column("nans_known_all"),
        **{name: found.column("bounded_all") for _, name in _BOUNDS},
    }
    joined = records.take(pa.array(starts, pa.int64()))
    types = dict(zip(joined.column_names, joined.schema.types, strict=True))
    for name, how in _AGGREGATIONS:
        if name not in types:
            continue
        column = found.column(f"{name}_{how}").cast(types[name])
        if name in known:
            column = null_unless(known[name], column)
        joined = _with(joined, name, column)
    joined = _with(joined, "note", pa.nulls(len(starts), pa.string()))
    return joined.drop_columns([SLICE_COLUMN])


def _bounded(records: pa.Table, rows: CheckedRows) -> Mask:
    """Records whose bounds hold all numbers of their slice, where it has any, and are not in doubt."""
    low_known, high_known, equal = (np.zeros(records.num_rows, np.bool_) for _ in range(3))
    for kind in Kind:
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
