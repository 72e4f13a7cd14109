"""What Spark makes of many predicates, asked at once: a question about all costs hardly more than about one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Answer = TypeVar("Answer")
Ask = Callable[[Sequence[str]], dict[str, Answer]]

Errors = (PySparkException, Py4JError)
MOST_QUESTIONS = 24


def answers(ask: Ask[Answer], texts: Sequence[str]) -> dict[str, Answer]:
    """The answers for predicates, without those that fail, as far as a few questions can separate them."""
    found: dict[str, Answer] = {}
    pending = [texts] if texts else []
    for _ in range(MOST_QUESTIONS):
        if not pending:
            break
        chosen = pending.pop()
        try:
            found.update(ask(chosen))
        except Errors:
            half = len(chosen) // 2
            pending += [part for part in (chosen[:half], chosen[half:]) if half]
    return found


def fitting(spark: SparkSession, view: str) -> Ask[bool]:
    """Whether predicates fit the types of a view's columns. Only the analyzer reports it without errors."""

    def ask(texts: Sequence[str]) -> dict[str, bool]:
        session: Any = spark._jsparkSession
        state = session.sessionState()
        plan = state.sqlParser().parsePlan(f"SELECT {', '.join(f'({text})' for text in texts)} FROM {view}")
        columns = state.analyzer().execute(plan).projectList()
        return {text: bool(columns.apply(k).resolved()) for k, text in enumerate(texts)}

    return ask


def conditions(spark: SparkSession, view: str) -> Ask[Any]:
    """The condition that Spark's optimizer leaves above the scan of each predicate; None where it leaves none."""

    def ask(texts: Sequence[str]) -> dict[str, Any]:
        frame: Any = spark.sql(scans(texts, view, "1"))._jdf
        found: dict[str, Any] = dict.fromkeys(texts)
        for branch in _branches(frame.queryExecution().optimizedPlan()):
            found[texts[_number(branch)]] = _condition(branch)
        return found

    return ask


def scans(texts: Sequence[str], view: str, column: str) -> str:
    """A statement that scans a view for each predicate and numbers what it finds."""
    return " UNION ALL ".join(
        f"SELECT {k} AS k, {column} AS c FROM {view} WHERE {text}" for k, text in enumerate(texts)
    )


def _branches(plan: Any) -> list[Any]:
    """The remaining scans of a union; those that can have no rows are gone."""
    if plan.nodeName() == "Union":
        children = plan.children()
        return [children.apply(k) for k in range(children.size())]
    return [plan] if plan.nodeName() == "Project" else []


def _number(branch: Any) -> int:
    return int(branch.projectList().apply(0).child().value())


def _condition(branch: Any) -> Any:
    below = branch.child()
    return below.condition() if below.nodeName() == "Filter" else None


def matching(frame: DataFrame) -> Ask[Counter[str]]:
    """The rows of each file for which predicates are true; computed as columns, so that nothing is pushed down."""

    def ask(texts: Sequence[str]) -> dict[str, Counter[str]]:
        columns = [f"({text}) AS p{k}" for k, text in enumerate(texts)]
        rows = frame.selectExpr("_metadata.file_name AS `in file`", *columns).collect()
        return {text: Counter(row[0] for row in rows if row[k + 1]) for k, text in enumerate(texts)}

    return ask


def reading(spark: SparkSession, view: str, file: str) -> Ask[Counter[str]]:
    """The rows of each file, whose name is in a column, that scans of a view return."""

    def ask(texts: Sequence[str]) -> dict[str, Counter[str]]:
        rows = spark.sql(scans(texts, view, file)).collect()
        return {text: Counter(row[1] for row in rows if row[0] == k) for k, text in enumerate(texts)}

    return ask
