"""Files with deleted rows, and columns that have other names in the files: what a Delta table's log says.

Deleted rows are removed by the file and the row's position in it, in an anti join with the scan, so that the scan stays
DuckDB's own. The file is identified by its number in the list that is read, `file_index`, unless DuckDB may skip files
of the list itself: then it renumbers the others. It skips files by values that it reads from paths (measured, 1.5.6 and
2.0; in the source, `MultiFileList` keeps the list unchanged unless `hive_partitioning` or `filename` is set). So if it
takes partition values from paths, files are identified by their names, which is slower.
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
"""Returns the name under which DuckDB finds the `DeletedRows` of some slices, given in the order in which their files
are read; True identifies files by their names, False by their numbers.
"""

SCAN, DELETED = "pruner_scan", "pruner_deleted"
FILE, ROW = "pruner_file", "pruner_row"


def anti_join(deleted: DeletedOf | None, ordinals: NDArray[np.intp], *, by_name: bool) -> str:
    """The text after a scan in FROM that removes its deleted rows; empty if there are none.

    Args:
        deleted: creates the source of the deleted rows, if there are any.
        ordinals: the slices whose files the scan reads, in their order.
        by_name: whether DuckDB may skip some of these files itself.
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
    """A column as files store it: under another name or a field id, or with fields of other names.

    `default` is the text of the value in files without the column, unless that is NULL.
    """

    name: str
    field_id: int | None
    type: str
    table_type: pa.DataType
    held_type: pa.DataType
    default: str | None = None

    @property
    def key(self) -> str:
        """The key of the column in the `schema` that DuckDB is given, which finds it in a file."""
        return quote_text(self.name) if self.field_id is None else str(self.field_id)

    def as_in_table(self, value: str, held: str | None) -> str:
        """The value with the names of the table; `held` is its type in a file, if it is known."""
        if self.table_type.equals(self.held_type):
            return value
        whole = value if held == self.type else f"({value})::{self.type}"
        return _renamed(whole, self.table_type, self.held_type, 0)


def stored_columns(fields: tuple[Field, ...], *, int96: bool = False) -> Mapping[str, StoredColumn]:
    """The columns that files store differently from the table, by their names in the table.

    With `int96` the files store instants as INT96, which DuckDB reads as local timestamps in UTC: cast from those, an
    instant would be wrong if the session has another time zone.
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
        return str(scalar.cast(pa.string()).as_py())  # Python has only microseconds
    value = scalar.as_py()
    if isinstance(value, bytes):
        return (
            str(UUID(bytes=value))
            if isinstance(type_, pa.UuidType)
            else "".join(f"\\x{byte:02X}" for byte in value)
        )
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def without_zones(type_: Any) -> Any:
    """The type with a timestamp without time zone instead of every instant."""
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
    # Not the name of a scan's column (`pruner_0`): DuckDB would read `pruner_0.key` as a field of that.
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
