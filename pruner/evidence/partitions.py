"""Partition values as evidence: the path of a slice says one value for all of its rows.

A partition is judged like a file whose statistics are that one value, and its slices share the verdict.
Nothing has to be built for it. Whether the value in the path may be believed at all is the snapshot's to say
(`Partitions`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.indexes.registry import evidence_of_values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.base import Evidence
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]


class PartitionEvidence:
    """Evidence about partitions, spread over their slices: see `pruner.indexes.base.Evidence`."""

    def __init__(self, by_partition: Evidence, about: Field, snapshot: Snapshot) -> None:
        self._by_partition = by_partition
        self._partitions = snapshot.partitions
        self._path = about.path
        self._name = about.name
        self._ordinals = snapshot.partition_ordinals
        self.covered: Mask = by_partition.covered[self._ordinals]
        """Slices whose partition has a usable value."""

    @property
    def count(self) -> int:
        """Number of slices."""
        return len(self._ordinals)

    def why_silent(self, semantics: Semantics) -> str | None:
        """Return why an engine is never answered; None where it may be."""
        if self._path in self._partitions.shared or self._partitions.trusts(self._path, semantics.traits):
            return None
        return (
            f"partition column {self._name}: {semantics.engine} may read the text of a folder otherwise "
            "(escaped bytes, a second '=', or what looks like a number or NULL)"
        )

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Judge each partition once and hand the verdict to its slices: see `Evidence.possible`.

        None where the asking engine may read another value from the path than was decoded (trap N2).
        """
        if self.why_silent(semantics) is not None:
            return None
        verdict = self._by_partition.possible(leaf, outcome, semantics, None)
        if verdict is None:
            return None
        return verdict[self._ordinals if at is None else self._ordinals[at]]


def partition_evidence(snapshot: Snapshot, about: Field) -> PartitionEvidence | None:
    """Evidence from the partition values of one field; None where the snapshot has no values that could be used."""
    values = snapshot.partitions.values.get(about.path)
    by_partition = None if values is None else evidence_of_values(values, about)
    return None if by_partition is None else PartitionEvidence(by_partition, about, snapshot)
