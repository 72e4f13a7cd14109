"""The positions of rows in data files that position and equality deletes remove.

Source: the Iceberg table specification, "Position Delete Files", "Deletion Vectors", "Equality Delete Files" and "Scan
Planning". An equality delete removes a row with its values in all of its columns, NULL being equal to NULL, if the
delete is newer than the data file. Values compare as in Java: NaN equals NaN, -0.0 does not equal 0.0, and a NULL
struct does not equal one whose fields are NULL.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pruner.arrow import arrow, as_numpy, compute, null_unless, nulls, truth_array
from pruner.errors import StorageError, TableError
from pruner.storage.opening import open_for_arrow, read_ranges
from pruner.tables.deletion_vectors import row_positions, unframed
from pruner.tables.footers.file_schemas import field_id, has_field_ids
from pruner.tables.iceberg.places import place_of
from pruner.tables.iceberg.schema import numbered
from pruner.tables.iceberg.values import value_of_partition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.tables.iceberg.deletes import DeleteFile, DeletesOf
    from pruner.tables.iceberg.schema import LeafField, NameMapping

_PARQUET: Final = "parquet"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file to which equality deletes apply; `constants` has the column values in its partition, as stored."""

    uri: str
    size: int
    sequence_number: int
    constants: Mapping[int, Any]


@dataclass(slots=True)
class _Keys:
    """The keys of some deletes, numbered, with the newest delete of each.

    Columns are combined one after another: the number of a key of the first n columns is found by that of the first
    n - 1 and by the index of the last value in `values`. `pairs` has both as one number, ascending.
    """

    values: list[Any] = field(default_factory=list[Any])
    pairs: list[NDArray[np.int64]] = field(default_factory=list["NDArray[np.int64]"])
    newest: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(cls, columns: Sequence[Any], sequence_numbers: NDArray[np.int64]) -> _Keys:
        """Number the keys of deletes, given as `columns`."""
        keys = cls()
        numbers = np.zeros(len(sequence_numbers), np.int64)
        for column in columns:
            distinct = compute.unique(column)
            keys.values.append(distinct)
            own = as_numpy(compute.index_in(column, value_set=distinct)).astype(np.int64)
            pairs, numbers = np.unique(numbers * len(distinct) + own, return_inverse=True)
            keys.pairs.append(pairs)
        keys.newest = np.zeros(int(numbers.max(initial=-1)) + 1, np.int64)
        np.maximum.at(keys.newest, numbers, sequence_numbers)
        return keys

    def deleted(self, columns: Sequence[Any], sequence_number: int) -> NDArray[np.bool_]:
        """Tell which rows of a data file the deletes remove."""
        count = len(columns[0])
        numbers = np.zeros(count, np.int64)
        known = np.full(count, bool(len(self.newest)))
        for column, distinct, pairs in zip(columns, self.values, self.pairs, strict=True):
            own: Any = compute.index_in(column, value_set=distinct)
            values = as_numpy(compute.fill_null(own, -1)).astype(np.int64)
            wanted = numbers * len(distinct) + values
            at = np.minimum(np.searchsorted(pairs, wanted), max(len(pairs) - 1, 0))
            known &= (values >= 0) & (pairs[at] == wanted if len(pairs) else False)
            numbers = np.where(known, at, 0)
        mask = np.zeros(count, np.bool_)
        mask[known] = self.newest[numbers[known]] > sequence_number
        return mask


class EqualityDeletes:
    """The keys in some delete files, each file read once."""

    def __init__(
        self,
        leaves: Mapping[int, LeafField],
        root: str,
        options: Mapping[str, str],
        mapping: NameMapping | None = None,
    ) -> None:
        """`leaves` are all columns that the table ever had, by field id; `mapping` is for files without field ids."""
        self._leaves = leaves
        self._mapping = mapping
        self._root = root
        self._options = options
        self._read: dict[DeleteFile, list[Any]] = {}
        self._keys: dict[tuple[tuple[int, ...], frozenset[DeleteFile]], _Keys] = {}

    def positions(self, file: DataFile, deletes: frozenset[DeleteFile]) -> NDArray[np.uint64]:
        """The positions of the rows of a data file that some deletes remove; only deletes newer than the file count.

        Raises:
            TableError: a file cannot be read.
        """
        by_ids: dict[tuple[int, ...], set[DeleteFile]] = {}
        for each in deletes:
            by_ids.setdefault(tuple(sorted(set(each.equality_ids))), set()).add(each)
        if () in by_ids:
            raise TableError(
                f"the manifests of {self._root} name equality deletes without their columns: they are damaged"
            )
        keys = {ids: self._keys_of(ids, frozenset(deletes)) for ids, deletes in by_ids.items()}
        wanted = sorted({id_ for ids in keys for id_ in ids})
        positions: list[NDArray[np.uint64]] = [np.empty(0, np.uint64)]
        start = 0
        for by_id in self._columns(file.uri, file.size, wanted, file.constants):
            removed = np.zeros(len(by_id[wanted[0]][0]), np.bool_)
            for ids, each in keys.items():
                removed |= each.deleted([part for id_ in ids for part in by_id[id_]], file.sequence_number)
            positions.append((np.flatnonzero(removed) + start).astype(np.uint64))
            start += len(removed)
        return np.concatenate(positions)

    def _keys_of(self, ids: tuple[int, ...], deletes: frozenset[DeleteFile]) -> _Keys:
        known = self._keys.get((ids, deletes))
        if known is None:
            files = sorted(deletes, key=lambda each: each.path)
            parts = [self._of_delete(file, ids) for file in files]
            numbers = np.repeat(
                np.array([file.sequence_number for file in files], np.int64),
                [len(part[0]) for part in parts],
            )
            columns = [arrow.concat_arrays(list(chunks)) for chunks in zip(*parts, strict=True)]
            known = self._keys[ids, deletes] = _Keys.of(columns, numbers)
        return known

    def _of_delete(self, delete: DeleteFile, ids: tuple[int, ...]) -> list[Any]:
        known = self._read.get(delete)
        if known is None:
            uri = place_of(delete.path, self._root)
            if delete.format.lower() != _PARQUET:
                raise TableError(
                    f"{uri} has equality deletes of format {delete.format}: Parquet alone is read"
                )
            groups = self._columns(uri, delete.size, ids, {}, must_have=True)
            groups = groups or [
                {id_: self._compared(id_, [], nulls(0, self._leaves[id_].type)) for id_ in ids}
            ]
            parts = [[part for id_ in ids for part in group[id_]] for group in groups]
            known = [arrow.concat_arrays(list(chunks)) for chunks in zip(*parts, strict=True)]
            self._read[delete] = known
        return known

    def _columns(
        self,
        uri: str,
        size: int,
        ids: Sequence[int],
        constants: Mapping[int, Any],
        *,
        must_have: bool = False,
    ) -> list[dict[int, list[Any]]]:
        """The columns to compare in a file, row group by row group: see `_compared`."""
        for id_ in ids:
            if id_ not in self._leaves:
                raise TableError(
                    f"the manifests of {self._root} name equality deletes by column {id_}, which the table never had: "
                    "they are damaged"
                )
        try:
            source: Any = open_for_arrow(uri, size, self._options)
            file: Any = pq.ParquetFile(source)
            fields: list[Any] = list(file.schema_arrow)
            places = _places(fields if has_field_ids(fields) else numbered(fields, self._mapping))
            missing = [id_ for id_ in ids if id_ not in places]
            if missing and must_have:
                raise TableError(
                    f"{uri}, which says what rows are deleted, lacks column {missing[0]}: restore it"
                )
            return [
                self._group(file, number, ids, places, constants) for number in range(file.num_row_groups)
            ]
        except (OSError, StorageError, pa.ArrowException, KeyError) as error:
            what = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error}"
            raise TableError(f"{uri}, which equality deletes need, {what}") from None

    def _group(
        self,
        file: Any,
        number: int,
        ids: Sequence[int],
        places: Mapping[int, tuple[list[str], list[int]]],
        constants: Mapping[int, Any],
    ) -> dict[int, list[Any]]:
        rows = file.metadata.row_group(number).num_rows
        held = {id_ for wanted in ids for id_ in (wanted, *self._leaves[wanted].above) if id_ in places}
        leaves = sorted({leaf for id_ in held for leaf in places[id_][1]})
        # By index: pyarrow splits names at dots.
        table: Any = (
            file.reader.read_row_group(number, column_indices=leaves, use_threads=False) if leaves else None
        )

        def values(id_: int) -> Any:
            (name, *inner), _ = places[id_]
            column: Any = table.column(name).combine_chunks()
            for each in inner:
                column = compute.struct_field(column, each)
            return column

        groups: dict[int, list[Any]] = {}
        for id_ in ids:
            leaf = self._leaves[id_]
            above = [values(level) if level in held else nulls(rows, pa.null()) for level in leaf.above]
            if id_ in held:
                column = values(id_)
            elif constants.get(id_) is not None:
                column = arrow.repeat(value_of_partition(constants[id_], leaf.type), rows)
            elif leaf.default is not None and id_ not in constants:
                column = _storage(arrow.repeat(leaf.default, rows))
                for level in above:
                    column = null_unless(compute.is_valid(level), column)
            else:
                column = nulls(rows, leaf.type)
            groups[id_] = self._compared(id_, above, column)
        return groups

    def _compared(self, id_: int, above: Sequence[Any], column: Any) -> list[Any]:
        """The columns to compare for one: whether each enclosing struct is not NULL, and its value."""
        leaf = self._leaves[id_]
        there = [compute.is_valid(name) for name in above] or [truth_array([])] * len(leaf.above)
        return [*there, _comparable(column, leaf.type)]


def _places(schema: Any) -> dict[int, tuple[list[str], list[int]]]:
    """The columns of a file, and fields in structs, by field ids: their paths, and their leaf columns."""
    places: dict[int, tuple[list[str], list[int]]] = {}
    leaf = 0

    def walk(entry: Any, above: list[str], *, named: bool) -> list[int]:
        nonlocal leaf
        path = [*above, entry.name]
        type_: Any = entry.type
        while isinstance(type_, pa.BaseExtensionType):
            type_ = type_.storage_type
        is_map, is_struct = pa.types.is_map(type_), pa.types.is_struct(type_)
        inner: list[Any] = [type_.field(at) for at in range(type_.num_fields)]
        if is_map:
            inner = [type_.key_field, type_.item_field]
        if inner:
            leaves = [number for name in inner for number in walk(name, path, named=named and is_struct)]
        else:
            leaves = [leaf]
            leaf += 1
        id_ = field_id(entry)
        if named and id_ is not None:
            places[id_] = (path, leaves)
        return leaves

    for each in schema:
        walk(each, [], named=True)
    return places


def _storage(column: Any) -> Any:
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _comparable_type(type_: pa.DataType) -> pa.DataType:
    if isinstance(type_, pa.BaseExtensionType):
        return type_.storage_type
    if pa.types.is_float32(type_):
        return pa.int32()
    return pa.int64() if pa.types.is_float64(type_) else type_


def _comparable(column: Any, type_: pa.DataType) -> Any:
    """A column in which two values are equal where they are in Java: floats as their bits, with one NaN."""
    column = _storage(column)
    target = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_
    column = column.cast(target)
    if not pa.types.is_floating(target):
        return column
    column = compute.if_else(compute.is_nan(column), arrow.scalar(float("nan"), target), column)
    return column.view(_comparable_type(target))


_FILE, _POSITION = "file_path", "pos"


@dataclass(frozen=True, slots=True)
class ByValue:
    """The inputs for applying equality deletes: each data file's size, sequence number and partition, in order.

    `columns` are all that the table ever had, by field id, and `identities` has for each spec the columns whose values
    are in the partition tuple, with their positions there.
    """

    sizes: Sequence[int]
    sequence_numbers: Sequence[int]
    partitions: Sequence[tuple[int, tuple[Any, ...]]]
    columns: Mapping[int, LeafField]
    identities: Mapping[int, Mapping[int, int]]
    mapping: NameMapping | None = None

    def file(self, ordinal: int, uri: str) -> DataFile:
        """The data file of an ordinal."""
        spec_id, values = self.partitions[ordinal]
        constants = {id_: values[place] for id_, place in self.identities[spec_id].items()}
        return DataFile(uri, self.sizes[ordinal], self.sequence_numbers[ordinal], constants)


class IcebergDeletes:
    """The deletes of a snapshot: see `CountedDeletes`. A file with several loses the rows of all of them."""

    def __init__(
        self,
        deletes: Sequence[DeletesOf | None],
        locations: Sequence[str],
        root: str,
        options: Mapping[str, str],
        by_value: ByValue,
    ) -> None:
        """`deletes` and `locations`, as in the manifests, are those of each data file in order."""
        self._deletes = deletes
        self._locations = locations
        self._root = root
        self._options = options
        self._by_value = by_value
        self.slices: NDArray[np.bool_] = np.array([delete is not None for delete in deletes], np.bool_)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """See `CountedDeletes`: the manifest has the count where a file's only delete is one deletion vector."""
        counts = np.where(self.slices, -1, 0)
        for ordinal in np.flatnonzero(self.slices).tolist():
            deletes = self._deletes[ordinal]
            if deletes is None or deletes.equality or len(deletes.positions) != 1:
                continue
            (delete,) = deletes.positions
            # For other delete files it is unknown how many positions are for this file, and whether each occurs once.
            if delete.is_vector and delete.referenced_file == self._locations[ordinal]:
                counts[ordinal] = delete.rows
        return counts

    def of(self, ordinal: int) -> DeletesOf | None:
        """The delete files that can apply to a slice; None where there is none."""
        return self._deletes[ordinal]

    def positions(self, ordinals: NDArray[np.intp]) -> list[NDArray[np.uint64]]:
        """Read the deletes of some slices, each delete file once: see `RowDeletes`."""
        wanted: dict[DeleteFile, list[int]] = defaultdict(list)
        for number, ordinal in enumerate(ordinals.tolist()):
            deletes = self._deletes[int(ordinal)]
            for each in () if deletes is None else deletes.positions:
                wanted[each].append(number)
        parts: list[list[NDArray[np.uint64]]] = [[] for _ in ordinals]
        for delete, numbers in wanted.items():
            names = [self._locations[int(ordinals[number])] for number in numbers]
            read = [self._vector(delete)] if delete.is_vector else self._of_file(delete, names)
            for number, rows in zip(numbers, read, strict=True):
                parts[number].append(rows)
        self._take_equal_rows(ordinals, parts)
        return [np.unique(np.concatenate([np.empty(0, np.uint64), *part])) for part in parts]

    def _take_equal_rows(self, ordinals: NDArray[np.intp], parts: list[list[NDArray[np.uint64]]]) -> None:
        """Add the rows that equality deletes remove.

        Files of one partition share the keys of all its deletes, even of those older than a file: a table written by
        upserts has a different set of deletes for every file.
        """
        deletes = {
            number: deletes_of_file.equality
            for number, ordinal in enumerate(ordinals.tolist())
            if (deletes_of_file := self._deletes[int(ordinal)]) is not None and deletes_of_file.equality
        }
        of_partition: dict[tuple[int, tuple[Any, ...]], set[DeleteFile]] = defaultdict(set)
        for number, deletes_of_file in deletes.items():
            of_partition[self._by_value.partitions[int(ordinals[number])]].update(deletes_of_file)
        reading = EqualityDeletes(self._by_value.columns, self._root, self._options, self._by_value.mapping)
        for number in deletes:
            ordinal = int(ordinals[number])
            shared = frozenset(of_partition[self._by_value.partitions[ordinal]])
            file = self._by_value.file(ordinal, place_of(self._locations[ordinal], self._root))
            parts[number].append(reading.positions(file, shared))

    def _vector(self, delete: DeleteFile) -> NDArray[np.uint64]:
        uri = place_of(delete.path, self._root)
        if delete.offset is None or delete.length is None:
            raise TableError(
                f"the manifests of {self._root} name a deletion vector in {uri}, but not where it stands"
            )
        try:
            (data,) = read_ranges(uri, [(delete.offset, delete.length)], self._options)
        except (OSError, StorageError) as error:
            raise self._unreadable(uri, error) from None
        positions = row_positions(unframed(data, uri, delete.offset), uri)
        if len(positions) != delete.rows:
            raise TableError(
                f"{uri} has a deletion vector of {len(positions)} rows, and the manifest says {delete.rows}: restore it"
            )
        return positions

    def _of_file(self, delete: DeleteFile, names: Sequence[str]) -> list[NDArray[np.uint64]]:
        """The positions in a position delete file for each of some data files."""
        uri = place_of(delete.path, self._root)
        if delete.format.lower() != _PARQUET:
            raise TableError(f"{uri} has position deletes of format {delete.format}: Parquet alone is read")
        try:
            source: Any = open_for_arrow(uri, delete.size, self._options)
            file: Any = pq.ParquetFile(source)
            table = file.read(columns=[_FILE, _POSITION])
            paths = table.column(_FILE).cast(pa.string())
            rows = table.column(_POSITION).cast(pa.int64())
        except (OSError, StorageError, pa.ArrowException, KeyError) as error:
            raise self._unreadable(uri, error) from None
        if paths.null_count or rows.null_count or (len(rows) and compute.min(rows).as_py() < 0):
            raise TableError(
                f"{uri}, which says what rows are deleted, is damaged: a file or position is missing"
            )
        numbers: Any = compute.index_in(paths, value_set=arrow.array(list(names), pa.string()))
        at = as_numpy(numbers.combine_chunks().fill_null(-1))
        values: NDArray[np.uint64] = as_numpy(rows.combine_chunks()).astype(np.uint64)
        return [values[at == number] for number in range(len(names))]

    def _unreadable(self, uri: str, error: Exception) -> TableError:
        what = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error}"
        return TableError(f"{uri}, which says what rows are deleted, {what}")
