"""Which files of the metadata table must be read, and whose log blocks count.

The files are listed by the rules of any Hudi table (`pruner.tables.hudi.slices`). A block of a log file counts if its
instant has completed in the metadata table and is not pending in the table itself: the metadata table is written
first, so an instant that failed afterwards is complete only there (Hudi's
`HoodieTableMetadataUtil.getValidInstantTimestamps`).
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash

from pruner.errors import FormatError, TableError
from pruner.storage.store import NotFoundError
from pruner.tables.hudi.properties import VERSIONS, HudiProperties, parse_properties
from pruner.tables.hudi.slices import list_slices
from pruner.tables.hudi.timeline import Timeline, folder_names
from pruner.tables.listing.foreign import HUDI_PROPERTIES

if TYPE_CHECKING:
    from pruner.storage.store import Store
    from pruner.tables.hudi.listing import HudiSlice

METADATA_PATH = ".hoodie/metadata"
"""The location of the metadata table, relative to the table."""

FILES = "files"
"""The partition that lists the files of the table."""

_MAX_PROPERTIES_BYTES = 1 << 20
_BASE_ENDING = ".hfile"


@dataclass(frozen=True)
class MetadataTimeline:
    """One read of both timelines: that of the metadata table and that of the table that it describes."""

    own: Timeline
    table: Timeline

    def counts(self, instant: str) -> bool:
        """Tell whether what an instant wrote into log files counts."""
        return bool(instant) and instant not in self.table.pending and self.own.committed(instant)


def read_metadata_timeline(store: Store, table: Timeline) -> MetadataTimeline:
    """Read the timeline of the metadata table.

    Args:
        store: the root of the metadata table.
        table: the timeline of the table that it describes.

    Raises:
        FormatError: there is no metadata table, or it is of a kind that is not read.
        StorageError: the store refuses.
    """
    try:
        raw = store.get(HUDI_PROPERTIES, _MAX_PROPERTIES_BYTES)
    except NotFoundError:
        raise FormatError(f"there is no metadata table in {store.uri}") from None
    properties = HudiProperties(parse_properties(raw.decode("utf-8", "replace")), raw)
    places = f"{properties.timeline_path}/{properties.history_path}".split("/")
    if properties.version not in VERSIONS or "." in places or ".." in places:
        raise FormatError(f"the metadata table {store.uri} is of a version or layout that is not read")
    names = tuple(folder_names(store, properties.timeline_path))
    return MetadataTimeline(Timeline(properties, names, (), ()), table)


def metadata_slices(store: Store, timeline: MetadataTimeline, partition: str) -> list[HudiSlice]:
    """The newest slice of each file group of one partition of the metadata table, in the order of their ids.

    Raises:
        FormatError: the files cannot be determined reliably.
        StorageError: the store refuses.
    """
    try:
        slices = list_slices(store, timeline.own, None, under=partition)
    except TableError as error:
        raise FormatError(str(error)) from None
    if any(entry.base and not entry.base.endswith(_BASE_ENDING) for entry in slices):
        raise FormatError(f"{store.uri}/{partition} has a base file that is not an HFile")
    return sorted(slices, key=lambda entry: entry.file_id)


# The keys of the metadata table's records (Hudi's `HoodieTableMetadataUtil` and `HoodieIndexID`).

_SEED = 0xFFFFFFFFDABADABA
_ROOT = "."
"""The name of the partition in a table without partitions."""


def column_id(column: str) -> bytes:
    """The part of a key that identifies a column, by its path with dots."""
    return _hashed(column)


def partition_id(path: str) -> bytes:
    """The part of a key that identifies a partition."""
    return _hashed(path or _ROOT)


def file_id(name: str) -> bytes:
    """The part of a key that identifies a file, by its name without folders."""
    return base64.b64encode(hashlib.md5(name.encode(), usedforsecurity=False).digest())


def hashed_group(key: str, groups: int) -> int:
    """The number of the file group, among `groups`, into which Hudi puts a key (`mapRecordKeyToFileGroupIndex`)."""
    units = key.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    return abs(signed) % groups if signed != -(1 << 31) else (1 << 31) % groups


def _hashed(text: str) -> bytes:
    return base64.b64encode(xxhash.xxh64_digest(text.encode(), seed=_SEED))
