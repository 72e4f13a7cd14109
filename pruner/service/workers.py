"""The processes of the service: one, or several workers that share a port.

Each worker has a listening socket of its own on that port, among which the kernel distributes connections
(SO_REUSEPORT). The sockets belong to the process that started the workers, so clients of a worker that died wait for
its successor.
"""

from __future__ import annotations

import errno
import importlib
import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import multiprocess as counters

from pruner.errors import PrunerError
from pruner.plugins import installing
from pruner.service.app import create_app
from pruner.service.metrics import SHARED_FOLDER
from pruner.service.served import Served, Upkeep
from pruner.service.serving import log_to_stderr, server_of
from pruner.service.siblings import Siblings

if TYPE_CHECKING:
    import socket
    from collections.abc import Generator, Sequence
    from multiprocessing.process import BaseProcess

    from pruner.catalog.config import Config
    from pruner.service.settings import Settings
    from pruner.service.siblings import Siblings
    from pruner.service.telemetry import Telemetry


ENDPOINTS: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
"""OpenTelemetry's variables; any of them turns on the export of spans and metrics."""


def check_telemetry() -> None:
    """Refuse to start if spans and metrics are requested but cannot be sent.

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
    """Serve until this process is stopped."""
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


LOOK_SECONDS: Final = 0.5
"""How often dead workers are detected; a worker that dies at once is not restarted more often, either."""

END_SECONDS: Final = 5.0
"""Time that workers have, beyond the longest plan, to finish their work."""

_log = logging.getLogger("pruner")


def listening_sockets(host: str, port: int, count: int) -> list[socket.socket]:
    """Return `count` listening sockets on one port; port 0 takes a free one.

    Raises:
        OSError: the address is taken, is not of this machine, or this system cannot share ports.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if count == 1:
        return [socket.create_server((host, port), family=family, backlog=2048)]
    if not hasattr(socket, "SO_REUSEPORT"):
        raise OSError(
            errno.EOPNOTSUPP, "sockets cannot share a port on this system: one worker is all there can be"
        )
    if port:
        # Sockets that share a port would also share it with another service of the same user.
        socket.create_server((host, port), family=family).close()
    sockets: list[socket.socket] = []
    for _ in range(count):
        sockets.append(socket.create_server((host, port), family=family, backlog=2048, reuse_port=True))
        port = sockets[0].getsockname()[1]
    return sockets


def run_workers(config: Config, settings: Settings, listening: Sequence[socket.socket]) -> None:
    """Serve with a worker for each socket until this process is stopped; workers that die are replaced."""
    with TemporaryDirectory(prefix="pruner-") as folder, _until_stopped() as stopped:
        # `prometheus_client` reads it at import, which happens in workers after they have started.
        os.environ[SHARED_FOLDER] = folder

        def start(number: int) -> BaseProcess:
            place = Siblings(folder, number, len(listening))
            process = multiprocessing.get_context("spawn").Process(
                target=_work, args=(place, config, settings, listening[number - 1]), name=f"worker {number}"
            )
            process.start()
            return process

        workers = [start(number) for number in range(1, len(listening) + 1)]
        while not stopped.wait(LOOK_SECONDS):
            for index, worker in enumerate(workers):
                if not worker.is_alive():
                    _log.error("%s ended with %s and is started again", worker.name, worker.exitcode)
                    counters.mark_process_dead(worker.pid, folder)  # pyright: ignore[reportUnknownMemberType]
                    workers[index] = start(index + 1)
        for listener in listening:
            listener.close()
        _end(workers, settings.limits.plan_seconds + END_SECONDS)


def _end(workers: Sequence[BaseProcess], seconds: float) -> None:
    for worker in workers:
        worker.terminate()
    deadline = time.monotonic() + seconds
    for worker in workers:
        worker.join(max(0.0, deadline - time.monotonic()))
        if worker.is_alive():
            worker.kill()
            worker.join()


@contextmanager
def _until_stopped() -> Generator[threading.Event]:
    """An event that is set by SIGINT or SIGTERM."""
    stopped = threading.Event()

    def stop(_: int, __: Any) -> None:
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _work(place: Siblings, config: Config, settings: Settings, listening: socket.socket) -> None:
    """Run a worker, in a process of its own."""
    # Ctrl-C reaches all processes of a terminal; the parent process decides when this worker ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="pruner-parent", daemon=True).start()
    log_to_stderr(f"worker {place.number}: ")
    serve(config, settings, listening, place)


def _end_with_parent() -> None:
    """Stop this worker when its parent ends: after a killed parent, nothing else would stop it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
