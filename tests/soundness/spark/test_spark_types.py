"""No plan loses a row that Spark finds, whatever Parquet types a column has from file to file.

Random tables of files that no single writer mixes × random settings, schemas and predicates. Spark is the oracle: it
computes the predicates as columns, so that nothing is pushed down. The plan is the one that `pruner_spark` makes of
what Spark's optimizer leaves of the predicate. `PRUNER_PAIRS` sets the number of pairs (`make fuzz N=…` sets it too),
`PRUNER_SEED` repeats the tables of some seeds.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pruner
import pruner_spark
from pruner_spark.formats import PARQUET
from pruner_spark.jvm import session_state
from pruner_spark.relations.agreement import spark_columns
from pruner_spark.relations.relation import PrunedRelation, Shape
from tests.soundness.mixed_tables import (
    FILES,
    UNINDEXED,
    MixedTable,
    Tally,
    indexed,
    repeated_by,
    seeds,
    write_table,
)
from tests.soundness.parquet_type_kinds import Family
from tests.soundness.spark.spark_questions import Errors, answers, conditions, fitting, matching, reading
from tests.soundness.spark.spark_types import PLAINLY, draw_predicate, families, rules, schema
from tests.soundness.written_types import another_writer
from tests.support.running import profiles
from tests.support.spark.catalyst import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PREDICATES_PER_TABLE = 25 if profiles.IS_FIXED else 100
DEFAULT_PAIRS = {"quick": 200, "default": 550}.get(profiles.NAME, profiles.REQUESTED)
PAIRS = int(os.environ.get("PRUNER_PAIRS", DEFAULT_PAIRS))
READS_PER_TABLE = 5
LEAST = {
    "moments": 0.35,
    "mixed moments": 0.1,
    "texts": 0.2,
    "integers": 0.4,
    "mixed integers": 0.3,
    "narrow integers": 0.5,
    "days": 0.6,
    "decimals": 0.6,
    "sixteen bytes": 0.4,
    "fractions": 0.8,
    "old moments": 0.05,
    "mixed old moments": 0.1,
    "old days": 0.1,
    "mixed old days": 0.15,
}
"""Of the files without a matching row, the least share that plans drop, by what files declare the column to hold.

Other mixtures may prune nothing, as do columns that a session reads as something else (docs/guarantee.md).
"""
PLAIN, PRUNED = "plain_of_types", "pruned_of_types"
FILE = "in_file"
OTHERWISE = " read otherwise"


@dataclass(frozen=True)
class Asked:
    """A table as a Spark reader has it; `otherwise` means that a schema or setting gives the column another type."""

    table: MixedTable
    opened: pruner.Table
    frame: DataFrame
    told: str
    otherwise: bool

    @property
    def kind(self) -> str:
        """What the column holds, for tallies, and what else keeps its files."""
        unindexed = "" if self.opened.indexes() else UNINDEXED
        return f"{self.table.kind}{OTHERWISE if self.otherwise else ''}{unindexed}"

    @property
    def relation(self) -> PrunedRelation:
        """What `pruner_spark` plans with for a frame over files alone."""
        columns = spark_columns(json.loads(self.frame.schema.json()), {"fields": []})
        return PrunedRelation("t", self.opened, Shape(PARQUET, columns), "", lambda _, __: None)


@dataclass
class SparkTypes:
    """The property over the tables of one test."""

    spark: SparkSession
    families: tuple[Family, ...]
    tally: Tally
    dropped: int = 0

    def check(self, seed: int, root: Path) -> None:
        """Draw a table and compare plans with what Spark finds."""
        rng = random.Random(seed)
        chosen = rules(rng)
        with settings(self.spark, chosen):
            table = write_table(rng, root, self.families, another_writer, turn=seed)
            schema_given = schema(rng, table)
            opened = indexed(rng, table)
            reader = self.spark.read if schema_given is None else self.spark.read.schema(schema_given)
            try:
                frame = reader.parquet(str(table.root))
            except Errors:
                return  # Spark does not read such a mix
            told = f"{table.family.name} as {[way.name for way in table.ways]} by {schema_given}, {chosen}"
            repeat = f"{told}\n{repeated_by(seed, __file__)}"
            self._compare(rng, Asked(table, opened, frame, repeat, self._reads_otherwise(table, frame)))

    def _reads_otherwise(self, table: MixedTable, frame: DataFrame) -> bool:
        """Whether a schema or a setting gives the column another type than Spark takes from the files by itself."""
        try:
            with settings(self.spark, PLAINLY):
                return bool(self.spark.read.parquet(str(table.root)).schema != frame.schema)
        except Errors:
            return True

    def _compare(self, rng: random.Random, asked: Asked) -> None:
        asked.frame.createOrReplaceTempView(PLAIN)
        drawn = dict.fromkeys(draw_predicate(rng, asked.table) for _ in range(PREDICATES_PER_TABLE))
        fit = [text for text, fits in answers(fitting(self.spark, PLAIN), list(drawn)).items() if fits]
        left = answers(conditions(self.spark, PLAIN), fit)
        found, whole = self._matching(asked, list(left))
        self._plan(asked, {text: left[text] for text in found}, found)
        if whole:
            self._read(
                asked,
                {text: found[text] for text in rng.sample(list(found), min(len(found), READS_PER_TABLE))},
            )

    def _plan(self, asked: Asked, left: Mapping[str, Any], found: Mapping[str, Counter[str]]) -> None:
        relation, pinned, state = asked.relation, asked.opened.snapshot(), session_state(self.spark)
        for text, condition in left.items():
            if condition is None:
                continue  # Spark decided it by itself
            plan = relation.plan(condition, state, pinned)
            kept = {Path(file).name for file in plan.files}
            lost = found[text].keys() - kept
            assert not lost, f"LOST {sorted(lost)}: {text} over {asked.told}"
            without = FILES - len(found[text])
            self.tally.add(asked.kind, asked.table, without=without, dropped=FILES - len(kept))

    def _read(self, asked: Asked, found: Mapping[str, Counter[str]]) -> None:
        """Read the rows of some predicates through the adapter."""
        named = asked.frame.selectExpr("*", f"_metadata.file_name AS {FILE}")
        pruner_spark.prune(named).createOrReplaceTempView(PRUNED)
        rows = reading(self.spark, PRUNED, FILE)(list(found))
        assert rows == found, f"LOST, or too many: {rows} of {found} over {asked.told}"
        self.dropped += sum(
            scan.files_dropped or 0 for scan in pruner_spark.last_plans(self.spark)[-len(found) :]
        )

    def _matching(self, asked: Asked, texts: Sequence[str]) -> tuple[dict[str, Counter[str]], bool]:
        """The rows of each file for which each predicate is true, and whether Spark can read all files."""
        try:
            return matching(asked.frame)(texts), True
        except Errors:
            pass  # Spark cannot read a file like the others, or a predicate fails on a value.
        files = sorted(map(str, asked.table.root.glob("*.parquet")))
        readable = [file for file in files if self._reads(asked.frame, file)]
        if not readable:
            return {}, False
        frame = self.spark.read.schema(asked.frame.schema).parquet(*readable)
        return answers(matching(frame), texts), readable == files

    def _reads(self, frame: DataFrame, file: str) -> bool:
        try:
            self.spark.read.schema(frame.schema).parquet(file).collect()
        except Errors:
            return False
        return True


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
        assert not tally.blunt(LEAST), str(tally)
        assert tally.pairs >= PAIRS // 4, "most predicates were not tried"
        assert checked.dropped > 0, "scans dropped no file"
