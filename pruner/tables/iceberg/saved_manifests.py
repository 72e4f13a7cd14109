"""Decoded manifests in a form that is stored beside indexes, so that other processes need not decode them again.

A manifest never changes, so its decoded form is valid as long as a snapshot lists it. Its key is its whole row in the
manifest list: a different file at the path of an old manifest has a different row.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import xxhash

from pruner.arrow import arrow, as_numpy, binary_array, nulls, number_array, text_array
from pruner.tables.iceberg.manifests import FILE_COLUMNS, METRICS, FieldMetrics, Manifest, ManifestFile
from pruner.tables.source import SavedLook

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST_FILES: Final = 1_000
"""Minimum number of files for storing manifests: decoding fewer is faster than reading another file."""

MOST_BYTES: Final = 1 << 29
"""Maximum size of all that is stored."""

_ID: Final = "iceberg manifests 1 "
"""The prefix of the ids of saved looks; the number is that of the layout."""

_LINE: Final = ("length", "spec_id", "content", "sequence_number", "snapshot_id")
_STREAMS: Final = ("files", "partitions", *METRICS)
_COLUMNS: Final = pa.schema(
    [
        pa.field("path", pa.string()),
        *(pa.field(name, pa.int64()) for name in _LINE),
        *(pa.field(name, pa.binary()) for name in _STREAMS),
    ]
)
_log = logging.getLogger("pruner")


class SavedManifests:
    """The manifests that another process saved. They are unpacked one by one, when a snapshot lists them."""

    def __init__(self, saved: SavedLook | None = None) -> None:
        """A saved look of another layout is ignored."""
        self._rows: dict[ManifestFile, int] = {}
        if saved is not None and saved.id.startswith(_ID) and saved.table.schema.equals(_COLUMNS):
            self._table = saved.table
            columns: list[list[Any]] = [
                saved.table.column(name).to_pylist()
                for name in ("path", "spec_id", "content", "sequence_number", "length", "snapshot_id")
            ]
            lines = (ManifestFile(*line) for line in zip(*columns, strict=True))
            self._rows = {line: row for row, line in enumerate(lines)}

    def manifest(self, line: ManifestFile) -> Manifest | None:
        """A manifest as it was saved; None where it is missing or damaged."""
        row = self._rows.get(line)
        if row is None:
            return None
        try:
            # Streams are padded to eight bytes, so that each is aligned for numbers and not copied.
            return _unpacked({name: self._table.column(name)[row].as_buffer() for name in _STREAMS})
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("%s is decoded again, because what was saved of it is damaged: %s", line.path, error)
            return None


def saved_manifests(manifests: Mapping[ManifestFile, Manifest], stored: str | None) -> SavedLook | None:
    """Return the manifests of a snapshot in a form that can be stored.

    Args:
        manifests: all of them, by their rows of the manifest list.
        stored: id of the look that is already stored.

    Returns:
        None where they are the stored ones, or too few or too many to be stored.
    """
    id_ = _ID + xxhash.xxh3_128_hexdigest(repr(sorted(map(repr, manifests))).encode())
    if id_ == stored or sum(manifest.files.num_rows for manifest in manifests.values()) < LEAST_FILES:
        return None
    packed = [_packed(manifest) for manifest in manifests.values()]
    if sum(len(data) for part in packed for data in part.values()) > MOST_BYTES:
        return None
    columns: dict[str, Any] = {"path": text_array([line.path for line in manifests])}
    for name in _LINE:
        columns[name] = number_array(
            np.array([getattr(line, name) for line in manifests], np.int64), pa.int64()
        )
    for name in _STREAMS:
        columns[name] = binary_array([part[name] for part in packed])
    return SavedLook(
        id_, arrow.Table.from_arrays([columns[name] for name in _COLUMNS.names], schema=_COLUMNS)
    )


def _packed(manifest: Manifest) -> dict[str, bytes]:
    tables: dict[str, Any] = {"files": manifest.files}
    tables["partitions"] = arrow.Table.from_arrays(
        list(manifest.partitions.values()), names=[str(id_) for id_ in manifest.partitions]
    )
    for name, metrics in manifest.metrics.items():
        columns = [
            number_array(metrics.rows, pa.int32()),
            number_array(metrics.ids, pa.int32()),
            metrics.values,
        ]
        tables[name] = arrow.Table.from_arrays(columns, names=["row", "id", "value"])
    return {name: _stream(table) for name, table in tables.items()}


def _stream(table: Any) -> bytes:
    sink: Any = pa.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()


def _unpacked(streams: Mapping[str, pa.Buffer]) -> Manifest:
    """The manifest that `_packed` packed.

    Raises:
        ValueError, ArrowException: these are not such streams.
    """
    tables = {name: arrow.ipc.open_stream(data).read_all() for name, data in streams.items()}
    files = tables["files"]
    if not files.schema.equals(FILE_COLUMNS):
        raise ValueError("it has other columns")
    partitions = {
        int(name): _whole(tables["partitions"].column(name)) for name in tables["partitions"].column_names
    }
    if any(len(partition) != files.num_rows for partition in partitions.values()):
        raise ValueError("it has more partitions than files, or fewer")
    metrics: dict[str, FieldMetrics] = {}
    for name in METRICS:
        rows, ids, values = (_whole(tables[name].column(literal)) for literal in ("row", "id", "value"))
        numbers = as_numpy(rows)
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < files.num_rows:
            raise ValueError("it has metrics of files that it has not")
        metrics[name] = FieldMetrics(numbers, as_numpy(ids), values)
    return Manifest(files, partitions, metrics)


def _whole(column: Any) -> Any:
    """A column as one array."""
    chunks = column.chunks
    return chunks[0] if len(chunks) == 1 else arrow.concat_arrays([nulls(0, column.type), *chunks])
