"""Evidence from the manifests of an Iceberg table: metrics of columns, and what partition values say of them.

What is not used, because writers are known to get it wrong or readers to disagree: bounds of UUIDs, whose order Java's
differs from that of other writers (iceberg#118380), bounds that are NaN or stand in the wrong order, and counts of
NULL inside structs, which some writers take without those of the struct.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pruner.evidence.logged import INSTANTS, WALL_CLOCKS, FileStatistics, LoggedStatistics
from pruner.parquet_type import ParquetType
from pruner.tables.iceberg.transforms import extent_of
from pruner.tables.iceberg.values import decode_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from pruner.schema import Field
    from pruner.tables.iceberg.source import IcebergState
    from pruner.tables.iceberg.transforms import Extent
    from pruner.tables.snapshot import Snapshot

NAME: Final = "iceberg.metrics"
"""How reports call what manifests say of columns."""

_PARQUET: Final[dict[pa.DataType, ParquetType]] = {
    pa.timestamp("us"): WALL_CLOCKS,
    pa.timestamp("us", "UTC"): INSTANTS,
    pa.time64("us"): ParquetType("INT64", "", "Time(us)"),
}
"""How files hold the types of which engines make something else otherwise (specification, appendix A)."""


def _as_they_are(values: Any) -> list[Any]:
    return values.to_pylist()


class IcebergMetrics(LoggedStatistics):
    """What the manifests say, for one snapshot."""

    def __init__(self, state: IcebergState, snapshot: Snapshot) -> None:
        """`state` has the manifests that the snapshot was made of."""
        super().__init__(NAME, snapshot)
        self._state = state

    def of_column(self, about: Field) -> tuple[FileStatistics, list[str]]:
        """Decode what the manifests say of a column."""
        field_id = about.field_id
        assert field_id is not None
        rows: list[Any] = self._state.files.column("rows").to_pylist()
        bounds = partial(_bounds, about.type)
        low = self._metric("lower_bounds", field_id, bounds)
        high = self._metric("upper_bounds", field_id, bounds)
        nulls = self._metric("null_counts", field_id) if len(about.path) == 1 else [None] * len(rows)
        nans = self._metric("nan_counts", field_id)
        for at, (least, greatest) in enumerate(zip(low, high, strict=True)):
            if least is not None and greatest is not None and least > greatest:
                low[at] = high[at] = None
        self._narrow(about, low, high, nulls, rows)
        return FileStatistics(rows, nulls, nans, low, high, _PARQUET.get(about.type)), []

    def _metric(
        self, name: str, field_id: int, converted: Callable[[Any], list[Any]] = _as_they_are
    ) -> list[Any]:
        """One metric of a column in each file, None where a manifest does not have it."""
        found: list[Any] = []
        for manifest in self._state.data:
            values: list[Any] = [None] * manifest.files.num_rows
            rows, stored = manifest.metrics[name].of_field(field_id)
            if len(rows):
                for row, value in zip(rows.tolist(), converted(stored), strict=True):
                    values[row] = value
            found += values
        return found

    def _narrow(
        self, about: Field, low: list[Any], high: list[Any], nulls: list[Any], rows: list[Any]
    ) -> None:
        """Take in what the partition values say; metrics and they both hold."""
        specs = self._state.metadata.specs
        known: dict[tuple[int, int, Any], Extent | None] = {}
        sources = {
            spec_id: [
                (place, field.transform)
                for place, field in enumerate(spec.fields)
                if field.source_id == about.field_id and field.source_ids in (None, [about.field_id])
            ]
            for spec_id, spec in specs.items()
        }
        for at, (spec_id, values) in enumerate(self._state.partitions):
            for place, transform in sources[spec_id]:
                key = (spec_id, place, values[place])
                if key not in known:
                    known[key] = extent_of(transform, values[place], about.type)
                extent = known[key]
                if extent is None:
                    continue
                if extent.is_null:
                    low[at] = high[at] = None
                    nulls[at] = rows[at]
                    continue
                nulls[at] = 0
                low[at] = _greater(low[at], _end(extent.lower, about.type))
                high[at] = _lesser(high[at], _end(extent.upper, about.type))


def _greater(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else max(one, other)


def _lesser(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else min(one, other)


def _end(value: Any, type_: pa.DataType) -> Any:
    """An end of an extent as records have it; None for what they do not."""
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
    """Bounds as records of column statistics have them; None for those that are not used."""
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
