"""DuckDB's own readers: `read_parquet`, and the extensions `delta` and `iceberg` from packages of Python."""

from __future__ import annotations

import importlib
import sysconfig
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from conditions import Condition, sql


@cache
def _connection() -> Any:
    config = {"allow_unsigned_extensions": "true"}
    connection = importlib.import_module("duckdb").connect(config=config)
    connection.execute("SET TimeZone = 'UTC'")
    for file in sorted(Path(sysconfig.get_paths()["purelib"]).rglob("*.duckdb_extension")):
        connection.execute(f"INSTALL '{file}'")
    for name in ("avro", "delta", "iceberg"):
        with suppress(Exception):
            connection.execute(f"LOAD {name}")
    return connection


def ids(root: str, table_format: str, condition: Condition) -> list[int]:
    source = {
        "parquet": f"read_parquet('{root}/**/*.parquet', union_by_name = true, hive_partitioning = true, "
        "hive_types_autocast = false)",
        "delta": f"delta_scan('{root}')",
        "iceberg": f"iceberg_scan('{root}')",
    }[table_format]
    rows = _connection().execute(f"SELECT id FROM {source} WHERE {sql(condition)}")
    return [row[0] for row in rows.fetchall()]
