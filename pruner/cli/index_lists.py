"""Indexes as `pruner status` and `pruner show-indexes` list them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.cli.output import print_columns, printable, write_line
from pruner.showing.words import counted, no_more

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pruner.maintenance.status import IndexStatus, TableStatus


def print_indexes(found: TableStatus) -> None:
    """Write a table of the indexes, and a line for whatever is to be said of one."""
    from pruner.maintenance.uncovered import REASONS  # with what works on arrays, which --help does without

    header = ("index", "type", "columns", "covered", "of", "segments", "bytes", "refreshed")
    if found.indexes:
        print_columns(header, (_index_row(index) for index in found.indexes))
    else:
        write_line("no indexes are known" if found.fallbacks else "no indexes")
    for note in _notes(found.indexes, REASONS, found.noun):
        write_line(f"note: {printable(note)}")
    for name, use in found.hudi_indexes.items():
        write_line(f"the table's own index {printable(name)}: {use}")
    for reason in found.fallbacks:
        write_line(f"note: {printable(reason)}")
    for place, sentence in found.problems.items():
        write_line(f"problem: {printable(problem_of(place, sentence))}")


def _index_row(index: IndexStatus) -> tuple[object, ...]:
    columns = ", ".join(index.columns)
    shown = columns if len(columns) <= 60 else columns[:59] + "…"
    refreshed = index.refreshed_at or "never"
    return (
        index.name,
        index.using,
        shown,
        index.covered,
        index.coverable,
        index.segments,
        index.bytes,
        refreshed,
    )


def _notes(indexes: Iterable[IndexStatus], reasons: Mapping[str, str], noun: str) -> Iterator[str]:
    """What is to be said of indexes: each sentence once, with the names of all indexes of which it is true."""
    told: dict[tuple[str, str], list[str]] = {}
    for index in indexes:
        if index.note:
            yield index.note
        for sentence in _about(index, reasons, noun):
            told.setdefault(sentence, []).append(index.name)
    for (of_one, of_several), names in told.items():
        if len(names) == 1:
            yield f"index {names[0]} {of_one}"
        else:
            yield f"indexes {', '.join(names[:-1])} and {names[-1]} {of_several}"


def _about(index: IndexStatus, reasons: Mapping[str, str], noun: str) -> Iterator[tuple[str, str]]:
    """The sentences about an index without their subject, as they read of one index and of several."""
    if index.uncovered:
        why = ", ".join(f"{count:,} {reasons[each]}" for each, count in index.uncovered.items())
        yield f"does not cover {noun}s: {why}", f"do not cover {noun}s: {why}"
    if index.gone:
        why, whole = no_more(index.gone), index.is_without_columns
        left = ("no query", "no query") if whole else ("its other columns alone", "their other columns alone")
        yield f"serves {left[0]}: {why}", f"serve {left[1]}: {why}"
    if index.gained:
        gained = f"gained {counted(len(index.gained), 'column')} ({', '.join(index.gained)}) as the table did"
        gained += f": the next refresh reads every {noun} again"
        yield gained, gained
    if index.idle:
        idle = (
            f"left out nothing in the last {index.idle:,} of {counted(index.plans, 'plan')} of this process"
        )
        yield idle, idle
    for reason, count in index.refused.items():
        refused = f"cannot cover {counted(count, noun)}: {reason}"
        yield refused, refused
    for sentence in index.left_out.values():
        yield f"leaves a column out: {sentence}", f"leave a column out: {sentence}"
    if index.where is not None:
        yield f"takes partitions with {index.where} alone", f"take partitions with {index.where} alone"


def problem_of(place: str, sentence: str) -> str:
    """The sentence with the place in front, unless it names the place itself."""
    return sentence if place in sentence else f"{place}: {sentence}"
