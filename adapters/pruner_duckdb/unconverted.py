"""Tables whose schema hudi-rs does not convert: which of their slices it merges right all the same.

Its reader of file groups also runs without the table. It then takes the schema of the base file for that of the table,
and each log block for a committed one. Both hold where this module finds nothing to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

if TYPE_CHECKING:
    from pruner.schema import Field

_NAMED_BY_INSTANT = 8
"""The table version from which a log file holds blocks of the one instant that is in its name, and never grows."""


def has_wall_clock(type_: pa.DataType) -> bool:
    """Tell whether a column of a Hudi table holds timestamps without a zone, which hudi-rs cannot convert."""
    kind: Any = type_
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return any(has_wall_clock(kind.field(position).type) for position in range(kind.num_fields))


def why_not_alone(version: str, has_base: bool) -> str | None:
    """Return why the reader cannot merge a slice without the table, None where it can; the text is a clause."""
    if not version.isdecimal() or int(version) < _NAMED_BY_INSTANT:
        return f"hudi-rs does not convert its schema, and needs to in table version {version}"
    return None if has_base else "hudi-rs does not convert its schema, and a file group has no base file"


def why_not_alike(fields: Iterable[Field], base: pa.Schema) -> str | None:
    """Return how a base file differs from the table's schema, None where it does not; the text is a clause."""
    columns: Mapping[str, pa.DataType] = {
        field.name: field.type for field in cast("list[pa.Field[Any]]", list(base))
    }
    for field in fields:
        found = columns.get(field.name) if field.in_file else field.type
        if found is None or not _alike(found, field.type):
            kind = "no such column" if found is None else str(found)
            return f"column {field.name!r} is {field.type} in the table and {kind} in an older base file"
    return None


def _alike(one: Any, other: Any) -> bool:
    """Tell whether two types are the same but for the names of what stands in lists and maps."""
    types = pa.types
    if types.is_list(one) and types.is_list(other):
        return _alike(one.value_type, other.value_type)
    if types.is_map(one) and types.is_map(other):
        return _alike(one.key_type, other.key_type) and _alike(one.item_type, other.item_type)
    if types.is_struct(one) and types.is_struct(other):
        names, others = _fields(one), _fields(other)
        return list(names) == list(others) and all(_alike(names[name], others[name]) for name in names)
    return bool(one.equals(other))


def _fields(struct: Any) -> dict[str, Any]:
    return {field.name: field.type for field in struct}
