"""What an index type is: what it records of a slice, and what evidence its records give.

A type is an object with the attributes of `IndexType`, registered here for the built-in ones and by the entry point
group `pruner.indexes` for others (docs/index-types.md). Building: the pipeline hands `record` a `SliceReader` for one
slice and gets an Arrow table of records. Planning: `load` gets the records of many slices, once per snapshot, and
returns an `Evidence`, which answers for all those slices at once. Index types never import each other.
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
    """One type of index: what it records of a slice, and the evidence that its records give. It has no state.

    A build calls `check` once and `record` for each slice, on any thread, process or machine. A plan calls `load` once
    for each snapshot and set of records. What a type may offer besides is in `pruner.indexes.optional`.
    """

    @property
    def name(self) -> str:
        """The name by which SQL and the metadata table call it."""
        ...

    @property
    def partition(self) -> str:
        """The partition of the metadata table that holds its records: a folder name, in small letters."""
        ...

    @property
    def version(self) -> int:
        """Version of the records: a reader ignores records of a version that it does not know."""
        ...

    def check(self, field: Field, options: Mapping[str, str]) -> None:
        """Refuse by name what cannot be indexed.

        Raises:
            IndexDefinitionError: the type of `field`, or an option, is not supported.
        """
        ...

    def record(self, reader: SliceReader, field: Field, options: Mapping[str, str]) -> pa.Table:
        """Return what is recorded of one slice; every slice gives the same columns for the same `field`.

        The column names must not start with `__`; those belong to the pipeline.
        """
        ...

    def load(self, records: pa.Table, count: int, field: Field) -> Evidence:
        """Make evidence of the records of `count` slices.

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

    An example: an index recorded the least and the greatest `delay` of three slices, and could not read the third.

        slice   recorded    covered
        0       5 to 40     True
        1       60 to 90    True
        2       nothing     False

    What it answers about the leaf `delay > 50`:

        possible(leaf, Outcome.TRUE, semantics, None)           [False, True, True]
        possible(leaf, Outcome.FALSE, semantics, None)          [True, False, True]
        possible(leaf, Outcome.NULL, semantics, None)           None
        possible(leaf, Outcome.TRUE, semantics, at=[1, 2])      [True, True]

    No row of slice 0 makes the leaf true, because its greatest value is below 50, and no row of slice 1 makes it false.
    Slice 2 is not covered and stays possible, whatever is asked. Nothing was recorded about NULL, so nothing is
    said about that outcome. A query `WHERE delay > 50` then reads slices 1 and 2; a query `WHERE NOT delay > 50` asks
    for FALSE, and reads slices 0 and 2.

    Write what is excluded, and negate it once: `~(self.covered & (greatest <= 50))`. The other way round, `greatest >
    50` is False wherever a comparison fails (NaN), and a slice is lost without a proof (rule R1).
    """

    @property
    def count(self) -> int:
        """Number of slices."""
        ...

    @property
    def covered(self) -> Mask:
        """Slices for which there is a usable record; the others are unknown whatever is asked."""
        ...

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Tell for each slice whether some row can make `leaf` come to `outcome`.

        Args:
            leaf: a leaf on the field that was indexed.
            outcome: what is asked for.
            semantics: whose rules hold.
            at: local ordinals to answer for, or None for all of them.

        Returns:
            A fresh or shared mask (never modified by the caller) of `len(at)` or `count` entries: False is a proof.
            None when the index can say nothing about such a leaf.
        """
        ...


class SliceReader(Protocol):
    """What the kernel offers an index type of one slice.

    Of a slice with log files that is the union of the rows of the base file and of each log file, none of them merged
    (rule R5): one column of it bounds what any read of the slice finds there. Positions of rows, their number, and
    which values stand in one row mean something without log files alone, and planners ask for them only there.
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
            UndecodableError: a value has no place in that type.
        """
        ...

    def encoded(self, leaf: LeafColumn) -> Iterator[pa.DictionaryArray[Any, Any]]:
        """The values of `batches`, dictionary-encoded, where files have them so without being decoded.

        Each part has its own dictionary, in any order; entries of it may stand for no row.

        Raises:
            UndecodableError: a value has no place in that type.
        """
        ...


class ParquetFooter(Protocol):
    """The footer of one Parquet file."""

    @property
    def created_by(self) -> str:
        """Writer and version, "" where not given."""
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

        Those with the same path again, with other case of letters or with this field id; a leaf where the path
        has a struct, and leaves below the path; the column itself where its field id is another.
        """
        ...

    def chunks(self, leaf: LeafColumn) -> Sequence[ChunkStatistics]:
        """What the footer says of a leaf column, one entry for each row group."""
        ...


@dataclass(frozen=True, slots=True)
class LeafColumn:
    """One leaf column of a Parquet schema.

    `position` is its ordinal among the leaf columns. `type` is the Arrow type of its values by the Parquet schema alone
    (what engines read, whatever Arrow schema a writer stored beside it), None for types that no index supports. `int96`
    tells the deprecated timestamps, whose `type` is timestamp[us]. `repeated` is set inside lists and maps.
    `partly_absent` tells that some files of a slice lack it, and that NULL is counted for their rows. `parquet` is the
    type as the footer states it, which engines go by; None where files of a slice have several. `made` says of the
    values of an expression how they were made.
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
    """What a footer says of one column in one row group, as written: nothing here has been believed yet.

    `low` and `high` are in the storage domain of the column's type (`pruner.expr.bound.predicates.StorageValue`), None
    where the footer has none. `null_count` is None where it is not given.
    """

    rows: int
    values: int
    null_count: int | None
    low: StorageValue | None
    high: StorageValue | None


class UndecodableError(ValueError):
    """Values of a column that have no place in its type: they are unknown, while the rest of the file is fine."""
