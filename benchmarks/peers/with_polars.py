"""polars over the statistics as a data frame in memory."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from harness import CARRIER, Plans, answer_questions


def prepare(statistics: Path, _: Path) -> Plans:
    """Read the statistics once."""
    frame = pl.read_parquet(statistics)

    def plan(kind: str, values: list[int]) -> int:
        if kind == "conjunction":
            carrier = (pl.col("carrier_min") <= CARRIER) & (pl.col("carrier_max") >= CARRIER)
            condition = carrier & (pl.col("event_max") > values[0])
        else:
            condition = (pl.col("event_max") >= values[0]) & (pl.col("event_min") <= values[1])
        return len(frame.lazy().filter(condition).select("path").collect()["path"].to_list())

    return plan


answer_questions(prepare)
