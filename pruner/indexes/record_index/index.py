"""The index type `record_index`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from pruner.arrow import compute
from pruner.errors import IndexDefinitionError
from pruner.indexes.columns.hashed import require_hashable
from pruner.indexes.optional import RecordPart
from pruner.indexes.record_index.evidence import KeyEvidence
from pruner.indexes.record_index.packing import PACKED, distinct_keys, packed, spread
from pruner.indexes.record_index.record import load_parts, record_slice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.indexes.base import Evidence, SliceReader
    from pruner.schema import Field


class RecordIndex:
    """The slice and the position of each key.

    See `ArrangingIndexType`, `SpreadingIndexType`, `SelectiveIndexType`, `CountingIndexType` and `RefusingIndexType`.
    """

    name = "record_index"
    partition = "record_index"
    version = 1
    refusal = ("usable", "note")

    def check(self, field: Field, options: Mapping[str, str]) -> None:
        """Reject what cannot be indexed.

        Raises:
            IndexDefinitionError: any option, an unsupported type, a field about which files disagree, or one that no
                file holds.
        """
        if options:
            raise IndexDefinitionError(
                f"index type record_index has no option {sorted(options)[0]!r}: it has none"
            )
        require_hashable(field, self.name)

    def record(self, reader: SliceReader, field: Field, options: Mapping[str, str]) -> pa.Table:
        """Return the record of one slice.

        Raises:
            ValueError, OSError, pyarrow.ArrowException: the file is broken.
        """
        return record_slice(reader, field)

    def arrange(self, records: pa.Table, field: Field) -> pa.Table:
        """Sort the keys of many slices together; the order of the slices is unchanged."""
        return packed(records)

    def spread(self, records: pa.Table) -> pa.Table:
        """Give each slice its own keys again: see `SpreadingIndexType`."""
        return spread(records)

    def values_and_rows(self, records: pa.Table) -> tuple[int, int]:
        """Distinct keys and rows of some slices: see `CountingIndexType`."""
        return distinct_keys(records), int(compute.sum(records.column("row_count")).as_py() or 0)

    def is_resident(self, column: str) -> bool:
        """Tell whether a column is read at load time, before any predicate is asked."""
        return column not in (PACKED, "hashes", "positions")

    def load(self, records: pa.Table, count: int, field: Field) -> Evidence:
        """Make evidence from records that are entirely in memory."""
        arranged = packed(records)
        return self.load_parts([RecordPart(arranged, None, arranged.select)], count, field)

    def load_parts(self, parts: Sequence[RecordPart], count: int, field: Field) -> Evidence:
        """Make evidence from the records of `count` slices; keys are read when they are looked up."""
        return KeyEvidence(load_parts(parts, count, field), field)


RECORD_INDEX = RecordIndex()
