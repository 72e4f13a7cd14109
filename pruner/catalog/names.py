"""Tables by name: those that a program passes in, those of the configuration, and any location."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from pruner.catalog.config import Config, load
from pruner.catalog.settings import (
    NO_OVERRIDES,
    ConfigError,
    Overrides,
    TableSettings,
    checked_files,
    checked_seconds,
    settings_of,
)
from pruner.errors import TableError
from pruner.tables.parquet.other_files import other_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from pruner.table import Table

# Globs instead of tables: what users write for a folder of files.
#
# A table is a folder with all of its files. So a glob stands for a table if it matches all of them. One that matches
# only some is refused, because an index and a plan are always about a whole table; so is one that matches other files.

_SIGN = re.compile(r"[*?\[]")


def folder_of(place: str) -> str | None:
    """The folder below which a glob matches files; None if it is not a glob."""
    sign = _SIGN.search(place)
    if sign is None:
        return None
    folder, slash, _ = place[: sign.start()].rpartition("/")
    return folder or slash or "."


def require_all(table: Table, folder: str, glob: str) -> None:
    """Refuse a glob that matches other files than those of the table in its folder, for which it must stand.

    Raises:
        TableError: it does.
    """
    pattern = glob.removeprefix(folder).strip("/").split("/")
    root = table.uri.rstrip("/") + "/"
    files = [slice_.base_file for slice_ in table.snapshot().slices if slice_.base_file is not None]
    taken = sum(_takes(pattern, file.removeprefix(root).split("/")) for file in files)
    if taken < len(files):
        raise TableError(
            f"the glob {glob} matches {taken:,} of the {len(files):,} files of {folder}, but a table has all of them: "
            "name the folder instead, and select files by a condition"
        )
    if table.format == "parquet":
        hidden = other_files([table.uri], table.storage_options, frozenset(files)).hidden
        beside = [file for file in hidden if _takes(pattern, file.removeprefix(root).split("/"))]
        if beside:
            raise TableError(
                f"the glob {glob} matches {beside[0]}, which does not belong to the table because a name in its path "
                "begins with _ or .: name the folder instead, or rename the file"
            )


def _takes(pattern: list[str], path: list[str]) -> bool:
    """Tell whether a glob matches a file, both split into parts; `**` stands for any number of folders."""
    if not pattern or not path:
        return not pattern and not path
    if pattern[0] == "**":
        rest = pattern[1:] or ["*"]
        return any(_takes(rest, path[start:]) for start in range(len(path)))
    return fnmatchcase(path[0], pattern[0]) and _takes(pattern[1:], path[1:])


TableLike: TypeAlias = Union["Table", str, "os.PathLike[str]", "Sequence[str]", "Mapping[str, Any]"]
"""An open table, its location or locations, or its options (the keys of docs/configuration.md)."""


def settings_given(  # noqa: PLR0913 - one parameter for each key of a table
    uri: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    storage_options: Mapping[str, str] | None = None,
    index_uri: str | None = None,
    max_staleness: float | None = None,
    files: str | None = None,
    feed: str | None = None,
    confirm_after: float | None = None,
    index_memory: int | None = None,
    hudi_indexes: bool | None = None,
    file_filters: bool | None = None,
) -> TableSettings:
    """Return how to open a table that a program gives by name or by location(s); see `open_table`.

    Raises:
        TableError: it is neither a known name nor a location.
        ConfigError: its configuration is wrong.
    """
    overrides = Overrides(index_uri, dict(storage_options or {}))
    if isinstance(uri, (str, os.PathLike)):
        settings = load().resolve(os.fspath(uri), overrides)
    else:
        uris = _places(uri)
        settings = load().find_at(uris, overrides) or overrides.at(uris)
    if files is not None:
        settings = replace(settings, files=checked_files(files, "files"))
    if feed is not None:
        settings = replace(settings, feed=feed)
    if confirm_after is not None:
        settings = replace(settings, confirm_after=checked_seconds(confirm_after, "confirm_after"))
    if max_staleness is not None:
        settings = replace(settings, max_staleness=checked_seconds(max_staleness, "max_staleness"))
    if hudi_indexes is not None:
        settings = replace(settings, hudi_indexes=hudi_indexes)
    if file_filters is not None:
        settings = replace(settings, file_filters=file_filters)
    return settings if index_memory is None else replace(settings, index_memory=index_memory)


def _places(uris: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    try:
        return tuple(os.fspath(uri) for uri in uris)
    except TypeError:
        raise TableError(
            f"a table is given as a path, a URI, a name or a list of locations, not as {uris!r}"
        ) from None


def open_table(  # noqa: PLR0913 - one parameter for each key of a table
    uri: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    storage_options: Mapping[str, str] | None = None,
    index_uri: str | None = None,
    max_staleness: float | None = None,
    files: str | None = None,
    feed: str | None = None,
    confirm_after: float | None = None,
    index_memory: int | None = None,
    hudi_indexes: bool | None = None,
    file_filters: bool | None = None,
) -> Table:
    """Open a Parquet, Delta, Iceberg or Hudi table; the format is detected.

    Options that are not given are taken from `pruner.toml` (docs/configuration.md) if it names the table.

    Args:
        uri: path or URI of the table's root, a glob that matches all of its files, several roots of one Parquet
            table, a name in `pruner.toml`, or `iceberg://catalog/namespace/table` (docs/iceberg.md).
        storage_options: options of the store (keys as `obstore` knows them).
        index_uri: location of the metadata table; by default `<first root>.pruner`.
        max_staleness: age in seconds up to which a listing of the table may be reused; with 0, the default, each plan
            checks the table. Above 0, rows written since the listing may be missing (docs/configuration.md).
        files: "immutable" promises that no file of the table ever changes in place: a check then only asks about each
            folder (docs/guarantee.md). Hudi always keeps that promise.
        feed: location of a change feed, which promises to name every file that is added, removed or changed: a check
            then asks about those alone (docs/feed.md). What it does not name may be missing until the next full
            listing.
        confirm_after: seconds after which a full listing confirms the feed; 600 by default.
        index_memory: most bytes of index records that are held in memory, and that are read from one index for one
            predicate; 256 MiB by default (docs/bitmap.md).
        hudi_indexes: False ignores the indexes of Hudi's own metadata table (docs/hudi-indexes.md).
        file_filters: False ignores the Bloom filters in Parquet files (docs/bloom_filter.md).

    Raises:
        TableError: there is no such name or path, it is not a table, or its format is not supported.
        StorageError: the store refuses to be read.
        ConfigError: `pruner.toml` is wrong.
    """
    settings = partial(
        settings_given,
        storage_options=storage_options,
        index_uri=index_uri,
        max_staleness=max_staleness,
        files=files,
        feed=feed,
        confirm_after=confirm_after,
        index_memory=index_memory,
        hudi_indexes=hudi_indexes,
        file_filters=file_filters,
    )
    return _opened(os.fspath(uri), settings) if isinstance(uri, (str, os.PathLike)) else settings(uri).open()


def settings_in_place(
    place: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], **given: Any
) -> TableSettings:
    """Return what `settings_given` does; for a glob, the settings of the folder all of whose files it matches.

    Raises:
        TableError: there is no such name or path, or the glob leaves out files of its folder.
        ConfigError: `pruner.toml` is wrong.
    """
    settings = partial(settings_given, **given)
    first = settings(place)
    if not isinstance(place, (str, os.PathLike)) or all(folder_of(uri) is None for uri in first.uris):
        return first
    return _found(os.fspath(place), settings)[0]


def _opened(place: str, settings: Callable[[str], TableSettings]) -> Table:
    """Open a name or a location: a folder, or a glob that matches all files of one; see `pruner.catalog.names`."""
    return _found(place, settings)[1]


def _found(place: str, settings: Callable[[str], TableSettings]) -> tuple[TableSettings, Table]:
    given = settings(place)
    try:
        return given, given.open()
    except TableError:
        # Folder names may contain glob characters, so it is a glob only if it is not a folder.
        glob = given.uris[0] if given.name is not None and len(given.uris) == 1 else place
        folder = folder_of(glob)
        if folder is None:
            raise
    # The settings of the folder in pruner.toml also apply to its glob.
    of_folder = settings(folder) if given.name is None else replace(given, uris=(folder,))
    table = of_folder.open()
    require_all(table, folder, glob)
    return of_folder, table


def open_given(value: TableLike, where: str) -> Table:
    """Open what a program passed in as a table.

    Args:
        value: a table, a path, URI or name in `pruner.toml`, several locations, or a mapping of options.
        where: what the program calls it, for errors.

    Raises:
        ConfigError: an option is unknown or of the wrong kind.
        TableError: there is no table at that location.

    """
    match value:
        case str() | os.PathLike():
            return open_table(value)
        case Mapping():
            options = settings_of(value, where)
            return open_table(
                options.uris[0] if len(options.uris) == 1 else options.uris,
                storage_options=options.storage_options,
                index_uri=options.index_uri,
                max_staleness=options.max_staleness if "max_staleness" in value else None,
                files=options.files,
                feed=options.feed,
                confirm_after=options.confirm_after if "confirm_after" in value else None,
                index_memory=options.index_memory if "index_memory" in value else None,
                hudi_indexes=options.hudi_indexes if "hudi_indexes" in value else None,
                file_filters=options.file_filters if "file_filters" in value else None,
            )
        case Sequence():
            return open_table(value)
        case _:
            return value


class Catalog:
    """Finds and opens tables by name, each once; `tables` take precedence over the configuration's.

    `overrides` apply to the tables of the configuration and to bare locations, and take precedence over the
    configuration.
    """

    def __init__(
        self,
        tables: Mapping[str, TableLike] | None = None,
        config: Config | None = None,
        overrides: Overrides = NO_OVERRIDES,
    ) -> None:
        self._given: dict[str, tuple[str, TableLike]] = {}
        for name, value in (tables or {}).items():
            if name.casefold() in self._given:
                raise ConfigError(f"the table {name!r} is given twice: names are case-insensitive")
            self._given[name.casefold()] = (name, value)
        self._config = load() if config is None else config
        self._overrides = overrides
        self._opened: dict[str, Table] = {}

    def with_config(self, config: Config) -> Catalog:
        """A catalog of another configuration; tables stay open whose settings differ in nothing but aliases."""
        catalog = Catalog({}, config, self._overrides)
        catalog._given = self._given
        catalog._opened = {
            key: table
            for key, table in dict(self._opened).items()
            if key in self._given or self._same(config, key)
        }
        return catalog

    def is_open(self, name: str) -> bool:
        """Whether the table of that name is already open."""
        return name in self._opened or name.casefold() in self._opened

    def _same(self, config: Config, key: str) -> bool:
        try:
            before, after = (each.find(key, self._overrides) for each in (self._config, config))
        except ConfigError:
            return False  # a variable is not set
        return (
            before is not None
            and after is not None
            and replace(before, aliases=()) == replace(after, aliases=())
        )

    def names(self, *, aliases: bool = False) -> tuple[str, ...]:
        """The names of all known tables, with aliases on request."""
        given = tuple(name for name, _ in self._given.values())
        configured = self._config.names(aliases=aliases)
        return given + tuple(name for name in configured if name.casefold() not in self._given)

    def own_name(self, name: str) -> str:
        """The name of the table with this name or alias, the same for all of its aliases."""
        return name if name.casefold() in self._given else self._config.own_name(name)

    def open(self, name: str) -> Table:
        """Open the table of that name, or at that location.

        Raises:
            TableError: it is neither a known name nor the location of a table.
            ConfigError: its configuration is wrong.

        """
        key = name.casefold()
        if key not in self._given:
            # Locations are case-sensitive; only names are folded.
            key = name
        if key not in self._opened:
            # Two threads may both open it; from then on they share one.
            self._opened.setdefault(key, self._open(key, name))
        return self._opened[key]

    def _open(self, key: str, name: str) -> Table:
        if key in self._given:
            return open_given(self._given[key][1], f"tables[{name!r}]")
        return self.at(name)

    def at(self, name: str) -> Table:
        """Open the table of that name in the configuration, or at that location: a folder, or a glob of all its files.

        Raises:
            TableError: there is no such table, or the glob leaves out files of its folder.
            ConfigError: its configuration is wrong.

        """
        return _opened(name, lambda place: self._config.resolve(place, self._overrides))
