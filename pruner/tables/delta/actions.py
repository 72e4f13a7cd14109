"""The actions of Delta's log that define a table, as its JSON files store them.

A reader ignores unknown fields and actions; the protocol decides whether it may read the table at all
(`Protocol.check`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec

from pruner.errors import StorageError, TableError
from pruner.storage.opening import normalize_uri

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

COLUMN_MAPPING: Final = "columnMapping"

_WIDENING: Final = ("typeWidening", "typeWidening-preview")

_READER_FEATURES: Final = frozenset(
    {
        COLUMN_MAPPING,
        "deletionVectors",
        "timestampNtz",
        *_WIDENING,
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Reader features that this reader supports. Writer features do not affect it."""

_MANAGED: Final = frozenset({"catalogManaged", "catalogOwned", "catalogOwned-preview"})
"""Features with which a catalog, not the log, determines which commits exist."""

_URI: Final = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")

_WITH_MAPPING: Final = 2
_WITH_FEATURES: Final = 3

_GENERATED: Final = "generatedColumns"
_WRITERS_GENERATE: Final = 4
_WRITERS_WITH_FEATURES: Final = 7


class DeletionVector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where the positions of a file's deleted rows are stored.

    `storage_type` is `u` for a file below the table root named by a UUID, `p` for a file with an absolute path, and `i`
    for positions inline in the log.
    """

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None

    @property
    def id(self) -> str:
        """Its unique id, the same as Delta's own readers use in log replay."""
        place = f"{self.storage_type}{self.path_or_inline_dv}"
        return place if self.offset is None else f"{place}@{self.offset}"


class Add(msgspec.Struct, gc=False, rename="camel"):
    """A file that belongs to the table from this commit on."""

    path: str
    partition_values: dict[str, str | None]
    size: int
    stats: str | None = None
    deletion_vector: DeletionVector | None = None


class Remove(msgspec.Struct, gc=False, rename="camel"):
    """A file that no longer belongs to the table."""

    path: str
    deletion_vector: DeletionVector | None = None


class Protocol(msgspec.Struct, frozen=True, rename="camel"):
    """What a reader must support to read the table, and what it may expect of writers."""

    min_reader_version: int
    reader_features: tuple[str, ...] | None = None
    min_writer_version: int = 0
    writer_features: tuple[str, ...] | None = None

    @property
    def maps_columns(self) -> bool:
        """Whether columns may have different names in the files."""
        if self.min_reader_version == _WITH_FEATURES:
            return COLUMN_MAPPING in (self.reader_features or ())
        return self.min_reader_version >= _WITH_MAPPING

    @property
    def widens_types(self) -> bool:
        """Whether files may have columns of narrower types than the table's."""
        return any(name in _WIDENING for name in self.reader_features or ())

    @property
    def generates_columns(self) -> bool:
        """Whether every writer must compute the values of generated columns from their expressions."""
        if self.min_writer_version == _WRITERS_WITH_FEATURES:
            return _GENERATED in (self.writer_features or ())
        return _WRITERS_GENERATE <= self.min_writer_version < _WRITERS_WITH_FEATURES

    def check(self, root: str) -> None:
        """Refuse a table that this reader cannot read.

        Raises:
            TableError: it names the unknown feature (rule R8).
        """
        if self.min_reader_version > _WITH_FEATURES:
            raise TableError(
                f"{root} is a Delta table for readers of version {self.min_reader_version}: this reader knows up to "
                f"{_WITH_FEATURES}"
            )
        features = self.reader_features
        if (features is None) if self.min_reader_version == _WITH_FEATURES else features:
            raise TableError(
                f"the log of {root} has a protocol for readers of version {self.min_reader_version} "
                f"{'without' if features is None else 'with'} readerFeatures, so that it is not known what the table "
                "asks of a reader: restore the log"
            )
        unknown = sorted(set(features or ()) - _READER_FEATURES)
        managed = [name for name in unknown if name in _MANAGED]
        if managed:
            raise TableError(
                f"{root} uses Delta's table feature {managed[0]}, with which a catalog says what was committed: read "
                "the table by that catalog"
            )
        if unknown:
            names = ", ".join(unknown)
            noun = "feature" if len(unknown) == 1 else "features"
            raise TableError(
                f"{root} uses Delta's table {noun} {names}, which this reader does not know: read it with an engine "
                "that does"
            )


class Format(msgspec.Struct, frozen=True):
    """The format of the data files."""

    provider: str = "parquet"


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """The table's schema, partitioning and settings."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: dict[str, str | None] = {}
    format: Format = Format()
    name: str | None = None

    def setting(self, name: str) -> str:
        """The value of a setting, "" where it is not set."""
        return self.configuration.get(name) or ""


class CommitInfo(msgspec.Struct, frozen=True, rename="camel"):
    """A commit's description of itself; only its time is read."""

    in_commit_timestamp: int | None = None


class Sidecar(msgspec.Struct, frozen=True, rename="camel"):
    """A file with some of a checkpoint's actions."""

    path: str
    size_in_bytes: int


class Action(msgspec.Struct, gc=False, rename="camel"):
    """One line of a JSON log file: exactly one of these actions, or none where the action is not needed."""

    add: Add | None = None
    remove: Remove | None = None
    meta_data: Metadata | None = None
    protocol: Protocol | None = None
    commit_info: CommitInfo | None = None
    sidecar: Sidecar | None = None


_DECODER: Final = msgspec.json.Decoder(Action)


def actions_of(data: bytes, where: str) -> list[Action]:
    """Return the actions of a JSON log file.

    Args:
        data: the whole file.
        where: its URI, for the error.

    Raises:
        TableError: it is empty, truncated or damaged.
    """
    try:
        actions = _DECODER.decode_lines(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TableError(
            f"{where} cannot be read, so that it is not known which files belong to the table: {error}"
        ) from None
    if not actions:
        raise TableError(
            f"{where} is empty, as a writer that was killed leaves it: restore or remove that file"
        )
    return actions


class LogReplay:
    """The result of replaying actions from old to new."""

    def __init__(self) -> None:
        self.metadata: Metadata | None = None
        self.protocol: Protocol | None = None
        self.sidecars: list[Sidecar] = []
        self.files: dict[tuple[str, str], Add | None] = {}
        """By path and deletion vector id: the last added file, None for a removed one."""

    def take(self, actions: Sequence[Action]) -> None:
        """Apply the actions of one commit.

        A commit that changes a file's deletion vector removes the file with the old one and adds it with the new one:
        those are two keys.
        """
        for action in actions:
            if action.add is not None:
                action.add.path = decoded(action.add.path)
                self.files[_key(action.add, action.add.path)] = action.add
            elif action.remove is not None:
                self.files[_key(action.remove, decoded(action.remove.path))] = None
            elif action.meta_data is not None:
                self.metadata = action.meta_data
            elif action.protocol is not None:
                self.protocol = action.protocol
            elif action.sidecar is not None:
                self.sidecars.append(action.sidecar)

    def added(self) -> Iterator[Add]:
        """The files that belong to the table after the replay."""
        return (add for add in self.files.values() if add is not None)


def _key(file: Add | Remove, path: str) -> tuple[str, str]:
    return replayed(path), "" if file.deletion_vector is None else file.deletion_vector.id


def replayed(path: str) -> str:
    """The key of a path (`decoded`) in log replay: an absolute path is normalized, as Spark does.

    Otherwise `file:/x` and `/x` would be two files, and removing one would leave the other.
    """
    if not is_uri(path):
        return path
    try:
        return normalize_uri(path)
    except StorageError:  # refused where it is resolved
        return path


def decoded(path: str) -> str:
    """A path as the file system has it: the log stores it as a URI, percent-encoded once.

    One that begins with `file:` is decoded where it is resolved (`normalize_uri`).

    Raises:
        TableError: it is not UTF-8.
    """
    if "%" not in path or path[:5].lower() == "file:":
        return path
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError:
        raise TableError(f"the log names a file {path!r}, which is not UTF-8: rename the file") from None


def is_uri(path: str) -> bool:
    """Tell whether a path in the log is absolute, as in a clone."""
    return _URI.match(path) is not None


def commit_time(actions: Sequence[Action]) -> int | None:
    """The in-commit timestamp of a commit, in milliseconds since 1970; None where it has none."""
    return next(
        (action.commit_info.in_commit_timestamp for action in actions if action.commit_info is not None), None
    )


def convert(row: Mapping[str, Any], type_: Any) -> Any:
    """Make an action from a row of a checkpoint.

    Raises:
        msgspec.ValidationError: the row is not such an action.
    """
    return msgspec.convert({key: value for key, value in row.items() if value is not None}, type_)
