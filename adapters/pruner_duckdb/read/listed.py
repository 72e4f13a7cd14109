"""Files that are read with an explicit schema, `schema = MAP {…}`, because no native scan can read them.

These are files whose own schema is unknown, and files with partition values that DuckDB would not read from the paths
as the snapshot does. DuckDB knows nothing about such a scan (it estimates one row) and reads none of its columns late,
so it is the last resort.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pruner.arrow import positions
from pruner_duckdb.read.deletes import anti_join
from pruner_duckdb.read.folders import folder_values, from_text, from_texts
from pruner_duckdb.sql.engine_faults import WITH_ROW_NUMBERS, nan_option
from pruner_duckdb.types import READ_PARQUET, file_name, quote, quote_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from pruner.tables.snapshot import Snapshot
    from pruner_duckdb.read.deletes import DeletedOf
    from pruner_duckdb.read.shape import ScanShape

    Bind = Callable[[Any], str]

_NOT_PUSHED = "CASE WHEN file_index >= {} THEN system.main.error('no such file') ELSE {} END"
"""An expression that could fail is not pushed to a Parquet scan as a filter: with a filter over `file_index`, DuckDB
2.0 fails in `ORDER BY … LIMIT` ("Attempted to access index -9223372036854775806 within vector").
"""

_SHORT_LIST = 512
"""Longest list of partition values that is copied for each vector rather than joined to the scan."""

_READ_WHOLE = "CASE WHEN file_index >= 0 THEN {} END"
"""Keeps DuckDB 2.0 from reading a single field of a struct. In a file whose struct has other fields it takes the field
by its position there, and in one without the struct it fails and invalidates the user's database. The same happens if
such a field is compared with a list that holds NULL.
"""


def listed_sql(
    snapshot: Snapshot,
    ordinals: NDArray[np.intp],
    shape: ScanShape,
    bind: Bind,
    may_read: Callable[[str], bool],
    where: str,
    deleted: DeletedOf | None = None,
    *,
    reckons_with_nan: bool = False,
) -> str:
    """Return a query over the base files of some slices, whatever their schemas.

    Args:
        snapshot: the snapshot.
        ordinals: slices with base files, at least one.
        shape: how they are read.
        bind: adds the list of files, and lists of partition values, as parameters.
        may_read: tells whether the statement may read a column; a wrong answer only costs time.
        where: a condition over DuckDB's own columns of a scan, including the word WHERE.
        reckons_with_nan: whether DuckDB is told that statistics in files may leave out NaN.
        deleted: creates the source of the files' deleted rows, if there are any.
    """
    uris: list[Any] = snapshot.base_files.take(positions(ordinals)).to_pylist()
    files = [file_name(uri) for uri in uris]
    partitions = _PartitionValues(snapshot, ordinals, shape, bind)
    selected: list[str] = []
    described: list[str] = []
    for number, (name, data_type, partition) in enumerate(shape.columns):
        # Own names, so that no column can hide `file_index`.
        own = f"pruner_{number}"
        if name in shape.constants:
            value = partitions.among(shape.constants[name], data_type, own, likely=may_read(name))
            selected.append(f"{value} AS {quote(name)}")
        elif partition is None:
            whole = data_type.startswith("STRUCT(")
            stored = shape.stored.get(name)
            key, type_ = (quote_text(name), data_type) if stored is None else (stored.key, stored.type)
            value = _READ_WHOLE.format(own) if whole else own
            selected.append(
                f"{value if stored is None else stored.as_in_table(value, type_)} AS {quote(name)}"
            )
            default = "NULL" if stored is None or stored.default is None else quote_text(stored.default)
            described.append(f"{key}: {{name: '{own}', type: {quote_text(type_)}, default_value: {default}}}")
        else:
            value = partitions.value(partition, data_type, own, likely=may_read(name))
            selected.append(f"{value} AS {quote(name)}")
    schema = f", schema = MAP {{{', '.join(described)}}}" if described else ""
    nan = nan_option(shape.columns) if reckons_with_nan else ""
    numbers = WITH_ROW_NUMBERS if where else ""
    options = f"hive_partitioning = false, binary_as_string = false{nan}{numbers}"
    read = f"{READ_PARQUET}({bind(files)}{schema}, {options})"
    beside = f"{anti_join(deleted, ordinals, by_name=False)}{partitions.beside()}"
    # If no file has shown a column, DuckDB will report what is wrong with the files.
    return f"{partitions.before()}SELECT {', '.join(selected) or '*'} FROM {read}{beside}{where}"


class _PartitionValues:
    """Partition values by position of the file in the list that is read.

    As an expression over a constant list they cost nothing unless they are read, and then the time to copy the list
    once for each vector; as a column of a one-row table joined to the scan they always cost a little.
    """

    def __init__(self, snapshot: Snapshot, ordinals: NDArray[np.intp], shape: ScanShape, bind: Bind) -> None:
        self._ordinals = snapshot, ordinals
        self._shape = shape
        self._bind = bind
        self._columns: list[str] = []

    @cached_property
    def _used(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The partitions, and for each file the index of its own."""
        snapshot, ordinals = self._ordinals
        used, positions = np.unique(snapshot.partition_ordinals[ordinals], return_inverse=True)
        return used.astype(np.intp), positions

    def value(self, path: tuple[str, ...], data_type: str, own: str, *, likely: bool) -> str:
        """The value of one column as an expression of the scan."""
        used, _ = self._used
        snapshot, _ = self._ordinals
        distinct = folder_values(snapshot, used, path, data_type, as_written=self._shape.by_folders)
        return self._among(distinct, data_type, own, likely=likely)

    def among(self, texts: Sequence[str | None], data_type: str, own: str, *, likely: bool) -> str:
        """The value of a column that the files lack; `texts` has the value for each partition of the snapshot."""
        used, _ = self._used
        return self._among([texts[used_one] for used_one in used.tolist()], data_type, own, likely=likely)

    def _among(self, distinct: list[str | None], data_type: str, own: str, *, likely: bool) -> str:
        _, positions = self._used
        if len(distinct) == 1:
            return from_text(self._bind, distinct[0], data_type)
        listed = from_texts(self._bind([distinct[position] for position in positions]), distinct, data_type)
        if not likely or len(positions) <= _SHORT_LIST:
            return _NOT_PUSHED.format(len(positions), f"({listed})[file_index::BIGINT + 1]")
        self._columns.append(f"{listed} AS {own}")
        return f"{own}[file_index::BIGINT + 1]"

    def before(self) -> str:
        """The text before the SELECT."""
        if not self._columns:
            return ""
        return f"WITH pruner_values AS MATERIALIZED (SELECT {', '.join(self._columns)}) "

    def beside(self) -> str:
        """The text after the files in FROM."""
        return ", pruner_values" if self._columns else ""
