"""`pruner.toml`: tables by name, for the command line, `pruner.sql` and adapters (docs/configuration.md).

The file is the nearest one in the working directory or above it; `PRUNER_CONFIG` names another. Strings may contain
`${NAME}`, an environment variable; it is looked up when the table is used, so that one missing secret does not affect
the other tables. Secrets are never stored in the file itself.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pruner.catalog.settings import NO_OVERRIDES, ConfigError, Overrides, TableSettings, mapping, settings_of
from pruner.errors import PrunerError, TableError
from pruner.limits import CONFIG_BYTES
from pruner.storage.opening import normalize_uri

if TYPE_CHECKING:
    from collections.abc import Iterable


FILE_NAME = "pruner.toml"
"""Name of the file that is looked for."""

FILE_VARIABLE = "PRUNER_CONFIG"
"""Environment variable that names another file."""

_NAMED = 10
"""Most known tables that an error names."""

_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")
_ONLY_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_SECRET = re.compile(r"secret|token|passw|passphrase|key", re.IGNORECASE)
_NO_SECRET = re.compile(r"kms_key_id$|bucket_key_enabled$|public_key$", re.IGNORECASE)
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/|~")


class UnknownTableError(TableError):
    """A string that is neither the name of a table nor a location; `name` is the string."""

    def __init__(self, sentence: str, name: str) -> None:
        super().__init__(sentence)
        self.name = name


@dataclass(frozen=True)
class Config:
    """A configuration; `path` is None if there is no file. Variables in `tables` are not expanded yet."""

    path: Path | None = None
    tables: tuple[TableSettings, ...] = ()

    def names(self, *, aliases: bool = False) -> tuple[str, ...]:
        """The names of the tables in file order, with their aliases on request."""
        return tuple(
            name
            for table in self.tables
            for name in (table.name, *(table.aliases if aliases else ()))
            if name is not None
        )

    def find(self, name: str, overrides: Overrides = NO_OVERRIDES) -> TableSettings | None:
        """Return the table with this name or alias, case-insensitively, ready to be opened; None if there is none.

        Raises:
            ConfigError: a value of it that is not overridden names an environment variable that is not set.

        """
        table = self._named(name)
        return None if table is None else self._filled_in(table, overrides)

    def own_name(self, name: str) -> str:
        """Return the name of the table with this name or alias, or the given name if there is none."""
        table = self._named(name)
        return name if table is None or table.name is None else table.name

    def find_at(self, uris: Sequence[str], overrides: Overrides = NO_OVERRIDES) -> TableSettings | None:
        """Return the table at these locations, in any order and spelling; None if there is none.

        Raises:
            ConfigError: a value of it that is not overridden names an environment variable that is not set.

        """
        places = _normalized(uris)
        for table in self.tables:
            try:
                known = _normalized(self._places_of(table))
            except ConfigError:
                continue  # the location of this table depends on a variable that is not set
            if places is not None and places == known:
                return self._filled_in(table, overrides)
        return None

    def resolve(self, name_or_uri: str, overrides: Overrides = NO_OVERRIDES) -> TableSettings:
        """Return the table with this name or alias or, if there is none, at this URI or path.

        A location that the file configures is opened with its `index_uri` and options from there, unless they are
        overridden.

        Raises:
            ConfigError: a value of it that is not overridden names an environment variable that is not set.
            UnknownTableError: it is neither a known name nor a location.

        """
        settings = self.find(name_or_uri, overrides)
        if settings is not None:
            return settings
        if is_place(name_or_uri):
            return self.find_at((name_or_uri,), overrides) or overrides.at((name_or_uri,))
        close = difflib.get_close_matches(name_or_uri, self.names(aliases=True), n=1)
        asked = f"{name_or_uri!r} (did you mean {close[0]!r}?)" if close else repr(name_or_uri)
        raise UnknownTableError(
            f"unknown table {asked}: there is no such path, and {self._known_names()}{_of_a_catalog(name_or_uri)}",
            name_or_uri,
        )

    def _known_names(self) -> str:
        if self.path is None:
            return f"there is no {FILE_NAME} in this folder or above that could name it"
        known = self.names(aliases=True)
        more = f" and {len(known) - _NAMED:,} more" if len(known) > _NAMED else ""
        return f"{self.path} names {', '.join(known[:_NAMED]) or 'no table'}{more}"

    def _named(self, name: str) -> TableSettings | None:
        wanted = name.casefold()
        for table in self.tables:
            if wanted in {known.casefold() for known in (table.name or "", *table.aliases)}:
                return table
        return None

    @property
    def _folder(self) -> Path:
        return self.path.parent if self.path else Path()

    def _places_of(self, table: TableSettings) -> tuple[str, ...]:
        where = f"{self.path}: tables.{table.name}.uri"
        return tuple(_place(_fill_in(uri, where), self._folder) for uri in table.uris)

    def _filled_in(self, table: TableSettings, overrides: Overrides) -> TableSettings:
        where = f"{self.path}: tables.{table.name}"
        uris = self._places_of(table)
        index_uri = overrides.index_uri
        if index_uri is None and table.index_uri is not None:
            index_uri = _place(_fill_in(table.index_uri, f"{where}.index_uri"), self._folder)
        feed = None if table.feed is None else _place(_fill_in(table.feed, f"{where}.feed"), self._folder)
        configured = {
            key: _fill_in(value, f"{where}.storage_options.{key}")
            for key, value in table.storage_options.items()
            if key not in overrides.storage_options
        }
        return replace(
            table,
            uris=uris,
            index_uri=index_uri,
            feed=feed,
            storage_options={**configured, **overrides.storage_options},
        )


def load(path: str | os.PathLike[str] | None = None) -> Config:
    """Read the configuration.

    Args:
        path: the file; unless given, the one that `PRUNER_CONFIG` names, else the nearest `pruner.toml`.

    Returns:
        The configuration, empty if no file was named and none is found.

    Raises:
        ConfigError: the file cannot be read or is invalid.

    """
    named = path or os.environ.get(FILE_VARIABLE)
    chosen = Path(named).expanduser().absolute() if named else _nearest()
    if chosen is None:
        return Config()
    return Config(chosen, _tables(chosen, _read(chosen)))


def is_place(text: str) -> bool:
    """Tell whether a string is a URI or path rather than a name: it looks like one, or it exists."""
    return "/" in text or os.sep in text or text in (".", "..") or _exists(text)


def _normalized(uris: Sequence[str]) -> tuple[str, ...] | None:
    """The locations in normalized form; None if the kind of store is unknown."""
    try:
        return tuple(sorted(normalize_uri(uri) for uri in uris))
    except PrunerError:
        return None


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


def _nearest() -> Path | None:
    here = Path.cwd()
    return next((path for folder in (here, *here.parents) if (path := folder / FILE_NAME).is_file()), None)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(CONFIG_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
    if len(data) > CONFIG_BYTES:
        raise ConfigError(f"the configuration {path} is larger than {CONFIG_BYTES:,} bytes")
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8, as TOML has to be") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def _tables(path: Path, content: dict[str, Any]) -> tuple[TableSettings, ...]:
    for key in content:
        if key != "tables":
            raise ConfigError(f"{path}: unknown key {key!r}: tables belong in sections [tables.<name>]")
    sections = mapping(content.get("tables", {}), f"{path}: tables")
    tables: list[TableSettings] = []
    taken: dict[str, str] = {}
    for name, section in sections.items():
        where = f"{path}: tables.{name}"
        entry = mapping(section, where)
        _refuse_split_name(name, entry, where)
        _refuse_literal_secrets(entry.get("storage_options"), f"{where}.storage_options")
        table = replace(settings_of(entry, where), name=name)
        _claim((name, *table.aliases), name, taken, where)
        _refuse_shared_place(table, tables, where)
        tables.append(table)
    return tuple(tables)


def _refuse_split_name(name: str, entry: Mapping[str, Any], where: str) -> None:
    """Refuse `[tables.web.visits]`, which TOML parses as a key `visits` of a table `web`."""
    for key, value in entry.items():
        if "uri" not in entry and isinstance(value, dict) and "uri" in value:
            raise ConfigError(f'{where}: quote a name with dots in it: [tables."{name}.{key}"]')


def _refuse_shared_place(table: TableSettings, others: Iterable[TableSettings], where: str) -> None:
    """Refuse a metadata table shared by two tables: an index of one would be dropped under the other's name."""
    for other in others:
        if table.index_uri is not None and table.index_uri == other.index_uri and table.uris != other.uris:
            raise ConfigError(
                f"{where}.index_uri is already that of table {other.name!r}: give each table a location of its own"
            )


def _claim(names: Iterable[str], owner: str, taken: dict[str, str], where: str) -> None:
    for name in names:
        folded = name.casefold()
        if not folded.strip():
            raise ConfigError(f"{where}: a name or alias is empty")
        if folded in taken:
            raise ConfigError(f"{where}: the name {name!r} already belongs to table {taken[folded]!r}")
        taken[folded] = owner


def _refuse_literal_secrets(options: object, where: str) -> None:
    """Refuse secrets in the file; the message never shows the value."""
    if not isinstance(options, Mapping):
        return
    for key, value in cast("Mapping[str, object]", options).items():
        secret = _SECRET.search(key) and not _NO_SECRET.search(key)
        if secret and isinstance(value, str) and not _ONLY_VARIABLE.fullmatch(value):
            raise ConfigError(
                f"{where}.{key} looks like a secret: put it into an environment variable and write "
                f'{key} = "${{NAME_OF_THE_VARIABLE}}", or leave it out and use the store\'s own credentials'
            )


def _fill_in(text: str, where: str) -> str:
    """Replace `${NAME}` by the value of the environment variable; `$$` stands for one `$`."""

    def value(match: re.Match[str]) -> str:
        if match.group() == "$$":
            return "$"
        name = match.group(1)
        if name is None:
            raise ConfigError(
                f"{where}: '${{' must be followed by a variable's name and '}}'; write '$$' for '$'"
            )
        text = os.environ.get(name)
        if text is None:
            raise ConfigError(f"{where}: the environment variable {name} is not set")
        return text

    return _VARIABLE.sub(value, text)


def _place(text: str, folder: Path) -> str:
    """A URI or absolute path unchanged; a relative path resolved against the folder of the file."""
    return text if _ABSOLUTE.match(text) else os.path.normpath(folder / text)


def _of_a_catalog(name: str) -> str:
    """A hint on how to open a catalog table, for a name that looks like one."""
    namespace, dot, _ = name.rpartition(".")
    if not dot or not namespace.replace(".", "").replace("_", "").isalnum():
        return ""
    return f"; a table of an Iceberg catalog is iceberg://catalog/{name.replace('.', '/')}"
