"""What a bloom filter index records of one slice: a filter of the hashes of its values, and how they may be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.arrow import compute
from pruner.indexes.base import UndecodableError
from pruner.indexes.bloom_filter.filters import blocks_for, filter_of
from pruner.indexes.columns.canonical import hash_values
from pruner.indexes.columns.equality import unknown_calendar, why_not_equal
from pruner.indexes.columns.kinds import Conversion, conversion
from pruner.indexes.columns.reading import READING_COLUMNS, reading_of
from pruner.indexes.columns.unknown import why_unknown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from pruner.indexes.base import SliceReader
    from pruner.schema import Field

    Hashes = NDArray[np.uint64]

RECORD_SCHEMA = pa.schema(
    [
        pa.field("usable", pa.bool_()),
        pa.field("note", pa.string()),
        pa.field("distinct", pa.int64()),
        pa.field("blocks", pa.int32()),
        pa.field("stripes", pa.int16()),
        pa.field("filter", pa.large_binary()),
        pa.field("low", pa.int64()),  # of dates, times and timestamps alone, in the table's unit
        pa.field("high", pa.int64()),
        pa.field("type", pa.string()),
        pa.field("field_id", pa.int32()),
        pa.field("absent", pa.bool_()),
        pa.field("partly_absent", pa.bool_()),
        pa.field("calendar_open", pa.bool_()),
        *READING_COLUMNS,
    ]
)
"""Columns of the record of one slice. Without `usable` nothing but the note means anything."""

_HASHES_AT_ONCE = 1 << 20
"""Hashes that are gathered before those that came twice are dropped."""


def record_slice(reader: SliceReader, field: Field, fpp: float) -> pa.Table:
    """Record one field of one slice; a slice that cannot be indexed gets a record that says why.

    Raises:
        ValueError, OSError, pyarrow.ArrowException: the file is broken.
    """
    footer = reader.footer
    leaf = footer.leaf(field.path)
    known: dict[str, object] = {
        "type": str(field.type),
        "field_id": leaf.field_id if leaf else None,
        "absent": leaf is None,
        "partly_absent": leaf is not None and leaf.partly_absent,
    }
    reason = why_unknown(footer, leaf, field) or why_not_equal(leaf, field)
    if reason is not None:
        return _table({**known, "usable": False, "note": reason})
    if leaf is None:
        return _table({**known, **_filter(np.empty(0, np.uint64), fpp), "in_range": True})
    try:
        hashes, low, high = _gathered(reader.batches(leaf))
    except UndecodableError as error:
        return _table({**known, "usable": False, "note": str(error)})
    factor = conversion(leaf.type_text, field.type) or Conversion()
    note, is_open = unknown_calendar(reader, leaf, low)
    if note is not None:
        return _table({**known, "usable": False, "note": note})
    known["parquet"], known["in_range"] = reading_of(footer, leaf, low, high)
    known["low"], known["high"] = _multiplied(low, factor.factor), _multiplied(high, factor.factor)
    return _table({**known, **_filter(hashes, fpp), "calendar_open": is_open})


def _gathered(batches: Iterable[pa.Array[Any]]) -> tuple[Hashes, int | None, int | None]:
    """The distinct hashes of a column, ascending, and the bounds of dates, times and timestamps."""
    parts: list[Hashes] = []
    waiting = 0
    lows: list[int] = []
    highs: list[int] = []
    for part in batches:
        parts.append(hash_values(part))
        waiting += len(part)
        if waiting > _HASHES_AT_ONCE:
            parts, waiting = [_distinct(parts)], 0
        moments = _moments(part)
        if moments is not None and moments.null_count < len(moments):
            ends = compute.min_max(moments).as_py()
            lows.append(ends["min"])
            highs.append(ends["max"])
    return _distinct(parts), min(lows, default=None), max(highs, default=None)


def _distinct(parts: list[Hashes]) -> Hashes:
    return np.unique(np.concatenate([*parts, np.empty(0, np.uint64)]))


def _moments(part: Any) -> Any:
    """Dates, times and timestamps as numbers; None of other types."""
    types = pa.types
    if types.is_date32(part.type) or types.is_time32(part.type):
        return part.view(pa.int32())
    return part.view(pa.int64()) if types.is_timestamp(part.type) or types.is_time64(part.type) else None


def _multiplied(bound: int | None, factor: int) -> int | None:
    """A bound in the table's unit; what leaves 64 bits is as far as they reach."""
    return None if bound is None else max(-(1 << 63), min((1 << 63) - 1, bound * factor))


def _filter(hashes: Hashes, fpp: float) -> dict[str, object]:
    blocks = blocks_for(len(hashes), fpp)
    return {
        "usable": True,
        "distinct": len(hashes),
        "blocks": blocks,
        "stripes": 0,
        "filter": filter_of(hashes, blocks),
    }


def _table(values: dict[str, object]) -> pa.Table:
    schema: Any = RECORD_SCHEMA
    return pa.table([pa.array([values.get(each.name)], each.type) for each in schema], schema=schema)
