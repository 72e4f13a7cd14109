"""Hudi's column statistics of a large table, read for the partitions alone that are asked about.

A key of theirs begins with the column and the partition. So where a predicate has left few partitions, their blocks
are read, and what is said of their slices is the very same. A slice of another partition counts as not covered.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final

import numpy as np

from pruner.errors import FormatError, StorageError
from pruner.evidence.sources import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.base import Evidence
    from pruner.tables.snapshot import Snapshot
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]
    Paths = tuple[str, ...]
    Load = Callable[[Sequence[Paths] | None], tuple[Evidence, tuple[str, ...]]]

LARGE: Final = 2_000
"""Slices of a table from which on partitions are read apart: below, all are one request of a few blocks."""

FEW: Final = 0.25
"""Share of the partitions up to which they are read apart."""


def statistics_by_partition(index: str, using: str, snapshot: Snapshot, load: Load) -> Source:
    """Statistics of one column, read for the partitions that are asked about.

    `load` gives the evidence of some sets of partitions, or of all, and why slices have none.
    """
    return Source(index, using, _ByPartition(index, snapshot, load))


class _ByPartition:
    """Answers by statistics of one column. Threads may share it."""

    def __init__(self, index: str, snapshot: Snapshot, load: Load) -> None:
        self._index = index
        self._snapshot = snapshot
        self._load = load
        self._lock = Lock()
        self._sets: list[Paths] | None = []
        """Partitions as they were read: what was read before is remembered in these sets."""
        self._read: frozenset[int] = frozenset()
        self._evidence: Evidence | None = None
        self._notes: tuple[str, ...] = ()

    @property
    def uncovered(self) -> Mask | None:
        """See `Answers.uncovered`."""
        evidence = self._evidence
        if evidence is None:
            return np.ones(len(self._snapshot), np.bool_)
        return None if evidence.covered.all() else ~evidence.covered

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Answers.notes`."""
        return tuple(f"index {self._index}: {note}" for note in self._notes)

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """See `Answers.possible`."""
        if at is not None and not len(at):
            return np.ones(0, np.bool_)
        try:
            evidence = self._about(at)
        except (FormatError, StorageError) as error:
            self._notes = (str(error),)
            return None
        # Of a column without statistics nothing is said, as where all are read at once.
        return evidence.possible(leaf, outcome, semantics, at) if evidence.covered.any() else None

    def _about(self, at: NDArray[np.intp] | None) -> Evidence:
        """Evidence that has what is known of some slices; None for all."""
        with self._lock:
            wanted = None if at is None else self._partitions(at)
            evidence, sets = self._evidence, self._sets
            if evidence is not None and (sets is None or (wanted is not None and wanted <= self._read)):
                return evidence
            paths = self._snapshot.partitions.paths
            if sets is None or wanted is None or len(wanted | self._read) > FEW * len(paths):
                found, self._notes = self._load(None)
                self._sets = None
            else:
                more = sorted(wanted - self._read)
                sets = [*sets, tuple(str(paths[ordinal].as_py()) for ordinal in more)]
                found, self._notes = self._load(sets)
                self._sets, self._read = sets, wanted | self._read
            self._evidence = found
            return found

    def _partitions(self, at: NDArray[np.intp]) -> frozenset[int]:
        return frozenset(np.unique(np.asarray(self._snapshot.partition_ordinals)[at]).tolist())
