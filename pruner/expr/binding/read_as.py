"""Columns as an engine's reader shows them: `Call("read_as", (column,), type)`, undone.

Where an engine declares a type of its own for a column, it reads the files' values as that type. A wider one is undone
like a cast. Timestamps are a matter of their own: Trino's Hive and Hudi connectors show a stored instant as UTC's
clock, whatever the session's zone, and round to the declared precision (half up, or cut off). INT96, which
follows a zone of the configuration, is unknown to Trino by its statistics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from pruner.expr.bound.predicates import Point
from pruner.expr.exact.casts import Undo, undo_cast
from pruner.expr.exact.clock import nanoseconds
from pruner.expr.types import is_binary, is_instant, timestamp, unit_of

if TYPE_CHECKING:
    from pruner.expr.semantics import Semantics


def undo_reading(
    column: pa.DataType, read: pa.DataType, semantics: Semantics
) -> tuple[pa.DataType, Undo | None] | None:
    """Undo the reading of a column as another type.

    Args:
        column: the type of the table's column.
        read: the type that the engine declares. A timestamp's unit is its precision, or coarser.
        semantics: whose rules hold.

    Returns:
        The type in which constants are compared, and the way back from there (None where nothing is to be done); None
        for a reading that may fail, lose or reorder values, or is not known.
    """
    if column.equals(read):
        return column, None
    if pa.types.is_unsigned_integer(column) or (pa.types.is_integer(column) and pa.types.is_floating(read)):
        # Trino takes the bits of an INT32 that a table declares as REAL for those of a float.
        return None
    if is_binary(column) and is_binary(read):
        return column, None
    if pa.types.is_timestamp(column) and pa.types.is_timestamp(read):
        return _timestamps(column, read)
    undo = undo_cast(column, read, semantics)
    return None if undo is None else (read, undo)


def _timestamps(column: pa.DataType, read: pa.DataType) -> tuple[pa.DataType, Undo | None] | None:
    if is_instant(read) and not is_instant(column):
        return None
    units = nanoseconds(unit_of(read)) // nanoseconds(unit_of(column))
    return timestamp(unit_of(column), instant=is_instant(read)), _rounded(units) if units > 1 else None


def _rounded(units: int) -> Undo:
    """Values were rounded to multiples of `units`."""

    def undo(point: Point) -> Point:
        low, high = point.low, point.high
        assert not isinstance(low, bytes)  # timestamps are numbers
        assert not isinstance(high, bytes)
        return Point(
            None if low is None else low - units, None if high is None else high + units, exact=False
        )

    return undo
