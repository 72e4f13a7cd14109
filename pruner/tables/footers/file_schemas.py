"""Reads the schemas of many Parquet files, each distinct one once, and makes one table schema from them.

The schema is taken from the Parquet schema alone. What writers add for their own use (the Arrow schema in the
key-value metadata, with zones, dictionaries and durations) is not what engines read.

Engines use the Parquet type, from which Arrow's is derived: `parquet_type` returns it for each column. It is stored in
the metadata of the Arrow field, beside the field id, so two schemas are equal only if every engine reads them alike.

The files' schemas are merged into one table schema by name (rule R7).

Promotion is a closed table; anything else is a conflict, and a field in conflict is never used for pruning:

| files hold | the table's type | |
|---|---|---|
| integers, where one type holds all values of both | that type (signed before unsigned) | |
| no values (Parquet's null type) and T | T | |
| float and double | double | conflict: one engine reads 0.1, another 0.10000000149 (trap S19) |
| decimals of one scale | the wider precision | conflict: "anything to decimal" |
| timestamps of ms and us, and INT96 | us | conflict where some are instants and others wall-clock times |
| structs | struct of the fields of both, each by these rules | |
| anything else | that of the first file | conflict |

Names that differ only in case are one field in conflict, as are fields whose name and field id do not match in every
file. So is a VARIANT: its parts are not fields that an engine shows.

The table covers Arrow's types, which are the same for every engine, except for INT96: it may be an instant or a
wall-clock time. A field also has the Parquet types that its files hold, from which `pruner.expr.parquet_reading`
derives for each engine how it reads them, and whether it reads them all alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from pruner.errors import StorageError, cause, first_line
from pruner.expr.parquet_reading import INT96
from pruner.expr.types import is_instant, timestamp
from pruner.parquet_type import MAGIC, ParquetType, parse_parquet_type
from pruner.schema import Field
from pruner.tables.footers.thrift import (
    ParquetColumn,
    ThriftError,
    columns_of_footer,
    parquet_columns,
    read_schema,
    rewritten,
    schema_only,
)

if TYPE_CHECKING:
    from pruner.tables.listing.files import Lister

ENCRYPTED_MAGIC = b"PARE"
FOOTER_BYTES = 256 * 1024 * 1024
"""Largest footer that is read."""

_TRAILER = 8
_REMOTE_TAIL = 64 * 1024
"""Bytes read from the end of the first objects; of later ones, about the size of the longest footer so far."""
_LEAST_TAIL = 4 * 1024
_REMOTE_THREADS = 32


class BrokenFileError(ValueError):
    """A file that cannot be read as Parquet; the text is a clause such as 'is cut short'."""


class UnreadableFileError(BrokenFileError):
    """A file whose bytes the store did not return; it may do so the next time."""


class NotParquetError(BrokenFileError):
    """A file that does not end as Parquet files do."""


@dataclass(frozen=True, slots=True)
class _Known:
    prefix: bytes
    schema: pa.Schema


class SchemaReader:
    """Reads file schemas; equal schemas are returned as one object."""

    def __init__(self) -> None:
        self._known: list[_Known] = []
        self._distinct: dict[bytes, pa.Schema] = {}
        self._longest_footer = 0

    def read_all(self, lister: Lister, files: list[tuple[str, int]]) -> list[pa.Schema | BrokenFileError]:
        """Read the schema of each (path, size), in that order; remote files in many threads at once."""
        if lister.root.startswith("/"):
            return [self._try(lister, path, size) for path, size in files]

        def read_one(file: tuple[str, int]) -> pa.Schema | BrokenFileError:
            return self._try(lister, *file)

        with ThreadPoolExecutor(min(_REMOTE_THREADS, max(1, len(files)))) as threads:
            return list(threads.map(read_one, files))

    def intern(self, schema: pa.Schema) -> pa.Schema:
        """Return the shared object for all schemas equal to this one, field ids included."""
        return self._distinct.setdefault(schema.serialize().to_pybytes(), schema)

    def _try(self, lister: Lister, path: str, size: int) -> pa.Schema | BrokenFileError:
        try:
            footer_size, tail = _trailer(lister, path, size, self._tail_bytes())
            self._longest_footer = max(self._longest_footer, footer_size)
            return self._schema(lister, path, size, footer_size, tail)
        except BrokenFileError as error:
            return error
        except (StorageError, OSError) as error:
            return UnreadableFileError(f"cannot be read: {cause(error)}")

    def _tail_bytes(self) -> int:
        longest = self._longest_footer
        return min(_REMOTE_TAIL, max(_LEAST_TAIL, longest + longest // 4)) if longest else _REMOTE_TAIL

    def _schema(self, lister: Lister, path: str, size: int, footer_size: int, tail: bytes) -> pa.Schema:
        start = size - _TRAILER - footer_size
        have = tail[-_TRAILER - footer_size : -_TRAILER] if len(tail) >= _TRAILER + footer_size else b""
        known_schemas = self._known
        head = have
        if known_schemas and not have:
            longest = max(len(known.prefix) for known in known_schemas)
            head = lister.read(path, start, min(longest, footer_size))
        for known in known_schemas:
            if head.startswith(known.prefix):
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
        # The newest first: files of one age are adjacent in a listing.
        self._known = [_Known(footer[:end], schema), *self._known[:15]]
        return schema


def _trailer(lister: Lister, path: str, size: int, tail_bytes: int) -> tuple[int, bytes]:
    """Return the footer's size and the bytes at the end of the file that were read to find it.

    For an object these are `tail_bytes`, so that usually no second request is needed.
    """
    if size < 2 * len(MAGIC) + 4:
        raise NotParquetError(f"is too short for a Parquet file ({size} bytes)")
    wanted = _TRAILER if lister.root.startswith("/") else min(size, tail_bytes)
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
    """The schema of a footer whose fields are in an order that no known writer uses."""
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
    """The field as engines see it, with its Parquet type; the types inside lists and maps are one string."""
    plain = _plain_field(field)
    metadata = {**(plain.metadata or {}), _PARQUET_TYPE: column.text.encode("utf-8", "surrogateescape")}
    if (
        pa.types.is_struct(plain.type)
        and len(column.children) == plain.type.num_fields
        and not column.repeated
    ):
        metadata[_PARQUET_TYPE] = column.type.text.encode()
        children = zip(_storage_fields(field.type), column.children, strict=True)
        return pa.field(field.name, pa.struct([_file_field(*child) for child in children]), metadata=metadata)
    if not column.children and not column.repeated and column.type.arrow == pa.string():
        # Arrow reads ENUM as bytes; by the specification it is a string.
        return pa.field(field.name, pa.string(), metadata=metadata)
    return pa.field(field.name, plain.type, metadata=metadata)


def _storage_fields(type_: pa.DataType) -> list[pa.Field[Any]]:
    return (
        _storage_fields(type_.storage_type)
        if isinstance(type_, pa.BaseExtensionType)
        else struct_fields(type_)
    )


def parquet_type(field: pa.Field[Any]) -> ParquetType | None:
    """Return the Parquet type of a column or struct of a file schema; None for lists and maps, or where unknown."""
    text = (field.metadata or {}).get(_PARQUET_TYPE)
    return None if text is None else parse_parquet_type(text.decode("utf-8", "replace"))


_LEAF = re.compile(
    r"(?:^|: |repeated )"
    r"((?:BOOLEAN|INT32|INT64|INT96|FLOAT|DOUBLE|(?:FIXED_LEN_)?BYTE_ARRAY)(?:\(\d+\))?"
    r"(?: [\w-]+(?:\([^)]*\))?){2})(?=, |\}|$)"
)
"""A column with values in the text of a column (`ParquetColumn.text`)."""


def leaf_types(field: pa.Field[Any]) -> list[ParquetType]:
    """Return the Parquet types of the values of a column of a file schema, those in lists and maps included.

    Returns:
        One for each leaf of the Arrow type, in the order of the file; none where they are unknown.
    """
    types = _leaf_types(field)
    return types if len(types) == _number_of_leaves(field.type) else []


def _leaf_types(field: pa.Field[Any]) -> list[ParquetType]:
    if pa.types.is_struct(field.type):
        children = struct_fields(field.type)
        if all(_PARQUET_TYPE in (child.metadata or {}) for child in children):
            return [leaf for child in children for leaf in _leaf_types(child)]
    texts = _LEAF.findall((field.metadata or {}).get(_PARQUET_TYPE, b"").decode("utf-8", "replace"))
    types = [parse_parquet_type(text) for text in texts]
    return [] if None in types else cast("list[ParquetType]", types)


def _number_of_leaves(type_: pa.DataType) -> int:
    return sum(_number_of_leaves(inner.type) for inner in _inner(type_)) if pa.types.is_nested(type_) else 1


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema as engines see it: Arrow's variants of a type become one type, zones become UTC."""
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
"""The key of a field id in an Arrow field's metadata."""

_PARQUET_TYPE = b"pruner:parquet_type"


def _plain_field(field: pa.Field[Any]) -> pa.Field[Any]:
    id_ = (field.metadata or {}).get(FIELD_ID)
    return pa.field(field.name, plain_type(field.type), metadata=None if id_ is None else {FIELD_ID: id_})


def field_id(field: pa.Field[Any]) -> int | None:
    """Return the Parquet field id, or None where the file has none."""
    text = (field.metadata or {}).get(FIELD_ID)
    return None if text is None else int(text)


def has_field_ids(fields: Iterable[pa.Field[Any]]) -> bool:
    """Tell whether a file has any field id, at any depth."""
    return any(field_id(field) is not None or has_field_ids(_inner(field.type)) for field in fields)


def _inner(type_: Any) -> list[Any]:
    if isinstance(type_, pa.BaseExtensionType):
        return _inner(type_.storage_type)
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    return [type_.field(at) for at in range(type_.num_fields)]


def distinct(schemas: Iterable[pa.Schema]) -> list[pa.Schema]:
    """Return the distinct objects in the order of their first appearance."""
    return list({id(schema): schema for schema in schemas}.values())


_EXACT_INSTANTS = {pa.timestamp(unit, "UTC") for unit in ("ms", "us")}
_EXACT_MOMENTS = {*_EXACT_INSTANTS, pa.timestamp("ms"), pa.timestamp("us")}
_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_UNSIGNED = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())


def unify(schemas: Sequence[pa.Schema]) -> list[Field]:
    """Return the fields of a table whose files have these (distinct) schemas, parents before their children.

    The order is that of the first file, followed by fields that only later files have.
    """
    return list(_merge((), [list(cast("Iterable[pa.Field[Any]]", schema)) for schema in schemas]))


def promote(left: pa.DataType, right: pa.DataType) -> tuple[pa.DataType, str | None]:
    """Return the common type of two types that are not both structs, and the reason if it is a conflict."""
    types = pa.types
    if left.equals(right) or types.is_null(right):
        return left, None
    if types.is_null(left):
        return right, None
    text = f"files hold both {left} and {right}"
    if types.is_integer(left) and types.is_integer(right):
        wider = _wider_integer(left, right)
        return (wider, None) if wider is not None else (left, f"{text}, which no integer type holds")
    if {left, right} == {pa.float32(), pa.float64()}:
        return pa.float64(), f"{text}, which engines widen to different values"
    if types.is_decimal(left) and types.is_decimal(right) and left.scale == right.scale:
        return (left if left.precision >= right.precision else right), text
    return left, text


def _wider_integer(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if pa.types.is_signed_integer(left) == pa.types.is_signed_integer(right):
        return left if left.bit_width >= right.bit_width else right
    signed, unsigned = (left, right) if pa.types.is_signed_integer(left) else (right, left)
    bits = max(signed.bit_width, 2 * unsigned.bit_width)
    return next((type_ for type_ in _SIGNED if type_.bit_width >= bits), None)


def _merge(parent: tuple[str, ...], levels: list[list[pa.Field[Any]]]) -> Iterator[Field]:
    """Merge one level of nesting: `levels[i]` are the fields of the i-th schema at that level."""
    by_name: dict[str, list[list[pa.Field[Any]]]] = {}
    for position, level in enumerate(levels):
        for entry in level:
            types = by_name.setdefault(entry.name.lower(), [[] for _ in levels])
            types[position].append(entry)
    names_of_id = _names_of_ids(levels)
    for types in by_name.values():
        ids = {field_id(entry) for per_file in types for entry in per_file} - {None}
        shared = [sorted(names_of_id[id_]) for id_ in ids if id_ is not None and len(names_of_id[id_]) > 1]
        conflict = None
        if len(ids) > 1:
            conflict = f"files give it different field ids: {', '.join(map(str, sorted(filter(None, ids))))}"
        elif shared:
            conflict = f"files give its field id to different names: {', '.join(shared[0])}"
        yield from _merge_name(parent, types, next(iter(ids)) if len(ids) == 1 else None, conflict)


def _names_of_ids(levels: list[list[pa.Field[Any]]]) -> dict[int, set[str]]:
    names: dict[int, set[str]] = {}
    for entry in (entry for level in levels for entry in level):
        id_ = field_id(entry)
        if id_ is not None:
            names.setdefault(id_, set()).add(entry.name.lower())
    return names


def _merge_name(
    parent: tuple[str, ...], types: list[list[pa.Field[Any]]], id_: int | None, conflict: str | None
) -> Iterator[Field]:
    """Merge the fields of one name, whatever the case; `types[i]` are those of the i-th schema."""
    entries = [entry for per_file in types for entry in per_file]
    spellings = list(dict.fromkeys(entry.name for entry in entries))
    if any(len(per_file) > 1 for per_file in types):
        # A file has several: only the exact spelling can select one, and not every engine allows that.
        for spelling in spellings:
            some = next(entry for entry in entries if entry.name == spelling)
            yield from _alone(
                parent, some, "a file has several columns of this name, or differing only in case"
            )
        return
    if len(spellings) > 1:
        conflict = conflict or f"files spell its name differently: {', '.join(spellings)}"
    path = (*parent, spellings[0])
    if any(_is_variant(entry) for entry in entries):
        variant = next(entry for entry in entries if _is_variant(entry)).with_name(spellings[0])
        yield from _alone(parent, variant, "files hold it as VARIANT, whose value no index knows")
        return
    if all(pa.types.is_struct(entry.type) for entry in entries):
        yield from _merge_structs(path, entries, id_, conflict)
        return
    type_, problem = entries[0].type, None
    for entry in entries[1:]:
        type_, worse = promote(type_, entry.type)
        problem = problem or worse
    parquet = _parquet_types(entries)
    if problem is not None and (moments := _moments(parquet)) is not None:
        type_, problem = moments, None
    merged = Field(path, type_, id_, conflict=conflict or problem, parquet=parquet)
    yield from _alone(parent, pa.field(spellings[0], type_), merged.conflict, merged)


def _moments(parquet: frozenset[ParquetType] | None) -> pa.DataType | None:
    """The common type of timestamps that every engine reads without rounding; None for anything else.

    Spark writes any of these into one table, depending on `outputTimestampType`.
    """
    types = {type_.arrow for type_ in parquet or () if type_.physical != INT96}
    if (
        not types <= _EXACT_MOMENTS
        or len({is_instant(type_name) for type_name in types if type_name is not None}) != 1
    ):
        return None
    return timestamp("us", instant=types <= _EXACT_INSTANTS)


def _merge_structs(
    path: tuple[str, ...], entries: list[pa.Field[Any]], id_: int | None, conflict: str | None
) -> Iterator[Field]:
    levels = [struct_fields(entry.type) for entry in entries]
    below = list(_merge(path, levels))
    children = [pa.field(child.path[-1], child.type) for child in below if len(child.path) == len(path) + 1]
    yield Field(path, pa.struct(children), id_, conflict=conflict)
    for child in below:
        yield replace(child, conflict=child.conflict or conflict)


def _alone(
    parent: tuple[str, ...], entry: pa.Field[Any], conflict: str | None, field: Field | None = None
) -> Iterator[Field]:
    """One field unchanged, with its nested fields, all in the same conflict."""
    path = (*parent, entry.name)
    yield field or Field(
        path, entry.type, field_id(entry), conflict=conflict, parquet=_parquet_types([entry])
    )
    if pa.types.is_struct(entry.type):
        for child in struct_fields(entry.type):
            yield from _alone(path, child, conflict)


def _is_variant(entry: pa.Field[Any]) -> bool:
    data_type = parquet_type(entry)
    return data_type is not None and data_type.logical == "Variant"


def _parquet_types(entries: Sequence[pa.Field[Any]]) -> frozenset[ParquetType] | None:
    """The Parquet types of a field in its files; None where some are unknown, as for nested types."""
    types = {None if pa.types.is_nested(entry.type) else parquet_type(entry) for entry in entries}
    return None if None in types else frozenset(type_ for type_ in types if type_ is not None)
