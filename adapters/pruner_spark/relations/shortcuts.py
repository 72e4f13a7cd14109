"""The part of a query that metadata answers, where an aggregate, a limit or an order with a limit is over a scan."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pruner.errors import SchemaError
from pruner.expr.types import is_written_one_way

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pruner import Plan

MOST_GROUPS = 10_000
"""Most groups that are put into a query as constants."""


@dataclass(frozen=True, slots=True)
class Shortcut:
    """What is left to read, and, as JSON, what is proved about the rows of all other slices."""

    left: Plan
    proved: str | None = None


def may_gain(question: Mapping[str, Any], plan: Plan) -> bool:
    """Tell cheaply whether anything may be gained: by aggregates if no slice is left, else if all is understood."""
    if not plan.kept:
        return "aggregates" in question
    return plan.is_understood


def shortcut(
    question: Mapping[str, Any], plan: Plan, is_as_indexed: Callable[[str], bool]
) -> Shortcut | None:
    """The part of a question (java/Shortcuts.java) that metadata answers; None where nothing is gained.

    Args:
        question: the question.
        plan: the plan of the slices that Spark has listed, for the whole condition.
        is_as_indexed: whether Spark reads the column of a given name as the indexes did.
    """
    if "rows" in question:
        return _first_rows(question, plan, is_as_indexed)
    group, calls = question["group"], [(str(kind), column) for kind, column in question["aggregates"]]
    named = [name for name in (group, *(column for _, column in calls)) if name is not None]
    if not all(map(is_as_indexed, named)):
        return None
    shown = [name for name in (group, *(column for kind, column in calls if kind != "count")) if name]
    found = _proved(plan, group, calls) if all(_is_shown(plan, name) for name in shown) else None
    return found or _of_extremes(plan, group, calls)


def threshold(question: Mapping[str, Any], plan: Plan, is_as_indexed: Callable[[str], bool]) -> str | None:
    """As JSON, a value that no first row comes after (java/ScannedTasks.java); None if there is none."""
    column, rows = question["column"], int(question["rows"])
    if rows < 1 or not is_as_indexed(column):
        return None
    try:
        found = plan.threshold(
            quoted(column), rows, descending=question["descending"], nulls_first=question["nulls_first"]
        )
    except SchemaError:  # the scan is of a newer schema
        return None
    if found is None or not (_has_constants(found.type) or pa.types.is_decimal128(found.type)):
        return None
    return json.dumps({"threshold": _texts(pa.array([found]))[0]})


def _proved(plan: Plan, group: str | None, calls: Sequence[tuple[str, str | None]]) -> Shortcut | None:
    """Aggregates that are known in part."""
    if group is not None or any(kind == "distinct" for kind, _ in calls):
        return _grouped(plan, str(calls[0][1]), []) if group is None else _grouped(plan, group, calls)
    answers, rest = plan.answers([(kind, None if name is None else quoted(name)) for kind, name in calls])
    if rest.kept == plan.kept and plan.kept:
        return None
    values = [_texts(answer.proved.column("value"))[0] for answer in answers]
    return Shortcut(rest, json.dumps({"values": values}))


def _of_extremes(plan: Plan, group: str | None, calls: Sequence[tuple[str, str | None]]) -> Shortcut | None:
    """Minima and maxima that are not known, but whose files are: those of each group, if there are groups."""
    if not plan.kept or not calls or any(kind not in ("min", "max") for kind, _ in calls):
        return None
    within = None if group is None else quoted(group)
    found = plan.first_of(
        [(quoted(name), 1, kind == "max", False, None, within) for kind, name in calls if name is not None]
    )
    return None if found.kept == plan.kept else Shortcut(found)


def quoted(name: str) -> str:
    """The path of a top-level column as quoted text."""
    return '"' + name.replace('"', '""') + '"'


def _is_shown(plan: Plan, name: str) -> bool:
    """Tell whether values of a column can be returned as constants of the very same type."""
    return _has_constants(plan.schema.find((name,), case_sensitive=plan.semantics.case_sensitive).type)


def _has_constants(type_: pa.DataType) -> bool:
    if pa.types.is_timestamp(type_):
        return type_.unit in ("us", "ms")
    return is_written_one_way(type_) and not pa.types.is_time(type_)


def _first_rows(
    question: Mapping[str, Any], plan: Plan, is_as_indexed: Callable[[str], bool]
) -> Shortcut | None:
    rows, column = int(question["rows"]), question.get("column")
    if rows < 1 or not plan.kept:
        return None
    if column is None:
        limited = plan.limited(rows, fewest=True)
    elif is_as_indexed(column):
        limited = plan.top(
            quoted(column), rows, descending=question["descending"], nulls_first=question["nulls_first"]
        )
    else:
        return None
    return None if limited.kept == plan.kept else Shortcut(limited)


def _grouped(plan: Plan, column: str, calls: Sequence[tuple[str, str | None]]) -> Shortcut | None:
    """Aggregates by one column; row counts alone are known from bitmaps, too."""
    if any(name is not None for _, name in calls):
        answer, rest = plan.grouped(
            quoted(column), [(kind, None if name is None else quoted(name)) for kind, name in calls]
        )
        columns = [_texts(answer.proved.column(f"call_{number}")) for number in range(len(calls))]
    else:
        (answer,), rest = plan.answers([("by", quoted(column))])
        columns = [_texts(answer.proved.column("rows"))] * len(calls)
    groups = _texts(answer.proved.column("value"))
    if len(groups) > MOST_GROUPS or (rest.kept == plan.kept and plan.kept):
        return None
    return Shortcut(rest, json.dumps({"groups": groups, "calls": columns}))


def _texts(values: Any) -> list[str | None]:
    """Values as java/Aggregation.java reads them: days and microseconds as numbers."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    elif pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    return [None if value is None else _text(value) for value in values.to_pylist()]


def _text(value: Any) -> str:
    # The shortest text of a float as a double parses to the very same float.
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return format(value, "f")
    return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)
