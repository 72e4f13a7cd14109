"""Segments: plain Parquet files that any tool reads, with a suffix that no glob for data files matches."""

from __future__ import annotations

import re
import uuid
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pruner.arrow import arrow, compute, rows_in_runs
from pruner.errors import FormatError, StorageError
from pruner.limits import SEGMENT_SLICES
from pruner.metadata import ranged
from pruner.metadata.definitions import now
from pruner.metadata.log import checksum_of
from pruner.metadata.pages import PAGES, write_pages
from pruner.metadata.ranged import RANGED_FROM, Blocks
from pruner.metadata.state import FILES, FORMAT_VERSION, Count, Run, SegmentEntry, Tail
from pruner.storage.store import LargerError
from pruner.tables.slice_keys import digest_runs
from pruner.tables.source import JoinedBlocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.metadata.definitions import IndexDefinition
    from pruner.metadata.pages import PageLayout
    from pruner.metadata.state import SavedSnapshot
    from pruner.storage.store import Store
    from pruner.tables.snapshot import Snapshot

SUFFIX = ".pidx"
"""Suffix of a segment's file name."""
SLICE_COLUMN = "__slice"
"""Column of every record outside `files`: the local ordinal of its slice in the batch (int32)."""
SLICE_FIELD = pa.field(SLICE_COLUMN, pa.int32(), nullable=False)
"""The same as a field of a schema."""
SEGMENT_BYTES = 1 << 31
"""Largest segment that a reader accepts, as a file."""
SEGMENT_UNPACKED_BYTES = 1 << 33
"""Largest segment that a reader accepts, after decompression."""
OWN_METADATA = b"pruner."
"""Prefix of those keys of a table's metadata that are stored with it."""
ROW_GROUP_ROWS = 1 << 20
"""Most rows of a row group: usually there is one row group."""

# Created once: creating a type's decoder in two threads at once can crash the process (msgspec).
_RUNS = msgspec.json.Decoder(tuple[tuple[Count, Count, Count], ...])

_PARTITION = re.compile(r"(?!(log|staging|finished)$)[a-z][a-z0-9_]{0,200}")

BATCH_SCHEMA = pa.schema(
    [
        pa.field("slice_key", pa.binary(16), nullable=False),
        pa.field("partition_path", pa.string(), nullable=False),
        pa.field("file_id", pa.string(), nullable=False),
        pa.field(
            "base_file", pa.string()
        ),  # relative to the root of the table; a URI when it lies below another root
        pa.field("base_size", pa.int64()),
        pa.field("base_version", pa.string()),
        pa.field("base_instant", pa.string()),
    ]
)
"""Columns of a slice batch: the key on which records are joined, and for display what it identifies."""


REMEDY = "drop the index and create it again"
SAVED_REMEDY = "no answer depends on it, and compact stores it anew"
"""What to do about a damaged segment, and about a damaged saved snapshot."""


ORDER = b"pruner.order"
"""Metadata key of a snapshot's first segment: the order of blocks, as runs of a segment's number, the first of its
blocks, and the number of blocks.
"""

GONE = b"pruner.gone"
"""Metadata key of changes: which rows of the stored listing are gone, ascending, 4 bytes each, in Base64."""


def slice_keys(batch: pa.Table) -> pa.Array[Any]:
    """The keys of the slices of a batch, in its order."""
    keys: Any = batch.column("slice_key").combine_chunks()
    return keys


def batch_table(snapshot: Snapshot, ordinals: NDArray[np.intp], rows: pa.Table | None = None) -> pa.Table:
    """Return the slice batch of some slices of a snapshot: local ordinal i is the slice `ordinals[i]`.

    `rows` are the rows of these slices, if the caller has them.
    """
    at = pa.array(ordinals, type=pa.int64())
    columns = snapshot.rows(at) if rows is None else rows
    held_columns: dict[str, Any] = {
        "slice_key": snapshot.keys.take(at),
        "partition_path": snapshot.partitions.paths.take(columns.column("partition").combine_chunks()),
        "file_id": columns.column("file_id"),
        "base_file": relative_files(columns.column("base_file"), snapshot.root),
        "base_size": columns.column("base_size"),
        "base_version": columns.column("base_version"),
        "base_instant": columns.column("base_instant"),
    }
    return pa.table(held_columns, schema=BATCH_SCHEMA)


def relative_files(uris: pa.ChunkedArray[Any], root: str) -> Any:
    """Return URIs of base files in the form of a batch: relative to the first root if they are below it."""
    prefix = root.rstrip("/") + "/"
    below = compute.starts_with(uris, pattern=prefix)
    relative = compute.utf8_slice_codeunits(uris, start=len(prefix))
    return compute.if_else(below, relative, uris)


def write_segment(
    store: Store,
    partition: str,
    table: pa.Table,
    *,
    definition: IndexDefinition | None,
    field: tuple[str, ...] | None,
    batch: SegmentEntry | None,
    in_parts: bool = False,
    layout: PageLayout | Blocks | None = None,
) -> SegmentEntry:
    """Write a segment under a unique name; no reader sees it before its entry is committed.

    With `in_parts` a large segment is written so that readers can read single columns of it; `layout` says how it
    is cut if readers read pages or blocks.

    Raises:
        StorageError: it is larger than readers accept, or the store failed.
    """
    if not _PARTITION.fullmatch(partition) or (partition == FILES) is not (definition is None):
        raise StorageError(f"{partition!r} cannot be a partition of the metadata table")
    identifier = uuid.uuid4().hex
    path = f"{partition}/{identifier}{SUFFIX}"
    described = _described(table, identifier, partition, definition, field, batch)
    tail: Tail | None = None
    pages: SegmentEntry | None = None
    if isinstance(layout, Blocks) or (in_parts and table.nbytes >= RANGED_FROM):
        blocks = layout.rows if isinstance(layout, Blocks) else _row_groups(table)
        options = _bits_as_they_are(table) if layout is None else _in_blocks(table)
        data, tail_size = ranged.written(described, options, blocks)
        tail = Tail(size=tail_size, checksum=checksum_of(data[-tail_size:]))
    elif layout is not None:
        data, directory = write_pages(described, layout)
        pages = write_segment(store, PAGES, directory, definition=definition, field=field, batch=batch)
    else:
        data = _to_parquet(described)
    if len(data) > SEGMENT_BYTES:
        raise StorageError(f"a segment of {partition} has {len(data)} bytes, more than readers accept")
    store.put_new(path, data)
    return SegmentEntry(
        id=identifier,
        partition=partition,
        path=path,
        size=len(data),
        checksum=checksum_of(data),
        rows=table.num_rows,
        definition=definition.uuid if definition else None,
        field=field,
        batch=batch.id if batch else None,
        record_version=definition.record_version if definition else 1,
        created_at=now(),
        tail=tail,
        pages=pages,
        run=_run_of(table) if table.schema.names == BATCH_SCHEMA.names else None,
    )


def _run_of(batch: pa.Table) -> Run | None:
    """What identifies the slices of a batch to a reader; None for an empty batch."""
    keys = slice_keys(batch)
    if not len(keys):
        return None
    (digest,) = digest_runs(keys, np.array([0]), np.array([len(keys)]))
    return Run(first=keys[0].as_py().hex(), digest=digest.hex())


def _described(
    table: pa.Table,
    identifier: str,
    partition: str,
    definition: IndexDefinition | None,
    field: tuple[str, ...] | None,
    batch: SegmentEntry | None,
) -> pa.Table:
    """The records with metadata that describes them, for readers that find the file without the log."""
    about = {
        "format_version": FORMAT_VERSION,
        "id": identifier,
        "partition": partition,
        "definition": definition.uuid if definition else None,
        "index": definition.name if definition else None,
        "field": field,
        "batch": batch.id if batch else None,
    }
    own = {key: value for key, value in (table.schema.metadata or {}).items() if key.startswith(OWN_METADATA)}
    return table.replace_schema_metadata({**own, b"pruner.segment": msgspec.json.encode(about)})


def _bits_as_they_are(table: pa.Table) -> dict[str, Any]:
    """Options for columns that are read one by one: bytes are not compressed and have no statistics in the footer."""
    schema: Any = table.schema
    raw = _raw(table)
    return {
        "compression": {field.name: "none" if field.name in raw else "zstd" for field in schema},
        "use_dictionary": [field.name for field in schema if _repeats(field.type)],
        "column_encoding": dict.fromkeys(raw, "DELTA_LENGTH_BYTE_ARRAY"),
        "write_statistics": [field.name for field in schema if field.name not in raw],
        "write_page_checksum": True,
        "data_page_size": 1 << 30,
    }


def _row_groups(table: pa.Table) -> list[int]:
    """The number of rows of each row group, by default."""
    starts = range(0, table.num_rows, ROW_GROUP_ROWS)
    return [min(ROW_GROUP_ROWS, table.num_rows - start) for start in starts]


def _in_blocks(table: pa.Table) -> dict[str, Any]:
    """Options for a saved snapshot: keys, which are random, are not compressed, and no reader needs statistics."""
    schema: Any = table.schema
    keys = {field.name for field in schema if pa.types.is_fixed_size_binary(field.type)}
    return {
        "compression": {field.name: "none" if field.name in keys else "zstd" for field in schema},
        "use_dictionary": [field.name for field in schema if pa.types.is_dictionary(field.type)],
        "write_statistics": False,
        "write_page_checksum": True,
    }


def _raw(table: pa.Table) -> list[str]:
    """The columns of bytes, whose bounds no reader needs: a footer would repeat both values."""
    schema: Any = table.schema
    return [field.name for field in schema if pa.types.is_large_binary(field.type)]


def packed_size(table: pa.Table) -> int:
    """Size of some records as a segment, in bytes."""
    return len(_to_parquet(table))


def _to_parquet(table: pa.Table) -> bytes:
    # Keys and numbers hardly repeat; a dictionary would be tried and abandoned.
    repeating: Any = [
        name for name, kind in zip(table.column_names, table.schema.types, strict=True) if _repeats(kind)
    ]
    raw = _raw(table)
    sink = pa.BufferOutputStream()
    parquet: Any = pq  # its stubs lack some options
    parquet.write_table(
        table,
        sink,
        row_group_size=ROW_GROUP_ROWS,
        compression="zstd",
        use_dictionary=repeating,
        write_statistics=[name for name in table.column_names if name not in raw],
        write_page_checksum=True,
    )
    return sink.getvalue().to_pybytes()


def _repeats(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def read_segment(
    store: Store, entry: SegmentEntry, only: Sequence[str] | None = None, but: Sequence[str] = ()
) -> pa.Table:
    """Return the records of a segment, verified against its entry before anything is parsed.

    Args:
        store: where the segment is.
        entry: its entry in the log.
        only: names of the columns to return; by default all.
        but: names of columns to leave out.

    Raises:
        NotFoundError: it does not exist (any more).
        FormatError: its bytes are not those that were committed.
    """
    table = _read(store, entry, only, but, REMEDY).replace_schema_metadata(None)
    if entry.partition == FILES:
        _check_batch(table, f"{store.uri}/{entry.path}")
    return table


def read_saved(store: Store, saved: SavedSnapshot) -> pa.Table:
    """Return the verified last snapshot with the metadata of its schema.

    Raises:
        NotFoundError: it does not exist (any more).
        FormatError: its bytes are not those that were committed.
        StorageError: it cannot be read.
    """
    table = read_part(store, saved.segment)
    if saved.parts:
        for part in saved.parts:
            read_part(store, part)  # verified as a whole, including blocks that are not in the order
        blocks = saved_blocks(store, saved)
        return blocks.read(blocks.schema.names).replace_schema_metadata(table.schema.metadata)
    if saved.changes is None:
        return table
    changes = read_part(store, saved.changes)
    stays = np.ones(table.num_rows, np.bool_)
    try:
        stays[_gone(changes, table)] = False
    except (KeyError, ValueError):
        where = f"{store.uri}/{saved.changes.path}"
        raise FormatError(
            f"the segment {where} does not fit the snapshot that it changes: {SAVED_REMEDY}"
        ) from None
    parts = [rows_in_runs(table, np.flatnonzero(stays)), changes]
    whole = arrow.concat_tables([part.replace_schema_metadata(None) for part in parts])
    return whole.replace_schema_metadata(changes.schema.metadata)


def changes_table(table: pa.Table, gone: NDArray[np.int64]) -> pa.Table:
    """Return the added rows, and the ordinals of the removed ones, in the form that `read_saved` reads."""
    data = b64encode(gone.astype("<i4").tobytes())
    return table.replace_schema_metadata({**(table.schema.metadata or {}), GONE: data})


def in_order(table: pa.Table, order: Sequence[tuple[int, int]]) -> pa.Table:
    """Return the first segment of a snapshot in blocks with the order of the blocks added to its metadata; `order` has
    the number of the segment and of the block in it.
    """
    runs: list[list[int]] = []
    for segment, block in order:
        if runs and runs[-1][0] == segment and sum(runs[-1][1:]) == block:
            runs[-1][2] += 1
        else:
            runs.append([segment, block, 1])
    return table.replace_schema_metadata({**(table.schema.metadata or {}), ORDER: msgspec.json.encode(runs)})


def saved_blocks(store: Store, saved: SavedSnapshot) -> JoinedBlocks:
    """Return the blocks of a saved snapshot; only the footers of its segments are read and verified.

    Raises:
        FormatError: it has no blocks, or a footer is not what was committed.
        StorageError: one cannot be read.
    """
    first, *others = parts = [block_segment(store, entry) for entry in (saved.segment, *saved.parts)]
    if not all(other.schema.equals(first.schema) for other in others):
        raise FormatError(f"the segments of the saved snapshot of {store.uri} have different columns")
    pieces = [(parts[segment], block) for segment, block in _order(first, [len(part.rows) for part in parts])]
    return JoinedBlocks(first.schema, pieces, first.described)


def block_segment(store: Store, entry: SegmentEntry) -> ranged.RangedSegment:
    """Return one segment of a saved snapshot in blocks; raises as `saved_blocks` does."""
    return ranged.RangedSegment(store, entry, SAVED_REMEDY)


def _order(first: ranged.RangedSegment, counts: Sequence[int]) -> list[tuple[int, int]]:
    """The segment of each block and its number there, in the order of the snapshot.

    Raises:
        FormatError: the order cannot be parsed, or is that of other blocks.
    """
    try:
        runs = _RUNS.decode(first.described[ORDER])
    except KeyError:
        return [(segment, block) for segment, count in enumerate(counts) for block in range(count)]
    except msgspec.MsgspecError:
        raise FormatError("the saved snapshot has its blocks in an order that is not understood") from None
    if not all(segment < len(counts) and block + count <= counts[segment] for segment, block, count in runs):
        raise FormatError("the saved snapshot has other blocks than its order says")
    return [(segment, block + at) for segment, block, count in runs for at in range(count)]


def _gone(changes: pa.Table, table: pa.Table) -> NDArray[np.int64]:
    """The rows of a stored listing that are gone, ascending.

    Raises:
        KeyError, ValueError: the changes do not state them, or are about another listing.
    """
    data = b64decode((changes.schema.metadata or {})[GONE], validate=True)
    rows = np.frombuffer(data, "<i4").astype(np.int64)
    if not changes.schema.equals(table.schema) or not ((rows >= 0) & (rows < table.num_rows)).all():
        raise ValueError(GONE)
    return rows


def read_part(store: Store, entry: SegmentEntry, only: Sequence[str] | None = None) -> pa.Table:
    """Return the verified part of the last snapshot that one segment holds, with the metadata of its schema; raises as
    `read_segment` does.
    """
    return _read(store, entry, only, (), SAVED_REMEDY)


def _read(
    store: Store, entry: SegmentEntry, only: Sequence[str] | None, but: Sequence[str], remedy: str
) -> pa.Table:
    where = f"{store.uri}/{entry.path}"
    if entry.size > SEGMENT_BYTES:
        raise FormatError(
            f"the segment {where} has {entry.size} bytes, more than the {SEGMENT_BYTES} allowed"
        )
    data = _get(store, entry, where, remedy)
    if checksum_of(data) != entry.checksum:
        raise FormatError(f"the segment {where} fails its checksum: {remedy}")
    try:
        file: Any = pq.ParquetFile(pa.BufferReader(data))
        unpacked = sum(
            file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups)
        )
        if file.metadata.num_rows != entry.rows or unpacked > SEGMENT_UNPACKED_BYTES:
            raise FormatError(
                f"the segment {where} does not hold the {entry.rows} rows that were committed: {remedy}"
            )
        names = [name for name in only or file.schema_arrow.names if name not in but]
        table: pa.Table = file.read(columns=names, use_threads=False)
    except (pa.ArrowException, OSError):
        raise FormatError(f"the segment {where} is not a Parquet file: {remedy}") from None
    return table


def _get(store: Store, entry: SegmentEntry, where: str, remedy: str) -> bytes:
    try:
        data = store.get(entry.path, entry.size)
    except LargerError:
        size = f"more than {entry.size}"
    else:
        if len(data) == entry.size:
            return data
        size = str(len(data))
    raise FormatError(f"the segment {where} has {size} bytes where {entry.size} were written: {remedy}")


def _check_batch(table: pa.Table, where: str) -> None:
    columns = list(zip(BATCH_SCHEMA.names, BATCH_SCHEMA.types, strict=True))
    held_columns = list(zip(table.schema.names, table.schema.types, strict=True))[: len(columns)]
    if held_columns != columns or table.num_rows > SEGMENT_SLICES:
        raise FormatError(f"the slice batch {where} does not have the columns of one")
