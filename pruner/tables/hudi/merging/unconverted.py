"""Tables whose schema hudi-rs does not convert: which of their slices it still merges correctly, and how.

Its reader of file groups also runs without the table. It then takes the schema of the base file as that of the table,
and each log block as committed. So both are checked here. A file group without a base file gets an empty one,
in a folder of its own beside copies of its log files.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from pruner.storage.opening import open_store
from pruner.tables.hudi.avro_schema import arrow_schema
from pruner.tables.hudi.listing import instant_of
from pruner.tables.hudi.logs import BlockType, LogBlock, blocks, log_bytes
from pruner.tables.hudi.merging.hudi_rs import PlainRoot, hudi_rs
from pruner.tables.listing.foreign import HUDI_PROPERTIES

if TYPE_CHECKING:
    import hudi

    from pruner.schema import Field
    from pruner.tables.snapshot import FileSlice, Snapshot

_NAMED_BY_INSTANT = 8
"""The table version from which a log file holds only blocks of the instant that is in its name, and never grows."""

_PROPERTIES_BYTES = 1 << 20
_EMPTY_BASE = "empty.parquet"
_INSTANT_DIGITS = 17
_write_parquet: Any = getattr(pq, "write_table")  # noqa: B009 - its stub leaves types open


class NotAlone(ValueError):  # noqa: N818 - says what is the case
    """The reader cannot merge a slice without the table; the text is a clause."""


def has_wall_clock(type_: pa.DataType) -> bool:
    """Tell whether a column of a Hudi table holds timestamps without a zone, which hudi-rs cannot convert."""
    kind: Any = type_
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return any(has_wall_clock(kind.field(position).type) for position in range(kind.num_fields))


class LoneReader:
    """Reads slices of one snapshot without the table."""

    def __init__(
        self, snapshot: Snapshot, version: str, storage_options: Mapping[str, str], until: str | None
    ) -> None:
        """Prepare to read.

        Args:
            snapshot: whose slices are to be read.
            version: of the table, from its properties.
            storage_options: options of the table's store.
            until: the instant after which nothing counts, None where everything that the snapshot saw counts.
        """
        self._root = snapshot.root
        self._fields = snapshot.schema.columns
        self._options = dict(storage_options)
        self._names_tell = version.isdecimal() and int(version) >= _NAMED_BY_INSTANT
        # An instant without milliseconds means the end of its second.
        self._until = until and until.ljust(_INSTANT_DIGITS, "9")
        self._oldest, *committed = (snapshot.log_instants or "").split(" ")
        self._committed = frozenset(committed)
        self._plain = PlainRoot(snapshot.root)
        self.base_files = hudi_rs().HudiFileGroupReader(self._plain.path, self._options)

    def require_readable(self, entry: FileSlice) -> None:
        """Check that the reader merges a slice as one of this table.

        Raises:
            NotAlone: it does not.
            OSError, StorageError, ValueError: a file cannot be read.
        """
        if entry.base_file is not None:
            first = next(
                iter(self._stream(entry.base_file, [], hudi_rs().HudiReadOptions().with_batch_size(1))), None
            )
            if first is None:
                raise NotAlone("its base file is empty")
            self._require_alike(first.schema, "an older base file")
        if entry.base_file is None or not self._names_tell:
            for uri in self._logs(entry):
                self._checked(uri)

    def stream(self, entry: FileSlice, options: hudi.HudiReadOptions) -> Iterator[pa.RecordBatch]:
        """Yield the merged rows of a slice.

        Raises:
            NotAlone: the reader does not merge it as one of this table.
            OSError, StorageError, ValueError: a file cannot be read.
        """
        logs = self._logs(entry)
        if entry.base_file is not None:
            sizes = {} if self._names_tell else {uri: len(self._checked(uri)) for uri in logs}
            yield from self._stream(entry.base_file, logs, options)
            if any(len(log_bytes(uri, self._options)) != size for uri, size in sizes.items()):
                raise NotAlone("a log file grew while it was read")
        elif logs:
            yield from self._without_base(logs, options)

    def _stream(
        self, base: str, logs: Sequence[str], options: hudi.HudiReadOptions
    ) -> Iterator[pa.RecordBatch]:
        prefix = self._root.rstrip("/") + "/"
        names = [uri.removeprefix(prefix) for uri in logs]
        return iter(
            self.base_files.read_file_slice_from_paths_stream(base.removeprefix(prefix), names, options)
        )

    def _without_base(self, logs: Sequence[str], options: hudi.HudiReadOptions) -> Iterator[pa.RecordBatch]:
        """The rows of log files alone: those of an empty base file that is merged with them."""
        with self._folder() as root:
            schema = pa.schema([pa.field(field.name, field.type) for field in self._fields])
            _write_parquet(schema.empty_table(), root / _EMPTY_BASE)
            names = [uri.rpartition("/")[2] for uri in logs]
            for uri, name in zip(logs, names, strict=True):
                (root / name).write_bytes(self._checked(uri))
            reader = hudi_rs().HudiFileGroupReader(str(root), {})
            yield from reader.read_file_slice_from_paths_stream(_EMPTY_BASE, names, options)

    @contextmanager
    def _folder(self) -> Generator[Path]:
        """A folder that substitutes for the table, with its properties."""
        with TemporaryDirectory(prefix="pruner-logs-") as folder:
            properties = Path(folder) / HUDI_PROPERTIES
            properties.parent.mkdir()
            properties.write_bytes(
                open_store(self._root, self._options).get(HUDI_PROPERTIES, _PROPERTIES_BYTES)
            )
            yield Path(folder)

    def _logs(self, entry: FileSlice) -> list[str]:
        """The log files of a slice that were started up to `until`."""
        until = self._until
        if until is None:
            return list(entry.log_files)
        return [uri for uri in entry.log_files if (instant_of(uri.rpartition("/")[2]) or "") <= until]

    def _checked(self, uri: str) -> bytes:
        """The content of a log file whose every block counts and has the columns of the table.

        Raises:
            NotAlone: some block does not.
        """
        content = log_bytes(uri, self._options)
        for block in blocks(content):
            self._require_counts(block)
            self._require_data(block)
        return content

    def _require_counts(self, block: LogBlock) -> None:
        instant = block.instant
        if not self._completed(instant):
            raise NotAlone(f"a log file has a block of {instant or 'no instant'}, which has not completed")
        if self._until is not None and instant > self._until:
            raise NotAlone("a log file goes on after the instant that is read")

    def _require_data(self, block: LogBlock) -> None:
        """Refuse a block that holds no rows, or rows with other columns than the table.

        Raises:
            NotAlone: it is such a block.
        """
        if block.type is BlockType.AVRO:
            self._require_alike(arrow_schema(block.schema, self._root), "a log file")
        elif block.type is BlockType.PARQUET:
            held = pq.ParquetFile(pa.BufferReader(bytes(block.content))).schema_arrow
            self._require_alike(held, "a log file")
        elif block.type is not BlockType.DELETE:
            raise NotAlone(f"a log file has a block of type {block.type.name}")

    def _completed(self, instant: str) -> bool:
        return instant in self._committed or bool(instant and instant < self._oldest)

    def _require_alike(self, schema: pa.Schema, where: str) -> None:
        why = why_not_alike(self._fields, schema, where)
        if why is not None:
            raise NotAlone(why)


def why_not_alike(fields: Iterable[Field], held: pa.Schema, where: str) -> str | None:
    """Return how the columns of a file differ from the table's, None where they do not; the text is a clause."""
    columns: Mapping[str, pa.DataType] = {
        field.name: field.type for field in cast("list[pa.Field[Any]]", list(held))
    }
    for field in fields:
        data_type = columns.get(field.name) if field.in_file else field.type
        if data_type is None or not _alike(data_type, field.type):
            kind = "no such column" if data_type is None else str(data_type)
            return f"column {field.name!r} is {field.type} in the table and {kind} in {where}"
    return None


def _alike(one: Any, other: Any) -> bool:
    """Tell whether two types are the same except for the names of what lists and maps contain."""
    types = pa.types
    if types.is_list(one) and types.is_list(other):
        return _alike(one.value_type, other.value_type)
    if types.is_map(one) and types.is_map(other):
        return _alike(one.key_type, other.key_type) and _alike(one.item_type, other.item_type)
    if types.is_struct(one) and types.is_struct(other):
        names, others = _fields(one), _fields(other)
        return list(names) == list(others) and all(_alike(names[name], others[name]) for name in names)
    return bool(one.equals(other))


def _fields(struct: Any) -> dict[str, Any]:
    return {field.name: field.type for field in struct}
