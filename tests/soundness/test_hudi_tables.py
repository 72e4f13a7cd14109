"""No matching row of a real Hudi table is lost: every fixture table × random predicates, against Spark's snapshot read.

The oracle is Spark with Hudi's own data skipping off; it names the file group of each row in
`_hoodie_file_name`, so the test does not rely on our listing in any way.
"""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pruner
from tests.support.hudi_tables import HudiTables, table_names
from tests.support.spark import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.spark

PREDICATES_PER_TABLE = 40
SEMANTICS = pruner.Semantics(engine="spark", zone="UTC")


@pytest.mark.parametrize("name", table_names(".*"))
def test_no_matching_row_is_lost(
    name: str, spark: SparkSession, hudi_tables: HudiTables, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    path = hudi_tables.path(name)
    frame = spark_snapshot(spark, path)
    rows = frame.collect()
    rng = random.Random(f"{pytestconfig.option.hypothesis_seed} {name}")
    texts = list(_predicates(rng, rows, PREDICATES_PER_TABLE))
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    table.create_index("stats", on="*")
    pinned = table.snapshot()
    judged = frame.selectExpr(
        "_hoodie_file_name AS file", *[f"({text}) AS p{i}" for i, text in enumerate(texts)]
    )
    groups = [{_file_id(row["file"]) for row in judged.collect() if row[f"p{i}"]} for i in range(len(texts))]
    for text, expected in zip(texts, groups, strict=True):
        plan = pinned.plan(text, semantics=SEMANTICS)
        kept = {entry.file_id for entry in plan.slices}
        assert expected <= kept, (
            f"LOST {expected - kept} of {name} for {text} (seed {pytestconfig.option.hypothesis_seed})"
        )
        for ordinal, entry in enumerate(pinned.slices):
            if entry.log_files:
                assert plan.kept_mask[ordinal], f"a slice with logs of {name} was dropped for {text}"


@pytest.mark.parametrize("name", ["cow_v6", "cow_v8", "cow_v9", "cow_clustered_v9", "mor_v9"])
def test_statistics_drop_what_they_prove(
    name: str, spark: SparkSession, hudi_tables: HudiTables, tmp_path: Path
) -> None:
    """A value beyond every base file leaves the slices with logs alone; one that stands in one group leaves
    that too.
    """
    path = hudi_tables.path(name)
    rows = spark_snapshot(spark, path).collect()
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    table.create_index("stats", on="*")
    with_logs = {entry.file_id for entry in table.snapshot().slices if entry.log_files}
    nowhere = table.plan("id > 1000000", semantics=SEMANTICS)
    assert {entry.file_id for entry in nowhere.slices} == with_logs
    ranges: dict[str, tuple[int, int]] = {}
    for row in rows:
        low, high = ranges.get(_file_id(row["_hoodie_file_name"]), (row["id"], row["id"]))
        ranges[_file_id(row["_hoodie_file_name"])] = (min(low, row["id"]), max(high, row["id"]))
    for row in rows:
        plan = table.plan(f"id = {row['id']}", semantics=SEMANTICS)
        possible = {group for group, (low, high) in ranges.items() if low <= row["id"] <= high}
        assert {entry.file_id for entry in plan.slices} == possible | with_logs


def _file_id(name: str) -> str:
    """The file group of a row: base files are named `<file id>_<token>_<instant>.parquet`, logs give the file id."""
    return name.split("_", maxsplit=1)[0]


def _predicates(rng: random.Random, rows: list[Row], count: int) -> Iterator[str]:
    columns = [name for name in rows[0].asDict() if _literal(_first(rows, name)) is not None]
    for _ in range(count):
        parts = [_leaf(rng, rows, rng.choice(columns)) for _ in range(rng.choice([1, 1, 2, 3]))]
        yield parts[0] if len(parts) == 1 else "(" + rng.choice([" AND ", " OR "]).join(parts) + ")"


def _leaf(rng: random.Random, rows: list[Row], column: str) -> str:
    literals = [_literal(rng.choice(rows)[column]) for _ in range(3)]
    present = [literal for literal in literals if literal is not None] or [_literal(_first(rows, column))]
    text = rng.choice(
        [
            f"`{column}` {rng.choice(['=', '=', '<', '<=', '>', '>=', '!='])} {present[0]}",
            f"`{column}` IN ({', '.join(str(literal) for literal in present)})",
            f"`{column}` IS NULL",
            f"`{column}` BETWEEN {present[0]} AND {present[-1]}",
        ]
    )
    return f"NOT ({text})" if rng.random() < 0.2 else text


def _first(rows: list[Row], column: str) -> Any:
    return next((row[column] for row in rows if row[column] is not None), None)


def _literal(value: Any) -> str | None:
    """A literal of Spark SQL of exactly the value's type; None for types that are not drawn."""
    match value:
        case bool():
            return str(value).upper()
        case int():
            return str(value)
        case float():
            return f"{value!r}D" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
        case Decimal():
            return f"{value:f}BD"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case datetime.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case _:
            return None
