"""Which table of pruner stands behind a place, or behind a relation that Spark resolved."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from threading import Lock
from typing import TYPE_CHECKING

from pruner.config import Config, ConfigError, TableSettings, load
from pruner.errors import PrunerError
from pruner.storage import normalize_uri

if TYPE_CHECKING:
    from pruner.table import Table

OPEN_TABLES = 256
"""Tables that are kept open; the one that was used longest ago goes first."""

_tables: OrderedDict[str, Table] = OrderedDict()
_lock = Lock()


def identity(settings: TableSettings) -> str:
    """Return what two settings share exactly when they open the same table in the same way."""
    return json.dumps(asdict(replace(settings, name=None, aliases=())), sort_keys=True)


def opened(settings: TableSettings) -> Table:
    """Open a table, or return the one that was opened by the same settings.

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


def settings_for(
    uri: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    index_uri: str | None,
    storage_options: Mapping[str, str] | None,
    max_staleness: float | None,
) -> TableSettings:
    """Return how to open a table that a program names by its name, place or places.

    Raises:
        TableError: it is neither a known name nor a place.
        ConfigError: its configuration is wrong.
    """
    if isinstance(uri, str | os.PathLike):
        settings = load().resolve(os.fspath(uri))
    else:
        settings = TableSettings(uris=tuple(os.fspath(each) for each in uri))
    settings = settings.with_overrides(index_uri, storage_options or {})
    return settings if max_staleness is None else replace(settings, max_staleness=max_staleness)


def indexed_behind(names: Sequence[str], roots: Sequence[str]) -> TableSettings | None:
    """Return the settings of the table behind a relation, if `pruner.toml` or an index beside it knows one.

    Args:
        names: the names that the catalog has for the relation, the longest first; may be empty.
        roots: the places that the relation reads.

    Raises:
        ConfigError: the configuration cannot be read.
    """
    config = load()
    places = _normalized(roots)
    if places is not None and (found := _at(config, places)) is not None:
        return found
    for name in names:
        # A bare name alone may be that of another table in another schema; its place has been compared already.
        if "." in name and (found := config.find(name)) is not None:
            return found
    if places is None or len(places) != 1:
        return None
    settings = TableSettings(uris=places)
    return settings if _has_index(settings) else None


def settings_at(roots: Sequence[str]) -> TableSettings:
    """Return how to open the table at some places: as `pruner.toml` says if it knows them.

    Raises:
        ConfigError: the configuration cannot be read.
    """
    places = _normalized(roots)
    configured = None if places is None else _at(load(), places)
    return configured or TableSettings(uris=tuple(roots))


def _at(config: Config, places: tuple[str, ...]) -> TableSettings | None:
    """The configured table at these places."""
    for known in config.tables:
        try:
            settings = config.find(known.name or "")
        except ConfigError:
            continue  # a variable of another table is not set
        if settings is not None and places == _normalized(settings.uris):
            return settings
    return None


def _has_index(settings: TableSettings) -> bool:
    try:
        return bool(opened(settings).indexes())
    except PrunerError:
        return False


def _normalized(places: Sequence[str]) -> tuple[str, ...] | None:
    """The places in pruner's spelling; None where it does not know the kind of store."""
    try:
        return tuple(sorted(normalize_uri(place) for place in places))
    except PrunerError:
        return None
