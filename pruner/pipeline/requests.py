"""Requests to the pipeline, and failures of single slices."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import asdict, astuple, dataclass, replace
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import pyarrow as pa

from pruner.indexes.optional import GatheringIndexType, RowIndexType
from pruner.indexes.registry import index_type
from pruner.metadata.segments import SLICE_COLUMN
from pruner.parquet_type import ParquetType
from pruner.schema import Field
from pruner.tables.snapshot import READ_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pruner.indexes.base import IndexType


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """Record one field by one index type; `name` is the index's, for messages.

    `row_kind` is the index type if it records one row for each slice, `gathering_kind` if it makes the records of many
    slices at once. Both are determined once: checking whether an object follows a protocol takes longer than reading a
    footer.
    """

    kind: IndexType
    field: Field
    options: Mapping[str, str]
    name: str
    row_kind: RowIndexType | None = dataclass_field(init=False, repr=False, compare=False)

    gathering_kind: GatheringIndexType | None = dataclass_field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "row_kind", self.kind if isinstance(self.kind, RowIndexType) else None)
        gathers = isinstance(self.kind, GatheringIndexType)
        object.__setattr__(self, "gathering_kind", self.kind if gathers else None)


@dataclass(frozen=True, slots=True)
class Failure:
    """A slice that stays uncovered in one index: its base file, the index, and one sentence."""

    slice: str
    index: str
    reason: str


def broken_rule(slice_: str, request: BuildRequest, why: str) -> Failure:
    """The failure of a slice whose records, by an index type of another distribution, break the rules."""
    reason = f"index type {request.kind.name!r} cannot be used over {request.field.name}: {why}"
    return Failure(slice_, request.name, reason)


def other_columns(records: pa.Table, first: pa.Table) -> str | None:
    """Return how the records of a slice have other columns than those of the first slice; None if they do not."""
    if records.schema.equals(first.schema):
        return None
    return f"it recorded the columns {_columns_of(records)} and of other files {_columns_of(first)}"


def _columns_of(records: pa.Table) -> str:
    """Names and types of the columns, without the slice number."""
    fields: list[pa.Field[Any]] = list(cast("Any", records.schema))
    return ", ".join(f"{field.name} {field.type}" for field in fields if field.name != SLICE_COLUMN)


Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of slices done and the number of all slices."""


class SliceFiles(NamedTuple):
    """What to read of one slice: its position among the slices of the run, then `READ_COLUMNS`."""

    position: int
    base_file: str | None
    base_size: int | None
    log_files: list[str] | None = None
    log_size: int | None = None
    log_instants: str | None = None

    @property
    def name(self) -> str:
        """The URI of its base file, or of its first log file if it has none: for messages."""
        return self.base_file or (self.log_files or [""])[0]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive slices that are processed together: the position of the first, and `READ_COLUMNS` of each."""

    start: int
    slices: pa.Table

    def __len__(self) -> int:
        return self.slices.num_rows

    def __iter__(self) -> Iterator[SliceFiles]:
        columns: list[Any] = [self.slices.column(name).to_pylist() for name in READ_COLUMNS]
        for offset, values in enumerate(zip(*columns, strict=True)):
            yield SliceFiles(self.start + offset, *values)

    def halves(self) -> list[Chunk]:
        """The two halves of the chunk, or none if it has one slice."""
        middle = len(self) // 2
        if middle == 0:
            return []
        return [
            Chunk(self.start, self.slices.slice(0, middle)),
            Chunk(self.start + middle, self.slices.slice(middle)),
        ]


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """The result of a chunk: the position of its first slice, the number of slices, a table of records for each request
    (or None), failures, and the number of bytes that were `read` from the files.

    `__slice` (int32) of a record is the position of its slice.
    """

    start: int
    slices: int
    tables: list[pa.Table | None]
    failures: list[Failure]
    read: int = 0


def request_json(request: BuildRequest) -> dict[str, Any]:
    """Serialize a request for another process, which finds the index type by its name."""
    return {
        "kind": request.kind.name,
        "name": request.name,
        "options": dict(request.options),
        "field": _field_json(request.field),
        "sources": [_field_json(source) for source in request.field.sources],
    }


def _field_json(field: Field) -> dict[str, Any]:
    # Only plans and readers need what is omitted.
    written = asdict(replace(field, sources=(), since=None, stored_type=None, default=None))
    type_ = pa.schema([pa.field("", written.pop("type"))]).serialize()
    parquet: frozenset[ParquetType] | None = written.pop("parquet")
    types = None if parquet is None else sorted(astuple(each) for each in parquet)
    return {**written, "parquet": types, "type": base64.b64encode(type_.to_pybytes()).decode()}


def _field_of(sent: Mapping[str, Any], sources: tuple[Field, ...]) -> Field:
    schema = cast("Any", pa.ipc.read_schema(pa.py_buffer(base64.b64decode(sent["type"]))))
    mapped: list[list[str]] | None = sent["mapped"]
    types: list[list[str]] | None = sent["parquet"]
    attributes: dict[str, Any] = {
        **sent,
        "path": tuple(sent["path"]),
        "stored": None if sent["stored"] is None else tuple(sent["stored"]),
        "parquet": None if types is None else frozenset(ParquetType(*type_name) for type_name in types),
        "mapped": None if mapped is None else tuple([tuple(path) for path in mapped]),
        "type": schema.field(0).type,
        "sources": sources,
    }
    return Field(**attributes)


def request_of(sent: Mapping[str, Any]) -> BuildRequest:
    """Return the request that `request_json` serialized.

    Raises:
        IndexDefinitionError: there is no index type of that name here.
    """
    field = _field_of(sent["field"], tuple(_field_of(source, ()) for source in sent["sources"]))
    return BuildRequest(index_type(sent["kind"]), field, sent["options"], sent["name"])


def table_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def table_of(data: bytes) -> pa.Table:
    """Return the table of an Arrow stream."""
    return pa.ipc.open_stream(data).read_all()
