"""Signs that files belong to a table of another format, and so are not all part of the data (rule R8).

A listing finds these signs in a root and below it. A root can also be inside such a table, which only the folders
above it show: the `data` folder of an Iceberg table holds the files of every snapshot that has not yet expired.
"""

from __future__ import annotations

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from pruner.errors import StorageError, TableError
from pruner.storage.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pruner.storage.store import Store

HUDI_PROPERTIES: Final = ".hoodie/hoodie.properties"
"""The file that marks a folder as a Hudi table."""

DELTA_LOG: Final = "_delta_log"
"""The folder that marks its parent as a Delta table."""

FOREIGN: Final = {
    ".hoodie": "a Hudi table",
    ".hoodie_partition_metadata": "a partition of a Hudi table",
    DELTA_LOG: "a Delta table",
    "_spark_metadata": "the output of a Spark streaming query",
}
"""Names that show that not every Parquet file beside them is part of the data, and what they are a sign of."""

TELLING_FOLDERS: Final = ("metadata", "schema", "snapshot")
"""Folders whose content can show it: those of Iceberg and Paimon. Users also have folders with these names."""

MOST_ABOVE: Final = 32
"""Maximum number of folders above a root that are checked, the nearest first."""

_ADVICE: Final = {
    "Hudi": "open that table by its own root",
    "Delta": "open that table by its own root",
    "Iceberg": "open that table by its own root",
    "Paimon": "read it with an engine that knows Paimon tables, which pruner does not",
    "Hive ACID": "read it with Hive or Trino, because pruner does not read Hive ACID tables",
    "Spark": "read it with Spark, which follows the log of that query",
}
_FORMAT_OF: Final = {
    ".hoodie": "Hudi",
    ".hoodie_partition_metadata": "Hudi",
    DELTA_LOG: "Delta",
    "_spark_metadata": "Spark",
}
_ICEBERG_SIGN: Final = "metadata/*.metadata.json"
_PAIMON_SIGN: Final = "snapshot/snapshot-*"

_ICEBERG_ENDINGS: Final = (".metadata.json", ".metadata.json.gz")
_ICEBERG_HINT: Final = "version-hint.text"
_PAIMON_SCHEMA: Final = re.compile(r"schema-\d+")
_PAIMON_SNAPSHOT: Final = re.compile(r"snapshot-\d+|LATEST|EARLIEST")
_PAIMON_BUCKET: Final = re.compile(r"bucket-(\d+|postpone)")

_ACID: Final = re.compile(r"(base_\d+|(delete_)?delta_\d+_\d+(_\d+)?)(_v\d+)?")
_ACID_BEGINS: Final = ("base_", "delta_", "delete_delta_")
_ACID_UNION: Final = re.compile(r"HIVE_UNION_SUBDIR_\d+")
"""Names of the folders that each hold one write to a Hive ACID table, and of folders below them."""

_ABOVE: Final = (".hoodie", DELTA_LOG, "_spark_metadata", *TELLING_FOLDERS)
"""Names whose appearance in a local folder shows that it must be checked again."""

_GRANULARITY_NS: Final = 2_000_000_000
"""How long a change of a folder may not show in its times: some file systems have a resolution of two seconds."""

_FIRST_PAGE: Final = 1000
"""Objects that a store lists in one request."""

_THREADS: Final = 32


def is_of_acid(folder: str) -> bool:
    """Tell whether a folder's name shows that it holds a write to a Hive ACID table."""
    return folder.startswith(_ACID_BEGINS) and _ACID.fullmatch(folder) is not None


def may_show_format(name: str) -> bool:
    """Tell whether a file or folder of that name may show that its surroundings are another format's."""
    return name in FOREIGN or name in TELLING_FOLDERS or is_of_acid(name)


def refuse_folder(root: str, prefix: str, name: str) -> None:
    """Refuse a listing with a folder of a Hive ACID table, whose rows later ones may have deleted.

    Args:
        root: what is listed.
        prefix: the folder below it, with a trailing slash, or "".
        name: the folder in that folder.

    Raises:
        TableError: it is such a folder.
    """
    if is_of_acid(name):
        raise _refusal(root, prefix, "a folder of a Hive ACID table", name, "Hive ACID")


def refuse_name(root: str, prefix: str, name: str) -> None:
    """Refuse a listing with a name of another format.

    Args:
        root: what is listed.
        prefix: the folder below it, with a trailing slash, or "".
        name: the entry in that folder.

    Raises:
        TableError: the folder is another format's.
    """
    if name in FOREIGN:
        raise _refusal(root, prefix, FOREIGN[name], name, _FORMAT_OF[name])


def refuse_content(root: str, prefix: str, names_in: Callable[[str], Iterable[str]]) -> None:
    """Refuse a listing in which a folder's subfolders show that it is another format's.

    Args:
        root: what is listed.
        prefix: the folder below it, with a trailing slash, or "".
        names_in: returns the names in one of its subfolders, none where there is no such subfolder.

    Raises:
        TableError: the folder is an Iceberg or a Paimon table.
    """
    if any(map(is_of_iceberg, names_in("metadata"))):
        raise _refusal(root, prefix, "an Iceberg table", _ICEBERG_SIGN, "Iceberg")
    if any(map(_PAIMON_SCHEMA.fullmatch, names_in("schema"))) and any(
        map(_PAIMON_SNAPSHOT.fullmatch, names_in("snapshot"))
    ):
        raise _refusal(root, prefix, "a Paimon table", _PAIMON_SIGN, "Paimon")


def is_of_iceberg(name: str) -> bool:
    """Tell whether a file in a folder `metadata` shows that the folder is Iceberg's."""
    return name.endswith(_ICEBERG_ENDINGS) or name == _ICEBERG_HINT


class SeenNames:
    """The signs of Iceberg and Paimon in a listing of objects, which arrive one by one."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._names: dict[str, dict[str, list[str]]] = {}

    def note(self, parts: Sequence[str]) -> None:
        """Check the path of an object.

        Raises:
            TableError: together with earlier paths it shows an Iceberg or a Paimon table.
        """
        if len(parts) < 2 or parts[-2] not in TELLING_FOLDERS:
            return
        name = parts[-1]
        if not (is_of_iceberg(name) or _PAIMON_SCHEMA.fullmatch(name) or _PAIMON_SNAPSHOT.fullmatch(name)):
            return
        prefix = "".join(f"{part}/" for part in parts[:-2])
        names = self._names.setdefault(prefix, {})
        names.setdefault(parts[-2], []).append(name)
        refuse_content(self._root, prefix, lambda folder: names.get(folder, ()))


def _refusal(root: str, prefix: str, what: str, sign: str, format_: str) -> TableError:
    where = f"{root}/{prefix}".rstrip("/")
    advice = _ADVICE[format_]
    return TableError(
        f"{where} is {what} ({sign} is there), whose files are not all part of the data: {advice}"
    )


class _Place(NamedTuple):
    """A folder above a root: its path, and the names of the folders that lead from it to a data file."""

    path: str
    way: tuple[str, ...]


class Above:
    """The folders above the roots of a table, any of which can turn out to be, or become, one of another format.

    Attributes:
        signs: local paths whose appearance or removal shows that another check is due.
    """

    def __init__(self, roots: Sequence[str], storage_options: Mapping[str, str]) -> None:
        """Read nothing yet."""
        self._files = dict[str, str | None].fromkeys(roots)
        self._options = storage_options
        self._due = False
        local = [root for root in roots if root.startswith("/")]
        self._folders = list({place.path: None for root in local for place in places_above(root, None)})
        self.signs = [f"{folder.rstrip('/')}/{sign}" for folder in self._folders for sign in _ABOVE]
        self._there: list[str] = []
        self._stamps: list[tuple[int, int]] = []
        self._since = 0
        self._settled = False

    def check(self, files: Mapping[str, str]) -> None:
        """Check them all.

        Args:
            files: the path of a data file below some of the roots.

        Raises:
            TableError: a root is inside another format's table.
        """
        self._files.update(files)
        there = self._signs_there()
        check_above(self._files, self._options)
        self._there, self._due = there, False

    def confirm(self) -> None:
        """Make the next `look` check them all."""
        self._due = True

    def look(self, *, changed: bool) -> None:
        """Check local folders for new signs, and all of them where that is due.

        In a store each sign is a request, so its folders are checked again only when a table is refreshed.

        Args:
            changed: the files below the roots are not those of the last listing.

        Raises:
            TableError: a root is inside another format's table.
        """
        if self._due or (self._folders and (changed or self._has_new_signs())):
            self.check({})

    def _has_new_signs(self) -> bool:
        """Compare the signs, unless a `stat` of each folder shows that nothing was added or removed."""
        now, stamps = time.monotonic_ns(), list(map(_stamp, self._folders))
        if stamps != self._stamps:
            self._stamps, self._since, self._settled = stamps, now, False
        elif self._settled:
            return False
        # A change within the granularity of the file system's clock may not show in the stamp.
        self._settled = now - self._since > _GRANULARITY_NS
        return self._there != self._signs_there()

    def _signs_there(self) -> list[str]:
        return list(filter(os.path.lexists, self.signs))


def check_above(roots: Mapping[str, str | None], storage_options: Mapping[str, str] | None = None) -> None:
    """Refuse roots inside a table of Hudi, Delta, Iceberg, Paimon or Hive (ACID), or a streaming query's output.

    A user without permission to read above a root is not warned. All requests to a store run concurrently.

    Args:
        roots: each with the path of one of its data files relative to it, where one is known: "" for a file itself.
        storage_options: options of the object store.

    Raises:
        TableError: one of them is.
    """
    asked: list[tuple[str, str, str]] = []
    for root, file in roots.items():
        _check_acid(root, file)
        for place in places_above(root, file):
            if ".hoodie" in (root.rsplit("/", 1)[-1], place.path.rsplit("/", 1)[-1]):
                raise TableError(f"{root} is internal to a Hudi table: open the table's root instead")
            asked += [(root, place.path, format_) for format_, fits in _MAY_HOLD.items() if fits(place.way)]
    questions = list(dict.fromkeys((path, format_) for _, path, format_ in asked))
    answers = dict(zip(questions, _answers(questions, storage_options), strict=True))
    for root, path, format_ in asked:
        if answers[path, format_]:
            raise _inside(root, roots[root], path, format_)


def _check_acid(root: str, file: str | None) -> None:
    """Refuse a root inside a Hive ACID table, which its folder names show: no data is deeper inside them."""
    for spelled in _spellings(root):
        parts = spelled.split("/")[: -1 if file == "" else None]
        if len(parts) > 1 and _ACID_UNION.fullmatch(parts[-1]):
            parts.pop()
        if is_of_acid(parts[-1]) and _above(spelled):
            table = "/".join(parts[:-1])
            raise _inside(root, file, table, "Hive ACID")


def _inside(root: str, file: str | None, parent: str, format_: str) -> TableError:
    kind = "file" if file == "" else "folder"
    if format_ == "Hudi":
        return TableError(f"{root} is a {kind} inside the Hudi table {parent}: open the table's root instead")
    what = "the output of a Spark streaming query," if format_ == "Spark" else f"the {format_} table"
    return TableError(
        f"{root} is a {kind} inside {what} {parent}, whose files are not all part of the data: {_ADVICE[format_]}"
    )


def _answers(questions: list[tuple[str, str]], options: Mapping[str, str] | None) -> list[bool]:
    stores = {path: open_store(path, options) for path in dict.fromkeys(path for path, _ in questions)}

    def ask(question: tuple[str, str]) -> bool:
        path, format_ = question
        try:
            return _SHOWS[format_](stores[path])
        except (StorageError, OSError):
            return False

    if not questions or all(path.startswith("/") for path, _ in questions):
        return list(map(ask, questions))
    with ThreadPoolExecutor(min(_THREADS, len(questions))) as threads:
        return list(threads.map(ask, questions))


def places_above(root: str, file: str | None) -> list[_Place]:
    """Return the folders above a root, nearest first, up to the bucket or the file system's root.

    Args:
        root: normalized by `normalize_uri`; links on the path of a local one are followed as well.
        file: path of a data file relative to the root, "" where the root is one.
    """
    places: dict[str, _Place] = {}
    for spelled in _spellings(root):
        above = _above(spelled)
        way = tuple((file or "").split("/")[:-1])
        for parent in above[:MOST_ABOVE]:
            if file != "" or parent != above[0]:
                way = (spelled[len(parent.rstrip("/")) + 1 :].split("/")[0], *way)
            places.setdefault(parent, _Place(parent, way))
    return list(places.values())


def _spellings(root: str) -> tuple[str, ...]:
    """A root as given, and with links resolved."""
    return tuple(dict.fromkeys((root, os.path.realpath(root)))) if root.startswith("/") else (root,)


def _above(root: str) -> list[str]:
    floor = "" if root.startswith("/") else "/".join(root.split("/", 3)[:3])
    above: list[str] = []
    while len(root) > len(floor) and "/" in root[len(floor) :]:
        root = root.rsplit("/", 1)[0]
        above.append(root or "/")
    return above


def _holds_hudi(store: Store) -> bool:
    return store.exists(HUDI_PROPERTIES)


def _holds_delta(store: Store) -> bool:
    return _has_folder(store, DELTA_LOG)


def _holds_sink(store: Store) -> bool:
    return _has_folder(store, "_spark_metadata")


def _holds_iceberg(store: Store) -> bool:
    names = _names(store, "metadata")
    if any(map(is_of_iceberg, names)):
        return True
    # After a first page of manifests, only a table that tracks its own versions still has the sign, and a hint.
    return len(names) >= _FIRST_PAGE and store.exists(f"metadata/{_ICEBERG_HINT}")


def _holds_paimon(store: Store) -> bool:
    return any(map(_PAIMON_SCHEMA.fullmatch, _names(store, "schema"))) and any(
        map(_PAIMON_SNAPSHOT.fullmatch, _names(store, "snapshot"))
    )


_SHOWS: Final[Mapping[str, Callable[[Store], bool]]] = {
    "Hudi": _holds_hudi,
    "Delta": _holds_delta,
    "Iceberg": _holds_iceberg,
    "Paimon": _holds_paimon,
    "Spark": _holds_sink,
}


def _always(_: Sequence[str]) -> bool:
    return True


def _is_partition(way: Sequence[str]) -> bool:
    return all("=" in name for name in way)


def _is_bucket(way: Sequence[str]) -> bool:
    return any(map(_PAIMON_BUCKET.fullmatch, way))


_MAY_HOLD: Final[Mapping[str, Callable[[Sequence[str]], bool]]] = {
    "Hudi": _always,
    "Delta": _always,
    "Iceberg": _always,
    # Every file of a Paimon table is in a bucket folder, every file of a streaming query in a partition folder.
    "Paimon": _is_bucket,
    "Spark": _is_partition,
}
"""Whether a table of a format can have a data file with this folder path below its root.

Impossible formats are not checked: each check is a request to the store.
"""


def _stamp(folder: str) -> tuple[int, int]:
    """A value that changes when a folder's entries change; that of an unreadable folder always differs."""
    try:
        status = os.stat(folder)  # noqa: PTH116 - a Path costs more than the call
    except OSError:
        return (-1, time.monotonic_ns())
    return (status.st_ino, status.st_mtime_ns)


def _has_folder(store: Store, folder: str) -> bool:
    if store.uri.startswith("/"):
        return os.path.lexists(f"{store.uri}/{folder}")
    return next(iter(store.some(folder)), None) is not None


def _names(store: Store, folder: str) -> list[str]:
    """The names in a folder; in a store, those of the first page."""
    if store.uri.startswith("/"):
        return names_of_disk(f"{store.uri}/{folder}")
    names = islice(store.some(folder), _FIRST_PAGE)
    return [info.path.removeprefix(f"{folder}/").split("/", 1)[0] for info in names]


def names_of_disk(folder: str) -> list[str]:
    """The names in a folder of the local disk; none where there is no such folder."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - names are all it takes
    except (FileNotFoundError, NotADirectoryError):
        return []
