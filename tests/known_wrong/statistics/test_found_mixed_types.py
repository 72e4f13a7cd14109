"""Files of one tree whose column has types that no reader reconciles: never read as the first file's type."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import indexed


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([1], pa.int64()), pa.array([0.1], pa.float64())),
        (
            pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
            pa.array([Decimal("1.2345")], pa.decimal128(12, 4)),
        ),
        (pa.array([1], pa.date32()), pa.array([1], pa.timestamp("us"))),
        (pa.array([1], pa.int64()), pa.array(["x"], pa.string())),
    ],
    ids=["integer and double", "two decimals", "date and timestamp", "integer and text"],
)
def test_found_values_become_those_of_the_first_file(tmp_path: Path, first: Any, second: Any) -> None:
    """0.1 was read as 0 where the first file has integers: types and values are those of `union_by_name`."""
    for name, values in (("a", first), ("b", second)):
        pq.write_table(pa.table({"k": [1], "x": values}), tmp_path / f"{name}.parquet")
    with pruner_duckdb.connect({"t": indexed(tmp_path)}) as con:
        plain = con.native.sql(f"SELECT x FROM read_parquet('{tmp_path}/*', union_by_name = true) ORDER BY x")
        found = con.sql("SELECT x FROM t ORDER BY x")
        assert found.types == plain.types
        rows = found.fetchall()
        assert rows == plain.fetchall()
        for (value,) in rows:
            assert con.execute("SELECT x FROM t WHERE x = ?", [value]).fetchall() == [(value,)]
        assert con.sql("SELECT sum(k) FROM t").fetchall() == [(2,)]
