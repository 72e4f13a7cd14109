"""`pruner map`: which slices indexes cover, and how far the ranges of columns overlap."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pruner.cli.options import HtmlOption, Output, OutputOption, on_table
from pruner.cli.output import print_json, printable, write_line, write_page

if TYPE_CHECKING:
    from pruner.maintenance.mapping import TableMap
    from pruner.table import Table

ColumnOption = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="COLUMN", help="A column whose ranges to draw; repeatable."),
]

HistoryOption = Annotated[
    bool, typer.Option("--history", help="Coverage of each index after the newest commits to it.")
]


@on_table
def map_(
    table: Table,
    column: ColumnOption = None,
    history: HistoryOption = False,
    html: HtmlOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Draw coverage, and the ranges of columns over the files."""
    from pruner.maintenance.map_page import map_lines, map_page

    found = table.map(column or (), history=history)
    if html is not None:
        write_page(html, map_page(found))
    elif output is Output.JSON:
        print_json(_map_json(found))
    else:
        for line in map_lines(found):
            write_line(printable(line))


def _map_json(found: TableMap) -> dict[str, Any]:
    indexes = [
        {"index": each.name, "using": each.using, "strip": each.strip, "problem": each.problem}
        for each in found.indexes
    ]
    columns = [{**asdict(each), "verdict": each.verdict} for each in found.columns]
    return {
        "table": found.uri,
        "slices": found.slices,
        "bytes": found.bytes,
        "indexes": indexes,
        "columns": columns,
        "undrawn": list(found.undrawn),
        "history": [asdict(each) for each in found.history],
    }
