"""`pruner_duckdb.sort_for`: files written in the order of an index prune better."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from pruner import IndexDefinitionError, Semantics
from pruner.maintenance.ordering import order_by
from tests.support.duckdb.plain import judge

ROWS = 30_000
SOURCE = f"""
    SELECT i AS id, TIMESTAMP '2024-01-01' + INTERVAL 1 MINUTE * (hash(i) % 100000)::INT AS ts, 'K' || i % 50 AS city
    FROM range({ROWS}) AS numbers(i)
"""
NINE = "strftime(ts, '%H') = '09'"


def written(query: str, folder: Path) -> pruner.Table:
    """Write the rows of a query as files of 2,048 rows each, with their indexes."""
    con = judge()
    con.execute("SET threads = 1")
    options = "FORMAT parquet, FILE_SIZE_BYTES 1, ROW_GROUP_SIZE 2048"
    con.execute(f"COPY ({query}) TO '{folder}' ({options})")
    assert con.sql(f"SELECT count(*) FROM '{folder}/*.parquet'").fetchall() == [(ROWS,)]
    table = pruner.open_table(folder)
    table.create_index("hour_idx", on="date_format(ts, '%H')", dialect="trino", using="bitmap")
    table.create_index("city_idx", on="city", using="bitmap")
    return table


def kept(table: pruner.Table, where: str) -> int:
    return table.plan(where, semantics=Semantics(zone="UTC")).kept


@pytest.mark.load
def test_more_files_are_left_out(tmp_path: Path) -> None:
    before = written(SOURCE, tmp_path / "before")
    total = before.plan("true").total
    assert kept(before, NINE) == total >= 14
    query = pruner_duckdb.sort_for(f"{SOURCE};  ", "HOUR_IDX", table=before)
    after = written(query, tmp_path / "after")
    assert kept(after, NINE) <= 2
    assert kept(after, "city = 'K7'") == after.plan("true").total
    by_city = written(pruner_duckdb.sort_for(SOURCE, "city_idx", table=before.uri), tmp_path / "by_city")
    assert kept(by_city, "city = 'K7'") <= 2
    assert pruner_duckdb.sort_for("FROM t", "lower(city)").endswith(" ORDER BY (lower(city))")
    assert pruner_duckdb.connect({"t": after}).execute("SELECT sum(id) FROM t").fetchall() == [
        (ROWS * (ROWS - 1) // 2,)
    ]


def test_what_cannot_be_an_order_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": pa.array([0], pa.timestamp("us"))}), tmp_path / "one.parquet")
    table = pruner.open_table(tmp_path, index_uri=str(tmp_path.with_suffix(".index")))
    table.create_index("hour_idx", on="date_format(ts, '%H')", dialect="trino", build=False)
    table.create_index("all_idx", on="*", build=False)
    with pytest.raises(IndexDefinitionError, match="'all_idx' is over every column: name a column"):
        pruner_duckdb.sort_for(SOURCE, "all_idx", table=table)
    with pytest.raises(IndexDefinitionError, match="written for duckdb and spark, not for trino"):
        order_by(table.indexes(), "hour_idx", table.schema, "trino")
    assert order_by(table.indexes(), "Hour_idx", table.schema, "spark") == ["date_format(`ts`, 'HH')"]
    assert order_by((), "none", table.schema, "spark") is None
