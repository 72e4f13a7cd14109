"""The rows of data files that deletes remove, by their positions: see `pruner.tables.snapshot.RowDeletes`.

Source: the Iceberg table specification, "Position Delete Files" and "Deletion Vectors".
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pruner.arrow import arrow, as_numpy, compute
from pruner.errors import StorageError, TableError
from pruner.storage.files import open_for_arrow, read_ranges
from pruner.tables.deletion_vectors import row_positions, unframed
from pruner.tables.iceberg.equality import DataFile, EqualityDeletes
from pruner.tables.iceberg.places import place_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.tables.iceberg.deletes import DeleteFile, DeletesOf
    from pruner.tables.iceberg.name_mapping import NameMapping
    from pruner.tables.iceberg.schema import Leaf

_FILE, _POSITION = "file_path", "pos"
_PARQUET: Final = "parquet"


@dataclass(frozen=True, slots=True)
class ByValue:
    """What equality deletes are applied by: for each data file its size, sequence number and partition, in order.

    `columns` are all that the table ever had, by field id, and `identities` has for each spec the
    columns whose values stand in the partition tuple, with their places there.
    """

    sizes: Sequence[int]
    sequence_numbers: Sequence[int]
    partitions: Sequence[tuple[int, tuple[Any, ...]]]
    columns: Mapping[int, Leaf]
    identities: Mapping[int, Mapping[int, int]]
    mapping: NameMapping | None = None

    def file(self, ordinal: int, uri: str) -> DataFile:
        """What is known of a data file."""
        spec_id, values = self.partitions[ordinal]
        constants = {id_: values[place] for id_, place in self.identities[spec_id].items()}
        return DataFile(uri, self.sizes[ordinal], self.sequence_numbers[ordinal], constants)


class IcebergDeletes:
    """The deletes of a snapshot: see `RowDeletes`. A file that has several is without the rows of all."""

    def __init__(
        self,
        deletes: Sequence[DeletesOf | None],
        locations: Sequence[str],
        root: str,
        options: Mapping[str, str],
        by_value: ByValue,
    ) -> None:
        """`deletes` and `locations`, as the manifests name them, are those of each data file in order."""
        self._deletes = deletes
        self._locations = locations
        self._root = root
        self._options = options
        self._by_value = by_value
        self.slices: NDArray[np.bool_] = np.array([each is not None for each in deletes], np.bool_)

    def of(self, ordinal: int) -> DeletesOf | None:
        """The delete files that can apply to a slice; None where there is none."""
        return self._deletes[ordinal]

    def positions(self, ordinals: NDArray[np.intp]) -> list[NDArray[np.uint64]]:
        """Read the deletes of some slices, each delete file once: see `RowDeletes`."""
        wanted: dict[DeleteFile, list[int]] = defaultdict(list)
        for number, ordinal in enumerate(ordinals.tolist()):
            found = self._deletes[int(ordinal)]
            for each in () if found is None else found.positions:
                wanted[each].append(number)
        parts: list[list[NDArray[np.uint64]]] = [[] for _ in ordinals]
        for each, numbers in wanted.items():
            names = [self._locations[int(ordinals[number])] for number in numbers]
            read = [self._vector(each)] if each.is_vector else self._of_file(each, names)
            for number, rows in zip(numbers, read, strict=True):
                parts[number].append(rows)
        self._take_equal_rows(ordinals, parts)
        return [np.unique(np.concatenate([np.empty(0, np.uint64), *each])) for each in parts]

    def _take_equal_rows(self, ordinals: NDArray[np.intp], parts: list[list[NDArray[np.uint64]]]) -> None:
        """Add the rows that equality deletes remove.

        Files of one partition share the keys of all deletes of it, whichever of them are older than a file: a table
        that is written by upserts has another set of deletes for every file.
        """
        deletes = {
            number: found.equality
            for number, ordinal in enumerate(ordinals.tolist())
            if (found := self._deletes[int(ordinal)]) is not None and found.equality
        }
        of_partition: dict[tuple[int, tuple[Any, ...]], set[DeleteFile]] = defaultdict(set)
        for number, found in deletes.items():
            of_partition[self._by_value.partitions[int(ordinals[number])]].update(found)
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
        found = row_positions(unframed(data, uri, delete.offset), uri)
        if len(found) != delete.rows:
            raise TableError(
                f"{uri} has a deletion vector of {len(found)} rows, and the manifest says {delete.rows}: restore it"
            )
        return found

    def _of_file(self, delete: DeleteFile, names: Sequence[str]) -> list[NDArray[np.uint64]]:
        """The positions that a file of position deletes has of each of some data files."""
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
