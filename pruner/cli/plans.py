"""`pruner plan` and `pruner explain`: what a predicate leaves to read."""

from __future__ import annotations

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
from pruner.cli.output import megabytes, printable, write_line, write_page
from pruner.expr.engines import REFERENCE_ENGINE, SqlEngine
from pruner.showing.words import counted

if TYPE_CHECKING:
    from pruner.planning.plan import Plan
    from pruner.table import Table

_REFERENCE = SqlEngine(REFERENCE_ENGINE)

FilesOption = Annotated[Files, typer.Option("--files", help="Files to list one by one, with the reason.")]


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
    """Say which files a predicate leaves."""
    made = _plan(table, where, dialect, zone, as_of)
    if output is Output.JSON:
        write_line(made.to_json(files.value))
        return
    write_line(
        f"{made.kept:,} of {counted(made.total, made.snapshot.noun)} to read, "
        f"{megabytes(made.bytes_kept)} of {megabytes(made.bytes_total)}"
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


def _plan(
    table: Table,
    where: str,
    dialect: SqlEngine,
    zone: str | None,
    as_of: str | None,
) -> Plan:
    from pruner.expr.semantics import Semantics

    predicate = given_text(where, "predicate", "--where")
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
