"""Which delete files apply to which data files.

Source: the Iceberg table specification, "Scan Planning": a delete file applies by sequence numbers, partition, and for
position deletes the files that it names.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pruner.tables.iceberg.manifests import DATA, EQUALITY_DELETES, POSITION_DELETES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pruner.tables.iceberg.manifests import Manifest

_FILE_PATH_ID: Final = 2_147_483_546
"""Field id of `file_path` in a position delete file."""


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A delete file. `first` and `last` bound the paths of the data files that a position delete file names."""

    content: int
    path: str
    format: str
    size: int
    rows: int
    sequence_number: int
    partition: tuple[int, tuple[Any, ...]]
    referenced_file: str | None
    offset: int | None
    length: int | None
    equality_ids: tuple[int, ...]
    first: bytes | None
    last: bytes | None

    @property
    def is_vector(self) -> bool:
        """Whether it is a deletion vector, which replaces all position deletes of its file."""
        return self.content == POSITION_DELETES and self.format.lower() == "puffin"

    @property
    def only_file(self) -> str | None:
        """The only data file whose rows it removes, by the manifest or by its bounds; None where there may be more."""
        if self.referenced_file is not None or self.content != POSITION_DELETES:
            return self.referenced_file
        try:
            return self.first.decode() if self.first is not None and self.first == self.last else None
        except UnicodeDecodeError:
            return None

    def names(self, path: str, encoded: bytes) -> bool:
        """Tell whether it can have positions for a file, by its referenced file or by its bounds."""
        if self.referenced_file is not None:
            return self.referenced_file == path
        # Bounds may be truncated: the lower one is then a prefix, the upper one greater than the original value.
        return (self.first is None or self.first <= encoded) and (self.last is None or encoded <= self.last)


@dataclass(frozen=True, slots=True)
class DeletesOf:
    """The delete files that can apply to a data file: position deletes, or one vector, and equality deletes."""

    positions: tuple[DeleteFile, ...] = ()
    equality: tuple[DeleteFile, ...] = ()


@dataclass(slots=True)
class DeletePlan:
    """All delete files of a snapshot, by what they can apply to."""

    by_file: dict[str, list[DeleteFile]] = field(default_factory=lambda: defaultdict(list))
    by_partition: dict[tuple[int, tuple[Any, ...]], list[DeleteFile]] = field(
        default_factory=lambda: defaultdict(list)
    )
    everywhere: list[DeleteFile] = field(default_factory=list[DeleteFile])
    binary: frozenset[tuple[int, int]] = frozenset()
    """Specs with positions in their tuples where bytes are not a decimal: there b"" is not b"\\0"."""

    def __bool__(self) -> bool:
        return bool(self.by_file or self.by_partition or self.everywhere)

    def _key(self, partition: tuple[int, tuple[Any, ...]]) -> tuple[int, tuple[Any, ...]]:
        """A key that data and delete files of a partition share, even if its columns were promoted in between."""
        spec_id, values = partition
        return spec_id, tuple(
            value if (spec_id, place) in self.binary else _comparable(value)
            for place, value in enumerate(values)
        )

    def add(self, delete: DeleteFile, *, is_partitioned: bool) -> None:
        """Add a delete file. One for a single file is matched by that, not by its partition, as in Iceberg's library.

        When the library rewrites a manifest, it writes NULL for a partition value whose column was dropped.
        """
        only = delete.only_file
        if delete.content == EQUALITY_DELETES and not is_partitioned:
            self.everywhere.append(delete)
        elif only is not None:
            self.by_file[only].append(delete)
        else:
            self.by_partition[self._key(delete.partition)].append(delete)

    def of(self, path: str, sequence_number: int, partition: tuple[int, tuple[Any, ...]]) -> DeletesOf | None:
        """The delete files that can apply to a data file; None where there is none."""
        if not self:
            return None
        encoded = path.encode()
        positions: list[DeleteFile] = []
        equality: list[DeleteFile] = []
        for delete in (
            *self.by_file.get(path, ()),
            *self.by_partition.get(self._key(partition), ()),
            *self.everywhere,
        ):
            if delete.content == EQUALITY_DELETES:
                if delete.sequence_number > sequence_number:
                    equality.append(delete)
            elif delete.sequence_number >= sequence_number and delete.names(path, encoded):
                positions.append(delete)
        vectors = [position for position in positions if position.is_vector]
        if not (positions or equality):
            return None
        return DeletesOf(tuple(vectors or positions), tuple(equality))


def _comparable(value: Any) -> Any:
    """A key by which NaN equals itself, and a decimal of more digits equals the same one of fewer.

    -0.0 and 0.0 are two partitions.
    """
    if isinstance(value, float):
        return value.hex()
    return int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else value


def delete_files(
    manifest: Manifest, partitions: Sequence[tuple[int, tuple[Any, ...]]]
) -> Iterable[DeleteFile]:
    """Yield the delete files of a manifest.

    Args:
        manifest: the decoded manifest.
        partitions: the spec and partition tuple of each of its files.
    """
    firsts = _by_row(manifest, "lower_bounds")
    lasts = _by_row(manifest, "upper_bounds")
    rows: list[dict[str, Any]] = manifest.files.to_pylist()
    for number, row in enumerate(rows):
        if row["content"] == DATA:
            continue
        yield DeleteFile(
            content=row["content"],
            path=row["path"],
            format=row["format"],
            size=row["size"],
            rows=row["rows"],
            sequence_number=row["sequence_number"],
            partition=partitions[number],
            referenced_file=row["referenced_file"],
            offset=row["content_offset"],
            length=row["content_size"],
            equality_ids=tuple(row["equality_ids"] or ()),
            first=firsts.get(number),
            last=lasts.get(number),
        )


def _by_row(manifest: Manifest, name: str) -> dict[int, bytes]:
    rows, values = manifest.metrics[name].of_field(_FILE_PATH_ID)
    return dict(zip(rows.tolist(), values.to_pylist(), strict=True))
