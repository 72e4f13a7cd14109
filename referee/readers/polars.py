"""Polars: lazy scans with their predicates, and `scan_delta` and `scan_iceberg`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from conditions import Condition, Expressions, constant, expression

pl: Any = importlib.import_module("polars")


def _literal(value: Any) -> Any:
    match value:
        case {"instant": _}:
            return pl.lit(constant(value))
        case {"decimal": text}:
            return pl.lit(text).cast(pl.Decimal(18, 2))
        case _:
            return pl.lit(constant(value))


_EXPRESSIONS = Expressions(
    pl.col,
    lambda column: column.is_null(),
    lambda column, values: pl.any_horizontal([column == value for value in values]),
    lambda column, text: column.str.starts_with(text),
    _literal,
)


def _schema(files: list[Path]) -> dict[str, Any]:
    """The columns of all files in their widest types."""
    found: dict[str, Any] = {}
    for file in files:
        for name, kind in pl.read_parquet_schema(file).items():
            found[name] = max(found.get(name, kind), kind, key=lambda each: _WIDTHS.get(each, 0))
    return found


_WIDTHS = {
    kind: width for width, kind in enumerate((pl.Int32, pl.Int64, pl.Datetime("ms"), pl.Datetime("us")))
}


def _parquet(root: str) -> Any:
    files = sorted(Path(root).rglob("*.parquet"))
    if any("=" in file.parent.name for file in files):
        return pl.scan_parquet(root, hive_partitioning=True, hive_schema={"x": pl.String})
    options = pl.ScanCastOptions(integer_cast="upcast", datetime_cast="millisecond-upcast")
    return pl.scan_parquet(files, schema=_schema(files), missing_columns="insert", cast_options=options)


def ids(root: str, table_format: str, condition: Condition) -> list[int]:
    scan = {
        "parquet": lambda: _parquet(root),
        "delta": lambda: pl.scan_delta(root),
        "iceberg": lambda: pl.scan_iceberg(root),
    }[table_format]()
    found = scan.filter(expression(condition, _EXPRESSIONS)).select("id").collect()
    return found["id"].to_list()
