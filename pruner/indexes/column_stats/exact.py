"""What column statistics know exactly: numbers of rows and of NULLs, and extremes that are values of rows.

A bound that is only certain not to be passed drops files; it is no answer. So a minimum is given out as a value where
the record says that it was not cut, the file has the very type of the table, and the type has one way to write each
value. Zeros of floating point (two of them) are bounds alone, and so are decimals and unsigned integers, which writers
and readers have told apart in too many ways.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.arrow import (
    as_numpy,
    filled,
    null_unless,
    nulls,
    number_array,
    positions,
    text_array,
    truth_array,
)
from pruner.expr.types import is_written_one_way
from pruner.indexes.column_stats.evidence import ColumnStatsEvidence
from pruner.indexes.column_stats.load import checked_for, flags, load_statistics, slices_of, unrepeated
from pruner.indexes.column_stats.record import RECORD_SCHEMA
from pruner.indexes.columns.kinds import Kind, kind_of
from pruner.metadata.segments import SLICE_COLUMN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.schema import Field
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]


class ExactStatistics:
    """Facts of the statistics of one field: see `pruner.indexes.optional.ExactEvidence`. Threads may share it."""

    def __init__(self, records: pa.Table, count: int, field: Field) -> None:
        records = records.combine_chunks()
        self._evidence = ColumnStatsEvidence(load_statistics(records, count, field), field)
        self._type = field.type
        self.count = count
        self.covered = self._evidence.covered
        slices = slices_of(records)
        rows, bounds, usable = checked_for(records, count, field)
        # The number of rows means something even where the column is not known.
        counted = unrepeated(slices, (rows.row_count >= 0) & (slices >= 0) & (slices < count))
        self.row_counts = _placed(slices, counted, rows.row_count, count)
        self.null_counts = _placed(slices, usable & rows.nulls_known, rows.null_count, count)
        self.nan_free = self._marked(slices, usable & rows.nans_known & (rows.nan_count == 0))
        same = np.array([text == str(field.type) for text in rows.types] + [False])[rows.type_codes]
        known = usable & same & bounds.low_known & bounds.high_known
        self._at = np.full(count, -1, np.int64)
        self._at[slices[known]] = np.flatnonzero(known)
        self._records = records
        self._exact = [
            self._marked(slices, known & flags(records, name)[0]) for name in ("min_exact", "max_exact")
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
        return null_unless(truth_array(there), column.take(positions(np.where(there, self._at, 0))))

    def _is_value(self, bounds: pa.Array[Any], exact: Mask) -> Mask:
        if not is_written_one_way(self._type):
            return np.zeros(self.count, np.bool_)
        known = exact & as_numpy(bounds.is_valid())
        if kind_of(self._type) is not Kind.FLOAT:
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
    """Records for `load`, one for each value; None for types whose values have no one spelling (float)."""
    kind = kind_of(values.type)
    if kind is None or kind is Kind.FLOAT:
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


def _storage(values: Any, kind: Kind) -> pa.Array[Any]:
    if kind is Kind.BYTES:
        return values.cast(pa.binary())
    if kind is Kind.DECIMAL:
        return values.cast(pa.decimal128(38, values.type.scale)).view(pa.decimal128(38, 0))
    narrow = pa.types.is_date32(values.type)
    return (values.cast(pa.int32()) if narrow else values).cast(pa.int64())
