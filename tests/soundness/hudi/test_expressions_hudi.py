"""Indexes over expressions on real Hudi tables: every row that Spark reads stays in the plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pruner
from tests.support.hudi.spark_reads import SparkReads
from tests.support.kept.tables import KeptTables

DUCKDB = pruner.Semantics(engine="duckdb", zone="UTC")
Row = Any
EXPRESSIONS: dict[str, Callable[[Row], Any]] = {
    "seats % 4": lambda row: None if row["seats"] is None else row["seats"] % 4,
    "fare * 2.0": lambda row: None if row["fare"] is None else row["fare"] * 2,
    "id + seats": lambda row: None if None in (row["id"], row["seats"]) else row["id"] + row["seats"],
    "seats + fare": lambda row: None if None in (row["seats"], row["fare"]) else row["seats"] + row["fare"],
}


def _file_id(name: str) -> str:
    return name.split("_", maxsplit=1)[0]


@pytest.mark.spark
@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
@pytest.mark.parametrize(
    "name",
    ["cow_v6", "cow_unpartitioned_v9", "mor_v6", "mor_v9", "mor_compacted_v9", "mor_partial_update_v9"],
)
def test_no_row_that_spark_reads_is_lost(
    name: str, using: str, spark_reads: SparkReads, hudi_tables: KeptTables, tmp_path: Path
) -> None:
    """T12, R5: over several columns a merged row can have a value that no stored row has."""
    path = hudi_tables.path(name)
    rows = spark_reads.read(path).rows
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    dropped = 0
    for number, expression in enumerate(EXPRESSIONS):
        table.create_index(f"i{number}", on=expression, using=using)
        for row in rows:
            value = EXPRESSIONS[expression](row)
            text = f"{expression} IS NULL" if value is None else f"{expression} = {value}"
            plan = table.plan(text, semantics=DUCKDB)
            assert _file_id(row["_hoodie_file_name"]) in {each.file_id for each in plan.slices}, text
        plan = table.plan(f"{expression} = -77", semantics=DUCKDB)
        logs = sum(bool(each.log_files) for each in table.snapshot().slices)
        several = expression in ("id + seats", "seats + fare")
        assert plan.kept == (logs if several else 0), expression
        dropped += plan.total - plan.kept
    assert dropped


@pytest.mark.spark
def test_partition_columns_prune_by_themselves(hudi_tables: KeptTables, tmp_path: Path) -> None:
    """N6: the path's value is not what every engine reads from the file."""
    table = pruner.open_table(str(hudi_tables.path("cow_v6")), index_uri=str(tmp_path / "index"))
    with pytest.raises(pruner.PrunerError, match="'city' stands in paths, which prune by themselves"):
        table.create_index("cities", on="upper(city)")
