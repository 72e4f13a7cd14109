"""Evidence from Hudi's secondary indexes: a value leads to record keys, and those lead to file groups.

An index is believed if it has as many entries as the files have rows and the record index is believed. A missing row
would then have to be offset by an entry without a row. Writers of table version 9 leave no such entry. Earlier ones
lost entries when a row moved to another partition (hudi#14090). An entry whose record key belongs to no row keeps all
files.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pruner.arrow import compute
from pruner.errors import FormatError, StorageError
from pruner.evidence.hudi.keys import MOST_KEYS, OTHER_SNAPSHOT, KeyLookup
from pruner.evidence.sources import Sources
from pruner.expr.bound.predicates import InLeaf, Point
from pruner.expr.bound.value_lists import required_values
from pruner.tables.hudi.metadata.indexes import COLUMN_STATS, SECONDARY

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from pruner.evidence.hudi.keys import Mask, RecordIndexLookup
    from pruner.expr.bound.predicates import BoundExpr
    from pruner.expr.semantics import Semantics
    from pruner.schema import Field
    from pruner.tables.hudi.metadata.counting import SecondaryIndex
    from pruner.tables.hudi.metadata.indexes import HudiIndexes
    from pruner.tables.snapshot import Snapshot

MOST_LOOK_UPS = 1_000
"""Most lookups for one predicate: values times file groups of the index."""

_NO_RECORD_INDEX = "the record index, to which it leads, is not believed"
_OLD_WRITERS = "writers of earlier releases left entries out of it (hudi#14090)"
_MANY_LOGGED = "too many of its entries are in log files to be counted"
_MANY_VALUES = "it is asked for fewer values at a time"
_MANY_ROWS = f"more than {MOST_KEYS:,} rows have the values"
_RENAMED = "a change of the schema may have given the name to another column"
_OTHER_TEXT = "some files have values of another type, whose text may be another"


class SecondaryLookup(KeyLookup):
    """One secondary index over `column`, a column of text or integers."""

    def __init__(
        self,
        name: str,
        column: str,
        indexes: HudiIndexes,
        snapshot: Snapshot,
        record_index: RecordIndexLookup | None,
    ) -> None:
        super().__init__(f"hudi.{name}", SECONDARY.rstrip("_"), snapshot)
        self.column = column
        self._name = name
        self._indexes = indexes
        self._record_index = record_index

    @property
    def notes(self) -> tuple[str, ...]:
        """See `Answers.notes`."""
        return super().notes + (self._record_index.notes if self._record_index is not None else ())

    @property
    def use(self) -> str:
        """How plans use it, in a few words. This reads it."""
        try:
            index = self._believed
        except (FormatError, StorageError) as error:
            return f"not used: {error}"
        if index is None:
            return f"not used: {'; '.join(self._notes)}"
        return f"used for {self.column}: {index.count():,} entries, as many as rows"

    def _holding(self, keys: list[str], at: NDArray[np.intp] | None) -> Mask | None:
        believed = self._believed
        if believed is None or self._record_index is None:
            return None
        if len(keys) * believed.groups > MOST_LOOK_UPS:
            self._notes[_MANY_VALUES] = None
            return None
        record_keys = believed.keys_with(keys)
        if len(record_keys) > MOST_KEYS:
            self._notes[_MANY_ROWS] = None
            return None
        return self._record_index.holding(record_keys, at, every=True)

    @cached_property
    def _believed(self) -> SecondaryIndex | None:
        doubt = self._doubt()
        if doubt is not None:
            self._notes[doubt] = None
            return None
        return self._indexes.secondary(self._name)

    def _doubt(self) -> str | None:
        """Say why the index is not believed; None if it is."""
        if not self._indexes.born_now:
            return _OLD_WRITERS
        if self._indexes.schema_changed_at:
            return _RENAMED
        if self._record_index is None or not self._record_index.is_believed:
            return _NO_RECORD_INDEX
        if self._has_other_types():
            return _OTHER_TEXT
        entries, rows = self._indexes.secondary(self._name).count(), self._indexes.locations.count()
        if entries is None:
            return _MANY_LOGGED
        if entries != rows:
            return f"it has {entries:,} entries and the files have {rows:,} rows"
        # It was listed after the record index was compared with the snapshot.
        return None if self._indexes.is_current() else OTHER_SNAPSHOT

    def _has_other_types(self) -> bool:
        if COLUMN_STATS not in self._indexes.names:
            return False
        types: Any = self._indexes.column_stats(self.column).column("type").cast(pa.string())
        known: list[Any] = compute.unique(types.combine_chunks()).drop_null().to_pylist()
        return len(known) > 1 or not set(known) <= {"string", "int32", "int64"}


class Alone:
    """The sources of one field, for a condition that a predicate implies: see `Focus`."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def sources(self, about: Field) -> Sources:
        """The sources of the field."""
        return self._sources


class SecondaryIndexes:
    """All secondary indexes of a table, by column. Nothing is read before a predicate can use one."""

    def __init__(
        self, indexes: HudiIndexes, snapshot: Snapshot, record_index: RecordIndexLookup | None
    ) -> None:
        self._names = [name for name in indexes.names if name.startswith(SECONDARY)]
        self._indexes = indexes
        self._snapshot = snapshot
        self._record_index = record_index

    def implied(self, predicate: BoundExpr, semantics: Semantics) -> Iterator[tuple[InLeaf, Alone]]:
        """Yield each condition that a predicate implies and an index can answer, with the sources of that index."""
        for field, values in required_values(predicate, semantics) if self._names else ():
            usable = len(field.path) == 1 and not field.partition and field.dispute is None
            if usable and field.expression is None and 0 < len(values) <= MOST_LOOK_UPS:
                sources = self._over(field)
                if sources.usable or sources.fallbacks:
                    yield InLeaf(field, tuple(Point(value, value) for value in values)), Alone(sources)

    def use_of(self, name: str) -> str:
        """How plans use one of them."""
        try:
            lookup = self._by_name.get(name)
        except (FormatError, StorageError) as error:
            return f"not used: {error}"
        return lookup.use if lookup is not None else "not used: its definition names no column"

    def _over(self, field: Field) -> Sources:
        try:
            of_column = [lookup for lookup in self._by_name.values() if lookup.column == field.name]
        except (FormatError, StorageError) as error:
            return Sources(fallbacks=[f"Hudi's secondary indexes: {error}"])
        return Sources(usable=[lookup.source for lookup in of_column])

    @cached_property
    def _by_name(self) -> dict[str, SecondaryLookup]:
        definitions = self._indexes.definitions
        return {
            name: SecondaryLookup(
                name, definitions[name].columns[0], self._indexes, self._snapshot, self._record_index
            )
            for name in self._names
            if name in definitions and len(definitions[name].columns) == 1
        }
