"""DataFusion with its statistics and filter pushdown on."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from conditions import Condition, UnsupportedError, sql


def ids(root: str, table_format: str, condition: Condition) -> list[int]:
    if table_format != "parquet":
        raise UnsupportedError(f"it does not read {table_format}")
    datafusion: Any = importlib.import_module("datafusion")
    config = datafusion.SessionConfig(
        {
            "datafusion.execution.parquet.pushdown_filters": "true",
            "datafusion.execution.collect_statistics": "true",
        }
    )
    context = datafusion.SessionContext(config)
    pa: Any = importlib.import_module("pyarrow")
    parts = [("x", pa.string())] if any(Path(root).glob("*=*")) else []
    files = sorted(Path(root).rglob("*.parquet"))
    schemas = [importlib.import_module("pyarrow.parquet").read_schema(file) for file in files]
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    context.register_parquet("t", root, table_partition_cols=parts, file_extension=".parquet", schema=schema)
    instant = "TIMESTAMP WITH TIME ZONE"
    batches = context.sql(f"SELECT id FROM t WHERE {sql(condition, instant=instant)}").collect()
    return [value for batch in batches for value in batch.column(0).to_pylist()]
