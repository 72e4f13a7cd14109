"""Hudi's definitions of indexes: over which columns an index is, and by which function of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pruner.errors import FormatError, first_line
from pruner.storage.store import LargerError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pruner.storage.store import Store
    from pruner.tables.hudi.properties import HudiProperties

SECONDARY, EXPRESSION = "secondary_index_", "expr_index_"
"""What the partitions of indexes begin with that a statement made."""

_PATH = "hoodie.table.index.defs.path"
_USUAL_PATH = ".hoodie/.index_defs/index.json"
_MAX_BYTES = 1 << 22


class Definition(NamedTuple):
    """One index: its function is `identity` where it is over the column itself."""

    using: str
    function: str
    columns: tuple[str, ...]
    options: Mapping[str, str]


class _Stored(msgspec.Struct, rename="camel"):
    index_type: str = ""
    index_function: str = ""
    source_fields: tuple[str, ...] = ()
    index_options: dict[str, str] = {}


class _All(msgspec.Struct, rename="camel"):
    index_definitions: dict[str, _Stored] = {}


def read_definitions(store: Store, properties: HudiProperties) -> dict[str, Definition]:
    """Return the definitions of a table's indexes, by the names of their partitions.

    Args:
        store: the root of the table.
        properties: of the table; they say where the definitions are.

    Raises:
        FormatError: there are none, or they are damaged.
        StorageError: the store refuses.
    """
    path = properties.values.get(_PATH) or _USUAL_PATH
    if not path.startswith(".hoodie/") or ".." in path.split("/"):
        raise FormatError(f"the index definitions are in {path!r}, which is not read")
    try:
        found = msgspec.json.decode(store.get(path, _MAX_BYTES), type=_All)
    except (NotFoundError, LargerError) as error:
        raise FormatError(f"there are no definitions of indexes in {path}: {error}") from None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise FormatError(f"the definitions of indexes in {path} are damaged: {first_line(error)}") from None
    return {
        name: Definition(each.index_type, each.index_function, each.source_fields, each.index_options)
        for name, each in found.index_definitions.items()
    }
