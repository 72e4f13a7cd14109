"""What an index type is: what it records about a slice, and the evidence that its records give.

A type is an object with the attributes of `IndexType`. Built-in types are listed in `pruner.indexes.registry`, others
are registered by the entry point group `pruner.indexes` (docs/index-types.md). Building: the pipeline hands `record` a
`SliceReader` for one slice and gets an Arrow table of records. Planning: `load` gets the records of many slices, once
per snapshot, and returns an `Evidence`, which answers for all those slices at once. Index types never import each
other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf, StorageValue
    from pruner.expr.derived.indexed import Provenance
    from pruner.expr.semantics import Semantics
    from pruner.parquet_type import ParquetType
    from pruner.schema import Field
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]


class IndexType(Protocol):
    """One type of index: what it records about a slice, and the evidence that its records give. It has no state.

    A build calls `check` once and `record` for each slice, on any thread, process or machine. A plan calls `load` once
    for each snapshot and set of records. Optional capabilities are in `pruner.indexes.optional`.
    """

    @property
    def name(self) -> str:
        """Its name in SQL and in the metadata table."""
        ...

    @property
    def partition(self) -> str:
        """The partition of the metadata table that holds its records: a folder name, in lower case."""
        ...

    @property
    def version(self) -> int:
        """Version of the records: a reader ignores records of a version that it does not know."""
        ...

    def check(self, field: Field, options: Mapping[str, str]) -> None:
        """Reject what cannot be indexed, and name it.

        Raises:
            IndexDefinitionError: the type of `field`, or an option, is not supported.
        """
        ...

    def record(self, reader: SliceReader, field: Field, options: Mapping[str, str]) -> pa.Table:
        """Return the records of one slice; every slice gives the same columns for the same `field`.

        Column names must not start with `__`: those names are reserved for the pipeline.
        """
        ...

    def load(self, records: pa.Table, count: int, field: Field) -> Evidence:
        """Make evidence from the records of `count` slices.

        Args:
            records: the concatenated results of `record` with `__slice` (int32), the local ordinal of each row's slice.
            count: number of slices, 0 to count-1; those without a row are not covered.
            field: the field as the table has it now; records made for another type or id must be distrusted (R7).
        """
        ...


class Evidence(Protocol):
    """What the records of one index say about leaf predicates, for all slices at once.

    The planner splits a predicate into leaves (`delay > 50`) and asks the evidence of every index on the leaf's field.
    Slices are numbered 0 to `count` - 1. An answer is a mask over them, in which False is a proof and True means no
    more than "not excluded".

    Example: an index recorded the minimum and maximum `delay` of three slices, and could not read the third.

        slice   recorded    covered
        0       5 to 40     True
        1       60 to 90    True
        2       nothing     False

    What it answers about the leaf `delay > 50`:

        possible(leaf, Outcome.TRUE, semantics, None)           [False, True, True]
        possible(leaf, Outcome.FALSE, semantics, None)          [True, False, True]
        possible(leaf, Outcome.NULL, semantics, None)           None
        possible(leaf, Outcome.TRUE, semantics, at=[1, 2])      [True, True]

    No row of slice 0 makes the leaf true, because its maximum is below 50, and no row of slice 1 makes it false. Slice
    2 is not covered and stays possible for every leaf. Nothing was recorded about NULL, so the answer for that outcome
    is None. A query `WHERE delay > 50` then reads slices 1 and 2; a query `WHERE NOT delay > 50` asks for FALSE, and
    reads slices 0 and 2.

    Compute what is excluded, and negate it once: `~(self.covered & (greatest <= 50))`. The direct form, `greatest >
    50`, is False wherever a comparison fails (NaN), and drops a slice without a proof (rule R1).
    """

    @property
    def count(self) -> int:
        """Number of slices."""
        ...

    @property
    def covered(self) -> Mask:
        """Slices with a usable record; the others are unknown for every leaf."""
        ...

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Tell for each slice whether `leaf` can evaluate to `outcome` for some row.

        Args:
            leaf: a leaf on the indexed field.
            outcome: the outcome in question.
            semantics: the rules of the asking engine.
            at: local ordinals to answer for, or None for all of them.

        Returns:
            A fresh or shared mask (never modified by the caller) of `len(at)` or `count` entries: False is a proof.
            None if the index cannot answer such a leaf.
        """
        ...


class SliceReader(Protocol):
    """One slice, as the kernel presents it to an index type.

    For a slice with log files, this is the union of the rows of the base file and of each log file, unmerged (rule R5):
    a column of it bounds what any read of the slice finds there. Row positions, the row count, and which values share a
    row are meaningful only without log files, and planners ask for them only there.
    """

    @property
    def name(self) -> str:
        """The URI of the base file, for messages."""
        ...

    @property
    def footer(self) -> ParquetFooter:
        """The parsed Parquet footer."""
        ...

    def batches(self, leaf: LeafColumn) -> Iterator[pa.Array[Any]]:
        """All values of a leaf column in row order, a part at a time; NULL where a parent struct is.

        The parts have the type `leaf.type`. Lists and maps cannot be read this way.

        Raises:
            UndecodableError: a value does not fit that type.
        """
        ...

    def encoded(self, leaf: LeafColumn) -> Iterator[pa.DictionaryArray[Any, Any]]:
        """The values of `batches`, dictionary-encoded; values that files store that way need not be decoded.

        Each part has its own dictionary, in any order; a dictionary may have entries that no row uses.

        Raises:
            UndecodableError: a value does not fit that type.
        """
        ...


class ParquetFooter(Protocol):
    """The footer of one Parquet file."""

    @property
    def created_by(self) -> str:
        """Writer and version, "" if not given."""
        ...

    @property
    def key_values(self) -> Mapping[bytes, bytes]:
        """The key-value metadata."""
        ...

    @property
    def row_count(self) -> int:
        """Rows in the file, the sum over its row groups."""
        ...

    def leaf(self, path: tuple[str, ...]) -> LeafColumn | None:
        """The leaf column at exactly this path, or None."""
        ...

    def alike(self, path: tuple[str, ...], field_id: int | None) -> tuple[LeafColumn, ...]:
        """Leaf columns that make it unclear what an engine reads at this path (R7).

        Those with the same path again, with the path in another letter case or with this field id; a leaf where the
        path has a struct, and leaves below the path; the column itself if its field id differs.
        """
        ...

    def chunks(self, leaf: LeafColumn) -> Sequence[ChunkStatistics]:
        """What the footer states about a leaf column, one entry for each row group."""
        ...


@dataclass(frozen=True, slots=True)
class LeafColumn:
    """One leaf column of a Parquet schema.

    `position` is its ordinal among the leaf columns. `type` is the Arrow type of its values by the Parquet schema alone
    (what engines read, whatever Arrow schema a writer stored beside it), None for types that no index supports. `int96`
    marks the deprecated timestamps, whose `type` is timestamp[us]. `repeated` is set inside lists and maps.
    `partly_absent` tells that some files of a slice lack it, and that their rows count as NULL. `parquet` is the type
    as the footer states it, which engines follow; None if files of a slice have several. For the values of an
    expression, `made` tells how they were computed.
    """

    path: tuple[str, ...]
    position: int
    type: pa.DataType | None
    type_text: str
    field_id: int | None
    repeated: bool
    int96: bool = False
    partly_absent: bool = False
    parquet: ParquetType | None = None
    made: Provenance | None = None


class ChunkStatistics(NamedTuple):
    """What a footer states about one column in one row group, as written: nothing here is trusted yet.

    `low` and `high` are in the storage domain of the column's type (`pruner.expr.bound.predicates.StorageValue`), None
    where the footer has none. `null_count` is None where it is not given.
    """

    rows: int
    values: int
    null_count: int | None
    low: StorageValue | None
    high: StorageValue | None


class UndecodableError(ValueError):
    """Values of a column do not fit its type: they are unknown, while the rest of the file is fine."""
