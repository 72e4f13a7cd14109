"""When it is not known what an engine reads at a path of one file (rule R7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pruner.arrow import as_numpy, filled
from pruner.indexes.columns.kinds import conversion

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

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
