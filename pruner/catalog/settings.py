"""How a table is opened: the options from a file or a program, validated."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from pruner.errors import PrunerError
from pruner.limits import FEED_CONFIRM_SECONDS, INDEX_MEMORY

if TYPE_CHECKING:
    from pruner.table import Table

TABLE_KEYS = (
    "uri",
    "index_uri",
    "storage_options",
    "aliases",
    "max_staleness",
    "files",
    "feed",
    "confirm_after",
    "index_memory",
    "hudi_indexes",
    "file_filters",
    "vend_credentials",
)
"""Keys of a `[tables.<name>]` section."""

IMMUTABLE = "immutable"
"""Value of `files`: a promise that no file of the table ever changes in place."""


class ConfigError(PrunerError):
    """A configuration file that cannot be read, or an invalid key or value in it."""


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Where a table is and how to open it.

    `name` is None for a table that was given by its location. `max_staleness` is in seconds, `index_memory` in bytes.
    `files` is `IMMUTABLE` if the user promises that, else None. `feed` is the location of a change feed,
    `confirm_after` for how many seconds listings may rely on it alone. `hudi_indexes` says whether Hudi's own indexes
    are used, `file_filters` whether the Bloom filters in Parquet files are. `vend_credentials` says whether clients of
    the service's catalog get the storage options, which are left out of the repr because they can contain secrets.
    """

    uris: tuple[str, ...]
    name: str | None = None
    index_uri: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    aliases: tuple[str, ...] = ()
    max_staleness: float = 0.0
    files: str | None = None
    feed: str | None = None
    confirm_after: float = FEED_CONFIRM_SECONDS
    index_memory: int = INDEX_MEMORY
    hudi_indexes: bool = True
    file_filters: bool = True
    vend_credentials: bool = False

    def open(self) -> Table:
        """Open the table: see `pruner.open_table`."""
        from pruner.opening import open_places

        return open_places(
            self.uris[0] if len(self.uris) == 1 else self.uris,
            storage_options=self.storage_options,
            index_uri=self.index_uri,
            max_staleness=self.max_staleness,
            files=self.files,
            feed=self.feed,
            confirm_after=self.confirm_after,
            index_memory=self.index_memory,
            hudi_indexes=self.hudi_indexes,
            file_filters=self.file_filters,
        )

    def in_store(self) -> tuple[str, ...]:
        """Return the locations from which an engine opens the table: for one in a catalog, the newest metadata file.

        Raises:
            TableError: the catalog has no such table.
            StorageError: the catalog cannot be reached.
        """
        from pruner.opening import newest_metadata_of

        return tuple(newest_metadata_of(uri, self.storage_options) or uri for uri in self.uris)

    def defines_indexes(self) -> bool:
        """Tell whether there is an index, even over a table that cannot be opened: see `pruner.opening`."""
        from pruner.opening import defines_indexes

        return defines_indexes(self.uris[0], storage_options=self.storage_options, index_uri=self.index_uri)


@dataclass(frozen=True, slots=True)
class Overrides:
    """Options of a table from a program or a command line; they take precedence over the file."""

    index_uri: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def at(self, uris: tuple[str, ...]) -> TableSettings:
        """Return how to open the table at these locations, which the file does not configure."""
        return TableSettings(uris=uris, index_uri=self.index_uri, storage_options=self.storage_options)


NO_OVERRIDES = Overrides()


def settings_of(entry: Mapping[str, Any], where: str) -> TableSettings:
    """Make settings from a table's options, from the file or from a program.

    Args:
        entry: the options by the keys in `TABLE_KEYS`.
        where: what they belong to, for errors.

    Raises:
        ConfigError: a key is unknown or `uri` is missing, or a value is of the wrong kind.

    """
    for key in entry:
        if key not in TABLE_KEYS:
            raise ConfigError(f"{where}: unknown key {key!r}{_suggest(key)}")
    uris = _strings(entry.get("uri", ()), f"{where}.uri")
    if not uris:
        raise ConfigError(f'{where}: the key "uri" is missing: give the location of the table')
    index_uri, feed = entry.get("index_uri"), entry.get("feed")
    return TableSettings(
        uris=uris,
        index_uri=None if index_uri is None else _string(index_uri, f"{where}.index_uri"),
        storage_options=_storage_options(entry.get("storage_options", {}), f"{where}.storage_options"),
        aliases=_strings(entry.get("aliases", ()), f"{where}.aliases"),
        max_staleness=checked_seconds(entry.get("max_staleness", 0), f"{where}.max_staleness"),
        files=checked_files(entry.get("files"), f"{where}.files"),
        feed=None if feed is None else _string(feed, f"{where}.feed"),
        confirm_after=checked_seconds(
            entry.get("confirm_after", FEED_CONFIRM_SECONDS), f"{where}.confirm_after"
        ),
        index_memory=_bytes(entry.get("index_memory", INDEX_MEMORY), f"{where}.index_memory"),
        hudi_indexes=_flag(entry.get("hudi_indexes", True), f"{where}.hudi_indexes"),
        file_filters=_flag(entry.get("file_filters", True), f"{where}.file_filters"),
        vend_credentials=_flag(entry.get("vend_credentials", False), f"{where}.vend_credentials"),
    )


def _storage_options(value: object, where: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for key, option in mapping(value, where).items():
        if isinstance(option, bool):
            options[key] = "true" if option else "false"
        elif isinstance(option, (str, int, float)):
            options[key] = str(option)
        else:
            raise ConfigError(f"{where}.{key} must be a string, a number, or true or false")
    return options


def mapping(value: object, where: str) -> Mapping[str, Any]:
    """Return a section of keys and values.

    Raises:
        ConfigError: it is not one.
    """
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} must be a table of keys and values")
    return cast("Mapping[str, Any]", value)


def _string(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{where} must be a string that is not empty")
    return value


def _strings(value: object, where: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (_string(value, where),)
    if not isinstance(value, Sequence):
        raise ConfigError(f"{where} must be a string or a list of strings")
    return tuple(_string(entry, where) for entry in cast("Sequence[object]", value))


def checked_seconds(value: object, where: str) -> float:
    """Return an age in seconds.

    Raises:
        ConfigError: it is not a finite number of 0 or more.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise ConfigError(f"{where} must be a number of seconds, 0 or more")
    return float(value)


def checked_files(value: object, where: str) -> str | None:
    """Return the checked value of `files`.

    Raises:
        ConfigError: it is neither `IMMUTABLE` nor None.
    """
    if value is None or value == IMMUTABLE:
        return cast("str | None", value)
    raise ConfigError(
        f'{where} must be "{IMMUTABLE}" (no file ever changes in place) or be left out, not {value!r}'
    )


def _bytes(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{where} must be a whole number of bytes, 0 or more")
    return value


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{where} must be true or false")
    return value


def _suggest(key: str) -> str:
    close = difflib.get_close_matches(key, TABLE_KEYS, n=1)
    return f": did you mean {close[0]!r}?" if close else f"; the keys of a table are {', '.join(TABLE_KEYS)}"
