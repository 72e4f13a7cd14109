"""pyarrow's datasets, which skip row groups by their statistics."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from conditions import Condition, Expressions, UnsupportedError, constant, expression

pa: Any = importlib.import_module("pyarrow")
dataset: Any = importlib.import_module("pyarrow.dataset")
compute: Any = importlib.import_module("pyarrow.compute")


def _literal(value: Any) -> Any:
    match value:
        case {"timestamp": _}:
            return pa.scalar(constant(value), pa.timestamp("us"))
        case {"instant": _}:
            return pa.scalar(constant(value), pa.timestamp("us", "UTC"))
        case _:
            return pa.scalar(constant(value))


_EXPRESSIONS = Expressions(
    dataset.field,
    lambda column: column.is_null(),
    lambda column, values: column.isin(pa.array([each.as_py() for each in values])),
    compute.starts_with,
    _literal,
)


def ids(root: str, table_format: str, condition: Condition) -> list[int]:
    if table_format != "parquet":
        raise UnsupportedError(f"it does not read {table_format}")
    files = sorted(map(str, Path(root).rglob("*.parquet")))
    if "=" in Path(files[0]).parent.name:
        hive = dataset.partitioning(pa.schema([("x", pa.string())]), flavor="hive")
        found = dataset.dataset(root, partitioning=hive)
        return found.to_table(columns=["id"], filter=expression(condition, _EXPRESSIONS))["id"].to_pylist()
    schema = pa.unify_schemas([dataset.dataset(file).schema for file in files], promote_options="permissive")
    found = dataset.dataset(files, schema=schema).to_table(
        columns=["id"], filter=expression(condition, _EXPRESSIONS)
    )
    return found["id"].to_pylist()
