"""What a Python engine must read for a plan: files by partition, with the columns and types of the table.

A column that files hold is read from them, even if it is in the path as well; a file that lacks it gives NULL. A column
that is only in paths has the value that the snapshot read there. Columns that would be read from the files differently
from the table's schema are refused before anything is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pruner.errors import SchemaError
from pruner.schema import id_of_path
from pruner.storage.opening import open_for_arrow
from pruner.tables.footers.file_schemas import plain_schema, promote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pruner import Plan
    from pruner.schema import Field


@dataclass(frozen=True)
class PartitionFiles:
    """Files of one partition; `values` are those of the columns that are only in paths."""

    files: list[str]
    values: dict[str, pa.Scalar[Any]]


@dataclass(frozen=True)
class DatasetContent:
    """What must be read: `schema` has the columns of the result, `stored` those that come from the files.

    `samples` has one file of each Parquet schema, for engines that derive other types from it than the table has.
    """

    schema: pa.Schema
    stored: pa.Schema
    parts: list[PartitionFiles]
    samples: list[str]


def content_of(
    plan: Plan, columns: Sequence[str] | None, storage_options: Mapping[str, str]
) -> DatasetContent:
    """Determine what must be read for a plan, and check that every file matches the table's schema.

    Args:
        plan: the plan whose files are read.
        columns: names of top-level columns; all unless given.
        storage_options: options of the store, to read footers where the snapshot has not read them.

    Raises:
        SchemaError: a column cannot be read as the table has it; the message says why.
        TableError: a file group to read has log files, so its base file alone is not the table's content.
    """
    # `files_arrow` refuses slices with log files.
    count = len(plan.files_arrow)
    fields = list(plan.schema.columns)
    if columns is not None:
        fields = [plan.schema.find((name,)) for name in columns]
    if columns is None:
        _check_any(plan, fields)
    for field in fields:
        _check_field(plan, field)
    schema = pa.schema([pa.field(field.name, field.type) for field in fields])
    in_files = [field for field in fields if field.in_file]
    samples = _check_files(plan, in_files, storage_options)
    stored = pa.schema([pa.field(field.name, field.type) for field in in_files])
    in_paths = [field for field in fields if not field.in_file]
    return DatasetContent(schema, stored, list(_parts(plan, in_paths)) if count else [], samples)


def _check_any(plan: Plan, fields: list[Field]) -> None:
    """Refuse a table if none of its columns can be read: naming others does not help."""
    if fields and all(
        any(part.path[0] == field.path[0] and _is_mapped(part) for part in plan.schema) for field in fields
    ):
        raise SchemaError(
            "no column of this table can be read from the files alone: they are found by a mapping, as in Iceberg; "
            "read it in DuckDB, Spark or Trino"
        )


def _is_mapped(part: Field) -> bool:
    return part.stored is not None and part.in_file


def _check_field(plan: Plan, field: Field) -> None:
    for part in plan.schema:
        if part.path[0] == field.path[0] and part.dispute is not None:
            raise refusal(part.name, part.dispute)
        if part.path[0] == field.path[0] and _is_mapped(part):
            assert part.stored is not None
            by_id = id_of_path(part.stored) is not None
            called = "field ids tell which it is" if by_id else f"the files call it {part.stored[-1]!r}"
            raise refusal(part.name, f"{called} (column mapping)")
    if not field.absent_is_null:
        raise refusal(field.name, "files that lack it stand for a default value, which they do not hold")
    if not field.in_file and field.path not in plan.snapshot.partitions.values:
        raise refusal(field.name, "it is only in the paths, and its value cannot be derived from them")


def refusal(name: str, reason: str) -> SchemaError:
    """The error for a column that would not be read as the table has it."""
    return SchemaError(
        f"column {name!r} cannot be read from the files alone: {reason}; name the columns that you need"
    )


def _check_files(plan: Plan, fields: list[Field], storage_options: Mapping[str, str]) -> list[str]:
    """Refuse a file that holds a column in an incompatible type, or under a name with other capitals.

    Returns:
        One file of each schema.
    """
    known = plan.snapshot.file_schemas
    samples: dict[int | bytes, str] = {}
    for ordinal, uri in _kept(plan):
        at = -1 if known is None else int(known.ordinals[ordinal])
        schema = _schema_in_footer(uri, storage_options) if known is None or at < 0 else known.distinct[at]
        key = schema.serialize().to_pybytes() if known is None or at < 0 else at
        if key not in samples:
            samples[key] = uri
            _check_schema(uri, schema, fields)
    return list(samples.values())


def _schema_in_footer(uri: str, storage_options: Mapping[str, str]) -> pa.Schema:
    parquet: Any = pq  # its stubs leave types open
    return plain_schema(parquet.read_schema(open_for_arrow(uri, None, storage_options)))


def _kept(plan: Plan) -> Iterator[tuple[int, str]]:
    kept = plan.snapshot.base_files.take(pa.array(plan.ordinals, pa.int64())).to_pylist()
    for ordinal, uri in zip(plan.ordinals.tolist(), kept, strict=True):
        if uri is not None:
            yield ordinal, uri


def _check_schema(uri: str, schema: pa.Schema, fields: list[Field]) -> None:
    spelled = {name.lower(): name for name in schema.names}
    for field in fields:
        name = spelled.get(field.name.lower())
        if name is None:
            continue
        if name != field.name:
            raise refusal(field.name, f"{uri} spells it {name!r}")
        held: pa.DataType = cast("Any", schema).field(name).type
        if not _reads_as(held, field.type):
            raise refusal(field.name, f"the table has {field.type}, and {uri} holds {held}")


def _reads_as(held: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether every value of a file's type is the same value in the table's type."""
    if pa.types.is_struct(held) and pa.types.is_struct(wanted):
        types = {part.name: part.type for part in _children(wanted)}
        return all(part.name in types and _reads_as(part.type, types[part.name]) for part in _children(held))
    common, conflict = promote(wanted, held)
    return conflict is None and common.equals(wanted)


def _children(struct: pa.DataType) -> Iterator[pa.Field[Any]]:
    return iter(cast("Any", struct))


def _parts(plan: Plan, in_paths: list[Field]) -> Iterator[PartitionFiles]:
    kept = list(_kept(plan))
    if not in_paths:
        yield PartitionFiles([uri for _, uri in kept], {})
        return
    partitions = plan.snapshot.partition_ordinals[[ordinal for ordinal, _ in kept]]
    values = {field.name: plan.snapshot.partitions.values[field.path] for field in in_paths}
    for partition in np.unique(partitions).tolist():
        files = [kept[at][1] for at in np.flatnonzero(partitions == partition)]
        of_partition = {field.name: values[field.name][partition].cast(field.type) for field in in_paths}
        yield PartitionFiles(files, of_partition)
