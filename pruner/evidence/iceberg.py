"""Evidence from the manifests of an Iceberg table: metrics of columns, and what partition values say of them.

Not used, because writers are known to get them wrong or readers disagree: bounds of UUIDs, which Java orders otherwise
than other writers (ClickHouse#118380), bounds that are NaN or in the wrong order, and NULL counts inside structs, which
some writers take without those of the struct, unless they equal the number of rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from pruner.evidence.carry_over import CarryOver, Joined, Unrecorded
from pruner.evidence.logged import (
    INSTANTS,
    WALL_CLOCKS,
    FileStatistics,
    LoggedStatistics,
    known_counts,
    records_of,
)
from pruner.evidence.sources import Sources, of_records
from pruner.expr.bound.predicates import CompareLeaf, InLeaf
from pruner.expr.nodes import Operator
from pruner.parquet_type import ParquetType
from pruner.tables.iceberg.schema import leaves_by_id, reassigned
from pruner.tables.iceberg.transforms import bucket_count, bucket_of, extent_of, hash_kind
from pruner.tables.iceberg.values import decode_values
from pruner.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from pruner.evidence.sources import OwnIndexes, Source
    from pruner.expr.bound.predicates import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.optional import RowIndexType
    from pruner.schema import Field
    from pruner.tables.iceberg.parts import DataPart
    from pruner.tables.iceberg.source import IcebergState
    from pruner.tables.iceberg.transforms import Extent
    from pruner.tables.snapshot import Snapshot

    Mask = NDArray[np.bool_]


class FollowingStatistics(LoggedStatistics):
    """Statistics that reuse what is known of the files shared with an earlier snapshot."""

    def __init__(self, name: str, snapshot: Snapshot) -> None:
        """See `LoggedStatistics`."""
        super().__init__(name, snapshot)
        self._joined: dict[Field, Joined] = {}

    @abstractmethod
    def records_among(self, rows: NDArray[np.intp], about: Field, schema: pa.Schema) -> pa.Table:
        """Make records of a column for files added since an earlier snapshot, numbered from 0."""

    def follow(self, before: OwnIndexes | None) -> None:
        """Take over what is known: see `FollowsSnapshots`."""
        if not isinstance(before, FollowingStatistics) or before.names != self.names:
            return
        descent, earlier = self._snapshot.descent, before._snapshot
        if earlier is self._snapshot:
            self._joined = dict(before._joined)
        elif descent is not None and descent.of == earlier.id:
            over = CarryOver(descent, len(earlier))
            known = list(before._joined.items())
            self._joined = {
                about: now for about, joined in known if (now := joined.carried(over)) is not None
            }

    def _source(self, about: Field, kind: RowIndexType, found: Sources) -> Source | None:
        joined = self._joined.get(about)
        if joined is None:
            source = super()._source(about, kind, found)
            if source is not None:
                joined = Joined(Sources([source]), None, Unrecorded(kind, about))
                self._joined[about] = joined
            return source
        came = joined.came()
        if not len(came):
            return joined.sources.usable[0]
        (name,) = self.names
        records = self.records_among(came, about, kind.record_schema)
        later = joined.with_later(came, Sources([self._made(name, kind, records, len(came), about)]))
        return joined.sources.usable[0] if later is None else later.usable[0]


NAME: Final = "iceberg.metrics"
"""The name of column metrics from manifests in reports."""

_BUCKETS: Final = "buckets"
_MOST_POINTS: Final = 10_000
"""Most values of a list that are hashed for one plan, some microseconds each."""

_LEAST_CUT: Final = 16
"""Bytes or characters to which writers truncate the bounds of strings, unless a table sets another length."""

_PARQUET: Final[dict[pa.DataType, ParquetType]] = {
    pa.timestamp("us"): WALL_CLOCKS,
    pa.timestamp("us", "UTC"): INSTANTS,
    pa.time64("us"): ParquetType("INT64", "", "Time(us)"),
}
"""How files store the types that engines would otherwise interpret differently (specification, appendix A)."""


def _as_they_are(values: Any) -> list[Any]:
    return values.to_pylist()


class IcebergMetrics(FollowingStatistics):
    """The metrics in the manifests, for one snapshot."""

    def __init__(self, state: IcebergState, snapshot: Snapshot) -> None:
        """`state` has the manifests that the snapshot was made of."""
        super().__init__(NAME, snapshot)
        self._state = state

    def add(self, about: Field, sources: Sources) -> None:
        """Add what is known of a column; its buckets even where an index covers it: see `OwnIndexes`."""
        if about.field_id in self._reassigned:
            return
        super().add(about, sources)
        if about.expression is None and about.in_file and about.conflict is None:
            for number, buckets in self._buckets(about).items():
                sources.usable.append(of_records(NAME, _BUCKETS, BucketEvidence(about, buckets, number)))

    def may_differ_from_files(self, about: Field) -> bool:
        """Tell whether a column is a floating-point identity partition: see `TellsPartitions`.

        Engines read such a column from the partition value. Trino (483) writes 0.0 there for infinity.
        """
        fields = about.sources or (about,)
        return any(
            pa.types.is_floating(each.type) and each.field_id in self._state.metadata.identity_sources
            for each in fields
        )

    @cached_property
    def _reassigned(self) -> frozenset[int]:
        """Columns for which manifests may report values that readers do not find in the files."""
        return reassigned(self._state.metadata)

    def _buckets(self, about: Field) -> dict[int, NDArray[np.int32]]:
        """The bucket of each file, by number of buckets; negative where unknown.

        A column that ever had a type with another hash yields nothing: its values have changed, their buckets have not.
        """
        metadata = self._state.metadata
        kinds = {
            hash_kind(leaves[about.field_id].type)
            for schema in metadata.schemas
            if about.field_id in (leaves := leaves_by_id([schema], metadata.location))
        }
        if kinds - {hash_kind(about.type)} or hash_kind(about.type) is None:
            return {}
        places = {
            spec_id: [
                (place, number)
                for place, field in enumerate(spec.fields)
                if field.source_id == about.field_id
                and field.source_ids in (None, [about.field_id])
                and (number := bucket_count(field.transform))
            ]
            for spec_id, spec in metadata.specs.items()
        }
        if not any(places.values()):
            return {}
        joined = self._state.joined
        buckets: dict[int, NDArray[np.int32]] = {}
        for at, (spec_id, values) in enumerate(joined.partitions):
            for place, number in places[spec_id]:
                if values[place] is not None:
                    none = np.full(len(joined.partitions), -1, np.int32)
                    buckets.setdefault(number, none)[at] = values[place]
        return {number: of_partitions[joined.codes] for number, of_partitions in buckets.items()}

    def row_counts(self) -> NDArray[np.int64]:
        """Return the row counts in the manifests: see `pruner.evidence.sources.CountsRows`."""
        return known_counts(_rows(self._state.parts))

    def records(self, about: Field, schema: pa.Schema) -> tuple[pa.Table, list[str]]:
        """Make records from the manifests: see `LoggedStatistics.records`."""
        told, notes = self.of_column(about)
        return records_of(told, about, schema), notes

    def records_among(self, rows: NDArray[np.intp], about: Field, schema: pa.Schema) -> pa.Table:
        """Make records from new manifests: see `FollowingStatistics.records_among`."""
        ends = np.cumsum([len(part) for part in self._state.parts])
        numbers: list[int] = np.unique(np.searchsorted(ends, rows, side="right")).tolist()
        parts = [self._state.parts[number] for number in numbers]
        assert sum(map(len, parts)) == len(rows), "a manifest is new as a whole"
        return records_of(self._told(about, parts), about, schema)

    def of_column(self, about: Field) -> tuple[FileStatistics, list[str]]:
        """Decode the metrics of a column in all manifests."""
        return self._told(about, self._state.parts), []

    def _told(self, about: Field, parts: Sequence[DataPart]) -> FileStatistics:
        """The metrics of a column in some manifests."""
        field_id = about.field_id
        assert field_id is not None
        rows = _rows(parts)
        bounds = partial(_bounds, about.type)
        low = _metric(parts, "lower_bounds", field_id, bounds)
        high = _metric(parts, "upper_bounds", field_id, bounds)
        counted = _metric(parts, "null_counts", field_id)
        nulls = list(counted) if len(about.path) == 1 else _of_nothing_else(counted, rows)
        nans = _metric(parts, "nan_counts", field_id)
        _forget_inverted(low, high)
        equal_is_value = _equal_is_value(low, about.type)
        equal_is_value[self._narrow(about, parts, (low, high), nulls, (rows, counted))] = True
        _forget_inverted(low, high)
        return FileStatistics(rows, nulls, nans, low, high, _PARQUET.get(about.type), equal_is_value)

    def _narrow(
        self,
        about: Field,
        parts: Sequence[DataPart],
        bounds: tuple[list[Any], list[Any]],
        nulls: list[Any],
        counts: tuple[list[Any], list[Any]],
    ) -> list[int]:
        """Tighten bounds and NULL counts by the partition values, in place; metrics and partition values both hold.

        Writers that import files derive partition values from statistics: one value beside NULLs becomes that value,
        and a file without statistics, or with NaN alone, becomes NULL. So `counts`, the rows and NULLs in the
        manifests, must agree. So must bounds, which are discarded if they exceed a partition: ClickHouse used days of
        its own time zone (ClickHouse#118583). Those of strings may exceed it, as they are truncated.

        Returns:
            The files whose partition gives the one value that they hold beside NULL.
        """
        low, high = bounds
        rows, counted = counts
        of_one_value: list[int] = []
        is_text = pa.types.is_string(about.type) or pa.types.is_binary(about.type)
        is_float = pa.types.is_floating(about.type)
        start = 0
        for part in parts:
            for at, extents in self._extents(about, part, start):
                if not is_text and _go_beyond(low[at], high[at], extents):
                    low[at] = high[at] = None
                    continue
                has_bounds = low[at] is not None or high[at] is not None
                for extent in extents:
                    if extent.is_null:
                        if counted[at] is not None and counted[at] == rows[at]:
                            low[at] = high[at] = None
                            nulls[at] = rows[at]
                        continue
                    if counted[at] == 0 or (counted[at] is None and not has_bounds):
                        nulls[at] = 0
                    if is_float and extent.lower == 0 and not has_bounds:
                        continue  # Trino 483 writes 0.0 for infinity
                    low[at] = _greater(low[at], extent.lower)
                    high[at] = _lesser(high[at], extent.upper)
                    if extent.lower is not None and extent.lower == extent.upper:
                        of_one_value.append(at)
            start += len(part)
        return of_one_value

    def _extents(self, about: Field, part: DataPart, start: int) -> Iterator[tuple[int, list[Extent]]]:
        """The extents of a column in the partition of each file of a manifest, with ends as in records.

        The first file of the manifest is number `start`.
        """
        fields = [] if part.spec is None else part.spec.fields
        sources = [
            (place, field.transform)
            for place, field in enumerate(fields)
            if field.source_id == about.field_id and field.source_ids in (None, [about.field_id])
        ]
        if not sources:
            return
        told = [
            [
                replace(extent, lower=_end(extent.lower, about.type), upper=_end(extent.upper, about.type))
                for place, transform in sources
                if (extent := extent_of(transform, values[place], about.type)) is not None
            ]
            for _, values in part.partitions
        ]
        for at, code in enumerate(part.codes.tolist(), start):
            yield at, told[code]


def _rows(parts: Sequence[DataPart]) -> list[Any]:
    """The number of rows of each file of some manifests."""
    return [row for part in parts for row in part.manifest.files.column("rows").to_pylist()]


def _metric(
    parts: Sequence[DataPart],
    name: str,
    field_id: int,
    converted: Callable[[Any], list[Any]] = _as_they_are,
) -> list[Any]:
    """One metric of a column in each file of some manifests, None where it is missing."""
    found: list[Any] = []
    for part in parts:
        values: list[Any] = [None] * len(part)
        rows, stored = part.manifest.metrics[name].of_field(field_id)
        if len(rows):
            for row, value in zip(rows.tolist(), converted(stored), strict=True):
                values[row] = value
        found += values
    return found


def _of_nothing_else(counted: list[Any], rows: list[Any]) -> list[Any]:
    """The NULL counts that equal the number of rows, which mean the same with and without those of a struct."""
    return [count if count == total else None for count, total in zip(counted, rows, strict=True)]


class BucketEvidence:
    """What the bucket of each file says of a column: see `pruner.indexes.base.Evidence`.

    A row that equals a value is in a file of the value's bucket. Nothing follows for other predicates.
    """

    def __init__(self, about: Field, buckets: NDArray[np.int32], number: int) -> None:
        """`buckets` is the bucket of each file out of `number`, negative where unknown."""
        self._about = about
        self._buckets = buckets
        self._number = number
        self.covered: NDArray[np.bool_] = buckets >= 0

    @property
    def count(self) -> int:
        """Number of files."""
        return len(self._buckets)

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> NDArray[np.bool_] | None:
        """Tell which files may be in the bucket of one of the values that are looked up: see `Evidence.possible`."""
        if outcome is not Outcome.TRUE:
            return None
        if isinstance(leaf, InLeaf):
            points = leaf.points
        elif isinstance(leaf, CompareLeaf) and leaf.operator is Operator.EQ:
            points = (leaf.point,)
        else:
            return None
        if len(points) > _MOST_POINTS:
            return None
        wanted: set[int] = set()
        for point in points:
            # All values equal to the literal lie between both ends, though not all between them need be equal to it.
            if point.nan or point.low is None or point.low != point.high:
                return None
            bucket = bucket_of(point.low, self._about.type, self._number)
            if bucket is None:
                return None
            wanted.add(bucket)
        buckets = self._buckets if at is None else self._buckets[at]
        excluded = (buckets >= 0) & ~np.isin(buckets, np.array(sorted(wanted), np.int32))
        return ~excluded


def _equal_is_value(bounds: list[Any], type_: pa.DataType) -> Mask:
    """Tell for each file whether equal bounds are the one value that it holds beside NULL.

    Not where a string may have been truncated: a writer that did not raise the upper bound leaves two equal ones.
    """
    if not (pa.types.is_string(type_) or pa.types.is_binary(type_)):
        return np.ones(len(bounds), np.bool_)
    return np.array([bound is not None and len(bound) < _LEAST_CUT for bound in bounds], np.bool_)


def _forget_inverted(low: list[Any], high: list[Any]) -> None:
    """Discard bounds in the wrong order: one of them is wrong, and it is unknown which."""
    for at, (least, most) in enumerate(zip(low, high, strict=True)):
        if least is not None and most is not None and least > most:
            low[at] = high[at] = None


def _go_beyond(low: Any, high: Any, extents: Sequence[Extent]) -> bool:
    """Tell whether bounds contradict a partition value: one of the two is wrong, and it is unknown which."""
    return any(
        (low is not None and extent.lower is not None and low < extent.lower)
        or (high is not None and extent.upper is not None and high > extent.upper)
        for extent in extents
    )


def _greater(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else max(one, other)


def _lesser(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else min(one, other)


def _end(value: Any, type_: pa.DataType) -> Any:
    """An end of an extent as records store it; None for what they cannot store."""
    types = pa.types
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, bytes):
        return int.from_bytes(value, "big", signed=True) if types.is_decimal(type_) else value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    return value


def _bounds(type_: Any, stored: Any) -> list[Any]:
    """Bounds as records of column statistics store them; None for those that are not used."""
    types = pa.types
    if isinstance(type_, pa.UuidType) or types.is_fixed_size_binary(type_):
        return [None] * len(stored)
    values = decode_values(stored, type_)
    if types.is_floating(type_):
        return [None if value is None or math.isnan(value) else value for value in values.to_pylist()]
    if types.is_decimal(type_):
        unscaled: list[Any] = (
            values.cast(pa.decimal128(38, type_.scale)).view(pa.decimal128(38, 0)).to_pylist()
        )
        return [None if value is None else int(value) for value in unscaled]
    if types.is_string(type_):
        values = values.cast(pa.binary())
    elif not types.is_binary(type_):
        # Booleans, dates, timestamps and times are numbers there.
        values = (values.view(pa.int32()) if types.is_date32(type_) else values).cast(pa.int64())
    return values.to_pylist()
