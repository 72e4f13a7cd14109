"""What the evidence of an index type may offer besides what all evidence has (`pruner.indexes.base.Evidence`).

Each protocol stands for itself: the planner and maintenance ask whether a piece of evidence has it. What index types
may offer is in `pruner.indexes.optional`.

Evidence that knows ranges: for each slice where its values begin and end, in an order of all values of a field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from pruner.indexes.base import Evidence

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.row_sets import Entries, Rows
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]


@runtime_checkable
class NotingEvidence(Evidence, Protocol):
    """Evidence that can say why slices which have records are not covered, or could not be asked about."""

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence for each reason; there may be more after a question than before it."""
        ...


@runtime_checkable
class LookingUpEvidence(Evidence, Protocol):
    """Evidence that looks up single values and does not know their order, so that it says nothing of a range.

    It is asked about each value of a short range of integers, decimals, dates or times.
    """

    @property
    def longest_range(self) -> int:
        """How many values of a range are worth looking up one by one."""
        ...


@runtime_checkable
class CountingEvidence(Evidence, Protocol):
    """Evidence that knows how many values each slice holds, and not which."""

    @property
    def counts(self) -> str:
        """What is counted, in the plural, for people: "distinct values"."""
        ...

    @property
    def distinct(self) -> NDArray[np.int64]:
        """What is counted of each slice, NULL aside; -1 where it is not covered."""
        ...


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
class RowCountingEvidence(RowEvidence, Protocol):
    """Row evidence that knows the number of rows of each entry."""

    def rows_in(self, entries: Mask, slices: NDArray[np.intp]) -> NDArray[np.int64] | None:
        """How many rows of the entries each of some covered slices (ascending) has at least, by what is in memory.

        None where every row of every covered slice is one of them.
        """
        ...


class Located(NamedTuple):
    """Rows that have one of some values, or may have one.

    Attributes:
        which: the position of the value.
        slices: the slice of the row.
        positions: works out the position of each row in its slice; raises FormatError or StorageError.
        unknown: the slices of which nothing is known.
    """

    which: NDArray[np.int64]
    slices: NDArray[np.int64]
    positions: Callable[[], NDArray[np.int64]]
    unknown: Mask

    def only(self, rows: Mask) -> Located:
        """Some of the rows."""
        return Located(self.which[rows], self.slices[rows], lambda: self.positions()[rows], self.unknown)


@runtime_checkable
class LocatingEvidence(Evidence, Protocol):
    """Evidence that finds the rows of many values at once."""

    @property
    def tells_all_apart(self) -> bool:
        """True where a row that is found certainly has the value."""
        ...

    def locate(self, values: pa.Array[Any]) -> Located:
        """Find values of the type of the field, none of which is NULL, as files have them."""
        ...


@runtime_checkable
class FocusingEvidence(Evidence, Protocol):
    """Evidence that knows single rows, those that some leaves look for."""

    def focused(self, leaves: Sequence[Leaf]) -> RowEvidence:
        """The evidence about some leaves on the field, and no others."""
        ...


class FocusedEvidence(RowEvidence, Protocol):
    """Row evidence about the leaves of one predicate, which reads what they ask for when they ask for it."""

    def bytes_to_read(self, entries: Mask, at: NDArray[np.intp] | None) -> int:
        """How many bytes are read to tell which slices (of `at`, or of all) hold a row of the entries."""
        ...

    def bytes_of_rows(self, entries: Mask, at: NDArray[np.intp]) -> int:
        """How many bytes are read to tell the rows of the entries in some slices."""
        ...


class PagedEvidence(Protocol):
    """Evidence from pages, none of which but the leading ones is read before a predicate asks for it."""

    @property
    def covered(self) -> Mask:
        """See `Evidence.covered`."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """See `RowEvidence.notes`."""
        ...

    def focused(self, leaves: Sequence[Leaf]) -> FocusedEvidence:
        """The evidence about some leaves on the field, and no others."""
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


@runtime_checkable
class ValuedEvidence(ListedEvidence, Protocol):
    """Listed evidence that has the values of its entries as they are stored."""

    def stored_values(self) -> pa.Array[Any]:
        """The values of the first entries, in the storage domain of the field; NaN and NULL follow them."""
        ...


@runtime_checkable
class ExactEvidence(Evidence, Protocol):
    """Evidence that knows of some slices facts that hold exactly, and not only what their rows can be.

    A slice with log files, or of which rows are deleted, is described by more rows than it has: whoever asks leaves
    such slices out.
    """

    @property
    def row_counts(self) -> NDArray[np.int64]:
        """Number of rows of each slice, -1 where it is not known."""
        ...

    @property
    def null_counts(self) -> NDArray[np.int64]:
        """Number of NULLs of each slice, -1 where it is not known."""
        ...

    @property
    def low(self) -> pa.Array[Any]:
        """A value of the storage domain that none of the slice is less than; null where none is known.

        NULL and NaN aside, of which `nan_free` tells.
        """
        ...

    @property
    def high(self) -> pa.Array[Any]:
        """A value that none of the slice is greater than, likewise."""
        ...

    @property
    def low_is_value(self) -> Mask:
        """Slices of which `low` is the value of some row, and the one way in which that value is written."""
        ...

    @property
    def high_is_value(self) -> Mask:
        """The same of `high`."""
        ...

    @property
    def nan_free(self) -> Mask:
        """Slices that hold no NaN."""
        ...

    def unread(self, semantics: Semantics) -> Mask | None:
        """Slices of which an engine may read other values than were recorded; None where there are none."""
        ...


RANGED_TYPES = (
    "boolean, integers, floating point, decimal up to 38 digits, string, binary, UUID, date, time, timestamp, and "
    "fields of these types inside structs (a.b)"
)
"""The types that have ranges."""


class Ranges(NamedTuple):
    """The ranges of some slices.

    Attributes:
        slices: their ordinals; what is known of no others is not here.
        low: the place of the least value of each in the order of values.
        high: that of the greatest.
        text: what stands at such a place, for people.
    """

    slices: NDArray[np.intp]
    low: NDArray[Any]
    high: NDArray[Any]
    text: Callable[[Any], str]


@runtime_checkable
class RangingEvidence(Evidence, Protocol):
    """Evidence from ranges. They may be wider than the values; none is narrower."""

    def ranges(self) -> Ranges:
        """The ranges of the slices whose ends are both known."""
        ...
