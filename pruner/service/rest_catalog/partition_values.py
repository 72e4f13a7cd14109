"""Partition values of Iceberg tables: as JSON for clients, and which of them a filter may match.

Source: the Iceberg table specification, "Partition Transforms" and appendix D ("Single-value serialization", JSON);
classes `ExpressionUtil.selectsPartitions` and `SingleValueParser` of Iceberg's Java library.
"""

from __future__ import annotations

import datetime
import math
import uuid
from bisect import bisect_left
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa

from pruner.errors import PredicateError
from pruner.service.rest_catalog.filters import plain_value
from pruner.service.rest_catalog.metadata import UnservedError
from pruner.tables.iceberg.transforms import Extent, bucket_count, extent_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.service.rest_catalog.filters import Filter

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_DAY: Final = datetime.date(1970, 1, 1)
_EXACT: Final = Context(prec=60)
_MET_BY_NULL: Final = frozenset({"is-null", "not-eq", "not-in", "not-nan", "not-starts-with"})


class BoundPartitionField(NamedTuple):
    """A field of a partition spec: the column's id and current type, and the transform."""

    id: int | None
    transform: str
    type: pa.DataType | None
    was_date: bool = False
    """Whether the column had the type date in some schema, so that a small number may be days."""

    @property
    def has_values(self) -> bool:
        """Whether the partition tuple has values of the column's own type."""
        return self.transform == "identity" or self.transform.startswith("truncate")


class PartitionFilter:
    """Tells whether a filter may match in a partition; exact wherever it matches all rows of a partition or none."""

    def __init__(
        self,
        asked: Filter,
        ids: Callable[[str], frozenset[int]],
        fields: dict[int, list[BoundPartitionField]],
    ) -> None:
        """`ids` gives all columns that a name in the filter may mean; `fields` are the fields of each spec."""
        self._asked = asked
        self._ids = ids
        self._fields = fields
        sources = {field.id for spec in fields.values() for field in spec if field.transform != "void"}
        self._sources = sources
        names = asked.names()
        self.is_about_partitions = any(ids(name) & sources for name in names)

    def may_match(self, partitions: Sequence[tuple[int, tuple[Any, ...]]]) -> NDArray[np.bool_]:
        """Whether some row of each partition may match.

        Args:
            partitions: the spec id and the values of each.

        Raises:
            PredicateError: a comparison with a partition column is not understood.
        """
        known = [
            [
                (field, _extent(field, value, field.type))
                for field, value in zip(self._fields[spec_id], values, strict=True)
                if field.type is not None
            ]
            for spec_id, values in partitions
        ]
        return self._asked.held(len(known), partial(self._comparison, known))

    def _comparison(
        self,
        partitions: Sequence[Sequence[tuple[BoundPartitionField, Extent | None]]],
        kind: str,
        name: str | None,
        given: Sequence[Any],
    ) -> NDArray[np.bool_]:
        ids = frozenset[int]() if name is None else self._ids(name)
        if len(ids) > 1 and ids & self._sources:
            raise PredicateError(
                f"the filter names {str(name)[:200]!r}, which several columns of the table were called, and files are "
                "partitioned by one of them: use the column's other name, or an adapter"
            )

        @cache
        def constants(field: BoundPartitionField) -> list[Any]:
            return sorted(_ordered(_stored(item, field.type, field)) for item in given)

        may = (
            all(
                _meets(kind, partial(constants, field), field, extent)
                for field, extent in known
                if field.id in ids
            )
            for known in partitions
        )
        return np.fromiter(may, np.bool_, len(partitions))


def _meets(
    kind: str, given: Callable[[], list[Any]], field: BoundPartitionField, extent: Extent | None
) -> bool:
    """Whether some value of a partition may meet a comparison; `given` yields its `_ordered` constants, ascending."""
    if extent is None:
        return True
    if extent.is_null:
        return kind in _MET_BY_NULL
    if kind in ("is-null", "not-null"):
        return kind == "not-null"
    if bucket_count(field.transform) is not None:
        return True
    if kind in ("is-nan", "not-nan"):
        is_known = isinstance(extent.lower, float)
        return not is_known or math.isnan(extent.lower) == (kind == "is-nan")
    constants = given()
    if kind in ("starts-with", "not-starts-with") and not pa.types.is_string(cast("Any", field.type)):
        return True
    return _compared(kind, constants, extent)


def _extent(source: BoundPartitionField, value: Any, type_: pa.DataType) -> Extent | None:
    if source.transform == "identity" and value is not None and not source.was_date:
        if isinstance(value, bytes) and pa.types.is_decimal(type_):
            value = int.from_bytes(value, "big", signed=True)
        return Extent(value, value)
    return extent_of(source.transform, value, type_)


def _stored(value: Any, type_: Any, source: BoundPartitionField) -> Any:
    """A filter's constant in the form that manifests store."""
    types = pa.types
    result: Any = None
    try:
        if isinstance(type_, pa.UuidType):
            result = uuid.UUID(value).bytes
        elif types.is_binary(type_) or types.is_fixed_size_binary(type_):
            result = bytes.fromhex(value)
        elif types.is_time64(type_):
            result = value if isinstance(value, int) else _micros_of_day(datetime.time.fromisoformat(value))
        else:
            result = plain_value(value, type_)
            if isinstance(result, Decimal):
                result = _unscaled(result, type_.scale)
            elif isinstance(result, datetime.date):
                result = (result - _DAY).days
    except (ValueError, TypeError, AttributeError):
        result = None
    if result is None:
        raise PredicateError(
            f"the filter compares a column of {type_}, by which the table is partitioned ({source.transform}), with "
            f"{str(value)[:100]!r}, which is none of its values"
        )
    return result


def _unscaled(value: Decimal, scale: int) -> int | Decimal:
    scaled = value.scaleb(scale, _EXACT)
    return int(scaled) if scaled == scaled.to_integral_value() else scaled


def _compared(kind: str, known: list[Any], extent: Extent) -> bool:
    lower, upper = _ordered(extent.lower), _ordered(extent.upper)
    if lower is None:
        return True
    is_one = upper is not None and not extent.upper_is_open and lower == upper
    if kind in ("starts-with", "not-starts-with"):
        return _starts(kind, known[0], lower, is_one=is_one)
    match kind:
        case "eq" | "in":
            at = bisect_left(known, lower)
            if at == len(known) or upper is None:
                return at < len(known)
            return known[at] < upper if extent.upper_is_open else known[at] <= upper
        case "not-eq" | "not-in":
            return not (is_one and lower in known)
        case "lt":
            return lower < known[0]
        case "lt-eq":
            return lower <= known[0]
        case "gt":
            return upper is None or upper > known[0]
        case "gt-eq":
            return upper is None or (upper > known[0] if extent.upper_is_open else upper >= known[0])
        case _:
            return True


def _starts(kind: str, prefix: bytes, text: bytes, *, is_one: bool) -> bool:
    if is_one:
        return text.startswith(prefix) == (kind == "starts-with")
    # Every value of the partition begins with the text.
    if kind == "not-starts-with":
        return not text.startswith(prefix)
    return text.startswith(prefix) or prefix.startswith(text)


def _ordered(value: Any) -> Any:
    """A sort key that gives Java's order in Python: texts by their bytes, -0.0 before 0.0, NaN last."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, float):
        if math.isnan(value):
            return math.inf, 1
        return value, 0 if math.copysign(1, value) > 0 or value else -1
    return value


def value_as_json(source: BoundPartitionField, value: Any, *, python: bool) -> Any:
    """A value of a partition tuple in the JSON form that a client reads.

    Raises:
        UnservedError: it has no such form.
    """
    if value is None or source.type is None:
        return None
    if source.has_values:
        return _of_column(value, source.type, python=python)
    if source.transform == "day":
        return value if python else _date(value)
    return value


def _of_column(value: Any, type_: Any, *, python: bool) -> Any:
    types = pa.types
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UnservedError(
                f"files are partitioned by {value}, of which JSON has no form: plan in the client "
                "(scan-planning-mode=client)"
            )
        return value
    if types.is_decimal(type_) and isinstance(value, bytes):
        unscaled = int.from_bytes(value, "big", signed=True)
        return format(Decimal(unscaled).scaleb(-type_.scale, _EXACT), "f")
    if isinstance(type_, pa.UuidType):
        return str(uuid.UUID(bytes=bytes(value)))
    if isinstance(value, bytes):
        return value.hex().upper()
    if python or not types.is_temporal(type_):
        return value
    if types.is_date(type_):
        return _date(value)
    if types.is_time64(type_):
        return (_EPOCH + datetime.timedelta(microseconds=value)).time().isoformat("microseconds")
    if types.is_timestamp(type_) and type_.unit == "us":
        shown = _moment(value).isoformat("T", "microseconds")
        return shown if type_.tz is None else f"{shown}+00:00"
    raise UnservedError(f"files are partitioned by values of {type_}, which clients do not take from a plan")


def _date(days: int) -> str:
    try:
        return (_DAY + datetime.timedelta(days=days)).isoformat()
    except OverflowError:
        raise _beyond() from None


def _moment(micros: int) -> datetime.datetime:
    try:
        return _EPOCH + datetime.timedelta(microseconds=micros)
    except OverflowError:
        raise _beyond() from None


def _beyond() -> UnservedError:
    return UnservedError("files are partitioned by a date that is not of the years 1 to 9999: use an adapter")


def _micros_of_day(value: datetime.time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
