"""What goes on beside the requests: tables are opened before anybody asks, and `pruner.toml` is read again."""

from __future__ import annotations

import logging
from threading import Event, Thread
from typing import TYPE_CHECKING

from pruner.adapters import adapter_names, load_adapter
from pruner.errors import PrunerError

if TYPE_CHECKING:
    from pruner.service.served import Served

RELOAD_SECONDS = 2.0
"""How often the configuration is read again. Reading it takes less than a millisecond."""

RETRY_ROUNDS = 15
"""Tables that could not be read are tried again in each round of so many."""

_log = logging.getLogger("pruner")


class Upkeep:
    """A thread that keeps the served tables open and up to date with the configuration, until the process ends."""

    def __init__(self, served: Served, seconds: float = RELOAD_SECONDS) -> None:
        self._served = served
        self._seconds = seconds
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="pruner-upkeep", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait until it has ended."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        _load_adapters()
        self._served.open_tables()
        rounds = 0
        while not self._stopped.wait(self._seconds):
            rounds += 1
            if self._served.reload() or rounds % RETRY_ROUNDS == 0:
                self._served.open_tables()


def _load_adapters() -> None:
    for engine in adapter_names():
        try:
            load_adapter(engine)
        except PrunerError as error:
            # An engine whose package is not installed is one that nobody asks for.
            missing = isinstance(error.__cause__, ModuleNotFoundError)
            _log.log(logging.DEBUG if missing else logging.INFO, "%s", error)
