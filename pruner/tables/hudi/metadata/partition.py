"""One partition of the metadata table: its HFiles and log blocks, and what stands in them of a key or a prefix."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from pruner.errors import FormatError
from pruner.tables.hudi.hfile.reader import HFile
from pruner.tables.hudi.hfile.sources import Stored
from pruner.tables.hudi.metadata.listing import MetadataTimeline, metadata_slices
from pruner.tables.hudi.metadata.logs import LogBlock, log_blocks
from pruner.tables.hudi.metadata.payloads import decoder, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pruner.storage.store import Store
    from pruner.tables.hudi.files import HudiSlice
    from pruner.tables.hudi.metadata.payloads import Record


@dataclass(frozen=True)
class FileGroup:
    """One file group: a base file, where there is one, and the log blocks that count, oldest first."""

    id: str
    base_name: str
    base: HFile | None
    blocks: tuple[LogBlock, ...]

    def layers(self) -> Iterator[tuple[HFile | None, frozenset[bytes]]]:
        """Each HFile, oldest first, or the keys that were deleted at that point."""
        if self.base is not None:
            yield self.base, frozenset()
        for block in self.blocks:
            yield block.hfile, block.deleted

    def records(self, prefix: bytes = b"") -> Iterator[tuple[bytes, Record]]:
        """Yield each key with a prefix and the record that it has now.

        Raises:
            FormatError: a file is damaged.
            StorageError: one cannot be read.
        """
        versions: dict[bytes, list[Record]] = {}
        for hfile, deleted in self.layers():
            if hfile is not None:
                decode = decoder(hfile)
                for key, value in hfile.scan(prefix):
                    versions.setdefault(key, []).append(decode(value))
            for key in deleted:
                versions.pop(key, None)
        yield from _current(versions)

    def records_in_order(self) -> Iterator[tuple[bytes, Record]]:
        """Yield what `records` does, sorted by key, holding the versions of one key at a time.

        Raises:
            FormatError: a file is damaged, or its keys are in no order.
            StorageError: one cannot be read.
        """
        layers = [self._layer(number, *layer) for number, layer in enumerate(self.layers())]
        before: bytes | None = None
        for key, found in groupby(heapq.merge(*layers, key=_key_and_number), key=_key):
            if before is not None and key <= before:
                raise FormatError(f"an HFile of {self.id} in the metadata table has keys that are not sorted")
            before = key
            versions: list[Record] = []
            for _, _, decoded in found:
                if decoded is None:
                    versions.clear()
                else:
                    versions.append(decoded())
            record = merged(versions) if versions else None
            if record is not None:
                yield key, record

    def _layer(self, number: int, hfile: HFile | None, deleted: frozenset[bytes]) -> Iterator[_Version]:
        """The versions in one HFile, or the deletions, with the number that orders them among others."""
        if hfile is not None:
            decode = decoder(hfile)
            for key, value in hfile.scan(b""):
                yield key, number, partial(decode, value)
        else:
            yield from ((key, number, None) for key in sorted(deleted))

    def look_up(self, keys: Sequence[bytes], *, once: bool = False) -> Iterator[tuple[bytes, Record]]:
        """Yield each of some keys that is there, and the record that it has now: see `records`, `HFile.look_up`."""
        versions: dict[bytes, list[Record]] = {}
        for hfile, deleted in self.layers():
            if hfile is not None:
                decode = decoder(hfile)
                for key, value in hfile.look_up(keys, once=once).items():
                    versions.setdefault(key, []).append(decode(value))
            for key in deleted:
                versions.pop(key, None)
        yield from _current(versions)


_Version: TypeAlias = "tuple[bytes, int, Callable[[], Record] | None]"
"""A key, the number of the layer, and what decodes the record, None where it is deleted there."""


def _key(version: _Version) -> bytes:
    return version[0]


def _key_and_number(version: _Version) -> tuple[bytes, int]:
    return version[:2]


def _current(versions: dict[bytes, list[Record]]) -> Iterator[tuple[bytes, Record]]:
    for key, found in versions.items():
        record = merged(found)
        if record is not None:
            yield key, record


def file_groups(store: Store, timeline: MetadataTimeline, partition: str) -> list[FileGroup]:
    """Open one partition of the metadata table.

    Args:
        store: the root of the metadata table.
        timeline: which instants count.
        partition: its name.

    Raises:
        FormatError: a file is damaged, or the files cannot be told for sure.
        StorageError: the store refuses.
    """
    return [_opened(store, timeline, entry) for entry in metadata_slices(store, timeline, partition)]


def _opened(store: Store, timeline: MetadataTimeline, entry: HudiSlice) -> FileGroup:
    def stored(name: str, size: int) -> Stored:
        return Stored(store, f"{entry.partition}/{name}", size)

    base = HFile(stored(entry.base, entry.base_size)) if entry.base else None
    logs = [stored(name, size) for name, size in zip(entry.logs, entry.log_sizes, strict=True)]
    return FileGroup(entry.file_id, entry.base, base, tuple(log_blocks(list(logs), timeline.counts)))
