"""Tables by name: those that a program hands over, those of the configuration, and any place."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from pruner.config import Config, ConfigError, TableSettings, load, settings_of

if TYPE_CHECKING:
    from pruner.table import Table

TableLike: TypeAlias = Union["Table", str, "os.PathLike[str]", "Sequence[str]", "Mapping[str, Any]"]
"""An open table, its place, its places, or its options (the keys of docs/configuration.md)."""


def open_given(value: TableLike, where: str) -> Table:
    """Open what a program handed over as a table.

    Args:
        value: a table, a path or URI, several of them, or a mapping of options.
        where: what the program calls it, for errors.

    Raises:
        ConfigError: an option is unknown or of the wrong kind.
        TableError: there is no table at that place.

    """
    match value:
        case str() | os.PathLike():
            return TableSettings(uris=(os.fspath(value),)).open()
        case Mapping():
            return settings_of(value, where).open()
        case Sequence():
            return settings_of({"uri": value}, where).open()
        case _:
            return value


class Catalog:
    """Finds and opens tables by name, each once; `tables` come before the configuration's.

    `override` changes how the tables of the configuration and bare places are opened.
    """

    def __init__(
        self,
        tables: Mapping[str, TableLike] | None = None,
        config: Config | None = None,
        override: Callable[[TableSettings], TableSettings] = lambda settings: settings,
    ) -> None:
        self._given: dict[str, tuple[str, TableLike]] = {}
        for name, value in (tables or {}).items():
            if name.casefold() in self._given:
                raise ConfigError(f"the table {name!r} is given twice: names do not differ by case")
            self._given[name.casefold()] = (name, value)
        self._config = load() if config is None else config
        self._override = override
        self._opened: dict[str, Table] = {}

    def names(self, *, aliases: bool = False) -> tuple[str, ...]:
        """The names of all known tables, with aliases if they are asked for."""
        given = tuple(name for name, _ in self._given.values())
        configured = self._config.names(aliases=aliases)
        return given + tuple(name for name in configured if name.casefold() not in self._given)

    def open(self, name: str) -> Table:
        """Open the table of that name, or at that place.

        Raises:
            TableError: it is neither a known name nor the place of a table.
            ConfigError: its configuration is wrong.

        """
        key = name.casefold()
        if key not in self._given:
            # Places are case-sensitive; only names are folded.
            key = name
        if key not in self._opened:
            self._opened[key] = self._open(key, name)
        return self._opened[key]

    def _open(self, key: str, name: str) -> Table:
        if key in self._given:
            return open_given(self._given[key][1], f"tables[{name!r}]")
        return self._override(self._config.resolve(name)).open()
