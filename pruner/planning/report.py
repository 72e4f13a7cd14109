"""A plan as JSON and as text. The JSON is documented field by field in docs/report.md; `format` counts its versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from typing import Literal as OneOf

import msgspec
import numpy as np

from pruner.showing.words import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.evidence.snapshot import IndexCost
    from pruner.expr.bound.predicates import BoundExpr
    from pruner.expr.semantics import Semantics
    from pruner.planning.survivors import Survivors
    from pruner.tables.snapshot import Snapshot

    Mask = NDArray[np.bool_]

REPORT_FORMAT = 1

ANSWERS = "answers"
"""The index and its type, in the report, of a step that drops what is not needed for the answer."""

SHOWN_PREDICATE = 2000
"""Characters of a predicate that the text for people shows; the JSON has it whole."""


FileDetail = OneOf["summary", "kept", "dropped", "all"]
"""Which slices a JSON report lists: none, those to read, those left out, or both."""


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """One clause of the predicate and the index (or indexes) that answered for it, in the order of evaluation.

    `considered` slices were left before the step, `dropped` went in it, `uncovered` of the considered ones
    have no usable record. `note` says why a step could drop nothing.
    """

    clause: str
    index: str
    using: str
    considered: int
    dropped: int
    uncovered: int
    note: str | None = None


@dataclass(frozen=True)
class PlanFacts:
    """What planning found: which slices stay, step by step, and what could not be used.

    `funnel` gives the steps; most plans are asked for their files alone.
    """

    snapshot: Snapshot
    predicate: str
    semantics: Semantics
    survivors: Survivors
    funnel: Callable[[], tuple[FunnelStep, ...]]
    fallbacks: tuple[str, ...]
    planning_seconds: float
    costs: Callable[[], list[IndexCost]] = list
    bound: BoundExpr | None = None
    gaps: Callable[[int], Mask | None] = lambda _: None
    """For the number of a step (from 1) the slices without a usable record in it; None where there is none."""
    count_again: Callable[[], None] = lambda: None
    """See `Plan.count_again`."""

    @cached_property
    def steps(self) -> tuple[FunnelStep, ...]:
        """The funnel: one step for each clause and index, in the order of evaluation."""
        return self.funnel()

    @cached_property
    def ordinals(self) -> NDArray[np.intp]:
        """Ordinals of the slices to read, ascending."""
        return self.survivors.ordinals()

    @cached_property
    def kept_mask(self) -> NDArray[np.bool_]:
        """True for each slice to read, by ordinal."""
        return self.survivors.mask()

    @cached_property
    def dropped_by(self) -> NDArray[np.int32]:
        """For each slice the number of the step (from 1) that dropped it; 0 where it stays."""
        return self.survivors.dropped_by()

    def uncovered_in(self, number: int) -> Mask:
        """Slices of which no index that was asked in a step (numbered from 1) has a usable record."""
        found = self.gaps(number)
        return np.zeros(len(self.snapshot), np.bool_) if found is None else found

    @cached_property
    def bytes_total(self) -> int:
        """Size of all slices in bytes, logs included."""
        return int(self.snapshot.sizes.sum())

    @cached_property
    def bytes_kept(self) -> int:
        """Size of the slices to read in bytes, logs included."""
        return int(self.snapshot.sizes[self.ordinals].sum())


def report_dict(facts: PlanFacts) -> dict[str, Any]:
    """The summary of a plan as plain values, ready for JSON."""
    return {
        "format": REPORT_FORMAT,
        "table": facts.snapshot.root,
        "snapshot_id": facts.snapshot.id,
        "predicate": facts.predicate,
        "semantics": {
            "engine": facts.semantics.engine,
            "version": facts.semantics.version,
            "zone": facts.semantics.zone,
            "nan_order": facts.semantics.nan_order.value,
            "collation": facts.semantics.collation,
            "scan_mode": facts.semantics.scan_mode,
        },
        "total": len(facts.snapshot),
        "kept": facts.survivors.left,
        "bytes_total": facts.bytes_total,
        "bytes_kept": facts.bytes_kept,
        "planning_ms": round(facts.planning_seconds * 1000, 3),
        "funnel": [
            {
                "clause": step.clause,
                "index": step.index,
                "using": step.using,
                "considered": step.considered,
                "dropped": step.dropped,
                "uncovered": step.uncovered,
                "note": step.note,
            }
            for step in facts.steps
        ],
        "indexes": [
            {
                "index": cost.name,
                "bytes": cost.bytes,
                "memory": cost.memory,
                "load_ms": None if cost.load_seconds is None else round(cost.load_seconds * 1000, 3),
            }
            for cost in facts.costs()
        ],
        "fallbacks": list(facts.fallbacks),
        "problems": dict(facts.snapshot.problems),
    }


def report_json(facts: PlanFacts, files: FileDetail) -> str:
    """The report as a JSON text, with the slices that `files` asks for.

    Raises:
        ValueError: `files` is not one of summary, kept, dropped, all.
    """
    report = report_dict(facts)
    if files != "summary":
        report["files"] = list(_file_rows(facts, files))
    return msgspec.json.encode(report).decode()


def _file_rows(facts: PlanFacts, files: FileDetail) -> Iterator[dict[str, Any]]:
    match files:
        case "kept":
            chosen = facts.kept_mask
        case "dropped":
            chosen = ~facts.kept_mask
        case "all":
            chosen = np.ones(len(facts.snapshot), np.bool_)
        case _:
            raise ValueError(f"files must be one of summary, kept, dropped, all, not {files!r}")
    slices = facts.snapshot.slices
    for ordinal in np.flatnonzero(chosen):
        entry = slices[int(ordinal)]
        yield {
            "partition_path": entry.partition_path,
            "file_id": entry.file_id,
            "base_file": entry.base_file,
            "log_files": list(entry.log_files),
            "size": entry.size,
            "kept": bool(facts.kept_mask[ordinal]),
            "why": why(facts, int(ordinal)),
        }


def why(facts: PlanFacts, ordinal: int) -> str:
    """Why one slice is read, or left out."""
    step = int(facts.dropped_by[ordinal])
    if step:
        dropped = facts.steps[step - 1]
        if dropped.using == ANSWERS:
            return f"not needed for {dropped.clause}"
        return f"dropped by {dropped.index}: no row can satisfy {dropped.clause}"
    if not facts.snapshot.coverable[ordinal]:
        return "kept: it is unsettled or unreadable"
    blind = [s.clause for s in facts.steps if s.note is not None or s.uncovered == s.considered]
    if len(blind) == len(facts.steps):
        return "kept: no index could answer for any clause"
    return "kept: a row may match"


def report_text(facts: PlanFacts) -> str:
    """The report as text for people: the outcome, the funnel, what could not be used."""
    lines = [
        f"table      {facts.snapshot.root}",
        f"predicate  {_shortened(facts.predicate)}",
        f"semantics  {facts.semantics.engine}, scan mode {facts.semantics.scan_mode}, "
        f"zone {facts.semantics.zone or 'unknown'}",
        f"kept       {facts.survivors.left:,} of {counted(len(facts.snapshot), facts.snapshot.noun)}, "
        f"{megabytes(facts.bytes_kept)} of {megabytes(facts.bytes_total)}, "
        f"planned in {facts.planning_seconds * 1000:.2f} ms",
    ]
    if facts.steps:
        lines += ["", f"{'left':>10} {'dropped':>10} {'uncovered':>10}  index: clause"]
    for step in facts.steps:
        lines.append(
            f"{step.considered - step.dropped:>10,} {step.dropped:>10,} {step.uncovered:>10,}"
            f"  {step.index}: {step.clause}" + (f"  ({step.note})" if step.note else "")
        )
    for cost in facts.costs():
        loaded = "" if cost.load_seconds is None else f", loaded in {cost.load_seconds * 1000:.1f} ms"
        lines.append(
            f"index {cost.name}: {megabytes(cost.bytes)} stored{loaded}, {megabytes(cost.memory)} of it in memory"
        )
    lines += [f"note: {reason}" for reason in facts.fallbacks]
    lines += [f"problem: {sentence}" for sentence in facts.snapshot.problems.values()]
    return "\n".join(lines)


def _shortened(predicate: str) -> str:
    if len(predicate) <= SHOWN_PREDICATE:
        return predicate
    return f"{predicate[:SHOWN_PREDICATE]}… ({len(predicate):,} characters)"


def megabytes(size: int) -> str:
    """A size for people."""
    return f"{size / 1e6:,.2f} MB"
