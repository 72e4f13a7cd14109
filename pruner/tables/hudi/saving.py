"""A look at a Hudi table as it is stored between processes: the slices as columns, the timeline beside them.

It is trusted only by the versions that wrote it: another pruner may tell settled slices from others by other rules, and
another hudi-rs may list other files.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from importlib.metadata import version

import msgspec
import pyarrow as pa

from pruner.tables.hudi.properties import HudiProperties, parse_properties
from pruner.tables.hudi.slice_columns import STORED_COLUMNS, HudiColumns
from pruner.tables.hudi.timeline import Timeline
from pruner.tables.source import SAVED_METADATA, SavedLook
from pruner.version import __version__


class _About(msgspec.Struct, frozen=True):
    """What is no column: who wrote it, the timeline with the bytes of its properties in Base64, reasons and counts."""

    written_by: str
    properties: str
    names: tuple[str, ...]
    history: tuple[str, ...]
    schemas: tuple[str, ...]
    unsettled: dict[str, int]


def _writer() -> str:
    return f"hudi pruner {__version__} hudi-rs {version('hudi')}"


def save(timeline: Timeline, columns: HudiColumns) -> SavedLook:
    """Return a look in the form that is stored."""
    about = _About(
        _writer(),
        b64encode(timeline.properties.raw).decode(),
        timeline.names,
        timeline.history,
        timeline.schemas,
        dict(columns.unsettled),
    )
    table = columns.stored().replace_schema_metadata({SAVED_METADATA: msgspec.json.encode(about)})
    return SavedLook(timeline.id(), table)


def load(saved: SavedLook, root: str) -> tuple[Timeline, HudiColumns] | None:
    """Return timeline and slices of a stored look at the table that lies at `root`; None where it is not ours.

    Args:
        saved: what was stored, its bytes verified already.
        root: where the table lies now.
    """
    try:
        about = msgspec.json.decode((saved.table.schema.metadata or {}).get(SAVED_METADATA, b""), type=_About)
        if about.written_by != _writer() or not saved.table.schema.equals(STORED_COLUMNS):
            return None
        raw = b64decode(about.properties, validate=True)
    except (msgspec.MsgspecError, ValueError):
        return None
    properties = HudiProperties(parse_properties(raw.decode("utf-8", "replace")), raw)
    timeline = Timeline(properties, about.names, about.history, about.schemas)
    if timeline.id() != saved.id:
        return None
    try:
        return timeline, HudiColumns.from_stored(root, saved.table, about.unsettled)
    except pa.ArrowException:
        return None
