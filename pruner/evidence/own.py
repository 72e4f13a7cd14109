"""What the table itself keeps as indexes, as sources beside pruner's own.

Where an index of pruner's covers a column in every slice, the table's own statistics of it are not read: they could
add nothing, and would cost what pruner's were built to save.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pruner.errors import FormatError, IndexDefinitionError, StorageError
from pruner.evidence.hudi_keys import KeyFilterSource, RecordIndexSource, implied_keys
from pruner.evidence.hudi_stats import FilesOfSlices, stat_records
from pruner.evidence.sources import RecordsSource
from pruner.indexes.optional import RowIndexType
from pruner.indexes.registry import index_type
from pruner.tables.hudi_metadata.indexes import BLOOM_FILTERS, COLUMN_STATS, RECORD_INDEX
from pruner.tables.hudi_metadata.listing import FILES
from pruner.tables.hudi_metadata.record_keys import RECORD_KEY

if TYPE_CHECKING:
    from pruner.evidence.sources import Source, Sources
    from pruner.expr.bound import BoundExpr, InLeaf
    from pruner.expr.semantics import Semantics
    from pruner.schema import Field
    from pruner.tables.hudi_metadata.indexes import HudiIndexes
    from pruner.tables.snapshot import Snapshot

NAME = "hudi.column_stats"
"""How reports call Hudi's own column statistics."""

_USING = "column_stats"
_BY_RECORD_KEY = "not used: it leads to record keys, which may stand twice"
_BY_SPARK = "not used: it is over an expression as Spark computes it"
_NOT_READ = "not used: this version does not ask it"
_UNUSED = {
    BLOOM_FILTERS: "used for record keys, where the record index is not",
    FILES: "used to list tables of version 8 and 9, where it is in step with the timeline",
    "partition_stats": "not used: a record does not say which files it is about, so it cannot be joined to a snapshot",
}
"""Why plans do not use what else stands in the metadata table."""


class OwnStatistics:
    """The column statistics of Hudi's metadata table, for one snapshot."""

    def __init__(self, indexes: HudiIndexes, snapshot: Snapshot) -> None:
        self._indexes = indexes
        self._snapshot = snapshot

    def add(self, about: Field, found: Sources) -> None:
        """Add what is known of a field to its sources, or why it cannot be used."""
        self._add_statistics(about, found)
        if about.path == (RECORD_KEY,) and about.expression is None and about.conflict is None:
            found.usable += self._over_keys

    def implied(self, predicate: BoundExpr, semantics: Semantics) -> InLeaf | None:
        """A condition on record keys that follows from a predicate, where an index over record keys is there."""
        if not self._over_keys:
            return None
        return implied_keys(predicate, self._indexes, self._snapshot, semantics)

    def use_of(self, name: str) -> str:
        """What plans make of one of the indexes."""
        if name == COLUMN_STATS:
            return self._use_of_statistics()
        for source in self._over_keys:
            if name == RECORD_INDEX and isinstance(source, RecordIndexSource):
                return source.use
        return _use(name)

    def _use_of_statistics(self) -> str:
        try:
            covered = self._files.covered_by(self._indexes.column_stats(RECORD_KEY))
        except (FormatError, StorageError) as error:
            return f"not used: {error}"
        # Old releases have none of the record key, which tells nothing of other columns.
        return f"used: {covered:,} of {len(self._snapshot):,} slices" if covered else "used"

    @cached_property
    def _over_keys(self) -> list[Source]:
        record_index = None
        if RECORD_INDEX in self._indexes.names:
            record_index = RecordIndexSource(self._indexes, self._files, self._snapshot)
        found: list[Source] = [] if record_index is None else [record_index]
        if BLOOM_FILTERS in self._indexes.names:
            found.append(KeyFilterSource(self._indexes, self._snapshot, record_index))
        return found

    def _add_statistics(self, about: Field, found: Sources) -> None:
        if COLUMN_STATS not in self._indexes.names or not _is_column(about):
            return
        if any(map(self._covers_all, found.usable)):
            return
        kind = index_type(_USING)
        assert isinstance(kind, RowIndexType)
        try:
            kind.check(about, {})
        except IndexDefinitionError:
            return
        try:
            records, notes = stat_records(
                self._indexes, self._files, self._snapshot, about, kind.record_schema
            )
        except (FormatError, StorageError) as error:
            found.fallbacks.append(f"index {NAME}: {error}")
            return
        found.fallbacks += [f"index {NAME}: column {about.name}: {note}" for note in notes]
        if records.num_rows:
            evidence = kind.load(records, len(self._snapshot), about)
            found.usable.append(RecordsSource(NAME, _USING, evidence))

    @cached_property
    def _files(self) -> FilesOfSlices:
        return FilesOfSlices(self._snapshot)

    def _covers_all(self, source: Source) -> bool:
        if source.using != _USING:
            return False
        uncovered = source.uncovered
        return uncovered is None or not (uncovered & self._snapshot.coverable).any()


def _is_column(about: Field) -> bool:
    """Tell whether a field is a column by a name that Hudi writes: paths are joined by dots there."""
    return about.expression is None and not any("." in part for part in about.path)


def own_statistics(indexes: HudiIndexes | None, snapshot: Snapshot) -> OwnStatistics | None:
    """Return the statistics that a table keeps of itself; None where it keeps none."""
    return None if indexes is None else OwnStatistics(indexes, snapshot)


def described(indexes: HudiIndexes | None, own: OwnStatistics | None) -> dict[str, str]:
    """What a table itself keeps as indexes, by name, and what plans make of each. The record index is read for it.

    Args:
        indexes: of the table; None where it has none.
        own: what plans use of them; None where they are switched off.
    """
    if indexes is None:
        return {}
    if own is None:
        return dict.fromkeys(indexes.names, "switched off (hudi_indexes)")
    running = dict.fromkeys(indexes.in_flight, "not used: Hudi is building it")
    return {name: own.use_of(name) for name in indexes.names} | running


def _use(name: str) -> str:
    if name.startswith("secondary_index_"):
        return _BY_RECORD_KEY
    return _BY_SPARK if name.startswith("expr_index_") else _UNUSED.get(name, _NOT_READ)
