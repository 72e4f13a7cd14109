"""How many keys an index of the metadata table has: by the trailers of its HFiles and by its log files.

Only what stands in log files is read, and whether it replaces something below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pruner.tables.hudi_metadata.payloads import decoder, is_deletion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pruner.tables.hfile.reader import HFile
    from pruner.tables.hudi_metadata.partition import FileGroup

MOST_LOGGED_KEYS = 200_000
"""Keys in log files up to which the keys of an index are counted."""

Layer: TypeAlias = "tuple[HFile | None, frozenset[bytes]]"
"""An HFile, or keys that were deleted: see `FileGroup.layers`."""


def count_keys(
    groups: Sequence[FileGroup], *, marked: bool = False, most: int = MOST_LOGGED_KEYS
) -> int | None:
    """How many keys are in an index; None where more than `most` of them stand in log files.

    Args:
        groups: its file groups.
        marked: whether a record can say that its key is deleted; then records in log files are decoded.
        most: the limit.

    Raises:
        FormatError: the index is damaged.
        StorageError: it cannot be read.
    """
    logged = sum(_size(layer) for group in groups for layer in _logged(group))
    return None if logged > most else sum(_count(group, marked) for group in groups)


def _logged(group: FileGroup) -> Iterator[Layer]:
    """The layers above the base file."""
    return ((block.hfile, block.deleted) for block in group.blocks)


def _size(layer: Layer) -> int:
    hfile, deleted = layer
    return len(deleted) if hfile is None else hfile.entries


def _count(group: FileGroup, marked: bool) -> int:
    """The keys of one file group: those of its base file, and what the layers above change."""
    alive: dict[bytes, bool] = {}
    for hfile, deleted in _logged(group):
        if hfile is not None:
            alive.update(_alive(hfile) if marked else ((key, True) for key, _ in hfile.scan()))
        alive.update(dict.fromkeys(deleted, False))
    below = {} if group.base is None else group.base.look_up(alive)
    base = 0 if group.base is None else group.base.entries
    return base + sum(lives - (key in below) for key, lives in alive.items())


def _alive(hfile: HFile) -> Iterator[tuple[bytes, bool]]:
    decode = decoder(hfile)
    return ((key, not is_deletion(decode(value))) for key, value in hfile.scan())
