"""Files whose field ids contradict their names, in tables that map columns by id.

Statistics and indexes go by physical names, Spark by ids. Writers of Delta give a file both, and both tell of the same
column; of a file where they do not, nobody would notice that engines read it differently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from pruner.tables.footers.file_schemas import field_id, struct_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

MappedField = tuple[str, str, int, Any]
"""A field of a struct: its name, its name and id in the files, and what is inside of it: `MappedType`."""

MappedType = Any
"""The fields of a struct; the types inside of an array (one) or a map (two) as a list; None for others."""


def contradicted(fields: Sequence[MappedField], held: pa.Schema, columns: Collection[str]) -> str | None:
    """Tell which of some columns a file has under a name and an id of which only one is the table's.

    Args:
        fields: all columns of the table that files have.
        held: the schema of the file.
        columns: those that may be read.
    """
    return _contradicted([field for field in fields if field[0] in columns], list[Any](held))


def _contradicted(fields: Iterable[MappedField], held: Iterable[Any]) -> str | None:
    by_name = {field.name: field for field in held}
    by_id = {field_id(field): field for field in held}
    for name, stored, id_, inner in fields:
        of_name, of_id = by_name.get(stored), by_id.get(id_)
        if of_name is not of_id:
            return name
        if of_name is not None:
            inside = _inside(inner, of_name.type)
            if inside is not None:
                return f"{name}.{inside}"
    return None


def _inside(wanted: MappedType, held: Any) -> str | None:
    if isinstance(wanted, tuple):
        fields = cast("tuple[MappedField, ...]", wanted)
        return _contradicted(fields, struct_fields(held)) if pa.types.is_struct(held) else None
    if wanted is None:
        return None
    parts: list[tuple[str, Any]] = []
    if pa.types.is_map(held):
        parts = [("key", held.key_type), ("value", held.item_type)]
    elif pa.types.is_list(held) or pa.types.is_large_list(held):
        parts = [("element", held.value_type)]
    for (place, type_), inner in zip(parts, wanted, strict=False):
        inside = _inside(inner, type_)
        if inside is not None:
            return f"{place}.{inside}"
    return None
