"""The figures of `head-to-head` as tables in docs/head-to-head.md, and as the plot beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.peers.plot import plot
from benchmarks.peers.questions import WORKLOADS
from benchmarks.peers.results import NO_WAY, PATIENCE, TOO_SLOW, Counted, Measured, Result

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
PAGE: Final = DOCS / "head-to-head.md"
PLOT: Final = DOCS / "peers.svg"
BEGIN: Final = "<!-- measured: begin -->"
END: Final = "<!-- measured: end -->"
STORE_BEGIN: Final = "<!-- requests: begin -->"
STORE_END: Final = "<!-- requests: end -->"
PLOTTED: Final = ("window", "key")
OURS: Final = "pruner in DuckDB"


def write(found: Sequence[Result], sizes: Collection[int], page: Path = PAGE, picture: Path = PLOT) -> None:
    """Put the tables of lakes between the two marks of the page, replacing older ones, and redraw the plot.

    Older tables of lakes that have none of these `sizes`, in files, are removed.
    """
    before, older, after = _around(page, BEGIN, END)
    by_heading = dict(map(_with_heading, re.split(r"^(?=### )", older, flags=re.MULTILINE)[1:]))
    by_heading |= dict(_with_heading(f"{tables(each)}\n") for each in found)
    largest_first = sorted(
        (each for each in by_heading if _files_in(each) in sizes), key=_files_in, reverse=True
    )
    middle = "".join(by_heading[heading] for heading in largest_first).rstrip("\n")
    page.write_text(f"{before}{BEGIN}\n{middle}\n{END}{after}", "utf-8")
    if (plotted := max(found, key=lambda each: each.files)).files == _files_in(largest_first[0]):
        picture.write_text(drawn(plotted), "utf-8")


def has_tables(files: int, page: Path = PAGE) -> bool:
    """Tell whether the page has tables of a lake of this many files."""
    return f"\n### {files:,} files of " in page.read_text("utf-8")


def renew(found: Result, page: Path = PAGE) -> None:
    """Replace the rows of some readers in the page's tables of a lake."""
    text = page.read_text("utf-8")
    before, heading, rest = text.partition(
        f"### {found.files:,} files of {found.rows // found.files:,} rows\n"
    )
    section = re.split("^(?=### |<!--)", rest, maxsplit=1, flags=re.MULTILINE)
    section[0] = _with_newer(section[0], [*_questions(found), *_opening(found)])
    page.write_text("".join([before, heading, *section]), "utf-8")


def renew_requests(table: str, page: Path = PAGE) -> None:
    """Replace the rows of some readers in the table of requests."""
    before, older, after = _around(page, STORE_BEGIN, STORE_END)
    newer = _with_newer(older, table.splitlines())
    page.write_text(f"{before}{STORE_BEGIN}{newer}{STORE_END}{after}", "utf-8")


def _around(page: Path, begin: str, end: str) -> tuple[str, str, str]:
    """The text before two marks of the page, between them, and after them."""
    before, rest = page.read_text("utf-8").split(begin, 1)
    between, after = rest.split(end, 1)
    return before, between, after


def _with_newer(tables: str, rows: Iterable[str]) -> str:
    newer = {_row_key(row): row for row in rows if row.startswith("|")}
    lines = [newer.get(_row_key(line), line) if line.startswith("|") else line for line in tables.split("\n")]
    return "\n".join(lines)


def _row_key(line: str) -> tuple[int, str, str]:
    """What identifies a row: the columns of its table, the format, and the reader in any version."""
    cells = line.split("|")
    return len(cells), cells[1].strip(), re.sub(r" [0-9][0-9.]*$", "", cells[2].strip())


def write_requests(table: str, page: Path = PAGE) -> None:
    """Put the table of requests between its two marks of the page."""
    before, _, after = _around(page, STORE_BEGIN, STORE_END)
    page.write_text(f"{before}{STORE_BEGIN}\n{table}{STORE_END}{after}", "utf-8")


def requests(found: Sequence[Counted], files: int, rows: int) -> str:
    """The requests of readers to a store, as a table in Markdown."""
    titles = [each.title for each in WORKLOADS.values()]
    lines = [
        f"{files:,} files of {rows:,} rows: requests (MB) of a new process / of its second question.",
        "",
        f"| | | {' | '.join(titles)} |",
        "|---|---|" + "---:|" * len(titles),
    ]
    for each in found:
        cells = [_taken(each, workload) for workload in WORKLOADS]
        lines.append(
            f"| {each.contender.kind} | {each.contender.title} {each.version} | {' | '.join(cells)} |"
        )
    return "\n".join([*lines, ""])


def _taken(counted: Counted, workload: str) -> str:
    """Requests and bytes of the first and the second answer, or why one is missing."""
    cells = [f"{requests:,} ({received / 1e6:.1f})" for requests, received in counted.taken.get(workload, ())]
    if workload in counted.refused or not cells:
        cells.append(_missing(counted.refused, workload))
    return " / ".join(cells)


def _with_heading(section: str) -> tuple[str, str]:
    return section.partition("\n")[0], section


def _files_in(heading: str) -> int:
    return int(heading.split()[1].replace(",", ""))


def drawn(result: Result) -> str:
    """The plot: CPU time of two kinds of queries, beside pruner over the same format."""
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
        return _missing(measured.refused, workload)
    late = f" / {_short(measured.late[workload])}" if workload in measured.late else ""
    return f"{_short(measured.processor[workload])}{late} ({measured.opened[workload]:,})"


def _missing(refused: Mapping[str, str], what: str) -> str:
    """A cell without a figure: no way to ask, no answer within the time limit, or an error by its name."""
    why = refused.get(what, NO_WAY)
    if why == TOO_SLOW:
        return f"> {1e3 * PATIENCE:,.0f} by the clock"
    return "–" if why == NO_WAY else f"fails: {why.partition(':')[0]}"


def _opening(result: Result) -> Iterator[str]:
    yield "| | | cold | by the clock | fresh | by the clock |"
    yield "|---|---|---:|---:|---:|---:|"
    for each in result.measured:
        cells = [
            _short(times[what]) if what in times else _missing(each.refused, what)
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
    """The machine on which the figures were taken."""
    return f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.0f}"
