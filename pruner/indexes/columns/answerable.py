"""Which leaf predicates the values that were recorded of a column can answer, whatever the index keeps of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from pruner.expr.bound.predicates import CompareLeaf, InLeaf, PrefixLeaf, RecurringLeaf
from pruner.expr.semantics import BINARY_COLLATION
from pruner.indexes.columns.kinds import Kind, is_text, kind_of
from pruner.indexes.columns.reading import is_rounded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pruner.expr.bound.predicates import Point, StorageValue, ValueLeaf
    from pruner.expr.semantics import Semantics


def is_answerable(
    leaf: ValueLeaf,
    type_: pa.DataType,
    serves: Callable[[StorageValue], bool],
    semantics: Semantics,
) -> bool:
    """Tell whether a leaf compares the values that were recorded, in the order in which they were.

    They are the very values that the engine compares, or the leaf allows for its rounding.

    Args:
        leaf: a leaf on the column.
        type_: type of the column as the table has it.
        serves: tells whether a literal is of the domain of the recorded values.
        semantics: whose rules hold.
    """
    if is_text(type_) and semantics.collation != BINARY_COLLATION:
        return False
    # Such an engine compares other values than those that were recorded.
    if is_rounded(type_, semantics) and not _are_widened(leaf):
        return False
    match leaf:
        case PrefixLeaf():
            return is_text(type_)
        case CompareLeaf(point=point):
            return _all_serve([point], type_, serves)
        case InLeaf(points=points):
            return _all_serve(points, type_, serves)
        case RecurringLeaf():
            return kind_of(type_) is Kind.INTEGER


def _are_widened(leaf: ValueLeaf) -> bool:
    """Tell whether every point spans what may be rounded to the literal, as `pruner.expr.exact.temporal` makes them.

    Values in such a span count as less, equal and greater at once, so neither the leaf nor its NOT loses a row.
    """
    match leaf:
        case PrefixLeaf() | RecurringLeaf():
            return False
        case CompareLeaf(point=point):
            return not point.exact
        case InLeaf(points=points):
            return not any(point.exact for point in points)


def _all_serve(points: Iterable[Point], type_: pa.DataType, serves: Callable[[StorageValue], bool]) -> bool:
    floating = pa.types.is_floating(type_)
    return all(
        floating if p.nan else (p.low is None or serves(p.low)) and (p.high is None or serves(p.high))
        for p in points
    )
