"""What other distributions register as entry points, and what to install when an optional part is missing.

Any problem with an entry becomes one sentence that names the package at fault.

What to install when an optional part is missing has one wording in all messages.
"""

from __future__ import annotations

import os
import sys
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pruner.errors import PrunerError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

DISTRIBUTION = "lake-pruner"
DUCKDB_EXTRA = "duckdb"
SPARK_EXTRA = "spark"


def installing(extra: str, distribution: str = DISTRIBUTION) -> str:
    """How to install an extra. No message has a bare `pip install`: the package need not be on the user's index."""
    return f"install the extra {extra!r} of {distribution} (in a checkout: pip install '.[{extra}]')"


class Group(Enum):
    """A group of entry points: its name, what an entry is called, and the attributes that its object must have.

    The first attribute is the object's name; the entry has the same name.
    """

    ADAPTERS = "pruner.adapters", "adapter", ("engine",)
    """Adapters by engine: `pruner.adapters.Adapter`, docs/adapters.md."""
    INDEX_TYPES = (
        "pruner.indexes",
        "index type",
        ("name", "partition", "version", "check", "record", "load"),
    )
    """Index types by name: `pruner.indexes.base.IndexType`, docs/index-types.md."""

    FORMATS = (
        "pruner.formats",
        "table format",
        ("name", "title", "several_roots", "is_root", "open", "own_indexes"),
    )
    """Table formats by name: `pruner.formats.format.TableFormat`, docs/table-formats.md."""

    def __init__(self, entry_points: str, noun: str, attributes: tuple[str, ...]) -> None:
        self.entry_points = entry_points
        self.noun = noun
        self.attributes = attributes


class MissingPluginError(PrunerError):
    """No installed distribution registers that name."""


class BrokenPluginError(PrunerError):
    """A distribution registers that name, but what it registers cannot be used."""


def _entries(group: Group) -> EntryPoints:
    # Imported here: it also imports the email parser, and most processes need no plugin.
    from importlib.metadata import entry_points

    return entry_points(group=group.entry_points)


@cache
def may_be_registered(group: Group) -> bool:
    """Tell whether some installed distribution can register anything in a group.

    Takes one millisecond; importing the entry point reader takes thirty, and most processes have no plugin.
    """
    return any(_may_name(place, group.entry_points.encode()) for place in sys.path)


def _may_name(place: str, group: bytes) -> bool:
    """Tell whether an import path entry can hold a distribution whose entry points name a group."""
    try:
        with os.scandir(place or ".") as entries:
            metadata = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
    except FileNotFoundError:
        return False
    except OSError:
        return True  # such as an archive: only its own finder knows what is in it
    return any(group in _content(f"{folder}/entry_points.txt") for folder in metadata)


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""


def plugin_names(group: Group) -> tuple[str, ...]:
    """The names that installed distributions register, in lower case and sorted. Nothing is imported."""
    return tuple(sorted({entry.name.lower() for entry in _entries(group)}))


# Searching all installed distributions takes milliseconds. A call that raises is not cached.
@cache
def load_plugin(group: Group, name: str) -> object:
    """Import what is registered under a name, whose case does not matter.

    Raises:
        MissingPluginError: nothing is registered.
        BrokenPluginError: it cannot be imported, lacks an attribute, or two distributions register different things.
    """
    entry = _entry(group, name)
    described = _described(group, entry)
    try:
        plugin: object = entry.load()
    # Whatever the other package's import raises, the message names the package.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BrokenPluginError(f"{described} cannot be loaded: {reason}{_advice(entry, error)}") from error
    problem = _problem(group, entry, plugin)
    if problem is not None:
        raise BrokenPluginError(f"{described} cannot be used: {problem}")
    return plugin


def _entry(group: Group, name: str) -> EntryPoint:
    entries = [entry for entry in _entries(group) if entry.name.lower() == name.lower()]
    if not entries:
        known = ", ".join(plugin_names(group)) or "none"
        raise MissingPluginError(f"no {group.noun} {name!r} is installed; there are: {known}")
    if len({entry.value for entry in entries}) > 1:
        packages = " and ".join(sorted(entry.dist.name if entry.dist else entry.value for entry in entries))
        raise BrokenPluginError(f"{group.noun} {name!r} is registered by {packages}: uninstall all but one")
    return entries[0]


def _described(group: Group, entry: EntryPoint) -> str:
    origin = f" of {entry.dist.name} {entry.dist.version}" if entry.dist else ""
    return f"{group.noun} {entry.name!r} ({entry.value}{origin})"


def _advice(entry: EntryPoint, error: Exception) -> str:
    """How to install a missing module, if the distribution has an extra of the entry's name for it."""
    if not isinstance(error, ModuleNotFoundError) or entry.dist is None:
        return ""
    extras = entry.dist.metadata.get_all("Provides-Extra") or []
    return f"; {installing(entry.name, entry.dist.name)}" if entry.name in extras else ""


def _problem(group: Group, entry: EntryPoint, plugin: object) -> str | None:
    if isinstance(plugin, type):
        return f"it is the class {plugin.__name__}, where one object of it is to be registered"
    missing = [name for name in group.attributes if not hasattr(plugin, name)]
    if missing:
        return f"it has no {', no '.join(missing)}"
    called = getattr(plugin, group.attributes[0])
    if called != entry.name.lower():
        return f"its {group.attributes[0]} is {called!r}, and its entry must have the same name"
    return None
