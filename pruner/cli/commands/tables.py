"""`pruner tables`: the tables of the configuration."""

from __future__ import annotations

from pruner.cli.options import Output, OutputOption
from pruner.cli.output import print_columns, print_json, write_line


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
