"""`pruner inspect`: the entries of an index that keeps values, by their keys."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pruner.cli.options import HtmlOption, Output, OutputOption, on_table
from pruner.cli.output import print_columns, print_json, printable, write_line, write_page

if TYPE_CHECKING:
    from pruner.maintenance.inspection import IndexEntry
    from pruner.maintenance.mapping import TableMap
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


# `pruner tables`: the tables of the configuration.


def tables(output: OutputOption = Output.TEXT) -> None:
    """List the tables of pruner.toml."""
    from pruner.catalog.config import FILE_NAME, load

    config = load()
    listed = [(each.name or "", each.uris, each.aliases, each.index_uri) for each in config.tables]
    if output is Output.JSON:
        found = [
            {"name": name, "uris": uris, "aliases": aliases, "index_uri": index_uri}
            for name, uris, aliases, index_uri in listed
        ]
        print_json({"config": None if config.path is None else str(config.path), "tables": found})
    elif config.path is None:
        write_line(f"there is no {FILE_NAME} in this folder or above, so no table has a name")
    else:
        print_columns(
            ["name", "uri", "aliases"],
            [(name, ", ".join(uris), ", ".join(aliases)) for name, uris, aliases, _ in listed],
        )


# `pruner map`: which slices indexes cover, and how far the ranges of columns overlap.

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
    from pruner.maintenance.mapping import map_lines, map_page

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
