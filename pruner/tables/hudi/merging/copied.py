"""Slices that hudi-rs merges rightly if it gets copies of their files.

It calls the zone of a timestamp UTC in base files and +00:00 in Avro blocks, and does not reconcile the two inside
structs, lists and maps, so the copy of the base file says +00:00 as well. Where it reads without the table, it takes
every block for a committed one and the columns of the base file for those of the table, so the copies hold only the
blocks that count, and all columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from pruner.storage.files import open_for_arrow
from pruner.tables.hudi.avro_schema import arrow_schema
from pruner.tables.hudi.logs.blocks import Block, BlockType, blocks, log_bytes
from pruner.tables.hudi.merging.hudi_rs import hudi_rs
from pruner.tables.hudi.merging.unconverted import LoneReader, NotAlone, why_not_alike

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import hudi

    from pruner.schema import Field
    from pruner.tables.snapshot import FileSlice

_BASE = "base.parquet"
_ZONE = "+00:00"
"""What hudi-rs calls UTC in an Avro block."""


def has_inner_moment(type_: pa.DataType) -> bool:
    """Tell whether a type holds timestamps with a zone inside of a struct, list or map."""
    return with_zone(type_, _ZONE) != type_ and not pa.types.is_timestamp(type_)


def with_zone(type_: pa.DataType, zone: str) -> pa.DataType:
    """Return a type with all zones of its timestamps called otherwise."""
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
        """Tell whether a slice has log blocks that hudi-rs does not merge with the base file as it is.

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
        """Look whether the reader merges a slice as one of this table: see `LoneReader`."""
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
        """The blocks of each log file that count, by the file's name.

        Raises:
            NotAlone: one of them has other columns than the table, or is of a type that cannot be copied.
        """
        rezoned = self.needed_for(entry)
        found = {
            uri.rpartition("/")[2]: [*blocks(log_bytes(uri, self._options))] for uri in self._logs(entry)
        }
        rolled_back = {block.target for each in found.values() for block in each} - {""}
        kept = {
            name: b"".join(block.whole for block in each if self._counts(block, rolled_back, rezoned))
            for name, each in found.items()
        }
        return {name: content for name, content in kept.items() if content}

    def _counts(self, block: Block, rolled_back: set[str], rezoned: bool) -> bool:
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
        """The fields of the table, but for those that a base file may lack."""
        return [field for field in self._fields if field.name in names or not field.absent_is_null]

    def _copy_base(self, uri: str | None, target: Path, zone: str) -> None:
        schema = pa.schema([pa.field(each.name, with_zone(each.type, zone)) for each in self._fields])
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
