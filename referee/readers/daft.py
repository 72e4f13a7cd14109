"""Daft's readers of Parquet, Delta and Iceberg."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from conditions import Condition, Expressions, UnsupportedError, constant, expression

daft: Any = importlib.import_module("daft")


_EXPRESSIONS = Expressions(
    daft.col,
    lambda column: column.is_null(),
    lambda column, values: column.is_in(values),
    lambda column, text: column.startswith(text),
    lambda value: daft.lit(constant(value)),
)


def ids(root: str, table_format: str, condition: Condition) -> list[int]:
    if table_format == "parquet":
        frame = daft.read_parquet(
            f"{root}/**/*.parquet", hive_partitioning="=" in str(next(Path(root).iterdir()))
        )
    elif table_format == "delta":
        frame = daft.read_deltalake(root)
    else:
        raise UnsupportedError(f"it does not read {table_format} by a path")
    found = frame.where(expression(condition, _EXPRESSIONS)).select("id").to_pydict()
    return found["id"]
