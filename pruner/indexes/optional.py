"""What an index type may offer beyond what every type has (`pruner.indexes.base.IndexType`).

The protocols are independent: the pipeline, the planner and maintenance check whether a type implements each. What the
evidence of a type may offer is in `pruner.indexes.optional_evidence` and, except for ranges, imported from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from pruner.indexes.base import Evidence, IndexType
from pruner.indexes.optional_evidence import (
    CountingEvidence,
    ExactEvidence,
    FocusedEvidence,
    FocusingEvidence,
    ListedEvidence,
    Located,
    LocatingEvidence,
    LookingUpEvidence,
    NotingEvidence,
    PagedEvidence,
    RowCountingEvidence,
    RowEvidence,
    ValuedEvidence,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from pruner.indexes.base import SliceReader
    from pruner.metadata.pages import PageLayout
    from pruner.schema import Field

    Mask = NDArray[np.bool_]

__all__ = [
    "Aggregates",
    "AggregatingIndexType",
    "ArrangingIndexType",
    "CountingEvidence",
    "CountingIndexType",
    "DeferringIndexType",
    "ExactEvidence",
    "ExactIndexType",
    "Fetch",
    "FocusedEvidence",
    "FocusingEvidence",
    "GatheringIndexType",
    "ListedEvidence",
    "Located",
    "LocatingEvidence",
    "LookingUpEvidence",
    "NotingEvidence",
    "PagedEvidence",
    "PagedIndexType",
    "RecordPages",
    "RecordPart",
    "RefusingIndexType",
    "RowCountingEvidence",
    "RowEvidence",
    "RowIndexType",
    "SelectiveIndexType",
    "SpreadingIndexType",
    "ValueIndexType",
    "ValuedEvidence",
]


@runtime_checkable
class RowIndexType(IndexType, Protocol):
    """An index type with exactly one record per slice.

    Such records are gathered as plain tuples and become one Arrow table for thousands of slices; an Arrow table of one
    row costs 170 µs, more than reading a footer.
    """

    @property
    def record_schema(self) -> pa.Schema:
        """The columns of the records, the same for every field."""
        ...

    def record_row(self, reader: SliceReader, field: Field, options: Mapping[str, str]) -> tuple[Any, ...]:
        """Return the record of one slice, in the order of `record_schema`."""
        ...


@runtime_checkable
class GatheringIndexType(IndexType, Protocol):
    """An index type that makes the records of many small slices at once, because one table per slice costs too much."""

    def read(self, reader: SliceReader, field: Field, options: Mapping[str, str]) -> Any | None:
        """Read what will be recorded of one slice; None if it is too large to be kept: `record` is called instead.

        The result has at most a few bytes per row, and no longer needs the reader.
        """
        ...

    def gather(self, found: Sequence[Any], field: Field) -> tuple[pa.Table, NDArray[np.int64]]:
        """Make the records of slices from what was read of them; also return the slice of each record."""
        ...


@runtime_checkable
class ValueIndexType(IndexType, Protocol):
    """An index type that can judge values known without a record, such as those in partition paths."""

    def load_values(self, values: pa.Array[Any], field: Field) -> Evidence | None:
        """Make evidence about `len(values)` slices; slice i holds only `values[i]`, which may be NULL.

        None for values of a type that it does not judge.
        """
        ...


class Aggregates(NamedTuple):
    """Records about runs of neighboring records: run i begins at record `starts[i]` and ends where the next begins."""

    records: pa.Table
    starts: NDArray[np.int64]


@runtime_checkable
class AggregatingIndexType(IndexType, Protocol):
    """An index type that can aggregate the records of several slices into one of the same form."""

    def aggregate(self, records: pa.Table, parts: NDArray[np.int64]) -> Aggregates | None:
        """Aggregate the records of a segment.

        The evidence that `load` makes of an aggregate must leave possible whatever the evidence of any of its records
        does, under every schema and semantics, and be covered exactly when all of them are. It then stays true when
        slices are removed.

        Args:
            records: one per slice, `__slice` ascending.
            parts: a number for each record: only neighbors with the same number may be aggregated.

        Returns:
            None if these records cannot be aggregated.
        """
        ...


@runtime_checkable
class SpreadingIndexType(IndexType, Protocol):
    """An index type that stores the records of several slices in one of their rows."""

    def spread(self, records: pa.Table) -> pa.Table:
        """Give each row of a whole segment the records of its slice, so that rows can be dropped.

        Raises:
            FormatError: the records are inconsistent.
        """
        ...


Fetch: TypeAlias = "Callable[[NDArray[np.int64]], pa.Table]"
"""Reads the deferred columns of the records at some positions, in that order. Raises FormatError or StorageError."""


@runtime_checkable
class ArrangingIndexType(IndexType, Protocol):
    """An index type whose records of many slices are stored in a form other than the one that `record` returns."""

    def arrange(self, records: pa.Table, field: Field) -> pa.Table:
        """Bring the records of many slices (with `__slice`) into the order and form in which they are stored.

        Some or all of them may be in that form already: those of several segments that are merged into one.
        """
        ...


@runtime_checkable
class DeferringIndexType(ArrangingIndexType, Protocol):
    """An index type with many records per slice, some of whose columns are read only when rows are asked for."""

    @property
    def deferred(self) -> tuple[str, ...]:
        """Names of those columns."""
        ...

    def load_deferring(self, records: pa.Table, count: int, field: Field, fetch: Fetch) -> Evidence:
        """Make evidence as `load` does, from records without the deferred columns, which `fetch` reads.

        `fetch` takes positions in `records`.
        """
        ...


class RecordPart(NamedTuple):
    """The records of one segment, without the columns that are read later.

    `records` has `__slice`. `rows` are their positions among all records of the segment, None for all of them. `read`
    reads columns of all records of the segment; it raises FormatError or StorageError. `read_bytes` reads ranges
    (start, end) of the only value of a column, which is in the first row and has the given number of bytes, and raises
    the same errors; None if the records are in memory.
    """

    records: pa.Table
    rows: NDArray[np.int64] | None
    read: Callable[[list[str]], pa.Table]
    read_bytes: Callable[[str, int, Sequence[tuple[int, int]]], Sequence[memoryview]] | None = None


@runtime_checkable
class SelectiveIndexType(IndexType, Protocol):
    """An index type with columns that are read only when a predicate needs them, and then only a few of them.

    Its segments are stored so that reading a column costs no more than that column.
    """

    def is_resident(self, column: str) -> bool:
        """Tell whether a column is read at load time, before any predicate is asked."""
        ...

    def load_parts(self, parts: Sequence[RecordPart], count: int, field: Field) -> Evidence:
        """Make evidence as `load` does, from records with only the resident columns."""
        ...


class RecordPages(Protocol):
    """The records of one segment, page by page. `__slice` has snapshot ordinals; -1 marks records that do not count."""

    @property
    def records(self) -> NDArray[np.int64]:
        """Number of records of each page."""
        ...

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Bytes to read for each page, without the deferred columns."""
        ...

    @property
    def deferred_sizes(self) -> NDArray[np.int64]:
        """Bytes to read for the deferred columns of each page."""
        ...

    @property
    def leading(self) -> Sequence[int]:
        """The pages that have a record of every slice."""
        ...

    @property
    def firsts(self) -> pa.Table:
        """The keys of the first record of each page."""
        ...

    @property
    def lasts(self) -> pa.Table:
        """The keys of the last record of each page."""
        ...

    def read(self, page: int, names: Sequence[str] | None) -> pa.Table:
        """The named columns of the records of a page (None: all but the deferred ones), and `__slice`.

        Raises:
            FormatError: the page is damaged.
            StorageError: it cannot be read.
        """
        ...

    def read_deferred(self, page: int) -> pa.Table:
        """The deferred columns of the records of a page; raises as `read` does."""
        ...


@runtime_checkable
class PagedIndexType(DeferringIndexType, Protocol):
    """An index type whose records are paged, so that a plan needs only a few pages."""

    def layout(self, records: pa.Table) -> PageLayout | None:
        """How arranged records are cut into pages; None if they can only be read as a whole."""
        ...

    def load_paged(
        self, segments: Sequence[RecordPages], count: int, field: Field, limit_bytes: int
    ) -> PagedEvidence | None:
        """Make evidence from the records of `count` slices, each of which counts in at most one segment.

        `limit_bytes` bounds what the evidence about one predicate may hold. None if these records must be read whole.

        Raises:
            FormatError: a leading page is damaged.
            StorageError: one cannot be read.
        """
        ...


@runtime_checkable
class CountingIndexType(IndexType, Protocol):
    """An index type whose records tell how many distinct values slices have; `create_index` judges a sample by this."""

    def values_and_rows(self, records: pa.Table) -> tuple[int, int]:
        """Number of distinct values, summed over slices, and of rows in the slices that the records are about."""
        ...


@runtime_checkable
class ExactIndexType(IndexType, Protocol):
    """An index type whose records hold facts that are answers by themselves: counts, and exact extremes."""

    def load_exact(self, records: pa.Table, count: int, field: Field) -> ExactEvidence:
        """Extract the facts from the records of `count` slices: see `IndexType.load`."""
        ...


@runtime_checkable
class RefusingIndexType(IndexType, Protocol):
    """An index type that records which slices it could not index, and why.

    Such a slice is not covered, and a refresh would not change that.
    """

    @property
    def refusal(self) -> tuple[str, str]:
        """The columns that record this: a boolean that is false there (true or null elsewhere), and one sentence."""
        ...
