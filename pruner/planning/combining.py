"""Queries the evidence for one set of slices and one semantics, for any leaf and outcome.

This implements the rules for combining sources (R1, R2). Slices that no index may cover are kept. A value that may come
from either of two locations is excluded only where both exclude it. Several sources about the same value are AND-ed.
If together they exclude every outcome for a slice that has rows, one of them must be wrong, and the slice is kept.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from pruner.expr.bound.value_lists import ValuesOfRange
from pruner.expr.show import describe
from pruner.showing.words import counted
from pruner.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.evidence.sources import KnowsFields, Source
    from pruner.expr.bound.predicates import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.planning.survivors import Survivors
    from pruner.tables.snapshot import Snapshot

    Mask = NDArray[np.bool_]


class CombinedEvidence:
    """Asks the evidence about the slices `at` (snapshot ordinals; None for all) and remembers which indexes answered.

    Deferred sources (`Source.deferred`) are left out unless `everything` is set: see `pruner.planning.planner`.

    Attributes:
        answered: the indexes that answered, by name, with their types, in the order in which they first did.
        notes: each reason why something could not be asked or believed, once.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        evidence: KnowsFields,
        semantics: Semantics,
        at: NDArray[np.intp] | None,
        *,
        everything: bool = False,
    ) -> None:
        self._snapshot = snapshot
        self._noun = snapshot.noun
        self._evidence = evidence
        self._semantics = semantics
        self._at = at
        self._everything = everything
        uncoverable = snapshot.uncoverable
        self._uncoverable = uncoverable if uncoverable is None or at is None else uncoverable[at]
        self._uncovered: list[Mask] = []
        self.answered: dict[str, str] = {}
        self.notes: dict[str, None] = {}

    @property
    def count(self) -> int:
        """Number of slices that are asked about."""
        return len(self._snapshot) if self._at is None else len(self._at)

    def leaf(self, leaf: Leaf, outcome: Outcome) -> Mask:
        """Tell for each slice whether some row can make `leaf` evaluate to `outcome`, by all sources together."""
        sources = self.at_hand(leaf)
        answers = [answer for source in sources if (answer := self.ask(source, leaf, outcome)) is not None]
        if not answers:
            self.note_silence(leaf)
            return np.ones(self.count, np.bool_)
        together = reduce(np.logical_and, answers)
        if len(answers) == 1 or together.all():
            return together
        return together | self.contradicted(leaf, sources)

    def at_hand(self, leaf: Leaf) -> list[Source]:
        """The sources about a leaf's field that are not deferred, or all with `everything`."""
        sources = self.sources(leaf)
        return (
            sources
            if self._everything
            else [source for source in sources if source.deferred(self._semantics) is None]
        )

    def sources(self, leaf: Leaf) -> list[Source]:
        """The sources about a leaf's field; notes those known to be unusable."""
        sources = self._evidence.sources(leaf.field)
        self.notes.update(dict.fromkeys(sources.fallbacks))
        if isinstance(leaf, ValuesOfRange):
            return [source for source in sources.usable if source.can.longest_range]
        return sources.usable

    def ask(self, source: Source, leaf: Leaf, outcome: Outcome) -> Mask | None:
        """The answer of one source; None if it has none for such a leaf or for this engine."""
        answer = source.possible(leaf, outcome, self._semantics, self._at)
        self.notes.update(dict.fromkeys(source.notes))
        if answer is None:
            return None
        self.answered[source.index] = source.using
        if source.uncovered is not None:
            self._uncovered.append(source.uncovered)
        return answer if self._uncoverable is None else answer | self._uncoverable

    def few(self, leaf: Leaf, below: float) -> NDArray[np.intp] | None:
        """The slices on which a leaf can be true according to its only source, ascending.

        None if there are other sources, or slices that no index may cover or this one does not, or if the slices are
        not fewer than `below`.
        """
        sources = self.at_hand(leaf)
        if len(sources) != 1 or self._uncoverable is not None or sources[0].uncovered is not None:
            return None
        (source,) = sources
        wanted = source.few(leaf, self._semantics, below)
        self.notes.update(dict.fromkeys(source.notes))
        if wanted is not None:
            self.answered[source.index] = source.using
        return wanted

    def note_silence(self, leaf: Leaf) -> None:
        """Note that no index could answer for a leaf, unless a deferred one is asked later."""
        usable = self.sources(leaf)
        if len(self.at_hand(leaf)) < len(usable):
            return
        reasons = [why for source in usable if (why := source.why_silent(self._semantics)) is not None]
        if usable and len(reasons) == len(usable):
            self.notes.update(dict.fromkeys(reasons))
            return
        known = bool(usable)
        if not known and self._evidence.sources(leaf.field).fallbacks:
            return  # there is an index; why it cannot be used has been noted
        self.notes[
            f"no index on column {leaf.field.name} can answer {describe(leaf)}"
            if known
            else f"no index on column {leaf.field.name}"
        ] = None

    def contradicted(self, leaf: Leaf, sources: Sequence[Source]) -> Mask:
        """Slices for which the sources together exclude all three outcomes though none of them says "no rows"."""
        excluded = np.ones(self.count, np.bool_)
        empty = [np.ones(self.count, np.bool_) for _ in sources]
        for outcome in Outcome:
            excluded_by_any = np.zeros(self.count, np.bool_)
            for position, source in enumerate(sources):
                answer = self.ask(source, leaf, outcome)
                excludes = np.zeros(self.count, np.bool_) if answer is None else ~answer
                excluded_by_any |= excludes
                empty[position] &= excludes
            excluded &= excluded_by_any
            if not excluded.any():
                return excluded
        contradicted = excluded & ~reduce(np.logical_or, empty, np.zeros(self.count, np.bool_))
        if contradicted.any():
            self.notes[
                f"indexes contradict each other on column {leaf.field.name} for "
                f"{counted(int(np.count_nonzero(contradicted)), self._noun)}: kept"
            ] = None
        return contradicted

    def uncovered_among(self, survivors: Survivors) -> int:
        """How many survivors are not covered by some source that answered; all of them if none answered."""
        if not self.answered:
            return survivors.left
        return survivors.count_in(reduce(np.logical_or, self._uncovered)) if self._uncovered else 0
