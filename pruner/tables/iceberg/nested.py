"""Fields inside columns: readers that find them by name need the names of each file to be those of the table.

Columns are found by field ids. Fields of structs, which engines find by name there, may have had other names when a
file was written; what a file says of them is looked at before it is read.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from pruner.errors import StorageError, TableError
from pruner.storage.files import open_for_arrow

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pruner.tables.iceberg.metadata import StructType

_FIELD_ID: Final = b"PARQUET:field_id"
_MOST_KEPT: Final = 1 << 17


class NestedNames:
    """The names of the fields inside the columns of a table: see `pruner.tables.snapshot.FieldNames`."""

    def __init__(
        self, schema: StructType, options: Mapping[str, str], in_manifest: Mapping[str, frozenset[int]]
    ) -> None:
        """`schema` is as the metadata has it; `in_manifest` has the field ids of the columns of each file, by its URI,
        whose values stand in the manifest as well: a file may lack them.
        """
        self._options = options
        self._in_manifest = in_manifest
        self._types = {each["name"]: (int(each["id"]), each["type"]) for each in schema.fields}
        known = frozenset[int]().union(*set(in_manifest.values()))
        self.columns = frozenset(
            name for name, (id_, type_) in self._types.items() if isinstance(type_, dict) or id_ in known
        )
        self._known: dict[str, Mapping[int, Any]] = {}
        self._lock = Lock()

    def require_same(self, files: Sequence[tuple[str, int | None]], columns: Collection[str]) -> None:
        """Read the footers of files that are to be read with some columns: see `FieldNames`."""
        wanted = [(name, *self._types[name]) for name in columns if name in self.columns]
        for uri, size in files if wanted else ():
            held = self._held(uri, size)
            for name, id_, type_ in wanted:
                if id_ not in held and id_ in self._in_manifest.get(uri, ()):
                    raise TableError(
                        f"{uri} lacks column {name!r}, whose value stands in the manifest alone: leave the column "
                        "out, or rewrite the data files"
                    )
                differing = _differing(held[id_], type_) if id_ in held else None
                if differing is not None:
                    raise TableError(
                        f"{uri} has a field {differing[0]!r} inside a column, which is {differing[1]!r} in the table "
                        "now: leave the column out, or rewrite the data files"
                    )

    def _held(self, uri: str, size: int | None) -> Mapping[int, Any]:
        """The Arrow types of a file's columns by field ids."""
        with self._lock:
            if uri in self._known:
                return self._known[uri]
        try:
            source: Any = open_for_arrow(uri, size, self._options)
            schema: Any = cast("Any", pq).read_schema(source)
        except (OSError, StorageError, pa.ArrowException) as error:
            raise TableError(f"cannot read {uri}: {error}") from None
        found = {id_: field.type for field in schema if (id_ := _id_of(field)) is not None}
        with self._lock:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[uri] = found
        return found


def _id_of(field: Any) -> int | None:
    metadata: Mapping[bytes, bytes] = field.metadata or {}
    text = metadata.get(_FIELD_ID)
    return None if text is None else int(text)


def _differing(held: Any, type_: Any) -> tuple[str, str] | None:
    """The names, in a file and in the table, of a field that the two call otherwise; None where there is none."""
    if not isinstance(type_, dict):
        return None
    described = cast("dict[str, Any]", type_)
    if pa.types.is_struct(held) and described["type"] == "struct":
        return _differing_fields(held, described["fields"])
    if pa.types.is_map(held) and described["type"] == "map":
        return _differing(held.key_type, described["key"]) or _differing(held.item_type, described["value"])
    if (pa.types.is_list(held) or pa.types.is_large_list(held)) and described["type"] == "list":
        return _differing(held.value_type, described["element"])
    return None


def _differing_fields(held: Any, fields: list[dict[str, Any]]) -> tuple[str, str] | None:
    by_id = {int(each["id"]): each for each in fields}
    by_name = {each["name"]: each for each in fields}
    for position in range(held.num_fields):
        inner = held.field(position)
        same = by_id.get(_id_of(inner) or 0)
        if same is not None and same["name"] != inner.name:
            return inner.name, same["name"]
        other = by_name.get(inner.name)
        if other is not None and other is not same:
            return inner.name, f"another field {inner.name}"
        deeper = None if same is None else _differing(inner.type, same["type"])
        if deeper is not None:
            return deeper
    return None
