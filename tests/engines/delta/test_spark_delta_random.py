"""Random conditions on a Delta table in Spark: no file with a match is left out, and none stays that Delta drops.

Spark evaluates all of them once, over rows without statistics; then each is planned, and the files that are left in
its scan are compared with those of the matching rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from operator import add
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import pruner
import pruner_spark
from tests.engines.spark.spark_tables import new_scans
from tests.support.delta.writer import FILE, DeltaWriter, placed
from tests.support.running import profiles
from tests.support.spark.catalyst import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FILES, ROWS = 12, 8
AT_ONCE = 50
"""Conditions per query: each is an expression, and all are compiled together."""

ROW = (
    "id",
    "IF(id % 11 = 5, NULL, CAST(id DIV 8 * 10 + id % 3 AS INT)) AS k",
    "IF(id % 13 = 7, NULL, concat(repeat('long text alike ', IF(id % 5 = 0, 3, 0)), "
    "'s', lpad(id * 37 % 96, 3, '0'))) AS s",
    "CASE WHEN id % 17 = 3 THEN double('NaN') WHEN id % 19 = 4 THEN -0.0D ELSE id / 4 - 8 END AS d",
    "TIMESTAMP '2024-03-30 22:00:00.000999' + make_dt_interval(0, CAST(id AS INT), 0, 0.000001 * id) AS t",
    "date_add(DATE '1581-12-30', CAST(id * 3000 AS INT)) AS day",
    "CAST(id * 1.37 - 40 AS DECIMAL(12, 3)) AS m",
    "IF(id % 23 = 1, NULL, named_struct('a', CAST(id % 8 AS INT), 'b', concat('b', id DIV 16))) AS st",
    "CAST(id DIV 24 AS STRING) AS p",
)
LITERALS = {
    "id": ("0", "17", "40", "95", "96", "-1"),
    "k": ("0", "31", "72", "110", "55"),
    "s": (
        "'s037'",
        "'s'",
        "'long text alike '",
        "'long text alike long text alike long text alike s005'",
        "''",
        "'zz'",
    ),
    "d": ("0.0D", "-8.0D", "double('NaN')", "7.25D", "1e300D"),
    "t": (
        "TIMESTAMP '2024-03-31 01:00:00'",
        "TIMESTAMP '2024-03-30 22:00:00.000999'",
        "TIMESTAMP '2024-04-01'",
    ),
    "day": ("DATE '1582-10-10'", "DATE '1999-12-31'", "DATE '1581-12-30'", "DATE '2300-01-01'"),
    "m": ("0.000BD", "-40.000BD", "12.330BD", "91BD"),
    "st.a": ("0", "3", "7", "9"),
    "st.b": ("'b0'", "'b3'", "'c'"),
    "p": ("'0'", "'2'", "'9'"),
}
WRAPPED = {
    "id": ("id % 7", "id + 1"),
    "k": ("abs(k)", "coalesce(k, 31)"),
    "s": ("upper(s)", "substring(s, 1, 3)", "trim(s)"),
    "t": ("date_trunc('hour', t)", "t + INTERVAL 1 HOUR"),
    "p": ("CAST(p AS INT)",),
}


@dataclass(frozen=True)
class Kept:
    """A table with an index, its rows with their files, its files, and those of them with days before 1582."""

    table: DeltaWriter
    truth: DataFrame
    files: list[str]
    early: set[str]

    def of_delta(self, text: str) -> set[str]:
        """The files that Delta itself reads for a condition."""
        return _left(
            self.table.spark.read.format("delta").load(str(self.table.path)).where(text), self.table.path
        )


@pytest.fixture(scope="module")
def kept(delta: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    table = _written(delta, tmp_path_factory.mktemp("random") / "t")
    pruner.open_table(table.path).create_index("some", on=["k", "s"], using="bitmap")
    frame = delta.read.format("delta").load(str(table.path))
    rows = frame.selectExpr("*", f"_metadata.file_path AS {FILE}")
    # In-memory rows, detached from the table's files: neither Delta nor Parquet can skip any.
    truth = delta.createDataFrame(rows.collect(), rows.schema).coalesce(1)
    data: Any = pruner.open_table(table.path).snapshot().data.columns
    files = [placed(uri, table.path) for uri in data.column("base_file").to_pylist()]
    early = truth.where("day < DATE '1582-10-15'").select(FILE).distinct().collect()
    return Kept(table, truth, files, {placed(row[0], table.path) for row in early})


def _written(delta: SparkSession, path: Path) -> DeltaWriter:
    table = DeltaWriter(delta, path)
    rows = delta.range(0, FILES * ROWS, 1, FILES).selectExpr(*ROW)
    writer = rows.write.format("delta").partitionBy("p")
    writer.option("delta.enableDeletionVectors", "true").option("delta.columnMapping.mode", "name").save(
        str(path)
    )
    return table.sql(
        "DELETE FROM {t} WHERE id IN (3, 40, 41, 95)",
        "ALTER TABLE {t} RENAME COLUMN k TO other",
        "ALTER TABLE {t} RENAME COLUMN other TO k",
    )


def condition(random: Random, depth: int = 2) -> str:
    """Return a condition: comparisons, NULL tests, lists, patterns, and combinations of them."""
    if depth and random.random() < 0.5:
        left, right = condition(random, depth - 1), condition(random, depth - 1)
        return random.choice((f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"))
    name = random.choice(list(LITERALS))
    literal = random.choice(LITERALS[name])
    side = random.choice(WRAPPED[name]) if name in WRAPPED and random.random() < 0.25 else name
    kind = random.randrange(8)
    if kind == 0:
        return f"{side} IS {random.choice(('', 'NOT '))}NULL"
    if kind == 1:
        return f"{side} {random.choice(('', 'NOT '))}IN ({', '.join(random.sample(LITERALS[name], 2))})"
    if kind == 2 and side == "s":
        return f"s LIKE {random.choice(LITERALS['s'])[:-1]}%'"
    if kind == 3:
        return f"{side} BETWEEN {literal} AND {random.choice(LITERALS[name])}"
    return f"{side} {random.choice(('=', '<', '>', '<=', '>=', '<=>', '!='))} {literal}"


def test_conditions_lose_nothing_and_keep_no_more_than_delta(kept: Kept) -> None:
    seed = profiles.seed()
    print(f"seed {seed}")
    random = Random(seed)
    conditions = [condition(random) for _ in range(profiles.examples(60))]
    with settings(kept.table.spark, {"spark.sql.adaptive.enabled": "false"}):
        for start in range(0, len(conditions), AT_ONCE):
            some = conditions[start : start + AT_ONCE]
            for text, files in zip(some, _matching(kept, some), strict=True):
                _check(kept, text, files)


def _matching(kept: Kept, conditions: list[str]) -> list[set[str]]:
    """The files with a row for which each condition is true."""
    columns = [f"({text}) AS c{number}" for number, text in enumerate(conditions)]
    rows = [
        (placed(row[0], kept.table.path), row[1:]) for row in kept.truth.selectExpr(FILE, *columns).collect()
    ]
    return [{file for file, is_true in rows if is_true[number]} for number in range(len(conditions))]


def _check(kept: Kept, text: str, matching: set[str]) -> None:
    spark = kept.table.spark
    before = pruner_spark.last_plans(spark)
    frame = pruner_spark.read(spark, kept.table.path).where(text)
    left = _left(frame, kept.table.path)
    assert matching <= left, f"{text} loses {sorted(matching - left)}"
    for scan in new_scans(spark, before):
        assert scan.reason is None, (text, scan.reason)
        assert scan.files_unknown in (0, None), text
        if scan.plan is not None:
            planned = {file for file, is_kept in zip(kept.files, scan.plan.kept_mask, strict=True) if is_kept}
            assert matching <= planned, f"{text} loses {sorted(matching - planned)}"
            more = planned - left  # which are planned, and listed by Delta
            more = more and more - _beyond(kept, text)
            assert not more, f"{text}: Delta itself leaves out {sorted(more)}"


def _beyond(kept: Kept, text: str) -> set[str]:
    """The files that pruner may keep though Delta leaves them out, because Delta believes more (docs/delta.md).

    Delta evaluates casts of partition values: here the cast is replaced by one that prunes nothing. It believes bounds
    before 1582, which may be of another calendar, and that a file whose maximum is not NaN holds no NaN, which is true
    of Spark's statistics alone: here any file may hold one. Pruner decides for each comparison separately whether its
    row has NaN, so it also reads the files that Delta reads where some of the numbers are NaN.
    """
    text = text.replace("CAST(p AS INT)", f"CAST({UNPRUNED} AS INT)")
    found = kept.early if names_column(text, "day") else set[str]()
    for each in variants(text, "d", "d", "double('NaN')"):
        found = found | kept.of_delta(each)
    return found


def names_column(text: str, name: str) -> bool:
    """Whether a condition names a column; no literal contains it as a word."""
    return re.search(rf"\b{name}\b", text) is not None


def variants(text: str, pattern: str, *values: str) -> Iterator[str]:
    """Yield a condition with every match of a pattern replaced by each of the values, in all combinations."""
    parts = re.split(rf"\b{pattern}\b", text)
    for chosen in product(values, repeat=len(parts) - 1):
        yield "".join(map(add, parts, (*chosen, "")))


UNPRUNED = "substring(s, 1, 3)"
"""A text by which Delta leaves out no file."""


def _left(frame: DataFrame, root: Path) -> set[str]:
    """The files that the scan of a DataFrame would read."""
    java_frame: Any = frame._jdf
    leaves = java_frame.queryExecution().executedPlan().collectLeaves()
    found: set[str] = set()
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.getClass().getSimpleName() == "FileSourceScanExec":
            for partition in leaf.selectedPartitions():
                files = partition.files()
                found |= {
                    placed(files.apply(k).getPath().toUri().toString(), root) for k in range(files.size())
                }
    return found
