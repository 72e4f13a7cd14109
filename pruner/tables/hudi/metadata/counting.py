"""How many keys an index of the metadata table has: by the trailers of its HFiles and by its log files.

The lowest HFile of a file group is not read for that: writers put each key into an HFile once, unless configured
otherwise (`hoodie.hfile.writes.allow.duplicates`), and lookups refuse a key that occurs in it twice. It is the base
file or, up to the first compaction of the metadata table, a block of a log file: Hudi writes the index of a table's
first commit into log files. Everything above it is read, and whether it replaces something below.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from pruner.errors import FormatError
from pruner.tables.hudi.metadata.payloads import SECONDARY, body, decoder, is_deletion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pruner.tables.hudi.hfile.reader import HFile
    from pruner.tables.hudi.metadata.partition import FileGroup

MOST_LOGGED_KEYS = 200_000
"""Up to this many keys above the lowest HFiles, the keys of an index are counted."""

MOST_COMPARED = 2_000_000
"""Cells of lowest HFiles in log files that may be scanned for the keys above them: a second of CPU time."""

_CELLS_OF_A_BLOCK = 10_000
"""As Hudi writes blocks: a megabyte. One block is scanned per key."""

Layer: TypeAlias = "tuple[HFile | None, frozenset[bytes]]"
"""An HFile, or keys that were deleted: see `FileGroup.layers`."""


def count_keys(
    groups: Sequence[FileGroup], *, marked: bool = False, most: int = MOST_LOGGED_KEYS
) -> int | None:
    """How many keys are in an index; None where it would take long to count them.

    Args:
        groups: its file groups.
        marked: whether a record can say that its key is deleted; then records in log files are decoded.
        most: the limit of keys above the lowest HFiles, each of which is read.

    Raises:
        FormatError: the index is damaged.
        StorageError: it cannot be read.
    """
    split = [_split(group, marked) for group in groups]
    read = sum(_size(layer) for _, above in split for layer in above)
    compared = sum(
        min(lowest.entries, _CELLS_OF_A_BLOCK * sum(map(_size, above)))
        for (lowest, above), group in zip(split, groups, strict=True)
        if lowest is not None and lowest is not group.base
    )
    if read > most or compared > MOST_COMPARED:
        return None
    return sum(_count(lowest, above, marked) for lowest, above in split)


def _split(group: FileGroup, marked: bool) -> tuple[HFile | None, list[Layer]]:
    """The lowest HFile, each of whose cells is a key, and the layers above it.

    Below the first key there is nothing to delete. In a log file a `marked` record may say that its key is deleted;
    compaction leaves such records out of base files.
    """
    layers = list(group.layers())
    for place, (hfile, _) in enumerate(layers):
        if hfile is not None and hfile.entries:
            if marked and hfile is not group.base:
                return None, layers[place:]
            return hfile, layers[place + 1 :]
    return None, []


def _size(layer: Layer) -> int:
    hfile, deleted = layer
    return len(deleted) if hfile is None else hfile.entries


def _count(lowest: HFile | None, above: Sequence[Layer], marked: bool) -> int:
    """The keys of one file group: those of its lowest HFile, as changed by the layers above."""
    alive: dict[bytes, bool] = {}
    for hfile, deleted in above:
        if hfile is not None:
            alive.update(_alive(hfile) if marked else ((key, True) for key, _ in hfile.scan()))
        alive.update(dict.fromkeys(deleted, False))
    if lowest is None:
        return sum(alive.values())
    below = lowest.look_up(alive, once=True)
    return lowest.entries + sum(lives - (key in below) for key, lives in alive.items())


def _alive(hfile: HFile) -> Iterator[tuple[bytes, bool]]:
    decode = decoder(hfile)
    return ((key, not is_deletion(decode(value))) for key, value in hfile.scan())


# Hudi's secondary indexes: the record keys of the rows in which a column has a value.
#
# A key of such an index is the value as text, `$` and the record key. In both parts `\` escapes what would be
# misread, so that no other value begins as `value$` does.

MOST_LOGGED_ENTRIES = 20_000
"""Up to this many entries in log files, the entries of an index are counted: each of them is decoded."""

_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPECIAL = re.compile(r"[\\$\0]")


class SecondaryIndex:
    """One secondary index, by file group. Threads may share it."""

    def __init__(self, groups: Sequence[FileGroup]) -> None:
        self._groups = groups

    @property
    def groups(self) -> int:
        """The number of its file groups, each of which is searched for a value."""
        return len(self._groups)

    def keys_with(self, values: Iterable[str]) -> list[str]:
        """Return the record keys of the rows that have one of some values.

        Raises:
            FormatError: the index is damaged.
            StorageError: it cannot be read.
        """
        return [key for value in values for key in self._keys_with(value)]

    def _keys_with(self, value: str) -> Iterable[str]:
        prefix = (escaped(value) + "$").encode()
        for group in self._groups:
            for key, record in group.records(prefix):
                if body(record, SECONDARY) is None:
                    raise FormatError("an entry of a secondary index is not understood")
                yield unescaped(key[len(prefix) :].decode("utf-8", "replace"))

    def count(self) -> int | None:
        """How many entries are in the index; None where too many of them are in log files.

        Raises:
            FormatError: the index is damaged.
            StorageError: it cannot be read.
        """
        return count_keys(self._groups, marked=True, most=MOST_LOGGED_ENTRIES)


def escaped(text: str) -> str:
    """Write a value or a record key as it is in a key (Hudi's `SecondaryIndexKeyUtils`)."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def unescaped(text: str) -> str:
    """Reverse `escaped`."""
    return _ESCAPED.sub(r"\1", text)
