"""Does when the service starts what a first plan would wait for: engines wait about two seconds."""

from __future__ import annotations

import logging
from threading import Thread
from typing import TYPE_CHECKING

from pruner.adapters import adapter_names, load_adapter
from pruner.errors import PrunerError

if TYPE_CHECKING:
    from pruner.catalog.config import Config
    from pruner.catalog.names import Catalog

_log = logging.getLogger("pruner")


def warm_up(config: Config, catalog: Catalog) -> Thread:
    """Start to open the tables of a configuration, one after the other; the thread ends with the process.

    A table that cannot be read now is named in the log, and tried again by the first request for it.
    """
    thread = Thread(target=_open_all, args=(config, catalog), name="pruner-warm-up", daemon=True)
    thread.start()
    return thread


def _open_all(config: Config, catalog: Catalog) -> None:
    for engine in adapter_names():
        try:
            load_adapter(engine)
        except PrunerError as error:
            _log.info("%s", error)
    for table in config.tables:
        if table.name is None:
            continue
        try:
            snapshot = catalog.open(table.name).snapshot()
            # A constant predicate reads the log of the metadata table, and nothing else of it.
            snapshot.plan("1 = 1")
            _log.info("table %s is ready: %d slices", table.name, len(snapshot.slices))
        except PrunerError as error:
            _log.warning("table %s cannot be read yet: %s", table.name, error)
