"""Hudi's record index: in which file group the row with a key is.

A key is in the file group of the index that its hash names. The hash only says where to look first: a key
that is not there is searched for in all others.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from itertools import product
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from pruner.errors import FormatError
from pruner.tables.hudi.metadata.counting import count_keys
from pruner.tables.hudi.metadata.listing import hashed_group
from pruner.tables.hudi.metadata.payloads import LOCATION, body

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pruner.tables.hudi.metadata.partition import FileGroup
    from pruner.tables.hudi.metadata.payloads import Record
    from pruner.tables.hudi.properties import HudiProperties

_GROUP_ID = re.compile(r"record-index-[0-9]{4}-[0-9]+")
"""Ids of the file groups of an index over the whole table; those of a per-partition index name the partition."""

_KEPT_KEYS = 4096
"""Maximum number of keys with cached locations: a plan looks its keys up more than once, and statements repeat."""

_KEPT_LENGTH = 256
"""Maximum characters of a key with a cached location."""

_BY_UUID, _BY_NAME = 0, 1
_NO_NUMBER = -1


class Location(NamedTuple):
    """A file group of the table."""

    partition: str
    file_id: str


class RecordLocations:
    """The record index of a table, by file group. Threads may share it."""

    def __init__(self, groups: Sequence[FileGroup]) -> None:
        """Take the file groups in the order of their ids.

        Raises:
            FormatError: the index is of a kind that is not read.
        """
        if not groups or not all(_GROUP_ID.fullmatch(group.id) for group in groups):
            raise FormatError("its file groups have names of an unknown form")
        self._groups = groups
        self._known: dict[str, Location | None] = {}
        self._lock = Lock()

    def find(self, keys: Iterable[str]) -> dict[str, Location]:
        """Return the locations of those keys that are in the index.

        Raises:
            FormatError: the index is damaged.
            StorageError: it cannot be read.
        """
        wanted = list(dict.fromkeys(keys))
        with self._lock:
            known = {key: self._known[key] for key in wanted if key in self._known}
        asked = [key for key in wanted if key not in known]
        read = self._read(asked)
        known.update((key, read.get(key)) for key in asked)
        self._keep({key: known[key] for key in asked[:_KEPT_KEYS] if len(key) <= _KEPT_LENGTH})
        return {key: place for key, place in known.items() if place is not None}

    def _read(self, keys: Sequence[str]) -> dict[str, Location]:
        hashed = {key: hashed_group(key, len(self._groups)) for key in keys}
        first: dict[int, list[str]] = {}
        for key, number in hashed.items():
            first.setdefault(number, []).append(key)
        locations: dict[str, Location] = {}
        for number, of_group in first.items():
            locations.update(_looked_up(self._groups[number], of_group))
        for number, group in enumerate(self._groups):
            missing = [key for key in keys if key not in locations and hashed[key] != number]
            if missing:
                locations.update(_looked_up(group, missing))
        return locations

    def _keep(self, read: Mapping[str, Location | None]) -> None:
        """Cache some locations; the oldest are evicted first."""
        with self._lock:
            self._known.update(read)
            while len(self._known) > _KEPT_KEYS:
                del self._known[next(iter(self._known))]

    def count(self) -> int | None:
        """How many keys are in the index; None where too many of them are in log files.

        Raises:
            FormatError: the index is damaged.
            StorageError: it cannot be read.
        """
        return count_keys(self._groups)


def _looked_up(group: FileGroup, keys: list[str]) -> dict[str, Location]:
    # With `hoodie.hfile.writes.allow.duplicates`, Hudi builds the index of a table that has a key in two files by
    # writing both locations into one HFile: there are as many cells as rows, and only the last would be found.
    records = group.look_up([key.encode() for key in keys], once=True)
    return {key.decode(): _location(record) for key, record in records}


def _location(record: Record) -> Location:
    location = body(record, LOCATION)
    try:
        if location is None:
            raise ValueError("it is none of a record index")
        return Location(str(location["partitionName"]), _file_id(location))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"a location in the record index is not understood: {error!r}") from None


def _file_id(location: dict[str, Any]) -> str:
    encoding = location.get("fileIdEncoding", _BY_UUID)
    if encoding == _BY_NAME:
        return str(location["fileId"])
    if encoding != _BY_UUID:
        raise ValueError(f"file ids are encoded in the unknown way {encoding}")
    high, low, number = (int(location[name]) for name in ("fileIdHighBits", "fileIdLowBits", "fileIndex"))
    bits = (high & (1 << 64) - 1) << 64 | low & (1 << 64) - 1
    return str(uuid.UUID(int=bits)) + ("" if number == _NO_NUMBER else f"-{number}")


# How Hudi builds the text of a record key (`_hoodie_record_key`) from the columns of the key.

RECORD_KEY = "_hoodie_record_key"
"""The column with the text."""

_GENERATORS = frozenset({"SIMPLE", "COMPLEX", "NON_PARTITION", "TIMESTAMP", "CUSTOM"})
"""Generators that differ in how they build partitions; their keys are alike."""

_OF_ONE_COLUMN = frozenset({"SIMPLE", "TIMESTAMP"})
"""Generators whose keys consist of one column, never with its name."""

_KEYS_STAY_FROM = 9
"""The table version whose writers all refuse what used to leave a key with the columns of another row.

Before, UPDATE and MERGE let a statement change a key column and kept the key (HUDI-8823, HUDI-8824, in release 1.0),
and `bulk_insert` wrote the keys of other rows (hudi#9750, in release 0.12).
"""

_EMPTY = "__empty__"
"""The form of an empty text in a key of several columns."""


@dataclass(frozen=True, slots=True)
class KeyForm:
    """The columns of a record key, in the order of its text.

    With `may_be_named` a key of one column is its value, or has its name in front: releases differ (hudi#12234).
    """

    columns: tuple[str, ...]
    may_be_named: bool = False

    def texts(self, values: Mapping[str, Sequence[int | bytes]]) -> list[str]:
        """Every text that the key of a row can have, given some possible values of each column.

        Args:
            values: for each column integers, or texts in UTF-8.
        """
        parts = [[text_of(value) for value in values[column]] for column in self.columns]
        if len(parts) == 1 and not self.may_be_named:
            return parts[0]
        named = [
            ",".join(
                f"{column}:{value or _EMPTY}" for column, value in zip(self.columns, combination, strict=True)
            )
            for combination in product(*parts)
        ]
        return [*parts[0], *named] if len(parts) == 1 else named


def key_form(properties: HudiProperties) -> KeyForm | None:
    """Return the form of a table's keys; None where nothing shows that each row has the key of its columns."""
    values = properties.values
    columns = tuple(part.strip() for part in values.get("hoodie.table.recordkey.fields", "").split(","))
    if not (is_born_now(properties) and all(columns)):
        return None
    if values.get("hoodie.populate.meta.fields", "true").strip().lower() != "true":
        return None  # no row has a key in its file
    generator = properties.key_generator.removesuffix("_AVRO")
    nested = any("." in column for column in columns)
    return (
        None if generator not in _GENERATORS or nested else KeyForm(columns, generator not in _OF_ONE_COLUMN)
    )


def is_born_now(properties: HudiProperties) -> bool:
    """Tell whether no release before 1.1 has written to a table: version 9 locks them out."""
    born = properties.values.get("hoodie.table.initial.version", "")
    return born.isdecimal() and int(born) >= _KEYS_STAY_FROM


def text_of(value: int | bytes) -> str:
    """A value as Hudi writes it in a key.

    Raises:
        UnicodeDecodeError: it is not UTF-8.
    """
    return value.decode() if isinstance(value, bytes) else str(value)
