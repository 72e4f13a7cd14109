"""What an index type is: what it records of a slice, and what evidence its records give.

A type is a module that defines an `IndexType` and is registered, here for the built-in ones or by the entry point
group `pruner.indexes` for others. Building: the pipeline hands `record` a `SliceReader` for one slice and gets an
Arrow table of records. Planning: `load` gets the records of many slices, once per snapshot, and returns an `Evidence`,
which answers for all those slices at once. Indexes never import each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyroaring import BitMap64

    from pruner.expr.bound import Leaf, StorageValue
    from pruner.expr.semantics import Semantics
    from pruner.parquet_type import ParquetType
    from pruner.schema import Field
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LeafColumn:
    """One leaf column of a Parquet schema.

    `position` is its ordinal among the leaf columns. `type` is the Arrow type of its values by the Parquet schema alone
    (what engines read, whatever Arrow schema a writer stored beside it), None for types that no index supports. `int96`
    tells the deprecated timestamps, whose `type` is timestamp[us]. `repeated` is set inside lists and maps.
    `partly_absent` tells that some files of a slice lack it, and that NULL is counted for their rows. `parquet` is the
    type as the footer states it, which engines go by; None where files of a slice have several.
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


class ChunkStatistics(NamedTuple):
    """What a footer says of one column in one row group, as written: nothing here has been believed yet.

    `low` and `high` are in the storage domain of the column's type (`pruner.expr.bound.StorageValue`), None where the
    footer has none. `null_count` is None where it is not given.
    """

    rows: int
    values: int
    null_count: int | None
    low: StorageValue | None
    high: StorageValue | None


class UndecodableError(ValueError):
    """Values of a column that have no place in its type: they are unknown, while the rest of the file is fine."""


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
        """Other leaf columns that make it unclear what an engine reads at this path (R7).

        Those with the same path again, with other case of letters or with this field id; a leaf where the path
        has a struct, and leaves below the path.
        """
        ...

    def chunks(self, leaf: LeafColumn) -> Sequence[ChunkStatistics]:
        """What the footer says of a leaf column, one entry for each row group."""
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


class Evidence(Protocol):
    """What the records of one index say about leaf predicates, for `count` slices at once (local ordinals)."""

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


class Entries(NamedTuple):
    """A set of entries of a `RowEvidence`, by position; `exact` if it holds no entry too many."""

    mask: Mask
    exact: bool = True

    def __and__(self, other: Entries) -> Entries:
        return Entries(self.mask & other.mask, self.exact and other.exact)

    def __or__(self, other: Entries) -> Entries:
        return Entries(self.mask | other.mask, self.exact and other.exact)


class Rows(NamedTuple):
    """Rows of slices as `slice << 32 | position`, and the slices (ascending) whose rows cannot be told after all."""

    rows: BitMap64
    broken: NDArray[np.intp]


@runtime_checkable
class RowEvidence(Evidence, Protocol):
    """Evidence that knows the single rows of slices.

    Every row of a covered slice stands in exactly one entry (a value, NULL, …), so a predicate on the indexed field
    comes down to a set of entries.
    """

    @property
    def entry_count(self) -> int:
        """Number of entries."""
        ...

    @property
    def row_counts(self) -> NDArray[np.int64]:
        """Number of rows of each slice, -1 where it is not covered."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Why slices that have records are not covered."""
        ...

    def settled(self, semantics: Semantics) -> Mask:
        """Slices that are covered by records of the very values that the asking engine reads."""
        ...

    def entries(self, leaf: Leaf, outcome: Outcome, semantics: Semantics) -> Entries | None:
        """The entries on whose rows `leaf` can come to `outcome`; None when nothing can be said about such a leaf."""
        ...

    def holding(self, entries: Mask, semantics: Semantics, at: NDArray[np.intp] | None) -> Mask:
        """Tell for each slice (of `at`, or of all) whether it can hold a row of the entries; True where not settled."""
        ...

    def row_total(self, entries: Mask, slices: NDArray[np.intp]) -> int:
        """Number of rows of the entries in some covered slices (ascending), without looking at the rows."""
        ...

    def rows(self, entries: Mask, slices: NDArray[np.intp]) -> Rows:
        """The rows of the entries in some covered slices, which ascend."""
        ...


@runtime_checkable
class ListedEvidence(RowEvidence, Protocol):
    """Row evidence whose entries can be shown to people."""

    def texts(self) -> list[str | None]:
        """Each entry's value as text, by position; None for NULL."""
        ...

    def holders(self, entry: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The slices with rows of an entry, ascending, and the number of those rows in each."""
        ...


class Aggregates(NamedTuple):
    """Records about runs of neighbouring records: run i begins at record `starts[i]` and ends where the next begins."""

    records: pa.Table
    starts: NDArray[np.int64]


Fetch: TypeAlias = "Callable[[NDArray[np.int64]], pa.Table]"
"""Reads the deferred columns of the records at some positions, in that order. Raises FormatError or StorageError."""


class IndexType(Protocol):
    """One type of index; stateless."""

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


@runtime_checkable
class RowIndexType(IndexType, Protocol):
    """An index type with exactly one record of each slice.

    Such records are gathered as plain tuples and become one Arrow table for thousands of slices; an Arrow table of one
    row costs 170 µs, more than reading a footer.
    """

    @property
    def record_schema(self) -> pa.Schema:
        """The columns of the records, the same for every field."""
        ...

    def record_row(self, reader: SliceReader, field: Field, options: Mapping[str, str]) -> tuple[Any, ...]:
        """Return what is recorded of one slice, in the order of `record_schema`."""
        ...


@runtime_checkable
class AggregatingIndexType(IndexType, Protocol):
    """An index type whose records of several slices can become one of the same form that is about all of them."""

    def aggregate(self, records: pa.Table, parts: NDArray[np.int64]) -> Aggregates | None:
        """Aggregate the records of a segment.

        Whatever evidence `load` makes of an aggregate must leave possible what the evidence of any of its records
        does, under every schema and semantics, and count as covered exactly when each of them does. It then stays true
        when slices are gone.

        Args:
            records: one of each slice, `__slice` ascending.
            parts: a number for each record: only neighbours with the same number go together.

        Returns:
            None where these records cannot be aggregated.
        """
        ...


@runtime_checkable
class RefusingIndexType(IndexType, Protocol):
    """An index type that records of a slice that it could not index that it could not, and why.

    Such a slice is not covered, and a refresh would not change that.
    """

    @property
    def refusal(self) -> tuple[str, str]:
        """The columns that say so: a boolean that is false there (true or null elsewhere), and one sentence."""
        ...


@runtime_checkable
class DeferringIndexType(IndexType, Protocol):
    """An index type with many records of each slice, some of whose columns are read only when rows are asked for."""

    @property
    def deferred(self) -> tuple[str, ...]:
        """Names of those columns."""
        ...

    def arrange(self, records: pa.Table, field: Field) -> pa.Table:
        """Bring the records of many slices (with `__slice`) into the order in which they are stored."""
        ...

    def load_deferring(self, records: pa.Table, count: int, field: Field, fetch: Fetch) -> Evidence:
        """Make evidence as `load` does, of records without the deferred columns, which `fetch` reads.

        The positions that `fetch` takes are those of `records`.
        """
        ...
