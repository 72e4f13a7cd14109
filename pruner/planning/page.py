"""A plan as a page: the funnel as a table, and a strip of all slices for each step of it.

A page about a million slices is as small as one about a hundred: strips have a fixed number of cells, and lists end.
"""

from __future__ import annotations

from string import ascii_uppercase
from typing import TYPE_CHECKING

import numpy as np

from pruner.planning.report import SHOWN_PREDICATE, megabytes, why
from pruner.showing.html import Markup, described, document, element, fragment, listed, section, table
from pruner.showing.strips import Fate, drawn, strip
from pruner.showing.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pruner.planning.report import FunnelStep, PlanFacts
    from pruner.showing.html import Content
    from pruner.tables.snapshot import FileSlice

DRAWN_STEPS = 40
"""Steps that have a strip, and a row of the funnel: a predicate may have thousands of clauses."""

NAMED_SLICES = 100
"""Slices that are listed one by one."""

SHOWN_CLAUSE = 300
"""Characters of a clause."""

_KEPT = Fate("K", "kept: a row may match", "kept")
_UNCOVERED = Fate("U", "kept: the index has no usable record", "uncovered")
_UNSETTLED = Fate("X", "kept: unsettled or unreadable, so no index may cover it", "uncovered")
_BEFORE = Fate("·", "dropped before", "before")
_LETTERS = [letter for letter in ascii_uppercase if letter not in "KUX"]


def plan_page(facts: PlanFacts, *, whole: bool) -> str:
    """A plan as HTML.

    Args:
        facts: what planning found.
        whole: whether it is a page of its own, and not a part of a notebook.
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
            ("Bytes to read", f"{megabytes(facts.bytes_kept)} of {megabytes(facts.bytes_total)}"),
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
