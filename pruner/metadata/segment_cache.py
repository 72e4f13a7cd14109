"""Cache of segments by id, after they were read and verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from pruner.arrow import Condensed, as_numpy, first_value
from pruner.bounded_cache import BoundedCache
from pruner.errors import FormatError
from pruner.limits import INDEX_MEMORY
from pruner.metadata.pages import PAGES
from pruner.metadata.ranged import RangedSegment
from pruner.metadata.segments import SLICE_COLUMN, slice_keys
from pruner.tables.slice_keys import locate, locate_all

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.metadata.pages import PagedSegment
    from pruner.metadata.state import SegmentEntry, State
    from pruner.metadata.table import MetadataTable


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


_SizedT = TypeVar("_SizedT", bound=_Sized)


class Keyed(Protocol):
    """Slices by their keys: a snapshot, or a part of one."""

    @property
    def keys(self) -> pa.Array[Any]:
        """The slice keys, 16 bytes each."""
        ...


class SegmentCache:
    """Segments by id. They are immutable, so a cached one is never stale. The cache is bounded in bytes.

    Attributes:
        limit_bytes: most bytes that are held, and that a plan may read of one index at once.
    """

    def __init__(self, metadata: Callable[[], MetadataTable], limit_bytes: int = INDEX_MEMORY) -> None:
        self._metadata = metadata
        self.limit_bytes = limit_bytes
        self._cache: BoundedCache[tuple[object, ...], Any] = BoundedCache(limit_bytes)

    def read(
        self, entry: SegmentEntry, only: tuple[str, ...] | None = None, but: tuple[str, ...] = ()
    ) -> pa.Table:
        """Return the verified content of a segment: `only` some columns, or all `but` some.

        Raises:
            FormatError: it fails its checksum or is not what the log says.
            StorageError: it cannot be read.
        """

        def load() -> Condensed:
            return Condensed(self._metadata().read_segment(entry, only, but))

        return self._kept((entry.id, only, but), load).table()

    def pages(self, entry: SegmentEntry) -> PagedSegment:
        """The pages of a segment that has a directory.

        Raises:
            FormatError: the directory is damaged.
            StorageError: it cannot be read.
        """
        directory = entry.pages
        assert directory is not None

        def load() -> PagedSegment:
            metadata = self._metadata()
            return metadata.paged_segment(entry, metadata.read_segment(directory))

        return self._kept((entry.id, PAGES), load)

    def read_page(
        self, entry: SegmentEntry, page: int, names: tuple[str, ...], *, deferred: bool = False
    ) -> pa.Table:
        """Return columns of the records of one page: see `PagedSegment.read`."""

        def load() -> pa.Table:
            return self.pages(entry).read([page], names, deferred=deferred)

        return self._kept((entry.id, page, names), load)

    def leading(self, entry: SegmentEntry, names: tuple[str, ...]) -> pa.Table:
        """Columns of enough records to name all slices of a segment: those of its leading pages, or all.

        Raises:
            FormatError: it fails its checksum or is not what the log says.
            StorageError: it cannot be read.
        """
        if entry.pages is None:
            return self.read(entry, only=names) if entry.tail is None else self.columns(entry, names)
        return pa.concat_tables([self.read_page(entry, page, names) for page in self.pages(entry).leading])

    def _kept(self, key: tuple[object, ...], load: Callable[[], _SizedT]) -> _SizedT:
        cached = self._cache.get(key)
        return self._keep(key, load()) if cached is None else cached

    def _keep(self, key: tuple[object, ...], value: _SizedT) -> _SizedT:
        return self._cache.put(key, value, value.nbytes)

    def held_bytes(self, entries: Iterable[SegmentEntry]) -> int:
        """Cached bytes of some segments."""
        ids = {file.id for entry in entries for file in entry.files()}
        return sum(size for key, size in self._cache.sizes() if key[0] in ids)

    def recorded(
        self, state: State, entries: Iterable[SegmentEntry], snapshot: Keyed
    ) -> dict[tuple[str, ...] | None, NDArray[np.bool_]]:
        """Tell for each slice of a snapshot whether any of the segments has a record of it, by field.

        Each slice batch is joined to the snapshot once, and all of them together.
        """
        entries = list(entries)
        batches = list(dict.fromkeys(entry.batch or "" for entry in entries))
        keys = [slice_keys(self.read(self.entry(state, batch))) for batch in batches]
        located = dict(zip(batches, locate_all(snapshot.keys, keys), strict=True)) if keys else {}
        by_field: dict[tuple[str, ...] | None, NDArray[np.bool_]] = {}
        for entry in entries:
            recorded = self.leading(entry, (SLICE_COLUMN,)).column(SLICE_COLUMN)
            ordinals = located[entry.batch or ""]
            has_record = np.zeros(len(ordinals), np.bool_)
            has_record[as_numpy(recorded)] = True
            mask = by_field.setdefault(entry.field, np.zeros(len(snapshot.keys), np.bool_))
            mask[ordinals[has_record & (ordinals >= 0)]] = True
        return by_field

    def located(self, state: State, entry: SegmentEntry, snapshot: Keyed) -> NDArray[np.int64]:
        """Snapshot ordinal of each slice of a segment's batch, -1 for those that are not in the snapshot."""
        return self.located_in(self.entry(state, entry.batch or ""), snapshot)

    def located_in(self, batch: SegmentEntry, snapshot: Keyed) -> NDArray[np.int64]:
        """Snapshot ordinal of each slice of a batch, -1 for those that are not in the snapshot."""
        return locate(snapshot.keys, slice_keys(self.read(batch)))

    def names(self, entry: SegmentEntry) -> list[str]:
        """The column names of a segment; raises as `read` does."""
        return self.read(entry).column_names if entry.tail is None else self._ranged(entry).names

    def columns(self, entry: SegmentEntry, names: Sequence[str]) -> pa.Table:
        """Columns of a segment; only they are read if it can be read in parts. Raises as `read` does."""
        if entry.tail is None:
            return self.read(entry).select(list(names))
        return self._kept((entry.id, RangedSegment, *names), lambda: self._ranged(entry).read(names))

    def value_bytes(
        self, entry: SegmentEntry, name: str, size: int, ranges: Sequence[tuple[int, int]]
    ) -> list[memoryview]:
        """Ranges (start, end) of the only value of a column, which is in the first row; raises as `read` does.

        Only these ranges are read if the segment can be read in parts.
        """
        if entry.tail is None:
            value = first_value(self.read(entry).column(name))
            return [value[start:end] for start, end in ranges]
        keys = [(entry.id, name, *span) for span in ranges]
        data: list[memoryview | None] = [self._cache.get(key) for key in keys]
        missing = [span for span, held in zip(ranges, data, strict=True) if held is None]
        read = iter(self._ranged(entry).value_bytes(name, size, missing) if missing else ())
        return [
            self._keep(key, memoryview(next(read))) if held is None else held
            for key, held in zip(keys, data, strict=True)
        ]

    def _ranged(self, entry: SegmentEntry) -> RangedSegment:
        return self._kept((entry.id, RangedSegment), lambda: RangedSegment(self._metadata().store, entry))

    @staticmethod
    def entry(state: State | None, segment_id: str) -> SegmentEntry:
        """Return the entry of a live segment by id.

        Raises:
            FormatError: the state has no such segment.
        """
        for candidate in state.segments if state else ():
            if candidate.id == segment_id:
                return candidate
        raise FormatError(f"slice batch {segment_id} is not in the metadata table's log: refresh the index")
