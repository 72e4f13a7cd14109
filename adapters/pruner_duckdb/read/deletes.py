"""Files of which some rows are deleted, and columns that the files call otherwise: what a Delta table's log says.

Deleted rows are taken out by the file and the row's position in it, in an anti join beside the scan, so that the scan
stays DuckDB's own. Which file it is says its number in the list that is read, `file_index`, where DuckDB leaves no file
of the list out by itself: there it numbers the others anew. It does so by what it reads of paths (measured, 1.5.6 and
2.0; in the source, `MultiFileList` keeps the list as it is unless `hive_partitioning` or `filename` is set). So files
go by their names where it takes partition values from paths, which is slower.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from pruner.schema import id_of_path
from pruner_duckdb.types import quote, quote_text, sql_type

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pruner.schema import Field

DeletedOf = Callable[["NDArray[np.intp]", bool], str]
"""The name under which DuckDB finds the `DeletedRows` of some slices, in the order in which their files are read; True
for files by their names, False for files by their numbers.
"""

SCAN, DELETED = "pruner_scan", "pruner_deleted"
FILE, ROW = "pruner_file", "pruner_row"


def anti_join(deleted: DeletedOf | None, ordinals: NDArray[np.intp], *, by_name: bool) -> str:
    """What stands behind a scan in FROM so that its deleted rows are left out; nothing where there are none.

    Args:
        deleted: makes the source of the deleted rows, where there are any.
        ordinals: the slices whose files the scan reads, in their order.
        by_name: whether DuckDB may leave out some of these files by itself.
    """
    if deleted is None:
        return ""
    file = "filename" if by_name else "file_index"
    return (
        f" AS {SCAN} ANTI JOIN {deleted(ordinals, by_name)} AS {DELETED}"
        f" ON {SCAN}.file_row_number = {DELETED}.{ROW} AND {SCAN}.{file} = {DELETED}.{FILE}"
    )


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column as files have it: under another name or a field id, or with fields of other names.

    `default` is the text of what files without it stand for, where that is not NULL.
    """

    name: str
    field_id: int | None
    type: str
    table_type: pa.DataType
    held_type: pa.DataType
    default: str | None = None

    @property
    def key(self) -> str:
        """By what a schema that DuckDB is given finds the column in a file."""
        return quote_text(self.name) if self.field_id is None else str(self.field_id)

    def as_in_table(self, value: str, held: str | None) -> str:
        """The value by the names of the table; `held` is the type that a file has, where it is known."""
        if self.table_type.equals(self.held_type):
            return value
        whole = value if held == self.type else f"({value})::{self.type}"
        return _renamed(whole, self.table_type, self.held_type, 0)


def stored_columns(fields: tuple[Field, ...], *, int96: bool = False) -> Mapping[str, StoredColumn]:
    """The columns that files have otherwise than the table, by their names in the table.

    With `int96` they have instants as INT96, of which DuckDB makes a wall clock of UTC: cast from that, an instant
    would be another one wherever the session is in another zone.
    """
    stored: dict[str, StoredColumn] = {}
    for field in fields:
        held = field.stored_type or field.type
        held = without_zones(held) if int96 else held
        if field.in_file and (field.stored is not None or not held.equals(field.type)):
            by_id = id_of_path(field.recorded)
            name = field.recorded[0] if by_id is None else field.path[0]
            default = None if field.default is None else text_of(field.default)
            stored[field.path[0]] = StoredColumn(name, by_id, sql_type(held) or "", field.type, held, default)
    return stored


def text_of(scalar: Any) -> str:
    """A value as a text that DuckDB casts to it."""
    type_ = scalar.type
    if pa.types.is_timestamp(type_) and type_.unit == "ns":
        return str(scalar.cast(pa.string()).as_py())  # Python has microseconds
    value = scalar.as_py()
    if isinstance(value, bytes):
        return (
            str(UUID(bytes=value))
            if isinstance(type_, pa.UuidType)
            else "".join(f"\\x{byte:02X}" for byte in value)
        )
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def without_zones(type_: Any) -> Any:
    """The type with a wall clock in place of every instant."""
    types = pa.types
    if types.is_timestamp(type_):
        return pa.timestamp(type_.unit)
    if types.is_struct(type_):
        return pa.struct([pa.field(child.name, without_zones(child.type)) for child in list[Any](type_)])
    if types.is_map(type_):
        return pa.map_(without_zones(type_.key_type), without_zones(type_.item_type))
    return pa.list_(without_zones(type_.value_type)) if types.is_list(type_) else type_


def _fields(struct: Any) -> list[Any]:
    return list(struct)


def _renamed(value: str, wanted: Any, held: Any, depth: int) -> str:
    """An expression that gives fields of structs the names of the table; both types have the same shape."""
    if wanted.equals(held):
        return value
    types = pa.types
    if types.is_timestamp(wanted):
        return f"system.main.timezone('UTC', {value})"
    # Not the name of a scan's column (`pruner_0`): DuckDB would take `pruner_0.key` for a field of that.
    each = f"pruner_item_{depth}"
    if types.is_struct(wanted):
        pairs = zip(_fields(wanted), _fields(held), strict=True)
        parts = (
            f"{quote(one.name)} := {_renamed(f'({value}).{quote(other.name)}', one.type, other.type, depth)}"
            for one, other in pairs
        )
        return f"CASE WHEN {value} IS NOT NULL THEN system.main.struct_pack({', '.join(parts)}) END"
    if types.is_map(wanted):
        key = _renamed(f"{each}.key", wanted.key_type, held.key_type, depth + 1)
        item = _renamed(f"{each}.value", wanted.item_type, held.item_type, depth + 1)
        entries = f"system.main.map_entries({value})"
        made = f"system.main.list_transform({entries}, lambda {each}: {{'key': {key}, 'value': {item}}})"
        return f"CASE WHEN {value} IS NOT NULL THEN system.main.map_from_entries({made}) END"
    inner = _renamed(each, wanted.value_type, held.value_type, depth + 1)
    return f"system.main.list_transform({value}, lambda {each}: {inner})"
