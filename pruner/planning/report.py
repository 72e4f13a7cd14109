"""A plan as JSON, as text and as a page. The JSON is documented in docs/report.md.

A plan as a page: the funnel as a table, and a strip of all slices for each of its steps.

A page about a million slices is as small as one about a hundred: strips have a fixed number of cells, and lists are
truncated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any
from typing import Literal as OneOf

import msgspec
import numpy as np

from pruner.showing.html import (
    Fate,
    Markup,
    described,
    document,
    drawn,
    element,
    fragment,
    listed,
    section,
    strip,
    table,
)
from pruner.showing.words import counted, data_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.evidence.snapshot import IndexCost
    from pruner.expr.bound.predicates import BoundExpr
    from pruner.expr.semantics import Semantics
    from pruner.planning.survivors import Survivors
    from pruner.showing.html import Content
    from pruner.tables.snapshot import FileSlice, Snapshot

    Mask = NDArray[np.bool_]


REPORT_FORMAT = 1

ANSWERS = "answers"
"""The index and its type, in the report, of a step that drops what is not needed for the answer."""

SHOWN_PREDICATE = 2000
"""Most characters of a predicate that the text shows; the JSON has all of it."""


FileDetail = OneOf["summary", "kept", "dropped", "all"]
"""Which slices a JSON report lists: none, those to read, those skipped, or both."""


@dataclass(frozen=True, slots=True)
class FunnelStep:
    """One clause of the predicate and the index (or indexes) that answered it, in order of evaluation.

    `considered` slices were left before the step, `dropped` were dropped in it, `uncovered` of the considered ones
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
    """What planning found: which slices are kept, step by step, and what could not be used.

    `funnel` returns the steps lazily, because most callers need only the files.
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
    """For the number of a step (from 1), the slices without a usable record in it; None if there are none."""
    count_again: Callable[[], None] = lambda: None
    """See `Plan.count_again`."""

    @cached_property
    def steps(self) -> tuple[FunnelStep, ...]:
        """The funnel: one step for each clause and index, in order of evaluation."""
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
        """For each slice, the number of the step (from 1) that dropped it; 0 where it is kept."""
        return self.survivors.dropped_by()

    def uncovered_in(self, number: int) -> Mask:
        """Slices for which no index asked in a step (numbered from 1) has a usable record."""
        gaps = self.gaps(number)
        return np.zeros(len(self.snapshot), np.bool_) if gaps is None else gaps

    @cached_property
    def bytes_total(self) -> int:
        """Size of all slices in bytes, logs included."""
        return self.snapshot.total_size

    @cached_property
    def bytes_kept(self) -> int:
        """Size of the slices to read in bytes, logs included."""
        return self.snapshot.size_of(self.ordinals)


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
    """Why one slice is read or skipped."""
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
    """The report as human-readable text: the outcome, the funnel, what could not be used."""
    lines = [
        f"table      {facts.snapshot.root}",
        f"predicate  {_shortened(facts.predicate)}",
        f"semantics  {facts.semantics.engine}, scan mode {facts.semantics.scan_mode}, "
        f"zone {facts.semantics.zone or 'unknown'}",
        f"kept       {facts.survivors.left:,} of {counted(len(facts.snapshot), facts.snapshot.noun)}, "
        f"{data_size(facts.bytes_kept)} of {data_size(facts.bytes_total)}, "
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
            f"index {cost.name}: {data_size(cost.bytes)} stored{loaded}, {data_size(cost.memory)} of it in memory"
        )
    lines += [f"note: {reason}" for reason in facts.fallbacks]
    lines += [f"problem: {sentence}" for sentence in facts.snapshot.problems.values()]
    return "\n".join(lines)


def _shortened(predicate: str) -> str:
    if len(predicate) <= SHOWN_PREDICATE:
        return predicate
    return f"{predicate[:SHOWN_PREDICATE]}… ({len(predicate):,} characters)"


DRAWN_STEPS = 40
"""Most steps with a strip and a row of the funnel: a predicate may have thousands of clauses."""

NAMED_SLICES = 100
"""Most slices that are listed one by one."""

SHOWN_CLAUSE = 300
"""Most characters shown of a clause."""

_KEPT = Fate("K", "kept: a row may match", "kept")
_UNCOVERED = Fate("U", "kept: the index has no usable record", "uncovered")
_UNSETTLED = Fate("X", "kept: unsettled or unreadable, so no index may cover it", "uncovered")
_BEFORE = Fate("·", "dropped before", "before")
_LETTERS = [letter for letter in ascii_uppercase if letter not in "KUX"]


def plan_page(facts: PlanFacts, *, whole: bool) -> str:
    """A plan as HTML.

    Args:
        facts: what planning found.
        whole: whether it is a page of its own rather than part of a notebook.
    """
    return (document if whole else fragment)("Scan plan", *_sections(facts))


def _sections(facts: PlanFacts) -> Iterator[Content]:
    total, left = len(facts.snapshot), facts.survivors.left
    share = f" ({left / total:.1%})" if total else ""
    yield described(
        [
            ("Table", facts.snapshot.root),
            ("Predicate", element("code", _cut(facts.predicate, SHOWN_PREDICATE))),
            ("Rules of", f"{facts.semantics.engine}, scan mode {facts.semantics.scan_mode}"),
            ("To read", f"{left:,} of {counted(total, facts.snapshot.noun)}{share}"),
            ("Bytes to read", f"{data_size(facts.bytes_kept)} of {data_size(facts.bytes_total)}"),
            ("Planned in", f"{facts.planning_seconds * 1000:.2f} ms"),
        ]
    )
    yield _funnel(facts)
    yield _strips(facts)
    yield _slices(facts)
    yield listed("What could not be used", facts.fallbacks)
    yield listed("Files that could not be read", list(facts.snapshot.problems.values()))


def _funnel(facts: PlanFacts) -> Markup:
    rows = [
        (
            number,
            element("code", _cut(step.clause, SHOWN_CLAUSE)),
            step.index,
            step.using,
            step.considered - step.dropped,
            step.dropped,
            step.uncovered,
            step.note and _cut(step.note, SHOWN_CLAUSE),
        )
        for number, step in enumerate(facts.steps[:DRAWN_STEPS], 1)
    ]
    header = ("Step", "Clause", "Index", "Type", "Left", "Dropped", "Uncovered", "Why nothing was dropped")
    more = len(facts.steps) - len(rows)
    hidden = element("p", f"{more:,} more steps are not shown.") if more > 0 else Markup()
    return section("Funnel", table("Clauses in the order of evaluation", header, rows), hidden)


def _strips(facts: PlanFacts) -> Markup:
    """One strip for each step, and the fates that occur in them."""
    drops = [_dropped(number, step) for number, step in enumerate(facts.steps[:DRAWN_STEPS])]
    parts: list[Content] = []
    met: dict[Fate, None] = {}
    for number, step in enumerate(facts.steps[:DRAWN_STEPS], 1):
        fates = (_KEPT, drops[number - 1], _UNCOVERED, _UNSETTLED, _BEFORE)
        cells = strip(_codes(facts, number), fates)
        met |= dict.fromkeys(fate for cell in cells for fate, _ in cell.counts)
        title = f"Step {number}, {step.index}: {_cut(step.clause, 80)}"
        parts += [element("h3", title), drawn(cells, title)]
    noun = facts.snapshot.noun.capitalize()
    legend = table(
        "Letters: a capital goes for all of a cell, a small one for most of them",
        ("Letter", f"{noun}s"),
        [(element("span", fate.letter, class_=fate.style), fate.words) for fate in met],
    )
    return section(
        f"{noun}s, step by step", legend if met else "No clause could be asked of an index.", *parts
    )


def _codes(facts: PlanFacts, number: int) -> NDArray[np.int64]:
    """The fate of each slice after a step, as a position in the fates of `_strips`."""
    dropped = facts.dropped_by
    codes = np.zeros(len(facts.snapshot), np.int64)
    codes[facts.uncovered_in(number)] = 2
    codes[~facts.snapshot.coverable] = 3
    codes[dropped == number] = 1
    codes[(dropped > 0) & (dropped < number)] = 4
    return codes


def _dropped(number: int, step: FunnelStep) -> Fate:
    letter = _LETTERS[number % len(_LETTERS)]
    return Fate(letter, f"dropped in step {number + 1} by {_cut(step.index, 80)}", "dropped")


def _slices(facts: PlanFacts) -> Markup:
    """The first slices that are kept, and the first that are dropped, with the reasons."""
    half = NAMED_SLICES // 2
    chosen: list[int] = [*facts.ordinals[:half].tolist(), *np.flatnonzero(~facts.kept_mask)[:half].tolist()]
    slices = facts.snapshot.slices
    rows = [
        (_place(slices[ordinal]), slices[ordinal].size, _cut(why(facts, ordinal), SHOWN_CLAUSE))
        for ordinal in chosen
    ]
    caption = (
        f"The first {half} {facts.snapshot.noun}s to read and the first {half} that are left out, "
        f"of {len(facts.snapshot):,}"
    )
    return section("Files", table(caption, ("File", "Bytes", "Why"), rows))


def _place(entry: FileSlice) -> str:
    return _cut(entry.base_file or (entry.log_files or (entry.file_id,))[0], SHOWN_CLAUSE)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
