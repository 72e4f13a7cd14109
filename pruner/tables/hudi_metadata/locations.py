"""Hudi's record index: in which file group the row with a key is.

A key stands in the file group of the index that a hash of it names. The hash only says where to look first: a key
that is not there is looked for in all others.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from pruner.errors import FormatError
from pruner.tables.hudi_metadata.counting import count_keys
from pruner.tables.hudi_metadata.keys import hashed_group
from pruner.tables.hudi_metadata.payloads import LOCATION, body

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pruner.tables.hudi_metadata.partition import FileGroup
    from pruner.tables.hudi_metadata.payloads import Record

_GROUP_ID = re.compile(r"record-index-[0-9]{4}-[0-9]+")
"""Ids of the file groups of an index over the whole table; those of one for each partition name the partition."""

_BY_UUID, _BY_NAME = 0, 1
_NO_NUMBER = -1


class Location(NamedTuple):
    """A file group of the table."""

    partition: str
    file_id: str


class RecordLocations:
    """The record index of a table, by its file groups. Threads may share it."""

    def __init__(self, groups: Sequence[FileGroup]) -> None:
        """Take the file groups in the order of their ids.

        Raises:
            FormatError: the index is of a kind that is not read.
        """
        if not groups or not all(_GROUP_ID.fullmatch(group.id) for group in groups):
            raise FormatError("its file groups are named in another way than is read")
        self._groups = groups

    def find(self, keys: Iterable[str]) -> dict[str, Location]:
        """Return the place of each of some keys that is in the index.

        Raises:
            FormatError: the index is damaged.
            StorageError: it cannot be read.
        """
        wanted = list(dict.fromkeys(keys))
        first: dict[int, list[str]] = {}
        for key in wanted:
            first.setdefault(hashed_group(key, len(self._groups)), []).append(key)
        found: dict[str, Location] = {}
        for number, of_group in first.items():
            found.update(_looked_up(self._groups[number], of_group))
        for group in self._groups:
            missing = [key for key in wanted if key not in found]
            if missing:
                found.update(_looked_up(group, missing))
        return found

    def count(self) -> int | None:
        """How many keys are in the index; None where too many of them stand in log files.

        Raises:
            FormatError: the index is damaged.
            StorageError: it cannot be read.
        """
        return count_keys(self._groups)


def _looked_up(group: FileGroup, keys: list[str]) -> dict[str, Location]:
    records = group.look_up([key.encode() for key in keys])
    return {key.decode(): _location(record) for key, record in records}


def _location(record: Record) -> Location:
    found = body(record, LOCATION)
    try:
        if found is None:
            raise ValueError("it is none of a record index")
        return Location(str(found["partitionName"]), _file_id(found))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"a place in the record index is not understood: {error!r}") from None


def _file_id(found: dict[str, Any]) -> str:
    encoding = found.get("fileIdEncoding", _BY_UUID)
    if encoding == _BY_NAME:
        return str(found["fileId"])
    if encoding != _BY_UUID:
        raise ValueError(f"file ids are encoded in the unknown way {encoding}")
    high, low, number = (int(found[name]) for name in ("fileIdHighBits", "fileIdLowBits", "fileIndex"))
    bits = (high & (1 << 64) - 1) << 64 | low & (1 << 64) - 1
    return str(uuid.UUID(int=bits)) + ("" if number == _NO_NUMBER else f"-{number}")
