"""delta-rs with its query engine, which skips files by the log's statistics."""

from __future__ import annotations

import importlib
from typing import Any

from conditions import Condition, UnsupportedError, sql


def ids(root: str, table_format: str, condition: Condition) -> list[int]:
    if table_format != "delta":
        raise UnsupportedError(f"it does not read {table_format}")
    deltalake: Any = importlib.import_module("deltalake")
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(root))
    found = query.execute(f"SELECT id FROM t WHERE {sql(condition)}").read_all()
    return [value.as_py() for value in found["id"]]
