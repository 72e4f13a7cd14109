"""What DuckDB scans besides files, as Arrow datasets: merged slices, and the deleted rows of some files.

The batches of merged slices are produced while they are read. DuckDB passes the columns that it needs and a filter that
it will not apply again, so the filter must be exact. Arrow's comparisons match DuckDB's for every type but floats (NaN
compares false in Arrow, and 0.0 is not in a list that holds -0.0), so columns with floats are selected in a way that
DuckDB pushes no filter through.

Import this module only where such a scan is created: `pyarrow.dataset` loads pandas if it is installed, a quarter of
the adapter's import time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from pruner.arrow import arrow, number_array, positions
from pruner.errors import PrunerError
from pruner_duckdb.read.deletes import FILE, ROW
from pruner_duckdb.read.scan import ALWAYS, own_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.tables.hudi.merging.slices import SliceMerger
    from pruner.tables.snapshot import SliceSequence, Snapshot

_COLUMN = re.compile(r"pruner_[0-9]+")


class MergedRows(ds.InMemoryDataset):
    """The merged rows of some slices under names of our own; every scan reads the slices again, one after the other."""

    lasts = False
    """Whether it can be read again if the same statement runs again."""
    bytes = 0
    """Its size in memory."""

    def __init__(self, merger: SliceMerger, slices: SliceSequence, schema: pa.Schema) -> None:
        fields = cast("list[pa.Field[Any]]", list(schema))
        own: list[pa.Field[Any]] = [
            pa.field(own_name(position), field.type) for position, field in enumerate(fields)
        ]
        empty = pa.schema([*own, pa.field(ALWAYS, pa.bool_())]).empty_table()
        super().__init__(empty)  # pyright: ignore[reportCallIssue] - the stubs know no arguments
        self._merger = merger
        self._slices = slices
        self._names = {own_name(position): field.name for position, field in enumerate(fields)}
        self.failure: PrunerError | None = None
        """Why a scan failed: DuckDB passes on only the text of an error."""

    def hidden(self) -> PrunerError:
        """The error for sessions in which DuckDB may not look for it among Python's variables."""
        return PrunerError(
            "file groups with log files cannot be read while python_enable_replacements is false: "
            "SET python_enable_replacements = true, or give the table the option read_optimized"
        )

    def scanner(  # pyright: ignore[reportIncompatibleMethodOverride] - DuckDB gives these two alone
        self,
        columns: Sequence[str] | None = None,
        filter: ds.Expression | None = None,  # noqa: A002 - Arrow's own name for it
        **_: Any,
    ) -> Any:
        """Return the scanner that reads the slices: see `pyarrow.dataset.Dataset.scanner`."""
        chosen = list(self.schema.names if columns is None else columns)
        return _Scan(self, chosen, filter)

    def rows(self, columns: Sequence[str], condition: ds.Expression | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows for which `condition` is true, slice by slice."""
        # An expression does not expose its columns, but its text does; one too many does no harm.
        wanted = dict.fromkeys(
            [*columns, *(_COLUMN.findall(str(condition)) if condition is not None else ())]
        )
        names = {name: self._names[name] for name in wanted if name in self._names}
        source = [name for name in names.values() if name not in self._merger.absent]
        schema: Any = self.schema
        fields: list[pa.Field[Any]] = [schema.field(name) for name in (*names, ALWAYS)]
        try:
            for entry in self._slices:
                for batch in self._merger.batches(entry, source):
                    table: Any = pa.table(
                        [_column(batch, field, names) for field in fields], schema=pa.schema(fields)
                    )
                    if condition is not None:
                        table = table.filter(condition)
                    yield from table.select(list(columns)).to_batches()
        except PrunerError as error:
            self.failure = error
            raise


class _Scan:
    """The part of `pyarrow.dataset.Scanner` that DuckDB uses."""

    def __init__(self, rows: MergedRows, columns: list[str], condition: ds.Expression | None) -> None:
        self._rows = rows
        self._columns = columns
        self._condition = condition
        schema: Any = rows.schema
        self.projected_schema = pa.schema([schema.field(name) for name in columns])

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream."""
        return pa.RecordBatchReader.from_batches(
            self.projected_schema, self._rows.rows(self._columns, self._condition)
        )


def _column(batch: pa.RecordBatch, field: pa.Field[Any], names: Mapping[str, str]) -> Any:
    """One column of a batch from hudi-rs, in the type of the table."""
    if field.name == ALWAYS:
        return pa.repeat(True, batch.num_rows)
    position = batch.schema.get_field_index(names[field.name])
    if position < 0:
        return cast("Any", pa).nulls(batch.num_rows, field.type)
    column = cast("Any", batch).column(position)
    return column if column.type.equals(field.type) else column.cast(field.type)


class DeletedRows(ds.InMemoryDataset):
    """The deleted rows of some files as DuckDB scans them, by file and position."""

    failure: PrunerError | None = None
    lasts = True

    def __init__(self, snapshot: Snapshot, ordinals: NDArray[np.intp], *, by_name: bool) -> None:
        """Read which rows of some slices are deleted; their files are identified by names or by numbers.

        Raises:
            TableError: this cannot be read.
        """
        assert snapshot.deletes is not None
        row_positions = snapshot.deletes.positions(ordinals)
        lengths = [len(each) for each in row_positions]
        if by_name:
            uris: list[Any] = snapshot.base_files.take(positions(ordinals)).to_pylist()
            codes = np.repeat(np.arange(len(uris), dtype=np.int32), lengths)
            names = pa.array([uri.removeprefix("file://") for uri in uris], pa.string())
            files = arrow.DictionaryArray.from_arrays(number_array(codes, pa.int32()), names)
        else:
            files = number_array(np.repeat(np.arange(len(lengths), dtype=np.uint64), lengths), pa.uint64())
        rows = np.concatenate([np.empty(0, np.uint64), *row_positions]).astype(np.int64)
        table = arrow.table({FILE: files, ROW: number_array(rows, pa.int64())})
        super().__init__(table)  # pyright: ignore[reportCallIssue] - the stubs know no arguments
        self.bytes = table.nbytes

    def hidden(self) -> PrunerError:
        """The error for sessions in which DuckDB may not look for it among Python's variables."""
        return PrunerError(
            "files with deletion vectors cannot be read while python_enable_replacements is false: "
            "SET python_enable_replacements = true"
        )
