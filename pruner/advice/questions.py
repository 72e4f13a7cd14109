"""The questions about a table: the predicates of statements that were run, or predicates that its data suggest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pruner.arrow import compute
from pruner.expr.binding.bind import bind
from pruner.expr.bound.fields import leaves, unknowns
from pruner.expr.bound.predicates import CompareLeaf, InLeaf, UnknownKind
from pruner.expr.build import literal_of
from pruner.expr.engines import REFERENCE_ENGINE
from pruner.expr.nodes import Column, Compare, Operator, conjunction
from pruner.expr.semantics import Semantics
from pruner.expr.show import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pruner.expr.bound.fields import Path
    from pruner.expr.bound.predicates import BoundExpr, Unknown
    from pruner.expr.nodes import Expr
    from pruner.planning.plan import Plan
    from pruner.schema import Field, TableSchema

VALUES = 5
"""Values of each column in suggested lookups, if no statement is given."""

RANGE = 0.02
"""Share of the rows in the suggested range of a column."""


@dataclass(frozen=True)
class Question:
    """A predicate over the table, and how often it was asked."""

    text: str
    predicate: BoundExpr
    semantics: Semantics
    times: int
    fields: Mapping[Path, Field]

    def looks_up(self, path: Path) -> bool:
        """Whether it compares a column for equality, which Bloom filters and keys answer."""
        return any(
            leaf.field.path == path
            and (isinstance(leaf, InLeaf) or (isinstance(leaf, CompareLeaf) and leaf.operator is Operator.EQ))
            for leaf in leaves(self.predicate)
        )


def asked(plans: Iterable[Plan]) -> list[Question]:
    """The predicates of plans, each once; those without a condition on a column are left out."""
    questions: dict[tuple[str, Semantics], Question] = {}
    for plan in plans:
        if plan.bound is None or not any(leaves(plan.bound)):
            continue
        key = (plan.predicate, plan.semantics)
        times = questions[key].times + 1 if key in questions else 1
        questions[key] = _question(plan.predicate, plan.bound, plan.semantics, times)
    return list(questions.values())


def unanswerable(plans: Iterable[Plan]) -> list[Unknown]:
    """For each predicate of plans that no index over a column answers in any part, one unanswered part.

    Of several parts, one that an index over an expression may answer is preferred.
    """
    reasons: dict[str, Unknown] = {}
    for plan in plans:
        if plan.bound is None or any(leaves(plan.bound)):
            continue
        parts = sorted(unknowns(plan.bound), key=lambda part: part.kind is not UnknownKind.FUNCTION)
        if parts:
            reasons[plan.predicate] = parts[0]
    return list(reasons.values())


def suggested(rows: pa.Table, schema: TableSchema) -> list[Question]:
    """Equality with some values of each column, and for ordered types a narrow range, from a sample of the rows."""
    semantics = Semantics.of(REFERENCE_ENGINE)
    questions: list[Question] = []
    for name in rows.column_names:
        for expression in _of_column(name, rows.column(name).combine_chunks()):
            bound = bind(expression, schema, semantics, strict=False)
            if any(leaves(bound)):
                questions.append(_question(show(expression), bound, semantics, 1))
    return questions


def _question(text: str, bound: BoundExpr, semantics: Semantics, times: int) -> Question:
    return Question(text, bound, semantics, times, {leaf.field.path: leaf.field for leaf in leaves(bound)})


def _of_column(name: str, values: pa.Array[Any]) -> Iterator[Expr]:
    known: Any = values.drop_null()
    if not len(known) or not is_askable(known.type):
        return
    ordered: Any = known.take(compute.sort_indices(known))
    count, column = len(ordered), Column((name,))
    for step in range(VALUES):
        yield Compare(Operator.EQ, column, literal_of(known[step * count // VALUES]))
    width = max(int(count * RANGE), 1)
    if not _is_text(known.type) and count > width:
        start = (count - width) // 2
        low, high = ordered[start], ordered[start + width]
        if high.equals(low):  # the range would be empty
            greater: Any = ordered.filter(compute.greater(ordered, low))
            high = greater[0] if len(greater) else None
        if high is not None:
            parts = (
                Compare(Operator.GE, column, literal_of(low)),
                Compare(Operator.LT, column, literal_of(high)),
            )
            yield conjunction(parts)


def is_askable(type_: pa.DataType) -> bool:
    """Whether values of a type can be turned into literals here."""
    return (
        pa.types.is_integer(type_)
        or pa.types.is_decimal128(type_)
        or pa.types.is_date32(type_)
        or pa.types.is_timestamp(type_)
        or _is_text(type_)
    )


def _is_text(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_)
