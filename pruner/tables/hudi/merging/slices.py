"""Slices with log files, merged by hudi-rs: which of them it reads as Hudi does, and their rows as a stream.

hudi-rs is given the files of pruner's own listing, never its own (rule R6), and the timeline that the listing saw
when the snapshot was taken: blocks of instants that complete later are not merged (rule R8). What it is
known to merge differently than Hudi is refused in one sentence, because a wrong row is worse than none
(docs/merge-on-read.md).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from pruner.errors import TableError
from pruner.storage.opening import open_for_arrow
from pruner.tables.hudi.avro_schema import arrow_schema
from pruner.tables.hudi.logs import BlockType, LogBlock, blocks, log_bytes
from pruner.tables.hudi.merging.hudi_rs import PlainRoot, hudi_rs
from pruner.tables.hudi.merging.unconverted import LoneReader, NotAlone, has_wall_clock, why_not_alike

if TYPE_CHECKING:
    from pathlib import Path

    import hudi

    from pruner.schema import Field
    from pruner.tables.snapshot import FileSlice, SliceSequence, Snapshot

# Slices that hudi-rs merges correctly if it gets copies of their files.
#
# It names the zone of a timestamp UTC in base files and +00:00 in Avro blocks, and does not reconcile the two inside
# structs, lists and maps, so the copy of the base file says +00:00 as well. Where it reads without the table, it
# takes every block as committed and the columns of the base file as those of the table, so the copies hold only the
# blocks that count, and all columns.

_BASE = "base.parquet"
_ZONE = "+00:00"
"""hudi-rs's name of UTC in an Avro block."""


def has_inner_moment(type_: pa.DataType) -> bool:
    """Tell whether a type holds timestamps with a zone inside of a struct, list or map."""
    return with_zone(type_, _ZONE) != type_ and not pa.types.is_timestamp(type_)


def with_zone(type_: pa.DataType, zone: str) -> pa.DataType:
    """Return a type with the zones of all its timestamps renamed."""
    kind: Any = type_
    types = pa.types
    if types.is_timestamp(kind):
        return pa.timestamp(kind.unit, zone) if kind.tz is not None else type_
    if types.is_list(kind):
        return pa.list_(_field(kind.value_field, zone))
    if types.is_map(kind):
        return cast("Any", pa).map_(_field(kind.key_field, zone), _field(kind.item_field, zone))
    if types.is_struct(kind):
        return pa.struct([_field(field, zone) for field in cast("list[pa.Field[Any]]", list(kind))])
    return type_


def _field(field: pa.Field[Any], zone: str) -> pa.Field[Any]:
    return field.with_type(with_zone(field.type, zone))


class CopyReader(LoneReader):
    """Reads slices of one snapshot from copies of their files, without blocks that do not count."""

    def needed_for(self, entry: FileSlice) -> bool:
        """Tell whether a slice has log blocks that hudi-rs does not merge with the unchanged base file.

        Raises:
            OSError, StorageError, ValueError: a log file cannot be read.
        """
        return any(
            block.type is BlockType.AVRO
            and any(has_inner_moment(type_) for type_ in arrow_schema(block.schema, self._root).types)
            for uri in self._logs(entry)
            for block in blocks(log_bytes(uri, self._options))
        )

    def require_readable(self, entry: FileSlice) -> None:
        """Check that the reader merges a slice as one of this table: see `LoneReader`."""
        if entry.base_file is not None:
            self._require_base(entry.base_file)
        self._kept(entry)

    def stream(self, entry: FileSlice, options: hudi.HudiReadOptions) -> Iterator[pa.RecordBatch]:
        """Yield the merged rows of a slice: see `LoneReader`."""
        zone = _ZONE if self.needed_for(entry) else "UTC"
        with self._folder() as root:
            self._copy_base(entry.base_file, root / _BASE, zone)
            kept = self._kept(entry)
            for name, content in kept.items():
                (root / name).write_bytes(content)
            reader = hudi_rs().HudiFileGroupReader(str(root), {})
            yield from reader.read_file_slice_from_paths_stream(_BASE, list(kept), options)

    def _kept(self, entry: FileSlice) -> dict[str, bytes]:
        """The blocks of each log file that count, by file name.

        Raises:
            NotAlone: one of them has other columns than the table, or is of a type that cannot be copied.
        """
        rezoned = self.needed_for(entry)
        logs = {uri.rpartition("/")[2]: [*blocks(log_bytes(uri, self._options))] for uri in self._logs(entry)}
        rolled_back = {block.target for each in logs.values() for block in each} - {""}
        kept = {
            name: b"".join(block.whole for block in each if self._counts(block, rolled_back, rezoned))
            for name, each in logs.items()
        }
        return {name: content for name, content in kept.items() if content}

    def _counts(self, block: LogBlock, rolled_back: set[str], rezoned: bool) -> bool:
        if block.type is BlockType.COMMAND or block.instant in rolled_back:
            return False
        if not self._completed(block.instant) or (self._until is not None and block.instant > self._until):
            return False
        self._require_data(block)
        if rezoned and block.type is BlockType.PARQUET:
            raise NotAlone(
                f"column {self._inner_moment()!r} has timestamps inside of it, "
                "and its log files have Avro and Parquet blocks"
            )
        return True

    def _inner_moment(self) -> str:
        return next(field.name for field in self._fields if has_inner_moment(field.type))

    def _require_base(self, uri: str) -> pq.ParquetFile:
        file = pq.ParquetFile(open_for_arrow(uri, None, self._options))
        why = why_not_alike(self._held(file.schema_arrow.names), file.schema_arrow, "an older base file")
        if why is not None:
            raise NotAlone(why)
        return file

    def _held(self, names: list[str]) -> list[Field]:
        """The table's fields, without those that a base file lacks and may lack."""
        return [field for field in self._fields if field.name in names or not field.absent_is_null]

    def _copy_base(self, uri: str | None, target: Path, zone: str) -> None:
        schema = pa.schema([pa.field(field.name, with_zone(field.type, zone)) for field in self._fields])
        with pq.ParquetWriter(target, schema) as writer:
            if uri is None:
                writer.write_table(schema.empty_table())
                return
            file: Any = self._require_base(uri)
            names = [name for name in schema.names if name in file.schema_arrow.names]
            for group in range(file.num_row_groups):
                rows: Any = file.read_row_group(group, columns=names)
                columns = [
                    rows.column(field.name).cast(field.type)
                    if field.name in names
                    else cast("Any", pa).nulls(rows.num_rows, field.type)
                    for field in cast("list[pa.Field[Any]]", list(schema))
                ]
                writer.write_table(pa.table(columns, schema=schema))


BATCH_ROWS = 8192
"""Rows of a batch requested from hudi-rs; one batch is in memory at a time, beside the log rows."""

_DUPLICATES_VERSION = 8
"""The table version from which Hudi merges a log row into every base row of its key, hudi-rs into the first."""

_RECORD_KEY = "_hoodie_record_key"
_META_COLUMNS = frozenset(
    [
        _RECORD_KEY,
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_partition_path",
        "_hoodie_file_name",
        "_hoodie_operation",
    ]
)
_KEPT_CHECKS = 1 << 16

_PARTIAL_UPDATES = frozenset({"", "NONE", "IGNORE_DEFAULTS"})
"""Partial update modes that hudi-rs has; it treats others as none, and would return Debezium's mark as a value."""

_ADVICE = "compact the table, or set its option read_optimized to read base files only"


class TableChanged(TableError):  # noqa: N818 - says what happened
    """The table is no longer what the snapshot was taken of: the statement must be planned again."""


class SliceMerger:
    """Reads the slices of one snapshot. Threads may share it."""

    def __init__(
        self, name: str, snapshot: Snapshot, storage_options: Mapping[str, str], as_of: str | None
    ) -> None:
        """Read the table's timeline, which is then fixed for every slice.

        Args:
            name: the table's name, for errors.
            snapshot: whose slices are to be read.
            storage_options: options of the table's store.
            as_of: the instant that is read, None for the newest.

        Raises:
            TableError: hudi-rs cannot open the table.
            TableChanged: writes that cannot be left out have completed since the snapshot was taken.
        """
        self._name = name
        self._prefix = snapshot.root.rstrip("/") + "/"
        self._plain = PlainRoot(snapshot.root)
        with self._told("cannot be opened to merge log files"):
            table = hudi_rs().HudiTable(self._plain.path, dict(storage_options))
            properties = table.hudi_options()
            until = as_of or self._pinned_at(snapshot, table.get_timeline())
            version = properties.get("hoodie.table.version", "")
            types = [field.type for field in snapshot.schema.columns]
            clocks, moments = any(map(has_wall_clock, types)), any(map(has_inner_moment, types))
            self._lone = LoneReader(snapshot, version, storage_options, until) if clocks else None
            self._copies = (
                CopyReader(snapshot, version, storage_options, until) if clocks or moments else None
            )
            self._reader = _reader_of(table, until) if self._lone is None else self._lone.base_files
        with_meta = properties.get("hoodie.populate.meta.fields", "true").lower() != "false"
        self.absent: frozenset[str] = frozenset() if with_meta else _META_COLUMNS
        """Columns of the schema that no file has, and which are NULL."""
        self._keys = (_RECORD_KEY,) if with_meta else _listed(properties, "hoodie.table.recordkey.fields")
        self._partial_updates = properties.get("hoodie.table.partial.update.mode", "").strip().upper()
        self._must_be_unique = not version.isdecimal() or int(version) >= _DUPLICATES_VERSION
        self._unique: set[str] = set()
        self._readers: dict[str, LoneReader | None] = {}
        self._opened = False
        self._lock = Lock()

    def _pinned_at(self, snapshot: Snapshot, timeline: hudi.HudiTimeline) -> str | None:
        """Return the instant up to which blocks count, None where hudi-rs saw what the snapshot saw.

        Raises:
            TableChanged: no instant separates what the snapshot saw from what completed since.
        """
        if snapshot.log_instants is None:
            return None
        known = set(snapshot.log_instants.split())
        instants = (
            *timeline.get_completed_commits(),
            *timeline.get_completed_deltacommits(),
            *timeline.get_completed_replacecommits(),
        )
        newer = {each.timestamp for each in instants} - known
        if newer and min(newer) < max(known):
            raise TableChanged(f"table {self._name} changed while the statement was planned: run it again")
        return max(known) if newer else None

    def require_mergeable(self, slices: SliceSequence) -> None:
        """Open one of the slices, once: that shows whether hudi-rs can merge the rows of this table at all.

        Where it reads without the table, each single slice must be one that it can merge.

        Raises:
            TableError: it cannot; gives the reason.
        """
        if self._copies is not None:
            for entry in slices:
                with self._told(f"cannot be read merged ({entry.file_id})"):
                    self._without_table(entry)
        if self._opened or not len(slices):
            return
        if self._partial_updates not in _PARTIAL_UPDATES:
            raise TableError(
                f"table {self._name} cannot be read merged: hudi-rs has no partial update mode "
                f"{self._partial_updates}; {_ADVICE}"
            )
        entry = slices[0]
        with self._told(f"cannot be read merged ({entry.file_id})"):
            self._stream(entry, [])
        self._opened = True

    def batches(self, entry: FileSlice, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the merged rows of one slice, with only `columns`, in that order.

        Raises:
            TableError: the slice cannot be read as Hudi would.
        """
        with self._told(f"cannot be read merged ({entry.file_id})"):
            self._require_unique_keys(entry)
            yield from self._stream(entry, columns)

    def _stream(self, entry: FileSlice, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        options = hudi_rs().HudiReadOptions(projection=list(columns)).with_batch_size(BATCH_ROWS)
        reader = self._without_table(entry)
        if reader is not None:
            return reader.stream(entry, options)
        base = self._relative(entry.base_file) if entry.base_file else ""
        logs = [self._relative(uri) for uri in entry.log_files]
        return iter(self._reader.read_file_slice_from_paths_stream(base, logs, options))

    def _without_table(self, entry: FileSlice) -> LoneReader | None:
        """The reader of a slice without the table, None where hudi-rs merges it with the table.

        Raises:
            NotAlone: nothing reads it as Hudi would.
            OSError, StorageError, ValueError: a file cannot be read.
        """
        if self._copies is None:
            return None
        known_as = "\0".join((entry.base_file or "", *entry.log_files, str(entry.size)))
        if known_as not in self._readers:
            reader = self._chosen(entry, self._copies)
            with self._lock:
                if len(self._readers) >= _KEPT_CHECKS:
                    self._readers.clear()
                self._readers[known_as] = reader
            return reader
        return self._readers[known_as]

    def _chosen(self, entry: FileSlice, copies: CopyReader) -> LoneReader | None:
        if not copies.needed_for(entry):
            if self._lone is None:
                return None
            try:
                self._lone.require_readable(entry)
            except NotAlone:
                pass  # a copy may be readable
            else:
                return self._lone
        copies.require_readable(entry)
        return copies

    def _relative(self, uri: str) -> str:
        return uri.removeprefix(self._prefix)

    def _require_unique_keys(self, entry: FileSlice) -> None:
        """Refuse a base file that has a key twice, which hudi-rs and Hudi merge differently.

        Raises:
            TableError: it has.
        """
        base = entry.base_file
        if not self._must_be_unique or base is None or not entry.log_files or base in self._unique:
            return
        options = hudi_rs().HudiReadOptions(projection=list(self._keys)).with_batch_size(1 << 16)
        stream = self._reader.read_file_slice_from_paths_stream(self._relative(base), [], options)
        keys = pa.Table.from_batches(list(stream))
        if keys.group_by(list(self._keys), use_threads=False).aggregate([]).num_rows != keys.num_rows:
            raise TableError(
                f"table {self._name}: {base} holds several rows of one key, which hudi-rs does not merge with "
                f"log files as Hudi does: {_ADVICE}"
            )
        with self._lock:
            if len(self._unique) >= _KEPT_CHECKS:
                self._unique.clear()
            self._unique.add(base)

    @contextmanager
    def _told(self, what: str) -> Generator[None]:
        """Turn whatever hudi-rs raises into a TableError of one sentence; its panics are not `Exception`s."""
        try:
            yield
        except NotAlone as why:
            raise TableError(f"table {self._name} cannot be read merged because {why}; {_ADVICE}") from None
        except (TableError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
            raise
        except BaseException as error:
            text = (str(error) or type(error).__name__).split("\n", 1)[0].split(". ", 1)[0].rstrip(" .")
            raise TableError(f"table {self._name} {what}: {text}; {_ADVICE}") from None


def _reader_of(table: hudi.HudiTable, until: str | None) -> hudi.HudiFileGroupReader:
    options = hudi_rs().HudiReadOptions()
    return table.create_file_group_reader_with_options(
        options.with_as_of_timestamp(until) if until else options
    )


def _listed(properties: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in properties.get(name, "").split(",") if part.strip())
