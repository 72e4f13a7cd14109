"""Rows of Hudi log files as Arrow columns, unmerged: records cover every version of a row (R5).

Merging takes rows, or columns of rows, from the base file and the log files; it never creates values (tables where it
does are not indexed with logs). So every value that a merged read returns in one column is in the base file or in one
of the data blocks, and so is every value of a read as of an earlier instant or of base files alone. Delete blocks add
nothing. Rows are decoded here and not by hudi-rs, which merges the blocks of a file even when it is given only one.

Rows of Avro data blocks become Arrow columns with each value as stored: no reader schema converts them.

Logical types are removed before decoding, so that fastavro returns the stored numbers, and are restored as Arrow types
(Avro specification 1.11, "Logical Types"). A column of a type that has no single Arrow type here is left out and named
in `AvroRows.left_out`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from pruner.pipeline.footers import FileReader
from pruner.tables.hudi.avro_schema import MOMENT_TYPES, PRIMITIVE_TYPES, AvroType
from pruner.tables.hudi.logs import BlockType, blocks, log_bytes, records
from pruner.tables.hudi.metadata.payloads import decode_stored, without_logical_types

if TYPE_CHECKING:
    from pruner.tables.hudi.logs import LogBlock

Path = tuple[str, ...]
Change: TypeAlias = "Callable[[Any], Any] | None"

_MAX_DEPTH = 64
_MAX_SCHEMA_BYTES = 1 << 24
_LARGEST_DECIMAL = 38
_EXACT = Context(prec=_LARGEST_DECIMAL + 1)
_LOGICAL = {**MOMENT_TYPES, ("string", "uuid"): pa.string()}


class _LeftOutError(Exception):
    """A type that is not read; the text is the type's."""


@dataclass(frozen=True, slots=True)
class AvroRows:
    """Rows of one Avro schema; `left_out` gives the type of each leaf column that is not among the columns."""

    table: pa.Table
    left_out: Mapping[Path, str]


@dataclass(frozen=True, slots=True)
class _Reader:
    """What is derived once from each Avro schema."""

    stripped: Any
    columns: Mapping[str, tuple[pa.DataType, Change]]
    left_out: Mapping[Path, str]


def read_rows(schema: str, encoded: Iterable[memoryview]) -> AvroRows:
    """Decode records that were written with one schema.

    Args:
        schema: Avro schema of a record, as JSON.
        encoded: the records, each in Avro's binary encoding.

    Raises:
        ValueError: the schema is not understood, or a record does not follow it.
    """
    reader = _reader(schema)
    rows = [_decode(record, reader.stripped) for record in encoded]
    arrays: dict[str, pa.Array[Any]] = {}
    for name, (type_, change) in reader.columns.items():
        values = [row[name] for row in rows]
        if change is not None:
            values = [None if value is None else change(value) for value in values]
        arrays[name] = pa.array(values, type_)
    # A table without columns would lose its row count.
    arrays = arrays or {"": pa.nulls(len(rows), pa.bool_())}
    return AvroRows(pa.table(arrays), reader.left_out)


def _decode(record: memoryview, schema: Any) -> dict[str, Any]:
    source = io.BytesIO(record)
    try:
        row = decode_stored(source, schema, None)
    except (EOFError, IndexError, UnicodeDecodeError, OverflowError, KeyError, TypeError) as error:
        raise ValueError(f"a record does not follow its schema: {error}") from None
    if source.tell() != len(record):
        raise ValueError("a record is longer than its schema says")
    return cast("dict[str, Any]", row)


@lru_cache(maxsize=64)
def _reader(schema: str) -> _Reader:
    if len(schema) > _MAX_SCHEMA_BYTES:
        raise ValueError(f"an Avro schema has {len(schema)} bytes, more than is read")
    try:
        parsed = json.loads(schema)
    except (ValueError, RecursionError):
        raise ValueError("the schema of a block is no JSON") from None
    if not isinstance(parsed, dict) or cast("dict[str, Any]", parsed).get("type") != "record":
        raise ValueError("the schema of a block is not that of a record")
    record = cast("dict[str, Any]", parsed)
    named: dict[str, dict[str, Any] | None] = {}
    _collect(record, "", named, 0)
    columns: dict[str, tuple[pa.DataType, Change]] = {}
    left_out: dict[Path, str] = {}
    for entry in _fields(record):
        column = _column((entry["name"],), entry["type"], named, left_out, 1)
        if column is not None:
            columns[entry["name"]] = column
    return _Reader(fastavro.parse_schema(without_logical_types(record)), columns, left_out)


def _fields(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    fields = record.get("fields")
    described = cast("list[Any]", fields) if isinstance(fields, list) else []
    if not all(isinstance(entry, dict) and "name" in entry and "type" in entry for entry in described):
        raise ValueError("the schema of a block has a field without a name or type")
    return cast("list[dict[str, Any]]", described)


def _collect(schema: AvroType, namespace: str, named: dict[str, dict[str, Any] | None], depth: int) -> None:
    """Collect the named types, to which later fields may refer by name; None for a name that several types have."""
    if depth > _MAX_DEPTH:
        raise ValueError("the schema of a block is nested too deep")
    if isinstance(schema, list):
        for option in schema:
            _collect(option, namespace, named, depth + 1)
    elif isinstance(schema, dict):
        if "name" in schema and schema.get("type") in ("record", "fixed", "enum"):
            before, _, name = str(schema["name"]).rpartition(".")
            namespace = before or schema.get("namespace", namespace)
            for known_as in {name, f"{namespace}.{name}"}:
                named[known_as] = schema if named.get(known_as, schema) == schema else None
        for entry in _fields(schema):
            _collect(entry["type"], namespace, named, depth + 1)
        for inner in ("items", "values", "type"):
            if isinstance(schema.get(inner), (dict, list)):
                _collect(schema[inner], namespace, named, depth + 1)


def _column(
    path: Path,
    schema: AvroType,
    named: Mapping[str, dict[str, Any] | None],
    left_out: dict[Path, str],
    depth: int,
) -> tuple[pa.DataType, Change] | None:
    """Return a field's Arrow type and value conversion; None, with its leaves in `left_out`, if it is not read."""
    try:
        resolved = _resolved(schema, named)
        if isinstance(resolved, dict) and resolved.get("type") == "record":
            return _struct(path, resolved, named, left_out, depth)
        return _leaf_type(resolved)
    except _LeftOutError as error:
        left_out[path] = str(error)
        return None


def _struct(
    path: Path,
    record: dict[str, Any],
    named: Mapping[str, dict[str, Any] | None],
    left_out: dict[Path, str],
    depth: int,
) -> tuple[pa.DataType, Change] | None:
    if depth > _MAX_DEPTH:
        raise _LeftOutError("a record nested too deep")
    parts: dict[str, tuple[pa.DataType, Change]] = {}
    for entry in _fields(record):
        part = _column((*path, entry["name"]), entry["type"], named, left_out, depth + 1)
        if part is not None:
            parts[entry["name"]] = part
    if not parts:
        return None
    changes = [(name, change) for name, (_, change) in parts.items()]

    def pick(value: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value[name] if change is None or value[name] is None else change(value[name])
            for name, change in changes
        }

    return pa.struct([pa.field(name, type_) for name, (type_, _) in parts.items()]), pick


def _resolved(schema: AvroType, named: Mapping[str, dict[str, Any] | None]) -> AvroType:
    """Unwrap a union with null, names of types, and `{"type": {...}}`."""
    for _ in range(_MAX_DEPTH):
        if isinstance(schema, list):
            options = [option for option in schema if option != "null"]
            if len(options) != 1:
                raise _LeftOutError(f"a union of {len(options)} types")
            schema = options[0]
        elif isinstance(schema, str) and schema in named and schema not in PRIMITIVE_TYPES:
            known_schema = named[schema]
            if known_schema is None:
                raise _LeftOutError(f"a type {schema}, of which there are several,")
            schema = known_schema
        elif isinstance(schema, dict) and isinstance(schema.get("type"), (dict, list)):
            schema = schema["type"]
        else:
            return schema
    raise _LeftOutError("a type nested too deep")


def _leaf_type(schema: AvroType) -> tuple[pa.DataType, Change]:
    entries: dict[str, Any] = schema if isinstance(schema, dict) else {"type": schema}
    name, logical = str(entries.get("type")), entries.get("logicalType")
    if logical == "decimal" and name in ("bytes", "fixed"):
        return _decimal(entries)
    if logical is not None:
        data_type = _LOGICAL.get((name, str(logical)))
        if data_type is None:
            raise _LeftOutError(f"{name} {logical}")
        return data_type, None
    if name == "fixed":
        return pa.binary(int(entries["size"])), None
    if name not in PRIMITIVE_TYPES:
        raise _LeftOutError(name)
    return PRIMITIVE_TYPES[name], None


def _decimal(entries: Mapping[str, Any]) -> tuple[pa.DataType, Change]:
    precision, scale = entries.get("precision"), entries.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        raise _LeftOutError("decimal without precision")
    if not 0 <= scale <= precision <= _LARGEST_DECIMAL:
        raise _LeftOutError(f"decimal({precision}, {scale})")

    def value(data: bytes) -> Decimal:
        return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, _EXACT)

    return pa.decimal128(precision, scale), value


_WITHOUT_ROWS = (BlockType.COMMAND, BlockType.DELETE)


@dataclass(frozen=True, slots=True)
class LogRows:
    """Rows of one schema from one log file, as a Parquet file in memory.

    `left_out` gives the type of each column of the rows that cannot be read. If `is_rewritten`, the Parquet file is not
    the writer's own, but made here from Avro.
    """

    reader: FileReader
    left_out: Mapping[tuple[str, ...], str]
    is_rewritten: bool = False


def log_rows(
    uris: Sequence[str], size: int | None, instants: str | None, options: Mapping[str, str]
) -> list[LogRows]:
    """Read all rows of the log files of a slice.

    Args:
        uris: the log files.
        size: their total size in bytes, as listed.
        instants: `Snapshot.log_instants`.
        options: options of the object store.

    Raises:
        ValueError: a block is of an unfinished write (R4), of an unsupported type, or broken; or the files are no
            longer as large as listed.
        OSError, StorageError: a file cannot be read.
    """
    finished = _Finished(instants)
    rows: list[LogRows] = []
    read = 0
    for uri in uris:
        data = log_bytes(uri, options)
        read += len(data)
        rows += _rows(uri, [block for block in blocks(data) if finished.counts(block)])
    if size is not None and read != size:
        raise ValueError(f"its log files have {read} bytes where {size} were listed: refresh the index again")
    finished.check()
    return rows


class _Finished:
    """Which blocks count (R4): those of completed instants, and of those so old that they have left the timeline."""

    def __init__(self, instants: str | None) -> None:
        self._oldest, *completed = (instants or "").split(" ")
        self._completed = frozenset(completed)
        self._unfinished: set[str] = set()
        self._rolled_back: set[str] = set()

    def counts(self, block: LogBlock) -> bool:
        """Tell whether a block counts; unfinished instants are remembered for `check`."""
        if block.target:
            self._rolled_back.add(block.target)
        instant = block.instant
        if instant in self._completed or (instant and instant < self._oldest):
            return True
        self._unfinished.add(instant)
        return False

    def check(self) -> None:
        """Refuse blocks of unfinished instants that no command block of the slice has rolled back."""
        left = sorted(self._unfinished - self._rolled_back)
        if left:
            raise ValueError(f"a log file has a block of {left[0] or 'no instant'}, which has not completed")


def _rows(uri: str, kept: list[LogBlock]) -> Iterator[LogRows]:
    """Yield the rows of the data blocks of a file; Avro blocks of one schema are read together."""
    encoded: dict[str, list[memoryview]] = {}
    for block in kept:
        if block.type is BlockType.AVRO:
            encoded.setdefault(block.schema, []).extend(records(block.content))
        elif block.type is BlockType.PARQUET:
            yield LogRows(FileReader(uri, source=pa.BufferReader(bytes(block.content))), {})
        elif block.type not in _WITHOUT_ROWS:
            raise ValueError(f"a log file has a block of type {block.type.name}, which is not read")
    for schema, row_set in encoded.items():
        rows = read_rows(schema, row_set)
        sink = pa.BufferOutputStream()
        parquet: Any = pq  # its stubs leave types open
        parquet.write_table(rows.table, sink, compression="none")
        yield LogRows(
            FileReader(uri, source=pa.BufferReader(sink.getvalue())), rows.left_out, is_rewritten=True
        )
