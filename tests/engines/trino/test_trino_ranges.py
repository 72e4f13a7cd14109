"""Trino's optimizer and ranges: its forms of lists, of short ranges and of windows that follow the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from tests.support.trino.server import aged

if TYPE_CHECKING:
    from tests.support.trino.tables import TrinoTables

pytestmark = pytest.mark.trino

SHORT_RANGES = ("id BETWEEN 500 AND 502", "id >= 500 AND id < 503", "id IN (500, 501, 502)")


def test_a_short_range_is_looked_up_value_by_value(trino_tables: TrinoTables, tmp_path: Path) -> None:
    """Each file has numbers from all over, so bounds cannot tell files apart; 500 to 502 are in three of twenty."""
    root = tmp_path / "t"
    root.mkdir()
    for number in range(20):
        ids = pa.array(range(number, 2000, 20), pa.int64())
        pq.write_table(pa.table({"id": ids}), root / f"{number:02}.parquet")
    pruner.open_table(aged(root)).create_index("ids", on="id", using="record_index")
    table = trino_tables.register(root, {"id": "bigint"}, indexed=False)
    for condition in SHORT_RANGES:
        result = table.run(condition)
        assert result.rows == [(3,)]
        assert table.splits(result) == 3, condition


def test_both_bounds_of_a_window_in_the_past_prune(trino_tables: TrinoTables, tmp_path: Path) -> None:
    """Trino evaluates `now()` before it asks for the files: of 120 days the window is on two at most."""
    root = tmp_path / "t"
    root.mkdir()
    now = datetime.now(UTC).replace(tzinfo=None)
    for day in range(-10, 110):
        moment = now - timedelta(days=day)
        content = {
            "id": pa.array([day], pa.int64()),
            "wall": pa.array([moment], pa.timestamp("us")),
            "day": pa.array([moment.date()], pa.date32()),
        }
        pq.write_table(pa.table(content), root / f"{day:03}.parquet")
    table = trino_tables.register(root, {"id": "bigint", "wall": "timestamp", "day": "date"})
    for condition, most in {
        "wall >= localtimestamp - INTERVAL '100' DAY AND wall < localtimestamp - INTERVAL '99' DAY": 2,
        "wall >= now() - INTERVAL '100' DAY AND wall < now() - INTERVAL '99' DAY": 4,
        "day >= current_date - INTERVAL '100' DAY AND day < current_date - INTERVAL '98' DAY": 4,
    }.items():
        result = table.run(condition)
        assert result.rows == table.run(condition, catalog="hive").rows
        assert 1 <= table.splits(result) <= most, condition
