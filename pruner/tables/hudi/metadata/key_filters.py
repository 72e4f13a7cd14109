"""Hudi's bloom filters over record keys: which base files cannot hold a row with a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.errors import FormatError
from pruner.tables.hudi.metadata.blooms import bloom_filter
from pruner.tables.hudi.metadata.keys import file_id, hashed_group, partition_id
from pruner.tables.hudi.metadata.payloads import BLOOM, body

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pruner.tables.hudi.metadata.blooms import BloomFilter
    from pruner.tables.hudi.metadata.partition import FileGroup
    from pruner.tables.hudi.metadata.payloads import Record

_AT_ONCE = 64
"""Filters that are held at once: by default one has 0.4 MB."""


class KeyFilters:
    """The filters of a table, by their file groups. Threads may share it."""

    def __init__(self, groups: Sequence[FileGroup]) -> None:
        self._groups = groups

    def bytes_of(self, filters: int) -> int:
        """About how many bytes are read for so many filters."""
        hfiles = [hfile for group in self._groups for hfile, _ in group.layers() if hfile is not None]
        entries = sum(hfile.entries for hfile in hfiles)
        return sum(hfile.size for hfile in hfiles) * filters // max(entries, 1)

    def holding(
        self, files: Mapping[int, tuple[str, str]], keys: Sequence[str]
    ) -> Iterator[tuple[int, bool]]:
        """Tell of each file that has a filter whether it may hold one of some keys.

        Args:
            files: partition and name of each, by any number.
            keys: the record keys.

        Raises:
            FormatError: a filter is damaged.
            StorageError: one cannot be read.
        """
        numbers = {
            partition_id(partition) + file_id(name): number for number, (partition, name) in files.items()
        }
        wanted = list(numbers)
        for start in range(0, len(wanted), _AT_ONCE):
            for key, record in self._records(wanted[start : start + _AT_ONCE]):
                found = _filter(record)
                yield numbers[key], any(map(found.may_hold, keys))

    def _records(self, keys: Sequence[bytes]) -> Iterator[tuple[bytes, Record]]:
        of_group: dict[int, list[bytes]] = {}
        for key in keys:
            of_group.setdefault(hashed_group(key.decode(), len(self._groups)), []).append(key)
        for number, asked in of_group.items():
            yield from self._groups[number].look_up(asked)


def _filter(record: Record) -> BloomFilter:
    found = body(record, BLOOM)
    kind, stored = (None, None) if found is None else (found.get("type"), found.get("bloomFilter"))
    if not isinstance(kind, str) or not isinstance(stored, bytes):
        raise FormatError("a bloom filter of the metadata table is not understood")
    return bloom_filter(kind, stored)
