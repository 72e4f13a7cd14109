"""ClickHouse in process, by `file(…)`, with its filter pushdown on."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any

from conditions import Condition, sql

_TYPES = {
    "instant": "Nullable(DateTime64(6, 'UTC'))",
    "timestamp": "Nullable(DateTime64(6, 'UTC'))",
    "date": "Nullable(Date32)",
    "double": "Nullable(Float64)",
    "decimal": "Nullable(Decimal(18, 2))",
}


def ids(root: str, table_format: str, condition: Condition) -> list[int]:
    os.chdir("/")  # it reads files below its working directory
    place = root.partition("/metadata/")[0]
    chdb: Any = importlib.import_module("chdb")
    source = {
        "parquet": f"file('{root}/**/*.parquet', Parquet)",
        "delta": f"deltaLakeLocal('{root}')",
        "iceberg": f"icebergLocal('{place}')",
    }[table_format]
    settings = (
        "transform_null_in = 0, input_format_parquet_allow_missing_columns = 1, session_timezone = 'UTC', "
        "use_hive_partitioning = 1"
    )
    text = f"SELECT id FROM {source} WHERE {sql(condition, **_TYPES)} SETTINGS {settings}"
    found = str(chdb.query(text, "JSONCompactEachRow"))
    return [int(json.loads(line)[0]) for line in found.splitlines()]
