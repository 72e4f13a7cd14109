"""`pruner trino-plugin`: writes out the plugin for Trino that comes with a wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pruner.cli.output import printable, write_line
from pruner.errors import PrunerError, StorageError

FolderArgument = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="Folder for the jar, such as plugin/hive or plugin/iceberg of Trino; created if missing.",
    ),
]


def trino_plugin(folder: FolderArgument) -> None:
    """Write the jar of Trino's plugin into a folder."""
    from pruner.adapters import PluginAdapter, load_adapter

    adapter = load_adapter("trino")
    if not isinstance(adapter, PluginAdapter):
        raise PrunerError("the installed adapter of trino has no plugin: reinstall lake-pruner")
    jar = adapter.plugin_jar()
    place = folder / jar.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        place.write_bytes(jar.read_bytes())
    except OSError as error:
        raise StorageError(f"cannot write {str(place)!r}: {error.strerror}") from error
    write_line(f"written to {printable(str(place))}; copy it to every node, beside the jars of the connector")
