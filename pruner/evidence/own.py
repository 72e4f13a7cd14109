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
_ONE_PLACE = "not used: it knows one place of a key, and writers may have inserted the key twice"
_BY_KEY = "used for record keys, where as many keys stand in it as rows in the files"
_NOT_READ = "not used: this version does not ask it"
_UNUSED = {
    RECORD_INDEX: _BY_KEY,
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


def described(indexes: HudiIndexes | None, *, used: bool) -> dict[str, str]:
    """What a table itself keeps as indexes, by name, and what plans make of each."""
    names = () if indexes is None else indexes.names
    if not used:
        return dict.fromkeys(names, "switched off (hudi_indexes)")
    return {name: _use(name) for name in names}


def _use(name: str) -> str:
    if name.startswith("secondary_index_"):
        return _ONE_PLACE
    return "used" if name == COLUMN_STATS else _UNUSED.get(name, _NOT_READ)
