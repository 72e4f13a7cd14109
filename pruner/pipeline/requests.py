"""What is asked of the pipeline, and what can go wrong with one slice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, TypeAlias

from pruner.indexes.base import RowIndexType

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from pruner.indexes.base import IndexType
    from pruner.schema import Field


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """Record one field by one index type; `name` is the index's, for messages.

    `row_kind` is the index type where it records one row of each slice. It is settled here once: looking
    whether an object follows a protocol takes longer than reading a footer.
    """

    kind: IndexType
    field: Field
    options: Mapping[str, str]
    name: str
    row_kind: RowIndexType | None = dataclass_field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "row_kind", self.kind if isinstance(self.kind, RowIndexType) else None)


@dataclass(frozen=True, slots=True)
class Failure:
    """A slice that stays uncovered in one index: its base file, the index, and one sentence."""

    slice: str
    index: str
    reason: str


@dataclass(frozen=True, slots=True)
class BuildResult:
    """One table of records for each request, in their order, and what failed.

    `__slice` (int32) of a record is the position of its slice among the ordinals that were given.
    """

    records: tuple[pa.Table, ...]
    failures: tuple[Failure, ...]


Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of slices done and the number of all."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive slices: the position of the first, and of each the URI and size of its base file."""

    start: int
    uris: list[str]
    sizes: list[int | None]

    def __iter__(self) -> Iterator[tuple[int, str, int | None]]:
        for offset, (uri, size) in enumerate(zip(self.uris, self.sizes, strict=True)):
            yield self.start + offset, uri, size

    def halves(self) -> list[Chunk]:
        """The chunk in two, or nothing when it has one slice."""
        middle = len(self.uris) // 2
        if middle == 0:
            return []
        return [
            Chunk(self.start, self.uris[:middle], self.sizes[:middle]),
            Chunk(self.start + middle, self.uris[middle:], self.sizes[middle:]),
        ]


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """What came of a chunk: its number of slices, a table of records (or None) for each request, and failures."""

    slices: int
    tables: list[pa.Table | None]
    failures: list[Failure]
