"""Which leaf predicates the values that were recorded of a column can answer, whatever the index keeps of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from pruner.expr.bound import CompareLeaf, InLeaf, PrefixLeaf
from pruner.expr.semantics import BINARY_COLLATION
from pruner.indexes.columns.kinds import is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pruner.expr.bound import Point, StorageValue
    from pruner.expr.semantics import Semantics

_FINENESS = {"s": 0, "ms": 1, "us": 2, "ns": 3}


def is_answerable(
    leaf: CompareLeaf | InLeaf | PrefixLeaf,
    type_: pa.DataType,
    serves: Callable[[StorageValue], bool],
    semantics: Semantics,
) -> bool:
    """Tell whether a leaf compares the very values that were recorded, in the order in which they were.

    Args:
        leaf: a leaf on the column.
        type_: type of the column as the table has it.
        serves: tells whether a literal is of the domain of the recorded values.
        semantics: whose rules hold.
    """
    if is_text(type_) and semantics.collation != BINARY_COLLATION:
        return False
    # An engine that rounds what it reads compares other values than those that were recorded (trap S18).
    rounds_to = semantics.timestamp_unit
    if pa.types.is_timestamp(type_) and rounds_to and _FINENESS[rounds_to] < _FINENESS[type_.unit]:
        return False
    match leaf:
        case PrefixLeaf():
            return is_text(type_)
        case CompareLeaf(point=point):
            return _all_serve([point], type_, serves)
        case InLeaf(points=points):
            return _all_serve(points, type_, serves)


def _all_serve(points: Iterable[Point], type_: pa.DataType, serves: Callable[[StorageValue], bool]) -> bool:
    floating = pa.types.is_floating(type_)
    return all(
        floating if p.nan else (p.low is None or serves(p.low)) and (p.high is None or serves(p.high))
        for p in points
    )
