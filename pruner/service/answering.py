"""Answers from metadata over HTTP: aggregates for which no file must be read, and thresholds of first rows.

The client engine cannot combine a partial answer with rows that it reads itself, so an answer is complete or absent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pruner.expr.identifier import render_column_path
from pruner.expr.types import is_string
from pruner.service.messages import AnswersAnswer, PlanRequest, TypedValue
from pruner.showing.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pruner.planning.plan import Plan
    from pruner.service.messages import Aggregate, AnswersRequest, FirstRowsAsked
    from pruner.service.planning import Planning


def answers_of(planning: Planning, asked: AnswersRequest) -> AnswersAnswer:
    """Return what metadata says about the rows of a scan.

    Raises:
        UnservedTableError, UnreadableError: there is no such table, or it cannot be read.
        PredicateError, SchemaError: the predicate cannot be understood, or there is no such column.
    """
    scan = PlanRequest(asked.table, asked.session, asked.predicate, as_of=asked.as_of)
    planned = planning.plan(scan, planning.look(scan))
    plan = planned.plan
    told = f"answered from metadata of {counted(plan.total, plan.snapshot.noun)}"
    if not plan.is_understood:
        return AnswersAnswer(planned.table, "a part of the predicate is left to the engine")
    values = _values(plan, asked.aggregates) if asked.aggregates else None
    threshold = None if asked.first is None else _threshold(plan, asked.first)
    return AnswersAnswer(planned.table, told, values, threshold)


def _values(plan: Plan, aggregates: Sequence[Aggregate]) -> list[TypedValue] | None:
    wanted = [
        (each.function, None if each.column is None else render_column_path(tuple(each.column)))
        for each in aggregates
    ]
    if any(function != "count" and column is None for function, column in wanted):
        return None
    answers, _ = plan.answers(wanted)
    if not all(answer.exact for answer in answers):
        return None
    values: list[TypedValue] = []
    for answer in answers:
        proved: Any = answer.proved.column("value")
        value = _typed(proved[0])
        if value is None:
            return None
        values.append(value)
    return values


def _threshold(plan: Plan, first: FirstRowsAsked) -> TypedValue | None:
    column = render_column_path(tuple(first.column))
    found = plan.threshold(column, first.rows, descending=first.descending, nulls_first=first.nulls_first)
    return None if found is None else _typed(found)


def _typed(value: Any) -> TypedValue | None:
    """An Arrow value with its type; None for types whose values are not sent."""
    type_: pa.DataType = value.type
    types = pa.types
    if types.is_date32(type_):
        return TypedValue(str(type_), value.cast(pa.int32()).as_py())
    if types.is_timestamp(type_):
        return TypedValue(str(type_), value.cast(pa.int64()).as_py())
    if types.is_boolean(type_) or types.is_integer(type_) or is_string(type_):
        return TypedValue(str(type_), value.as_py())
    return None
