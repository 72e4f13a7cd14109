"""Evidence from file statistics that a table keeps in its own log or manifests.

They bound the rows that a file was written with, and so what deletes leave of them (R13). From here on they are records
of a `column_stats` index and are evaluated as such.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from pruner.arrow import (
    arrow,
    as_numpy,
    binary_array,
    compute,
    filled,
    null_unless,
    nulls,
    number_array,
    text_array,
    truth_array,
)
from pruner.evidence.sources import of_records
from pruner.indexes.registry import exact_of_statistics, statistics_of
from pruner.metadata.segments import SLICE_COLUMN
from pruner.parquet_type import ParquetType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from pruner.evidence.sources import KnowsFields, Source, Sources
    from pruner.expr.bound.predicates import BoundExpr, InLeaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.optional import ExactEvidence, RowIndexType
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot

    Mask = NDArray[np.bool_]
    Numbers = NDArray[np.int64]

INSTANTS: Final = ParquetType("INT64", "TIMESTAMP_MICROS", "Timestamp(us,utc)")
WALL_CLOCKS: Final = ParquetType("INT64", "", "Timestamp(us)")
"""How files store timestamps with and without a zone, which engines would otherwise interpret differently."""

_USING: Final = "column_stats"
_UNKNOWN_ROWS: Final = 1 << 40
"""Row count of a file that does not state one: more than any file has, so that no NULL count equals it."""


class FileStatistics(NamedTuple):
    """What is known of one column in each file; None where nothing is, also for `nans` as a whole.

    `low` and `high` bound every value but NULL and NaN, in the storage domain of the column's type. `parquet` is the
    Parquet type of the column in every file, where the format leaves writers no choice. `equal_is_value` says, for all
    files or for each, that equal bounds are the only value in the file: neither of them can have been truncated.
    """

    rows: Sequence[Any]
    nulls: Sequence[Any]
    nans: Sequence[Any] | None
    low: Sequence[Any]
    high: Sequence[Any]
    parquet: ParquetType | None = None
    equal_is_value: bool | Mask = False


class LoggedStatistics(ABC):
    """The statistics that a table keeps of its files, for one snapshot: see `pruner.evidence.sources.OwnIndexes`."""

    def __init__(self, name: str, snapshot: Snapshot) -> None:
        """`name` is their name in reports; nothing is read yet."""
        self.names: tuple[str, ...] = (name,)
        self.expressions: list[tuple[str, str]] = []
        self._snapshot = snapshot

    @abstractmethod
    def row_counts(self) -> Numbers:
        """Return the number of rows each file was written with: see `pruner.evidence.sources.CountsRows`."""

    @abstractmethod
    def records(self, about: Field, schema: pa.Schema) -> tuple[pa.Table, list[str]]:
        """Return what is known of a column, as records from `records_of`, and why parts could not be read."""

    def implied(
        self, predicate: BoundExpr, semantics: Semantics
    ) -> Iterator[tuple[InLeaf, KnowsFields | None]]:
        """Yield nothing: see `OwnIndexes`."""
        yield from ()

    def described(self) -> dict[str, str]:
        """Say that they are used: see `OwnIndexes`."""
        return dict.fromkeys(self.names, "used")

    def bounds(self, about: Field) -> ExactEvidence | None:
        """Return bounds of the values of a column: see `pruner.evidence.sources.BoundsValues`."""
        kind = _kind(about)
        if kind is None:
            return None
        records, _ = self.records(about, kind.record_schema)
        return exact_of_statistics(records, len(self._snapshot), about) if records.num_rows else None

    def add(self, about: Field, sources: Sources) -> None:
        """Add what is known of a column, unless a pruner index covers it in every file: see `OwnIndexes`."""
        kind = _kind(about)
        if kind is None or any(map(self._covers_all, sources.usable)):
            return
        source = self._source(about, kind, sources)
        if source is not None:
            sources.usable.append(source)
        for name, records in self.further(about, kind.record_schema):
            if records.num_rows:
                sources.usable.append(self._made(name, kind, records, len(self._snapshot), about))

    def further(self, about: Field, schema: pa.Schema) -> Iterator[tuple[str, pa.Table]]:
        """Yield what else is known of a column, as records from `records_of`, each with its name in reports."""
        yield from ()

    def _source(self, about: Field, kind: RowIndexType, found: Sources) -> Source | None:
        """What is known of a column, None if nothing is; what could not be read is added to the fallbacks."""
        logged = self.names[0]
        records, notes = self.records(about, kind.record_schema)
        found.fallbacks += [f"{logged}: {note}" for note in notes]
        return self._made(logged, kind, records, len(self._snapshot), about) if records.num_rows else None

    def _made(self, name: str, kind: RowIndexType, records: pa.Table, count: int, about: Field) -> Source:
        """A source from the records of a column of some files."""
        return of_records(name, _USING, kind.load(records, count, about))

    def _covers_all(self, source: Source) -> bool:
        if source.using != _USING:
            return False
        uncovered = source.uncovered
        return uncovered is None or not (uncovered & self._snapshot.coverable).any()


def _kind(about: Field) -> RowIndexType | None:
    """The index type whose records statistics become; None for what is in no file and so has no statistics."""
    return statistics_of(about) if about.in_file and about.expression is None else None


def known_counts(values: Sequence[Any]) -> Numbers:
    """Row counts from a log; -1 for values that are not row counts."""
    numbers, known = _counts(values)
    return np.where(known, numbers, -1)


def records_of(statistics: FileStatistics, about: Field, schema: pa.Schema) -> pa.Table:
    """Records of a `column_stats` index, for the files with any statistics of the column: `__slice` says which.

    No bound is known to be a value, since writers truncate and round; two equal ones may be: see `FileStatistics`.
    """
    rows, rows_known = _counts(statistics.rows)
    null_counts, nulls_known = _counts(statistics.nulls)
    none = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    nan_counts, nans_known = none if statistics.nans is None else _counts(statistics.nans)
    rows = np.where(rows_known, rows, _UNKNOWN_ROWS)
    low, high = _known(statistics.low), _known(statistics.high)
    told = np.flatnonzero(nulls_known | low | high)
    kind = _kind_of(about.type)
    layout: Any = schema  # whose stubs leave types open
    count = len(told)
    no, yes = truth_array(np.zeros(count, np.bool_)), truth_array(np.ones(count, np.bool_))
    columns: dict[str, Any] = {
        "trusted": yes,
        "row_count": number_array(rows[told], pa.int64()),
        "type": _repeated(str(about.type), count),
        "absent": no,
        "null_count": number_array(null_counts[told], pa.int64(), ~nulls_known[told]),
        "nan_count": number_array(nan_counts[told], pa.int64(), ~nans_known[told]),
        "calendar_open": no,
        "from_data": no,
        "in_range": yes,
        "partly_absent": no,
        "parquet": _repeated(statistics.parquet and statistics.parquet.text, count),
    }
    for name, ends in (("min", statistics.low), ("max", statistics.high)):
        column = f"{name}_{kind}"
        some = list(ends) if count == len(ends) else [ends[at] for at in told.tolist()]
        columns[column] = _column(some, layout.field(column).type)
    equal = as_numpy(filled(compute.equal(columns[f"min_{kind}"], columns[f"max_{kind}"]), False))
    may_be_values = np.broadcast_to(np.asarray(statistics.equal_is_value), len(low))[told]
    columns["min_exact"] = columns["max_exact"] = truth_array(equal & may_be_values)
    fields: list[Any] = list(layout)
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else nulls(count, field.type)
        for field in fields
    ]
    table = arrow.Table.from_arrays(arrays, schema=schema)
    return table.append_column(SLICE_COLUMN, number_array(told.astype(np.int32), pa.int32()))


def _repeated(text: str | None, count: int) -> Any:
    return nulls(count, pa.string()) if text is None else arrow.repeat(text_array([text])[0], count)


def _column(values: list[Any], type_: pa.DataType) -> Any:
    plain = _plain_column(values, type_)
    if plain is not None:
        return plain
    try:
        return arrow.array(values, type_)
    except (pa.ArrowException, OverflowError):
        return arrow.array([_fitting(value, type_) for value in values], type_)


def _plain_column(values: list[Any], type_: pa.DataType) -> Any:
    """A column of values that are all of its own type, else None; it needs no pandas, unlike a column from a list."""
    types = pa.types
    if types.is_int64(type_):
        numbers = _integers(values)
        return None if numbers is None else number_array(numbers[0], type_, ~numbers[1])
    kinds = {*map(type, values)}
    if kinds == {float} and types.is_float64(type_):
        return number_array(np.array(values, np.float64), type_)
    if kinds == {bytes} and types.is_binary(type_):
        return binary_array(values)
    present, known = kinds - {NoneType}, _known(values)
    if present <= {float} and types.is_float64(type_):
        return number_array(
            np.array([0.0 if value is None else value for value in values], np.float64), type_, ~known
        )
    if present <= {bytes} and types.is_binary(type_):
        return null_unless(truth_array(known), binary_array([value or b"" for value in values]))
    if present <= {int} and types.is_decimal128(type_) and type_.scale == 0:
        most = 10**type_.precision
        if any(not -most < value < most for value in values if value is not None):
            return None
        return _decimals([value or 0 for value in values], type_, known)
    return None


def _decimals(values: list[int], type_: pa.DataType, known: np.ndarray[Any, np.dtype[np.bool_]]) -> Any:
    width = type_.bit_width // 8
    stored = b"".join([value.to_bytes(width, "little", signed=True) for value in values])
    whole = arrow.Array.from_buffers(type_, len(values), [None, arrow.py_buffer(stored)])
    return null_unless(truth_array(known), whole)


def _fitting(value: Any, type_: pa.DataType) -> Any:
    try:
        return arrow.scalar(value, type_).as_py()
    except (pa.ArrowException, OverflowError):
        return None


def _known(values: Sequence[Any]) -> Mask:
    """Which values are present. Usually all are, which their types show in a third of the time."""
    if NoneType not in {*map(type, values)}:
        return np.ones(len(values), np.bool_)
    return np.array([value is not None for value in values], np.bool_)


def _integers(values: Sequence[Any]) -> tuple[Numbers, Mask] | None:
    """Integers, 0 where one is missing, and a mask of those present; None if one is not a 64-bit integer."""
    kinds = {*map(type, values)}
    if not kinds <= {int, NoneType}:
        return None
    held: Any = np.array(values, np.object_)
    known: Any = np.ones(len(values), np.bool_) if NoneType not in kinds else held != None  # noqa: E711
    held[~known] = 0
    try:
        return held.astype(np.int64), known
    except OverflowError:
        return None


def _counts(values: Sequence[Any]) -> tuple[Numbers, Mask]:
    """Counts, and which of them are known."""
    found = _integers(values) or _integers(
        [value if type(value) is int and abs(value) < _UNKNOWN_ROWS else None for value in values]
    )
    assert found is not None
    numbers, known = found
    known = known & (numbers >= 0) & (numbers < _UNKNOWN_ROWS)
    return np.where(known, numbers, 0), known


def _kind_of(type_: pa.DataType) -> str:
    """Which columns of the records hold the bounds of a type."""
    types = pa.types
    if types.is_floating(type_):
        return "float"
    if types.is_decimal(type_):
        return "decimal"
    return "bytes" if types.is_string(type_) or types.is_binary(type_) else "integer"
