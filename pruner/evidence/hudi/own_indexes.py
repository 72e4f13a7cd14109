"""The table's own indexes, as sources beside pruner's.

Where a pruner index covers a column in every slice, the table's own statistics of it are not read: they could add
nothing, and would cost what pruner's were built to save.
"""

from __future__ import annotations

from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from pruner.errors import FormatError, StorageError
from pruner.evidence.hudi.expressions import ExpressionStatistics
from pruner.evidence.hudi.keys import KeyFilterLookup, RecordIndexLookup, implied_keys
from pruner.evidence.hudi.secondary import SecondaryIndexes
from pruner.evidence.hudi.stats import FilesOfSlices, stat_records
from pruner.evidence.sources import Source, of_records
from pruner.indexes.registry import statistics_of
from pruner.tables.hudi.metadata.indexes import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    EXPRESSION,
    RECORD_INDEX,
    SECONDARY,
)
from pruner.tables.hudi.metadata.listing import FILES
from pruner.tables.hudi.metadata.locations import RECORD_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from pruner.evidence.sources import KnowsFields, Sources
    from pruner.expr.bound.predicates import BoundExpr, InLeaf, Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.base import Evidence
    from pruner.schema import Field
    from pruner.tables.hudi.metadata.indexes import HudiIndexes
    from pruner.tables.snapshot import Snapshot
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]
    Paths = tuple[str, ...]
    Load = Callable[[Sequence[Paths] | None], tuple[Evidence, tuple[str, ...]]]
    _Read: TypeAlias = Callable[[pa.Schema], tuple[pa.Table, tuple[str, ...]]]

# Hudi's column statistics of a large table, read only for the partitions that are asked about.
#
# Their keys begin with the column and the partition. So where a predicate has left few partitions, only the blocks of
# those are read, and yield the same evidence about their slices. A slice of another partition counts as not covered.

LARGE: Final = 2_000
"""Fewest slices of a table for which partitions are read separately; below, all are one request of a few blocks."""

FEW: Final = 0.25
"""Largest share of the partitions for which they are read separately."""


def statistics_by_partition(index: str, using: str, snapshot: Snapshot, load: Load) -> Source:
    """Statistics of one column, read only for the partitions that are asked about.

    `load` returns the evidence of some sets of partitions, or of all, and why slices have none.
    """
    return Source(index, using, _ByPartition(index, snapshot, load))


class _ByPartition:
    """Answers from statistics of one column. Threads may share it."""

    def __init__(self, index: str, snapshot: Snapshot, load: Load) -> None:
        self._index = index
        self._snapshot = snapshot
        self._load = load
        self._lock = Lock()
        self._sets: list[Paths] | None = []
        """The sets of partitions in which statistics were read; earlier reads are remembered by these sets."""
        self._read: frozenset[int] = frozenset()
        self._evidence: Evidence | None = None
        self._notes: tuple[str, ...] = ()

    @property
    def uncovered(self) -> Mask | None:
        """See `Answers.uncovered`."""
        evidence = self._evidence
        if evidence is None:
            return np.ones(len(self._snapshot), np.bool_)
        return None if evidence.covered.all() else ~evidence.covered

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Answers.notes`."""
        return tuple(f"index {self._index}: {note}" for note in self._notes)

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """See `Answers.possible`."""
        if at is not None and not len(at):
            return np.ones(0, np.bool_)
        try:
            evidence = self._about(at)
        except (FormatError, StorageError) as error:
            self._notes = (str(error),)
            return None
        # A column without statistics gives no answer, as when all partitions are read at once.
        return evidence.possible(leaf, outcome, semantics, at) if evidence.covered.any() else None

    def _about(self, at: NDArray[np.intp] | None) -> Evidence:
        """Evidence that includes what is known of the slices `at`; None for all slices."""
        with self._lock:
            wanted = None if at is None else self._partitions(at)
            evidence, sets = self._evidence, self._sets
            if evidence is not None and (sets is None or (wanted is not None and wanted <= self._read)):
                return evidence
            paths = self._snapshot.partitions.paths
            if sets is None or wanted is None or len(wanted | self._read) > FEW * len(paths):
                loaded, self._notes = self._load(None)
                self._sets = None
            else:
                more = sorted(wanted - self._read)
                sets = [*sets, tuple(str(paths[ordinal].as_py()) for ordinal in more)]
                loaded, self._notes = self._load(sets)
                self._sets, self._read = sets, wanted | self._read
            self._evidence = loaded
            return loaded

    def _partitions(self, at: NDArray[np.intp]) -> frozenset[int]:
        return frozenset(np.unique(np.asarray(self._snapshot.partition_ordinals)[at]).tolist())


NAME = "hudi.column_stats"
"""The name of Hudi's own column statistics in reports."""

_USING = "column_stats"
_NOT_READ = "not used: this version does not ask it"
_UNUSED = {
    BLOOM_FILTERS: "used for record keys, where the record index is not",
    FILES: "used to list tables of version 8 and 9, where it is in step with the timeline",
    "partition_stats": "not used: a record does not say which files it is about, so it cannot be joined to a snapshot",
}
"""How plans use the other partitions of the metadata table, or why they do not."""


class HudiOwnIndexes:
    """The indexes of Hudi's metadata table, for one snapshot: see `pruner.evidence.sources.OwnIndexes`."""

    def __init__(self, indexes: HudiIndexes, snapshot: Snapshot) -> None:
        self._indexes = indexes
        self._snapshot = snapshot

    def add(self, about: Field, sources: Sources) -> None:
        """Add what is known of a field to its sources, or why it cannot be used."""
        self._add_statistics(about, sources)
        self._add_expressions(about, sources)
        if about.path == (RECORD_KEY,) and about.expression is None and about.conflict is None:
            sources.usable += self._over_keys

    @property
    def expressions(self) -> list[tuple[str, str]]:
        """Names and forms of the indexed expressions that plans can use."""
        return [(used_one.name, used_one.made_by.text) for used_one in self._expressions.used]

    def implied(
        self, predicate: BoundExpr, semantics: Semantics
    ) -> Iterator[tuple[InLeaf, KnowsFields | None]]:
        """Yield the conditions that a predicate implies and that can be looked up: see `Planner`."""
        if self._over_keys:
            about_keys = implied_keys(predicate, self._indexes, self._snapshot, semantics)
            if about_keys is not None:
                yield about_keys, None
        yield from self._secondary.implied(predicate, semantics)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the indexes."""
        return tuple(self._indexes.names)

    def described(self) -> dict[str, str]:
        """How plans use each of the table's own indexes, by name. This reads the record index."""
        running = dict.fromkeys(self._indexes.in_flight, "not used: Hudi is building it")
        return {name: self._use_of(name) for name in self._indexes.names} | running

    def _use_of(self, name: str) -> str:
        """How plans use one of the indexes."""
        if name == COLUMN_STATS:
            return self._use_of_statistics()
        if name == RECORD_INDEX and self._record_index is not None:
            return self._record_index.use
        if name.startswith(EXPRESSION):
            return self._expressions.use_of(name)
        return self._secondary.use_of(name) if name.startswith(SECONDARY) else _UNUSED.get(name, _NOT_READ)

    def _use_of_statistics(self) -> str:
        try:
            covered = self._files.covered_by(self._indexes.column_stats(RECORD_KEY))
        except (FormatError, StorageError) as error:
            return f"not used: {error}"
        # Old releases have none of the record key, which says nothing about other columns.
        return f"used: {covered:,} of {len(self._snapshot):,} file groups" if covered else "used"

    @cached_property
    def _record_index(self) -> RecordIndexLookup | None:
        if RECORD_INDEX not in self._indexes.names:
            return None
        return RecordIndexLookup(self._indexes, self._files, self._snapshot)

    @cached_property
    def _expressions(self) -> ExpressionStatistics:
        return ExpressionStatistics(self._indexes, self._snapshot, self._files)

    @cached_property
    def _secondary(self) -> SecondaryIndexes:
        return SecondaryIndexes(self._indexes, self._snapshot, self._record_index)

    @cached_property
    def _over_keys(self) -> list[Source]:
        sources = [] if self._record_index is None else [self._record_index.source]
        if BLOOM_FILTERS in self._indexes.names:
            sources.append(KeyFilterLookup(self._indexes, self._snapshot, self._record_index).source)
        return sources

    def _add_statistics(self, about: Field, sources: Sources) -> None:
        if COLUMN_STATS not in self._indexes.names or not _is_column(about):
            return
        if any(map(self._covers_all, sources.usable)):
            return
        if len(self._snapshot) >= LARGE and len(self._snapshot.partitions.paths) > 1:
            self._add_by_partition(about, sources)
            return
        read = partial(stat_records, self._indexes, self._files, self._snapshot, about)
        self._add_records(NAME, about, sources, read)

    def _add_by_partition(self, about: Field, sources: Sources) -> None:
        """Add statistics that are read only for the partitions that are asked about."""
        kind = statistics_of(about)
        if kind is None:
            return
        column = ".".join(about.path)

        def load(partitions: Sequence[Sequence[str]] | None) -> tuple[Evidence, tuple[str, ...]]:
            parts = [self._indexes.column_stats(column, partition) for partition in partitions or (None,)]
            stats = parts[0] if len(parts) == 1 else pa.concat_tables(parts).unify_dictionaries()
            common = (self._indexes, self._files, self._snapshot, about, kind.record_schema)
            records, notes = stat_records(*common, stats)
            evidence = kind.load(records, len(self._snapshot), about)
            return evidence, tuple(f"column {about.name}: {note}" for note in notes)

        sources.usable.append(statistics_by_partition(NAME, _USING, self._snapshot, load))

    def _add_expressions(self, about: Field, sources: Sources) -> None:
        for derived in self._expressions.over(about) if about.expression is not None else ():
            if not any(map(self._covers_all, sources.usable)):
                read = partial(self._expressions.records, derived, about)
                self._add_records(derived.name, about, sources, read)

    def _add_records(self, name: str, about: Field, sources: Sources, read: _Read) -> None:
        kind = statistics_of(about)
        if kind is None:
            return
        try:
            records, notes = read(kind.record_schema)
        except (FormatError, StorageError) as error:
            sources.fallbacks.append(f"index {name}: {error}")
            return
        sources.fallbacks += [f"index {name}: column {about.name}: {note}" for note in notes]
        if records.num_rows:
            evidence = kind.load(records, len(self._snapshot), about)
            sources.usable.append(of_records(name, _USING, evidence))

    @cached_property
    def _files(self) -> FilesOfSlices:
        return FilesOfSlices(self._snapshot)

    def _covers_all(self, source: Source) -> bool:
        if source.using != _USING:
            return False
        uncovered = source.uncovered
        return uncovered is None or not (uncovered & self._snapshot.coverable).any()


def _is_column(about: Field) -> bool:
    """Tell whether a field is a column with a name that Hudi writes: it joins paths with dots."""
    return about.expression is None and not any("." in part for part in about.path)
