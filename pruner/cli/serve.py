"""`pruner serve`: the planner as a service."""

from __future__ import annotations

import logging
import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from pruner.cli.output import write_line
from pruner.errors import PrunerError

HostOption = Annotated[str, typer.Option("--host", help="Address to listen on.")]
PortOption = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")]
CertificateOption = Annotated[
    Path | None, typer.Option("--certificate", metavar="FILE", help="Certificate chain for TLS, PEM.")
]
PrivateKeyOption = Annotated[
    Path | None, typer.Option("--private-key", metavar="FILE", help="Private key for TLS, PEM.")
]
InsecureOption = Annotated[
    bool,
    typer.Option("--insecure", help="Listen beyond this machine without TLS; the token is still asked for."),
]


def serve(
    host: HostOption = "127.0.0.1",
    port: PortOption = 8765,
    certificate: CertificateOption = None,
    private_key: PrivateKeyOption = None,
    insecure: InsecureOption = False,
) -> None:
    """Answer plan requests over HTTP for the tables of pruner.toml."""
    try:
        from pruner.service import Served, Settings, create_app
        from pruner.service.serving import server_of
        from pruner.service.upkeep import Upkeep
    except ImportError as error:
        raise PrunerError("the service is not installed: pip install 'lake-pruner[service]'") from error
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
    _log_to_stderr()
    served = Served(config)
    server = server_of(create_app(served, settings), settings)
    # From the line below on, clients may connect and wait.
    listening = _listening(host, port)
    scheme = "http" if certificate is None else "https"
    write_line(
        f"serving {_counted(len(config.tables))} on {scheme}://{host}:{listening.getsockname()[1]}; stop with Ctrl-C"
    )
    sys.stdout.flush()
    Upkeep(served).start()
    server.run(sockets=[listening])


def _counted(tables: int) -> str:
    return "1 table" if tables == 1 else f"{tables:,} tables"


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger("pruner")
    log.addHandler(handler)
    log.setLevel(logging.INFO)


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048
        )
    except OSError as error:
        raise PrunerError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --host or --port"
        ) from error
