"""`pruner plan`, `pruner explain` and `pruner count`: what a predicate leaves to read, and how many rows match."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pruner.cli.options import (
    AsOfOption,
    DialectOption,
    Files,
    HtmlOption,
    Output,
    OutputOption,
    WhereOption,
    ZoneOption,
    check_zone,
    given_text,
    on_table,
)
from pruner.cli.output import print_json, printable, write_line, write_page
from pruner.expr.engines import REFERENCE_ENGINE, SqlEngine
from pruner.showing.words import counted, data_size

if TYPE_CHECKING:
    from pruner.planning.plan import Plan
    from pruner.table import Table

_REFERENCE = SqlEngine(REFERENCE_ENGINE)

CountedOption = Annotated[
    str,
    typer.Option(
        "--where",
        metavar="PREDICATE",
        help="SQL predicate, all rows by default; @FILE reads it from a file, - from standard input.",
    ),
]
FilesOption = Annotated[Files, typer.Option("--files", help="Files to list, each with the reason.")]


@on_table
def plan(
    table: Table,
    where: WhereOption,
    dialect: DialectOption = _REFERENCE,
    zone: ZoneOption = None,
    as_of: AsOfOption = None,
    files: FilesOption = Files.SUMMARY,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show which files a predicate leaves to read."""
    made = _plan(table, where, dialect, zone, as_of)
    if output is Output.JSON:
        write_line(made.to_json(files.value))
        return
    write_line(
        f"{made.kept:,} of {counted(made.total, made.snapshot.noun)} to read, "
        f"{data_size(made.bytes_kept)} of {data_size(made.bytes_total)}"
    )
    for reason in made.fallbacks:
        write_line(f"note: {printable(reason)}")
    if files is not Files.SUMMARY:
        _list_slices(made, files)


@on_table
def explain(
    table: Table,
    where: WhereOption,
    dialect: DialectOption = _REFERENCE,
    zone: ZoneOption = None,
    as_of: AsOfOption = None,
    html: HtmlOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show what each clause and index dropped."""
    made = _plan(table, where, dialect, zone, as_of)
    if html is not None:
        write_page(html, made.to_html())
        return
    if output is Output.JSON:
        write_line(made.to_json())
        return
    for line in made.explain().split("\n"):
        write_line(printable(line))


@on_table
def count(
    table: Table,
    where: CountedOption = "true",
    dialect: DialectOption = _REFERENCE,
    zone: ZoneOption = None,
    as_of: AsOfOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Count rows, from metadata where possible."""
    started = time.perf_counter()
    predicate = given_text(where, "predicate", "--where")
    made = _plan_of(table, predicate, dialect, zone, as_of)
    answer = made.count()
    rows = answer.value if answer.exact else table.count(predicate, semantics=made.semantics, as_of=as_of)
    seconds = time.perf_counter() - started
    if output is Output.JSON:
        read = len(answer.rest)
        print_json({"rows": rows, "total": made.total, "read": read, "seconds": round(seconds, 6)})
        return
    write_line(str(rows))
    write_line(f"{answer.told}, in {seconds * 1000:.0f} ms")


def _plan(
    table: Table,
    where: str,
    dialect: SqlEngine,
    zone: str | None,
    as_of: str | None,
) -> Plan:
    return _plan_of(table, given_text(where, "predicate", "--where"), dialect, zone, as_of)


def _plan_of(table: Table, predicate: str, dialect: SqlEngine, zone: str | None, as_of: str | None) -> Plan:
    from pruner.expr.semantics import Semantics

    if zone is not None:
        check_zone(zone)
    semantics = replace(Semantics.of(dialect.value), zone=zone)
    return table.snapshot(as_of=as_of).plan(predicate, semantics=semantics)


def _list_slices(made: Plan, files: Files) -> None:
    import msgspec

    report: dict[str, Any] = msgspec.json.decode(made.to_json(files.value))
    for entry in report["files"]:
        places = [place for place in (entry["base_file"], *entry["log_files"]) if place is not None]
        write_line(f"{printable(' + '.join(places))}  ({printable(entry['why'])})")
