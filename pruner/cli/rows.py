"""The rows of a query as CSV or Parquet on standard output, a part at a time."""

from __future__ import annotations

import csv
import sys
import warnings
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BATCH_ROWS = 65_536
"""Rows of a batch that is written to a Parquet file at once."""


def write_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write rows as RFC 4180 has it, with a line of names; NULL is an empty field, and bytes are hexadecimal."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow([value.hex() if isinstance(value, bytes) else value for value in row])


def write_parquet(connection: Any) -> None:
    """Write the result of a DuckDB connection as a Parquet file, with DuckDB's types.

    Raises:
        BadParameter: standard output is a terminal.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if sys.stdout.isatty():
        raise typer.BadParameter("a Parquet file is not for a terminal: write > FILE", param_hint="--output")
    # DuckDB 1.5 has the one, 2.0 the other.
    reading = getattr(connection, "to_arrow_reader", None) or connection.fetch_record_batch
    with warnings.catch_warnings():
        # It advises a relation, which would let the query see variables of this program.
        warnings.simplefilter("ignore", UserWarning)
        batches: pa.RecordBatchReader = reading(BATCH_ROWS)
    writer: Any = pq.ParquetWriter(sys.stdout.buffer, batches.schema)
    with writer:
        for batch in batches:
            writer.write_batch(batch)
