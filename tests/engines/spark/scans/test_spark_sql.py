"""`pruner_spark.sql` and `prune`: any statement by the catalog's own names, and statements about indexes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner
import pruner_spark
from tests.engines.spark.spark_tables import (
    Rows,
    everything_read,
    files_scanned,
    new_scans,
    rows_of,
    unordered,
)
from tests.support.cases.statement_tables import write_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Kept = list[tuple[str, int, int]]


@dataclass(frozen=True)
class Catalog:
    """Three tables of Spark's catalog, in the schema `lake`."""

    spark: SparkSession
    root: Path

    def run(self, query: str) -> tuple[Rows, Kept]:
        """Run a statement pruned; return its rows and what each scan kept."""
        before = pruner_spark.last_plans(self.spark)
        frame = pruner_spark.sql(self.spark, query)
        rows = rows_of(frame)
        scans = new_scans(self.spark, before)
        assert [scan.reason for scan in scans if scan.reason] == []
        kept = [(scan.table.rsplit("/", 1)[-1], scan.kept or 0, scan.total or 0) for scan in scans]
        assert sum(files_scanned(frame)) <= sum(count for _, count, _ in kept)
        return unordered(rows), sorted(kept)


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    root = write_parquet(tmp_path_factory.mktemp("catalog"))
    spark.sql("CREATE DATABASE IF NOT EXISTS lake")
    spark.sql(f"CREATE TABLE lake.flights USING parquet LOCATION '{(root / 'flights').as_uri()}'")
    spark.sql("MSCK REPAIR TABLE lake.flights")
    for name in ("carriers", "airports"):
        spark.sql(f"CREATE TABLE lake.{name} USING parquet LOCATION '{(root / name).as_uri()}'")
    for name in ("flights", "carriers", "airports"):
        pruner_spark.sql(spark, f"CREATE INDEX stats ON lake.{name} (*)")
    yield Catalog(spark, root)
    spark.sql("DROP DATABASE lake CASCADE")


SHAPES = {
    "semi": (
        "SELECT id FROM lake.flights f LEFT SEMI JOIN lake.carriers c ON f.carrier = c.code AND c.code = 'QF'",
        [("carriers", 1, 4), ("flights", 3, 12)],
    ),
    "anti": (
        "SELECT id FROM lake.flights f LEFT ANTI JOIN lake.carriers c ON f.carrier = c.code WHERE id < 100",
        [("carriers", 4, 4), ("flights", 1, 12)],
    ),
    "exists": (
        "SELECT id FROM lake.flights f WHERE id >= 1100 AND "
        "EXISTS (SELECT 1 FROM lake.airports a WHERE a.code = f.origin AND a.altitude < 400)",
        [("airports", 1, 3), ("flights", 1, 12)],
    ),
    "scalar subquery": (
        "SELECT id FROM lake.flights WHERE id = (SELECT min(altitude) + 4 FROM lake.airports WHERE code = 'ATL')",
        [("airports", 1, 3), ("flights", 1, 12)],
    ),
    "correlated subquery": (
        "SELECT id FROM lake.flights f WHERE id < 100 AND delay > "
        "(SELECT avg(delay) FROM lake.flights g WHERE g.origin = f.origin AND g.id < 200)",
        [("flights", 1, 12), ("flights", 2, 12)],
    ),
    "dynamic partition pruning": (
        "SELECT f.id FROM lake.flights f JOIN lake.carriers c ON f.region = lower(c.country) "
        "WHERE c.code = 'DL' AND f.id >= 600",
        [("carriers", 1, 4), ("flights", 6, 12)],
    ),
    "rand": ("SELECT id FROM lake.flights WHERE id < 100 AND rand(1) >= 0", [("flights", 1, 12)]),
    "window": (
        "SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY dest ORDER BY id) AS n "
        "FROM lake.flights WHERE dest = 'JFK') WHERE n <= 2",
        [("flights", 1, 12)],
    ),
    "outer join": (
        "SELECT c.code, f.id FROM lake.carriers c LEFT JOIN lake.flights f ON f.carrier = c.code AND f.id < 100",
        [("carriers", 4, 4), ("flights", 1, 12)],
    ),
    "with": (
        "WITH x AS (SELECT * FROM lake.flights WHERE dest = 'JFK') SELECT count(*) FROM x",
        [("flights", 1, 12)],
    ),
    "union": (
        "SELECT id FROM lake.flights WHERE id = 4 UNION ALL SELECT altitude FROM lake.airports WHERE altitude = 0",
        [("airports", 1, 3), ("flights", 1, 12)],
    ),
    "aggregate below having": (
        "SELECT dest, count(*) FROM lake.flights GROUP BY dest HAVING dest = 'JFK'",
        [("flights", 1, 12)],
    ),
    "limit": (
        "SELECT count(*) FROM (SELECT id FROM lake.flights LIMIT 700) WHERE id < 0",
        [("flights", 12, 12)],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_of_queries(catalog: Catalog, shape: str) -> None:
    query, kept = SHAPES[shape]
    with everything_read(catalog.spark):
        expected = unordered(rows_of(catalog.spark.sql(query)))
    rows, found = catalog.run(query)
    assert rows == expected
    assert found == kept


def test_views_of_the_catalog_are_pruned(catalog: Catalog) -> None:
    catalog.spark.sql("CREATE VIEW lake.late AS SELECT id, dest, delay FROM lake.flights WHERE delay > 100")
    catalog.spark.sql("CREATE OR REPLACE TEMP VIEW later AS SELECT * FROM lake.late WHERE delay > 105")
    query = "SELECT id FROM later WHERE dest = 'ORD'"
    with everything_read(catalog.spark):
        expected = unordered(
            rows_of(catalog.spark.sql("SELECT id FROM lake.flights WHERE dest='ORD' AND delay > 105"))
        )
    rows, kept = catalog.run(query)
    assert rows == expected
    assert kept == [("flights", 0 if not expected else 1, 12)]


def test_functions_of_the_user_are_not_guessed_at(catalog: Catalog) -> None:
    catalog.spark.udf.register("twice", lambda x: 2 * x, "int")
    rows, kept = catalog.run("SELECT id FROM lake.flights WHERE twice(id) = 208 AND id < 300")
    assert rows == [(104,)]
    assert kept == [("flights", 3, 12)]


def test_a_frame_made_without_pruner_is_pruned(catalog: Catalog) -> None:
    frame = catalog.spark.table("lake.flights").where("id = 104").select("dest")
    before = pruner_spark.last_plans(catalog.spark)
    assert rows_of(pruner_spark.prune(frame)) == rows_of(frame) == [("ATL",)]
    assert [(scan.kept, scan.total) for scan in new_scans(catalog.spark, before)] == [(1, 12)]


FILLED = "INSERT INTO lake.target VALUES (0, 'x')"
WRITES = {
    "INSERT INTO lake.target SELECT id, dest FROM lake.flights WHERE id = 104": FILLED,
    "CREATE TABLE lake.target USING parquet AS SELECT id, dest FROM lake.flights WHERE id = 104": None,
    "INSERT OVERWRITE lake.target SELECT id, dest FROM lake.flights WHERE id = 104": FILLED,
}


@pytest.mark.parametrize("statement", WRITES)
def test_statements_that_write_read_pruned(catalog: Catalog, statement: str) -> None:
    spark = catalog.spark
    spark.sql("DROP TABLE IF EXISTS lake.target")
    if WRITES[statement] is not None:
        spark.sql("CREATE TABLE lake.target (id INT, dest STRING) USING parquet")
        spark.sql(str(WRITES[statement]))
    rows, kept = catalog.run(statement)
    assert rows == []
    assert kept == [("flights", 1, 12)]
    expected = [(0, "x"), (104, "ATL")] if "INTO" in statement else [(104, "ATL")]
    assert unordered(rows_of(spark.table("lake.target"))) == expected


def test_merge_into_a_hudi_table_reads_its_source_pruned(catalog: Catalog) -> None:
    spark = catalog.spark
    keys = "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'version')"
    spark.sql(f"CREATE TABLE lake.merged (id INT, dest STRING, version INT) USING hudi {keys}")
    spark.sql("INSERT INTO lake.merged VALUES (104, 'old', 0), (7, 'stays', 0)")
    _, kept = catalog.run(
        "MERGE INTO lake.merged t USING (SELECT id, dest, version FROM lake.flights WHERE id IN (104, 106)) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert set(kept) == {("flights", 1, 12)}
    rows = unordered(rows_of(spark.sql("SELECT id, dest FROM lake.merged")))
    assert rows == [(104, "ATL"), (106, "ATL"), (7, "stays")]


def test_statements_about_indexes(catalog: Catalog, tmp_path: Path) -> None:
    spark = catalog.spark
    spark.range(10).write.parquet(str(tmp_path / "numbers"))
    spark.sql(f"CREATE TABLE lake.numbers USING parquet LOCATION '{(tmp_path / 'numbers').as_uri()}'")
    made = pruner_spark.sql(
        spark, "/* ours */ CREATE INDEX i ON lake.numbers USING column_stats (id)"
    ).collect()
    assert [tuple(row)[2:5] for row in made] == [("i", True, made[0].indexed)]
    assert made[0].statement == "create"
    assert made[0].indexed > 0
    shown = pruner_spark.sql(spark, "SHOW INDEXES ON lake.numbers").collect()
    assert [(row.name, row.using, row.columns, row["where"], row.segments, row.usable) for row in shown] == [
        ("i", "column_stats", ["id"], None, 1, True)
    ]
    assert pruner_spark.sql(spark, "DROP INDEX i ON lake.numbers").collect()[0].changed
    assert pruner.open_table(tmp_path / "numbers").indexes() == ()


def test_an_alias_in_the_configuration_names_the_table(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_parquet(tmp_path / "elsewhere")
    index = tmp_path / "index"
    pruner.open_table(root / "flights", index_uri=str(index)).create_index("stats", on="*")
    spark = catalog.spark
    spark.sql(f"CREATE TABLE lake.apart USING parquet LOCATION '{(root / 'flights').as_uri()}'")
    spark.sql("MSCK REPAIR TABLE lake.apart")
    before = pruner_spark.last_plans(spark)
    assert rows_of(pruner_spark.sql(spark, "SELECT id FROM lake.apart WHERE id = 104")) == [(104,)]
    assert new_scans(spark, before) == []
    settings = f'[tables.far]\nuri = "{root}/flights"\nindex_uri = "{index}"\naliases = ["lake.apart"]\n'
    (tmp_path / "pruner.toml").write_text(settings)
    monkeypatch.setenv("PRUNER_CONFIG", str(tmp_path / "pruner.toml"))
    assert rows_of(pruner_spark.sql(spark, "SELECT id FROM lake.apart WHERE id = 104")) == [(104,)]
    assert [(scan.table, scan.kept, scan.total) for scan in new_scans(spark, before)] == [("far", 1, 12)]
