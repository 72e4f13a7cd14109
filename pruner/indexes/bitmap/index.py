"""The index type `bitmap`.

Its records are cut into pages: those about whole slices first, then NULL, NaN and values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from pruner.arrow import as_numpy, compute, positions
from pruner.errors import IndexDefinitionError
from pruner.indexes.bitmap.evidence import BitmapEvidence
from pruner.indexes.bitmap.focused import WaitingBitmap
from pruner.indexes.bitmap.load import load_postings
from pruner.indexes.bitmap.packing import MOST_ROWS_OF_A_SLICE
from pruner.indexes.bitmap.paged import load_paged
from pruner.indexes.bitmap.record import SLICE, VALUE, read_slice, records_of
from pruner.indexes.columns.kinds import is_binary, kind_of
from pruner.indexes.columns.trust import require_in_files
from pruner.metadata.pages import PageLayout, page_starts
from pruner.metadata.segments import SLICE_COLUMN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.indexes.base import Evidence, SliceReader
    from pruner.indexes.bitmap.record import SliceValues
    from pruner.indexes.optional import Fetch, PagedEvidence, RecordPages
    from pruner.schema import Field


def page_layout(records: pa.Table, deferred: tuple[str, ...]) -> PageLayout | None:
    """How arranged records are cut; None if a page would not tell all that is asked of it.

    A plan that reads only some pages cannot verify that each row of a slice is in exactly one entry. So this is
    verified here, once.
    """
    values = [name for name in records.column_names if name.startswith("value_")]
    if not records.num_rows or len(values) != 1:
        return None
    kinds = records.column("entry").to_numpy()
    slices = records.column(SLICE_COLUMN).to_numpy()
    whole = kinds == SLICE
    if len(cast("Any", records.column("type")).unique().drop_null()) != 1 or not _adds_up(
        records, kinds, slices
    ):
        return None
    starts = page_starts(np.append(True, kinds[1:] != kinds[:-1]))
    leading = int(np.searchsorted(starts, np.count_nonzero(whole)))
    return PageLayout(starts, leading, ("entry", values[0]), deferred)


def _adds_up(records: pa.Table, kinds: Any, slices: Any) -> bool:
    """Tell whether the records are in order and put each row of a slice into exactly one entry."""
    whole = kinds == SLICE
    count = int(slices.max(initial=-1)) + 1
    rows, sizes = (
        cast("Any", records.column(name)).fill_null(0).to_numpy().astype(np.int64)
        for name in ("row_count", "cardinality")
    )
    usable = np.asarray(cast("Any", records.column("usable")).fill_null(False))[whole]
    expected = np.bincount(slices[whole], weights=np.where(usable, rows[whole], 0), minlength=count)
    counts = np.bincount(slices[~whole], weights=sizes[~whole], minlength=count)
    if (np.bincount(slices[whole], minlength=count) != 1)[np.unique(slices)].any():
        return False
    if not (np.diff(kinds) >= 0).all() or (sizes[~whole] < 1).any() or not np.array_equal(expected, counts):
        return False
    name = next(name for name in records.column_names if name.startswith("value_"))
    value: Any = records.column(name).combine_chunks()
    later, earlier = value.slice(1), value.slice(0, len(value) - 1)
    same = kinds[1:] == kinds[:-1]
    is_value = same & (kinds[1:] == VALUE)
    ascends = np.asarray(compute.greater(later, earlier).fill_null(False))
    equal = np.asarray(compute.equal(later, earlier).fill_null(False)) | (same & ~is_value)
    in_order = (is_value & ascends) | (equal & (slices[1:] > slices[:-1]))
    return bool(in_order[same].all())


MAX_CARDINALITY = "max_cardinality"
"""Option: a slice with more distinct values is left uncovered."""

DEFAULT_CARDINALITY = 10_000
MOST_CARDINALITY = 1_000_000

_SUPPORTED = (
    "boolean, integers, floating point, decimal up to 38 digits, string (char, varchar), date, time, timestamp, and "
    "fields of these types inside structs (a.b) are supported"
)


class Bitmap:
    """One record per value and slice, with the rows as a bitmap.

    See `PagedIndexType` and `RefusingIndexType` in `pruner.indexes.optional`.
    """

    name = "bitmap"
    partition = "bitmap_index"
    version = 1
    deferred = ("rows", "checksum")
    refusal = ("usable", "note")

    def check(self, field: Field, options: Mapping[str, str]) -> None:
        """Reject what cannot be indexed.

        Raises:
            IndexDefinitionError: an unknown option or one that is not a number, an unsupported type, a field about
                which files disagree, or one that no file holds.
        """
        unknown = sorted(set(options) - {MAX_CARDINALITY})
        if unknown:
            raise IndexDefinitionError(
                f"index type bitmap has no option {unknown[0]!r}: it has {MAX_CARDINALITY} alone"
            )
        _most(options)
        if kind_of(field.type) is None or is_binary(field.type):
            raise IndexDefinitionError(
                f"column {field.name!r} has type {field.type_name}, which bitmap cannot index: {_SUPPORTED}"
            )
        require_in_files(field)

    def record(self, reader: SliceReader, field: Field, options: Mapping[str, str]) -> pa.Table:
        """Return the records of one slice.

        Raises:
            ValueError, OSError, pyarrow.ArrowException: the file is broken.
        """
        return self.gather([read_slice(reader, field, _most(options))], field)[0]

    def read(self, reader: SliceReader, field: Field, options: Mapping[str, str]) -> SliceValues | None:
        """What will be recorded of one slice, together with others: see `GatheringIndexType`.

        Raises:
            ValueError, OSError, pyarrow.ArrowException: the file is broken.
        """
        if reader.footer.row_count > MOST_ROWS_OF_A_SLICE:
            return None
        return read_slice(reader, field, _most(options))

    def gather(self, found: Sequence[SliceValues], field: Field) -> tuple[pa.Table, NDArray[np.int64]]:
        """Records of the slices that were read: see `GatheringIndexType`."""
        return records_of(field, found)

    def arrange(self, records: pa.Table, field: Field) -> pa.Table:
        """Order the records of many slices by entry and value, and by slice within each."""
        values = [name for name in records.column_names if name.startswith("value_")]
        by = ("entry", *values, SLICE_COLUMN)
        return cast("Any", records).sort_by([(name, "ascending") for name in by])

    def values_and_rows(self, records: pa.Table) -> tuple[int, int]:
        """Distinct values and rows of some slices: see `CountingIndexType`."""
        values = np.count_nonzero(as_numpy(records.column("entry")) == VALUE)
        return int(values), int(compute.sum(records.column("row_count")).as_py() or 0)

    def load(self, records: pa.Table, count: int, field: Field) -> Evidence:
        """Make evidence from records that are entirely in memory."""
        rows = records.select(self.deferred)
        return self.load_deferring(records, count, field, lambda at: rows.take(positions(at)))

    def load_deferring(self, records: pa.Table, count: int, field: Field, fetch: Fetch) -> Evidence:
        """Make evidence from the records of `count` slices; bitmaps are fetched when rows are asked for."""
        return BitmapEvidence(load_postings(records, count, field), field, fetch)

    def layout(self, records: pa.Table) -> PageLayout | None:
        """How arranged records are cut into pages: see `PagedIndexType`."""
        return page_layout(records, self.deferred)

    def load_paged(
        self, segments: Sequence[RecordPages], count: int, field: Field, limit_bytes: int
    ) -> PagedEvidence | None:
        """Make evidence that reads pages when a predicate needs them: see `PagedIndexType`."""
        paged = load_paged(segments, count, field, limit_bytes)
        return None if paged is None else WaitingBitmap(paged)


def _most(options: Mapping[str, str]) -> int:
    text = options.get(MAX_CARDINALITY, str(DEFAULT_CARDINALITY))
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_CARDINALITY and len(text) < 9):
        raise IndexDefinitionError(
            f"option {MAX_CARDINALITY} of index type bitmap is {text[:40]!r}: "
            f"give a number from 1 to {MOST_CARDINALITY}"
        )
    return int(text)


BITMAP = Bitmap()
