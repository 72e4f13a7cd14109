"""The index type `bloom_filter`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pruner.errors import FormatError, IndexDefinitionError, StorageError
from pruner.indexes.bloom_filter.load import NO_GROUP, load_parts
from pruner.indexes.bloom_filter.record import is_stripe, record_slice, striped
from pruner.indexes.columns.hashed import require_hashable
from pruner.indexes.columns.sought import SoughtValues
from pruner.indexes.optional import RecordPart

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.base import Evidence, SliceReader
    from pruner.indexes.bloom_filter.load import Filters, Group
    from pruner.schema import Field
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]


# What Bloom filters prove: that no row of a slice equals a value.

MOST_VALUES = 1024
"""Maximum number of values of one leaf to look up: of this many, nearly every slice seems to hold one."""

LONGEST_RANGE = 64
"""Maximum number of values of a range to look up: at 1% false positives, half of the slices seem to hold one."""

MOST_LOOK_UPS = 1 << 25
"""Values times slices beyond which no answer is given: half a second."""


class BloomEvidence:
    """Evidence from the filters of one field: see `pruner.indexes.base.Evidence`. Threads may share it."""

    counts = "distinct values"
    longest_range = LONGEST_RANGE

    def __init__(self, filters: Filters, field: Field) -> None:
        self._filters = filters
        self._sought = SoughtValues(field.type)
        self._failed: dict[str, None] = {}
        self.count = len(filters.covered)
        self.covered = filters.covered
        self.distinct = filters.distinct

    @property
    def notes(self) -> tuple[str, ...]:
        """Why slices with records are not covered, or could not be looked up: see `NotingEvidence`."""
        return (*self._filters.notes, *self._failed)

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Tell for each slice whether some row can make `leaf` evaluate to `outcome`: see `Evidence.possible`."""
        hashes = self._sought.hashes(leaf, outcome, semantics, MOST_VALUES)
        asked = self.count if at is None else len(at)
        if hashes is None or len(hashes) * asked > MOST_LOOK_UPS:
            return None
        mask = self._holding(at, hashes)
        for doubted in (self._filters.uncovered, self._filters.unread.of(semantics)):
            if doubted is not None:
                mask |= doubted if at is None else doubted[at]
        return mask

    def _holding(self, at: NDArray[np.intp] | None, hashes: NDArray[np.uint64]) -> Mask:
        """Tell for each slice whether it may hold one of the hashes; a slice that cannot be read may."""
        mask = np.zeros(self.count if at is None else len(at), np.bool_)
        if not len(hashes):
            return mask
        for slices, rows, group in self._asked(at):
            try:
                mask[slices[group.holders(rows, hashes)]] = True
            except (FormatError, StorageError, ValueError) as error:
                self._failed[f"bloom filters are not used: {error}"] = None
                mask[slices] = True
        return mask

    def _asked(
        self, at: NDArray[np.intp] | None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp] | None, Group]]:
        """For each group with filters of some slices (None: all): positions in `at`, rows of the filters, the group."""
        filters = self._filters
        if at is None:
            yield from ((held.slices, None, held.group) for held in filters.groups)
            return
        groups = filters.group_of[at]
        for number in np.unique(groups[groups != NO_GROUP]).tolist():
            here = np.flatnonzero(groups == number)
            yield here, filters.row_of[at[here]].astype(np.intp), filters.groups[int(number)].group


FPP = "fpp"
"""Option: the false-positive rate, the share of absent values that a slice seems to hold."""

DEFAULT_FPP = 0.01
LEAST_FPP, MOST_FPP = 1e-5, 0.5


class BloomFilter:
    """One filter per slice. See `ArrangingIndexType`, `SelectiveIndexType` and `RefusingIndexType`."""

    name = "bloom_filter"
    partition = "bloom_filter"
    version = 1
    refusal = ("usable", "note")

    def check(self, field: Field, options: Mapping[str, str]) -> None:
        """Reject what cannot be indexed.

        Raises:
            IndexDefinitionError: an unknown option or one with an invalid value, an unsupported type, a field about
                which files disagree, or one that no file holds.
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
        """Cut the filters of many slices into stripes, in unchanged order."""
        return striped(records)

    def is_resident(self, column: str) -> bool:
        """Tell whether a column is read at load time, before any predicate is asked."""
        return not is_stripe(column)

    def load(self, records: pa.Table, count: int, field: Field) -> Evidence:
        """Make evidence from records that are entirely in memory."""
        return self.load_parts([RecordPart(records, None, records.select)], count, field)

    def load_parts(self, parts: Sequence[RecordPart], count: int, field: Field) -> Evidence:
        """Make evidence from the records of `count` slices; stripes are read when values are looked up."""
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
