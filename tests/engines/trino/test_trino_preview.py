"""`pruner_trino.preview` against a real Trino: the preview shows what the plugin then does."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import trino.dbapi

import pruner
from pruner.errors import PrunerError
from pruner_trino import ScanPreview, preview
from tests.support.trino.server import STATIC, Trino
from tests.support.trino.tables import SCHEMA, Registered, TrinoTables, write_plain
from tools.trino.metastore import HIVE_TYPES

pytestmark = pytest.mark.trino

FILES = 10
NO_SPLIT = 1
"""Trino counts one empty split for a scan that has none."""
EPOCH = datetime.datetime(1970, 1, 1)
COLUMNS = {
    "n": "int",
    "x": "double",
    "f": "float",
    "s": "string",
    "code": "varchar(3)",
    "fixed": "char(5)",
    "price": "decimal(9,2)",
    "day": "date",
    "ts": "timestamp",
    "raw": "binary",
    "b": "boolean",
    "region": "string",
}


def _rows(number: int) -> pa.Table:
    """Values from 10 * `number` to 10 * `number` + 9 in every type."""
    values = range(number * 10, number * 10 + 10)
    return pa.table(
        {
            "n": pa.array(values, pa.int32()),
            "x": [value + 0.5 for value in values],
            "f": pa.array([value + 0.1 for value in values], pa.float32()),
            "s": [f"it's {value:03}" if value % 2 else f"name{value:03}" for value in values],
            "code": [f"C{value:02}" for value in values],
            "fixed": [f"F{value:02}" for value in values],
            "price": pa.array([Decimal(value) for value in values], pa.decimal128(9, 2)),
            "day": [EPOCH.date() + datetime.timedelta(days=30 * value) for value in values],
            "ts": pa.array([EPOCH + datetime.timedelta(days=value) for value in values], pa.timestamp("us")),
            "raw": [bytes([value]) for value in values],
            "b": [number < 5 for _ in values],
        }
    )


@pytest.fixture
def table(trino_tables: TrinoTables, tmp_path: Path) -> Registered:
    """Ten files in two partitions."""
    for number in range(FILES):
        region = "us" if number % 2 else "eu"
        write_plain(tmp_path / "lake" / f"region={region}" / f"part-{number}.parquet", _rows(number))
    return trino_tables.register(tmp_path / "lake", COLUMNS, partition_by="region")


def _connection(running: Trino, catalog: str) -> Any:
    return trino.dbapi.connect(
        host="127.0.0.1",
        port=running.server.port,
        user="tests",
        catalog=catalog,
        schema=SCHEMA,
        timezone="UTC",
    )


def _previews(table: Registered, sql: str, catalog: str = "pruned_hive") -> list[ScanPreview]:
    named = {f"{catalog}.{SCHEMA}.{table.name}": pruner.open_table(table.root)}
    return preview(_connection(table.trino, catalog), sql, tables=named)


PREDICATES = {
    "n = 42": 1,
    "n > 42 AND n <= 61": 3,
    "n IN (1, 42, 99)": 3,
    "n NOT BETWEEN 10 AND 89": 2,
    "n = 5 OR x > 85.5e0": 3,
    "x <> 5": 10,
    "f = REAL '42.1'": 1,
    "price BETWEEN 12.5 AND 19.99": 1,
    "code = 'C42'": 1,
    "fixed = 'F42'": 1,
    "day >= DATE '1977-05-24'": 1,
    "ts < TIMESTAMP '1970-01-11 00:00:00'": 1,
    "date(ts) = DATE '1970-02-12'": 1,
    "raw = X'2a'": 1,
    "b": 5,
    "NOT b": 5,
    "x IS NULL": 0,
    "s LIKE 'name04%'": 6,
    "region = 'eu'": 5,
    "region = 'eu' AND n > 42": 3,
    "region = 'eu' OR n = 99": 6,
    "n = 42 AND lower(s) LIKE '%0%'": 1,
    "CASE WHEN n > 5 THEN b ELSE s = 'x' END AND n < 20": 2,
    "n + 1 = 5": 1,
    "abs(n - 50) < 3": 2,
    "month(day) = 2": 9,
    "\"$path\" LIKE '%part%' AND n < 10": 1,
}
"""Predicates, and how many of the ten files must be read."""


def test_what_is_shown_is_what_the_plugin_does(
    table: Registered, record_property: Callable[[str, object], None]
) -> None:
    """The same number of files, for each predicate of the list."""
    for where, kept in PREDICATES.items():
        [shown] = _previews(table, f"SELECT count(*) FROM {table.name} WHERE {where}")
        assert (shown.reason, shown.total) == (None, FILES), where
        assert shown.kept == kept, f"{where}\n{shown.filter}\n{shown.report}"
        done = table.run(where, **STATIC)
        assert table.splits(done) == max(kept, NO_SPLIT), where
    record_property("figure", f"{len(PREDICATES)} predicates: as many files as the plugin reads")


def test_quotes_in_constants_are_never_guessed(table: Registered) -> None:
    """EXPLAIN writes `it's` without doubling the quote; such a filter is shown whole and drops nothing by itself."""
    [shown] = _previews(
        table, f"SELECT 1 FROM {table.name} WHERE s = 'it''s) AND (n = integer ''5' AND n < 10"
    )
    assert shown.kept == FILES
    assert "quotes inside a text" in shown.report


def test_each_scan_has_its_own_plan(table: Registered) -> None:
    """A join of a table with itself, and with one that is not in the configuration."""
    scans = _previews(
        table,
        f"SELECT count(*) FROM {table.name} a JOIN {table.name} b ON a.n = b.n CROSS JOIN system.runtime.nodes "
        "WHERE a.x > 91 AND b.f < 12",
    )
    # EXPLAIN does not know about values of `n` that only one side can have.
    ours = [scan for scan in scans if scan.plan is not None]
    assert sorted(str(scan.kept) for scan in ours) == ["1", "2"]
    [other] = [scan for scan in scans if scan.plan is None]
    assert "no table of the configuration" in str(other.reason)
    assert other.report.startswith(other.table)


def test_partitions_of_a_table_that_is_scanned_twice_are_those_of_either_scan(table: Registered) -> None:
    """EXPLAIN does not say which scan reads which partitions where no filter names them."""
    scans = _previews(
        table,
        f"SELECT n FROM {table.name} WHERE region = 'eu' AND n < 20 UNION ALL "
        f"SELECT n FROM {table.name} WHERE region = 'us' AND n > 79",
    )
    assert [scan.kept for scan in scans] == [2, 2]


def test_the_catalog_of_the_configuration_names_tables(
    table: Registered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`aliases` in `pruner.toml`."""
    alias = f"hive.{SCHEMA}.{table.name}"
    (tmp_path / "pruner.toml").write_text(f'[tables.lake]\nuri = "{table.root}"\naliases = ["{alias}"]\n')
    monkeypatch.chdir(tmp_path)
    [shown] = preview(_connection(table.trino, "hive"), f"SELECT 1 FROM {table.name} WHERE n = 42")
    assert (shown.table, shown.kept, shown.total) == (alias, 1, FILES)


def test_what_trino_refuses_is_an_error_in_one_line(table: Registered) -> None:
    """With Trino's message."""
    with pytest.raises(PrunerError, match="Column 'nowhere' cannot be resolved"):
        _previews(table, f"SELECT nowhere FROM {table.name}")


def test_a_server_that_is_not_there_is_an_error_in_one_line() -> None:
    """Without a traceback from the client."""
    connection = trino.dbapi.connect(host="127.0.0.1", port=1, user="tests", max_attempts=1)
    with pytest.raises(PrunerError, match="Trino did not answer"):
        preview(connection, "SELECT 1")


def test_hudi_is_shown_by_its_base_files(
    trino_tables: TrinoTables, hudi_table: Callable[[str], Path]
) -> None:
    """Trino reads only the base files of a merge-on-read table (T14)."""
    root = hudi_table("mor_v6")
    some = next(path for path in root.rglob("*.parquet") if ".hoodie" not in path.parts)
    columns = {
        field.name: HIVE_TYPES[field.type] for field in pq.read_schema(some) if field.type in HIVE_TYPES
    }
    registered = trino_tables.register(root, columns, partition_by="city", hudi=True)
    for where in ("fare = 3", "fare = 1003", "id > 1000"):
        [shown] = _previews(registered, f"SELECT 1 FROM {registered.name} WHERE {where}", "pruned_hudi")
        assert shown.plan is not None, shown.reason
        assert shown.plan.semantics.scan_mode == "read_optimized"
        done = registered.run(where, "pruned_hudi", **STATIC)
        assert registered.splits(done) == max(shown.plan.kept, NO_SPLIT), where
