"""The data files of one manifest as slices of a snapshot.

A manifest never changes, so its part is made once. A snapshot read after a commit makes the parts of new manifests and
concatenates all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, as_numpy, compute, filled, nulls
from pruner.errors import TableError
from pruner.tables.iceberg.places import places_of
from pruner.tables.snapshot import Descent, keys_of_paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.tables.iceberg.manifests import Manifest
    from pruner.tables.iceberg.metadata import PartitionSpec, TableMetadata

    PartitionTuple = tuple[int, tuple[Any, ...]]

_PARQUET: Final = "parquet"
_KEY_WORDS: Final = 2
"""Eight-byte words of a slice key."""

_FEW: Final = 64
"""New files up to which each is compared with all others."""


@dataclass(frozen=True)
class DataPart:
    """The data files of a manifest, in its order.

    `partitions` are its distinct partitions, each with its spec, and `codes` has the index of each file's partition.
    `keys` are the concatenated slice keys, for reads that also depend on `read_by`.
    """

    manifest: Manifest
    spec: PartitionSpec | None
    read_by: bytes
    partitions: list[PartitionTuple]
    codes: NDArray[np.int64]
    places: Any
    names: Any
    keys: bytes

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def texts(self) -> list[str]:
        """The display name of each partition."""
        fields = () if self.spec is None else self.spec.fields
        return [_partition_text(fields, values) for _, values in self.partitions]

    def is_of(self, spec: PartitionSpec | None, read_by: bytes) -> bool:
        """Tell whether it is the part that would be made for a spec and `read_by`."""
        return self.read_by == read_by and self.spec == spec


def data_part(manifest: Manifest, metadata: TableMetadata, root: str, read_by: bytes) -> DataPart:
    """Make the part of a manifest of data files.

    Raises:
        TableError: a file is not Parquet, is in another kind of store, or is of an unknown spec.
    """
    files = manifest.files
    formats = {str(format_name).lower() for format_name in compute.unique(files.column("format")).to_pylist()}
    others = sorted(formats - {_PARQUET})
    if others:
        raise TableError(f"{root} has files of format {others[0].upper()}: Parquet alone is read")
    partitions, codes = partitions_of(manifest, metadata)
    locations: Any = files.column("path").combine_chunks()
    places, names = places_of(locations, root)
    return DataPart(
        manifest,
        spec_of(manifest, metadata),
        read_by,
        partitions,
        codes,
        places,
        names,
        b"".join(keys_of_paths(locations, read_by)),
    )


def spec_of(manifest: Manifest, metadata: TableMetadata) -> PartitionSpec | None:
    """The spec of the files of a manifest; None where it has no files.

    Raises:
        TableError: the table has no such spec.
    """
    if not manifest.files.num_rows:
        return None
    spec_id = manifest.files.column("spec_id")[0].as_py()
    spec = metadata.specs.get(spec_id)
    if spec is None:
        raise TableError(f"{metadata.location} has no partition spec {spec_id}: its metadata is damaged")
    return spec


def partitions_of(
    manifest: Manifest, metadata: TableMetadata
) -> tuple[list[PartitionTuple], NDArray[np.int64]]:
    """The distinct partitions of a manifest's files in order of appearance, and the index of each file's partition.

    Values are in the order of the spec's fields. -0.0 and 0.0 are two partitions.

    Raises:
        TableError: the table has no such spec, or the manifest lacks a field of it.
    """
    spec, count = spec_of(manifest, metadata), manifest.files.num_rows
    if spec is None:
        return [], np.zeros(0, np.int64)
    ids = [
        field.field_id if field.field_id is not None else 1000 + at for at, field in enumerate(spec.fields)
    ]
    missing = [field_id for field_id in ids if field_id not in manifest.partitions]
    if missing:
        raise TableError(
            f"the manifests of {metadata.location} lack partition field {missing[0]}: they are damaged"
        )
    codes = np.zeros(count, np.int64)
    columns: list[tuple[list[Any], NDArray[np.int64]]] = []
    for field_id in ids:
        values, of_column = _coded(manifest.partitions[field_id])
        columns.append((values, of_column))
        # Renumbered after each column, so that codes stay below the number of files.
        codes = np.unique(codes * len(values) + of_column, return_inverse=True)[1].reshape(-1)
    _, firsts, codes = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    distinct = [
        (spec.spec_id, tuple(values[of_column[first]] for values, of_column in columns))
        for first in firsts[order].tolist()
    ]
    return distinct, ranks[codes.reshape(-1)]


def _coded(column: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct values of a column, NULL first, and the index of each row's; floats are distinguished by bits."""
    type_ = column.type
    if pa.types.is_null(type_):
        return [None], np.zeros(len(column), np.int64)
    stored = column
    if pa.types.is_floating(type_):
        stored = column.view(pa.int32() if pa.types.is_float32(type_) else pa.int64())
    encoded = stored.dictionary_encode()
    values: list[Any] = encoded.dictionary.view(type_).to_pylist()
    return [None, *values], as_numpy(filled(encoded.indices, -1)).astype(np.int64) + 1


@dataclass(frozen=True)
class JoinedPartitions:
    """The distinct partitions of some parts, their display names, and the index of each file's partition."""

    partitions: list[PartitionTuple]
    texts: list[str]
    codes: NDArray[np.int32]


def joined_partitions(parts: Sequence[DataPart]) -> JoinedPartitions:
    """Number the partitions of all parts in order of appearance."""
    ordinals: dict[PartitionTuple, int] = {}
    partitions: list[PartitionTuple] = []
    texts: list[str] = []
    codes: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]
    for part in parts:
        here = np.empty(len(part.partitions), np.int32)
        for at, partition in enumerate(part.partitions):
            here[at] = ordinals.setdefault(_by_bits(partition), len(ordinals))
            if len(ordinals) > len(partitions):
                partitions.append(partition)
                texts.append(part.texts[at])
        codes.append(here[part.codes])
    return JoinedPartitions(partitions, texts, np.concatenate(codes))


def _by_bits(partition: PartitionTuple) -> PartitionTuple:
    """A key of a partition by which NaN equals NaN and -0.0 differs from 0.0."""
    spec_id, values = partition
    if not any(isinstance(value, float) for value in values):
        return partition
    return spec_id, tuple(value.hex() if isinstance(value, float) else value for value in values)


def has_repeated(parts: Sequence[DataPart], known: Sequence[DataPart]) -> bool:
    """Tell whether some file occurs twice.

    Args:
        parts: all of them.
        known: those of a snapshot in which no file occurs twice.
    """
    keys = b"".join(part.keys for part in parts)
    # Half of a key distinguishes almost all files; where it does not, whole keys are compared.
    halves = np.frombuffer(keys, np.uint64)[::_KEY_WORDS]
    seen = {id(part) for part in known}
    if len({id(part) for part in parts}) < len(parts):
        seen.clear()  # a manifest occurs twice
    new = [part.keys for part in parts if id(part) not in seen]
    came = np.frombuffer(b"".join(new), np.uint64)[::_KEY_WORDS]
    if len(came) <= _FEW:
        apart = len(np.unique(came)) == len(came) == np.count_nonzero(np.isin(halves, came))
    else:
        found = np.sort(halves)
        apart = not (found[1:] == found[:-1]).any()
    if apart:
        return False
    words = np.frombuffer(keys, np.uint64).reshape(-1, _KEY_WORDS)
    return len(np.unique(words, axis=0)) != len(words)


def descent_of(parts: Sequence[DataPart], before: Sequence[DataPart], of: str) -> Descent:
    """Tell which files of some parts are those of an earlier snapshot, whose id is `of`."""
    starts = np.cumsum([0, *map(len, before)])
    places = {id(part): int(starts[at]) for at, part in enumerate(before)}
    origin: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]
    least = 0
    for part in parts:
        start = places.get(id(part), -1)
        if start < least:
            origin.append(np.full(len(part), -1, np.int32))
        else:
            origin.append(np.arange(start, start + len(part), dtype=np.int32))
            least = start + len(part)
    return Descent(of, np.concatenate(origin))


def pieces(parts: Sequence[Any], type_: pa.DataType, most: int) -> Any:
    """Arrays as one column with a chunk each, or a single chunk for more than `most` arrays."""
    column: Any = arrow.chunked_array(parts or [nulls(0, type_)], type_)
    return column if len(parts) <= most else arrow.chunked_array([column.combine_chunks()], type_)


def _partition_text(fields: Sequence[Any], values: tuple[Any, ...]) -> str:
    return "/".join(
        f"{field.name}={'null' if value is None else quote(_shown(value), safe=' :,')}"
        for field, value in zip(fields, values, strict=True)
    )


def _shown(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
