"""A plan of the predicate that Spark's own optimizer hands over loses no row that Spark finds.

Random Parquet tables × random predicates: the rows of a full scan, computed as columns so that nothing is pushed down,
against the plan. Where `pruner.expr` understands the text of the same predicate, the plan of Catalyst's form keeps no
more files. `make fuzz N=…` runs more pairs; a failure names its seed.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner
from pruner.errors import PredicateError
from pruner.expr.text.sql import parse_predicate
from pruner_spark.catalyst.decode import decode
from pruner_spark.jvm import session_state
from tests.soundness.spark.spark_predicates import draw
from tests.soundness.tables import RandomTable, write_table
from tests.support.running import profiles
from tests.support.spark.catalyst import condition, settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pruner_spark.session import SessionState

pytestmark = pytest.mark.spark

PREDICATES_PER_TABLE = 50
PAIRS = profiles.examples(300)
ZONES = ("UTC", "America/New_York", "Asia/Kolkata")


def _seeds(config: pytest.Config) -> list[int]:
    given = os.environ.get("PRUNER_SEED")
    if given:
        return [int(seed) for seed in given.split(",")]
    base = int(config.option.hypothesis_seed)
    return [(base * 1_000_003 + number) % 2**32 for number in range(max(1, PAIRS // PREDICATES_PER_TABLE))]


def _matching(frame: DataFrame, predicates: list[str]) -> list[set[str]]:
    """The names of the files with a row on which each predicate is true."""
    frame.selectExpr("_metadata.file_name AS `in file`", "*").createOrReplaceTempView("soundness_rows")
    columns = ", ".join(f"coalesce(bool_or({text}), false) AS p{k}" for k, text in enumerate(predicates))
    rows = frame.sparkSession.sql(
        f"SELECT `in file`, {columns} FROM soundness_rows GROUP BY `in file`"
    ).collect()
    return [{row[0] for row in rows if row[k + 1]} for k in range(len(predicates))]


def test_no_matching_row_is_lost(
    spark: SparkSession,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    record_property: Callable[[str, object], None],
) -> None:
    tally: Counter[str] = Counter()
    for seed in _seeds(pytestconfig):
        rng = random.Random(seed)
        table = write_table(rng, tmp_path / str(seed))
        predicates = [draw(rng, table) for _ in range(PREDICATES_PER_TABLE)]
        rules = {
            "spark.sql.session.timeZone": rng.choice(ZONES),
            "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": rng.choice(["NO_CODEGEN", "CODEGEN_ONLY"]),
        }
        with settings(spark, rules):
            _check(spark, seed, table, predicates, tally)
    told = ", ".join(f"{what} {count:,}" for what, count in sorted(tally.items()))
    record_property("figure", f"Spark, predicates as Catalyst has them: {told}")
    if "PRUNER_SEED" not in os.environ:
        assert tally["some files match"] >= 0.3 * tally["pairs"]
        assert tally["dropped"] >= 0.5 * tally["files without a match"]


def _check(
    spark: SparkSession, seed: int, table: RandomTable, predicates: list[str], tally: Counter[str]
) -> None:
    view = f"soundness_{seed}"
    frame = spark.read.parquet(str(table.root))
    frame.createOrReplaceTempView(view)
    opened = pruner.open_table(str(table.root))
    opened.create_index("stats", on="*")
    pinned = opened.snapshot()
    state = session_state(spark)
    everything = {Path(file).name for file in table.files}
    for text, matching in zip(predicates, _matching(frame, predicates), strict=True):
        tally["pairs"] += 1
        tally["some files match"] += 0 < len(matching) < len(everything)
        left = condition(spark.sql(f"SELECT 1 FROM {view} WHERE {text}"))
        if left is None:
            continue
        expression = decode(left, state, pinned.schema)
        plan = pinned.plan(expression, semantics=state.semantics())
        kept = {Path(file).name for file in plan.files}
        repeat = (
            f"\npredicate: {text}\ndecoded: {plan.predicate}\nCatalyst: {left.toString()}"
            f"\nrepeat: PRUNER_SEED={seed} .venv/bin/python -m pytest tests/soundness/spark/test_spark_predicates.py"
        )
        assert matching <= kept, f"LOST {sorted(matching - kept)}{repeat}"
        tally["files without a match"] += len(everything - matching)
        tally["dropped"] += len(everything - kept)
        by_text = _by_text(pinned, text, state)
        if by_text is not None:
            tally["compared with the text"] += 1
            tally["sharper than the text"] += kept < by_text
            assert kept <= by_text, f"kept, though the text drops it: {sorted(kept - by_text)}{repeat}"


def _by_text(pinned: pruner.PinnedSnapshot, text: str, state: SessionState) -> set[str] | None:
    try:
        expression = parse_predicate(text, state.semantics())
        plan = pinned.plan(expression, semantics=state.semantics())
    except PredicateError:
        return None
    return {Path(file).name for file in plan.files}
