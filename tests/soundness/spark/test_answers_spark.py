"""Queries that metadata answers in Spark have the rows of a full scan, over Parquet trees and over Hudi tables.

The oracle reads all rows once, with the conditions as columns, so that nothing is pushed down. `make soak` and
PRUNER_ANSWER_QUERIES=3000 run more; a failure names its seed.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import pruner
import pruner_spark
from tests.soundness.answer_statements import Query, draw_query
from tests.soundness.spark.spark_predicates import draw, name
from tests.soundness.tables import RandomTable, write_table
from tests.support.hudi.tables import table_names
from tests.support.kept.tables import KeptTables
from tests.support.spark.catalyst import settings
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

QUERIES = int(os.environ.get("PRUNER_ANSWER_QUERIES", "40"))
PER_TABLE = 20
PLAIN = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.planChangeValidation": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    # Spark's own row group filter drops NaN, which pyarrow leaves out of the statistics (docs/traps.md, S1).
    "spark.sql.parquet.filterPushdown": "false",
}
ZONES = ("UTC", "America/New_York", "Asia/Kolkata")
HUDI = "cow_v6|cow_v9|mor_v8|mor_v9|mor_compacted_v9"


def _seeds(config: pytest.Config) -> list[int]:
    given = os.environ.get("PRUNER_SEED")
    if given:
        return [int(given)]
    base = int(config.option.hypothesis_seed)
    return [(base * 1_000_003 + 4242 + number) % 2**32 for number in range(max(1, QUERIES // PER_TABLE))]


def test_answers_over_parquet_equal_a_full_scan(
    spark: SparkSession,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    record_property: Callable[[str, object], None],
) -> None:
    tally: Counter[str] = Counter()
    for seed in _seeds(pytestconfig):
        rng = random.Random(seed)
        table = write_table(rng, tmp_path / str(seed), file_count=8, column_count=5)
        rules = {**PLAIN, "spark.sql.session.timeZone": rng.choice(ZONES)}
        with settings(spark, rules):
            early = pruner_spark.read(spark, table.root) if rng.random() < 0.2 else None
            _index(rng, table)
            plain, pruned = spark.read.parquet(str(table.root)), pruner_spark.read(spark, table.root)
            if early is not None and set(early.inputFiles()) == set(plain.inputFiles()):
                pruned = early
            conditions = ["" if rng.random() < 0.15 else draw(rng, table) for _ in range(PER_TABLE)]
            _check(spark, rng, plain, pruned, list(table.columns), conditions, f"PRUNER_SEED={seed}", tally)
    _tell(record_property, "Spark, Parquet", tally)
    if "PRUNER_SEED" not in os.environ:
        assert tally["fewer"] > tally["all"] / 10


def _index(rng: random.Random, table: RandomTable) -> None:
    """Statistics of all columns or of some, bitmaps of some, a file without records, and one that changed since."""
    last, changed = table.root / "part-007.parquet", table.root / "part-003.parquet"
    content = last.read_bytes()
    if hidden := rng.random() < 0.3:
        last.unlink()
    for path in table.root.glob("*.parquet"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    opened = pruner.open_table(str(table.root))
    some = [each for each in table.columns if rng.random() < 0.6]
    if rng.random() < 0.8:
        opened.create_index("stats", on="*")
    elif some:
        opened.create_index("stats", on=[f'"{each}"' for each in some])
    for column, kind in table.columns.items():
        if rng.random() < 0.5 and "binary" not in kind.name and "uuid" not in kind.name:
            try:
                opened.create_index(f"rows of {column}", on=f'"{column}"', using="bitmap")
            except pruner.IndexDefinitionError:
                continue
    if hidden:
        last.write_bytes(content)
    if rng.random() < 0.2:
        pq.write_table(pq.read_table(table.root / "part-001.parquet"), changed)


def _check(
    spark: SparkSession,
    rng: random.Random,
    plain: DataFrame,
    pruned: DataFrame,
    columns: Sequence[str],
    conditions: Sequence[str],
    repeat: str,
    tally: Counter[str],
) -> None:
    told = [f"({text}) AS pruner_{k}" if text else f"true AS pruner_{k}" for k, text in enumerate(conditions)]
    rows: list[Any] = plain.selectExpr("*", *told).collect()
    pruned.createOrReplaceTempView("answers_pruned")
    for k, text in enumerate(conditions):
        matching = [row.asDict() for row in rows if row[f"pruner_{k}"]]
        query: Query = draw_query(rng, columns, text)
        written = query.sql("answers_pruned", name)
        query.require(spark.sql(written).collect(), matching, f"\n{written}\n{repeat}")
        scans = pruner_spark.last_plans(spark)
        tally["all"] += 1
        tally["fewer"] += bool(scans) and scans[-1].left is not None
        tally[query.kind] += 1
    spark.catalog.dropTempView("answers_pruned")


def _tell(record_property: Callable[[str, object], None], what: str, tally: Counter[str]) -> None:
    record_property(
        "figure", f"{what}: {tally['all']} queries, {tally['fewer']} with less to read by metadata"
    )


@pytest.mark.parametrize("table", table_names(HUDI))
def test_answers_over_hudi_equal_a_full_scan(
    spark: SparkSession,
    table: str,
    hudi_tables: KeptTables,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    record_property: Callable[[str, object], None],
) -> None:
    path = hudi_tables.path(table)
    rng = random.Random(f"{pytestconfig.option.hypothesis_seed} {table}")
    opened = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    opened.create_index("stats", on="*")
    tally: Counter[str] = Counter()
    for optimized in (False, True) if table.startswith("mor") else (False,):
        plain = spark_snapshot(spark, path, read_optimized=optimized)
        pruned = pruner_spark.read(spark, path, index_uri=str(tmp_path / "index"), read_optimized=optimized)
        columns = ["id", "seats", "fare", "ts"]
        literals = plain.selectExpr(*columns).collect()
        for _ in range(max(1, QUERIES // 200)):
            conditions = [_condition(rng, literals) for _ in range(8)]
            with settings(spark, PLAIN):
                _check(spark, rng, plain, pruned, columns, conditions, f"{table} {optimized}", tally)
    _tell(record_property, f"Spark, Hudi {table}", tally)
    # No answer covers slices with log files.
    assert tally["fewer"] or table.startswith("mor")


def _condition(rng: random.Random, rows: Sequence[Any]) -> str:
    if rng.random() < 0.3:
        return ""
    column = rng.choice(["id", "seats", "ts"])
    value = rng.choice([row[column] for row in rows])
    if value is None:
        return f"{column} IS {rng.choice(['', 'NOT '])}NULL"
    text = f"{column} {rng.choice(['=', '<', '<=', '>', '>=', '<>'])} {value}"
    return f"NOT ({text})" if rng.random() < 0.2 else text
