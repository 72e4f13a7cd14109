"""Reads `hoodie.properties`, which describes a Hudi table, and refuses what pruner does not support (R8)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash

from pruner.errors import TableError
from pruner.storage.store import NotFoundError
from pruner.tables.listing.foreign import HUDI_PROPERTIES

if TYPE_CHECKING:
    from pruner.storage.store import Store

BACKUP_PATH = ".hoodie/hoodie.properties.backup"
"""The replacement while Hudi rewrites the properties: it deletes the old file before it writes the new one."""

VERSIONS = (6, 8, 9)
_MAX_BYTES = 1 << 20
_TIMELINE_MOVED = 8
"""The table version from which the timeline has a folder of its own."""

_ESCAPED = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_LINE = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)
_NEWEST_ROW_WINS = frozenset(
    {"", "OverwriteWithLatestAvroPayload", "DefaultHoodieRecordPayload", "EventTimeAvroPayload"}
)
"""Payloads with which a read returns one of the two rows."""

_COMBINING_PAYLOADS = frozenset(
    {
        "OverwriteNonDefaultsWithLatestAvroPayload",
        "PartialUpdateAvroPayload",
        "AWSDmsAvroPayload",
        "MySqlDebeziumAvroPayload",
        "PostgresDebeziumAvroPayload",
    }
)
"""Payloads with which each column has the value of one of the two rows (trap T12)."""

_MERGE_MODES = frozenset({"", "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"})
_MERGED_BY_PAYLOAD = "00000000-0000-0000-0000-000000000000"
"""The strategy by which the payload merges; version 8 gives it, with the mode CUSTOM, to payloads that combine rows."""

_MERGE_STRATEGIES = frozenset(
    {
        "",
        _MERGED_BY_PAYLOAD,
        "ce9acb64-bde0-424c-9b91-f6ebba25356d",  # the last commit wins
        "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",  # the greatest ordering value wins
    }
)
_PARTIAL_UPDATE_MODES = frozenset({"", "NONE", "KEEP_VALUES", "IGNORE_DEFAULTS", "FILL_UNAVAILABLE"})
"""Modes that fill a column from the older row; others may fill it with a value that is in no file."""
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_GENERATOR_CLASS = re.compile(r"([A-Za-z]+?)(?:Avro)?KeyGenerator$")
_GENERATORS_BY_CLASS = {
    "Simple": "SIMPLE",
    "Complex": "COMPLEX",
    "Nonpartitioned": "NON_PARTITION",
    "TimestampBased": "TIMESTAMP",
    "Custom": "CUSTOM",
}


@dataclass(frozen=True)
class HudiProperties:
    """The properties of one table; `raw` is the file's content, which reveals changes."""

    values: dict[str, str]
    raw: bytes

    @property
    def version(self) -> int:
        """The table version; 0 where none is given."""
        text = self.values.get("hoodie.table.version", "0")
        return int(text) if text.isdecimal() else 0

    @property
    def merge_on_read(self) -> bool:
        """Whether slices can have log files."""
        return self.values.get("hoodie.table.type", "COPY_ON_WRITE").upper() == "MERGE_ON_READ"

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """The partition columns, without the `:type` that custom key generators add; empty without any."""
        text = self.values.get("hoodie.table.partition.fields", "")
        return tuple(part.partition(":")[0].strip() for part in text.split(",") if part.strip())

    @property
    def key_generator(self) -> str:
        """SIMPLE, COMPLEX, TIMESTAMP, CUSTOM …, from its type or its class; an empty text when not given."""
        given = self.values.get("hoodie.table.keygenerator.type", "").upper()
        if given:
            return given
        match = _GENERATOR_CLASS.search(self.values.get("hoodie.table.keygenerator.class", ""))
        return _GENERATORS_BY_CLASS.get(match.group(1), match.group(1)) if match else ""

    @property
    def hive_style(self) -> bool:
        """Whether partition folders are named `column=value`."""
        return self._flag("hoodie.datasource.write.hive_style_partitioning")

    @property
    def url_encoded(self) -> bool:
        """Whether partition values are percent-encoded in the path."""
        return self._flag("hoodie.datasource.write.partitionpath.urlencode")

    @property
    def drops_partition_columns(self) -> bool:
        """Whether files lack the partition columns."""
        return self._flag("hoodie.datasource.write.drop.partition.columns")

    @property
    def several_ordering_fields(self) -> bool:
        """Whether rows are ordered by more than one column, as version 9 does for MySQL's change log."""
        return "," in self.values.get("hoodie.table.ordering.fields", "")

    @property
    def newest_row_wins(self) -> bool:
        """Whether merging takes one of the stored rows unchanged."""
        return (
            not self.merges_by_own_code
            and self._payload in _NEWEST_ROW_WINS
            and self._partial_update_mode in ("", "NONE")
        )

    @property
    def merges_by_own_code(self) -> bool:
        """Whether merging may give a column a value that none of the stored rows has."""
        names = ("hoodie.record.merge.strategy.id", "hoodie.compaction.record.merger.strategy")
        strategies = [self.values.get(name, "").strip().lower() for name in names]
        mode = self.values.get("hoodie.record.merge.mode", "").strip().upper()
        by_payload = mode == "CUSTOM" and strategies[0] == _MERGED_BY_PAYLOAD and self._payload != ""
        return (
            not (mode in _MERGE_MODES or by_payload)
            or any(strategy not in _MERGE_STRATEGIES for strategy in strategies)
            or self._payload not in _NEWEST_ROW_WINS | _COMBINING_PAYLOADS
            or self._partial_update_mode not in _PARTIAL_UPDATE_MODES
        )

    @property
    def _partial_update_mode(self) -> str:
        return self.values.get("hoodie.table.partial.update.mode", "").strip().upper()

    @property
    def _payload(self) -> str:
        """The simple name of the payload class that merges now (`hoodie.legacy.payload.class` no longer does)."""
        return self.values.get("hoodie.compaction.payload.class", "").strip().rpartition(".")[2]

    @property
    def timeline_path(self) -> str:
        """The folder of the active timeline, relative to the root."""
        if self.version < _TIMELINE_MOVED:
            return ".hoodie"
        return f".hoodie/{self.values.get('hoodie.timeline.path', 'timeline')}"

    @property
    def history_path(self) -> str:
        """The folder of the archived timeline, relative to the root."""
        if self.version < _TIMELINE_MOVED:
            return f".hoodie/{self.values.get('hoodie.archivelog.folder', 'archived')}"
        return f"{self.timeline_path}/{self.values.get('hoodie.timeline.history.path', 'history')}"

    def identity(self) -> str:
        """Return what no write or upgrade changes: the database, name, type and record key of the table.

        Nothing in the file tells a table from one recreated with the same properties, and nothing has to:
        file names hold instants and random ids, so the slices of one are never taken for those of the other.
        """
        names = (
            "hoodie.database.name",
            "hoodie.table.name",
            "hoodie.table.type",
            "hoodie.table.recordkey.fields",
        )
        return xxhash.xxh3_128_hexdigest("\0".join(self.values.get(name, "") for name in names).encode())

    def _flag(self, name: str) -> bool:
        return self.values.get(name, "false").strip().lower() == "true"


def read_properties(store: Store) -> HudiProperties:
    """Read the properties of the table below a store's root.

    Raises:
        TableError: there are none, or the table is of a version or kind that pruner does not read.
        StorageError: the store refuses.
    """
    try:
        raw = store.get(HUDI_PROPERTIES, _MAX_BYTES)
    except NotFoundError:
        try:
            raw = store.get(BACKUP_PATH, _MAX_BYTES)
        except NotFoundError:
            raise TableError(
                f"{store.uri} is not a Hudi table: there is no {HUDI_PROPERTIES} in it"
            ) from None
    properties = HudiProperties(parse_properties(raw.decode("utf-8", "replace")), raw)
    _check(store.uri, properties)
    return properties


def _check(root: str, properties: HudiProperties) -> None:
    if properties.version not in VERSIONS:
        version = properties.values.get("hoodie.table.version", "none")
        known = ", ".join(map(str, VERSIONS))
        raise TableError(f"{root} is a Hudi table of version {version}: pruner reads versions {known}")
    base_format = properties.values.get("hoodie.table.base.file.format", "PARQUET").upper()
    if base_format != "PARQUET":
        raise TableError(
            f"{root} is a Hudi table with base files of format {base_format}: pruner reads PARQUET"
        )
    if properties.values.get("hoodie.bootstrap.base.path"):
        raise TableError(
            f"{root} is a bootstrapped Hudi table, whose data lies elsewhere: pruner cannot prune it"
        )
    if any(
        part in (".", "..") for part in f"{properties.timeline_path}/{properties.history_path}".split("/")
    ):
        raise TableError(f"{root} has a {HUDI_PROPERTIES} whose timeline path is outside of the table")


def parse_properties(text: str) -> dict[str, str]:
    """Parse what `java.util.Properties.load` reads, except continued lines, which Hudi does not write."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        stripped = line.lstrip()
        match = _LINE.fullmatch(stripped)
        if stripped and stripped[0] not in "#!" and match:
            values[_unescape(match.group(1))] = _unescape(match.group(2))
    return values


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        escape = match.group(1)
        return chr(int(escape[1:], 16)) if len(escape) > 1 else _CONTROL.get(escape, escape)

    return _ESCAPED.sub(plain, text)
