"""Checkpoints of Delta's log as Arrow columns: classic, multi-part, and V2 with sidecars.

The statistics, which are most of their bytes, stay in the files until they are needed (`DeltaStatistics`).
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pruner.arrow import arrow, as_numpy, compute, number_array
from pruner.errors import StorageError, TableError, first_line
from pruner.storage.opening import open_for_arrow
from pruner.storage.store import NotFoundError
from pruner.tables.delta.actions import LogReplay, Metadata, Protocol, Sidecar, actions_of, convert, decoded
from pruner.tables.delta.log import MOST_BYTES
from pruner.tables.listing.foreign import DELTA_LOG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pruner.storage.store import ObjectInfo, Store
    from pruner.tables.delta.actions import Add
    from pruner.tables.delta.log import Checkpoint

VECTOR: Final = pa.struct(
    [
        pa.field("storageType", pa.string()),
        pa.field("pathOrInlineDv", pa.string()),
        pa.field("offset", pa.int32()),
        pa.field("sizeInBytes", pa.int32()),
        pa.field("cardinality", pa.int64()),
    ]
)

_TEXTS: Final = pa.map_(pa.string(), pa.string())

FILE_COLUMNS: Final = pa.schema(
    [
        pa.field(
            "path", pa.string(), nullable=False
        ),  # decoded; relative to the root, or a URI as the log has it
        pa.field("size", pa.int64(), nullable=False),
        pa.field("partitionValues", _TEXTS),
        pa.field("deletionVector", VECTOR),
        pa.field("part", pa.int32(), nullable=False),  # where its statistics are: `DeltaState.parts`
        pa.field("row", pa.int64(), nullable=False),  # and the row in that part
    ]
)
"""What is known of each file of the table without reading its statistics."""

AT_ONCE: Final = 4096
"""Files whose statistics are in memory at once, as strings and as Python objects."""

_SIDECARS: Final = f"{DELTA_LOG}/_sidecars"
_MOST_PARSED: Final = 8
"""Columns of a part whose statistics stay cached."""

_SMALL: Final = ("metaData", "protocol", "sidecar")
_EAGER: Final = ("path", "size", "partitionValues", "deletionVector")


class Parsed:
    """A cache of a part's parsed statistics, for the columns used last."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], pa.Table] = {}
        self._lock = Lock()

    def get(self, key: tuple[Any, ...]) -> pa.Table | None:
        """Return the cached records of a column."""
        with self._lock:
            values = self._found.pop(key, None)
            if values is not None:
                self._found[key] = values
            return values

    def put(self, key: tuple[Any, ...], records: pa.Table) -> None:
        """Cache the records of a column and evict the least recently used."""
        with self._lock:
            self._found[key] = records
            while len(self._found) > _MOST_PARSED:
                del self._found[next(iter(self._found))]


class CheckpointPart:
    """A Parquet file that lists files of the table, whose statistics are read on demand."""

    def __init__(self, uri: str, size: int | None, options: Mapping[str, str]) -> None:
        self.uri = uri
        self._size = size
        self._options = options
        self.parsed = Parsed()

    def open(self) -> pq.ParquetFile:
        """Open the file.

        Raises:
            TableError: it is not a Parquet file, or missing.
            StorageError: it cannot be read.
        """
        try:
            opened = open_for_arrow(self.uri, self._size, self._options)
            # INT96, which Spark writes by default, holds days that nanoseconds since 1970 do not reach.
            return pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
        except (OSError, pa.ArrowException, NotFoundError) as error:
            raise _unreadable(self.uri, error) from None

    def statistics(self) -> Iterator[pa.Table]:
        """Yield the columns `stats` and `stats_parsed`, where present, a row for each row of the file, in batches:
        holding all strings in memory takes three times as long.

        Raises:
            TableError: it no longer exists, or is damaged.
            StorageError: it cannot be read.
        """
        file: Any = self.open()  # whose stubs leave types open
        wanted = ["add.stats", "add.stats_parsed"]
        try:
            for batch in file.iter_batches(AT_ONCE, columns=wanted, use_threads=False):
                if batch.num_columns:
                    flat = arrow.table(batch).flatten()
                    yield flat.rename_columns([name.removeprefix("add.") for name in flat.column_names])
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(self.uri, error) from None


class CommitPart:
    """Files that commits added, whose statistics are already in memory."""

    def __init__(self, stats: Sequence[str | None]) -> None:
        self.table: pa.Table = arrow.table({"stats": arrow.array(stats, pa.string())})
        """The column `stats`, a row for each file."""
        self.parsed = Parsed()

    def __len__(self) -> int:
        return self.table.num_rows

    def statistics(self) -> Iterator[pa.Table]:
        """Yield the same in batches."""
        for start in range(0, len(self), AT_ONCE):
            yield self.table.slice(start, AT_ONCE)


def unread(files: Iterable[Add], part: int) -> tuple[pa.Table, CommitPart]:
    """The files that commits added, as `FILE_COLUMNS`, with the part that has their statistics."""
    adds = list(files)
    vectors = [None if add.deletion_vector is None else _vector_row(add) for add in adds]
    columns: list[Any] = [
        arrow.array([add.path for add in adds], pa.string()),
        arrow.array([add.size for add in adds], pa.int64()),
        arrow.array([list(add.partition_values.items()) for add in adds], _TEXTS),
        arrow.array(vectors, VECTOR),
        number_array(np.full(len(adds), part, np.int32), pa.int32()),
        number_array(np.arange(len(adds), dtype=np.int64), pa.int64()),
    ]
    return pa.table(columns, schema=FILE_COLUMNS), CommitPart([add.stats for add in adds])


def _vector_row(add: Add) -> dict[str, Any]:
    assert add.deletion_vector is not None
    return msgspec.to_builtins(add.deletion_vector)


class CheckpointContents:
    """The contents of a checkpoint: the files, and where their statistics are."""

    def __init__(self) -> None:
        self.metadata: Metadata | None = None
        self.protocol: Protocol | None = None
        self.tables: list[pa.Table] = []
        self.parts: list[CheckpointPart | CommitPart] = []


def load_checkpoint(store: Store, options: Mapping[str, str], checkpoint: Checkpoint) -> CheckpointContents:
    """Read a checkpoint.

    Raises:
        TableError: one of its files is missing or damaged, or it lacks the metadata or the protocol.
        StorageError: it cannot be read.
    """
    loaded = CheckpointContents()
    sidecars: list[Sidecar] = []
    for info in checkpoint.files:
        if info.path.endswith(".json"):
            sidecars += _load_json(store, info, loaded)
        else:
            sidecars += _load_parquet(f"{store.uri}/{info.path}", info.size, options, loaded)
    for sidecar in sidecars:
        # The path of a sidecar may have folders, even of a former location of the table; the file is always here.
        name = decoded(sidecar.path).rpartition("/")[2]
        uri = f"{store.uri}/{_SIDECARS}/{name}"
        _load_parquet(uri, sidecar.size_in_bytes, options, loaded, top=False)
    if loaded.metadata is None or loaded.protocol is None:
        lacking = "metaData" if loaded.metadata is None else "protocol"
        raise TableError(
            f"the checkpoint {store.uri}/{checkpoint.files[0].path} has no action {lacking}: remove it"
        )
    return loaded


def _load_json(store: Store, info: ObjectInfo, loaded: CheckpointContents) -> list[Sidecar]:
    seen = LogReplay()
    seen.take(actions_of(store.get(info.path, MOST_BYTES), f"{store.uri}/{info.path}"))
    loaded.metadata, loaded.protocol = seen.metadata, seen.protocol
    table, part = unread(seen.added(), len(loaded.parts))
    loaded.tables.append(table)
    loaded.parts.append(part)
    return seen.sidecars


def _load_parquet(
    uri: str, size: int | None, options: Mapping[str, str], loaded: CheckpointContents, *, top: bool = True
) -> list[Sidecar]:
    part = CheckpointPart(uri, size, options)
    file = part.open()
    sidecars: list[Sidecar] = []
    if top:
        small = read_columns(file, list(_SMALL), uri)
        loaded.metadata = _one(small, "metaData", Metadata, uri) or loaded.metadata
        loaded.protocol = _one(small, "protocol", Protocol, uri) or loaded.protocol
        sidecars = [_converted(row, Sidecar, uri) for row in _rows(small, "sidecar", "path")]
    table = _files(read_columns(file, [f"add.{name}" for name in _EAGER], uri), len(loaded.parts), uri)
    if table.num_rows:
        loaded.tables.append(table)
        loaded.parts.append(part)
    return sidecars


def read_columns(file: pq.ParquetFile, columns: Sequence[str], uri: str) -> pa.Table:
    """Read those of some columns that the file has.

    They are too few for threads, which would take twice the CPU time.

    Raises:
        TableError: the file is damaged.
        StorageError: it cannot be read.
    """
    parquet: Any = file  # whose stubs leave types open
    try:
        return parquet.read(columns=list(columns), use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(uri, error) from None


def _unreadable(uri: str, error: Exception) -> TableError | StorageError:
    if isinstance(error, StorageError) and not isinstance(error, NotFoundError):
        return error
    missing = isinstance(error, FileNotFoundError | NotFoundError)
    what = "is missing" if missing else f"cannot be read ({first_line(error)})"
    root, _, name = uri.rpartition(f"/{DELTA_LOG}/")
    return TableError(
        f"{root} is a Delta table whose checkpoint {name} {what}, so that it is not known which files belong to it: "
        "restore that file"
    )


def _files(columns: pa.Table, part: int, uri: str) -> pa.Table:
    """The files of a checkpoint as `FILE_COLUMNS`."""
    if "add" not in columns.column_names:
        return FILE_COLUMNS.empty_table()
    adds: Any = columns.column("add").combine_chunks()
    there = compute.and_(adds.is_valid(), adds.field("path").is_valid())
    rows = np.flatnonzero(as_numpy(there)).astype(np.int64)
    files = adds if len(rows) == len(adds) else adds.filter(there)
    names = {field.name for field in files.type}
    count = len(rows)
    try:
        arrays: list[Any] = [
            _decoded(files.field("path")),
            files.field("size").cast(pa.int64()),
            _or_null(files, names, "partitionValues", _TEXTS),
            _or_null(files, names, "deletionVector", VECTOR),
            number_array(np.full(count, part, np.int32), pa.int32()),
            number_array(rows, pa.int64()),
        ]
        return pa.table(arrays, schema=FILE_COLUMNS)
    except (pa.ArrowException, KeyError) as error:
        raise TableError(
            f"the checkpoint {uri} has other columns than Delta's: {first_line(error)}"
        ) from None


def _or_null(values: Any, names: set[str], name: str, type_: Any) -> Any:
    if name not in names:
        return arrow.nulls(len(values), type_)
    column = values.field(name)
    if column.type.equals(type_):
        return column
    if not pa.types.is_struct(type_):
        return column.cast(type_)
    given = {field.name for field in column.type}
    fields: list[Any] = list(type_)
    children = [
        column.field(field.name).cast(field.type)
        if field.name in given
        else arrow.nulls(len(column), field.type)
        for field in fields
    ]
    # For a missing value Spark writes a struct of nulls, other writers a null.
    there = compute.and_(column.is_valid(), children[0].is_valid())
    return arrow.StructArray.from_arrays(children, fields=fields, mask=compute.invert(there))


def _decoded(paths: Any) -> Any:
    paths = paths.cast(pa.string())
    if b"%" not in memoryview(paths.buffers()[2] or b"").tobytes():
        return paths
    encoded = as_numpy(compute.match_substring(paths, "%"))
    texts: list[str] = [decoded(path) for path in paths.filter(pa.array(encoded)).to_pylist()]
    return compute.replace_with_mask(paths, pa.array(encoded), arrow.array(texts, pa.string()))


def _rows(table: pa.Table, name: str, required: str) -> list[dict[str, Any]]:
    if name not in table.column_names:
        return []
    column: Any = table.column(name).combine_chunks()
    return column.filter(compute.and_(column.is_valid(), column.field(required).is_valid())).to_pylist()


def _one(table: pa.Table, name: str, type_: Any, uri: str) -> Any:
    required = "id" if type_ is Metadata else "minReaderVersion"
    rows = _rows(table, name, required)
    if not rows:
        return None
    row: dict[str, Any] = rows[-1]
    if row.get("configuration") is not None:
        row["configuration"] = dict(row["configuration"])
    if isinstance(row.get("format"), dict):
        row["format"] = {"provider": row["format"].get("provider") or "parquet"}
    return _converted(row, type_, uri)


def _converted(row: dict[str, Any], type_: Any, uri: str) -> Any:
    try:
        return convert(row, type_)
    except msgspec.ValidationError as error:
        raise TableError(f"the checkpoint {uri} has an action that is not understood: {error}") from None
