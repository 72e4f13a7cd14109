"""The planner: the one place with control flow between a predicate and the evidence about it.

The predicate's top-level conjuncts are taken one after another, each asked only about the slices that the ones before
it left. A slice goes when some conjunct is proven never true on it. The order changes the report, not the result.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pruner.expr.bind import conjuncts
from pruner.expr.bound import BoundAnd, BoundNot, BoundOr, Unknown
from pruner.expr.nodes import Constant
from pruner.expr.show import describe
from pruner.inquiry import Inquiry
from pruner.plan import FunnelStep, Plan
from pruner.verdict import Outcome, possible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pruner.evidence import SnapshotEvidence
    from pruner.expr.bound import BoundExpr, Leaf
    from pruner.expr.semantics import Semantics
    from pruner.tables.snapshot import Snapshot

    Mask = NDArray[np.bool_]

GATHER_BELOW = 0.25
"""Share of surviving slices under which evidence is gathered for them alone instead of evaluated for all."""

NOBODY = "none"
"""What the report shows as index where no index answered."""


@dataclass
class _Progress:
    """Which slices are left, and what is reported about the others."""

    alive: Mask
    dropped_by: NDArray[np.int16]
    steps: list[FunnelStep] = field(default_factory=list[FunnelStep])
    fallbacks: dict[str, None] = field(default_factory=dict[str, None])

    def apply(self, clause: BoundExpr, keep: Mask, answered: dict[str, str], uncovered: int) -> None:
        """Drop what is not in `keep` and add the step to the funnel."""
        dropped = self.alive & ~keep
        considered = int(np.count_nonzero(self.alive))
        self.dropped_by[dropped] = len(self.steps) + 1
        self.alive = self.alive & keep
        self.steps.append(
            FunnelStep(
                clause=describe(clause),
                index="+".join(answered) or NOBODY,
                using="+".join(dict.fromkeys(answered.values())) or NOBODY,
                considered=considered,
                dropped=int(np.count_nonzero(dropped)),
                uncovered=uncovered,
            )
        )

    def skip(self, clause: BoundExpr, reason: str) -> None:
        """Add a step that could drop nothing, with the reason."""
        left = int(np.count_nonzero(self.alive))
        self.steps.append(FunnelStep(describe(clause), NOBODY, NOBODY, left, 0, left, reason))
        self.fallbacks[reason] = None


class Planner:
    """Plans predicates over one snapshot; holds no state of a plan, so threads may share it."""

    def __init__(self, snapshot: Snapshot, evidence: SnapshotEvidence) -> None:
        self._snapshot = snapshot
        self._evidence = evidence

    def plan(self, predicate: BoundExpr, text: str, semantics: Semantics) -> Plan:
        """Find the slices that can hold a row for which `predicate` is true under `semantics`.

        Args:
            predicate: bound to this snapshot's schema.
            text: how the report shows the whole predicate.
            semantics: whose rules hold.
        """
        started = time.perf_counter()
        count = len(self._snapshot)
        progress = _Progress(np.ones(count, np.bool_), np.zeros(count, np.int16))
        self._note_uncoverable(progress)
        for clause in sorted(conjuncts(predicate), key=_evaluation_rank):
            self._apply(clause, semantics, progress)
        return Plan(
            snapshot=self._snapshot,
            predicate=text,
            semantics=semantics,
            alive=progress.alive,
            dropped_by=progress.dropped_by,
            steps=tuple(progress.steps),
            fallbacks=tuple(progress.fallbacks),
            planning_seconds=time.perf_counter() - started,
            all_match=lambda: self._every_row_matches(predicate, semantics),
        )

    def _note_uncoverable(self, progress: _Progress) -> None:
        with_logs = int(np.count_nonzero(self._snapshot.has_logs))
        others = int(np.count_nonzero(~self._snapshot.coverable & ~self._snapshot.has_logs))
        if with_logs:
            progress.fallbacks[f"{with_logs} slices have log files, which are not indexed: kept"] = None
        if others:
            progress.fallbacks[f"{others} slices are unsettled or unreadable: kept"] = None

    def _apply(self, clause: BoundExpr, semantics: Semantics, progress: _Progress) -> None:
        """Drop the slices on which one conjunct is proven never true."""
        inquiry = Inquiry(self._snapshot, self._evidence, semantics, self._restriction(progress.alive))
        match clause:
            case Constant(True):
                pass
            case Constant():
                progress.apply(clause, np.zeros(len(self._snapshot), np.bool_), {}, 0)
            case Unknown(text, reason):
                progress.skip(clause, f"{text}: {reason}")
            case BoundAnd() | BoundOr() | BoundNot():
                self._apply_composite(clause, inquiry, progress)
            case _:
                self._apply_leaf(clause, semantics, inquiry, progress)
        progress.fallbacks.update(inquiry.notes)

    def _apply_leaf(self, leaf: Leaf, semantics: Semantics, inquiry: Inquiry, progress: _Progress) -> None:
        """Take a leaf source by source, so that the report tells what each of them dropped."""
        sources = inquiry.sources(leaf)
        rescued = inquiry.contradicted(leaf) if len(sources) > 1 else None
        at = self._restriction(progress.alive)
        for source in sources:
            keep = inquiry.ask(source, leaf, Outcome.TRUE)
            if keep is not None:
                kept = self._widen(keep if rescued is None else keep | rescued, at)
                uncovered = int(np.count_nonzero(progress.alive & ~source.evidence.covered))
                progress.apply(leaf, kept, {source.index: source.using}, uncovered)
        if not inquiry.answered:
            inquiry.note_silence(leaf)
            progress.skip(leaf, next(reversed(inquiry.notes)))

    def _apply_composite(self, clause: BoundExpr, inquiry: Inquiry, progress: _Progress) -> None:
        for part in _unknowns(clause):
            progress.fallbacks[f"{part.text}: {part.reason}"] = None
        at = self._restriction(progress.alive)
        keep = self._widen(possible(clause, Outcome.TRUE, inquiry.leaf, inquiry.count), at)
        progress.apply(clause, keep, inquiry.answered, inquiry.uncovered_among(progress.alive))

    def _restriction(self, alive: Mask) -> NDArray[np.intp] | None:
        left = int(np.count_nonzero(alive))
        return np.flatnonzero(alive) if left < GATHER_BELOW * len(alive) else None

    def _widen(self, answer: Mask, at: NDArray[np.intp] | None) -> Mask:
        if at is None:
            return answer
        full = np.zeros(len(self._snapshot), np.bool_)
        full[at] = answer
        return full

    def _every_row_matches(self, predicate: BoundExpr, semantics: Semantics) -> Mask:
        """Slices on which the predicate is proven neither false nor null; an empty slice counts as one."""
        inquiry = Inquiry(self._snapshot, self._evidence, semantics, None)
        refuted = possible(predicate, Outcome.FALSE, inquiry.leaf, inquiry.count)
        refuted = refuted | possible(predicate, Outcome.NULL, inquiry.leaf, inquiry.count)
        return ~refuted & self._snapshot.coverable


def _evaluation_rank(clause: BoundExpr) -> int:
    """Constants first, then partition columns, then other leaves, then composites, then what nothing is known about."""
    match clause:
        case Constant():
            return 0
        case BoundAnd() | BoundOr() | BoundNot():
            return 3
        case Unknown():
            return 4
        case _:
            return 1 if clause.field.partition else 2


def _unknowns(predicate: BoundExpr) -> Iterator[Unknown]:
    match predicate:
        case Unknown():
            yield predicate
        case BoundAnd(operands) | BoundOr(operands):
            for operand in operands:
                yield from _unknowns(operand)
        case BoundNot(operand):
            yield from _unknowns(operand)
        case _:
            pass
