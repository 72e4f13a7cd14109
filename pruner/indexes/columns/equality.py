"""Where equality of values in a file settles equality of values in the table: for indexes that keep single values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.errors import IndexDefinitionError
from pruner.indexes.columns.kinds import INT96, Conversion, conversion
from pruner.indexes.columns.trust import Calendar, calendar, calendars_agree_from

if TYPE_CHECKING:
    from pruner.indexes.base import LeafColumn, SliceReader
    from pruner.schema import Field


def require_in_files(field: Field) -> None:
    """Refuse a field whose values no file holds, or about which files disagree.

    Raises:
        IndexDefinitionError: it is one.
    """
    if not field.in_file:
        raise IndexDefinitionError(
            f"column {field.name!r} is a partition column that no file holds: its values in the paths prune "
            "without an index"
        )
    if field.conflict is not None:
        raise IndexDefinitionError(f"column {field.name!r} cannot be indexed: {field.conflict}")


def why_not_equal(leaf: LeafColumn | None, field: Field) -> str | None:
    """Why equal values in the file may be others in the table, or other values equal ones; None where not (R7)."""
    if leaf is None:
        return None
    how = conversion(leaf.type_text, field.type)
    if leaf.type_text == INT96:
        return "INT96 timestamps are other values in each engine"
    if how is None or how != Conversion(factor=how.factor):
        return f"values of type {leaf.type_text} are rounded to become values of type {field.type}"
    return None


def unknown_calendar(
    reader: SliceReader, leaf: LeafColumn, oldest: int | None, factor: int = 1
) -> tuple[str | None, bool]:
    """Why old dates cannot be indexed, and whether a setting of the Spark session decides how they are read (S17).

    Args:
        reader: of the slice.
        leaf: the column.
        oldest: its least value, of dates and timestamps; None without one.
        factor: what values of the file were multiplied by to become `oldest`.
    """
    first_common = calendars_agree_from(leaf.type) if leaf.type is not None else None
    if first_common is None or oldest is None or oldest >= first_common * factor:
        return None, False
    found = calendar(reader.footer.key_values, leaf)
    if found is Calendar.LEGACY:
        return "written in the legacy calendar, in which the oldest values are other days", False
    return None, found is Calendar.OPEN
