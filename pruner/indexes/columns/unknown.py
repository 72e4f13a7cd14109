"""When it is not known what an engine reads at a path of one file (rule R7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.arrow import as_numpy, filled
from pruner.expr.bound.predicates import CompareLeaf, InLeaf, PrefixLeaf, RecurringLeaf
from pruner.expr.semantics import BINARY_COLLATION
from pruner.indexes.columns.kinds import Kind, conversion, is_text, kind_of
from pruner.indexes.columns.reading import is_rounded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Point, StorageValue, ValueLeaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.base import LeafColumn, ParquetFooter
    from pruner.schema import Field


def why_unknown(footer: ParquetFooter, leaf: LeafColumn | None, field: Field) -> str | None:
    """Say why it is not known what an engine reads at this path in this file, or None (traps T2, T3)."""
    others = footer.alike(field.path, field.field_id)
    if others:
        return f"the file also has {'.'.join(others[0].path)!r}, which may be taken for this column"
    if leaf is None:
        return (
            None
            if field.absent_is_null
            else "the file does not have the column, and absent does not mean NULL"
        )
    if field.expression is not None and leaf.type is None:
        return leaf.type_text
    if leaf.repeated:
        return "the column stands inside a list or map"
    if None not in (leaf.field_id, field.field_id) and leaf.field_id != field.field_id:
        return f"the file's field id is {leaf.field_id}, the table's {field.field_id}"
    if leaf.type is None or conversion(leaf.type_text, field.type) is None:
        return f"values of type {leaf.type_text} in the file do not settle values of type {field.type} in the table"
    return None


def partly_absent(records: pa.Table, can_be_null: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell of which records some file of the slice may lack the column, whose rows then count as NULL (trap T3).

    Args:
        records: records of slices, whose column `partly_absent` is null, or missing, where that was not recorded yet.
        can_be_null: whether NULLs were recorded: without any, no file with rows lacks the column.
    """
    if "partly_absent" not in records.column_names:
        return can_be_null
    column: Any = records.column("partly_absent").combine_chunks()
    return np.where(as_numpy(column.is_null()), can_be_null, as_numpy(filled(column, False)))


# Which leaf predicates the values that were recorded of a column can answer, whatever the index keeps of them.


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
    """Tell whether every point spans what may be rounded to the literal, as `pruner.expr.exact.clock` makes them.

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
