"""`pruner serve`: the planner as a service."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from pruner.cli.output import write_line
from pruner.errors import PrunerError
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
