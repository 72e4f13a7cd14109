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
    listed = list(islice(table.inspect(index, prefix, positions=rows), limit + 1))
    shown = listed[:limit]
    more = len(listed) > limit
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
    listed = [(table.name or "", table.uris, table.aliases, table.index_uri) for table in config.tables]
    if output is Output.JSON:
        entries = [
            {"name": name, "uris": uris, "aliases": aliases, "index_uri": index_uri}
            for name, uris, aliases, index_uri in listed
        ]
        print_json({"config": None if config.path is None else str(config.path), "tables": entries})
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

    drawn = table.map(column or (), history=history)
    if html is not None:
        write_page(html, map_page(drawn))
    elif output is Output.JSON:
        print_json(_map_json(drawn))
    else:
        for line in map_lines(drawn):
            write_line(printable(line))


def _map_json(drawn: TableMap) -> dict[str, Any]:
    indexes = [
        {"index": index.name, "using": index.using, "strip": index.strip, "problem": index.problem}
        for index in drawn.indexes
    ]
    columns = [{**asdict(column), "verdict": column.verdict} for column in drawn.columns]
    return {
        "table": drawn.uri,
        "slices": drawn.slices,
        "bytes": drawn.bytes,
        "indexes": indexes,
        "columns": columns,
        "undrawn": list(drawn.undrawn),
        "history": [asdict(coverage) for coverage in drawn.history],
    }
