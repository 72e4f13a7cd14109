"""Indexes as `pruner status` and `pruner show-indexes` list them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.cli.output import print_columns, printable, write_line

if TYPE_CHECKING:
    from pruner.maintenance.status import IndexStatus, TableStatus


def print_indexes(found: TableStatus) -> None:
    """Write a table of the indexes, and a line for whatever is to be said of one."""
    from pruner.maintenance.uncovered import REASONS  # with what works on arrays, which --help does without

    header = ("index", "type", "columns", "covered", "of", "segments", "bytes", "refreshed")
    if found.indexes:
        print_columns(header, (_index_row(index) for index in found.indexes))
    else:
        write_line("no indexes")
    for index in found.indexes:
        if index.note:
            write_line(f"note: {printable(index.note)}")
        if index.uncovered:
            reasons = ", ".join(f"{count:,} {REASONS[why]}" for why, count in index.uncovered.items())
            write_line(f"note: index {printable(index.name)} does not cover slices: {reasons}")
        for reason, count in index.refused.items():
            write_line(
                f"note: index {printable(index.name)} cannot cover {count:,} slices: {printable(reason)}"
            )
        for sentence in index.left_out.values():
            write_line(f"note: index {printable(index.name)} leaves a column out: {printable(sentence)}")
        if index.where is not None:
            write_line(
                f"note: index {printable(index.name)} takes partitions with {printable(index.where)} alone"
            )
    for name, use in found.hudi_indexes.items():
        write_line(f"Hudi's own index {printable(name)}: {use}")
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


def problem_of(place: str, sentence: str) -> str:
    """The sentence with the place in front, unless it names the place itself."""
    return sentence if place in sentence else f"{place}: {sentence}"
