"""Evidence from the statistics in Delta's log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pruner.evidence.logged import INSTANTS, WALL_CLOCKS, FileStatistics, LoggedStatistics
from pruner.tables.delta.schema import became_double
from pruner.tables.delta.statistics import bounds_of, found_of

if TYPE_CHECKING:
    from pruner.parquet_type import ParquetType
    from pruner.schema import Field
    from pruner.tables.delta.state import DeltaState
    from pruner.tables.snapshot import Snapshot

NAME: Final = "delta.statistics"
"""How reports call the statistics in the log."""


class DeltaStatistics(LoggedStatistics):
    """The statistics in the log, for one snapshot."""

    def __init__(self, state: DeltaState, snapshot: Snapshot) -> None:
        """`state` is the version that the snapshot was made of."""
        super().__init__(NAME, snapshot)
        self._state = state
        self._widened = became_double(state.metadata)

    def of_column(self, about: Field) -> tuple[FileStatistics, list[str]]:
        """Parse what the log says of a column. How many values are NaN no writer says."""
        told, notes = found_of(self._state, about)
        low, high = bounds_of(told, about.type, was_float=about.recorded in self._widened)
        unknown: list[None] = [None] * len(told.rows)
        return FileStatistics(told.rows, told.nulls, unknown, low, high, _parquet_type(about.type)), notes


def _parquet_type(type_: Any) -> ParquetType | None:
    """How the values of a timestamp are meant: whatever the files have, a type of Delta's says it."""
    if not pa.types.is_timestamp(type_):
        return None
    return INSTANTS if type_.tz is not None else WALL_CLOCKS
