"""No row that Spark finds is lost by a plan of it, whatever Parquet types a column has from file to file.

Random tables of files that no single writer mixes × random settings, schemas and predicates. Spark is the oracle: it
computes the predicates as columns, so that nothing is pushed down. The plan is the one that `pruner_spark` makes of
what Spark's optimizer leaves of the predicate. `PRUNER_PAIRS` sets the number of pairs (`make fuzz N=…` sets it too),
`PRUNER_SEED` repeats the tables of some seeds.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import pruner
from pruner_spark.agreement import spark_columns
from pruner_spark.relation import PrunedRelation, Shape
from pruner_spark.session import SessionState
from tests.soundness.mixed_tables import FILES, MixedTable, Tally, indexed, seeds, write_table
from tests.soundness.parquet_type_kinds import Family
from tests.soundness.spark_types import another_writer, draw_predicate, families, rules, schema
from tests.support import profiles
from tests.support.catalyst import condition, settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PREDICATES_PER_TABLE = 25 if profiles.IS_FIXED else 100
DEFAULT_PAIRS = {"quick": 200, "default": 400}.get(profiles.NAME, profiles.REQUESTED)
PAIRS = int(os.environ.get("PRUNER_PAIRS", DEFAULT_PAIRS))
EVERYDAY = ("moments", "texts", "integers", "narrow integers", "days", "decimals", "fractions")
"""What most columns hold. Old dates, and bytes that a setting reads as text, prune less, as docs/guarantee.md says."""
LEAST_DROPPED = 0.4
"""Of the files of such tables, all files alike, that hold no matching row, the least share that plans drop."""
MOST_QUESTIONS = 24
PLAIN = "plain_of_types"

Errors = (PySparkException, Py4JError)


@dataclass(frozen=True)
class Asked:
    """A predicate that Spark accepts, as text and as its optimizer leaves it; `left` is None where nothing is left."""

    text: str
    left: Any


@dataclass
class SparkTypes:
    """The property over the tables of one test."""

    spark: SparkSession
    families: tuple[Family, ...]
    tally: Tally

    def check(self, seed: int, root: Path) -> None:
        """Draw a table and hold plans against what Spark finds."""
        rng = random.Random(seed)
        chosen = rules(rng)
        with settings(self.spark, chosen):
            table = write_table(rng, root, self.families, another_writer)
            schema_given = schema(rng, table)
            opened = indexed(rng, table)
            reader = self.spark.read if schema_given is None else self.spark.read.schema(schema_given)
            try:
                frame = reader.parquet(str(table.root))
            except Errors:
                return  # Spark does not read such a mix
            told = f"{table.family.name} as {[way.name for way in table.ways]} by {schema_given}, {chosen}"
            repeat = f"{told}\nrepeat: PRUNER_SEED={seed} .venv/bin/python -m pytest {__file__}"
            self._compare(rng, table, opened, frame, repeat)

    def _compare(
        self, rng: random.Random, table: MixedTable, opened: pruner.Table, frame: DataFrame, repeat: str
    ) -> None:
        frame.createOrReplaceTempView(PLAIN)
        asked = [
            each
            for each in (self._asked(draw_predicate(rng, table)) for _ in range(PREDICATES_PER_TABLE))
            if each
        ]
        relation = _relation(frame, opened)
        pinned, state = opened.snapshot(), SessionState.of(self.spark)
        for each, matching in self._matching(table, frame, asked):
            if each.left is None:
                continue  # Spark decided it by itself
            plan = relation.plan(each.left, state, pinned)
            kept = {Path(file).name for file in plan.files}
            assert matching <= kept, f"LOST {sorted(matching - kept)}: {each.text} over {repeat}"
            self.tally.add(table.kind, without=FILES - len(matching), dropped=FILES - len(kept))

    def _asked(self, text: str) -> Asked | None:
        try:
            return Asked(text, condition(self.spark.sql(f"SELECT 1 FROM {PLAIN} WHERE {text}")))
        except Errors:
            return None  # not for a column of this type

    def _matching(
        self, table: MixedTable, frame: DataFrame, asked: Sequence[Asked]
    ) -> list[tuple[Asked, set[str]]]:
        """The files with a row for which each predicate is true; predicates that fail are left out."""
        try:
            return _evaluated(frame, asked)
        except Errors:
            pass
        # Spark cannot read a file as the others, or a predicate fails on a value.
        readable = [
            file for file in map(str, sorted(table.root.glob("*.parquet"))) if self._reads(frame, file)
        ]
        return _bisected(self.spark.read.schema(frame.schema).parquet(*readable), asked) if readable else []

    def _reads(self, frame: DataFrame, file: str) -> bool:
        try:
            self.spark.read.schema(frame.schema).parquet(file).collect()
        except Errors:
            return False
        return True


def _evaluated(frame: DataFrame, asked: Sequence[Asked]) -> list[tuple[Asked, set[str]]]:
    columns = [f"{each.text} AS p{k}" for k, each in enumerate(asked)]
    rows = frame.selectExpr("_metadata.file_name AS `in file`", *columns).collect()
    return [(each, {row[0] for row in rows if row[k + 1]}) for k, each in enumerate(asked)]


def _bisected(frame: DataFrame, asked: Sequence[Asked]) -> list[tuple[Asked, set[str]]]:
    """The same without predicates that fail, for as many as a few questions can tell apart."""
    found: list[tuple[Asked, set[str]]] = []
    pending = [asked]
    for _ in range(MOST_QUESTIONS):
        if not pending:
            break
        chosen = pending.pop()
        try:
            found += _evaluated(frame, chosen)
        except Errors:
            half = len(chosen) // 2
            pending += [part for part in (chosen[:half], chosen[half:]) if half]
    return found


def _relation(frame: DataFrame, table: pruner.Table) -> PrunedRelation:
    """What `pruner_spark` plans with for a frame over files alone."""
    columns = spark_columns(json.loads(frame.schema.json()), {"fields": []})
    return PrunedRelation("t", table, Shape(columns), "", lambda _, __: None)


def test_no_row_is_lost_whatever_types_the_files_have(
    spark: SparkSession,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    record_property: Callable[[str, object], None],
) -> None:
    tally = Tally()
    checked = SparkTypes(spark, families(spark), tally)
    for seed in seeds(pytestconfig, PAIRS // PREDICATES_PER_TABLE):
        checked.check(seed, tmp_path / str(seed))
    record_property("figure", f"Spark: {tally}")
    if "PRUNER_SEED" not in os.environ:
        assert tally.share(*EVERYDAY) >= LEAST_DROPPED, str(tally)
