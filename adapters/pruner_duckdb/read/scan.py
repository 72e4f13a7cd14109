"""The SQL that reads only the files of a plan, always with the columns of the whole table.

Files that DuckDB reads alike are read by one native scan, so that DuckDB knows about it what it knows about its own
scans (rule R12): how many rows there are, which columns can be read late, what a join or a top-k learned while running.
Each scan's columns are cast to the table's types and completed by typed NULLs, and UNION ALL combines the scans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pruner.arrow import positions
from pruner_duckdb.read.deletes import anti_join
from pruner_duckdb.read.folders import folder_values, from_text
from pruner_duckdb.read.listed import listed_sql
from pruner_duckdb.read.native import folded, united_plainly
from pruner_duckdb.read.widened import has_floats
from pruner_duckdb.sql.engine_faults import (
    HANDS_ARROW_ANY_FILTER,
    NUMBERS_ROWS_BY_NAME,
    WITH_ROW_NUMBERS,
    nan_option,
)
from pruner_duckdb.types import READ_PARQUET, file_name, quote, quote_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.tables.snapshot import Snapshot
    from pruner_duckdb.read.deletes import DeletedOf
    from pruner_duckdb.read.native import FileColumns, FileKinds
    from pruner_duckdb.read.shape import ScanShape

ALWAYS = "pruner_row"
"""A column of merged slices that is true in every row."""


def own_name(position: int) -> str:
    """Name for the table's column at a position: no two of these differ only in case, and none hides another column."""
    return f"pruner_{position}"


# Casts of a file's column to the table's type that may fail.
#
# `read_parquet` casts while it reads: `x IS NULL` is evaluated on the file's own values, and an error names the file. A
# cast above a native scan fails before that, so such files are better read with the table's types (rule R12).

_DIGITS = {
    "BOOLEAN": 1,
    "TINYINT": 3,
    "SMALLINT": 5,
    "INTEGER": 10,
    "BIGINT": 19,
    "HUGEINT": 39,
    "UTINYINT": 3,
    "USMALLINT": 5,
    "UINTEGER": 10,
    "UBIGINT": 20,
    "UHUGEINT": 39,
    "FLOAT": 99,
    "DOUBLE": 99,
}
_DECIMAL = re.compile(r"DECIMAL\(([0-9]+),([0-9]+)\)")


@cache
def may_fail(held: str, wanted: str) -> bool:
    """Tell whether a value of one type may not be representable in the other; both are written as DuckDB does.

    Nested types of one kind, and dates and times, count as safe: values that fail there are far outside the range that
    is written in practice, and a native scan is worth more.
    """
    if wanted in (held, "VARCHAR"):
        return False
    numbers = _integer_digits(held), _integer_digits(wanted)
    if numbers[0] is not None and numbers[1] is not None:
        return numbers[0] > numbers[1]
    return _family(held) != _family(wanted)


def _integer_digits(data_type: str) -> int | None:
    """Digits before the decimal point that a numeric type can hold; None for other types."""
    decimal = _DECIMAL.fullmatch(data_type)
    if decimal is not None:
        return int(decimal.group(1)) - int(decimal.group(2))
    return _DIGITS.get(data_type)


def _family(data_type: str) -> str:
    """The family of a type: values of types in one family can be converted to each other, as far as is known."""
    if data_type.endswith("]"):
        return "list"
    if data_type.startswith(("DATE", "TIMESTAMP")):
        return "moment"
    return data_type.partition("(")[0]


MOST_SCANS = 32
"""Most native scans of one table in a statement. Each opens a file while the statement is planned."""

_POSITION, _FILE = "file_row_number", "filename"

_ADDED = re.compile(r"file(?:name|_)", re.IGNORECASE)
"""Prefixes of the columns that DuckDB adds to a scan if they are requested by name: `filename`, `file_index`,
`file_row_number`, `file_row_group_number`.
"""

_READ_WHOLE = f"CASE WHEN {_POSITION} >= 0 THEN {{}} END"
"""Keeps DuckDB 2.0 from reading a single field of a struct: if such a field is compared with a list that holds NULL, it
fails and invalidates the user's database.
"""

Bind = Callable[[Any], str]
"""Adds a value as one more parameter of the statement and returns its marker."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a statement needs from a table.

    `may_read` tells whether a column may be read; a wrong answer only costs time, unless `narrow` says that it can be
    relied on: then other columns can be omitted, since DuckDB takes a while to parse the text of each. `every` means
    that all columns may be returned, so that their order matters; `bare`, that no name in the statement refers to one
    of the columns that DuckDB adds to a scan; `whole_structs`, that structs must not be read field by field. `ranges`
    means that DuckDB plans better if it knows the lower and upper bounds of columns and how many values are NULL, which
    for several files it does only with `union_by_name`; `by_name`, that it must know them in any case; `by_pattern`,
    that DuckDB may list the files of the whole table by `Snapshot.glob`; `in_order`, that rows must come in the order
    of the slices, as the pages of a LIMIT without an order do.
    """

    may_read: Callable[[str], bool]
    narrow: bool = False
    every: bool = True
    bare: bool = False
    whole_structs: bool = False
    ranges: bool = False
    by_name: bool = False
    by_pattern: bool = False
    in_order: bool = False

    def leaves_out(self, column: str) -> bool:
        """Tell whether a column is certain not to be read."""
        return self.narrow and not self.may_read(column)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a statement needs from the files, and what is known about them.

    `kinds` is None if nothing is known. `positions` are those of the rows to read from each file, None for all.
    `deleted` creates the source of the files' deleted rows, if there are any.
    """

    wanted: Wanted
    kinds: FileKinds | None = None
    positions: NDArray[np.uint32] | None = None
    deleted: DeletedOf | None = None


@dataclass(frozen=True, slots=True)
class _Group:
    """Slices whose files one native scan can read, with what DuckDB reads from each kind of file among them."""

    kinds: tuple[FileColumns, ...]
    ordinals: NDArray[np.intp]
    by_name: bool = False
    """Whether DuckDB reads all footers first, as plain DuckDB must if files differ."""

    def takes_folders(self, shape: ScanShape) -> bool:
        """Tell whether DuckDB may read the partition values from the paths.

        For a single file that also has a column with the key's name, DuckDB takes the statistics of that column for
        those of the folder's value: `max(day)` is the file's own (measured, 1.5.6 and 2.0). With several files it does
        not.
        """
        return shape.native_folders and not (len(self.ordinals) == 1 and _holds_keys(self.kinds, shape))


@dataclass(frozen=True, slots=True)
class _Parts:
    """Slices by the native scan that reads them, and those that none can read."""

    groups: list[_Group]
    others: NDArray[np.intp]


def source_sql(
    snapshot: Snapshot, ordinals: NDArray[np.intp], shape: ScanShape, bind: Bind, reading: Reading
) -> str:
    """Return the text for FROM that reads the base files of some slices: a bare scan if that returns the same as a
    query over it, else the query of `scan_sql`.

    DuckDB 2.0 pushes no condition that may fail (`x % 7 = 1`, a cast) through a query into the scan below.
    """
    ordinals = ordinals[snapshot.has_base[ordinals]]
    wanted = reading.wanted
    shown = shape.narrowed(wanted.may_read) if wanted.narrow else shape
    if not len(ordinals):
        return f"({shown.relation.empty_select()})"
    parts = _alike(snapshot, ordinals, shown, reading)
    group = _alone(snapshot, parts, shape, reading)
    if group is not None and not _answers_by_nan(snapshot, group, shape):
        return _read_parquet(snapshot, group, shape, bind, reading)
    return f"({_query(snapshot, parts, shown, bind, reading)})"


def is_one_scan(snapshot: Snapshot, shape: ScanShape, kinds: FileKinds) -> bool:
    """Tell whether one native scan of all files, or of any subset of them, shows the table unchanged.

    Args:
        snapshot: the snapshot.
        shape: how its columns are read.
        kinds: what is known about its files.
    """
    ordinals = np.arange(len(snapshot), dtype=np.intp)
    reading = Reading(Wanted(lambda _: True, bare=True), kinds)
    if not len(ordinals) or not snapshot.has_base.all() or _holds_keys(_known(kinds), shape):
        return False
    parts = _alike(snapshot, ordinals, shape, reading)
    return _alone(snapshot, parts, shape, reading) is not None


def _known(kinds: FileKinds) -> list[FileColumns]:
    return [column for column in kinds.columns if column is not None]


def _alone(snapshot: Snapshot, parts: _Parts, shape: ScanShape, reading: Reading) -> _Group | None:
    """The group with the files of all slices, if a bare scan of them can replace the table in a statement."""
    if (
        not reading.wanted.bare
        or reading.positions is not None
        or len(parts.groups) != 1
        or len(parts.others)
    ):
        return None
    (group,) = parts.groups
    shown = (
        _shows(group, shape, reading.wanted)
        and not has_further_keys(snapshot, shape)
        and group.takes_folders(shape) == shape.native_folders
    )
    return group if shown else None


def scan_sql(
    snapshot: Snapshot, ordinals: NDArray[np.intp], shape: ScanShape, bind: Bind, reading: Reading
) -> str:
    """Return a query over the base files of some slices.

    Args:
        snapshot: the snapshot.
        ordinals: its slices to read; those without a base file are left out.
        shape: how they are read.
        bind: adds lists of files, and partition values, as parameters.
        reading: what the statement needs from them.
    """
    ordinals = ordinals[snapshot.has_base[ordinals]]
    if not len(ordinals):
        return shape.relation.empty_select()
    return _query(snapshot, _alike(snapshot, ordinals, shape, reading), shape, bind, reading)


def _query(snapshot: Snapshot, parts: _Parts, shape: ScanShape, bind: Bind, reading: Reading) -> str:
    listed = partial(
        listed_sql, shape=shape, bind=bind, may_read=reading.wanted.may_read, deleted=reading.deleted
    )
    where = _stands_at(reading.positions)
    queries = [
        listed(snapshot, group.ordinals, where=where, reckons_with_nan=True)
        if _answers_by_nan(snapshot, group, shape)
        else _native_sql(snapshot, group, shape, bind, reading)
        for group in parts.groups
    ]
    if len(parts.others):
        queries.append(listed(snapshot, parts.others, where=where, reckons_with_nan=snapshot.hides_nan))
    return queries[0] if len(queries) == 1 else " UNION ALL ".join(f"({query})" for query in queries)


def has_further_keys(snapshot: Snapshot, shape: ScanShape) -> bool:
    """Tell whether DuckDB also takes a folder above the table for a partition: it is the same for all files."""
    keys = [path for _, _, path in shape.columns if path is not None]
    if not keys or not shape.native_folders:
        return False
    uri: str = snapshot.value("base_file", int(np.flatnonzero(snapshot.has_base)[0]))
    return sum("=" in folder for folder in uri.split("/")[:-1]) != len(keys)


def _alike(snapshot: Snapshot, ordinals: NDArray[np.intp], shape: ScanShape, reading: Reading) -> _Parts:
    """Group slices by the native scan that can read them, apart from those that none can."""
    kinds = reading.kinds
    by_position = reading.positions is not None or reading.deleted is not None
    none = np.zeros(0, dtype=np.intp)
    if kinds is None or not _reads_partitions(snapshot, ordinals, shape):
        return _Parts([], ordinals)
    numbers = kinds.ordinals[ordinals]
    alike: dict[object, dict[int, FileColumns]] = {}
    # In the order of the files, which determines the order of columns in `union_by_name`.
    distinct, first = np.unique(numbers, return_index=True)
    different: list[int] = distinct[np.argsort(first)].tolist()
    in_one_scan = reading.wanted.ranges or reading.wanted.in_order
    together = reading.wanted.by_name or (len(different) > 1 and in_one_scan)
    whole = reading.wanted.whole_structs and _has_structs(shape)
    whole = whole and not (reading.wanted.by_name and NUMBERS_ROWS_BY_NAME)
    if together and not by_position and not whole:
        one = united_plainly([kinds.columns[number] if number >= 0 else None for number in different])
        # With the statistics of all files, DuckDB 1.5 takes those of a column in the files for those of a folder's key.
        if one is not None and not _may_fail(one, shape, reading) and not _holds_keys((one,), shape):
            return _Parts([_Group((one,), ordinals, by_name=True)], none)
    for number in different:
        columns = kinds.columns[number] if number >= 0 else None
        # A column with such a name hides DuckDB's own.
        if (
            columns is not None
            and not (by_position and (_POSITION in columns.by_name or _FILE in columns.by_name))
            and not _may_fail(columns, shape, reading)
        ):
            alike.setdefault(_signature(columns, shape, reading, number), {})[number] = columns
    if len(alike) == 1 and len(next(iter(alike.values()))) == len(different):
        return _Parts([_Group(tuple(next(iter(alike.values())).values()), ordinals)], none)
    if reading.wanted.in_order:
        return _Parts([], ordinals)
    groups = [
        _Group(tuple(columns.values()), ordinals[np.isin(numbers, list(columns))])
        for columns in alike.values()
    ]
    groups.sort(key=lambda group: -len(group.ordinals))
    groups = sorted(groups[:MOST_SCANS], key=lambda group: int(group.ordinals[0]))
    served = np.concatenate([group.ordinals for group in groups]) if groups else none
    return _Parts(groups, np.setdiff1d(ordinals, served))


def _signature(columns: FileColumns, shape: ScanShape, reading: Reading, number: int) -> object:
    """What files must have in common for one scan: the types of the columns that are read."""
    held = [columns.by_name.get(folded(name)) for name in _read_of_files(shape, reading)]
    types = tuple(None if column is None else column[1] or number for column in held)
    return types, _POSITION in columns.by_name


def _may_fail(columns: FileColumns, shape: ScanShape, reading: Reading) -> bool:
    """Tell whether a column that is read from the files may have values that the table's type cannot represent."""
    wanted = {folded(name): data_type for name, data_type, path in shape.columns if path is None}
    held = [columns.by_name.get(folded(name)) for name in _read_of_files(shape, reading)]
    return any(column and column[1] and may_fail(column[1], wanted[folded(column[0])]) for column in held)


def _read_of_files(shape: ScanShape, reading: Reading) -> list[str]:
    """Names of the files' own columns, except for those that are certain not to be read."""
    return [name for name, _, path in shape.columns if path is None and not reading.wanted.leaves_out(name)]


def _shows(group: _Group, shape: ScanShape, wanted: Wanted) -> bool:
    """Tell whether a bare scan shows the columns that a statement may read as the table has them."""
    own = tuple((name, data_type) for name, data_type, path in shape.columns if path is None)
    keys = [(name, path[0]) for name, _, path in shape.columns if path is not None]
    if any(kind.stored for kind in group.kinds):
        return False
    if any(_ADDED.match(name) for kind in group.kinds for name in kind.by_name):
        return False
    if wanted.whole_structs and _has_structs(shape):
        return False
    if wanted.every or not wanted.narrow:
        in_order = _shown_by(group.kinds[0], shape) == shape.columns
        same = all(_without_keys(kind, shape) == own for kind in group.kinds)
        return same and in_order and (shape.native_folders or not keys) and all(n == k for n, k in keys)
    read = [column for column in own if wanted.may_read(column[0])]
    from_paths = [(name, key) for name, key in keys if wanted.may_read(name)]
    if from_paths and not (shape.native_folders and all(name == key for name, key in from_paths)):
        return False
    return all(kind.by_name.get(folded(column[0])) == column for column in read for kind in group.kinds)


def _has_structs(shape: ScanShape) -> bool:
    return any(data_type.startswith("STRUCT(") for _, data_type, path in shape.columns if path is None)


def _shown_by(
    first: FileColumns, shape: ScanShape
) -> tuple[tuple[str, str | None, tuple[str, ...] | None], ...]:
    """The columns of a scan whose first file is `first`, with the paths of those that are partition values."""
    keys = {folded(path[0]): (path[0], kind, path) for _, kind, path in shape.columns if path is not None}
    shown: list[tuple[str, str | None, tuple[str, ...] | None]] = []
    for name, held in first.columns:
        _, kind, path = keys.pop(folded(name), (name, held, None))
        shown.append((name, kind, path))
    # DuckDB sorts the columns that it adds by name.
    return (*shown, *sorted(keys.values()))


def _without_keys(kind: FileColumns, shape: ScanShape) -> tuple[tuple[str, str | None], ...]:
    keys = _keys(shape)
    return tuple(column for column in kind.columns if folded(column[0]) not in keys)


def _holds_keys(kinds: Sequence[FileColumns], shape: ScanShape) -> bool:
    """Tell whether some of the files have a column with the name of a partition key in the shape."""
    return any(key in kind.by_name for key in _keys(shape) for kind in kinds)


def _keys(shape: ScanShape) -> frozenset[str]:
    return frozenset(folded(path[0]) for _, _, path in shape.columns if path is not None)


def _reads_partitions(snapshot: Snapshot, ordinals: NDArray[np.intp], shape: ScanShape) -> bool:
    """Tell whether a native scan has the partition values: from the paths, or as constants."""
    if shape.native_folders or all(path is None for _, _, path in shape.columns):
        return True
    return bool((snapshot.partition_ordinals[ordinals] == snapshot.partition_ordinals[ordinals[0]]).all())


def _native_sql(snapshot: Snapshot, group: _Group, shape: ScanShape, bind: Bind, reading: Reading) -> str:
    """A query over files that DuckDB reads alike."""
    columns = group.kinds[0]
    has_positions = _POSITION not in columns.by_name
    read = frozenset(_read_of_files(shape, reading))
    from_folders = group.takes_folders(shape)
    selected: list[str] = []
    for name, data_type, path in shape.columns:
        if path is None:
            held = columns.by_name.get(folded(name)) if name in read else None
            whole = reading.wanted.whole_structs and has_positions and data_type.startswith("STRUCT(")
            selected.append(_column(held, name, data_type, shape, whole=whole))
        elif from_folders:
            selected.append(quote(path[0]) if path[0] == name else f"{quote(path[0])} AS {quote(name)}")
        else:
            partition = snapshot.partition_ordinals[group.ordinals[:1]].astype(np.intp)
            (value,) = folder_values(snapshot, partition, path, data_type, as_written=shape.by_folders)
            selected.append(f"{from_text(bind, value, data_type)} AS {quote(name)}")
    scan = _read_parquet(snapshot, group, shape, bind, reading)
    # DuckDB skips files only by values that it reads from their paths.
    without = anti_join(reading.deleted, group.ordinals, by_name=bool(_keys(shape)) and from_folders)
    return f"SELECT {', '.join(selected)} FROM {scan}{without}{_stands_at(reading.positions)}"


def _answers_by_nan(snapshot: Snapshot, group: _Group, shape: ScanShape) -> bool:
    """Tell whether DuckDB must account for NaN in a scan with one statistic for all of its rows.

    It would then answer `max(x)` with NaN from that statistic, whether there is any or not (measured, 2.0). With an
    explicit schema it does not.
    """
    narrowed = len(group.ordinals) < len(snapshot) or snapshot.hides_nan
    return narrowed and (len(group.ordinals) == 1 or group.by_name) and bool(nan_option(shape.columns))


def _read_parquet(snapshot: Snapshot, group: _Group, shape: ScanShape, bind: Bind, reading: Reading) -> str:
    """The native scan of some files."""
    if reading.wanted.by_pattern and len(group.ordinals) == len(snapshot) and reading.positions is None:
        files = bind(snapshot.glob)
    else:
        uris: list[Any] = snapshot.columns.column("base_file").take(positions(group.ordinals)).to_pylist()
        files = bind([file_name(uri) for uri in uris])
    keys = [
        # Here DuckDB parses neither types of several words nor those with arguments.
        f"{quote_text(path[0])}: {quote_text(data_type.replace('TIMESTAMP WITH TIME ZONE', 'TIMESTAMPTZ'))}"
        for _, data_type, path in shape.columns
        if path is not None and group.takes_folders(shape)
    ]
    folders = f"hive_partitioning = {'true' if keys else 'false'}"
    if keys:
        folders += f", hive_types_autocast = false, hive_types = {{{', '.join(keys)}}}"
    by_name = ", union_by_name = true" if group.by_name else ""
    nan = nan_option(shape.columns) if snapshot.hides_nan else ""
    numbers = WITH_ROW_NUMBERS if _stands_at(reading.positions) else ""
    return f"{READ_PARQUET}({files}, {folders}, binary_as_string = false{by_name}{nan}{numbers})"


def _column(
    held: tuple[str, str | None] | None, name: str, data_type: str, shape: ScanShape, *, whole: bool
) -> str:
    """One column of the files, converted to the table's name and type."""
    if held is None:
        return f"NULL::{data_type} AS {quote(name)}"
    stored = shape.stored.get(name)
    value = quote(held[0] if stored is None else stored.name)
    if stored is not None:
        value = stored.as_in_table(value, held[1])
    if whole:
        value = _READ_WHOLE.format(value)
    if held[1] != data_type:
        value = f"{value}::{data_type}"
    return value if value == quote(name) else f"{value} AS {quote(name)}"


def _stands_at(positions: NDArray[np.uint32] | None) -> str:
    """A WHERE for these rows. Only a list of constants lets DuckDB skip row groups."""
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
        if has_floats(field.type) or HANDS_ARROW_ANY_FILTER:
            value = f"CASE WHEN {ALWAYS} THEN {value} END"
        selected.append(f"({value})::{data_type} AS {quote(name)}")
    return f"SELECT {', '.join(selected)} FROM {source}"
