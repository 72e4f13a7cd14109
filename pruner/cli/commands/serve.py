"""`pruner serve`: the planner as a service; what its plugin and its writers need: `trino-plugin`, `notify`.

`pruner trino-plugin`: writes out the plugin for Trino that comes with a wheel.

`pruner notify`: what a writer calls after it changed a table that has a change feed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from pruner.cli.options import Output, OutputOption, StorageOption, TableArgument, pairs
from pruner.cli.output import print_json, printable, write_line
from pruner.errors import PrunerError, StorageError
from pruner.limits import FEED_FILE_BYTES
from pruner.plugins import installing
from pruner.showing.words import counted

HostOption = Annotated[str, typer.Option("--host", help="Address to listen on.")]
PortOption = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 chooses a free one.")]
CertificateOption = Annotated[
    Path | None, typer.Option("--certificate", metavar="FILE", help="Certificate chain for TLS, PEM.")
]
PrivateKeyOption = Annotated[
    Path | None, typer.Option("--private-key", metavar="FILE", help="Private key for TLS, PEM.")
]
InsecureOption = Annotated[
    bool,
    typer.Option("--insecure", help="Listen beyond this machine without TLS; the token is still required."),
]
WorkersOption = Annotated[
    int,
    typer.Option(
        "--workers", min=1, max=256, help="Processes that share the port, each with its own memory."
    ),
]


def serve(
    host: HostOption = "127.0.0.1",
    port: PortOption = 8765,
    certificate: CertificateOption = None,
    private_key: PrivateKeyOption = None,
    insecure: InsecureOption = False,
    workers: WorkersOption = 1,
) -> None:
    """Answer plan requests over HTTP for the tables of pruner.toml."""
    try:
        from pruner.service import Settings
        from pruner.service import workers as process
        from pruner.service.serving import log_to_stderr
        from pruner.service.workers import listening_sockets, run_workers
    except ImportError as error:
        raise PrunerError(f"the service is not installed: {installing('service')}") from error
    from pruner.catalog.config import load
    from pruner.service.settings import TOKEN_VARIABLE

    settings = Settings(
        host=host,
        port=port,
        token=os.environ.get(TOKEN_VARIABLE) or None,
        certificate=certificate,
        private_key=private_key,
        insecure=insecure,
    )
    config = load()
    if not config.tables:
        raise PrunerError("there is no table to serve: name tables in a pruner.toml (docs/configuration.md)")
    settings.check()
    process.check_telemetry()
    log_to_stderr()
    try:
        listening = listening_sockets(host, port, workers)
    except OSError as error:
        raise PrunerError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --host or --port"
        ) from error
    # From the line below on, clients may connect and wait.
    scheme = "http" if certificate is None else "https"
    place = f"{scheme}://{host}:{listening[0].getsockname()[1]}"
    by = f" with {workers} workers" if workers > 1 else ""
    write_line(f"serving {counted(len(config.tables), 'table')} on {place}{by}; stop with Ctrl-C")
    sys.stdout.flush()
    if workers > 1:
        run_workers(config, settings, listening)
    else:
        process.serve(config, settings, listening[0])


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


PathsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PATH…]",
        help="Files or folders that changed, relative to the root or in full; . is the whole table.",
    ),
]
EventsOption = Annotated[
    str | None,
    typer.Option(
        "--events", metavar="FILE", help="Read S3 event notifications from a file; - is standard input."
    ),
]
FeedOption = Annotated[
    str | None,
    typer.Option(
        "--feed", metavar="URI", help="Location of the change feed; that of pruner.toml by default."
    ),
]


def notify(
    table: TableArgument,
    paths: PathsArgument = None,
    events: EventsOption = None,
    feed: FeedOption = None,
    option: StorageOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Record changes in a table's change feed."""
    from pruner.catalog.names import settings_given
    from pruner.catalog.notify import notify_by

    if events is not None and paths:
        raise typer.BadParameter("give paths or --events, not both", param_hint="--events")
    settings = settings_given(table, feed=feed, storage_options=pairs(option, "--option"))
    event = notify_by(settings, paths or [], None if events is None else _bytes_of(events))
    place = f"{settings.feed}/{event}"
    if output is Output.JSON:
        print_json({"table": settings.uris[0], "event": place})
    else:
        write_line(f"{printable(place)}: written")


def _bytes_of(events: str) -> bytes:
    """The events of a file or of standard input, and one byte more than are allowed at most."""
    if events == "-":
        return sys.stdin.buffer.read(FEED_FILE_BYTES + 1)
    try:
        with Path(events).open("rb") as file:
            return file.read(FEED_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise typer.BadParameter(f"cannot read {events!r}: {reason}", param_hint="--events") from error
