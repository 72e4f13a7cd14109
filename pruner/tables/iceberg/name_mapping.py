"""Columns of files that have no field ids: the table's name mapping says which they are, else their position does.

Source: the Iceberg table specification, "Column Projection" and "Name Mapping Serialization". A file with one field id
is read by ids alone. What is done where a table has no mapping is not specified: Iceberg's Java library counts the
columns of the file from 1, and reads NULL of nested ones (measured with Spark, Iceberg 1.11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from pruner.errors import TableError
from pruner.tables.footers.file_schemas import FIELD_ID, struct_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_DEEPEST: Final = 64
_MOST_PATHS: Final = 100_000
"""Names of columns and fields, those of a field once for each name of what it is in."""


class MappedField(msgspec.Struct, rename="kebab", frozen=True):
    """A field of a mapping: its names in files, and its id; without one, what is called so is no column."""

    names: list[str]
    field_id: int | None = None
    fields: list[MappedField] = []


class NameMapping:
    """Which columns, and fields in them, the names in files without field ids mean."""

    def __init__(self, fields: Sequence[MappedField]) -> None:
        self._fields = _by_name(fields, 0)

    def paths(self) -> Mapping[int, tuple[tuple[str, ...], ...]]:
        """The paths by which files may hold each column, and each field in structs, by field ids."""
        found: dict[int, list[tuple[str, ...]]] = {}
        open_: list[tuple[tuple[str, ...], Mapping[str, MappedField]]] = [((), self._fields)]
        count = 0
        while open_:
            above, fields = open_.pop()
            count += len(fields)
            if count > _MOST_PATHS:
                raise ValueError(f"it has more than {_MOST_PATHS} names")
            for name, each in fields.items():
                if each.field_id is not None:
                    found.setdefault(each.field_id, []).append((*above, name))
                open_.append(((*above, name), _by_name(each.fields, len(above) + 1)))
        return {id_: tuple(sorted(paths)) for id_, paths in found.items()}

    def with_ids(self, fields: Iterable[pa.Field[Any]]) -> list[pa.Field[Any]]:
        """The columns of a file as if it had the field ids that the mapping gives them."""
        return [_mapped(each, self._fields.get(each.name)) for each in fields]


def read_name_mapping(text: str, place: str) -> NameMapping:
    """Return what the property of a table says.

    Raises:
        TableError: it is no mapping, so that no reader of the table could use it.
    """
    try:
        found = NameMapping(msgspec.json.decode(text, type=list[MappedField]))
        found.paths()
    except (msgspec.MsgspecError, ValueError) as error:
        raise TableError(
            f"{place} has a name mapping (schema.name-mapping.default) that is not understood ({error}): correct the "
            "property"
        ) from None
    return found


def _by_name(fields: Sequence[MappedField], depth: int) -> dict[str, MappedField]:
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
    found: dict[str, MappedField] = {}
    for each in fields:
        for name in dict.fromkeys(each.names):
            if name in found:
                raise ValueError(f"two of its fields are called {name!r}")
            found[name] = each
    return found


def numbered(fields: Iterable[pa.Field[Any]], mapping: NameMapping | None) -> list[pa.Field[Any]]:
    """The columns of a file without field ids as if it had those by which readers find them."""
    if mapping is not None:
        return mapping.with_ids(fields)
    return [_with_id(each, each.type, at) for at, each in enumerate(fields, 1)]


def _mapped(each: pa.Field[Any], known: MappedField | None) -> pa.Field[Any]:
    inner = {} if known is None else _by_name(known.fields, 0)
    type_: Any = each.type

    def below(field: Any, name: str) -> Any:
        return _mapped(field, inner.get(name))

    if pa.types.is_struct(type_):
        type_ = pa.struct([below(field, field.name) for field in struct_fields(type_)])
    elif pa.types.is_map(type_):
        type_ = pa.map_(below(type_.key_field, "key"), below(type_.item_field, "value"))
    elif pa.types.is_list(type_) or pa.types.is_large_list(type_):
        type_ = pa.list_(below(type_.value_field, "element"))
    return _with_id(each, type_, None if known is None else known.field_id)


def _with_id(each: pa.Field[Any], type_: Any, id_: int | None) -> pa.Field[Any]:
    metadata = dict(each.metadata or {})
    if id_ is not None:
        metadata[FIELD_ID] = str(id_).encode()
    return pa.field(each.name, type_, metadata=metadata)
