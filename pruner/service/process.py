"""What one process of the service does, alone or as a worker."""

from __future__ import annotations

import importlib
import logging
import os
from typing import TYPE_CHECKING, Final

from pruner.errors import PrunerError
from pruner.extras import installing
from pruner.service.app import create_app
from pruner.service.served import Served
from pruner.service.serving import server_of
from pruner.service.upkeep import Upkeep

if TYPE_CHECKING:
    import socket

    from pruner.catalog.config import Config
    from pruner.service.settings import Settings
    from pruner.service.siblings import Siblings
    from pruner.service.telemetry import Telemetry

ENDPOINTS: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
"""Variables of OpenTelemetry, one of which says where spans and figures go."""


def check_telemetry() -> None:
    """Refuse to begin where spans and figures are wanted and cannot be sent.

    Raises:
        PrunerError: the extra is not installed.
    """
    if not _is_wanted():
        return
    try:
        importlib.import_module("pruner.service.telemetry")
    except ImportError as error:
        raise PrunerError(f"OpenTelemetry is not installed: {installing('otel')}") from error


def serve(
    config: Config, settings: Settings, listening: socket.socket, siblings: Siblings | None = None
) -> None:
    """Serve until somebody stops this process."""
    telemetry = _telemetry()
    served = Served(config)
    app = create_app(served, settings, siblings, telemetry)
    server = server_of(app, settings, telemetry.end if telemetry is not None else lambda: None)
    Upkeep(served).start()
    server.run(sockets=[listening])


def _is_wanted() -> bool:
    return any(os.environ.get(name) for name in ENDPOINTS) and os.environ.get("OTEL_SDK_DISABLED") != "true"


def _telemetry() -> Telemetry | None:
    if not _is_wanted():
        return None
    from pruner.service.telemetry import telemetry_over_http

    logging.getLogger("pruner").info("spans and figures go to OpenTelemetry")
    return telemetry_over_http()
