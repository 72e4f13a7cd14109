"""The schemas of a Parquet table's files as they are stored between processes, so that each footer is read once.

A slice key holds path, size and version of a file (on local disk its times and inode), so a file that was written anew
has another one. Files too young to be told from their successor are left out (rule R4), broken ones as well.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np
import pyarrow as pa

from pruner.arrow import arrow
from pruner.tables.snapshot import SLICE_KEY_BYTES
from pruner.tables.source import SAVED_METADATA, SavedLook
from pruner.version import __version__

if TYPE_CHECKING:
    from pruner.tables.snapshot import Snapshot

STORED_COLUMNS = pa.schema(
    [
        pa.field("slice_key", pa.binary(SLICE_KEY_BYTES), nullable=False),
        pa.field("schema", pa.int32(), nullable=False),  # ordinal among the schemas in the metadata
    ]
)
"""Columns of the stored form."""


class _About(msgspec.Struct, frozen=True):
    """What is no column: who wrote it, and the distinct schemas, each as an Arrow IPC message in Base64."""

    written_by: str
    schemas: tuple[str, ...]


def _writer() -> str:
    return f"parquet types pruner {__version__} pyarrow {pa.__version__}"


def save(snapshot: Snapshot) -> SavedLook | None:
    """Return the schemas of a snapshot's files in the form that is stored; None where none is known."""
    schemas = snapshot.file_schemas
    if schemas is None:
        return None
    kept = np.flatnonzero((schemas.ordinals >= 0) & snapshot.coverable)
    columns = {
        "slice_key": snapshot.keys.take(pa.array(kept, pa.int64())),
        "schema": pa.array(schemas.ordinals[kept]),
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
