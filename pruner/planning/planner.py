"""The planner: the one place with control flow between a predicate and the evidence about it.

The predicate's top-level conjuncts are evaluated one after another, each only for the slices that earlier ones left. A
slice is dropped if some conjunct is proven never true on it. Sources at hand are asked first, then those that must be
read page by page (`pruner.planning.planner`). The order changes the report, not the result.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from pruner.evidence.file_filters import MOST_VALUES
from pruner.evidence.file_filters import NAME as FILE_FILTERS
from pruner.evidence.file_filters import USING as FILE_FILTERS_USING
from pruner.evidence.sources import Focus
from pruner.expr.bound.fields import (
    grouped,
    leaves,
    only_field,
    single_field_parts,
    unknowns,
    with_nans_decided,
)
from pruner.expr.bound.predicates import (
    BoundAnd,
    BoundIsNull,
    BoundNot,
    BoundOr,
    CompareLeaf,
    InLeaf,
    Unknown,
    UnknownKind,
)
from pruner.expr.bound.value_lists import conditions, listed, with_lists, with_spans
from pruner.expr.nodes import Constant
from pruner.expr.show import describe
from pruner.planning import row_level
from pruner.planning.combining import CombinedEvidence
from pruner.planning.kept_slices import KeptSlices
from pruner.planning.plan import Plan
from pruner.planning.report import FunnelStep, PlanFacts
from pruner.planning.row_level import RowLevel, entries_of
from pruner.planning.rows import RowPositions
from pruner.planning.survivors import Survivors
from pruner.plugins import BrokenPluginError
from pruner.showing.words import counted, data_size
from pruner.verdict import Outcome, evaluate, possible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from pruner.evidence.exact import ExactFacts
    from pruner.evidence.file_filters import FileFilters
    from pruner.evidence.snapshot import IndexCost
    from pruner.evidence.sources import KnowsFields, Source, Sources
    from pruner.expr.bound.predicates import BoundExpr, Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.optional import FocusedEvidence, LocatingEvidence
    from pruner.schema import Field, TableSchema
    from pruner.tables.snapshot import Snapshot

    Mask = NDArray[np.bool_]
    Ordinals = NDArray[np.intp]
    Implied: TypeAlias = Callable[[BoundExpr, Semantics], Iterable[tuple[Leaf, KnowsFields | None]]]


# Deferred sources: indexes whose records are read page by page, asked last and only about the slices that are left.
#
# The sources at hand have already dropped what they could. A part of the predicate is then evaluated on the pages as a
# whole, so that `id BETWEEN a AND b` reads what lies between and not everything above a. The cheapest part comes first.
# If an answer would read more than `WORTH_READING` of the bytes of the files that are left, they are kept instead.


class DeferredQuestion(NamedTuple):
    """A part of a predicate, and the deferred sources that can answer it."""

    part: BoundExpr
    sources: list[Source]


class DeferredSources:
    """Asks the deferred sources of one predicate."""

    def __init__(self, snapshot: Snapshot, evidence: Focus, semantics: Semantics) -> None:
        self._snapshot = snapshot
        self._evidence = evidence
        self._semantics = semantics

    def questions(self, predicate: BoundExpr) -> list[DeferredQuestion]:
        """The conjuncts of a predicate about which there is some deferred source."""
        if not any(self._defers(found) for found in self._evidence.known.values()):
            return []  # the usual case, and cheaper to detect than splitting the predicate
        whole = grouped(predicate)
        parts = (whole,)
        if isinstance(whole, BoundAnd) and only_field(whole) is None:
            parts = whole.operands
        found = (DeferredQuestion(part, list(self._sources_of(part))) for part in parts)
        return [question for question in found if question.sources]

    def _defers(self, sources: Sources) -> bool:
        return any(source.deferred(self._semantics) is not None for source in sources.usable)

    def _sources_of(self, part: BoundExpr) -> Iterator[Source]:
        fields = dict.fromkeys(leaf.field for leaf in leaves(part))
        for subject in fields:
            for source in self._evidence.sources(subject).usable:
                if source.deferred(self._semantics) is not None:
                    yield source

    def _asked(self, of: BoundExpr) -> Iterator[FocusedEvidence]:
        """The deferred evidence about a part that is about one field."""
        for source in self._sources_of(of):
            evidence = source.deferred(self._semantics)
            assert evidence is not None
            yield evidence

    def cost(self, question: DeferredQuestion, at: Ordinals | None) -> int:
        """Bytes to read for an answer about some slices."""
        return sum(
            evidence.bytes_to_read(entries_of(of, Outcome.TRUE, evidence, self._semantics).mask, at)
            for of in single_field_parts(question.part)
            for evidence in self._asked(of)
        )

    def keep(self, question: DeferredQuestion, at: Ordinals | None) -> Mask:
        """Tell for each slice in `at` whether a row of it can meet the part, by all sources together."""
        combined = CombinedEvidence(self._snapshot, self._evidence, self._semantics, at)

        def part(of: BoundExpr, outcome: Outcome) -> Mask | None:
            if only_field(of) is None or isinstance(of, Constant):
                return None
            mask = possible(of, outcome, combined.leaf, combined.count)
            for evidence in self._asked(of):
                entries = entries_of(of, outcome, evidence, self._semantics)
                mask = mask & evidence.holding(entries.mask, self._semantics, at)
            return mask | self._contradicted(of, combined)

        return evaluate(question.part, Outcome.TRUE, part, lambda holds: np.full(combined.count, holds))

    def _contradicted(self, of: BoundExpr, combined: CombinedEvidence) -> Mask:
        """Slices about which the sources of a single leaf contradict each other (R2)."""
        about = list(leaves(of))
        sources = combined.sources(about[0])
        if len(about) > 1 or len(sources) < 2:
            return np.zeros(combined.count, np.bool_)
        return combined.contradicted(about[0], sources)


NO_INDEX = "none"
"""What the report shows as index if no index answered."""


@dataclass(slots=True)
class _Step:
    """A step of the funnel before its clause is formatted, which takes as long as asking an index.

    Fields are those of `FunnelStep`.
    """

    clause: BoundExpr
    index: str
    using: str
    considered: int
    dropped: int
    uncovered: int
    note: str | None = None


@dataclass
class _Progress:
    """Which slices are left, and what is reported about the others."""

    survivors: Survivors
    steps: list[_Step] = field(default_factory=list[_Step])
    fallbacks: dict[str, None] = field(default_factory=dict[str, None])
    dropped: dict[str, int] = field(default_factory=dict[str, int])

    def apply(self, clause: BoundExpr, keep: Mask, answered: dict[str, str], uncovered: int) -> None:
        """Drop the survivors that are not in `keep` and add the step to the funnel."""
        considered = self.survivors.left
        self.survivors.keep(keep, len(self.steps) + 1)
        self._add(clause, considered, answered, uncovered)

    def apply_few(self, clause: BoundExpr, wanted: Ordinals, answered: dict[str, str]) -> None:
        """The same with the ordinals of the wanted slices, fewer than `Survivors.few`."""
        considered = self.survivors.left
        self.survivors.keep_few(wanted, len(self.steps) + 1)
        self._add(clause, considered, answered, 0)

    def _add(self, clause: BoundExpr, considered: int, answered: dict[str, str], uncovered: int) -> None:
        dropped = considered - self.survivors.left
        for index in answered:
            self.dropped[index] = self.dropped.get(index, 0) + dropped
        index, using = "+".join(answered), "+".join(dict.fromkeys(answered.values()))
        self.steps.append(_Step(clause, index or NO_INDEX, using or NO_INDEX, considered, dropped, uncovered))

    def decline(self, clause: BoundExpr, indexes: dict[str, str], reason: str) -> None:
        """Add a step for indexes that are not asked, with the reason."""
        left, names = self.survivors.left, "+".join(indexes)
        using = "+".join(dict.fromkeys(indexes.values()))
        self.steps.append(_Step(clause, names, using, left, 0, left, f"not asked: {reason}"))
        self.fallbacks[f"index {names} is not asked: {reason}"] = None

    def skip(self, clause: BoundExpr, reason: str) -> None:
        """Add a step that could drop nothing, with the reason."""
        left = self.survivors.left
        self.steps.append(_Step(clause, NO_INDEX, NO_INDEX, left, 0, left, reason))
        self.fallbacks[reason] = None

    def funnel(self) -> tuple[FunnelStep, ...]:
        """The steps as reports show them."""
        return tuple(
            FunnelStep(describe(s.clause), s.index, s.using, s.considered, s.dropped, s.uncovered, s.note)
            for s in self.steps
        )


class Planner:
    """Plans predicates over one snapshot; holds no per-plan state, so threads may share it."""

    def __init__(
        self,
        snapshot: Snapshot,
        evidence: KnowsFields,
        storage_options: Mapping[str, str] | None = None,
        saved: Callable[[Mapping[str, int]], None] = lambda _: None,
        cost: Callable[[str], IndexCost | None] = lambda _: None,
        implied: Implied = lambda _, __: (),
        filters: FileFilters | None = None,
        facts: ExactFacts | None = None,
    ) -> None:
        """Plan over a snapshot.

        Args:
            snapshot: the slices.
            evidence: what indexes know of them.
            storage_options: options for opening the files of the snapshot; plans pass them on.
            saved: called for each plan with the number of slices that each index dropped.
            cost: returns what an index costs, for reports.
            implied: returns further conditions that hold wherever a predicate is true, each with the evidence about its
                field: None stands for `evidence`.
            filters: the Bloom filters in the files; None if they must not be probed.
            facts: exact facts about the slices, for answers; None for none.
        """
        self._implied = implied
        self._filters = filters
        self._exact = facts
        self._saved = saved
        self.cost = cost
        self._snapshot = snapshot
        self._evidence = evidence
        self._storage_options = storage_options or {}

    @property
    def row_counts(self) -> NDArray[np.int64] | None:
        """The number of rows, by indexes, of each slice with exactly the rows of its base file; -1 where unknown."""
        return None if self._exact is None else self._exact.indexed_counts

    def locating(self, field: Field) -> LocatingEvidence | None:
        """Evidence that finds the rows of many values of a field at once; None if no index does."""
        return next(
            (
                evidence
                for source in self._evidence.sources(field).usable
                if (evidence := source.can.locating) is not None
            ),
            None,
        )

    def plan(
        self,
        predicate: BoundExpr,
        text: str,
        semantics: Semantics,
        notes: Iterable[str] = (),
        schema: TableSchema | None = None,
    ) -> Plan:
        """Find the slices that can hold a row for which `predicate` is true under `semantics`.

        Args:
            predicate: bound to this snapshot's schema.
            text: how the report shows the whole predicate.
            semantics: the rules of the engine.
            notes: reasons, known in advance, why something cannot be used to prune.
            schema: as the engine reads the table; that of the snapshot unless given.
        """
        started = time.perf_counter()
        longest = cache(partial(self._longest_range, semantics=semantics))
        asked = with_lists(with_spans(with_nans_decided(predicate, semantics), longest), longest)
        evidence = Focus(self._evidence, asked)
        progress = _Progress(
            Survivors(len(self._snapshot)), fallbacks=dict.fromkeys((*notes, *self._uncoverable_notes))
        )
        for clause in sorted(conditions(asked), key=_evaluation_rank):
            self._apply(clause, evidence, semantics, progress)
        answered = self._apply_deferred(asked, DeferredSources(self._snapshot, evidence, semantics), progress)
        self._apply_implied(predicate, semantics, progress)
        rows = RowLevel(self._snapshot, evidence, semantics, asked)
        if answered and rows.can_narrow and progress.survivors.left:
            self._apply_rows(predicate, rows, progress)
        self._apply_file_filters(predicate, evidence, semantics, progress)
        count = partial(self._saved, progress.dropped)
        count()
        facts = PlanFacts(
            snapshot=self._snapshot,
            predicate=text,
            semantics=semantics,
            survivors=progress.survivors,
            funnel=progress.funnel,
            fallbacks=tuple(progress.fallbacks),
            planning_seconds=time.perf_counter() - started,
            costs=lambda: [each for name in progress.dropped if (each := self.cost(name)) is not None],
            bound=predicate,
            gaps=partial(_gaps, progress, evidence),
            count_again=count,
        )
        return Plan(
            facts,
            all_match=lambda: self._every_row_matches(predicate, evidence, semantics),
            rows=partial(_row_positions, self._snapshot, rows),
            storage_options=self._storage_options,
            kept_slices=lambda: KeptSlices(
                self._snapshot,
                self._evidence,
                self._exact,
                asked,
                semantics,
                schema or self._snapshot.schema,
                progress.survivors.ordinals(),
                rows,
            ),
        )

    def _longest_range(self, about: Field, semantics: Semantics) -> int:
        """Most values of a range on a field that are looked up one by one.

        0 if an index that knows their order tells single values apart and covers all slices.
        """
        sources = self._evidence.sources(about).usable
        longest = max((source.can.longest_range for source in sources), default=0)
        ordered = (source for source in sources if not source.can.longest_range and source.uncovered is None)
        return (
            0
            if longest and any(_tells_apart(source.focused(()), semantics) for source in ordered)
            else longest
        )

    @cached_property
    def _uncoverable_notes(self) -> tuple[str, ...]:
        reasons = self._snapshot.uncoverable_because
        return tuple(
            f"{reason}: {counted(count, self._snapshot.noun)} kept" for reason, count in reasons.items()
        )

    def _apply(self, clause: BoundExpr, evidence: Focus, semantics: Semantics, progress: _Progress) -> None:
        """Drop the slices on which one conjunct is proven never true, by the sources at hand."""
        combined = CombinedEvidence(self._snapshot, evidence, semantics, progress.survivors.at)
        match clause:
            case Constant(True):
                pass
            case Constant():
                progress.apply(clause, np.zeros(combined.count, np.bool_), {}, 0)
            case Unknown():
                progress.skip(clause, str(clause))
            case BoundAnd() | BoundOr() | BoundNot() | BoundIsNull():
                self._apply_composite(clause, combined, progress)
            case _:
                self._apply_leaf(clause, combined, progress)
        progress.fallbacks.update(combined.notes)

    def _apply_leaf(self, leaf: Leaf, combined: CombinedEvidence, progress: _Progress) -> None:
        """Evaluate a leaf source by source, so that the report shows what each of them dropped."""
        if progress.survivors.at is None:
            named = combined.few(leaf, progress.survivors.few)
            if named is not None:
                progress.apply_few(leaf, named, combined.answered)
                return
        sources = combined.at_hand(leaf)
        rescued = combined.contradicted(leaf, sources) if len(sources) > 1 else None
        asked = progress.survivors.at
        for source in sources:
            keep = combined.ask(source, leaf, Outcome.TRUE)
            if keep is not None:
                kept = _about(progress.survivors.at, keep if rescued is None else keep | rescued, asked)
                uncovered = 0 if source.uncovered is None else progress.survivors.count_in(source.uncovered)
                if uncovered and leaf.field.expression is not None:
                    progress.fallbacks[_left_open(source.index, uncovered, self._snapshot.noun)] = None
                progress.apply(leaf, kept, {source.index: source.using}, uncovered)
        if not combined.answered and len(sources) == len(combined.sources(leaf)):
            combined.note_silence(leaf)
            progress.skip(leaf, next(reversed(combined.notes)))

    def _apply_composite(self, clause: BoundExpr, combined: CombinedEvidence, progress: _Progress) -> None:
        for part in unknowns(clause):
            if part.kind is UnknownKind.OUTSIDE:
                continue  # not a gap of pruner: values that the rule of a function leaves to the engine
            progress.fallbacks[str(part)] = None
        keep = possible(clause, Outcome.TRUE, combined.leaf, combined.count)
        all_at_hand = all(
            len(combined.at_hand(leaf)) == len(combined.sources(leaf)) for leaf in leaves(clause)
        )
        if combined.answered or all_at_hand:
            progress.apply(clause, keep, combined.answered, combined.uncovered_among(progress.survivors))

    def _apply_deferred(self, predicate: BoundExpr, deferred: DeferredSources, progress: _Progress) -> bool:
        """Ask the deferred sources about the slices that are left; returns False if one of them was declined."""
        survivors = progress.survivors
        open_questions = deferred.questions(predicate)
        while open_questions and survivors.left:
            costs = [deferred.cost(question, survivors.at) for question in open_questions]
            question = open_questions.pop(int(np.argmin(costs)))
            names = {source.index: source.using for source in question.sources}
            size = self._snapshot.size_of(survivors.ordinals())
            if min(costs) > row_level.WORTH_READING * size:
                reason = f"{data_size(min(costs))} of it would be read to save {data_size(size)} at most"
                progress.decline(question.part, names, reason)
                return False
            uncovered = (source.uncovered for source in question.sources)
            count = sum(survivors.count_in(mask) for mask in uncovered if mask is not None)
            progress.apply(question.part, deferred.keep(question, survivors.at), names, count)
            progress.fallbacks.update(dict.fromkeys(n for source in question.sources for n in source.notes))
        return True

    def _apply_implied(self, predicate: BoundExpr, semantics: Semantics, progress: _Progress) -> None:
        """If several slices are left, drop those in which no row can meet a condition that the predicate implies."""
        if progress.survivors.left > 1:
            try:
                implied = self._implied(predicate, semantics)
            except BrokenPluginError as error:
                progress.fallbacks[str(error)] = None
                return
            for leaf, known in implied:
                self._apply(leaf, Focus(known or self._evidence, leaf), semantics, progress)
                if progress.survivors.left <= 1:
                    break

    def _apply_rows(self, predicate: BoundExpr, rows: RowLevel, progress: _Progress) -> None:
        """Drop the slices in which no single row meets the whole predicate."""
        left = progress.survivors.ordinals()
        counts = rows.counts(left)
        keep = progress.survivors.spread(rows.narrow(left, counts))
        answered = {source.index: f"{source.using} (rows)" for source in rows.sources.values()}
        progress.apply(predicate, keep, answered, int(np.count_nonzero(counts < 0)))
        progress.fallbacks.update(rows.notes)

    def _apply_file_filters(
        self, predicate: BoundExpr, evidence: Focus, semantics: Semantics, progress: _Progress
    ) -> None:
        """Probe the filters in the files that are left, unless an index already told their values apart."""
        if self._filters is None or not self._filters.ask_about(progress.survivors.left):
            return
        required = conditions(predicate)
        for leaf in (*required, *listed(required, lambda _: MOST_VALUES)):
            if not isinstance(leaf, CompareLeaf | InLeaf):
                continue
            known = (source for source in evidence.sources(leaf.field).usable if source.uncovered is None)
            if any(_tells_apart(source, semantics) for source in known):
                continue
            keep = self._filters.possible(leaf, semantics, progress.survivors.ordinals())
            if keep is not None:
                progress.apply(leaf, progress.survivors.spread(keep), {FILE_FILTERS: FILE_FILTERS_USING}, 0)

    def _every_row_matches(self, predicate: BoundExpr, evidence: Focus, semantics: Semantics) -> Mask:
        """Slices on which the predicate is proven to be never false or null; an empty slice counts as one."""
        combined = CombinedEvidence(self._snapshot, evidence, semantics, None, everything=True)
        refuted = possible(predicate, Outcome.FALSE, combined.leaf, combined.count)
        refuted = refuted | possible(predicate, Outcome.NULL, combined.leaf, combined.count)
        # Merging drops and combines rows, so nothing is claimed about all rows of a slice with log files.
        return ~refuted & self._snapshot.stands


def _tells_apart(source: Source, semantics: Semantics) -> bool:
    """Tell whether an index knows single values, and not only bounds."""
    return source.can.counted is not None or source.rows(semantics) is not None


def _gaps(progress: _Progress, evidence: Focus, number: int) -> Mask | None:
    """The slices for which the indexes of a step have no usable record; all of them if no index answered."""
    step = progress.steps[number - 1]
    if step.index == NO_INDEX:
        return np.full(progress.survivors.total, step.uncovered > 0)
    names = step.index.split("+")
    masks = [
        source.uncovered
        for field_ in {leaf.field for leaf in leaves(step.clause)}
        for source in evidence.sources(field_).usable
        if source.index in names and source.uncovered is not None
    ]
    return np.logical_or.reduce(masks) if masks else None


def _left_open(index: str, slices: int, noun: str) -> str:
    return (
        f"index {index} says nothing of {counted(slices, noun)}: not indexed yet, or with values outside those on "
        "which engines agree about its expression; kept"
    )


def _row_positions(snapshot: Snapshot, rows: RowLevel, ordinals: NDArray[np.intp]) -> RowPositions | None:
    """The rows of the slices to read; None if they are known for none of them."""
    if not rows.sources or (len(ordinals) and not rows.known(ordinals).any()):
        return None
    return RowPositions(snapshot, ordinals, rows.blocks, rows.most_rows)


def _about(at: NDArray[np.intp] | None, answer: Mask, asked: NDArray[np.intp] | None) -> Mask:
    """The part of an answer about `asked` (None for all) that is about its subset `at`."""
    if at is None or at is asked:
        return answer
    return answer[at if asked is None else np.searchsorted(asked, at)]


def _evaluation_rank(clause: BoundExpr) -> int:
    """Constants first, then partition columns, then other leaves, then composites, then unknown clauses."""
    match clause:
        case Constant():
            return 0
        case BoundAnd() | BoundOr() | BoundNot() | BoundIsNull():
            return 3
        case Unknown():
            return 4
        case _:
            return 1 if clause.field.partition else 2
