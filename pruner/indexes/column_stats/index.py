"""The index type `column_stats`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pruner.errors import IndexDefinitionError
from pruner.indexes.column_stats.aggregate import aggregate_records
from pruner.indexes.column_stats.evidence import ColumnStatsEvidence
from pruner.indexes.column_stats.exact import ExactStatistics, records_of_values
from pruner.indexes.column_stats.load import load_statistics
from pruner.indexes.column_stats.record import RECORD_SCHEMA, record_column
from pruner.indexes.columns.equality import require_in_files
from pruner.indexes.columns.kinds import kind_of
from pruner.indexes.ranges import RANGED_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from pruner.indexes.base import Evidence, SliceReader
    from pruner.indexes.optional import Aggregates
    from pruner.schema import Field


class ColumnStats:
    """See `pruner.indexes.optional.RowIndexType`: one record of each slice and field."""

    name = "column_stats"
    partition = "column_stats"
    version = 1
    record_schema = RECORD_SCHEMA

    def check(self, field: Field, options: Mapping[str, str]) -> None:
        """Refuse what cannot be indexed.

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
        """Make evidence of the records of `count` slices."""
        return ColumnStatsEvidence(load_statistics(records, count, field), field)

    def load_exact(self, records: pa.Table, count: int, field: Field) -> ExactStatistics:
        """Take exact facts from the records: see `pruner.indexes.optional.ExactIndexType`."""
        return ExactStatistics(records, count, field)

    def exact_of_values(self, values: pa.Array[Any], field: Field) -> ExactStatistics | None:
        """Exact facts of known values, each by itself; None for types that are not judged by values."""
        records = records_of_values(values)
        return None if records is None else ExactStatistics(records, len(values), field)

    def load_values(self, values: pa.Array[Any], field: Field) -> Evidence | None:
        """Make evidence of known values: see `pruner.indexes.optional.ValueIndexType`."""
        records = records_of_values(values)
        return None if records is None else self.load(records, len(values), field)

    def aggregate(self, records: pa.Table, parts: NDArray[np.int64]) -> Aggregates | None:
        """Aggregate the records of runs of slices: see `pruner.indexes.optional.AggregatingIndexType`."""
        return aggregate_records(records, parts)


COLUMN_STATS = ColumnStats()
