"""A plan as a Polars LazyFrame."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Any, cast

import polars as pl
import pyarrow as pa

from pruner_python.content import content_of, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner import Plan, Table
    from pruner_python.content import PartitionFiles

engine = "polars"

_MOST_DIGITS = 38

_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
"""Texts that are in a path unescaped."""

_CASTS = pl.ScanCastOptions(
    integer_cast="upcast",
    datetime_cast="convert-timezone",
    categorical_to_string="allow",
    missing_struct_fields="insert",
)
"""What Polars converts: narrower integers, and types (zones other than UTC, categories) that it takes from the Arrow
schema that some writers store in the footer, where the table has those of the Parquet schema. A struct may lack a
field.
"""


def scan(
    plan: Plan, columns: Sequence[str] | None, storage_options: Mapping[str, str], into: object = None
) -> pl.LazyFrame:
    """The files of a plan as a LazyFrame: see `pruner.adapters.FileScanner`."""
    content = content_of(plan, columns, storage_options)
    whole, stored = _polars_schema(content.schema), _polars_schema(content.stored)
    for file in content.samples:
        _check_types(file, stored, storage_options)
    if not content.parts:
        return pl.LazyFrame(schema=whole)
    if len(content.parts) > 1 and all(map(_told_by_folders, content.parts)):
        # One scan takes half the time of one scan per partition.
        keys = {name: whole[name] for name in content.parts[0].values}
        files = [file for part in content.parts for file in part.files]
        return _scan(files, stored, storage_options, keys).select(list(whole))
    frames = [_frame(part, stored, whole, storage_options) for part in content.parts]
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical")


def probe(table: Table, plan: Plan) -> None:
    """Read a row: see `pruner.adapters.ProbingAdapter`."""
    scan(plan, None, table.storage_options).head(1).collect()


def _told_by_folders(part: PartitionFiles) -> bool:
    """Tell whether Polars reads from a partition's paths the snapshot's values: plain texts, integers and dates."""
    told = {name: _as_folder(value.as_py()) for name, value in part.values.items()}
    for folder in {file.rpartition("/")[0] for file in part.files}:
        named: list[Any] = [part.split("=", 1) for part in folder.split("/") if "=" in part]
        if len(named) != len(told) or dict(named) != told:
            return False
    return True


def _as_folder(value: object) -> str | None:
    """The spelling of a value in a folder name; None for values that can be spelled in several ways."""
    match value:
        case str() if _PLAIN.fullmatch(value):
            return value
        case datetime.datetime() | bool():
            return None
        case int() | datetime.date():
            return str(value)
        case _:
            return None


def _check_types(file: str, stored: Mapping[str, Any], storage_options: Mapping[str, str]) -> None:
    """Refuse a file whose types in Polars differ from the table's and are not converted."""
    options = dict(storage_options) or None
    frame = pl.scan_parquet(file, hive_partitioning=False, glob=False, storage_options=options)
    for name, data_type in frame.collect_schema().items():
        if name in stored and not _converts(data_type, stored[name]):
            raise refusal(name, f"the table has {stored[name]}, and Polars makes {data_type} of {file}")


def _converts(data_type: Any, wanted: Any) -> bool:
    if isinstance(data_type, pl.Struct) and isinstance(wanted, pl.Struct):
        parts = {part.name: part.dtype for part in wanted.fields}
        return all(
            part.name in parts and _converts(part.dtype, parts[part.name]) for part in data_type.fields
        )
    if isinstance(data_type, pl.List) and isinstance(wanted, pl.List):
        return _converts(data_type.inner, wanted.inner)
    if isinstance(data_type, pl.Datetime) and isinstance(wanted, pl.Datetime):
        zones = (data_type.time_zone is None, wanted.time_zone is None)
        return data_type.time_unit == wanted.time_unit and zones[0] == zones[1]
    if isinstance(data_type, pl.Categorical):
        return bool(wanted == pl.String)
    # Wider numbers have been refused already, by the types in the files.
    numbers = data_type.is_integer() and wanted.is_integer() and pl.Int128 not in (data_type, wanted)
    return bool(data_type == wanted or numbers or (data_type.is_decimal() and wanted.is_decimal()))


def _frame(
    part: PartitionFiles,
    stored: Mapping[str, Any],
    whole: Mapping[str, Any],
    storage_options: Mapping[str, str],
) -> pl.LazyFrame:
    frame = _scan(part.files, stored, storage_options, {})
    literals = [pl.lit(value.as_py(), whole[name]).alias(name) for name, value in part.values.items()]
    return frame.with_columns(literals).select(list(whole)) if literals else frame


def _scan(
    files: list[str], stored: Mapping[str, Any], storage_options: Mapping[str, str], keys: dict[str, Any]
) -> pl.LazyFrame:
    """One scan of files; `keys` are columns whose values Polars reads from the paths."""
    return pl.scan_parquet(
        files,
        schema={**stored, **keys},
        missing_columns="insert",
        extra_columns="ignore",
        cast_options=_CASTS,
        hive_partitioning=bool(keys),
        hive_schema=keys or None,
        glob=False,
        storage_options=dict(storage_options) or None,
    )


def _polars_schema(schema: pa.Schema) -> Mapping[str, Any]:
    polars: Any = pl  # its stubs leave some types open
    for field in cast("list[pa.Field[Any]]", list(schema)):
        if _is_too_wide(field.type):
            raise refusal(field.name, f"Polars has no type for the table's {field.type}")
    return polars.from_arrow(schema.empty_table()).schema


def _is_too_wide(type_: Any) -> bool:
    """Tell whether a type has decimals of more digits than Polars supports: it panics on some of them."""
    if pa.types.is_decimal(type_):
        return bool(type_.precision > _MOST_DIGITS)
    return any(_is_too_wide(type_.field(position).type) for position in range(type_.num_fields))
