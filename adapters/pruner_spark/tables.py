"""The pruner table behind a location, or behind a relation that Spark resolved."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, replace
from threading import Lock
from typing import TYPE_CHECKING

from pruner.catalog.config import load
from pruner.catalog.settings import TableSettings
from pruner.errors import PrunerError

if TYPE_CHECKING:
    from pruner import Table

OPEN_TABLES = 256
"""Tables that are kept open; the least recently used one is evicted first."""

_tables: OrderedDict[str, Table] = OrderedDict()
_lock = Lock()


def identity(settings: TableSettings) -> str:
    """Return a key that is equal for two settings exactly when they open the same table in the same way."""
    return json.dumps(asdict(replace(settings, name=None, aliases=())), sort_keys=True)


def opened(settings: TableSettings) -> Table:
    """Open a table, or return the one that was opened with the same settings.

    Raises:
        TableError: there is no such path, it is not a table, or its format is not supported.
        StorageError: the store refuses to be read.
    """
    key = identity(settings)
    with _lock:
        if key in _tables:
            _tables.move_to_end(key)
            return _tables[key]
    table = settings.open()
    with _lock:
        while len(_tables) >= OPEN_TABLES:
            _tables.popitem(last=False)
        return _tables.setdefault(key, table)


def indexed_behind(names: Sequence[str], roots: Sequence[str]) -> TableSettings | None:
    """Return the settings of the table behind a relation, if it is in `pruner.toml` or has an index beside it.

    Args:
        names: the names that the catalog has for the relation, the longest first; may be empty.
        roots: the root paths that the relation reads.

    Raises:
        ConfigError: the configuration cannot be read.
    """
    config = load()
    if (configured := config.find_at(roots)) is not None:
        return configured
    for name in names:
        # A bare name may belong to a table in another schema; the location has been compared already.
        if "." in name and (configured := config.find(name)) is not None:
            return configured
    if len(roots) != 1:
        return None
    settings = TableSettings(uris=tuple(roots))
    return settings if _has_index(settings) else None


def settings_at(roots: Sequence[str]) -> TableSettings:
    """Return the settings for the table at some root paths: those of `pruner.toml`, if it has them.

    Raises:
        ConfigError: the configuration cannot be read.
    """
    return load().find_at(roots) or TableSettings(uris=tuple(roots))


def _has_index(settings: TableSettings) -> bool:
    """Tell whether a table has an index, even one that pruner refuses to open, so that the reason is reported."""
    try:
        return bool(opened(settings).indexes())
    except PrunerError:
        return _has_index_of_a_refused_table(settings)


def _has_index_of_a_refused_table(settings: TableSettings) -> bool:
    try:
        return settings.defines_indexes()
    except PrunerError:
        return False
