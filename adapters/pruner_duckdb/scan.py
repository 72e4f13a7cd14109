"""The SQL that reads the files of a plan and nothing else, always with the columns of the whole table.

Files that DuckDB reads alike are read by one native scan, so that DuckDB knows about it what it knows about its own
(rule R12): how many rows there are, which columns can be read late, what a join or a top-k learned while running. Each
scan's columns are cast to the table's types and completed by typed NULLs, and the scans stand under UNION ALL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner_duckdb.listed import listed_sql, parameter_values
from pruner_duckdb.merged_rows import ALWAYS, own_name
from pruner_duckdb.native import folded
from pruner_duckdb.types import READ_PARQUET, file_name, quote, quote_text
from pruner_duckdb.widened import has_floats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.tables.snapshot import Snapshot
    from pruner_duckdb.native import FileColumns, FileKinds
    from pruner_duckdb.shape import ScanShape

MOST_SCANS = 32
"""Native scans of one table in a statement. Each opens a file while the statement is planned."""

_POSITION = "file_row_number"

_READ_WHOLE = f"CASE WHEN {_POSITION} >= 0 THEN {{}} END"
"""Keeps DuckDB 2.0 from reading one field of a struct alone: where such a field is compared with a list that holds NULL
it fails and takes the user's database with it.
"""

Bind = Callable[[Any], str]
"""Takes a value as one more parameter of the statement and returns its marker."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a statement wants of the files, and what is known of them.

    `may_read` tells of a column whether it may be read; a wrong answer costs time alone. `kinds` is None where nothing
    is known. `positions` are those of the rows to read of each file, None for all. `whole_structs` tells whether
    structs must not be read field by field.
    """

    may_read: Callable[[str], bool]
    kinds: FileKinds | None = None
    positions: NDArray[np.uint32] | None = None
    whole_structs: bool = False


def scan_sql(
    snapshot: Snapshot, ordinals: NDArray[np.intp], shape: ScanShape, bind: Bind, reading: Reading
) -> str:
    """Return a query over the base files of some slices.

    Args:
        snapshot: the snapshot.
        ordinals: its slices to read; those without a base file are left out.
        shape: how they are read.
        bind: takes lists of files, and partition values, as parameters.
        reading: what the statement wants of them.
    """
    base = snapshot.columns.column("base_file")
    if base.null_count:
        ordinals = ordinals[base.is_valid().to_numpy()[ordinals]]
    if not len(ordinals):
        return shape.relation.empty_select()
    groups, others = _alike(snapshot, ordinals, shape, reading)
    queries = [_native_sql(snapshot, each, columns, shape, bind, reading) for columns, each in groups]
    if len(others):
        where = _stands_at(reading.positions)
        queries.append(listed_sql(snapshot, others, shape, bind, reading.may_read, where))
    return queries[0] if len(queries) == 1 else " UNION ALL ".join(f"({query})" for query in queries)


def _alike(
    snapshot: Snapshot, ordinals: NDArray[np.intp], shape: ScanShape, reading: Reading
) -> tuple[list[tuple[FileColumns, NDArray[np.intp]]], NDArray[np.intp]]:
    """Part slices into those that one native scan serves, and those that none does."""
    kinds, by_position = reading.kinds, reading.positions is not None
    none = np.zeros(0, dtype=np.intp)
    if kinds is None or not _reads_partitions(snapshot, ordinals, shape):
        return [], ordinals
    numbers = kinds.ordinals[ordinals]
    alike: dict[object, tuple[FileColumns, list[int]]] = {}
    different: list[int] = np.unique(numbers).tolist()
    for number in different:
        columns = kinds.columns[number] if number >= 0 else None
        # A column of that name hides DuckDB's own.
        if columns is not None and not (by_position and _POSITION in columns.by_name):
            alike.setdefault(_signature(columns, shape, number), (columns, []))[1].append(number)
    if len(alike) == 1 and len(next(iter(alike.values()))[1]) == len(different):
        return [(next(iter(alike.values()))[0], ordinals)], none
    groups = [(columns, ordinals[np.isin(numbers, each)]) for columns, each in alike.values()]
    groups.sort(key=lambda group: -len(group[1]))
    groups = sorted(groups[:MOST_SCANS], key=lambda group: int(group[1][0]))
    served = np.concatenate([each for _, each in groups]) if groups else none
    return groups, np.setdiff1d(ordinals, served)


def _signature(columns: FileColumns, shape: ScanShape, number: int) -> object:
    """What files must have in common for one scan: the types of the columns that are read."""
    held = [columns.by_name.get(folded(name)) for name, _, path in shape.columns if path is None]
    types = tuple(None if each is None else each[1] or number for each in held)
    return types, _POSITION in columns.by_name


def _reads_partitions(snapshot: Snapshot, ordinals: NDArray[np.intp], shape: ScanShape) -> bool:
    """Tell whether a native scan has the partition values: from the paths, or as constants."""
    if shape.native_folders or all(path is None for _, _, path in shape.columns):
        return True
    return bool((snapshot.partition_ordinals[ordinals] == snapshot.partition_ordinals[ordinals[0]]).all())


def _native_sql(
    snapshot: Snapshot,
    ordinals: NDArray[np.intp],
    columns: FileColumns,
    shape: ScanShape,
    bind: Bind,
    reading: Reading,
) -> str:
    """A query over files that DuckDB reads alike."""
    uris: list[Any] = snapshot.columns.column("base_file").take(pa.array(ordinals, pa.int64())).to_pylist()
    has_positions = _POSITION not in columns.by_name
    selected: list[str] = []
    keys: list[str] = []
    for name, data_type, path in shape.columns:
        if path is None:
            whole = reading.whole_structs and has_positions and data_type.startswith("STRUCT(")
            selected.append(_column(columns.by_name.get(folded(name)), name, data_type, whole=whole))
        elif shape.native_folders:
            keys.append(f"{quote_text(path[0])}: {data_type}")
            selected.append(quote(path[0]) if path[0] == name else f"{quote(path[0])} AS {quote(name)}")
        else:
            partition = snapshot.partition_ordinals[ordinals[:1]]
            values = snapshot.partitions.values[path].take(pa.array(partition, pa.int64()))
            selected.append(f"{bind(parameter_values(values)[0])}::{data_type} AS {quote(name)}")
    folders = f"hive_partitioning = {'true' if keys else 'false'}"
    if keys:
        folders += f", hive_types_autocast = false, hive_types = {{{', '.join(keys)}}}"
    read = f"{READ_PARQUET}({bind([file_name(uri) for uri in uris])}, {folders}, binary_as_string = false)"
    return f"SELECT {', '.join(selected)} FROM {read}{_stands_at(reading.positions)}"


def _column(held: tuple[str, str | None] | None, name: str, data_type: str, *, whole: bool) -> str:
    """One column of files as the table has it."""
    if held is None:
        return f"NULL::{data_type} AS {quote(name)}"
    value = quote(held[0])
    if whole:
        value = _READ_WHOLE.format(value)
    if held[1] != data_type:
        value = f"{value}::{data_type}"
    return value if value == quote(name) else f"{value} AS {quote(name)}"


def _stands_at(positions: NDArray[np.uint32] | None) -> str:
    """Only a list of constants lets DuckDB leave out row groups."""
    if positions is None:
        return ""
    return (
        f" WHERE {_POSITION} IN ({', '.join(map(str, positions.tolist()))})"
        if len(positions)
        else " WHERE false"
    )


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
