"""Index types by name: the built-in ones, and those that other distributions register."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from pruner.errors import IndexDefinitionError
from pruner.indexes.bitmap import BITMAP
from pruner.indexes.column_stats import COLUMN_STATS

if TYPE_CHECKING:
    from pruner.indexes.base import IndexType

ENTRY_POINTS = "pruner.indexes"
"""The entry point group: each entry is an `IndexType` under its name."""

_BUILT_IN: dict[str, IndexType] = {each.name: each for each in (COLUMN_STATS, BITMAP)}
_ALIASES = {"col_stats": COLUMN_STATS.name}


def index_type(name: str) -> IndexType:
    """Return the index type of a name, in any case of letters.

    Raises:
        IndexDefinitionError: there is none, or the package that registers it cannot be loaded.
    """
    wanted = _ALIASES.get(name.lower(), name.lower())
    built_in = _BUILT_IN.get(wanted)
    return built_in if built_in is not None else _registered(wanted)


@cache
def _registered(name: str) -> IndexType:
    found = {entry.name.lower(): entry for entry in entry_points(group=ENTRY_POINTS)}
    if name not in found:
        known = ", ".join(sorted({*_BUILT_IN, *found}))
        raise IndexDefinitionError(f"no index type {name!r}: use one of {known}")
    try:
        return found[name].load()
    # Whatever the other package's import raises, the user learns which package it is.
    except Exception as error:
        raise IndexDefinitionError(
            f"index type {name!r} ({found[name].value}) cannot be loaded: {error}"
        ) from error
