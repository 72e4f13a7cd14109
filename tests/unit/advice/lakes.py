"""Three lakes with their queries: real flights, TPC-H's lineitem by its rules, and a skewed one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from demo.flights import source_table

FILES = 60

FLIGHTS = (
    "tailnum = 'N14228'",
    "tailnum = 'N725MQ'",
    "tailnum IN ('N619AA', 'N804JB')",
    "dest = 'HNL'",
    "dest = 'ANC'",
    "dest = 'LEX' AND distance > 500",
    "time_hour BETWEEN TIMESTAMPTZ '2013-03-01 00:00:00+00' AND TIMESTAMPTZ '2013-03-04 00:00:00+00'",
    "time_hour >= TIMESTAMPTZ '2013-12-30 00:00:00+00'",
    "carrier = 'OO'",
    "carrier = 'HA' OR dest = 'HNL'",
    "dep_delay > 700",
    "flight = 51 AND carrier = 'HA'",
)
LINEITEM = (
    "l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1994-02-01' AND l_quantity < 24",
    "l_shipdate <= DATE '1992-02-01'",
    "l_orderkey = 4711",
    "l_orderkey = 6001",
    "l_orderkey BETWEEN 5000 AND 5050",
    "l_partkey = 155",
    "l_partkey = 720",
    "l_partkey = 999 AND l_quantity = 12",
    "l_suppkey IN (3, 5)",
    "l_shipmode = 'AIR'",
    "l_comment = 'never written'",
)
SKEWED = (
    *(f"tenant = {number}" for number in (3, 40, 77, 199, 199, 199, 250)),
    "tenant = 0",
    "session = 'none'",
    "session = 's00000123'",
    "day BETWEEN 10 AND 12",
    "day = 50 AND tenant = 199",
    "level = 'FATAL'",
    "level = 'FATAL' AND tenant < 5",
    "level = 'INFO'",
    "cost > 9.9",
)


@dataclass(frozen=True)
class Lake:
    """A table of files, and the predicates of the statements over it."""

    root: Path
    questions: tuple[str, ...]


def written(root: Path, rows: pa.Table, questions: tuple[str, ...]) -> Lake:
    """The rows in files of about the same length."""
    root.mkdir()
    edges = np.linspace(0, rows.num_rows, FILES + 1).round().astype(int)
    for number, (start, stop) in enumerate(pairwise(edges)):
        path = root / f"{number:04}.parquet"
        pq.write_table(rows.slice(start, stop - start), path)
        os.utime(path, (1_600_000_000, 1_600_000_000))  # files that were just written count as unsettled
    return Lake(root, questions)


def flights(root: Path) -> Lake:
    """The flights of New York in 2013, in order."""
    names = ["time_hour", "carrier", "tailnum", "dest", "flight", "distance", "dep_delay"]
    rows = source_table("flights.csv.zip").select(names).sort_by("time_hour")
    sixth = np.arange(0, rows.num_rows, 6)
    return written(root, rows.take(sixth), FLIGHTS)


def lineitem(root: Path) -> Lake:
    """Lineitem of TPC-H, by its rules (4.2.3): orders by key, 1 to 7 lines each, shipped some time after."""
    rng = np.random.default_rng(42)
    lines = rng.integers(1, 8, 7_500)
    keys = np.repeat(np.arange(1, 7_501), lines)
    count = len(keys)
    ordered = np.repeat(rng.integers(0, 2405, 7_500), lines)
    shipped = (ordered + rng.integers(1, 122, count)).astype("timedelta64[D]") + np.datetime64("1992-01-01")
    columns: Any = {
        "l_orderkey": keys,
        "l_partkey": rng.integers(1, 1001, count),
        "l_suppkey": rng.integers(1, 101, count),
        "l_quantity": rng.integers(1, 51, count),
        "l_shipdate": pa.array(shipped),
        "l_shipmode": rng.choice(["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"], count),
        "l_comment": [f"{word:x} carefully" for word in rng.integers(0, 2**40, count).tolist()],
    }
    return written(root, pa.table(columns), LINEITEM)


def skewed(root: Path) -> Lake:
    """Logs of tenants, most of whom are small; errors come in bursts; sessions hardly repeat."""
    rng = np.random.default_rng(43)
    count = 30_000
    days = np.sort(rng.integers(0, 100, count))
    level = rng.choice(["INFO", "WARN", "ERROR"], count, p=[0.9, 0.09, 0.01]).astype(object)
    level[(days == 17) & (rng.random(count) < 0.05)] = "FATAL"
    columns: Any = {
        "day": days,
        "tenant": np.minimum(rng.zipf(1.6, count) - 1, 300),
        "session": [f"s{number:08}" for number in rng.integers(0, 10**6, count).tolist()],
        "level": level.tolist(),
        "cost": rng.random(count) * 10,
    }
    return written(root, pa.table(columns), SKEWED)


LAKES = {"flights": flights, "lineitem": lineitem, "skewed": skewed}
