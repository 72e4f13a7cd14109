"""Reading the rows of a plan with pyarrow: the row groups that hold them, and the rows themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pruner.errors import SchemaError, StorageError, TableError, cause
from pruner.planning.plan import DELETED_APART
from pruner.storage.opening import open_for_arrow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.planning.plan import Plan
    from pruner.schema import Field

    Positions = NDArray[np.uint32]


def row_groups(
    plan: Plan, storage_options: Mapping[str, str] | None = None
) -> Iterator[tuple[str, list[int]]]:
    """The row groups of each file to read that hold rows that can match; all of them if rows are not known.

    Args:
        plan: what to read.
        storage_options: options of the store, besides those with which the table was opened.

    Raises:
        TableError: a file group to read has log files, or rows of a file are deleted by separately stored deletes, so
            its base files alone are not the table's content.
        StorageError: a file cannot be read.
    """
    for uri, positions in _rows(plan):
        file = opened(uri, plan.storage_options(storage_options))
        yield uri, [number for number, _ in in_groups(file, positions)]


def read_rows(
    plan: Plan, columns: Sequence[str] | None = None, storage_options: Mapping[str, str] | None = None
) -> Iterator[pa.Table]:
    """The rows of a plan, one table for each row group that holds some; only those groups are read.

    These are exactly the matching rows if `plan.rows_exact`; otherwise there are more, and the predicate must be
    applied again. Without `columns`, each file's own columns are read. Named columns have the names of the table; a
    file that lacks one yields NULL, of the table's type. Columns that are only in paths are not included.

    Args:
        plan: what to read.
        columns: names of top-level columns; all unless given.
        storage_options: options of the store, besides those with which the table was opened.

    Raises:
        SchemaError: the table has no such column, only its paths have it, it is found by a column mapping (without
            `columns`: any column is), or a file lacks it where NULL is not certain.
        TableError: a file group to read has log files, or rows of a file are deleted by separately stored deletes, so
            its base files alone are not the table's content.
        StorageError: a file cannot be read.
    """
    if columns is None and (mapped := next((part for part in plan.schema if part.stored is not None), None)):
        raise _by_mapping(mapped.path[0])
    wanted = None if columns is None else [_stored(plan, name) for name in columns]
    if wanted == []:
        raise SchemaError("no columns are named: name some, or leave `columns` out for all of them")
    return _read(plan, wanted, plan.storage_options(storage_options))


def _stored(plan: Plan, name: str) -> Field:
    field = plan.schema.find((name,))
    if not field.in_file:
        raise SchemaError(f"column {field.name!r} is only in the paths of the files: take it from there")
    if any(part.path[0] == field.path[0] and part.stored is not None for part in plan.schema):
        raise _by_mapping(field.name)
    return field


def _by_mapping(name: str) -> SchemaError:
    return SchemaError(
        f"column {name!r} is found by a mapping of columns, which this does not follow: read it by an engine"
    )


def _read(plan: Plan, wanted: list[Field] | None, options: Mapping[str, str]) -> Iterator[pa.Table]:
    names = None if wanted is None else [field.name for field in wanted]
    for uri, positions in _rows(plan):
        file = opened(uri, options)
        absent = [field for field in wanted or () if field.name not in file.schema_arrow.names]
        for field in absent:
            if field.dispute is not None or not field.absent_is_null:
                raise SchemaError(
                    f"column {field.name!r} is not in {uri} by that name, and may not be NULL there"
                )
        for number, within in in_groups(file, positions):
            group: Any = file.read_row_group(number, columns=names)
            for field in absent:
                nulls: Any = pa.array([None] * group.num_rows, field.type)
                group = group.append_column(field.name, nulls)
            chosen: pa.Table = group if names is None else group.select(names)
            yield chosen if within is None else chosen.take(pa.array(within, pa.int64()))


def opened(uri: str, options: Mapping[str, str]) -> Any:
    """The Parquet file at a URI.

    Raises:
        StorageError: it cannot be read.
    """
    try:
        return pq.ParquetFile(open_for_arrow(uri, None, options))
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"cannot read {uri}: {cause(error)}") from None


def _rows(plan: Plan) -> Iterator[tuple[str, Positions | None]]:
    if plan.has_deletes:
        raise TableError(DELETED_APART)
    if plan.has_logs and plan.semantics.scan_mode != "read_optimized":
        raise TableError(
            "some file groups to read have log files, so their base files alone are not the table's content"
        )
    if plan.rows is not None:
        yield from plan.rows.pairs()
        return
    for uri in plan.files:
        yield uri, None


def in_groups(file: Any, positions: Positions | None) -> Iterator[tuple[int, NDArray[np.int64] | None]]:
    """The row groups of a file with some of the positions, and these positions relative to the start of the group."""
    start = 0
    for number in range(file.metadata.num_row_groups):
        stop = start + file.metadata.row_group(number).num_rows
        if positions is None:
            yield number, None
        else:
            first, last = np.searchsorted(positions, [start, stop])
            if last > first:
                yield number, positions[first:last].astype(np.int64) - start
        start = stop
