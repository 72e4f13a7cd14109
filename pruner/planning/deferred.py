"""Deferred sources: indexes whose records are read page by page, asked last and only about what is left.

What is at hand has been asked before, and has dropped what it could. A part of the predicate is then asked of the
pages as a whole, so that `id BETWEEN a AND b` reads what lies between and not all that is above a. The cheapest part
comes first. Where an answer would take more bytes than the files that are left have, they are kept instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pruner.expr.bound.fields import grouped, leaves, only_field, single_field_parts
from pruner.expr.bound.predicates import BoundAnd
from pruner.expr.nodes import Constant
from pruner.planning.combining import CombinedEvidence
from pruner.planning.row_level import entries_of
from pruner.verdict import Outcome, evaluate, possible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pruner.evidence.sources import Focus, Source, Sources
    from pruner.expr.bound.predicates import BoundExpr
    from pruner.expr.semantics import Semantics
    from pruner.indexes.optional import FocusedEvidence
    from pruner.tables.snapshot import Snapshot

    Mask = NDArray[np.bool_]
    Ordinals = NDArray[np.intp]


class Question(NamedTuple):
    """A part of a predicate, and the deferred sources that it is asked of."""

    part: BoundExpr
    sources: list[Source]


class DeferredSources:
    """Asks the deferred sources of one predicate."""

    def __init__(self, snapshot: Snapshot, evidence: Focus, semantics: Semantics) -> None:
        self._snapshot = snapshot
        self._evidence = evidence
        self._semantics = semantics

    def questions(self, predicate: BoundExpr) -> list[Question]:
        """The parts of a predicate, all of which must hold, that some deferred source is about."""
        if not any(self._defers(found) for found in self._evidence.known.values()):
            return []  # mostly: that no source is deferred is told sooner than how the predicate comes apart
        whole = grouped(predicate)
        parts = (whole,)
        if isinstance(whole, BoundAnd) and only_field(whole) is None:
            parts = whole.operands
        found = (Question(part, list(self._sources_of(part))) for part in parts)
        return [each for each in found if each.sources]

    def _defers(self, found: Sources) -> bool:
        return any(source.deferred(self._semantics) is not None for source in found.usable)

    def _sources_of(self, part: BoundExpr) -> Iterator[Source]:
        fields = dict.fromkeys(leaf.field for leaf in leaves(part))
        for field in fields:
            for source in self._evidence.sources(field).usable:
                if source.deferred(self._semantics) is not None:
                    yield source

    def _asked(self, of: BoundExpr) -> Iterator[FocusedEvidence]:
        """The deferred evidence about a part that is about one field."""
        for source in self._sources_of(of):
            evidence = source.deferred(self._semantics)
            assert evidence is not None
            yield evidence

    def cost(self, question: Question, at: Ordinals | None) -> int:
        """Bytes to read for an answer about some slices."""
        return sum(
            evidence.bytes_to_read(entries_of(of, Outcome.TRUE, evidence, self._semantics).mask, at)
            for of in single_field_parts(question.part)
            for evidence in self._asked(of)
        )

    def keep(self, question: Question, at: Ordinals | None) -> Mask:
        """Tell for each of some slices whether a row of it can meet the part, by all sources together."""
        combined = CombinedEvidence(self._snapshot, self._evidence, self._semantics, at)

        def part(of: BoundExpr, outcome: Outcome) -> Mask | None:
            if only_field(of) is None or isinstance(of, Constant):
                return None
            found = possible(of, outcome, combined.leaf, combined.count)
            for evidence in self._asked(of):
                entries = entries_of(of, outcome, evidence, self._semantics)
                found = found & evidence.holding(entries.mask, self._semantics, at)
            return found | self._contradicted(of, combined)

        return evaluate(question.part, Outcome.TRUE, part, lambda holds: np.full(combined.count, holds))

    def _contradicted(self, of: BoundExpr, combined: CombinedEvidence) -> Mask:
        """Slices about which the sources of a single leaf contradict each other (R2)."""
        about = list(leaves(of))
        sources = combined.sources(about[0])
        if len(about) > 1 or len(sources) < 2:
            return np.zeros(combined.count, np.bool_)
        return combined.contradicted(about[0], sources)
