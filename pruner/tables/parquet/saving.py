"""The schemas of a Parquet table's files as they are stored between processes, so that each footer is read once.

So are the fingerprints by which files are known again of which only the change time moved.

A slice key holds path, size and version of a file (on local disk its times and inode), so a file that was written anew
has another one. Files too young to be told from their successor are left out (rule R4), broken ones as well.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, compute, empty_table, number_array, positions
from pruner.tables.listing.touched import PRINTS
from pruner.tables.snapshot import SLICE_KEY_BYTES
from pruner.tables.source import SAVED_METADATA, SavedLook
from pruner.version import __version__

if TYPE_CHECKING:
    from pruner.tables.snapshot import Snapshot

STORED_COLUMNS = pa.schema(
    [
        pa.field("slice_key", pa.binary(SLICE_KEY_BYTES), nullable=False),
        pa.field("schema", pa.int32(), nullable=False),  # ordinal among the schemas in the metadata
        pa.field(
            "still_key", pa.binary(SLICE_KEY_BYTES)
        ),  # of a local file: see `pruner.tables.listing.touched`
        pa.field("version", pa.string()),
        pa.field("fingerprint", pa.binary(16)),
    ]
)
"""Columns of the stored form."""


_PRINT_COLUMNS = [name for name in PRINTS.names if name != "slice_key"]


class _About(msgspec.Struct, frozen=True):
    """What is no column: who wrote it, and the distinct schemas, each as an Arrow IPC message in Base64."""

    written_by: str
    schemas: tuple[str, ...]


def _writer() -> str:
    return f"parquet types pruner {__version__} pyarrow {pa.__version__}"


def save(snapshot: Snapshot, prints: pa.Table) -> SavedLook | None:
    """Return the schemas of a snapshot's files in the form that is stored; None where none is known.

    Args:
        snapshot: the last look.
        prints: the files' fingerprints, as `touched.PRINTS` has them.
    """
    schemas = snapshot.file_schemas
    if schemas is None:
        return None
    kept = np.flatnonzero((schemas.ordinals >= 0) & snapshot.coverable)
    keys = snapshot.keys.take(positions(kept))
    known = prints.take(compute.index_in(keys, value_set=prints.column("slice_key").combine_chunks()))
    columns: dict[str, Any] = {
        "slice_key": keys,
        "schema": number_array(schemas.ordinals[kept], pa.int32()),
        **{name: known.column(name) for name in _PRINT_COLUMNS},
    }
    texts = tuple(b64encode(schema.serialize().to_pybytes()).decode() for schema in schemas.distinct)
    about = {SAVED_METADATA: msgspec.json.encode(_About(_writer(), texts))}
    return SavedLook(snapshot.id, pa.table(columns, schema=STORED_COLUMNS).replace_schema_metadata(about))


def load(saved: SavedLook) -> dict[bytes, pa.Schema]:
    """Return the stored schemas by slice key; none where the stored form is not ours."""
    table = saved.table
    try:
        about = msgspec.json.decode((table.schema.metadata or {}).get(SAVED_METADATA, b""), type=_About)
        if about.written_by != _writer() or not table.schema.equals(STORED_COLUMNS):
            return {}
        messages = [b64decode(text, validate=True) for text in about.schemas]
        schemas: list[pa.Schema] = [arrow.ipc.read_schema(pa.py_buffer(data)) for data in messages]
        keys = cast("list[bytes]", table.column("slice_key").to_pylist())
        ordinals = cast("list[int]", table.column("schema").to_pylist())
        return {key: schemas[ordinal] for key, ordinal in zip(keys, ordinals, strict=True)}
    except (msgspec.MsgspecError, ValueError, IndexError, pa.ArrowException):
        return {}


def load_prints(saved: SavedLook) -> pa.Table:
    """Return the stored fingerprints; none where the stored form is not ours."""
    if not saved.table.schema.equals(STORED_COLUMNS):
        return empty_table(PRINTS)
    found = saved.table.select(PRINTS.names)
    return found.filter(found.column("fingerprint").is_valid()).cast(PRINTS).combine_chunks()
