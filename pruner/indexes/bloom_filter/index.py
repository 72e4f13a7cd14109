"""The index type `bloom_filter`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.errors import IndexDefinitionError
from pruner.indexes.bloom_filter.evidence import BloomEvidence
from pruner.indexes.bloom_filter.load import load_parts
from pruner.indexes.bloom_filter.record import record_slice
from pruner.indexes.bloom_filter.stripes import is_stripe, striped
from pruner.indexes.columns.hashed import require_hashable
from pruner.indexes.optional import RecordPart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from pruner.indexes.base import Evidence, SliceReader
    from pruner.schema import Field

FPP = "fpp"
"""Option: the share of values that a slice does not hold and yet seems to."""

DEFAULT_FPP = 0.01
LEAST_FPP, MOST_FPP = 1e-5, 0.5


class BloomFilter:
    """A filter for each slice. See `ArrangingIndexType`, `SelectiveIndexType` and `RefusingIndexType`."""

    name = "bloom_filter"
    partition = "bloom_filter"
    version = 1
    refusal = ("usable", "note")

    def check(self, field: Field, options: Mapping[str, str]) -> None:
        """Refuse what cannot be indexed.

        Raises:
            IndexDefinitionError: an option that there is not or whose value is not possible, an unsupported type, a
                field about which files disagree, or one that no file holds.
        """
        unknown = sorted(set(options) - {FPP})
        if unknown:
            raise IndexDefinitionError(
                f"index type bloom_filter has no option {unknown[0]!r}: it has {FPP} alone"
            )
        _fpp(options)
        require_hashable(field, self.name)

    def record(self, reader: SliceReader, field: Field, options: Mapping[str, str]) -> pa.Table:
        """Return the record of one slice.

        Raises:
            ValueError, OSError, pyarrow.ArrowException: the file is broken.
        """
        return record_slice(reader, field, _fpp(options))

    def arrange(self, records: pa.Table, field: Field) -> pa.Table:
        """Cut the filters of many slices into stripes; their order stays."""
        return striped(records)

    def is_resident(self, column: str) -> bool:
        """Tell whether a column is read before anything is asked."""
        return not is_stripe(column)

    def load(self, records: pa.Table, count: int, field: Field) -> Evidence:
        """Make evidence of records that are in memory as a whole."""
        return self.load_parts([RecordPart(records, None, records.select)], count, field)

    def load_parts(self, parts: Sequence[RecordPart], count: int, field: Field) -> Evidence:
        """Make evidence of the records of `count` slices; stripes are read when values are looked up."""
        return BloomEvidence(load_parts(parts, count, field), field)


def _fpp(options: Mapping[str, str]) -> float:
    text = options.get(FPP, str(DEFAULT_FPP))
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not LEAST_FPP <= value <= MOST_FPP:
        raise IndexDefinitionError(
            f"option {FPP} of index type bloom_filter is {text[:40]!r}: give a share from 0.00001 to {MOST_FPP}"
        )
    return value


BLOOM_FILTER = BloomFilter()
