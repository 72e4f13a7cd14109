"""The rules of `pruner.expr.functions` against Spark, over values at the edges of every type.

Each condition over a function is bound, from its text and from the optimizer's form of it. Spark evaluates it for each
value: no result may be one that either form rules out, in ANSI mode or out of it, nor may there be an error, as a
dropped file would have hidden it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.expr.functions.registry import FUNCTIONS
from pruner.expr.show import show
from pruner.expr.text.sql import parse_predicate
from pruner_spark.catalyst.decode import decode
from pruner_spark.jvm import session_state
from tests.support.functions.conditions import Claim, conditions, constants, guarded
from tests.support.functions.forms import FORMS, Form, column, functions_in, values_of
from tests.support.running.profiles import examples, seed
from tests.support.spark.catalyst import parquet_schema, settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pruner.expr.nodes import Expr

pytestmark = pytest.mark.spark

KINDS = ("int16", "int32", "int64", "text", "date", "wall", "instant")
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "+05:00")
MOST_VALUES = 60
MOST_COLUMNS = 120
"""Conditions in one query; more would not fit into one JVM method."""
CALENDAR = {
    f"spark.sql.parquet.{name}": "CORRECTED" for name in ("datetimeRebaseModeInRead", "int96RebaseModeInRead")
}


def quoted(text: str, result: str) -> str:
    """A result as a constant."""
    if result == "number":
        return f"({text})"
    prefix = {"date": "DATE ", "wall": "TIMESTAMP_NTZ ", "instant": "TIMESTAMP ", "text": ""}[result]
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"{prefix}'{escaped}'"


class Judge:
    """Spark over one file with the values of a column."""

    def __init__(self, spark: SparkSession, file: Path, kind: str, values: Sequence[Any]) -> None:
        self.kind, self.values, self._file = kind, values, file
        pq.write_table(pa.table({"n": range(len(values)), "c": column(list(values), kind)}), file)
        self.state = session_state(spark)
        self._frame: DataFrame = spark.read.parquet(str(file))

    def ask(self, asked: Mapping[str, set[int]]) -> dict[str, dict[int, Any]]:
        """The results of expressions, each for the values at the given positions alone."""
        found: dict[str, dict[int, Any]] = {}
        texts = [text for text, places in asked.items() if places]
        for start in range(0, len(texts), MOST_COLUMNS):
            some = texts[start : start + MOST_COLUMNS]
            columns = [
                f"{guarded(text, asked[text], len(self.values))} AS x{k}" for k, text in enumerate(some)
            ]
            rows = self._frame.selectExpr("n", *columns).collect()
            for k, text in enumerate(some):
                found[text] = {row[0]: row[k + 1] for row in rows if row[0] in asked[text]}
        return found

    def optimized(self, texts: Sequence[str]) -> Iterator[Expr]:
        """The optimizer's forms of conditions, decoded."""
        columns = [f"({text}) AS x{k}" for k, text in enumerate(texts)]
        frame: Any = self._frame.selectExpr(*columns)
        plan = frame._jdf.queryExecution().optimizedPlan()
        assert plan.nodeName() == "Project"
        schema = parquet_schema(self._file)
        for k in range(len(texts)):
            yield decode(plan.projectList().apply(k).child(), self.state, schema)

    def by_text(self, text: str) -> Expr:
        """A condition from its text."""
        return parse_predicate(text, self.state.semantics())

    def claim(self, text: str, source: str, expression: Expr) -> Claim:
        """What a form of a condition claims of the values."""
        return Claim(text, source, expression, self.kind, self.state.semantics(), self.values)


@dataclass(frozen=True)
class Function:
    """A function with the positions of the values that its rule covers, and conditions over it."""

    safe: set[int]
    conditions: list[str]


def functions(judge: Judge, forms: Sequence[Form], rng: random.Random, count: int) -> dict[str, Function]:
    """Conditions over each function, with constants among its own results."""
    safe: dict[str, set[int]] = {}
    for form in forms:
        test = f"({form.written['spark']}) IS NULL"
        safe[form.written["spark"]] = judge.claim(test, "text", judge.by_text(test)).spoken_of
    shown = judge.ask({f"CAST({text} AS STRING)": places for text, places in safe.items()})
    found: dict[str, Function] = {}
    for form in forms:
        text = form.written["spark"]
        results = list(shown.get(f"CAST({text} AS STRING)", {}).values())
        asked = conditions(text, constants(rng, results, form.result, quoted, count))
        found[text] = Function(safe[text], asked)
    return found


def check(judge: Judge, found: Mapping[str, Function]) -> set[str]:
    """Check every claim against Spark; return the functions for which something was ruled out."""
    every = [(name, text) for name, function in found.items() for text in function.conditions]
    claims: dict[str, list[Claim]] = {}
    places: dict[str, set[int]] = {}
    for (name, text), optimized in zip(every, judge.optimized([text for _, text in every]), strict=True):
        by_text, by_plan = (
            judge.claim(text, source, form)
            for source, form in (("text", judge.by_text(text)), ("optimized", optimized))
        )
        claims[text] = [by_text, by_plan]
        spoken = by_plan.spoken_of
        places[text] = by_text.spoken_of | (spoken if is_evaluated(optimized) else spoken & found[name].safe)
    for text, answers in judge.ask(places).items():
        for place, answer in answers.items():
            for claim in claims[text]:
                claim.check(place, answer)
    return {name for name, text in every if any(claim.drops for claim in claims[text])}


def is_evaluated(node: Expr) -> bool:
    """Tell whether Spark still evaluates a function, for every value, in the optimizer's form of a condition.

    The optimizer turns `CAST(c AS SMALLINT) IS NOT NULL` into `c IS NOT NULL`, and `-c > 32767` into
    `-c IS NULL AND NULL`, which is FALSE in a WHERE: then no value raises an error.
    """
    text = show(node)
    return "(" in text.replace("NOT (", "") and "AND NULL" not in text and "OR NULL" not in text


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_rule_rules_out_what_spark_answers(spark: SparkSession, tmp_path: Path, kind: str, ansi: str):
    """In all zones of the list under `make fuzz`; otherwise in one that the seed chooses."""
    rng = random.Random(f"{seed()} {kind} {ansi}")
    forms = [form for form in FORMS if "spark" in form.written and kind in form.types]
    of_moments = kind in ("wall", "date", "instant")
    count = max(1, examples(10) // 10)
    zones = rng.sample(ZONES, min(len(ZONES), 1 + count // 4)) if of_moments else ["UTC"]
    claimed: set[str] = set()
    for number, zone in enumerate(zones):
        values = values_of(kind)
        chosen = rng.sample(values, min(MOST_VALUES, len(values)))
        session = {**CALENDAR, "spark.sql.ansi.enabled": ansi, "spark.sql.session.timeZone": zone}
        with settings(spark, session):
            judge = Judge(spark, tmp_path / f"{number}.parquet", kind, chosen)
            claimed |= check(judge, functions(judge, forms, rng, count))
    silent = {form.written["spark"] for form in forms} - claimed
    assert not silent, "every condition over these keeps every file"


def test_every_row_for_spark_is_proved_here():
    named = {
        each.title or row.name
        for row in FUNCTIONS.values()
        for each in row.preimages
        if "spark" in each.compared
    }
    assert named <= functions_in("spark")
