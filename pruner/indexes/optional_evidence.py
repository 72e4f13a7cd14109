"""What the evidence of an index type may offer beyond what all evidence has (`pruner.indexes.base.Evidence`).

The protocols are independent: the planner and maintenance check whether a piece of evidence implements each. What index
types may offer is in `pruner.indexes.optional`.

Ranging evidence knows, for each slice, where its values begin and end in an order of all values of a field.
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
    """Evidence that can explain why slices with records are not covered, or could not be answered for."""

    @property
    def notes(self) -> tuple[str, ...]:
        """One sentence for each reason; answering a predicate may add more."""
        ...


@runtime_checkable
class LookingUpEvidence(Evidence, Protocol):
    """Evidence that looks up single values and does not know their order, so that it cannot answer for a range.

    For a short range of integers, decimals, dates or times, it is asked about each value.
    """

    @property
    def longest_range(self) -> int:
        """Maximum number of values of a range that are worth looking up one by one."""
        ...


@runtime_checkable
class CountingEvidence(Evidence, Protocol):
    """Evidence that knows how many values each slice holds, but not which."""

    @property
    def counts(self) -> str:
        """What is counted, in the plural, for display: "distinct values"."""
        ...

    @property
    def distinct(self) -> NDArray[np.int64]:
        """The count for each slice, NULL excluded; -1 where it is not covered."""
        ...


@runtime_checkable
class RowEvidence(Evidence, Protocol):
    """Evidence that knows the individual rows of slices.

    Every row of a covered slice is in exactly one entry (a value, NULL, …), so a predicate on the indexed field reduces
    to a set of entries.
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
        """Covered slices whose recorded values are the very values that the asking engine reads."""
        ...

    def entries(self, leaf: Leaf, outcome: Outcome, semantics: Semantics) -> Entries | None:
        """The entries on whose rows `leaf` can evaluate to `outcome`; None if such a leaf cannot be answered."""
        ...

    def holding(self, entries: Mask, semantics: Semantics, at: NDArray[np.intp] | None) -> Mask:
        """Tell for each slice (of `at`, or of all) whether it can hold a row of the entries; True where not settled."""
        ...

    def row_total(self, entries: Mask, slices: NDArray[np.intp]) -> int:
        """Number of rows of the entries in some covered slices (ascending), without reading the rows."""
        ...

    def rows(self, entries: Mask, slices: NDArray[np.intp]) -> Rows:
        """The rows of the entries in some covered slices (ascending)."""
        ...


@runtime_checkable
class RowCountingEvidence(RowEvidence, Protocol):
    """Row evidence that knows the number of rows of each entry."""

    def rows_in(self, entries: Mask, slices: NDArray[np.intp]) -> NDArray[np.int64] | None:
        """Lower bounds on the rows of the entries in each of some covered slices (ascending), from what is in memory.

        None if every row of every covered slice is in the entries.
        """
        ...


class Located(NamedTuple):
    """Rows that have, or may have, one of some values.

    Attributes:
        which: the position of the value.
        slices: the slice of the row.
        positions: computes the position of each row in its slice; raises FormatError or StorageError.
        unknown: slices about which nothing is known.
    """

    which: NDArray[np.int64]
    slices: NDArray[np.int64]
    positions: Callable[[], NDArray[np.int64]]
    unknown: Mask

    def only(self, rows: Mask) -> Located:
        """The rows that a mask selects."""
        return Located(self.which[rows], self.slices[rows], lambda: self.positions()[rows], self.unknown)


@runtime_checkable
class LocatingEvidence(Evidence, Protocol):
    """Evidence that finds the rows of many values at once."""

    @property
    def tells_all_apart(self) -> bool:
        """True if every row that is found certainly has the value."""
        ...

    def locate(self, values: pa.Array[Any]) -> Located:
        """Find the rows of non-NULL values of the field's type, as files store them."""
        ...


@runtime_checkable
class FocusingEvidence(Evidence, Protocol):
    """Evidence that knows individual rows: those that some leaves look for."""

    def focused(self, leaves: Sequence[Leaf]) -> RowEvidence:
        """The evidence about the given leaves on the field, and no others."""
        ...


class FocusedEvidence(RowEvidence, Protocol):
    """Row evidence about the leaves of one predicate, which reads what they need on demand."""

    def bytes_to_read(self, entries: Mask, at: NDArray[np.intp] | None) -> int:
        """How many bytes must be read to tell which slices (of `at`, or of all) hold a row of the entries."""
        ...

    def bytes_of_rows(self, entries: Mask, at: NDArray[np.intp]) -> int:
        """How many bytes must be read to list the rows of the entries in some slices."""
        ...


class PagedEvidence(Protocol):
    """Evidence from pages; all but the leading ones are read only when a predicate needs them."""

    @property
    def covered(self) -> Mask:
        """See `Evidence.covered`."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """See `RowEvidence.notes`."""
        ...

    def focused(self, leaves: Sequence[Leaf]) -> FocusedEvidence:
        """The evidence about the given leaves on the field, and no others."""
        ...


@runtime_checkable
class ListedEvidence(RowEvidence, Protocol):
    """Row evidence whose entries can be displayed."""

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
    """Evidence with exact facts about some slices, not only bounds on what their rows can be.

    For a slice with log files or deleted rows, the facts describe more rows than it has: callers leave such slices out.
    """

    @property
    def row_counts(self) -> NDArray[np.int64]:
        """Number of rows of each slice, -1 where unknown."""
        ...

    @property
    def null_counts(self) -> NDArray[np.int64]:
        """Number of NULLs of each slice, -1 where unknown."""
        ...

    @property
    def low(self) -> pa.Array[Any]:
        """A lower bound of each slice's values, in the storage domain; null where none is known.

        NULL and NaN are ignored; `nan_free` tells about NaN.
        """
        ...

    @property
    def high(self) -> pa.Array[Any]:
        """An upper bound, likewise."""
        ...

    @property
    def low_is_value(self) -> Mask:
        """Slices where `low` is the value of some row, and that value can be written in only one way."""
        ...

    @property
    def high_is_value(self) -> Mask:
        """The same for `high`."""
        ...

    @property
    def nan_free(self) -> Mask:
        """Slices that hold no NaN."""
        ...

    def unread(self, semantics: Semantics) -> Mask | None:
        """Slices where an engine may read values other than those recorded; None if there are none."""
        ...


RANGED_TYPES = (
    "boolean, integers, floating point, decimal up to 38 digits, string, binary, UUID, date, time, timestamp, and "
    "fields of these types inside structs (a.b)"
)
"""The types that have ranges."""


class Ranges(NamedTuple):
    """The ranges of some slices.

    Attributes:
        slices: their ordinals; slices without a known range are absent.
        low: the position of each slice's minimum in the order of values.
        high: that of its maximum.
        text: the value at such a position, for display.
    """

    slices: NDArray[np.intp]
    low: NDArray[Any]
    high: NDArray[Any]
    text: Callable[[Any], str]


@runtime_checkable
class RangingEvidence(Evidence, Protocol):
    """Evidence from ranges. A range may be wider than the values, never narrower."""

    def ranges(self) -> Ranges:
        """The ranges of the slices for which both ends are known."""
        ...
