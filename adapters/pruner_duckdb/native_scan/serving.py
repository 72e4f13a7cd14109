"""Whether one scan by the extension shows a snapshot as plain DuckDB does, and what the extension needs for that."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from pruner.errors import TableError
from pruner.expr.nodes import TRUE
from pruner_duckdb.catalog.tables import SEMANTICS, Pinned
from pruner_duckdb.read.native import FileKinds, described, folded
from pruner_duckdb.read.scan import Wanted, has_further_keys, is_one_scan
from pruner_duckdb.types import file_name, is_remote, quote_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb.sqltypes import DuckDBPyType

    from pruner import PinnedSnapshot
    from pruner_duckdb.catalog.tables import KnownTable
    from pruner_duckdb.read.native import Describe
    from pruner_duckdb.read.reading import Sources
    from pruner_duckdb.shadow.shadow import Shadow

_NOT_MERGED = "the native scan does not merge log files"
_NOT_DELETED = "the native scan does not leave out rows that are deleted apart from their files"
_STRUCT = "STRUCT("
_MAP = "MAP("
_BYTES = 4
"""Rough size of a value in a file."""


@dataclass(frozen=True)
class TableDescription:
    """What the extension is told about a table: names and types of its columns, empty if a scan of its files finds them
    itself, and the approximate number of rows in a file.
    """

    columns: tuple[tuple[str, str], ...] = ()
    rows: int = 0


def pin(known: KnownTable, snapshot: PinnedSnapshot, shadow: Shadow) -> Pinned:
    """A snapshot of a table with its shape."""
    return Pinned(known, snapshot, shadow.with_connection(partial(known.shape, snapshot)))


def not_served(known: KnownTable, shadow: Shadow) -> str | None:
    """Return why a table is not read by the native scan; None if it is.

    Args:
        known: the table.
        shadow: describes files.

    Raises:
        PrunerError: it cannot be opened or listed.
    """
    if known.may_be_stale:
        return "the native scan does not serve tables whose listing may be older than the statement"
    pinned = pin(known, known.snapshot(), shadow)
    data = pinned.snapshot.data
    # A table that might no longer be readable after its next commit is not served in the first place.
    if data.may_leave_files and not (data.merges and known.read_optimized):
        return _NOT_MERGED if data.merges else _NOT_DELETED
    told = serving(pinned, shadow)
    return told if isinstance(told, str) else None


def serving(pinned: Pinned, shadow: Shadow) -> TableDescription | str:
    """What the extension must be told about a snapshot; the reason if a single scan cannot show it."""
    known, data, shape = pinned.known, pinned.snapshot.data, pinned.shape
    shape.require_names(known.name, lambda _: True)
    if not len(data):
        return "the table has no files"
    if not data.has_base.all() or (data.any_logs and not known.read_optimized):
        return _NOT_MERGED
    if data.has_deletes.any():
        return _NOT_DELETED
    if _has_int96(pinned):
        return "the native scan does not read INT96 as Delta does"
    if shape.by_ids:
        return "the native scan does not find columns by field ids"
    if shape.stored:
        return "the native scan does not read columns that the files call otherwise"
    knows_files = _knows_files(pinned)
    structs = [(name, data_type) for name, data_type, _ in shape.columns if _STRUCT in data_type]
    # If the listing has not read the footers, this takes a while.
    kinds = _kinds(pinned, shadow) if structs or knows_files else FileKinds((), np.zeros(0, dtype=np.int32))
    if knows_files and kinds is not None and is_one_scan(data, shape, kinds):
        return TableDescription()
    keys = [(name, path) for name, _, path in shape.columns if path is not None]
    if keys and (not shape.native_folders or any(name != path[0] for name, path in keys)):
        return "DuckDB does not read the values in the names of folders as the table has them"
    if has_further_keys(data, shape):
        return "a folder above the table looks like a partition"
    reason = _unlike(structs, kinds) or _widened(pinned)
    if reason is not None:
        return reason
    return TableDescription(
        tuple((name, data_type) for name, data_type, _ in shape.columns), _rows(pinned, shadow)
    )


def _knows_files(pinned: Pinned) -> bool:
    """Whether the listing knows the schema of each file: no file of such a table is merged with others."""
    return pinned.snapshot.data.file_schemas is not None


def _has_int96(pinned: Pinned) -> bool:
    data, reader = pinned.snapshot.data, pinned.known.reader
    return bool(reader.of_int96(data, np.arange(len(data), dtype=np.intp), lambda _: True).any())


def _kinds(pinned: Pinned, shadow: Shadow) -> FileKinds | None:
    """What is known about the files."""
    data, ordinals = pinned.snapshot.data, np.arange(len(pinned.snapshot.data), dtype=np.intp)
    return pinned.known.reader.kinds(data, ordinals, pinned.shape, _describing(shadow))


def _describing(shadow: Shadow) -> Describe:
    return lambda uri, schema: shadow.with_connection(lambda run: described(run, uri, schema))


def _unlike(structs: Sequence[tuple[str, str]], kinds: FileKinds | None) -> str | None:
    """Why files cannot be read by the names of the table's columns; None if they can."""
    if kinds is None or not (kinds.ordinals >= 0).all():
        return "the schemas of some files are not known"
    known = [column for column in kinds.columns if column is not None]
    if any(columns.renamed for columns in known):
        return "a file has two columns of one name"
    for name, data_type in structs:
        if any(
            not _found_by_names(data_type, columns.by_name.get(folded(name), ("", None))[1])
            for columns in known
        ):
            return f"not all files have the struct {name} alike"
    return None


def _found_by_names(wanted: str, has: str | None) -> bool:
    """Whether DuckDB finds the fields of a struct in a file by their names.

    It matches those in a map by position. A struct that is missing as a whole makes it fail if the statement reads only
    one of its fields, and then nothing in the database can be read any more.
    """
    if wanted == has:
        return True
    if has is None or _MAP in wanted:
        return False
    return _structs(duckdb.sqltype(wanted), ()) <= _structs(duckdb.sqltype(has), ())


def _structs(data_type: DuckDBPyType, path: tuple[str, ...]) -> set[tuple[str, ...]]:
    """The paths of the structs in a type, except for structs within lists."""
    if data_type.id != "struct":
        return set()
    children: Any = data_type.children
    below = [_structs(child, (*path, folded(name))) for name, child in children]
    return {path}.union(*below)


def _widened(pinned: Pinned) -> str | None:
    data = pinned.snapshot.data
    doubles = any("DOUBLE" in data_type for _, data_type, _ in pinned.shape.columns)
    if not _knows_files(pinned) and doubles and is_remote(data.root):
        return (
            "the footers of all files would have to be read: one may hold floats where the table has doubles"
        )
    ordinals = np.arange(len(data), dtype=np.intp)
    if pinned.known.reader.widened(data, ordinals, lambda _: True).any():
        return "a file holds floats of which Hudi makes doubles in a way of its own"
    return None


def _rows(pinned: Pinned, shadow: Shadow) -> int:
    """Number of rows of the first file, which DuckDB assumes for the others; an estimate if that takes a request."""
    uri: str = pinned.snapshot.data.value("base_file", 0)
    if is_remote(uri):
        size: int = pinned.snapshot.data.value("base_size", 0)
        return 1 + size // (_BYTES * len(pinned.shape.columns))
    try:
        row: Any = shadow.with_connection(
            lambda run: run.execute(
                "SELECT num_rows FROM parquet_file_metadata(?)", [[file_name(uri)]]
            ).fetchone()
        )
    except duckdb.Error:
        return 1
    return max(1, int(row[0]))


def whole_sql(pinned: Pinned, shadow: Shadow) -> str:
    """A query over all files of a table that a single scan can no longer read.

    Raises:
        TableError: the files alone do not yield its rows.
    """
    plan = pinned.snapshot.plan(TRUE, semantics=SEMANTICS)
    sources: Sources = {}
    read = pinned.known.reader.sql
    item = read(plan, pinned.shape, _literal, sources, _describing(shadow), Wanted(lambda _: True))
    if sources:
        raise TableError(
            f"table {pinned.known.name} was changed in a way that this connection cannot read: open another one"
        )
    return f"SELECT * FROM {item}"


def _literal(value: object) -> str:
    """A value as text in a statement: lists of files, and texts of folders."""
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return quote_text(str(value))
