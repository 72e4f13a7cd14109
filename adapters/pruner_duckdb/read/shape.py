"""How the columns of one snapshot are read: decided once per snapshot, whatever files a plan keeps.

Pruning the list of files must not change the meaning of a statement. So names and types are those of the whole table:
for Parquet tables those that DuckDB itself shows over all files with `union_by_name` (rule R12), for Hudi tables those
of the table's own schema.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import duckdb

from pruner.errors import SchemaError
from pruner.expr.parquet_reading import as_read
from pruner_duckdb.read.deletes import StoredColumn, stored_columns, text_of
from pruner_duckdb.read.folders import as_in_folders, folder_types, parsed_alike
from pruner_duckdb.read.native import SEMANTICS, FileColumns, NativeColumns, folded, united
from pruner_duckdb.shadow.shadow import Relation
from pruner_duckdb.types import JSON, file_name, is_ambiguous, is_nested, quote, sql_type

if TYPE_CHECKING:
    from pruner.tables.snapshot import HeldColumns, Snapshot


@dataclass(frozen=True, slots=True)
class ScanShape:
    """The columns of a table as every scan of one snapshot shows them.

    `columns` has name, DuckDB type, and the path in the snapshot for a partition value, None for a column of files.
    `files` has what DuckDB reads from the files of each distinct schema of the snapshot, None if that is unknown.
    `native_folders` means that DuckDB may read partition values from the paths, and `by_folders`, that plain DuckDB
    would read them there. `hidden` are columns whose values the snapshot does not know as DuckDB reads them: no
    predicate over them prunes. `stored` has the columns that have other names, or fields with other names, in files.
    `constants` are columns that the files lack, with the text of each partition's value.
    """

    columns: tuple[tuple[str, str, tuple[str, ...] | None], ...]
    files: tuple[FileColumns | None, ...] = ()
    native_folders: bool = False
    by_folders: bool = False
    hidden: frozenset[str] = field(default_factory=frozenset[str])
    stored: Mapping[str, StoredColumn] = field(default_factory=dict[str, StoredColumn])
    constants: Mapping[str, Sequence[str | None]] = field(default_factory=dict[str, "Sequence[str | None]"])

    @property
    def relation(self) -> Relation:
        """The columns as every scan of this snapshot shows them."""
        return Relation(tuple((name, data_type) for name, data_type, _ in self.columns))

    @property
    def by_ids(self) -> bool:
        """Whether columns are matched in files by field ids, so that the names in a file do not matter."""
        return any(column.field_id is not None for column in self.stored.values())

    def by_table(self, files: FileColumns) -> FileColumns:
        """What DuckDB reads from files, by the names of the table."""
        if not self.stored:
            return files
        own = [name for name, _, path in self.columns if path is None]
        names = {name: self.stored[name].name if name in self.stored else name for name in own}
        return files.by_table(names)

    def of_int96(self, snapshot: Snapshot) -> ScanShape:
        """The same for files that store instants as INT96."""
        return replace(self, stored=stored_columns(snapshot.schema.columns, int96=True))

    def of_files(self, held: HeldColumns, snapshot: Snapshot) -> ScanShape:
        """The same for files that store the columns in this way."""
        stored = stored_columns(snapshot.schema.columns, int96=True) if held.int96 else self.stored
        if held.names is not None:
            called = dict(held.names)
            stored = {
                name: replace(column, name=called[name], field_id=None) for name, column in stored.items()
            }
        return replace(self, stored=stored, constants=_constants(held.constants, snapshot))

    def reads_paths_of(self, shared: Collection[tuple[str, ...]]) -> bool:
        """Tell whether scans take columns that are also in the files from the path."""
        from_path = {path for _, _, path in self.columns if path is not None}
        return all(path in from_path for path in shared)

    def narrowed(self, may_read: Callable[[str], bool]) -> ScanShape:
        """The same with only the columns that a statement may read.

        At least one of the files' own columns is kept: if DuckDB is given none, it uses those of the first file, which
        may hide `file_index`.
        """
        kept = tuple(column for column in self.columns if may_read(column[0]))
        own = next((column for column in (*kept, *self.columns) if column[2] is None), None)
        columns = kept if own is None or own in kept else (*kept, own)
        return replace(self, columns=columns)

    def require_names(self, table: str, may_read: Callable[[str], bool]) -> None:
        """Make sure that DuckDB can distinguish the columns.

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
            other = seen.setdefault(folded(name), name)
            if other is not name and may_read(name):
                raise SchemaError(
                    f"table {table}: DuckDB cannot tell the columns {other!r} and {name!r} apart: leave both "
                    "out of the statement"
                )


def _constants(columns: Collection[str], snapshot: Snapshot) -> dict[str, list[str | None]]:
    constants: dict[str, list[str | None]] = {}
    for name in columns:
        assert snapshot.nested is not None
        values = snapshot.nested.constant(name)
        scalars: Any = values
        constants[name] = [text_of(scalar) if scalar.is_valid else None for scalar in scalars]
    return constants


def scan_shape(
    snapshot: Snapshot, run: duckdb.DuckDBPyConnection, name: str, native: NativeColumns
) -> ScanShape:
    """Decide once for a snapshot how each of its columns is read.

    Args:
        snapshot: the snapshot.
        run: a connection that reads the files' own types.
        name: the table's name, for errors.
        native: what is known about the files' types.

    Raises:
        SchemaError: DuckDB has no type for a column.
    """
    files = native.of(snapshot, run)
    if snapshot.file_schemas is not None and files:
        return _parquet_shape(snapshot, files, run, name)
    columns = _as_shown(_table_columns(snapshot, run, name), run)
    keys = {path: data_type for _, data_type, path in columns if path is not None}
    return ScanShape(
        columns,
        files,
        native_folders=as_in_folders(snapshot, keys),
        stored=stored_columns(snapshot.schema.columns),
    )


def _parquet_shape(
    snapshot: Snapshot, files: tuple[FileColumns | None, ...], run: duckdb.DuckDBPyConnection, name: str
) -> ScanShape:
    known = [file for file in files if file is not None]
    folders = folder_types(snapshot, run)
    from_path = {folded(path[0]): (path, data_type) for path, data_type in folders.items()}
    columns: list[tuple[str, str, tuple[str, ...] | None]] = []
    for shown, data_type in united(known, run):
        path, given = from_path.pop(folded(shown), (None, data_type))
        columns.append((shown, given or _type_of_table(snapshot, shown, run, name), path))
    # DuckDB sorts the columns that it adds by name.
    columns += [(path[0], data_type, path) for path, data_type in sorted(from_path.values())]
    renamed = any(columns.renamed for columns in known)
    hidden = frozenset(column[0] for column in columns) if renamed else _hidden(snapshot, columns, run)
    alike = parsed_alike(snapshot, folders)
    return ScanShape(tuple(columns), files, native_folders=alike, by_folders=True, hidden=hidden)


def _type_of_table(snapshot: Snapshot, column: str, run: duckdb.DuckDBPyConnection, table: str) -> str:
    """The type of a column that has none in the files: that of the table's schema, as DuckDB spells it."""
    held = snapshot.schema.find((column,), case_sensitive=True).type
    data_type = sql_type(held)
    if data_type is None:
        raise SchemaError(f"table {table}: DuckDB has no type for column {column!r} ({held})")
    return _spelled([data_type], run)[0]


def _hidden(
    snapshot: Snapshot,
    columns: Collection[tuple[str, str, tuple[str, ...] | None]],
    run: duckdb.DuckDBPyConnection,
) -> frozenset[str]:
    """The columns whose type in the snapshot is unknown, or differs from the one that DuckDB reads."""
    expected: dict[str, str] = {}
    shown: dict[str, str] = {}
    for name, data_type, _ in columns:
        own = _own_type(snapshot, name)
        if own is not None:
            expected[name], shown[name] = own, data_type
    if not expected:
        return frozenset(name for name, _, _ in columns)
    spelled = _spelled(expected.values(), run)
    same = {
        name
        for name, spelling in zip(expected, spelled, strict=True)
        if shown[name] in ((spelling, JSON) if spelling == "VARCHAR" else (spelling,))
    }
    return frozenset(name for name, _, _ in columns if name not in same)


def _own_type(snapshot: Snapshot, column: str) -> str | None:
    """DuckDB's type for the type to which predicates over a column are bound; None if there is none."""
    try:
        return sql_type(as_read(snapshot.schema.find((column,)), SEMANTICS).type)
    except SchemaError:
        return None


def _table_columns(
    snapshot: Snapshot, run: duckdb.DuckDBPyConnection, name: str
) -> tuple[tuple[str, str, tuple[str, ...] | None], ...]:
    """The columns of the table's own schema; only types that Arrow leaves ambiguous are looked up in a file.

    A file written before a field was added to a struct does not have it, so structs are never looked up. Hudi keeps
    partition columns in its files, and they are read from there.
    """
    native: Mapping[str, str] | None = None
    columns: list[tuple[str, str, tuple[str, ...] | None]] = []
    for entry in snapshot.schema.columns:
        known = snapshot.partitions.values if snapshot.partitions.texts is None else snapshot.partitions.texts
        from_path = entry.partition and not entry.in_file and entry.path in known
        data_type = sql_type(entry.type)
        looked_up = is_ambiguous(entry.type) and not (data_type and is_nested(entry.type))
        if looked_up and not from_path:
            native = _types_of_a_file(snapshot, run) if native is None else native
            data_type = native.get(entry.name.lower(), data_type)
        if data_type is None:
            raise SchemaError(f"table {name}: DuckDB has no type for column {entry.name!r} ({entry.type})")
        columns.append((entry.path[0], data_type, entry.path if from_path else None))
    return tuple(columns)


def _as_shown(
    columns: tuple[tuple[str, str, tuple[str, ...] | None], ...], run: duckdb.DuckDBPyConnection
) -> tuple[tuple[str, str, tuple[str, ...] | None], ...]:
    """The same with types as DuckDB writes them, for comparison with those of files."""
    spelled = _spelled([data_type for _, data_type, _ in columns], run)
    return tuple((name, shown, path) for (name, _, path), shown in zip(columns, spelled, strict=True))


def _spelled(types: Collection[str], run: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Each type as DuckDB writes it."""
    shown = ", ".join(f"typeof(NULL::{type_name})" for type_name in types)
    return (run.execute(f"SELECT {shown}").fetchone() or ()) if types else ()


def _types_of_a_file(snapshot: Snapshot, run: duckdb.DuckDBPyConnection) -> Mapping[str, str]:
    """The types that DuckDB reads from the first readable file, by lower-case name."""
    for uri in snapshot.columns.column("base_file").slice(0, 8).to_pylist():
        if uri is None or uri in snapshot.problems:
            continue
        try:
            described = run.execute(
                "DESCRIBE FROM read_parquet(?, hive_partitioning = false)", [[file_name(uri)]]
            )
            types = {str(row[0]).lower(): str(row[1]) for row in described.fetchall()}
            # The type of a column that has only NULLs is none that a table could have.
            return {name: data_type for name, data_type in types.items() if quote("NULL") not in data_type}
        except duckdb.Error:
            continue
    return {}
