"""How the records of a bitmap index are cut into pages: those about whole slices first, then NULL, NaN and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pruner.arrow import compute
from pruner.indexes.bitmap.record import SLICE, VALUE
from pruner.metadata.pages import PageLayout, page_starts
from pruner.metadata.segments import SLICE_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa


def page_layout(records: pa.Table, deferred: tuple[str, ...]) -> PageLayout | None:
    """How arranged records are cut; None where a page would not tell all that is asked of it.

    A plan that reads some pages cannot see whether each row of a slice stands in exactly one entry. So it is looked at
    here, once.
    """
    values = [name for name in records.column_names if name.startswith("value_")]
    if not records.num_rows or len(values) != 1:
        return None
    kinds = records.column("entry").to_numpy()
    slices = records.column(SLICE_COLUMN).to_numpy()
    whole = kinds == SLICE
    if len(cast("Any", records.column("type")).unique().drop_null()) != 1 or not _adds_up(
        records, kinds, slices
    ):
        return None
    starts = page_starts(np.append(True, kinds[1:] != kinds[:-1]))
    leading = int(np.searchsorted(starts, np.count_nonzero(whole)))
    return PageLayout(starts, leading, ("entry", values[0]), deferred)


def _adds_up(records: pa.Table, kinds: Any, slices: Any) -> bool:
    """Tell whether the records are in order and put each row of a slice into exactly one entry."""
    whole = kinds == SLICE
    count = int(slices.max(initial=-1)) + 1
    rows, sizes = (
        cast("Any", records.column(name)).fill_null(0).to_numpy().astype(np.int64)
        for name in ("row_count", "cardinality")
    )
    usable = np.asarray(cast("Any", records.column("usable")).fill_null(False))[whole]
    expected = np.bincount(slices[whole], weights=np.where(usable, rows[whole], 0), minlength=count)
    found = np.bincount(slices[~whole], weights=sizes[~whole], minlength=count)
    if (np.bincount(slices[whole], minlength=count) != 1)[np.unique(slices)].any():
        return False
    if not (np.diff(kinds) >= 0).all() or (sizes[~whole] < 1).any() or not np.array_equal(expected, found):
        return False
    name = next(name for name in records.column_names if name.startswith("value_"))
    value: Any = records.column(name).combine_chunks()
    later, earlier = value.slice(1), value.slice(0, len(value) - 1)
    same = kinds[1:] == kinds[:-1]
    is_value = same & (kinds[1:] == VALUE)
    ascends = np.asarray(compute.greater(later, earlier).fill_null(False))
    equal = np.asarray(compute.equal(later, earlier).fill_null(False)) | (same & ~is_value)
    in_order = (is_value & ascends) | (equal & (slices[1:] > slices[:-1]))
    return bool(in_order[same].all())
