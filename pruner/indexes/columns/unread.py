"""Slices whose recorded values are not those that an engine reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.indexes.columns.moments import is_rounded
from pruner.indexes.columns.reading import union

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from pruner.expr.semantics import Semantics
    from pruner.indexes.columns.reading import RecordedTypes

    Mask = NDArray[np.bool_]


class UnreadSlices:
    """Tells for an engine of which slices it reads other values than were recorded."""

    def __init__(
        self,
        read_types: RecordedTypes,
        calendar_open: Mask | None,
        type_: pa.DataType,
        overflowing: Callable[[bool], Mask | None],
    ) -> None:
        """`overflowing` finds slices with timestamps that wrap around, where an engine rounds them and where not."""
        self._read_types = read_types
        self._calendar_open = calendar_open
        self._type = type_
        self._overflowing = overflowing
        self._found: dict[bool, Mask | None] = {}

    def of(self, semantics: Semantics) -> Mask | None:
        """Those slices; None where there are none."""
        traits = semantics.traits
        unread = union(
            self._read_types.unread(semantics),
            self._calendar_open if traits.asks_session_for_calendar else None,
        )
        if not traits.wraps_far_timestamps:
            return unread
        rounded = is_rounded(self._type, semantics)
        if rounded not in self._found:
            self._found[rounded] = self._overflowing(rounded)
        return union(unread, self._found[rounded])
