"""Sources that say less than the records of an index do, since not every engine or not every file is about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pruner.arrow import compute
from pruner.evidence.sources import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf
    from pruner.expr.engines import Origin
    from pruner.expr.semantics import Semantics
    from pruner.indexes.optional import CountingEvidence, FocusedEvidence, ListedEvidence, RowEvidence
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]


class SourceOfIndex(Source):
    """A source that says something else about the same records of an index."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.index, source.using)
        self._source = source

    @property
    def uncovered(self) -> Mask | None:
        """See `Source.uncovered`."""
        return self._source.uncovered

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Source.notes`."""
        return self._source.notes

    @property
    def longest_range(self) -> int:
        """See `Source.longest_range`."""
        return self._source.longest_range

    @property
    def listed(self) -> ListedEvidence | None:
        """See `Source.listed`."""
        return self._source.listed

    @property
    def counted(self) -> CountingEvidence | None:
        """See `Source.counted`."""
        return self._source.counted


class EitherSource(SourceOfIndex):
    """Evidence of an index about a column that stands in the path as well, where the engine may read either (trap N6).

    Only what both exclude is excluded (R2). Which rows have the value of the path is not recorded.
    """

    def __init__(self, in_file: Source, in_path: Source) -> None:
        super().__init__(in_file)
        self._in_path = in_path

    def focused(self, leaves: Sequence[Leaf]) -> Source:
        """See `Source.focused`."""
        return EitherSource(self._source.focused(leaves), self._in_path.focused(leaves))

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """See `Source.possible`."""
        in_file = self._source.possible(leaf, outcome, semantics, at)
        in_path = self._in_path.possible(leaf, outcome, semantics, at)
        return None if in_file is None or in_path is None else in_file | in_path


class LimitedSource(SourceOfIndex):
    """Evidence about a value that those scans alone read that take a shared partition column from its origin."""

    def __init__(self, source: Source, origin: Origin, *, by_engine: bool) -> None:
        """Limit a source.

        Args:
            source: the source.
            origin: where the value comes from.
            by_engine: whether it is known what an engine reads of which the scan does not say it.
        """
        super().__init__(source)
        self._origin = origin
        self._by_engine = by_engine

    def focused(self, leaves: Sequence[Leaf]) -> Source:
        """See `Source.focused`."""
        return LimitedSource(self._source.focused(leaves), self._origin, by_engine=self._by_engine)

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """See `Source.possible`."""
        return self._source.possible(leaf, outcome, semantics, at) if self._is_read(semantics) else None

    def rows(self, semantics: Semantics) -> RowEvidence | None:
        """See `Source.rows`."""
        return self._source.rows(semantics) if self._is_read(semantics) else None

    def waiting(self, semantics: Semantics) -> FocusedEvidence | None:
        """See `Source.waiting`."""
        return self._source.waiting(semantics) if self._is_read(semantics) else None

    def _is_read(self, semantics: Semantics) -> bool:
        said = semantics.shared_partition_columns
        if said is None and self._by_engine:
            said = semantics.traits.shared_partition_columns
        return said is self._origin


class LaterSource(SourceOfIndex):
    """Evidence about a column that a change of the schema gave its name: of older files it says nothing (trap T2).

    Engines find a column by its name or by its field id, and for files from before the change these are two columns.
    """

    def __init__(self, source: Source, earlier: Mask) -> None:
        """`earlier` marks the slices whose files may be from before the change."""
        super().__init__(source)
        self._earlier = earlier

    @property
    def uncovered(self) -> Mask | None:
        """See `Source.uncovered`."""
        uncovered = self._source.uncovered
        return self._earlier if uncovered is None else uncovered | self._earlier

    def focused(self, leaves: Sequence[Leaf]) -> Source:
        """See `Source.focused`."""
        return LaterSource(self._source.focused(leaves), self._earlier)

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """See `Source.possible`."""
        answer = self._source.possible(leaf, outcome, semantics, at)
        return None if answer is None else answer | (self._earlier if at is None else self._earlier[at])


def from_before(snapshot: Snapshot, about: Field) -> Mask | None:
    """Mark the slices with a file that may be from before the last change of a column; None where there is none."""
    since = about.since
    if since is None:
        return None
    instants = snapshot.columns.column("base_instant")
    later = np.asarray(compute.fill_null(compute.greater(instants, since.instant), False))
    earlier = ~later | snapshot.has_logs
    return earlier if earlier.any() else None
