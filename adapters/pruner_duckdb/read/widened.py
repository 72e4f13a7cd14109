"""The schemas of a Hudi table's base files, from their footers: which of them one native scan can read, and which have
`float` where the table has `double`.

Hudi reads a widened 0.1 as 0.1, converting it through text; DuckDB reads 0.10000000149011612 (trap S19). Such files are
read through hudi-rs, which follows Hudi.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pruner.arrow import positions
from pruner.errors import StorageError, TableError, cause
from pruner.expr.types import is_instant
from pruner.storage.opening import open_for_arrow
from pruner.tables.footers.file_schemas import BrokenFileError, SchemaReader, struct_fields
from pruner.tables.listing.files import open_lister
from pruner_duckdb.read.native import Describe, FileColumns, FileKinds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.schema import Field
    from pruner.tables.snapshot import Contradicted, Snapshot

_KEPT_FILES = 1 << 17


class FileTypes:
    """The schemas of the base files of one table, each footer read once."""

    def __init__(self, root: str, storage_options: Mapping[str, str]) -> None:
        self._prefix = root.rstrip("/") + "/"
        self._options = dict(storage_options)
        self._lister = open_lister(root, storage_options)
        self._reader = SchemaReader()
        self._schemas: dict[str, pa.Schema] = {}
        self._columns: dict[int, tuple[pa.Schema, FileColumns | None]] = {}
        self._lock = Lock()

    def widened(
        self, snapshot: Snapshot, ordinals: NDArray[np.intp], may_read: Callable[[str], bool]
    ) -> NDArray[np.bool_]:
        """Tell for each slice whether a column that may be read holds floats where the table has doubles.

        Args:
            snapshot: the snapshot.
            ordinals: slices that have a base file.
            may_read: whether a column may be read.
        """
        doubles = [
            field
            for field in snapshot.schema.columns
            if _has(field.type, pa.types.is_float64) and may_read(field.name)
        ]
        if not doubles or not len(ordinals):
            return np.zeros(len(ordinals), dtype=bool)
        schemas = self._of(snapshot, ordinals)
        verdicts = {id(schema): _widens(doubles, schema) for schema in schemas if schema is not None}
        return np.array([schema is not None and verdicts[id(schema)] for schema in schemas], dtype=bool)

    def of_int96(
        self, snapshot: Snapshot, ordinals: NDArray[np.intp], may_read: Callable[[str], bool]
    ) -> NDArray[np.bool_]:
        """Tell for each slice whether a column that may be read holds instants as INT96.

        Args:
            snapshot: the snapshot.
            ordinals: slices that have a base file.
            may_read: whether a column may be read.
        """
        instants = [
            field
            for field in snapshot.schema.columns
            if field.in_file and _has(field.type, is_instant) and may_read(field.name)
        ]
        if not instants or not len(ordinals):
            return np.zeros(len(ordinals), dtype=bool)
        schemas = self._of(snapshot, ordinals)
        verdicts = {id(schema): _has_int96(instants, schema) for schema in schemas if schema is not None}
        return np.array([schema is not None and verdicts[id(schema)] for schema in schemas], dtype=bool)

    def require_ids(
        self,
        contradicted: Contradicted,
        snapshot: Snapshot,
        ordinals: NDArray[np.intp],
        columns: Collection[str],
    ) -> None:
        """Make sure that field ids and names in the base files identify the same columns, since some engines use ids.

        Args:
            contradicted: finds a column for which they do not.
            snapshot: the snapshot.
            ordinals: slices that have a base file.
            columns: those that may be read.

        Raises:
            TableError: they do not.
        """
        verdicts: dict[int, str | None] = {}
        for ordinal, schema in zip(ordinals.tolist(), self._of(snapshot, ordinals), strict=True):
            if schema is None:
                column = contradicted(self._alone(snapshot, ordinal), columns)
            else:
                if id(schema) not in verdicts:
                    verdicts[id(schema)] = contradicted(schema, columns)
                column = verdicts[id(schema)]
            if column is not None:
                raise TableError(
                    f"{snapshot.value('base_file', ordinal)} has another column {column!r} by its field ids than by "
                    "its names, so that engines read it differently: leave the column out, or rewrite the data file"
                )

    def kinds(self, snapshot: Snapshot, ordinals: NDArray[np.intp], describe: Describe) -> FileKinds:
        """Return what is known about some base files, for as many as can be read.

        Args:
            snapshot: the snapshot.
            ordinals: slices that have a base file.
            describe: returns what DuckDB reads from a file; called once for each schema.
        """
        schemas = self._of(snapshot, ordinals)
        places: dict[int, int] = {}
        columns: list[FileColumns | None] = []
        for ordinal, schema in zip(ordinals.tolist(), schemas, strict=True):
            if schema is not None and id(schema) not in places:
                places[id(schema)] = len(columns)
                columns.append(self._columns_of(schema, snapshot, ordinal, describe))
        numbers = np.full(len(snapshot), -1, dtype=np.int32)
        numbers[ordinals] = [places.get(id(schema), -1) for schema in schemas]
        return FileKinds(tuple(columns), numbers)

    def _columns_of(
        self, schema: pa.Schema, snapshot: Snapshot, ordinal: int, describe: Describe
    ) -> FileColumns | None:
        known = self._columns.get(id(schema))
        if known is None:
            uri: str = snapshot.value("base_file", ordinal)
            # Kept together with its schema, whose id could be reused otherwise.
            known = self._columns[id(schema)] = schema, describe(uri, schema)
        return known[1]

    def _of(self, snapshot: Snapshot, ordinals: NDArray[np.intp]) -> list[pa.Schema | None]:
        """The schema of each base file; None for files that cannot be read."""
        chosen = snapshot.rows(positions(ordinals), ("base_file", "base_size"))
        uris: list[Any] = chosen.column("base_file").to_pylist()
        sizes: list[Any] = chosen.column("base_size").to_pylist()
        schemas = self._read(dict(zip(uris, sizes, strict=True)))
        return [schemas.get(uri) for uri in uris]

    def _alone(self, snapshot: Snapshot, ordinal: int) -> pa.Schema:
        """The schema of a file whose footer is not where the size in the log says, or that is in another store."""
        uri: str = snapshot.value("base_file", ordinal)
        try:
            return pq.ParquetFile(open_for_arrow(uri, None, self._options)).schema_arrow
        except (OSError, StorageError, pa.ArrowException) as error:
            raise TableError(f"cannot read {uri}: {cause(error)}") from None

    def _read(self, files: Mapping[str, int]) -> dict[str, pa.Schema]:
        """Schemas by URI; files that cannot be read are missing, and DuckDB will report the same file."""
        with self._lock:
            missing = [uri for uri in files if uri not in self._schemas]
            if len(self._schemas) + len(missing) > _KEPT_FILES:
                self._schemas.clear()
                self._columns.clear()
                missing = list(files)
            wanted = [(uri.removeprefix(self._prefix), files[uri]) for uri in missing]
            read = self._reader.read_all(self._lister, wanted)
            self._schemas.update(
                (uri, schema)
                for uri, schema in zip(missing, read, strict=True)
                if not isinstance(schema, BrokenFileError)
            )
            return {uri: self._schemas[uri] for uri in files if uri in self._schemas}


def _has_int96(instants: list[Field], file: Any) -> bool:
    return any(
        field.recorded[0] in file.names and _has(file.field(field.recorded[0]).type, _is_of_int96)
        for field in instants
    )


def _is_of_int96(data_type: Any) -> bool:
    """Tell whether a type is the one that Arrow gives INT96, and nothing else that Delta's writers write."""
    return pa.types.is_timestamp(data_type) and data_type.tz is None and data_type.unit == "ns"


def _widens(doubles: list[Field], file: Any) -> bool:
    return any(
        field.path[0] in file.names and _was_float(field.type, file.field(field.path[0]).type)
        for field in doubles
    )


def has_floats(data_type: pa.DataType) -> bool:
    """Tell whether a type holds floating-point numbers, nested ones included."""
    return _has(data_type, pa.types.is_floating)


def _has(data_type: pa.DataType, is_it: Callable[[pa.DataType], bool]) -> bool:
    return is_it(data_type) or any(_has(inner, is_it) for inner in _inner(data_type).values())


def _was_float(table: pa.DataType, file: pa.DataType) -> bool:
    if pa.types.is_float64(table):
        return pa.types.is_float32(file)
    theirs = _inner(file)
    return any(name in theirs and _was_float(type_, theirs[name]) for name, type_ in _inner(table).items())


def _inner(data_type: pa.DataType) -> dict[str, pa.DataType]:
    """The types inside a nested type, by name."""
    any_type: Any = data_type
    if pa.types.is_struct(data_type):
        return {field.name: field.type for field in struct_fields(data_type)}
    if pa.types.is_map(data_type):
        return {"key": any_type.key_type, "value": any_type.item_type}
    if (
        pa.types.is_list(data_type)
        or pa.types.is_large_list(data_type)
        or pa.types.is_fixed_size_list(data_type)
    ):
        return {"element": any_type.value_type}
    return {}
