"""`pruner inspect`: the entries of an index that keeps values, by their keys."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from pruner.cli.options import Output, OutputOption, on_table
from pruner.cli.output import print_columns, print_json, write_line

if TYPE_CHECKING:
    from pruner.maintenance.inspection import IndexEntry
    from pruner.table import Table

IndexArgument = Annotated[str, typer.Argument(metavar="INDEX", help="Name of the index.")]
PrefixOption = Annotated[
    str, typer.Option("--prefix", metavar="K", help="Start of the keys column$value$partition$file_group.")
]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="Maximum number of entries.")]
RowsOption = Annotated[int, typer.Option("--rows", min=0, help="Maximum number of row positions per entry.")]


@on_table
def inspect(
    table: Table,
    index: IndexArgument,
    prefix: PrefixOption = "",
    limit: LimitOption = 1000,
    rows: RowsOption = 10,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show the values of an index and their files."""
    found = list(islice(table.inspect(index, prefix, positions=rows), limit + 1))
    shown = found[:limit]
    more = len(found) > limit
    if output is Output.JSON:
        entries = [asdict(entry) for entry in shown]
        print_json({"table": table.uri, "index": index, "entries": entries, "more": more})
        return
    if shown and shown[0].file is not None:
        print_columns(("key", shown[0].counts, "file"), ((e.key, e.cardinality, e.file or "") for e in shown))
    else:
        print_columns(("key", "rows", "positions"), ((e.key, e.cardinality, _positions(e)) for e in shown))
    if more:
        write_line(f"more than {limit:,} entries: give a longer --prefix, or a higher --limit")


def _positions(entry: IndexEntry) -> str:
    if entry.positions is None:
        return "not known"
    listed = ", ".join(map(str, entry.positions))
    return listed if len(entry.positions) == entry.cardinality else f"{listed}, …".removeprefix(", ")
