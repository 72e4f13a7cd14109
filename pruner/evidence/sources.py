"""What evidence comes from: an index or partition values.

The planner asks every kind the same questions. What an index type gives (`pruner.indexes.base.Evidence`) knows nothing
of engines that read a column from elsewhere, nor of records that are read when they are asked for; sources do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pruner.indexes.optional import (
    CountingEvidence,
    FocusingEvidence,
    ListedEvidence,
    LocatingEvidence,
    LookingUpEvidence,
    NotingEvidence,
    RowEvidence,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from pruner.evidence.grouped import GroupedEvidence
    from pruner.evidence.partitions import PartitionEvidence
    from pruner.expr.bound.predicates import BoundExpr, InLeaf, Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.base import Evidence
    from pruner.indexes.optional import FocusedEvidence, PagedEvidence
    from pruner.schema import Field
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]


class Source(ABC):
    """Evidence about one field, by snapshot ordinal.

    Attributes:
        index: the name under which reports show it.
        using: its index type.
    """

    def __init__(self, index: str, using: str) -> None:
        self.index = index
        self.using = using

    @property
    @abstractmethod
    def uncovered(self) -> Mask | None:
        """True for each slice without a usable record, as far as is known; None where there is none."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Why records could not be read when they were asked for."""
        return ()

    @property
    def moves(self) -> bool:
        """Whether masks over slices are all that it gives, so that they can be had for a later snapshot."""
        return False

    @property
    def longest_range(self) -> int:
        """How many values of a range it looks up one by one at most; 0 where it knows the order of values."""
        return 0

    def why_silent(self, semantics: Semantics) -> str | None:
        """Return why it never answers an engine, whatever the leaf; None where it may."""
        return None

    @abstractmethod
    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Tell for each slice whether some row can make `leaf` come to `outcome`; None where that is not known.

        Args:
            leaf: a leaf on the field.
            outcome: true, false or null.
            semantics: whose rules hold.
            at: the slices, as snapshot ordinals; None for all.
        """

    def rows(self, semantics: Semantics) -> RowEvidence | None:
        """The evidence where it knows single rows as the engine reads them; None where it does not."""
        return None

    @property
    def listed(self) -> ListedEvidence | None:
        """The evidence where it keeps values to look into; None where it does not."""
        return None

    @property
    def counted(self) -> CountingEvidence | None:
        """The evidence where it knows how many values each slice holds; None where it does not."""
        return None

    @property
    def locating(self) -> LocatingEvidence | None:
        """The evidence where it finds many values at once; None where it does not."""
        return None

    def focused(self, leaves: Sequence[Leaf]) -> Source:
        """The source for one predicate, of which these are the leaves on the field."""
        return self

    def waiting(self, semantics: Semantics) -> FocusedEvidence | None:
        """The evidence where it is read only for what is left, and whole parts of a predicate at a time.

        None for a source that is asked about each leaf.
        """
        return None


class RecordsSource(Source):
    """Evidence from the records of all slices: an index that was loaded whole, or partition values."""

    def __init__(self, index: str, using: str, evidence: Evidence) -> None:
        super().__init__(index, using)
        self.evidence = evidence
        self._uncovered = None if evidence.covered.all() else ~evidence.covered
        self._by_row = evidence if isinstance(evidence, RowEvidence) else None
        self._noting = evidence if isinstance(evidence, NotingEvidence) else None
        self._focusing = evidence if isinstance(evidence, FocusingEvidence) else None
        self._counting = evidence if isinstance(evidence, CountingEvidence) else None

    @property
    def uncovered(self) -> Mask | None:
        """See `Source.uncovered`."""
        return self._uncovered

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Source.notes`."""
        return (
            ()
            if self._noting is None
            else tuple(f"index {self.index}: {note}" for note in self._noting.notes)
        )

    @property
    def moves(self) -> bool:
        """See `Source.moves`."""
        return not isinstance(
            self.evidence,
            RowEvidence | FocusingEvidence | CountingEvidence | ListedEvidence | LocatingEvidence,
        )

    @property
    def longest_range(self) -> int:
        """See `Source.longest_range`."""
        return self.evidence.longest_range if isinstance(self.evidence, LookingUpEvidence) else 0

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """See `Source.possible`."""
        return self.evidence.possible(leaf, outcome, semantics, at)

    def rows(self, semantics: Semantics) -> RowEvidence | None:
        """See `Source.rows`."""
        return self._by_row

    def focused(self, leaves: Sequence[Leaf]) -> Source:
        """See `Source.focused`."""
        if self._focusing is None:
            return self
        evidence = self._focusing.focused(leaves)
        return FocusedSource(self.index, self.using, evidence, self._uncovered, self.longest_range)

    @property
    def listed(self) -> ListedEvidence | None:
        """See `Source.listed`."""
        return self.evidence if isinstance(self.evidence, ListedEvidence) else None

    @property
    def locating(self) -> LocatingEvidence | None:
        """See `Source.locating`."""
        return self.evidence if isinstance(self.evidence, LocatingEvidence) else None

    @property
    def counted(self) -> CountingEvidence | None:
        """See `Source.counted`."""
        return self._counting


class PathSource(RecordsSource):
    """Evidence from the values in the paths, which engines decode by rules of their own."""

    def __init__(self, index: str, using: str, evidence: PartitionEvidence) -> None:
        super().__init__(index, using, evidence)
        self._in_paths = evidence

    def why_silent(self, semantics: Semantics) -> str | None:
        """See `Source.why_silent`."""
        return self._in_paths.why_silent(semantics)


class GroupedSource(Source):
    """Evidence from groups of slices and, where they do not settle it, from records that are read then."""

    def __init__(self, index: str, using: str, evidence: GroupedEvidence) -> None:
        super().__init__(index, using)
        self._evidence = evidence

    @property
    def moves(self) -> bool:
        """See `Source.moves`."""
        return True

    @property
    def uncovered(self) -> Mask | None:
        """See `Source.uncovered`."""
        return self._evidence.uncovered

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Source.notes`."""
        return self._evidence.notes

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """See `Source.possible`."""
        return self._evidence.possible(leaf, outcome, semantics, at)


class PagedSource(Source):
    """Evidence of an index whose records are read page by page; it answers once it is `focused` on a predicate."""

    def __init__(
        self, index: str, using: str, evidence: PagedEvidence, whole: Callable[[], ListedEvidence | None]
    ) -> None:
        """`whole` reads all records, for people to look into."""
        super().__init__(index, using)
        self._evidence = evidence
        self._whole = whole
        self._uncovered = None if evidence.covered.all() else ~evidence.covered

    @property
    def uncovered(self) -> Mask | None:
        """See `Source.uncovered`."""
        return self._uncovered

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """See `Source.possible`."""
        return self._evidence.focused([leaf]).possible(leaf, outcome, semantics, at)

    def focused(self, leaves: Sequence[Leaf]) -> Source:
        """See `Source.focused`."""
        return WaitingSource(self.index, self.using, self._evidence.focused(leaves), self._uncovered)

    @property
    def listed(self) -> ListedEvidence | None:
        """See `Source.listed`."""
        return self._whole()


class FocusedSource(Source):
    """What an index that looks up what is asked for says about one predicate."""

    def __init__(
        self,
        index: str,
        using: str,
        evidence: RowEvidence,
        uncovered: Mask | None,
        longest_range: int = 0,
    ) -> None:
        super().__init__(index, using)
        self._evidence = evidence
        self._uncovered = uncovered
        self._longest_range = longest_range

    @property
    def uncovered(self) -> Mask | None:
        """See `Source.uncovered`."""
        return self._uncovered

    @property
    def longest_range(self) -> int:
        """See `Source.longest_range`."""
        return self._longest_range

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Source.notes`."""
        return tuple(f"index {self.index}: {note}" for note in self._evidence.notes)

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """See `Source.possible`."""
        return self._evidence.possible(leaf, outcome, semantics, at)

    def rows(self, semantics: Semantics) -> RowEvidence | None:
        """See `Source.rows`."""
        return self._evidence


class WaitingSource(FocusedSource):
    """What a `PagedSource` says about one predicate."""

    def __init__(self, index: str, using: str, evidence: FocusedEvidence, uncovered: Mask | None) -> None:
        super().__init__(index, using, evidence, uncovered)
        self._waiting = evidence

    def waiting(self, semantics: Semantics) -> FocusedEvidence | None:
        """See `Source.waiting`."""
        return self._waiting


@dataclass
class Sources:
    """What is known of one field, and why some of it could not be used."""

    usable: list[Source] = field(default_factory=list[Source])
    fallbacks: list[str] = field(default_factory=list[str])

    def focused(self, leaves: Sequence[Leaf]) -> Sources:
        """The same for one predicate: see `Source.focused`."""
        return Sources([each.focused(leaves) for each in self.usable], self.fallbacks)


class KnowsFields(Protocol):
    """Gives the sources of fields, as `pruner.evidence.snapshot.SnapshotEvidence` does."""

    def sources(self, about: Field) -> Sources:
        """Everything that is known of one field."""
        ...


class OwnIndexes(Protocol):
    """What a table itself keeps as indexes, for one snapshot: beside pruner's own, and asked after them."""

    @property
    def names(self) -> tuple[str, ...]:
        """What the indexes are called."""
        ...

    @property
    def expressions(self) -> list[tuple[str, str]]:
        """Names and forms of the expressions that indexes are over and that plans can ask."""
        ...

    def add(self, about: Field, found: Sources) -> None:
        """Add what is known of a field to its sources, or why it cannot be used."""
        ...

    def implied(
        self, predicate: BoundExpr, semantics: Semantics
    ) -> Iterator[tuple[InLeaf, KnowsFields | None]]:
        """Yield what follows from a predicate and can be looked up: see `pruner.planning.planner.Planner`."""
        ...

    def described(self) -> dict[str, str]:
        """What plans make of each index, by its name. Some indexes are read for it."""
        ...
