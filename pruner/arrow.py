"""Arrow's functions as they are: the stubs of pyarrow know too few argument types of these, and too few functions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

arrow: Any = pa
compute: Any = pc


def first_value(column: Any) -> memoryview:
    """The first byte string of a column of large ones, where it stands: a scalar of Arrow would be a copy of it."""
    array = next((chunk for chunk in column.chunks if len(chunk)), None)
    if array is None:
        return memoryview(b"")
    _, offsets, data = array.buffers()
    start, end = memoryview(offsets).cast("q")[array.offset : array.offset + 2].tolist()
    return memoryview(data or b"")[start:end]
