"""Real scans of Spark and Trino over Hudi tables that have no index except Hudi's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner
import pruner_spark
from tests.engines.spark.spark_tables import files_scanned, new_scans, rows_of, unordered
from tests.support.hudi.states import all_tables
from tests.support.kept.tables import AllTables
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.trino.tables import TrinoTables

PREDICATES = (
    "seats > 90",
    "id BETWEEN 33 AND 35",
    "price < 5",
    "name = 'n00061'",
    "id IN (1, 2) OR big > 700000000000",
)
"""On columns whose statistics are believed."""

COLUMNS = {"id": "int", "city": "string", "name": "string", "seats": "int", "big": "bigint"}
COLUMNS |= {"price": "decimal(10,2)", "ts": "bigint"}
"""The columns of the predicates, by Hive's names of their types."""


DEFINED = {
    "name = 'n00060'": "hudi.secondary_index_by_name",
    "seats IN (55, 3)": "hudi.secondary_index_by_seats",
    "month(day) = 3": "hudi.expr_index_month_of_day",
}
"""Conditions on the table `cow_defined_v9`, and the index that narrows the files after statistics."""


@pytest.fixture(scope="module")
def indexed(start_session: Callable[[], SparkSession]) -> AllTables:
    """The tables with every index of Hudi's; read-only."""
    return all_tables(start_session)


@pytest.mark.spark
@pytest.mark.parametrize("name", ["cow_v6", "cow_v9", "cow_composite_v9", "mor_v8", "mor_v9"])
def test_spark_reads_what_hudis_statistics_leave(name: str, spark: SparkSession, indexed: AllTables) -> None:
    path = indexed.path(name)
    frame, plain = pruner_spark.read(spark, path), spark_snapshot(spark, path)
    kept = total = 0
    for predicate in PREDICATES:
        before = pruner_spark.last_plans(spark)
        chosen = frame.where(predicate)
        assert unordered(rows_of(chosen)) == unordered(rows_of(plain.where(predicate))), predicate
        (scan,) = new_scans(spark, before)
        assert scan.reason is None
        assert scan.kept is not None
        assert scan.total is not None
        assert files_scanned(chosen) == [scan.kept], predicate
        kept, total = kept + scan.kept, total + scan.total
    assert kept <= total * 0.7
    assert not Path(f"{path}.pruner").exists()


@pytest.mark.spark
@pytest.mark.parametrize(("predicate", "index"), DEFINED.items())
def test_spark_reads_what_a_defined_index_leaves(
    predicate: str, index: str, spark: SparkSession, indexed: AllTables
) -> None:
    """Secondary indexes leave the files with such rows and no others."""
    path = indexed.path("cow_defined_v9")
    before = pruner_spark.last_plans(spark)
    chosen = pruner_spark.read(spark, path).where(predicate)
    plain = spark_snapshot(spark, path).where(predicate)
    assert unordered(rows_of(chosen)) == unordered(rows_of(plain))
    (scan,) = new_scans(spark, before)
    assert scan.reason is None
    assert index in scan.explain()
    assert scan.kept is not None
    assert scan.total is not None
    assert files_scanned(chosen) == [scan.kept]
    if "secondary" in index:
        assert scan.kept == plain.select("_hoodie_file_name").distinct().count() > 0
    assert scan.kept < scan.total
    assert not Path(f"{path}.pruner").exists()


@pytest.mark.trino
def test_trino_reads_what_defined_indexes_leave(
    trino_tables: TrinoTables, indexed: AllTables, tmp_path: Path
) -> None:
    root = indexed.copy("cow_defined_v9", tmp_path)
    columns = {**COLUMNS, "day": "date"}
    table = trino_tables.register(root, columns, partition_by="city", hudi=True, indexed=False)
    pinned = pruner.open_table(root).snapshot()
    rules = pruner.Semantics(engine="trino", scan_mode="read_optimized")
    everything = table.splits(table.run("true", catalog="pruned_hudi"))
    for predicate, index in DEFINED.items():
        pruned = table.run(predicate, catalog="pruned_hudi")
        assert pruned.rows == table.run(predicate, catalog="hudi").rows, predicate
        plan = pinned.plan(predicate, semantics=rules)
        assert index in plan.explain()
        assert table.splits(pruned) == plan.kept < everything, predicate
    assert not Path(f"{root}.pruner").exists()


@pytest.mark.trino
@pytest.mark.parametrize("name", ["cow_v6", "cow_v9", "mor_v9"])
def test_trino_reads_what_hudis_statistics_leave(
    name: str, trino_tables: TrinoTables, indexed: AllTables, tmp_path: Path
) -> None:
    """Trino reads base files alone, and each is one split."""
    root = indexed.copy(name, tmp_path)
    table = trino_tables.register(root, COLUMNS, partition_by="city", hudi=True, indexed=False)
    pinned = pruner.open_table(root).snapshot()
    rules = pruner.Semantics(engine="trino", scan_mode="read_optimized")
    everything = table.splits(table.run("true", catalog="pruned_hudi"))
    for predicate in PREDICATES:
        pruned = table.run(predicate, catalog="pruned_hudi")
        assert pruned.rows == table.run(predicate, catalog="hudi").rows, predicate
        kept = pinned.plan(predicate, semantics=rules).kept
        assert table.splits(pruned) == kept < everything, predicate
    assert not Path(f"{root}.pruner").exists()
