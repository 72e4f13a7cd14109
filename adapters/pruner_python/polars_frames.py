"""A plan as a LazyFrame of Polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from pruner_python.content import content_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner import Plan
    from pruner_python.content import Part

engine = "polars"

_WIDENED = pl.ScanCastOptions(integer_cast="upcast", missing_struct_fields="insert")
"""What the check of the files lets through: wider integers, and structs that lack a field."""


def scan(
    plan: Plan, columns: Sequence[str] | None, storage_options: Mapping[str, str], into: object = None
) -> pl.LazyFrame:
    """The files of a plan as a LazyFrame: see `pruner.adapters.FileScanner`."""
    content = content_of(plan, columns, storage_options)
    whole, stored = _polars_schema(content.schema), _polars_schema(content.stored)
    if not content.parts:
        return pl.LazyFrame(schema=whole)
    frames = [_frame(part, stored, whole, storage_options) for part in content.parts]
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="vertical")


def _frame(
    part: Part, stored: Mapping[str, Any], whole: Mapping[str, Any], storage_options: Mapping[str, str]
) -> pl.LazyFrame:
    frame = pl.scan_parquet(
        part.files,
        schema=dict(stored),
        missing_columns="insert",
        extra_columns="ignore",
        cast_options=_WIDENED,
        hive_partitioning=False,
        glob=False,
        storage_options=dict(storage_options) or None,
    )
    literals = [pl.lit(value.as_py(), whole[name]).alias(name) for name, value in part.values.items()]
    return frame.with_columns(literals).select(list(whole)) if literals else frame


def _polars_schema(schema: pa.Schema) -> Mapping[str, Any]:
    polars: Any = pl  # whose types leave some open
    return polars.from_arrow(schema.empty_table()).schema
