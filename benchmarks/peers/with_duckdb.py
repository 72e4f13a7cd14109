"""DuckDB over the statistics as a table in memory."""

from __future__ import annotations

from pathlib import Path

import duckdb
from harness import CARRIER, Plans, answer_questions

STATEMENTS = {
    "conjunction": f"carrier_min <= '{CARRIER}' AND carrier_max >= '{CARRIER}' AND event_max > ?",
    "range": "event_max >= ? AND event_min <= ?",
}


def prepare(statistics: Path, _: Path) -> Plans:
    """Read the statistics once."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE files AS SELECT * FROM read_parquet(?)", [str(statistics)])

    def plan(kind: str, values: list[int]) -> int:
        return len(connection.execute(f"SELECT path FROM files WHERE {STATEMENTS[kind]}", values).fetchall())

    return plan


answer_questions(prepare)
