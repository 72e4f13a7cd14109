"""Iceberg tables in DuckDB: what pyiceberg writes and reads, with and without indexes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pruner
import pruner_duckdb
from tests.support.iceberg_tables import ROWS, SPECS, IcebergLake, rows

CONDITIONS = (
    "id = 30",
    "id IN (3, 40, 55)",
    "number < -20",
    "number IS NULL",
    "number IS NOT NULL AND number % 2 = 0",
    "small = 0",
    "small > 3",
    "x > 5",
    "x = 'NaN'::DOUBLE",
    "NOT x < 3",
    "price BETWEEN 0 AND 1.5",
    "day < DATE '1970-01-01'",
    "day >= DATE '1970-05-01'",
    "\"at\" < TIMESTAMPTZ '1970-01-02 00:00:00Z'",
    "wall >= TIMESTAMP '1970-01-10 00:00:00'",
    "clock > TIME '20:00:00'",
    "name LIKE 'Ä%'",
    "name >= 'z'",
    "name = 'Zlang und breit lang und breit lang und breit 002'",
    "flag",
    "NOT flag",
    "flag IS NULL",
    "raw = '\\x05\\xFF\\x05'::BLOB",
    "inner_.a > 60",
    "inner_.b IS NULL",
    "id > 20 OR number IS NULL",
    "lower(name) = 'zlang und breit lang und breit lang und breit 002'",
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> IcebergLake:
    return IcebergLake(tmp_path_factory.mktemp("iceberg"))


@pytest.fixture(scope="module", params=SPECS)
def table(lake: IcebergLake, request: pytest.FixtureRequest) -> Any:
    made = lake.create(request.param, request.param)
    for start in range(0, 4 * ROWS, ROWS):
        made.append(rows(made, range(start, start + ROWS)))
    made.delete("id = 7 or id = 50")
    return made


def _conditions() -> Iterator[str]:
    return (each.replace("inner_", '"inner"') for each in CONDITIONS)


def _same(pruned: pruner_duckdb.Connection, table: Any, condition: str) -> None:
    whole = table.scan().to_arrow()
    with duckdb.connect() as plain:
        plain.execute("SET TimeZone = 'Asia/Kathmandu'")
        plain.register("t", whole)
        columns = ", ".join(f'"{name}"' for name in whole.column_names).replace(
            '"key"', "key::BLOB::VARCHAR AS key"
        )
        expected = plain.execute(f"SELECT {columns} FROM t WHERE {condition} ORDER BY id").fetchall()
    found = pruned.execute(
        f"SELECT * REPLACE (key::BLOB::VARCHAR AS key) FROM t WHERE {condition} ORDER BY id"
    )
    assert repr(found.fetchall()) == repr(expected), condition


@pytest.mark.parametrize("indexed", [False, True])
def test_rows_are_those_of_pyiceberg(table: Any, tmp_path: Path, indexed: bool) -> None:
    opened = pruner.open_table(table.metadata_location, index_uri=str(tmp_path / "index"))
    if indexed:
        opened.create_index("all", "*", "column_stats")
        opened.create_index("names", "name", "bitmap")
        opened.create_index("blooms", "id", "bloom_filter")
    with pruner_duckdb.connect({"t": opened}) as pruned:
        pruned.execute("SET TimeZone = 'Asia/Kathmandu'")
        for condition in _conditions():
            _same(pruned, table, condition)
