"""Statistics that a table keeps of its files, taken from one snapshot to the next: only new files are judged anew."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import pyarrow as pa

from pruner.evidence.carry_over import CarryOver, Joined, Unrecorded
from pruner.evidence.logged import LoggedStatistics
from pruner.evidence.sources import Sources

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pruner.evidence.sources import OwnIndexes, Source
    from pruner.indexes.optional import RowIndexType
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot


class FollowingStatistics(LoggedStatistics):
    """Statistics that take over what they said of the files that an earlier snapshot had, too."""

    def __init__(self, name: str, snapshot: Snapshot) -> None:
        """See `LoggedStatistics`."""
        super().__init__(name, snapshot)
        self._joined: dict[Field, Joined] = {}

    @abstractmethod
    def records_among(self, rows: NDArray[np.intp], about: Field, schema: pa.Schema) -> pa.Table:
        """Make records of a column of files that are new since an earlier snapshot, which are numbered from 0."""

    def follow(self, before: OwnIndexes | None) -> None:
        """Take over what is known: see `FollowsSnapshots`."""
        if not isinstance(before, FollowingStatistics) or before.names != self.names:
            return
        descent, earlier = self._snapshot.descent, before._snapshot
        if earlier is self._snapshot:
            self._joined = dict(before._joined)
        elif descent is not None and descent.of == earlier.id:
            over = CarryOver(descent, len(earlier))
            known = list(before._joined.items())
            self._joined = {
                about: now for about, joined in known if (now := joined.carried(over)) is not None
            }

    def _source(self, about: Field, kind: RowIndexType, found: Sources) -> Source | None:
        joined = self._joined.get(about)
        if joined is None:
            source = super()._source(about, kind, found)
            if source is not None:
                joined = Joined(Sources([source]), None, Unrecorded(kind, about))
                self._joined[about] = joined
            return source
        came = joined.came()
        if not len(came):
            return joined.sources.usable[0]
        (name,) = self.names
        records = self.records_among(came, about, kind.record_schema)
        later = joined.with_later(came, Sources([self._made(name, kind, records, len(came), about)]))
        return joined.sources.usable[0] if later is None else later.usable[0]
