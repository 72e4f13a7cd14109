"""What DuckDB reads from a Parquet file: the names and types that it shows, not those that Arrow shows.

Two files are read by one native scan only if DuckDB reads them alike (rule R11), and only DuckDB can tell: UUID and
FIXED_LEN_BYTE_ARRAY(16) are one type in Arrow, as are ENUM and BYTE_ARRAY. DuckDB is asked once for every distinct
schema. Files in an object store are the exception: DuckDB can read them only through the user's session, so their types
follow from the Parquet types that the listing has read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import duckdb
import numpy as np

from pruner.expr.parquet_reading import type_read
from pruner.expr.semantics import Semantics
from pruner.expr.types import is_instant, unit_of
from pruner.tables.footers.file_schemas import leaf_types
from pruner_duckdb.sql.engine_faults import HAS_INSTANTS_OF_NANOSECONDS
from pruner_duckdb.types import file_name, is_nested, is_remote, nested_type, quote, sql_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from pruner.parquet_type import ParquetType
    from pruner.tables.snapshot import FileSchemas, Snapshot

_UPPER_TO_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}

_KEPT_SCHEMAS = 1 << 12

_TRIES = 3
"""Number of files of one schema that are tried: one may have been removed since the listing."""


def folded(name: str) -> str:
    """Return a name in the form in which DuckDB compares it: only ASCII letters are case-insensitive."""
    return name.translate(_UPPER_TO_LOWER)


@dataclass(frozen=True)
class FileColumns:
    """The columns that DuckDB shows of every file of one schema.

    The type is None if it is unknown. `renamed` means that DuckDB shows other names than the file has, because one
    occurs twice in it. With `stored` the columns have the names of the table, and `stored` maps those to the names in
    the files.
    """

    columns: tuple[tuple[str, str | None], ...]
    renamed: bool = False
    stored: Mapping[str, str] = field(default_factory=dict[str, str])

    def by_table(self, stored: Mapping[str, str]) -> FileColumns:
        """The columns by the names of the table, which are the keys of `stored`; others do not belong to the table."""
        held = dict(self.columns)
        renamed = tuple((name, held[other]) for name, other in stored.items() if other in held)
        return FileColumns(renamed, self.renamed, stored)

    @cached_property
    def by_name(self) -> Mapping[str, tuple[str, str | None]]:
        """Name and type of each column by the folded name."""
        return {folded(name): (name, data_type) for name, data_type in self.columns}


@dataclass(frozen=True)
class FileKinds:
    """What is known about the files of a snapshot: `ordinals[i]` is the position of slice i's columns in `columns`, -1
    if they are unknown.
    """

    columns: tuple[FileColumns | None, ...]
    ordinals: NDArray[np.int32]


Describe = Callable[[str, "pa.Schema"], "FileColumns | None"]
"""Returns what DuckDB reads from a file with this schema; None if it cannot read it."""


class NativeColumns:
    """Asks DuckDB for the columns of files, once for each schema. Threads may share it."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[pa.Schema, FileColumns]] = {}

    def of(self, snapshot: Snapshot, run: duckdb.DuckDBPyConnection) -> tuple[FileColumns | None, ...]:
        """Return the columns for each of the snapshot's distinct schemas; None for those that are unknown.

        Args:
            snapshot: the snapshot.
            run: a connection that can read local files.
        """
        schemas = snapshot.file_schemas
        if schemas is None:
            return ()
        if len(self._known) + len(schemas.distinct) > _KEPT_SCHEMAS:
            self._known = {}
        held_columns: list[FileColumns | None] = []
        for number, schema in enumerate(schemas.distinct):
            known = self._known.get(id(schema))
            columns = known[1] if known is not None else _one_described(snapshot, schemas, number, run)
            if columns is not None:
                # Kept together with its schema, whose id could be reused otherwise.
                self._known[id(schema)] = schema, columns
            held_columns.append(columns)
        return tuple(held_columns)


def _one_described(
    snapshot: Snapshot, schemas: FileSchemas, number: int, run: duckdb.DuckDBPyConnection
) -> FileColumns | None:
    files: Any = snapshot.columns.column("base_file")
    for ordinal in np.flatnonzero(schemas.ordinals == number)[:_TRIES].tolist():
        columns = described(run, files[ordinal].as_py(), schemas.distinct[number])
        if columns is not None:
            return columns
    return None


def described(run: duckdb.DuckDBPyConnection, uri: str, schema: pa.Schema) -> FileColumns | None:
    """Ask DuckDB for the columns of a file; None if it cannot read it.

    Args:
        run: a connection that can read local files.
        uri: the file; for one in an object store, DuckDB is not asked.
        schema: the file's schema, as the listing has read it.
    """
    if is_remote(uri):
        return unasked(run, schema)
    try:
        rows = run.execute(
            "DESCRIBE FROM read_parquet(?, hive_partitioning = false, binary_as_string = false)",
            [[file_name(uri)]],
        ).fetchall()
    except duckdb.Error:
        return None
    return _shown([(str(row[0]), str(row[1])) for row in rows], schema)


def _shown(columns: Sequence[tuple[str, str | None]], schema: pa.Schema) -> FileColumns:
    return FileColumns(tuple(columns), renamed=[name for name, _ in columns] != schema.names)


def unasked(run: duckdb.DuckDBPyConnection, schema: pa.Schema) -> FileColumns:
    """Return the columns of a file that DuckDB is not asked to read, as DuckDB names them and spells their types.

    Args:
        run: any connection.
        schema: the file's schema, as the listing has read it. If it does not record the Parquet type of a column, the
            type follows from the Arrow type; it is None if DuckDB has none.
    """
    fields: list[Any] = list(schema)
    types = [_type_read(field.type, iter(leaf_types(field))) for field in fields]
    names = [field.name or f"C{position}" for position, field in enumerate(fields)]
    shown = ", ".join(
        f"{_null(type_ or _NULL)} AS {quote(name)}" for name, type_ in zip(names, types, strict=True)
    )
    try:
        # A query renames duplicate columns in the same way as those of a file.
        rows = run.execute(f"DESCRIBE FROM (SELECT {shown})").fetchall()
    except duckdb.Error:
        return _shown([(name, None) for name in names], schema)
    given = zip(rows, types, strict=True)
    return _shown([(str(row[0]), None if type_ is None else str(row[1])) for row, type_ in given], schema)


SEMANTICS = Semantics(engine="duckdb", version=duckdb.__version__)
"""The semantics of this DuckDB, whatever the session's settings: used only for types."""

_NULL = quote("NULL")
"""The type of a column that has only NULLs, and no other type."""

_BY_THEIR_NAMES = frozenset({"JSON", "INTERVAL"})
"""Converted types that are types of DuckDB, but not of Arrow."""


def _type_read(data_type: pa.DataType, leaves: Iterator[ParquetType]) -> str | None:
    """The type as which DuckDB reads a column; `leaves` yields its Parquet types in the order of the file."""
    if is_nested(data_type):
        return nested_type(data_type, lambda inner: _type_read(inner, leaves))
    parquet = next(leaves, None)
    if parquet is None:
        return sql_type(data_type)
    if parquet.converted in _BY_THEIR_NAMES:
        return parquet.converted
    if parquet.logical.startswith("Time(") and parquet.logical.endswith("utc)"):
        return "TIMETZ"
    if parquet.logical == "Null":
        return _NULL
    by_converted = parquet.without_logical.arrow
    if by_converted is None and parquet.converted.startswith("DECIMAL"):
        return "DOUBLE"  # more digits than DuckDB's decimals have
    read = type_read(parquet, SEMANTICS.traits) or by_converted or data_type
    if HAS_INSTANTS_OF_NANOSECONDS and is_instant(read) and unit_of(read) == "ns":
        return "TIMESTAMPTZ_NS"
    return sql_type(read)


def united(
    files: Iterable[FileColumns], run: duckdb.DuckDBPyConnection
) -> tuple[tuple[str, str | None], ...]:
    """Return the columns of a table as `union_by_name` shows them.

    Args:
        files: the columns of each schema, in the order of the files.
        run: any connection.

    Returns:
        Names and types; a type is None if the type in one of the files is unknown, or if DuckDB has no common type.
    """
    names: dict[str, str] = {}
    types: dict[str, dict[str | None, None]] = {}
    for file in files:
        for key, (name, data_type) in file.by_name.items():
            names.setdefault(key, name)
            types.setdefault(key, {})[data_type] = None
    return tuple((name, _common(list(types[key]), run)) for key, name in names.items())


_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
"""Each can be read as any later one without changing a value."""


def united_plainly(kinds: Sequence[FileColumns | None]) -> FileColumns | None:
    """The columns of files of several kinds, if `union_by_name` shows them as each kind alone does, except that a kind
    may lack columns, or have narrower integers. None if they differ in other ways.
    """
    names: dict[str, str] = {}
    types: dict[str, set[str | None]] = {}
    stored: Mapping[str, str] = {}
    for kind in kinds:
        if kind is None or kind.renamed:
            return None
        stored = kind.stored
        for key, (name, data_type) in kind.by_name.items():
            if names.setdefault(key, name) != name:
                return None
            types.setdefault(key, set()).add(data_type)
    widest = {key: _widest(held) for key, held in types.items()}
    if None in widest.values():
        return None
    return FileColumns(tuple((name, widest[key]) for key, name in names.items()), stored=stored)


def _widest(types: set[str | None]) -> str | None:
    if len(types) == 1:
        return next(iter(types))
    return max(types, key=_INTEGERS.index) if types <= set(_INTEGERS) else None


def _common(types: list[str | None], run: duckdb.DuckDBPyConnection) -> str | None:
    """The type that DuckDB gives a column that has these types in files: that of a UNION of such columns."""
    if len(types) == 1 or None in types:
        return types[0] if len(types) == 1 else None
    typed = " UNION ALL ".join(f"SELECT {_null(cast('str', type_name))} AS c" for type_name in types)
    try:
        row: tuple[Any, ...] | None = run.execute(f"DESCRIBE {typed}").fetchone()
    except duckdb.Error:
        return None
    return None if row is None else str(row[1])


def _null(data_type: str) -> str:
    return "NULL" if data_type == _NULL else f"NULL::{data_type}"
