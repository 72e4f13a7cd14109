"""The sought keys, and the rows of slices that have them, merged where there are log files.

Each distinct key is sought once, with the types of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, compute
from pruner.errors import SchemaError, first_line
from pruner.planning.row_reader import in_groups, opened
from pruner.tables.hudi.merging.slices import SliceMerger
from pruner.tables.snapshot import SliceSequence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.indexes.optional import Located
    from pruner.schema import Field, TableSchema
    from pruner.tables.snapshot import Snapshot
    from pruner.verdict import Mask

    Integers = NDArray[np.int64]

LOCATION = pa.schema(
    [
        pa.field("partition_path", pa.string()),
        pa.field("file_id", pa.string()),
        pa.field("base_instant", pa.string()),
    ]
)
"""What is reported for each key; `file_id` is null for a new one."""

NUMBER = "__key"
"""Column with the position of a key."""


def fields_of(keys: pa.Schema, schema: TableSchema) -> list[Field]:
    """The columns of the table that the columns of the keys name.

    Raises:
        SchemaError: there is no such column, or it cannot be a key.
    """
    if not keys.names:
        raise SchemaError("keys have no column: give those that make up the key of the table")
    taken = sorted({*LOCATION.names, NUMBER} & set(keys.names))
    if taken:
        raise SchemaError(f"keys have a column {taken[0]!r}, which the result needs: rename it")
    fields = [schema.find((name,)) for name in keys.names]
    for field in fields:
        if field.dispute is not None:
            raise SchemaError(f"column {field.name!r} cannot be a key: {field.dispute}")
        if pa.types.is_nested(field.type) or pa.types.is_floating(field.type):
            raise SchemaError(f"column {field.name!r} of type {field.type_name} cannot be a key")
        if field.partition and field.in_file:
            raise SchemaError(f"column {field.name!r} is in both paths and files: it cannot be a key")
    return fields


def typed(keys: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """The keys with the table's types, and numbers as column names.

    Raises:
        SchemaError: a column has values that do not fit the table's type.
    """
    columns: list[Any] = []
    for name, field in zip(keys.column_names, fields, strict=True):
        columns.append(as_type(keys.column(name), field, f"keys: column {name!r}"))
    return pa.table(columns, names=[str(number) for number in range(len(columns))])


def as_type(column: Any, field: Field, what: str) -> Any:
    """A column with the table's type.

    Raises:
        SchemaError: it has values that do not fit this type, or only one of the two is an instant.
    """
    types, zones = pa.types, [getattr(side, "tz", None) is None for side in (column.type, field.type)]
    clocks = types.is_timestamp(column.type) and types.is_timestamp(field.type) and zones[0] is not zones[1]
    try:
        if clocks:
            raise pa.ArrowInvalid("one is an instant, the other a wall clock")
        return column.cast(field.type)
    except pa.ArrowException as error:
        reason = first_line(error)
        if types.is_string(column.type) and field.type == pa.binary(16):
            reason = "give UUIDs as their 16 bytes, uuid.UUID(text).bytes"
        raise SchemaError(
            f"{what} of type {column.type} does not convert to the table's {field.type_name}: {reason}"
        ) from None


def distinct(keys: pa.Table) -> tuple[pa.Table, NDArray[np.int64]]:
    """The distinct keys without NULL, with their numbers as `NUMBER`, and the number of each key, -1 with NULL."""
    names = keys.column_names
    if len(names) == 1 and not isinstance(keys.schema.types[0], pa.BaseExtensionType):
        encoded = cast("Any", keys.column(0).combine_chunks()).dictionary_encode()
        order = arrow.array(np.arange(len(encoded.dictionary)))
        return arrow.table([encoded.dictionary, order], names=[*names, NUMBER]), encoded.indices.fill_null(
            -1
        ).to_numpy().astype(np.int64)
    rows: Any = keys.append_column(NUMBER, pa.array(np.arange(keys.num_rows)))
    known = rows.drop_null()
    firsts: Any = known.group_by(names).aggregate([(NUMBER, "min")]).sort_by(f"{NUMBER}_min")
    different = firsts.select(names).append_column(NUMBER, arrow.array(np.arange(firsts.num_rows)))
    joined = known.rename_columns([*names, "row"]).join(different, keys=names)
    numbers = np.full(keys.num_rows, -1, np.int64)
    numbers[joined.column("row").to_numpy()] = joined.column(NUMBER).to_numpy()
    return different, numbers


def ends(values: Any) -> Any:
    """The minimum and the maximum of some values."""
    order: list[int] = compute.array_sort_indices(values).to_pylist()
    return values.take([order[0], order[-1]])


def literals(values: pa.Array[Any], type_: pa.DataType) -> list[Any]:
    """Values as `pruner.expr.values` has them."""
    types, plain = pa.types, cast("Any", values)
    if types.is_timestamp(type_) or types.is_time64(type_):
        return plain.cast(pa.int64()).to_pylist()
    if types.is_time32(type_):
        return plain.cast(pa.int32()).to_pylist()
    return (plain.storage if isinstance(plain, pa.ExtensionArray) else plain).to_pylist()


FILES_AT_ONCE = 8
ROWS_AT_ONCE = 1 << 22
"""Rows that are searched for keys together."""

_SLICE = "__slice"
_SLICE_BITS = 31
"""Bits of an ordinal, which is an int32 wherever it is stored."""


class Pairs(NamedTuple):
    """Which key is in which slice: numbers of keys and ordinals of slices."""

    keys: Integers
    slices: Integers


NO_PAIRS = Pairs(np.empty(0, np.int64), np.empty(0, np.int64))


class KeyReader:
    """Reads the key columns of the slices of one snapshot."""

    def __init__(self, snapshot: Snapshot, fields: Sequence[Field], options: Mapping[str, str]) -> None:
        self._snapshot = snapshot
        self._fields = fields
        self._options = options
        self._merger: SliceMerger | None = None
        self.to_merge: Mask = snapshot.has_changes | ~snapshot.has_base
        """The slices whose base file alone does not tell which keys they hold."""

    def confirmed(self, located: Located, keys: pa.Table) -> Pairs:
        """The rows that really have their key: two keys may share a hash. No row may be of a slice in `to_merge`.

        Raises:
            SchemaError, StorageError: a file cannot be read.
        """
        if not len(located.slices):
            return NO_PAIRS
        at = located.positions()
        order = np.lexsort((at, located.slices))
        which, slices, positions = located.which[order], located.slices[order], at[order]
        starts = np.flatnonzero(np.diff(slices, prepend=-1))
        behind = np.append(starts[1:], len(slices))
        tasks = [
            (int(slices[start]), which[start:end], positions[start:end])
            for start, end in zip(starts.tolist(), behind.tolist(), strict=True)
        ]
        with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
            pairs = pool.map(partial(self._confirmed, keys), *zip(*tasks, strict=True))
            return joined([NO_PAIRS, *pairs])

    def _confirmed(self, keys: pa.Table, ordinal: int, which: Integers, positions: Integers) -> Pairs:
        distinct, turn = np.unique(positions, return_inverse=True)
        tables = list(self._groups(ordinal, distinct))
        if not tables:
            return NO_PAIRS
        rows = pa.concat_tables(tables).take(arrow.array(turn))
        wanted = keys.take(arrow.array(which))
        same = np.ones(len(which), np.bool_)
        for name in rows.column_names:
            same &= np.asarray(compute.equal(rows.column(name), wanted.column(name)).fill_null(False))
        return Pairs(which[same], np.full(int(same.sum()), ordinal))

    def found(self, ordinals: NDArray[np.intp], keys: pa.Table) -> Pairs:
        """The keys that some slices hold; all rows of these slices are read.

        Raises:
            TableError: a slice cannot be merged as Hudi merges it.
            SchemaError, StorageError: a file cannot be read.
        """
        self._prepare(ordinals[(self._snapshot.has_logs | ~self._snapshot.has_base)[ordinals]])
        parts, waiting, rows = [NO_PAIRS], list[pa.Table](), 0
        with ThreadPoolExecutor(FILES_AT_ONCE) as pool:
            for start in range(0, len(ordinals), FILES_AT_ONCE):
                for table in pool.map(self._whole, ordinals[start : start + FILES_AT_ONCE].tolist()):
                    waiting.append(table)
                    rows += table.num_rows
                if rows >= ROWS_AT_ONCE:
                    parts.append(_matching(waiting, keys))
                    waiting, rows = [], 0
        return joined([*parts, _matching(waiting, keys)])

    def _whole(self, ordinal: int) -> pa.Table:
        snapshot = self._snapshot
        if snapshot.has_logs[ordinal] or not snapshot.has_base[ordinal]:
            groups = self._merged(ordinal)
        else:
            groups = self._groups(ordinal, None)
        tables = [group.drop_null() for group in groups]
        if not tables:
            return self._empty(0).append_column(_SLICE, pa.array([], pa.int64()))
        table = pa.concat_tables(tables)
        return table.append_column(_SLICE, pa.array(np.full(table.num_rows, ordinal)))

    def _groups(self, ordinal: int, positions: Integers | None) -> Iterator[pa.Table]:
        """The keys of a slice, row group by row group, at some ascending positions or all; NULL where it has none.

        When all are read, rows with separately stored deletes are left out.
        """
        uri = self._snapshot.value("base_file", ordinal)
        file = opened(uri, self._options)
        there: set[str] = set(file.schema_arrow.names)
        in_file = [field for field in self._fields if field.in_file]
        for field in in_file:
            self._check_name(field.in_files(), there, uri)
        names = [name for name in (field.recorded[0] for field in in_file) if name in there]
        if positions is None and self._snapshot.has_deletes[ordinal]:
            positions = self._left(ordinal, file.metadata.num_rows)
        for number, within in in_groups(file, None if positions is None else positions.astype(np.uint32)):
            group: Any = file.read_row_group(number, columns=names)
            if within is not None:
                group = group.take(arrow.array(within))
            rows = file.metadata.row_group(number).num_rows if within is None else len(within)
            columns = [self._column(field, group, rows, ordinal, uri) for field in self._fields]
            yield arrow.table(columns, names=[str(number) for number in range(len(columns))])

    def _left(self, ordinal: int, rows: int) -> Integers:
        """The positions in a base file of the rows that are not deleted."""
        assert self._snapshot.deletes is not None
        left = np.ones(rows, np.bool_)
        (deleted,) = self._snapshot.deletes.positions(np.array([ordinal]))
        left[deleted.astype(np.intp)] = False
        return np.flatnonzero(left)

    def _column(self, field: Field, group: Any, rows: int, ordinal: int, uri: str) -> Any:
        stored = field.recorded[0]
        if stored in group.column_names:
            return as_type(group.column(stored), field, f"{uri}: column {field.name!r}")
        if field.in_file:
            return arrow.nulls(rows, field.type)
        partitions = self._snapshot.partitions
        value = partitions.values[field.path][int(self._snapshot.partition_ordinals[ordinal])]
        return arrow.repeat(value, rows).cast(field.type)

    def _check_name(self, field: Field, there: set[str], uri: str) -> None:
        alike = {name for name in there if name.lower() == field.name.lower()}
        if alike - {field.name} or (not alike and not field.absent_is_null):
            raise SchemaError(
                f"column {field.name!r} is not in {uri} by that name, and may not be NULL there"
            )

    def _prepare(self, ordinals: NDArray[np.intp]) -> None:
        """Get ready to merge slices.

        Raises:
            TableError: one of them cannot be merged as Hudi merges it.
        """
        if len(ordinals):
            self._merger = SliceMerger(self._snapshot.root, self._snapshot, self._options, None)
            self._merger.require_mergeable(SliceSequence(self._snapshot, ordinals))

    def _merged(self, ordinal: int) -> Iterator[pa.Table]:
        """The keys of a slice with log files, as a snapshot read has them: later rows and deletions apply."""
        assert self._merger is not None
        entry, absent = self._snapshot.slices[ordinal], self._merger.absent
        names = [field.name for field in self._fields if field.in_file and field.name not in absent]
        for batch in self._merger.batches(entry, names):
            group: Any = arrow.table(batch)
            columns = [
                self._column(field, group, batch.num_rows, ordinal, f"file group {entry.file_id}")
                for field in self._fields
            ]
            yield arrow.table(columns, names=[str(number) for number in range(len(columns))])

    def _empty(self, rows: int) -> Any:
        columns = [arrow.nulls(rows, field.type) for field in self._fields]
        return arrow.table(columns, names=[str(number) for number in range(len(columns))])


def _matching(tables: Sequence[pa.Table], keys: pa.Table) -> Pairs:
    if not tables:
        return NO_PAIRS
    names = [name for name in keys.column_names if name != NUMBER]
    rows = pa.concat_tables(tables)
    pairs = rows.join(keys, keys=names, join_type="inner")
    return Pairs(*(pairs.column(name).to_numpy().astype(np.int64) for name in (NUMBER, _SLICE)))


def joined(parts: Sequence[Pairs]) -> Pairs:
    """All pairs, each once, ordered by key and slice."""
    keys, slices = (np.concatenate(part) for part in zip(*parts, strict=True))
    if not len(keys):
        return NO_PAIRS
    # One number per pair, sorted: `np.unique` takes ten times as long for these, and twenty for rows of two.
    both = np.sort(keys << _SLICE_BITS | slices)
    both = both[np.diff(both, prepend=-1) > 0]
    return Pairs(both >> _SLICE_BITS, both & ((1 << _SLICE_BITS) - 1))
