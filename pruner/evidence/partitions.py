"""Partition values as evidence: the path of a slice says one value for all of its rows.

A partition is judged like a file whose statistics are that one value, and its slices share the verdict.
Nothing has to be built for it. Whether the value in the path may be believed at all is the snapshot's to say
(`Partitions`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.indexes.column_stats import COLUMN_STATS
from pruner.indexes.column_stats.record import RECORD_SCHEMA
from pruner.indexes.columns.kinds import Kind, kind_of
from pruner.metadata.segments import SLICE_COLUMN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.expr.bound import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.base import Evidence
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]


class PartitionEvidence:
    """Evidence about partitions, spread over their slices: see `pruner.indexes.base.Evidence`."""

    def __init__(self, by_partition: Evidence, about: Field, snapshot: Snapshot) -> None:
        self._by_partition = by_partition
        self._partitions = snapshot.partitions
        self._path = about.path
        self._ordinals = snapshot.partition_ordinals
        self.covered: Mask = by_partition.covered[self._ordinals]
        """Slices whose partition has a usable value."""

    @property
    def count(self) -> int:
        """Number of slices."""
        return len(self._ordinals)

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Judge each partition once and hand the verdict to its slices: see `Evidence.possible`.

        None where the asking engine may read another value from the path than was decoded (trap N2).
        """
        if not (
            self._path in self._partitions.shared or self._partitions.trusts(self._path, semantics.traits)
        ):
            return None
        verdict = self._by_partition.possible(leaf, outcome, semantics, None)
        if verdict is None:
            return None
        return verdict[self._ordinals if at is None else self._ordinals[at]]


def partition_evidence(snapshot: Snapshot, about: Field) -> PartitionEvidence | None:
    """Evidence from the partition values of one field; None where the snapshot has no values that could be used."""
    values = snapshot.partitions.values.get(about.path)
    kind = None if values is None else kind_of(values.type)
    if values is None or kind is None or kind is Kind.FLOAT or kind is Kind.DECIMAL:
        return None
    records = _as_records(values, kind)
    return PartitionEvidence(COLUMN_STATS.load(records, len(values), about), about, snapshot)


def _as_records(values: pa.Array[Any], kind: Kind) -> pa.Table:
    """Write each partition's value as the statistics of a file that holds one row with it."""
    count = len(values)
    is_null = values.is_null()
    bounds = _storage(values, kind)
    columns: dict[str, pa.Array[Any]] = {
        "trusted": pa.repeat(pa.scalar(True), count),
        "row_count": pa.repeat(pa.scalar(1, pa.int64()), count),
        "type": pa.repeat(pa.scalar(str(values.type)), count),
        "absent": pa.repeat(pa.scalar(False), count),
        "null_count": is_null.cast(pa.int64()),
        "has_values": values.is_valid(),
        f"min_{kind.value}": bounds,
        f"max_{kind.value}": bounds,
        "min_exact": values.is_valid(),
        "max_exact": values.is_valid(),
        "calendar_open": pa.repeat(pa.scalar(False), count),
        "from_data": pa.repeat(pa.scalar(False), count),
    }
    arrays: list[pa.Array[Any]] = []
    for name, type_ in zip(RECORD_SCHEMA.names, RECORD_SCHEMA.types, strict=True):
        arrays.append(columns[name] if name in columns else pa.array([None] * count, type_))
    table = pa.Table.from_arrays(arrays, schema=RECORD_SCHEMA)
    return table.append_column(SLICE_COLUMN, pa.array(np.arange(count, dtype=np.int32)))


def _storage(values: pa.Array[Any], kind: Kind) -> pa.Array[Any]:
    if kind is Kind.BYTES:
        return values.cast(pa.binary())
    narrow = pa.types.is_date32(values.type)
    return (values.cast(pa.int32()) if narrow else values).cast(pa.int64())
