"""Evidence from Hudi's indexes over record keys: which files can hold rows with given keys.

Both are about `_hoodie_record_key`. A condition on the columns that keys are made of implies which keys its rows can
have (`implied_keys`), provided that nothing can have made a row's key differ from its columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from pruner.arrow import compute
from pruner.errors import FormatError, SchemaError, StorageError
from pruner.evidence.sources import Source
from pruner.expr.bound.predicates import InLeaf, Point
from pruner.expr.bound.value_lists import required_values, values_of
from pruner.tables.hudi.metadata.indexes import BLOOM_FILTERS, RECORD_INDEX
from pruner.tables.hudi.metadata.locations import RECORD_KEY, text_of
from pruner.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.evidence.hudi.stats import FilesOfSlices
    from pruner.expr.bound.predicates import BoundExpr, Leaf
    from pruner.expr.semantics import Semantics
    from pruner.tables.hudi.metadata.indexes import HudiIndexes
    from pruner.tables.hudi.metadata.locations import RecordLocations
    from pruner.tables.snapshot import Snapshot

    Mask = NDArray[np.bool_]

MOST_KEYS = 1_000
"""Most keys looked up for one predicate."""

MOST_FILTERS = 1_000
"""Most filters read for one predicate."""

WORTH_READING = 1 / 8
"""Largest size of filters, as a share of the bytes of their files, at which they are read."""

FEW_BYTES = 1 << 20
"""Bytes of filters up to which they are always read."""

OTHER_SNAPSHOT: Final = "it is about the newest state of the table, which is another"
_LOGS = "rows in log files cannot be counted, so that a key may be in two files"
_MERGED = "Hudi keeps that of a merge-on-read table without merging, so that it may lack the key of a row"
_UNCOUNTED = (
    "rows of files without statistics of record keys cannot be counted, so that a key may be in two files"
)
_TOO_MANY_LOGGED = "too many of its keys are in log files to be counted"
_ELSEWHERE = "it names a file group that the snapshot does not have"
_UNKNOWN_KEYS = "it lacks keys that another index says are those of rows"


class KeyLookup(ABC):
    """Answers from an index over record keys. Answers are remembered; threads may share it."""

    uncovered: Mask | None = None

    def __init__(self, index: str, using: str, snapshot: Snapshot) -> None:
        self.index = index
        self.source = Source(index, using, self)
        self._snapshot = snapshot
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Answers.notes`."""
        return tuple(f"index {self.index}: {note}" for note in self._notes)

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """See `Answers.possible`."""
        values = values_of(leaf, semantics) if outcome is Outcome.TRUE else None
        if values is None or len(values) > MOST_KEYS:
            return None
        try:
            mask = self._holding([text_of(value) for value in values], at)
        except (UnicodeDecodeError, FormatError, StorageError) as error:
            self._notes[str(error)] = None
            return None
        return mask

    @abstractmethod
    def _holding(self, keys: list[str], at: NDArray[np.intp] | None) -> Mask | None:
        """Which of the given slices, or of all, can hold a row with one of the keys; None if unknown.

        A key is the text of a value that is looked up.
        """


class RecordIndexLookup(KeyLookup):
    """Hudi's record index.

    It has one location per key, but writers may have written a key twice. It is believed if it has as many keys as the
    files have rows: each of its keys belongs to a row, so no two rows share one.
    """

    def __init__(self, indexes: HudiIndexes, files: FilesOfSlices, snapshot: Snapshot) -> None:
        super().__init__("hudi.record_index", RECORD_INDEX, snapshot)
        self._indexes = indexes
        self._files = files

    @property
    def is_believed(self) -> bool:
        """Whether it provably locates every row. This reads it."""
        try:
            return self._believed is not None
        except (FormatError, StorageError) as error:
            self._notes[str(error)] = None
            return False

    @property
    def use(self) -> str:
        """How plans use it, in a few words. This reads it."""
        if self.is_believed:
            return f"used for record keys: {self._indexes.locations.count():,} keys, as many as rows"
        return f"not used: {'; '.join(self._notes)}"

    def _holding(self, keys: list[str], at: NDArray[np.intp] | None) -> Mask | None:
        return self.holding(keys, at)

    def holding(self, keys: list[str], at: NDArray[np.intp] | None, *, every: bool = False) -> Mask | None:
        """Which slices hold the rows with the given record keys; None if unknown.

        Args:
            keys: the record keys.
            at: the slices to check; None for all.
            every: whether each key is claimed to belong to a row, so that one that does not casts doubt on all.

        Raises:
            FormatError: the index is damaged.
            StorageError: it cannot be read.
        """
        locations = self._believed
        if locations is None:
            return None
        located = locations.find(keys)
        if every and len(located) < len(set(keys)):
            self._notes[_UNKNOWN_KEYS] = None
            return None
        places = list(set(located.values()))
        ids = self._snapshot.column("file_id").combine_chunks()
        ordinals: list[int | None] = compute.index_in(
            pa.array([place.file_id for place in places], pa.string()), value_set=ids
        ).to_pylist()
        mask = np.zeros(len(self._snapshot), np.bool_)
        for place, ordinal in zip(places, ordinals, strict=True):
            if ordinal is None or self._partition(ordinal) != place.partition:
                self._notes[_ELSEWHERE] = None
                return None
            mask[ordinal] = True
        return mask if at is None else mask[at]

    def _partition(self, ordinal: int) -> str:
        snapshot = self._snapshot
        return str(snapshot.partitions.paths[int(snapshot.partition_ordinals[ordinal])].as_py())

    @cached_property
    def _believed(self) -> RecordLocations | None:
        doubt = self._doubt()
        if doubt is not None:
            self._notes[doubt] = None
            return None
        return self._indexes.locations

    def _doubt(self) -> str | None:
        """Say why the index is not believed; None if it is."""
        if self._snapshot.id != self._indexes.snapshot_id:
            return OTHER_SNAPSHOT
        if self._snapshot.any_logs or self._snapshot.uncoverable is not None:
            return _LOGS
        if self._indexes.merge_on_read:
            return _MERGED
        rows = self._rows()
        if rows is None:
            return _UNCOUNTED
        keys = self._indexes.locations.count()
        if keys is None:
            return _TOO_MANY_LOGGED
        if keys != rows:
            return f"it has {keys:,} keys and the files have {rows:,} rows, so that a key may be in two files"
        # The index was listed after the snapshot was taken, so it may be newer.
        return None if self._indexes.is_current() else OTHER_SNAPSHOT

    def _rows(self) -> int | None:
        """The number of rows in all files; None if some file has no statistics."""
        stats = self._indexes.column_stats(RECORD_KEY)
        at = compute.index_in(self._files.names, value_set=stats.column("file").combine_chunks())
        rows: Any = stats.column("rows").combine_chunks().take(at)
        return None if rows.null_count else int(compute.sum(rows).as_py() or 0)


class KeyFilterLookup(KeyLookup):
    """Hudi's Bloom filters over the record keys of base files, used where no record index is believed."""

    def __init__(
        self, indexes: HudiIndexes, snapshot: Snapshot, record_index: RecordIndexLookup | None
    ) -> None:
        super().__init__("hudi.bloom_filters", BLOOM_FILTERS, snapshot)
        self._indexes = indexes
        self._record_index = record_index

    def _holding(self, keys: list[str], at: NDArray[np.intp] | None) -> Mask | None:
        if self._record_index is not None and self._record_index.is_believed:
            return None
        asked = np.arange(len(self._snapshot)) if at is None else at
        if len(asked) > MOST_FILTERS:
            self._notes[f"its filters are read for {MOST_FILTERS:,} files at most"] = None
            return None
        mask = np.ones(len(asked), np.bool_)
        files = self._files(asked)
        filters = self._indexes.filters
        to_read, whole = filters.bytes_of(len(files)), self._snapshot.size_of(asked)
        if to_read > max(WORTH_READING * whole, FEW_BYTES):
            self._notes["its filters are not small beside the files that they could save"] = None
            return None
        for place, held in filters.holding(files, keys):
            mask[place] = held
        return mask

    def _files(self, ordinals: NDArray[np.intp]) -> dict[int, tuple[str, str]]:
        """Partition and name of each base file without log files, by its position in `ordinals`."""
        snapshot = self._snapshot
        slices: Any = pa.array(ordinals, pa.int64())
        partitions: Any = pa.array(snapshot.partition_ordinals[ordinals], pa.int64())
        uris: list[Any] = snapshot.rows(slices, ("base_file",)).column(0).to_pylist()
        paths: list[Any] = snapshot.partitions.paths.take(partitions).to_pylist()
        plain = ~snapshot.has_logs[ordinals]
        return {
            place: (path, uri.rpartition("/")[2])
            for place, (path, uri) in enumerate(zip(paths, uris, strict=True))
            if uri is not None and plain[place]
        }


def implied_keys(
    predicate: BoundExpr, indexes: HudiIndexes, snapshot: Snapshot, semantics: Semantics
) -> InLeaf | None:
    """The keys that rows can have for which a predicate is true; None if they are not known."""
    form = indexes.key_form
    if form is None:
        return None
    values: dict[str, Sequence[int | bytes]] = {}
    for field, keys in required_values(predicate, semantics):
        known = values.get(field.name)
        usable = len(field.path) == 1 and not field.partition and field.dispute is None
        if usable and (known is None or len(keys) < len(known)):
            values[field.name] = keys
    if not all(column in values for column in form.columns):
        return None
    if not 0 < prod(len(values[column]) for column in form.columns) <= MOST_KEYS:
        return None
    try:
        about = snapshot.schema.find((RECORD_KEY,), case_sensitive=True)
        texts = form.texts(values)
    except (SchemaError, UnicodeDecodeError):
        return None
    if not pa.types.is_string(about.type):
        return None
    return InLeaf(about, tuple(Point(text.encode(), text.encode()) for text in texts))
