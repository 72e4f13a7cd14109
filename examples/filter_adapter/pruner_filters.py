"""An adapter for PyArrow's filters: `read("lake/flights", [("delay", ">", 60)])` opens only the files that can match.

The engine is `pyarrow.parquet.read_table`. Its predicate is a list of tuples, all of which must hold, or a list of
such lists, one of which must. docs/adapters.md explains this file step by step.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import pruner
from pruner.adapters import switched_off
from pruner.expr.build import any_of
from pruner.expr.engines import NanOrder, Traits
from pruner.expr.nodes import (
    TRUE,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Literal,
    Not,
    Opaque,
    Operator,
    conjunction,
    disjunction,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pruner import Plan

engine = "pyarrow_filters"
traits = Traits(name=engine, title="PyArrow's filters", nan_order=NanOrder.UNORDERED)
"""All other traits of the engine are unknown, and have the value that prunes least."""

_LOG = logging.getLogger("pruner")
_OPERATORS = {
    "=": Operator.EQ,
    "==": Operator.EQ,
    "!=": Operator.NE,
    "<": Operator.LT,
    "<=": Operator.LE,
    ">": Operator.GT,
    ">=": Operator.GE,
}
_TYPES: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
}


@dataclass(frozen=True)
class Scan:
    """The record of one read: see `pruner.adapters.ScanRecord`."""

    table: str
    plan: Plan | None
    reason: str | None = None


last_plans: deque[Scan] = deque(maxlen=64)
"""The newest reads."""


def read(uri: str, filters: Sequence[Any], columns: list[str] | None = None) -> pa.Table:
    """Read the rows of a table that pass the filters.

    Raises:
        pruner.PrunerError: the table cannot be listed completely.
    """
    # One snapshot serves the plan and the read. If it cannot be listed, a partial answer would be worse than none.
    snapshot = pruner.open_table(uri).snapshot()
    try:
        plan = snapshot.plan(decode(filters), semantics=pruner.Semantics.of(engine))
        reason = switched_off()
    except pruner.PrunerError as error:
        plan, reason = snapshot.plan(TRUE, semantics=pruner.Semantics.of(engine)), str(error)
    _remember(Scan(uri, plan, reason))
    # An empty result has the schema of the whole snapshot, not of no file.
    if not len(plan.files):
        return snapshot.schema.to_arrow().empty_table().select(columns or snapshot.schema.to_arrow().names)
    # The residual stays with the engine: the plan says which files to open, not which rows match.
    return pq.read_table(list(plan.files), columns=columns, filters=list(filters) or None)


def decode(filters: Sequence[Any]) -> Expr:
    """Decode filters into the expression form. What is not understood becomes `Opaque`, in the same position."""
    if all(isinstance(each, tuple) for each in filters):
        return _all(filters)
    return disjunction(tuple(_all(each) for each in filters))


def _all(filters: Sequence[Any]) -> Expr:
    return conjunction(tuple(_condition(each) for each in filters))


def _condition(condition: Any) -> Expr:
    match condition:
        case (str(name), str(operator), value) if operator in _OPERATORS and _is_plain(value):
            return Compare(_OPERATORS[operator], Column((name,)), _literal(value))
        case (str(name), "in" | "not in" as operator, list() | tuple() | set() as values) if _is_plain_list(
            values
        ):
            column = Column((name,))
            listed = In(column, tuple(map(_literal, values)))
            # PyArrow's `isin` is false, not null, for a null, so its negation is true there.
            return listed if operator == "in" else any_of((Not(listed), IsNull(column)))
        case (str(name), *_):
            return Opaque((Column((name,)),), repr(condition)[:200])
        case _:
            return Opaque((), repr(condition)[:200])


def _is_plain(value: Any) -> bool:
    """Values whose comparison is known. A NaN literal is left to the engine."""
    return type(value) in _TYPES and not (isinstance(value, float) and math.isnan(value))


def _is_plain_list(values: Any) -> bool:
    """Lists whose search is known: `isin` tells -0.0 from 0.0, and finds NaN, so floats are left to the engine."""
    return bool(values) and all(_is_plain(value) and not isinstance(value, float) for value in values)


def _literal(value: Any) -> Literal:
    return Literal(value, _TYPES[type(value)])


def _remember(scan: Scan) -> None:
    last_plans.append(scan)
    plan = scan.plan
    if plan is not None:
        _LOG.info(
            "scan of %s: %d of %d files; %s", scan.table, plan.kept, plan.total, scan.reason or "pruned"
        )
