"""The planner's service in a thread of this process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pruner.catalog.config import load
from pruner.service import Served, Settings, create_app
from pruner.service.served import Upkeep
from pruner.service.serving import server_of
from pruner.service.telemetry import Telemetry
from tests.support.running.patience import PATIENT


@contextmanager
def running_service(
    config: Path | None = None, settings: Settings | None = None, telemetry: Telemetry | None = None
) -> Iterator[str]:
    """Run the service on a free port; gives its URL. It is told to end at the end, and ends soon after.

    Args:
        config: its `pruner.toml`; the one at hand unless given.
        settings: those of the service; the usual ones with much patience unless given.
        telemetry: where its spans and figures go; nowhere unless given.
    """
    served, chosen = Served(load(config)), settings or Settings(limits=PATIENT)
    serving = server_of(create_app(served, chosen, telemetry=telemetry), chosen)
    upkeep = Upkeep(served, seconds=0.05)
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]})
    thread.start()
    upkeep.start()
    try:
        while not serving.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        # No test waits for it: uvicorn looks for this ten times a second, and then lets its clients go for as long.
        serving.should_exit = True
        upkeep.stop()
