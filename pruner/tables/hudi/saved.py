"""The stored form of a listing of a Hudi table, passed between processes: the slices as columns, with the timeline.

Only the versions that wrote it trust it: another pruner may tell settled slices from others by other rules,
and another hudi-rs may list other files. A large table is stored in blocks, which are read on demand.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import Counter
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from pruner.tables.hudi import blocks
from pruner.tables.hudi.blocks import Block, StoredSlices, directory
from pruner.tables.hudi.properties import HudiProperties, parse_properties
from pruner.tables.hudi.slice_columns import STORED_COLUMNS, HudiColumns
from pruner.tables.hudi.timeline import Timeline
from pruner.tables.source import SAVED_METADATA, SavedLook
from pruner.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pruner.tables.source import SavedBlocks

BLOCKS_METADATA: Final = b"pruner.blocks"
"""Metadata key of a stored listing under which the directory of its blocks is stored."""


class _About(msgspec.Struct, frozen=True):
    """What is not a column: the writer, the timeline with the bytes of its properties in Base64, reasons and counts."""

    written_by: str
    properties: str
    names: tuple[str, ...]
    history: tuple[str, ...]
    schemas: tuple[str, ...]
    unsettled: dict[str, int]


# Created once: creating a type's decoder in two threads at once can crash the process (msgspec).
_ABOUT = msgspec.json.Decoder(_About)
_BLOCKS = msgspec.json.Decoder(tuple[Block, ...])


def _writer() -> str:
    return f"hudi pruner {__version__} hudi-rs {version('hudi')}"


def save(timeline: Timeline, columns: HudiColumns, *, part: bool = False) -> SavedLook:
    """Return a listing in the form that is stored; a `part` of one in blocks, however few slices it has."""
    in_blocks = part or len(columns) >= blocks.BLOCKS_FROM
    parts = directory(columns) if in_blocks else None
    described = _described(timeline, columns.unsettled, parts)
    rows = tuple(block.rows for block in parts or ())
    return SavedLook(timeline.id(), columns.stored().replace_schema_metadata(described), rows)


def save_blocks(timeline: Timeline, slices: StoredSlices, stored: SavedBlocks) -> SavedLook | None:
    """Return the blocks of a listing that a stored one does not have; None where it was not made from that one."""
    since = slices.since(stored)
    if since is None:
        return None
    new, order = since
    described = _described(timeline, slices.unsettled, slices.directory)
    table = new.read(STORED_COLUMNS.names).replace_schema_metadata(described)
    return SavedLook(timeline.id(), table, new.rows, order)


def _described(
    timeline: Timeline, unsettled: Mapping[str, int], parts: Sequence[Block] | None
) -> dict[bytes, bytes]:
    """The metadata of a stored listing, with the directory of its blocks where it has any."""
    described = {SAVED_METADATA: described_look(timeline, unsettled)}
    return described if parts is None else {**described, BLOCKS_METADATA: msgspec.json.encode(parts)}


def described_look(timeline: Timeline, unsettled: Mapping[str, int]) -> bytes:
    """What is in no column of a listing, as `SAVED_METADATA` has it."""
    about = _About(
        _writer(),
        b64encode(timeline.properties.raw).decode(),
        timeline.names,
        timeline.history,
        timeline.schemas,
        dict(unsettled),
    )
    return msgspec.json.encode(about)


def joined(timeline: Timeline, root: str, parts: Sequence[SavedBlocks]) -> SavedLook | None:
    """The listing that stored parts make: see `SharedSource`; None unless all are of one listing at this timeline.

    Args:
        timeline: of the listing.
        root: the location of the table.
        parts: in the order of their partitions.

    Raises:
        FormatError: what was read from one is not what was stored.
        StorageError: one cannot be read.
    """
    directories: list[Block] = []
    unsettled: Counter[str] = Counter()
    last = ""
    for part in parts:
        known = _known(timeline.id(), part.schema, part.described)
        part_blocks = _directory(part)
        if known is None or part_blocks is None:
            return None
        paths = [path for block in part_blocks for path, _ in block.partitions]
        if paths and directories and paths[0] <= last:
            return None
        last = paths[-1] if paths else last
        directories += part_blocks
        unsettled.update(known[1])
    if not directories:
        return None
    if sum(block.rows for block in directories) < blocks.BLOCKS_FROM:
        table: Any = pa.concat_tables([part.read(STORED_COLUMNS.names) for part in parts])
        return save(timeline, HudiColumns.from_stored(root, table, unsettled))
    described = _described(timeline, unsettled, directories)
    empty: Any = STORED_COLUMNS
    return SavedLook(timeline.id(), empty.empty_table().replace_schema_metadata(described))


def load(saved: SavedLook, root: str) -> tuple[Timeline, HudiColumns] | None:
    """Return timeline and slices of a stored listing of the table at `root`; None where it is not ours.

    Args:
        saved: what was stored, its bytes already verified.
        root: the current location of the table.
    """
    known = _known(saved.id, saved.table.schema, saved.table.schema.metadata or {})
    if known is None:
        return None
    timeline, unsettled = known
    try:
        return timeline, HudiColumns.from_stored(root, saved.table, unsettled)
    except pa.ArrowException:
        return None


def load_blocks(
    saved_id: str, stored: SavedBlocks, root: str, listed: Callable[[Timeline], HudiColumns]
) -> tuple[Timeline, StoredSlices] | None:
    """Return timeline and slices of a listing that was stored in blocks; None where it is not ours.

    Args:
        saved_id: the id under which the listing was stored.
        stored: its blocks.
        root: the current location of the table.
        listed: lists the table by a timeline.

    Raises:
        FormatError: the blocks do not match their directory.
        StorageError: they cannot be read.
    """
    known = _known(saved_id, stored.schema, stored.described)
    if known is None:
        return None
    timeline, unsettled = known
    parts = _directory(stored)
    if parts is None:
        return None
    return timeline, StoredSlices(root, parts, stored, unsettled, lambda: listed(timeline))


def _directory(stored: SavedBlocks) -> tuple[Block, ...] | None:
    """What is known of each block; None where it is not ours."""
    try:
        return _BLOCKS.decode(stored.described.get(BLOCKS_METADATA, b""))
    except msgspec.MsgspecError:
        return None


def _known(
    saved_id: str, schema: pa.Schema, described: Mapping[bytes, bytes]
) -> tuple[Timeline, Mapping[str, int]] | None:
    """The timeline of a stored listing, and the number of unsettled slices by reason; None where it is not ours."""
    known = look_described(described.get(SAVED_METADATA, b""))
    if known is None or known[0].id() != saved_id or not schema.equals(STORED_COLUMNS):
        return None
    return known


def look_described(described: bytes) -> tuple[Timeline, Mapping[str, int]] | None:
    """What `described_look` was given; None where another version wrote it."""
    try:
        about = _ABOUT.decode(described)
        if about.written_by != _writer():
            return None
        raw = b64decode(about.properties, validate=True)
    except (msgspec.MsgspecError, ValueError):
        return None
    properties = HudiProperties(parse_properties(raw.decode("utf-8", "replace")), raw)
    return Timeline(properties, about.names, about.history, about.schemas), about.unsettled
