"""The figures of `head-to-head` as tables in docs/head-to-head.md, and as the plot beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers.plot import plot
from benchmarks.peers.questions import WORKLOADS
from benchmarks.peers.results import Measured, Result

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
PAGE: Final = DOCS / "head-to-head.md"
PLOT: Final = DOCS / "peers.svg"
BEGIN: Final = "<!-- measured: begin -->"
END: Final = "<!-- measured: end -->"
PLOTTED: Final = ("window", "key")
OURS: Final = "pruner in DuckDB"


def write(found: Sequence[Result], page: Path = PAGE, picture: Path = PLOT) -> None:
    """Put the tables between the two marks of the page, and draw the plot of the first lake."""
    text = page.read_text("utf-8")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    tables_of_all = "\n".join(tables(each) for each in found)
    page.write_text(f"{before}{BEGIN}\n{tables_of_all}{END}{after}", "utf-8")
    picture.write_text(drawn(found[0]), "utf-8")


def drawn(result: Result) -> str:
    """The plot: processor time of two kinds of questions, beside pruner over the same format."""
    times = {
        WORKLOADS[workload].title: {
            _name(each): each.processor[workload] for each in result.measured if workload in each.processor
        }
        for workload in PLOTTED
    }
    ours = {each.contender.kind: _name(each) for each in result.measured if each.contender.title == OURS}
    beside = {
        _name(each): ours[each.contender.kind]
        for each in result.measured
        if each.contender.kind in ours and _name(each) != ours[each.contender.kind]
    }
    title = f"{result.files:,} files: milliseconds of processor, logarithmic"
    return plot(title, times, beside)


def _name(measured: Measured) -> str:
    return f"{measured.contender.title}, {measured.contender.kind}"


def tables(result: Result) -> str:
    """The tables of one lake in Markdown."""
    head = (
        f"### {result.files:,} files of {result.rows // result.files:,} rows\n\nTaken on {result.taken_on}.\n"
    )
    return "\n".join([head, *_questions(result), "", *_opening(result), "", *_indexes(result), ""])


def _questions(result: Result) -> Iterator[str]:
    titles = [each.title for each in WORKLOADS.values()]
    yield f"| | | {' | '.join(titles)} |"
    yield "|---|---|" + "---:|" * len(titles)
    for each in result.measured:
        cells = [_cell(each, workload) for workload in WORKLOADS]
        yield f"| {each.contender.kind} | {each.contender.title} {each.version} | {' | '.join(cells)} |"


def _cell(measured: Measured, workload: str) -> str:
    if workload not in measured.processor:
        return "–"
    return f"{_short(measured.processor[workload])} ({measured.opened[workload]:,})"


def _opening(result: Result) -> Iterator[str]:
    yield "| | | cold | by the clock | fresh | by the clock |"
    yield "|---|---|---:|---:|---:|---:|"
    for each in result.measured:
        cells = [
            _short(times[what]) if what in times else "–"
            for what in ("cold", "fresh")
            for times in (each.processor, each.wall)
        ]
        yield f"| {each.contender.kind} | {each.contender.title} | {' | '.join(cells)} |"


def _indexes(result: Result) -> Iterator[str]:
    yield "| | data, MB | index | built in, s of processor | size, MB | to follow 1 % more files, ms |"
    yield "|---|---:|---|---:|---:|---:|"
    for each in result.built:
        follows = result.follows.get(each.kind)
        yield (
            f"| {each.kind} | {result.data[each.kind] / 1e6:.0f} | {each.name} | {each.processor:.1f} | "
            f"{each.size / 1e6:.1f} | {'–' if follows is None else _short(follows)} |"
        )


def _short(seconds: float) -> str:
    """Milliseconds, in two digits or more."""
    milliseconds = 1e3 * seconds
    return f"{milliseconds:,.1f}" if milliseconds < 10 else f"{milliseconds:,.0f}"


def machine() -> str:
    """What the figures were taken on."""
    return f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.0f}"
