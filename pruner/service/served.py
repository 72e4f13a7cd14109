"""What the service serves now: the tables in the current `pruner.toml`, and the state of each.

In the background, tables are opened before they are requested, and `pruner.toml` is read again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING

from pruner.adapters import adapter_names, load_adapter
from pruner.catalog.config import load
from pruner.catalog.names import Catalog
from pruner.catalog.settings import ConfigError
from pruner.errors import PrunerError
from pruner.service.planning import Planning
from pruner.showing.words import FILE, counted

if TYPE_CHECKING:
    from pruner.catalog.config import Config
    from pruner.table import Table

_log = logging.getLogger("pruner")


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a table when it was opened: its slices, or why it cannot be read."""

    slices: int = 0
    problem: str | None = None
    noun: str = FILE


class Served:
    """The tables that requests can name. Threads of requests may read it while one thread updates it (`Upkeep`).

    Attributes:
        planning: plans over the configuration that is in effect; a request takes it once and keeps it to its end.
        problem: why the current configuration file is not in effect; None if it is.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._catalog = Catalog(config=config)
        self._standing: dict[str, Standing] = {}
        self._started = False
        self.planning = Planning(config, self._catalog)
        self.problem: str | None = None

    def reload(self) -> bool:
        """Read the configuration again; tables with unchanged settings stay open. Returns whether it changed.

        A file that cannot be read, or names no table, leaves everything unchanged, and the log says why.
        """
        if self._config.path is None:
            return False
        try:
            config = load(self._config.path)
            if not config.tables:
                raise ConfigError(f"{config.path} names no table")
        except ConfigError as error:
            if self.problem != str(error):
                self.problem = str(error)
                _log.error("%s; the tables are served as before", error)
            return False
        self.problem = None
        if config == self._config:
            return False
        self._take(config)
        return True

    def _take(self, config: Config) -> None:
        catalog = self._catalog.with_config(config)
        planning = Planning(config, catalog)
        before = set(self._config.names())
        self._standing = {
            name: standing for name, standing in self._standing.items() if catalog.is_open(name)
        }
        self._config, self._catalog, self.planning = config, catalog, planning
        gone = sorted(before - set(config.names()))
        fresh = [name for name in config.names() if not catalog.is_open(name)]
        _log.info(
            "%s was read again: %s%s%s",
            config.path,
            counted(len(config.tables), "table"),
            f"; opened anew: {', '.join(fresh)}" if fresh else "",
            f"; gone: {', '.join(gone)}" if gone else "",
        )

    def open_tables(self) -> None:
        """Open each table that is not open yet or could not be read: engines wait only about two seconds for a plan."""
        for name in self._config.names():
            standing = self._standing.get(name)
            if standing is None or standing.problem is not None:
                self._stands(name, self._opened(name), before=standing)
        self._started = True

    def _opened(self, name: str) -> Standing:
        try:
            snapshot = self._catalog.open(name).snapshot()
            # A constant predicate reads only the log of the metadata table.
            snapshot.plan("1 = 1")
        except PrunerError as error:
            return Standing(problem=str(error))
        return Standing(len(snapshot.slices), noun=snapshot.data.noun)

    def _stands(self, name: str, now: Standing, before: Standing | None) -> None:
        self._standing[name] = now
        if now.problem is None:
            _log.info("table %s is ready: %s", name, counted(now.slices, now.noun))
        elif before is None or before.problem != now.problem:
            _log.warning("table %s cannot be read yet: %s", name, now.problem)

    def standing(self, name: str) -> Standing | None:
        """The state of a table when it was opened; None if that was not tried yet."""
        return self._standing.get(name)

    def readiness(self) -> str | None:
        """Why plans should not be requested yet; None if at least one table can be planned on."""
        if not self._started:
            return "starting"
        known = list(self._standing.values())
        return "no table can be read" if all(standing.problem is not None for standing in known) else None

    def table(self, name: str) -> Table:
        """Open a table by its name.

        Raises:
            PrunerError: it cannot be opened.
        """
        return self._catalog.open(name)


RELOAD_SECONDS = 2.0
"""How often the configuration is read again. Reading it takes less than a millisecond."""

RETRY_ROUNDS = 15
"""Tables that could not be read are tried again once in this many rounds."""

_log = logging.getLogger("pruner")


class Upkeep:
    """A thread that keeps the served tables open and in line with the configuration, until the process ends."""

    def __init__(self, served: Served, seconds: float = RELOAD_SECONDS) -> None:
        self._served = served
        self._seconds = seconds
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="pruner-upkeep", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and wait until it has ended."""
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
            # If the package of an engine is not installed, no client needs that engine.
            missing = isinstance(error.__cause__, ModuleNotFoundError)
            _log.log(logging.DEBUG if missing else logging.INFO, "%s", error)
