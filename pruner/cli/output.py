"""What commands print: JSON for programs, columns for display, the rows of a query as CSV or Parquet.

Rows are written to standard output in batches.
"""

from __future__ import annotations

import csv
import re
import sys
import warnings
from datetime import timedelta
from itertools import chain, islice
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any
from uuid import UUID

import typer

from pruner.errors import PrunerError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MEASURED_ROWS = 1000
"""Rows that determine the widths of columns; later rows may exceed them."""


def print_json(value: Any) -> None:
    """Print a JSON value on a line: ISO 8601 times, decimals as strings, base64 bytes, NaN as null."""
    import msgspec

    write_line(msgspec.json.encode(value, enc_hook=str).decode())


def write_line(text: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(text + "\n")


def write_page(place: str, page: str) -> None:
    """Write a page to a file and print its path, or write it to standard output for `-`."""
    if place == "-":
        write_line(page)
        return
    try:
        Path(place).write_text(page, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StorageError(f"cannot write {place!r}: {reason}") from error
    write_line(f"written to {printable(place)}")


def print_columns(header: Sequence[str], rows: Iterable[Sequence[object]]) -> int:
    """Print rows in aligned columns, numbers right-aligned; returns the number of rows."""
    remaining = iter(rows)
    measured = list(islice(remaining, MEASURED_ROWS))
    widths = [max(len(_shown(row[i])) for row in (header, *measured)) for i in range(len(header))]
    count = -1
    for row in chain([header], measured, remaining):
        write_line("  ".join(map(_cell, row, widths)).rstrip())
        count += 1
    return count


def _cell(value: object, width: int) -> str:
    shown = _shown(value)
    return shown.rjust(width) if isinstance(value, (int, float)) else shown.ljust(width)


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    return printable(value_text(value))


def value_text(value: object) -> str:
    """A value of a row as text: booleans in lower case, bytes in hexadecimal, nested values as JSON."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case list() | tuple() | dict() | timedelta():
            import msgspec

            return msgspec.json.encode(value, enc_hook=str).decode().strip('"')
        case _:
            return str(value)


def printable(text: str) -> str:
    """The text with control characters escaped, so that neither data nor file names can control the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


BATCH_ROWS = 65_536
"""Rows of a batch that is written to a Parquet file."""

_PLAIN = (str, float, NoneType)
"""Types of values that the CSV writer already formats correctly."""


_INTERVAL = re.compile(r"""("(?:[^"]|"")*"|'(?:[^']|'')*')|\bINTERVAL\b""")
"""Matches INTERVAL in a DuckDB type; field names and enumeration values are quoted."""


def only_select(connection: Any, text: str) -> str | None:
    """The only statement of a text if it is a SELECT, without its semicolon; None for anything else."""
    statements = connection.extract_statements(text)
    if [statement.type.name for statement in statements] != ["SELECT"]:
        return None
    return str(statements[0].query).rstrip().rstrip(";")


def with_spelled_intervals(select: str, types: Sequence[str]) -> str | None:
    """A query that returns intervals as DuckDB prints them; None if no column has any.

    DuckDB's client converts each to a time span, in which a month is 30 days.

    Args:
        select: one SELECT.
        types: the types of its columns.
    """
    as_text = [_INTERVAL.sub(lambda match: match[1] or "VARCHAR", type_name) for type_name in types]
    if as_text == list(types):
        return None
    columns = ", ".join(f"CAST(#{place} AS {kind})" for place, kind in enumerate(as_text, 1))
    return f"SELECT {columns} FROM (\n{select}\n)"


def write_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write rows as CSV (RFC 4180), with a header; NULL is an empty field, and values are formatted by `value_text`."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow([value if isinstance(value, _PLAIN) else value_text(value) for value in row])


def write_parquet(connection: Any, are_uuids: Sequence[bool]) -> None:
    """Write the result of a DuckDB connection as a Parquet file, with DuckDB's types.

    Args:
        connection: the connection that has run the query.
        are_uuids: whether each column holds UUIDs, which DuckDB returns as text.

    Raises:
        BadParameter: standard output is a terminal.
        PrunerError: a column has a type that Parquet files cannot hold.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if sys.stdout.isatty():
        raise typer.BadParameter(
            "a Parquet file cannot be shown on a terminal: redirect it with > FILE", param_hint="--output"
        )
    # DuckDB 1.5 has one of them, 2.0 the other.
    reading = getattr(connection, "to_arrow_reader", None) or connection.fetch_record_batch
    with warnings.catch_warnings():
        # DuckDB recommends a relation, which would let the query see variables of this program.
        warnings.simplefilter("ignore", UserWarning)
        batches: pa.RecordBatchReader = reading(BATCH_ROWS)
    schema: Any = batches.schema
    for at, is_uuid in enumerate(are_uuids):
        if is_uuid:
            schema = schema.set(at, schema.field(at).with_type(pa.uuid()))
    try:
        writer: Any = pq.ParquetWriter(sys.stdout.buffer, schema)
    except pa.ArrowNotImplementedError as error:
        raise PrunerError(f"no Parquet file can hold these columns; cast them to VARCHAR: {error}") from error
    with writer:
        batch: Any
        for batch in batches:
            columns: list[Any] = [
                _uuids(column) if is_uuid else column
                for column, is_uuid in zip(batch.columns, are_uuids, strict=True)
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def _uuids(texts: Any) -> Any:
    """UUIDs from their texts."""
    import pyarrow as pa

    extension: Any = pa.ExtensionArray
    values = [None if text is None else UUID(text).bytes for text in texts.to_pylist()]
    return extension.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
