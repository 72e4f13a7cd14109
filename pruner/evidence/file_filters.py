"""Evidence from the Bloom filters that writers put into Parquet files, without an index being built.

They are probed last, for the few slices that are left, because each costs a read of a file. They are believed if the
writer is known to write them correctly and the engine reads the column's values as they were hashed. A slice is skipped
if each of its row groups has a filter, and none of these contains a value that is looked up.
"""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash

from pruner.errors import StorageError
from pruner.expr.bound.predicates import CompareLeaf, InLeaf
from pruner.indexes.columns.reading import RecordedType, is_read, why_unknown
from pruner.indexes.columns.sought import SoughtValues
from pruner.indexes.columns.trust import filters_are_believed
from pruner.pipeline.footers import FileReader
from pruner.storage.opening import read_ranges
from pruner.tables.footers.filters import (
    BLOCK_BYTES,
    HEADER_BYTES,
    WORDS,
    FilterPlace,
    filter_place,
    masks_of,
)
from pruner.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf, StorageValue
    from pruner.expr.semantics import Semantics
    from pruner.parquet_type import ParquetType
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot

    Mask = NDArray[np.bool_]
    Ordinals = NDArray[np.intp]

NAME: Final = "parquet.bloom_filter"
"""Their name in reports."""

USING: Final = "bloom_filter"

MOST_FILES: Final = 256
"""Most files probed for one predicate; if more are left, none is probed."""

LEAST_BYTES: Final = 1 << 20
"""Files below this size are not probed: reading them costs little more."""

MOST_VALUES: Final = 64
"""Most values of one leaf that are looked up."""

SAMPLE: Final = 2
"""Files probed first: if none of them has usable filters, the others are not probed."""

FUTILE: Final = 512
"""Consecutive probes that skipped no file, after which a column is no longer probed."""

_THREADS = 16
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()

_HASHED: Final = {
    ("INT32", ""): "<i",
    ("INT32", "Integer(32,signed)"): "<i",
    ("INT64", ""): "<q",
    ("INT64", "Integer(64,signed)"): "<q",
    ("BYTE_ARRAY", "String"): "",
    ("BYTE_ARRAY", ""): "",
}
"""Parquet types whose filters are probed, and how their values are hashed: as numbers, or as raw bytes.

Others have several encodings of one value (floating point, decimals), several interpretations (dates, timestamps,
fixed-length text), or a known writer bug (8 and 16 bits).
"""


class FileFilter(NamedTuple):
    """The filters of one column of a file, one per row group, and the type of the hashed values."""

    uri: str
    parquet: ParquetType
    places: tuple[FilterPlace, ...]


@dataclass
class _Column:
    """What is known of the filters of one column, by snapshot ordinal; None for a file without usable filters."""

    files: dict[int, FileFilter | None]
    futile: int = 0
    silent: bool = False


class FileFilters:
    """The filters in the files of one snapshot. Threads may share it."""

    def __init__(self, snapshot: Snapshot, storage_options: Mapping[str, str]) -> None:
        self._snapshot = snapshot
        self._options = storage_options
        self._columns: dict[Field, _Column] = {}
        self._lock = Lock()

    @staticmethod
    def ask_about(slices: int) -> bool:
        """Tell whether files are probed when this many slices are left."""
        return 0 < slices <= MOST_FILES

    def possible(self, leaf: Leaf, semantics: Semantics, at: Ordinals) -> Mask | None:
        """Tell for each slice in `at` whether a row of it can make `leaf` true; None if no file is probed."""
        field = leaf.field
        column = self._columns.get(field)
        if not self.ask_about(len(at)) or (column is not None and column.silent):
            return None
        asked = at[self._worth_asking[at]]
        if not len(asked):
            return None
        values = self._sought(leaf, semantics)
        if values is None:
            return None
        with self._lock:
            column = self._columns.setdefault(field, _Column({}))
            self._look_into(asked, field, column)
        known = [(ordinal, file) for ordinal in asked.tolist() if (file := column.files[ordinal]) is not None]
        wanted = {
            parquet: _Wanted(values, parquet)
            for parquet in {file.parquet for _, file in known}
            if _is_read(parquet, field, semantics)
        }
        usable = [(ordinal, file) for ordinal, file in known if file.parquet in wanted]
        if not usable:
            return None
        absent = np.array(self._each(partial(self._is_absent, wanted), [file for _, file in usable]))
        keep = np.ones(len(at), np.bool_)
        keep[np.searchsorted(at, np.array([ordinal for ordinal, _ in usable])[absent])] = False
        with self._lock:
            column.futile = 0 if absent.any() else column.futile + len(usable)
            column.silent |= column.futile >= FUTILE
        return keep

    def _sought(self, leaf: Leaf, semantics: Semantics) -> list[StorageValue] | None:
        """The values that a leaf looks for, if filters can be probed for them; else None."""
        field = leaf.field
        plain = not field.partition and field.in_file and field.dispute is None and field.expression is None
        if not plain or not isinstance(leaf, CompareLeaf | InLeaf):
            return None
        if not (pa.types.is_int32(field.type) or pa.types.is_int64(field.type) or _is_bytes(field.type)):
            return None
        values = SoughtValues(field.type).values(leaf, Outcome.TRUE, semantics, MOST_VALUES)
        if values is None or any(isinstance(value, bytes) and _REPLACEMENT in value for value in values):
            return None  # U+FFFD may also be read from bytes that are not valid UTF-8
        return values

    @cached_property
    def _worth_asking(self) -> Mask:
        """The slices that are a single coverable file, and not a small one."""
        snapshot = self._snapshot
        return snapshot.has_base & snapshot.coverable & ~snapshot.has_logs & (snapshot.sizes >= LEAST_BYTES)

    def _look_into(self, asked: Ordinals, field: Field, column: _Column) -> None:
        """Find the filters of files that were not probed before."""
        new = [ordinal for ordinal in asked.tolist() if ordinal not in column.files]
        if not column.files:
            sample, new = new[:SAMPLE], new[SAMPLE:]
            column.files.update(zip(sample, self._each(partial(self._filter_of, field), sample), strict=True))
            if sample and all(column.files[ordinal] is None for ordinal in sample):
                column.silent = True
                column.files.update(dict.fromkeys(new))
                return
        column.files.update(zip(new, self._each(partial(self._filter_of, field), new), strict=True))

    def _each(self, ask: Any, files: Sequence[Any]) -> list[Any]:
        """Process files: local ones one after another, several at once in an object store."""
        local = self._snapshot.value("base_file", 0) or "/"
        if len(files) < 2 or local.startswith(("/", "file:")):
            return list(map(ask, files))
        with ThreadPoolExecutor(min(_THREADS, len(files))) as pool:
            return list(pool.map(ask, files))

    def _filter_of(self, field: Field, ordinal: int) -> FileFilter | None:
        """The filters of a column of one file; None if one is missing or not believed, or the file is unreadable."""
        uri, size = self._file(ordinal)
        try:
            field = field.in_files()
            mapped = {} if field.mapped is None else {field.path: field.mapped}
            with FileReader(uri, size, self._options, mapped) as reader:
                footer = reader.footer
                leaf = footer.leaf(field.path)
                if leaf is None or why_unknown(footer, leaf, field) is not None or leaf.type != field.type:
                    return None
                if leaf.parquet is None or _format(leaf.parquet) is None or leaf.repeated:
                    return None
                offsets = footer.filter_offsets(leaf)
                if not filters_are_believed(footer.created_by) or None in offsets or not offsets:
                    return None
            headers = read_ranges(uri, [(offset or 0, HEADER_BYTES) for offset in offsets], self._options)
        except (StorageError, OSError, ValueError, pa.ArrowException):
            return None
        places = [
            filter_place(offset or 0, header, size) for offset, header in zip(offsets, headers, strict=True)
        ]
        filters = tuple(place for place in places if place is not None)
        return FileFilter(uri, leaf.parquet, filters) if len(filters) == len(places) else None

    def _is_absent(self, wanted: Mapping[ParquetType, _Wanted], file: FileFilter) -> bool:
        """Tell whether a file holds none of the values that are looked up."""
        sought = wanted[file.parquet]
        ranges = [
            (place.start + BLOCK_BYTES * ((upper * place.blocks) >> 32), BLOCK_BYTES)
            for place in file.places
            for upper in sought.uppers
        ]
        try:
            data = b"".join(read_ranges(file.uri, ranges, self._options))
        except (StorageError, OSError):
            return False
        if len(data) != BLOCK_BYTES * len(ranges):
            return False
        blocks = np.frombuffer(data, "<u4").reshape(len(file.places), len(sought.uppers), WORDS)
        return not (blocks & sought.masks == sought.masks).all(axis=2).any()

    def _file(self, ordinal: int) -> tuple[str, int]:
        snapshot = self._snapshot
        return snapshot.value("base_file", ordinal), snapshot.value("base_size", ordinal)


class _Wanted:
    """Values hashed as in files of one type: the upper half of each hash, and the bits that the lower half sets."""

    def __init__(self, values: Sequence[StorageValue], parquet: ParquetType) -> None:
        form = _format(parquet) or ""
        plain = _packed(values, form) if form else [value for value in values if isinstance(value, bytes)]
        hashes = [xxhash.xxh64_intdigest(value) for value in plain]
        self.uppers = [digest >> 32 for digest in hashes]
        self.masks = masks_of(np.array(hashes, np.uint64))


def _is_bytes(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_binary(type_)


def _is_read(parquet: ParquetType, field: Field, semantics: Semantics) -> bool:
    """Tell whether an engine reads the hashed values as values of the field."""
    return is_read(RecordedType(str(field.type), parquet, in_range=True), field, semantics.traits)


def _format(parquet: ParquetType) -> str | None:
    return _HASHED.get((parquet.physical, parquet.meaning))


def _packed(values: Sequence[StorageValue], form: str) -> list[bytes]:
    """Numbers as a file encodes them; those outside the range of its type are in no file."""
    bound = 1 << (8 * struct.calcsize(form) - 1)
    return [
        struct.pack(form, int(value))
        for value in values
        if not isinstance(value, bytes) and -bound <= value < bound
    ]
