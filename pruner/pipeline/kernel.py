"""The kernel: makes the requested records of one slice, the same in process, in worker processes and on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa

from pruner.errors import first_line
from pruner.metadata.segments import SLICE_FIELD
from pruner.pipeline.evaluation import DerivedReader
from pruner.pipeline.footers import FileReader
from pruner.pipeline.hudi_logs import log_rows
from pruner.pipeline.requests import Failure, broken_rule, other_columns
from pruner.pipeline.unions import UnionReader
from pruner.showing.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pruner.indexes.base import SliceReader
    from pruner.pipeline.requests import BuildRequest, SliceFiles


class ToGather(NamedTuple):
    """What a `GatheringIndexType` read from one slice, and the slice's number of rows."""

    rows: int
    read: Any


Recorded: TypeAlias = "pa.Table | tuple[Any, ...] | ToGather"
"""The records of one slice: a table, the single row of a `RowIndexType`, or the input of its records."""

GATHERED_ROWS: Final = 1 << 20
"""Fewest rows of slices whose records are made at once (except the last ones of a chunk)."""


def kernel(reader: SliceReader, requests: Sequence[BuildRequest]) -> list[Recorded | Failure]:
    """Return for each request the records of one slice, or why there are none.

    One failure never fails the other requests: an index type may fail on a column that the others do not read.
    """
    return [_record(reader, request) for request in requests]


def _record(reader: SliceReader, request: BuildRequest) -> Recorded | Failure:
    row_kind, field = request.row_kind, request.field.in_files()
    if field.expression is not None:
        reader = DerivedReader(reader, field, has_logs=isinstance(reader, UnionReader))
    try:
        if row_kind is not None:
            found: Recorded = row_kind.record_row(reader, field, request.options)
            why = _wrong_row(found, row_kind.record_schema)
        else:
            if request.gathering_kind is not None:
                read = request.gathering_kind.read(reader, field, request.options)
                if read is not None:
                    return ToGather(reader.footer.row_count, read)
            found = request.kind.record(reader, field, request.options)
            why = _wrong_table(found)
        return found if why is None else broken_rule(reader.name, request, why)
    # A broken file can make a reader raise nearly anything; the slice stays uncovered, and the failure is reported.
    except Exception as error:
        return _failure(reader.name, request, error)


def _wrong_row(found: Any, schema: Any) -> str | None:
    """Return what is wrong with the record of a `RowIndexType`; None if nothing is."""
    if not isinstance(schema, pa.Schema):
        return f"its record_schema is a {type(schema).__name__} and not a pyarrow.Schema"
    if not isinstance(found, tuple):
        return f"it recorded a {type(found).__name__} and not a tuple"
    row, columns = cast("tuple[Any, ...]", found), len(schema)
    if len(row) == columns:
        return None
    return f"it recorded {counted(len(row), 'value')} and its record_schema has {counted(columns, 'column')}"


def _wrong_table(found: Any) -> str | None:
    """Return what is wrong with the records of any other index type; None if nothing is."""
    if not isinstance(found, pa.Table):
        return f"it recorded a {type(found).__name__} and not a pyarrow.Table"
    reserved = next((name for name in found.column_names if name.startswith("__")), None)
    return (
        None if reserved is None else f"its column {reserved!r} has a name that begins with two underscores"
    )


def read_slice(
    files: SliceFiles,
    storage_options: Mapping[str, str],
    requests: Sequence[BuildRequest],
    told: Callable[[int], None] | None = None,
) -> list[Recorded | Failure]:
    """Open the files of a slice and run the kernel on it; a file that cannot be opened fails every request.

    `told` is called with the number of bytes that were read.
    """
    try:
        reader = _opened(files, storage_options, requests)
    except Exception as error:
        return [_failure(files.name, request, error) for request in requests]
    with reader:
        records = kernel(reader, requests)
        if told is not None:
            told(reader.bytes_read + (files.log_size or 0))
        return records


def _opened(
    files: SliceFiles, storage_options: Mapping[str, str], requests: Sequence[BuildRequest]
) -> FileReader | UnionReader:
    asked = [
        source.in_files() for request in requests for source in request.field.sources or (request.field,)
    ]
    base = None
    if files.base_file is not None:
        mapped = {field.path: field.mapped for field in asked if field.mapped is not None}
        base = FileReader(files.base_file, files.base_size, storage_options, mapped)
    if not files.log_files and base is not None:
        return base
    logs = log_rows(files.log_files or [], files.log_size, files.log_instants, storage_options)
    return UnionReader(files.name, base, logs, {field.path: field for field in asked})


def _failure(uri: str, request: BuildRequest, error: Exception) -> Failure:
    text = first_line(error)
    return Failure(uri, request.name, f"{request.field.name} could not be read: {text}")


class Gathered:
    """Records of many slices, gathered into one table for each request."""

    def __init__(self, requests: Sequence[BuildRequest]) -> None:
        self._requests = requests
        self._rows: list[list[tuple[Any, ...]]] = [[] for _ in requests]
        self._positions: list[list[int]] = [[] for _ in requests]
        self._names: dict[int, str] = {}
        self._tables: list[list[pa.Table]] = [[] for _ in requests]
        self._to_gather: list[list[Any]] = [[] for _ in requests]
        self._waiting_rows = [0] * len(requests)
        self.failures: list[Failure] = []

    def add(self, files: SliceFiles, results: Iterable[Recorded | Failure]) -> None:
        """Add what the kernel returned for a slice."""
        position = files.position
        self._names[position] = files.name
        for number, result in enumerate(results):
            if isinstance(result, Failure):
                self.failures.append(result)
            elif isinstance(result, ToGather):
                self._to_gather[number].append(result.read)
                self._positions[number].append(position)
                self._waiting_rows[number] += result.rows
                if self._waiting_rows[number] >= GATHERED_ROWS:
                    self._gather(number)
            elif isinstance(result, tuple):
                self._rows[number].append(result)
                self._positions[number].append(position)
            else:
                records = _numbered(result, np.full(result.num_rows, position, np.int32))
                before = self._tables[number]
                why = other_columns(records, before[0]) if before else None
                if why is None:
                    before.append(records)
                else:
                    self.failures.append(broken_rule(files.name, self._requests[number], why))

    def _gather(self, number: int) -> None:
        """Make the records of the waiting slices."""
        request, waiting = self._requests[number], self._positions[number]
        assert request.gathering_kind is not None
        read, self._to_gather[number], self._positions[number] = self._to_gather[number], [], []
        self._waiting_rows[number] = 0
        try:
            records, owners = request.gathering_kind.gather(read, request.field.in_files())
            why = _wrong_table(records)
        # The slices stay uncovered and the failure is reported, as for a single slice in `_record`.
        except Exception as error:
            self.failures += [_failure(self._names[position], request, error) for position in waiting]
            return
        if why is None:
            self._tables[number].append(_numbered(records, np.array(waiting, np.int32)[owners]))
        else:
            self.failures += [broken_rule(self._names[position], request, why) for position in waiting]

    def tables(self) -> list[pa.Table | None]:
        """One table of records with `__slice` for each request; None if it has no records."""
        return [self._table(number) for number in range(len(self._requests))]

    def _table(self, number: int) -> pa.Table | None:
        kind = self._requests[number].row_kind
        if kind is not None:
            if not self._rows[number]:
                return None
            try:
                records = _table_of(kind.record_schema, self._rows[number])
            except (pa.ArrowException, OverflowError):
                self._leave_out_unstorable(number, kind.record_schema)
                return self._table(number)
            return _numbered(records, np.array(self._positions[number], np.int32))
        if self._to_gather[number]:
            self._gather(number)
        return pa.concat_tables(self._tables[number]) if self._tables[number] else None

    def _leave_out_unstorable(self, number: int, schema: pa.Schema) -> None:
        """Turn rows with a value outside its type's range, as a broken file may have, into failures."""
        rows, positions = self._rows[number], self._positions[number]
        self._rows[number], self._positions[number] = [], []
        for row, position in zip(rows, positions, strict=True):
            try:
                _table_of(schema, [row])
            except (pa.ArrowException, OverflowError) as error:
                self.failures.append(_failure(self._names[position], self._requests[number], error))
            else:
                self._rows[number].append(row)
                self._positions[number].append(position)


def _table_of(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    arrays: list[pa.Array[Any]] = [
        pa.array(values, entry.type) for values, entry in zip(columns, cast("Any", schema), strict=True)
    ]
    return pa.table(arrays, schema=schema)


def _numbered(records: pa.Table, positions: np.ndarray[Any, np.dtype[np.int32]]) -> pa.Table:
    return records.append_column(SLICE_FIELD, pa.array(positions, pa.int32()))
