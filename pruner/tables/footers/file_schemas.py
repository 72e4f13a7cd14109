"""Reads the schemas of many Parquet files, parsing each distinct one once.

The schema is taken from the Parquet schema alone. What writers add for their own use (the Arrow schema in the
key-value metadata, with zones, dictionaries and durations) is not what engines read.

What engines go by is the Parquet type, of which Arrow's is an image: `parquet_type` tells it of each column. It stands
in the metadata of the Arrow field, beside the field id, so two schemas are one only if every engine reads them alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from pruner.errors import StorageError, cause, first_line
from pruner.parquet_type import MAGIC, ParquetType, parse_parquet_type
from pruner.tables.footers.columns import ParquetColumn, columns_of_footer, parquet_columns, rewritten
from pruner.tables.footers.thrift import ThriftError, read_schema, schema_only

if TYPE_CHECKING:
    from pruner.tables.listing.files import Lister

ENCRYPTED_MAGIC = b"PARE"
FOOTER_BYTES = 256 * 1024 * 1024
"""Largest footer that is read."""

_TRAILER = 8
_REMOTE_TAIL = 64 * 1024
_REMOTE_THREADS = 32


class BrokenFileError(ValueError):
    """A file that cannot be read as Parquet; the text is a clause such as 'is cut short'."""


class UnreadableFileError(BrokenFileError):
    """A file whose bytes the store did not give; it may do so the next time."""


class NotParquetError(BrokenFileError):
    """A file that does not end as Parquet files do."""


@dataclass(frozen=True, slots=True)
class _Known:
    prefix: bytes
    schema: pa.Schema


class SchemaReader:
    """Reads file schemas; equal schemas come out as one object."""

    def __init__(self) -> None:
        self._known: list[_Known] = []
        self._distinct: dict[bytes, pa.Schema] = {}

    def read_all(self, lister: Lister, files: list[tuple[str, int]]) -> list[pa.Schema | BrokenFileError]:
        """Read the schema of each (path, size), in that order; remote files by many threads at once."""
        if lister.root.startswith("/"):
            return [self._try(lister, path, size) for path, size in files]

        def read_one(file: tuple[str, int]) -> pa.Schema | BrokenFileError:
            return self._try(lister, *file)

        with ThreadPoolExecutor(min(_REMOTE_THREADS, max(1, len(files)))) as threads:
            return list(threads.map(read_one, files))

    def intern(self, schema: pa.Schema) -> pa.Schema:
        """Return the one object for all schemas equal to this, field ids included."""
        return self._distinct.setdefault(schema.serialize().to_pybytes(), schema)

    def _try(self, lister: Lister, path: str, size: int) -> pa.Schema | BrokenFileError:
        try:
            footer_size, tail = _trailer(lister, path, size)
            return self._schema(lister, path, size, footer_size, tail)
        except BrokenFileError as error:
            return error
        except (StorageError, OSError) as error:
            return UnreadableFileError(f"cannot be read: {cause(error)}")

    def _schema(self, lister: Lister, path: str, size: int, footer_size: int, tail: bytes) -> pa.Schema:
        start = size - _TRAILER - footer_size
        have = tail[-_TRAILER - footer_size : -_TRAILER] if len(tail) >= _TRAILER + footer_size else b""
        for known in self._known:
            length = len(known.prefix)
            if (
                length <= footer_size
                and (have[:length] if have else lister.read(path, start, length)) == known.prefix
            ):
                return known.schema
        footer = have or lister.read(path, start, footer_size)
        if len(footer) != footer_size:
            raise BrokenFileError("became shorter while it was read")
        return self._parse(footer)

    def _parse(self, footer: bytes) -> pa.Schema:
        try:
            elements, end = read_schema(footer)
            columns = parquet_columns(elements)
        except ThriftError:
            return self.intern(_of_unusual_footer(footer))
        schema = self.intern(_file_schema(_opened(schema_only(footer, end)).schema_arrow, columns))
        # The newest first: files of one age lie together in a listing.
        self._known = [_Known(footer[:end], schema), *self._known[:15]]
        return schema


def _trailer(lister: Lister, path: str, size: int) -> tuple[int, bytes]:
    """Return the footer's size and the bytes at the end of the file that were read to find it."""
    if size < 2 * len(MAGIC) + 4:
        raise NotParquetError(f"is too short for a Parquet file ({size} bytes)")
    wanted = _TRAILER if lister.root.startswith("/") else min(size, _REMOTE_TAIL)
    tail = lister.read(path, size - wanted, wanted)
    if tail[-4:] == ENCRYPTED_MAGIC:
        raise BrokenFileError("has an encrypted footer")
    if tail[-4:] != MAGIC:
        raise NotParquetError("does not end like a Parquet file: it is truncated, or not a Parquet file")
    footer_size = int.from_bytes(tail[-8:-4], "little")
    if footer_size > min(size - _TRAILER - len(MAGIC), FOOTER_BYTES) or footer_size == 0:
        raise BrokenFileError(f"names a footer of {footer_size} bytes, which cannot be")
    return footer_size, tail


def _of_unusual_footer(footer: bytes) -> pa.Schema:
    """The schema of a footer whose fields come in another order than all known writers have them."""
    file = _opened(footer)
    try:
        return _file_schema(file.schema_arrow, columns_of_footer(rewritten(file.metadata)))
    except ThriftError as error:
        raise BrokenFileError(f"has a broken footer: {first_line(error)}") from None


def _opened(footer: bytes) -> pq.ParquetFile:
    whole = MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC
    try:
        file = pq.ParquetFile(pa.BufferReader(whole))
        _ = file.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BrokenFileError(f"has a broken footer: {first_line(error)}") from None
    return file


def _file_schema(arrow: pa.Schema, columns: tuple[ParquetColumn, ...]) -> pa.Schema:
    fields = list(cast("Iterable[pa.Field[Any]]", arrow))
    if len(fields) != len(columns):
        raise BrokenFileError(f"has a broken footer: {len(columns)} columns, in Arrow's form {len(fields)}")
    return pa.schema([_file_field(field, column) for field, column in zip(fields, columns, strict=True)])


def _file_field(field: pa.Field[Any], column: ParquetColumn) -> pa.Field[Any]:
    """The field as engines see it, with its Parquet type; inside lists and maps the types stand in one text."""
    plain = _plain_field(field)
    metadata = {**(plain.metadata or {}), _PARQUET_TYPE: column.text.encode("utf-8", "surrogateescape")}
    if (
        pa.types.is_struct(plain.type)
        and len(column.children) == plain.type.num_fields
        and not column.repeated
    ):
        metadata[_PARQUET_TYPE] = column.type.text.encode()
        children = zip(_storage_fields(field.type), column.children, strict=True)
        return pa.field(field.name, pa.struct([_file_field(*each) for each in children]), metadata=metadata)
    if not column.children and not column.repeated and column.type.arrow == pa.string():
        # Arrow takes ENUM for bytes; by the specification it is text.
        return pa.field(field.name, pa.string(), metadata=metadata)
    return pa.field(field.name, plain.type, metadata=metadata)


def _storage_fields(type_: pa.DataType) -> list[pa.Field[Any]]:
    return (
        _storage_fields(type_.storage_type)
        if isinstance(type_, pa.BaseExtensionType)
        else struct_fields(type_)
    )


def parquet_type(field: pa.Field[Any]) -> ParquetType | None:
    """Return the Parquet type of a column or struct of a file schema; None for lists and maps, or where not known."""
    text = (field.metadata or {}).get(_PARQUET_TYPE)
    return None if text is None else parse_parquet_type(text.decode("utf-8", "replace"))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema as engines see it: Arrow's own variants of a type are one type, zones are UTC."""
    return pa.schema([_plain_field(field) for field in cast("Iterable[pa.Field[Any]]", schema)])


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Return the type that stands for all Arrow types that are stored in Parquet the same way."""
    types = pa.types
    if isinstance(type_, pa.BaseExtensionType):
        return plain_type(type_.storage_type)
    if types.is_dictionary(type_):
        return plain_type(type_.value_type)
    if types.is_large_string(type_) or types.is_string_view(type_):
        return pa.string()
    if types.is_large_binary(type_) or types.is_binary_view(type_):
        return pa.binary()
    if types.is_timestamp(type_) and type_.tz is not None:
        return pa.timestamp(type_.unit, "UTC")
    if types.is_duration(type_):
        return pa.int64()
    if types.is_date64(type_):
        return pa.date32()
    if types.is_struct(type_):
        return pa.struct([_plain_field(field) for field in struct_fields(type_)])
    if types.is_map(type_):
        return pa.map_(plain_type(type_.key_type), cast("Any", _plain_field(type_.item_field)))
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        return pa.list_(_plain_field(type_.value_field))
    return type_


def struct_fields(type_: pa.DataType) -> list[pa.Field[Any]]:
    """Return the fields of a struct type."""
    return list(cast("Iterable[pa.Field[Any]]", type_))


FIELD_ID = b"PARQUET:field_id"
"""Under what Arrow has a field's id in its metadata."""

_PARQUET_TYPE = b"pruner:parquet_type"


def _plain_field(field: pa.Field[Any]) -> pa.Field[Any]:
    id_ = (field.metadata or {}).get(FIELD_ID)
    return pa.field(field.name, plain_type(field.type), metadata=None if id_ is None else {FIELD_ID: id_})


def field_id(field: pa.Field[Any]) -> int | None:
    """Return the Parquet field id, or None where the file has none."""
    text = (field.metadata or {}).get(FIELD_ID)
    return None if text is None else int(text)


def has_field_ids(fields: Iterable[pa.Field[Any]]) -> bool:
    """Tell whether a file names any field by an id, at whatever depth."""
    return any(field_id(each) is not None or has_field_ids(_inner(each.type)) for each in fields)


def _inner(type_: Any) -> list[Any]:
    if isinstance(type_, pa.BaseExtensionType):
        return _inner(type_.storage_type)
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    return [type_.field(at) for at in range(type_.num_fields)]


def distinct(schemas: Iterable[pa.Schema]) -> list[pa.Schema]:
    """Return the distinct objects in the order of their first appearance."""
    return list({id(schema): schema for schema in schemas}.values())
