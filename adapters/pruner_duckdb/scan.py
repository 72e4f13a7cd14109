"""The SQL that reads the files of a plan and nothing else, always with the schema of the whole snapshot.

A list of files that was pruned must not change what the statement means, so nothing is inferred from the
files: column names and types come from the snapshot, a column that the chosen files lack is a typed NULL,
and partition values are the snapshot's own (by position of the file in the list), not what DuckDB would
make of a path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from pruner.errors import SchemaError
from pruner_duckdb.merged_rows import ALWAYS, own_name
from pruner_duckdb.shadow import Relation
from pruner_duckdb.types import is_ambiguous, quote, quote_text, sql_type
from pruner_duckdb.widened import has_floats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot

_GLOB_SIGNS = str.maketrans({"*": "[*]", "?": "[?]", "[": "[[]"})

_NOT_PUSHED = "CASE WHEN file_index >= {} THEN system.main.error('no such file') ELSE {} END"
"""An expression that could fail is no filter of a Parquet scan: with one over `file_index`, DuckDB 2.0 fails in
`ORDER BY … LIMIT` ("Attempted to access index -9223372036854775806 within vector").
"""

_SHORT_LIST = 512
"""Longest list of partition values that is copied for each vector rather than read beside the scan."""

Bind = Callable[[Any], str]
"""Takes a value as one more parameter of the statement and returns its marker."""


@dataclass(frozen=True, slots=True)
class ScanShape:
    """How the columns of one snapshot are read: (name, DuckDB type, file column or None for a partition
    value).
    """

    columns: tuple[tuple[str, str, tuple[str, ...] | None], ...]

    @property
    def relation(self) -> Relation:
        """The columns as every scan of this snapshot shows them."""
        return Relation(tuple((name, data_type) for name, data_type, _ in self.columns))

    def narrowed(self, may_read: Callable[[str], bool]) -> ScanShape:
        """The same with the columns alone that a statement may read.

        Never without one of the files' own: where DuckDB is told of none it takes those of the first file, which
        may hide `file_index`.
        """
        kept = tuple(each for each in self.columns if may_read(each[0]))
        own = next((each for each in (*kept, *self.columns) if each[2] is None), None)
        return ScanShape(kept if own is None or own in kept else (*kept, own))

    def require_names(self, table: str, may_read: Callable[[str], bool]) -> None:
        """Make sure that DuckDB can tell the columns apart.

        Args:
            table: the table's name, for errors.
            may_read: tells whether the statement may read a column.

        Raises:
            SchemaError: it cannot.
        """
        seen: dict[str, str] = {}
        for name, _, _ in self.columns:
            if not name:
                raise SchemaError(f"table {table}: a column has an empty name, which SQL cannot write")
            other = seen.setdefault(name.lower(), name)
            if other is not name and may_read(name):
                raise SchemaError(
                    f"table {table}: DuckDB cannot tell the columns {other!r} and {name!r} apart: leave both "
                    "out of the statement"
                )


def scan_shape(snapshot: Snapshot, table_format: str, run: duckdb.DuckDBPyConnection, name: str) -> ScanShape:
    """Decide once for a snapshot how each of its columns is read.

    Args:
        snapshot: the snapshot.
        table_format: `hudi` or `parquet`.
        run: a connection that reads a file's own types where Arrow's leave room.
        name: the table's name, for errors.

    Raises:
        SchemaError: DuckDB has no type for a column.
    """
    native: dict[str, str] | None = None
    columns: list[tuple[str, str, tuple[str, ...] | None]] = []
    for field in snapshot.schema.columns:
        from_path = _from_path(field, snapshot, table_format)
        data_type = sql_type(field.type)
        if not from_path and is_ambiguous(field.type):
            native = _native_types(snapshot, run) if native is None else native
            data_type = native.get(field.name.lower(), data_type)
        if data_type is None:
            raise SchemaError(f"table {name}: DuckDB has no type for column {field.name!r} ({field.type})")
        columns.append((field.path[0], data_type, field.path if from_path else None))
    return ScanShape(tuple(columns))


def _from_path(field: Field, snapshot: Snapshot, table_format: str) -> bool:
    """Hudi keeps partition columns in its files; elsewhere the path decides, as for DuckDB and Spark."""
    if not field.partition or field.path not in snapshot.partitions.values:
        return False
    return table_format == "parquet" or not field.in_file


def _native_types(snapshot: Snapshot, run: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """The types that DuckDB reads from the first readable file, by lower-case name."""
    for uri in snapshot.columns.column("base_file").slice(0, 8).to_pylist():
        if uri is None or uri in snapshot.problems:
            continue
        try:
            described = run.execute(
                "DESCRIBE FROM read_parquet(?, hive_partitioning = false)", [[file_name(uri)]]
            )
            types = {str(row[0]).lower(): str(row[1]) for row in described.fetchall()}
            # A column of nothing but NULL has no type that a table could have.
            return {name: data_type for name, data_type in types.items() if '"NULL"' not in data_type}
        except duckdb.Error:
            continue
    return {}


def file_name(uri: str) -> str:
    """Return a file's URI as DuckDB is to be given it: local ones as paths, signs of patterns escaped."""
    return uri.removeprefix("file://").translate(_GLOB_SIGNS)


def scan_sql(
    snapshot: Snapshot,
    ordinals: NDArray[np.intp],
    shape: ScanShape,
    bind: Bind,
    may_read: Callable[[str], bool],
    positions: NDArray[np.uint32] | None = None,
    *,
    whole_structs: bool = False,
) -> str:
    """Return a query over the base files of some slices.

    Args:
        snapshot: the snapshot.
        ordinals: its slices to read; those without a base file are left out.
        shape: how they are read.
        bind: takes the list of files, and lists of partition values, as parameters.
        may_read: tells whether the statement may read a column; a wrong answer costs time alone.
        positions: of the rows to read of each file; all rows unless given.
        whole_structs: whether structs must not be read field by field.

    Raises:
        SchemaError: a column that may be read is nested in some of the files and is not in others.
    """
    base = snapshot.columns.column("base_file").take(pa.array(ordinals, pa.int64()))
    if base.null_count:
        ordinals = ordinals[base.is_valid().to_numpy()]
    if not len(ordinals):
        return shape.relation.empty_select()
    _require_one_kind(snapshot, ordinals, may_read)
    files = [file_name(uri) for uri in base.to_pylist() if uri]
    partitions = _PartitionValues(snapshot, ordinals, bind)
    selected: list[str] = []
    described: list[str] = []
    for number, (name, data_type, partition) in enumerate(shape.columns):
        # Own names, so that no column can hide `file_index`.
        own = f"pruner_{number}"
        if partition is None:
            whole = data_type.startswith("STRUCT(") and (
                whole_structs or _struct_varies(name, snapshot, ordinals)
            )
            selected.append(f"{_READ_WHOLE.format(own) if whole else own} AS {quote(name)}")
            described.append(
                f"{quote_text(name)}: {{name: '{own}', type: {quote_text(data_type)}, default_value: NULL}}"
            )
        else:
            value = partitions.value(partition, data_type, own, likely=may_read(name))
            selected.append(f"{value} AS {quote(name)}")
    schema = f", schema = MAP {{{', '.join(described)}}}" if described else ""
    read = f"read_parquet({bind(files)}{schema}, hive_partitioning = false, binary_as_string = false)"
    where = "" if positions is None else f" WHERE {_stands_at(positions)}"
    return f"{partitions.before()}SELECT {', '.join(selected)} FROM {read}{partitions.beside()}{where}"


def _stands_at(positions: NDArray[np.uint32]) -> str:
    """Only a list of constants lets DuckDB leave out row groups."""
    return f"file_row_number IN ({', '.join(map(str, positions.tolist()))})" if len(positions) else "false"


def merged_sql(snapshot: Snapshot, shape: ScanShape, source: str) -> str:
    """Return a query over merged slices, with the names and types of `scan_sql`.

    Args:
        snapshot: the snapshot.
        shape: how the columns are read.
        source: name under which DuckDB finds the `MergedRows` of the slices.
    """
    selected: list[str] = []
    for number, (field, (name, data_type, _)) in enumerate(
        zip(snapshot.schema.columns, shape.columns, strict=True)
    ):
        value = own_name(number)
        if has_floats(field.type):
            value = f"CASE WHEN {ALWAYS} THEN {value} END"
        selected.append(f"({value})::{data_type} AS {quote(name)}")
    return f"SELECT {', '.join(selected)} FROM {source}"


_READ_WHOLE = "CASE WHEN file_index >= 0 THEN {} END"
"""Keeps DuckDB 2.0 from reading one field of a struct alone. In a file whose struct has other fields it takes the field
by its position there, and in one without the struct it fails and takes the user's database with it. So it does where
such a field is compared with a list that holds NULL.
"""


def _require_one_kind(
    snapshot: Snapshot, ordinals: NDArray[np.intp], may_read: Callable[[str], bool]
) -> None:
    """Refuse what DuckDB would fail on in the middle of a scan or read as something else: a struct in one file and a
    number in the next, fractions where the first file has integers.

    Raises:
        SchemaError: a column is so.
    """
    schemas = snapshot.file_schemas
    mixed = [
        field for field in snapshot.schema.columns if field.conflict is not None and may_read(field.path[0])
    ]
    if schemas is None or not mixed:
        return
    used: list[Any] = [schemas.distinct[n] for n in np.unique(schemas.ordinals[ordinals]).tolist() if n >= 0]
    for field in mixed:
        name = field.path[0]
        types: set[Any] = {each.field(name).type for each in used if name in each.names}
        types.add(field.type)
        if len(types) > 1 and not _one_family(types):
            shown = " and ".join(sorted(map(str, types)))
            raise SchemaError(
                f"column {name!r} of {snapshot.root} cannot be read: the files to read hold {shown}; "
                "leave the column out, or restrict the query to files of one kind"
            )


_FAMILIES: tuple[Callable[[Any], bool], ...] = (
    pa.types.is_signed_integer,
    pa.types.is_floating,
    pa.types.is_struct,
    pa.types.is_list,
    pa.types.is_map,
)


def _one_family(types: set[Any]) -> bool:
    """Tell whether DuckDB reads all these types as the widest of them, value by value."""
    return any(all(map(kind, types)) for kind in _FAMILIES)


def _struct_varies(name: str, snapshot: Snapshot, ordinals: NDArray[np.intp]) -> bool:
    """Tell whether some of the files may hold a struct column otherwise than the table does, or not at all."""
    schemas = snapshot.file_schemas
    if schemas is None:
        return True
    type_ = snapshot.schema.find((name,), case_sensitive=True).type
    for position in np.unique(schemas.ordinals[ordinals]).tolist():
        if position < 0 or not _has(schemas.distinct[position], name, type_):
            return True
    return False


def _has(schema: Any, name: str, data_type: pa.DataType) -> bool:
    return name in schema.names and schema.field(name).type.equals(data_type)


class _PartitionValues:
    """Partition values by position of the file in the list that is read.

    As an expression over a constant list they cost nothing unless they are read, and then the time to copy
    the list once for each vector; as a column of a one-row table beside the scan they cost a little, always.
    """

    def __init__(self, snapshot: Snapshot, ordinals: NDArray[np.intp], bind: Bind) -> None:
        self._values = snapshot.partitions.values
        self._ordinals = snapshot, ordinals
        self._bind = bind
        self._columns: list[str] = []

    @cached_property
    def _used(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The partitions, and for each file which of them is its own."""
        snapshot, ordinals = self._ordinals
        used, positions = np.unique(snapshot.partition_ordinals[ordinals], return_inverse=True)
        return used.astype(np.intp), positions

    def value(self, path: tuple[str, ...], data_type: str, own: str, *, likely: bool) -> str:
        """The value of one column as an expression of the scan."""
        used, positions = self._used
        distinct = _parameter_values(self._values[path].take(pa.array(used, pa.int64())))
        if len(distinct) == 1:
            return f"{self._bind(distinct[0])}::{data_type}"
        values = self._bind([distinct[position] for position in positions])
        listed = f"{values}::VARCHAR[]::{data_type}[]"
        if not likely or len(positions) <= _SHORT_LIST:
            return _NOT_PUSHED.format(len(positions), f"({listed})[file_index::BIGINT + 1]")
        self._columns.append(f"{listed} AS {own}")
        return f"{own}[file_index::BIGINT + 1]"

    def before(self) -> str:
        """What stands before the SELECT."""
        if not self._columns:
            return ""
        return f"WITH pruner_values AS MATERIALIZED (SELECT {', '.join(self._columns)}) "

    def beside(self) -> str:
        """What stands behind the files in FROM."""
        return ", pruner_values" if self._columns else ""


def _parameter_values(values: pa.Array[Any]) -> list[str | None]:
    """Values as text that DuckDB casts back to the same value."""
    return [None if value is None else str(value) for value in values.cast(pa.string()).to_pylist()]
