r"""Inspecting an index that knows values: its entries, by keys like Hudi's.

The keys follow Hudi's record keys. Nothing is stored under them: `pruner inspect` shows them.

Bitmaps have `column$value$partition$file_group` (RFC-92, Bitmap Metadata Structure).

`$` and `\` within a part are written `\$` and `\\`, so that a key always splits into its original parts (trap N5).
NULL is written `\N`, which no value is; the partition of an unpartitioned table is `.`, and one that is really named so
is `\.`.

Bloom filters have the Base64 of a hash of the partition, followed by that of a hash of the file's name (RFC-37).
Hudi's `HashID` defines the hashes: XXH64 with the seed below, big-endian, and MD5.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from pruner.errors import IndexDefinitionError
from pruner.evidence.snapshot import SnapshotEvidence
from pruner.expr.identifier import render_column_path
from pruner.indexes.optional import CountingEvidence, ListedEvidence
from pruner.indexes.row_sets import rows_of
from pruner.maintenance.columns import recorded_field

if TYPE_CHECKING:
    from pruner.metadata.definitions import IndexDefinition
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.metadata.state import State
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot

SEPARATOR = "$"
_NULL = "\\N"
_UNPARTITIONED = "."
_SEED = 0xFFFFFFFFDABADABA
"""Java's int 0xdabadaba, sign-extended to 64 bits."""


def stem(column: str, value: str | None) -> str:
    """The part of a key with column and value, including the separator after it; None is NULL."""
    shown = _NULL if value is None else _escaped(value)
    return f"{_escaped(column)}{SEPARATOR}{shown}{SEPARATOR}"


def place(partition: str, file_group: str) -> str:
    """The part of a key after its stem; "" is the partition of an unpartitioned table."""
    if partition == _UNPARTITIONED:
        shown = "\\" + _UNPARTITIONED
    else:
        shown = _escaped(partition) if partition else _UNPARTITIONED
    return f"{shown}{SEPARATOR}{_escaped(file_group)}"


def file_key(partition: str, file_name: str) -> str:
    """The key of a file's Bloom filter; "" is the partition of an unpartitioned table."""
    of_partition = xxhash.xxh64_digest((partition or _UNPARTITIONED).encode(), _SEED)
    of_file = hashlib.md5(file_name.encode(), usedforsecurity=False).digest()
    return (base64.b64encode(of_partition) + base64.b64encode(of_file)).decode()


def split(key: str) -> tuple[str, str | None, str, str]:
    """Split a key into column, value (None for NULL), partition and file group.

    Raises:
        ValueError: it does not have four parts.
    """
    parts = [""]
    characters = iter(key)
    for character in characters:
        if character == SEPARATOR:
            parts.append("")
        else:
            parts[-1] += character + (next(characters, "") if character == "\\" else "")
    if len(parts) != 4:
        raise ValueError(f"{key!r} is no key of a bitmap: it has {len(parts)} parts and not four")
    column, value, partition, file_group = parts
    return (
        _plain(column),
        None if value == _NULL else _plain(value),
        "" if partition == _UNPARTITIONED else _plain(partition),
        _plain(file_group),
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(SEPARATOR, "\\" + SEPARATOR)


def _plain(text: str) -> str:
    plain = ""
    characters = iter(text)
    for character in characters:
        plain += next(characters, "") if character == "\\" else character
    return plain


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One value in one slice: the key by RFC-92, the number of rows, and the first positions of those rows (0-based).

    For an index over hashes it is one slice: the key by RFC-37, its partition and file, and the number of what
    `counts` names: `distinct values` of a Bloom filter, `keys` of a record index, `rows` of any other. `positions` is
    None if they cannot be read or have no meaning (a slice with log files, a filter).
    """

    key: str
    cardinality: int
    positions: tuple[int, ...] | None
    counts: str = "rows"
    file: str | None = None


def entries(
    definition: IndexDefinition,
    state: State,
    snapshot: Snapshot,
    segments: SegmentCache,
    prefix: str = "",
    positions: int = 10,
) -> Iterator[IndexEntry]:
    """The entries of one index whose keys start with a prefix: by column, value and slice.

    Args:
        definition: the index.
        state: the state of the metadata table with its records.
        snapshot: entries of slices that it does not have are omitted.
        segments: from which records are read.
        prefix: prefix of the keys, in their written form.
        positions: most positions of an entry.

    Raises:
        IndexDefinitionError: the index is of a type that stores no values.
    """
    evidence = SnapshotEvidence(snapshot, state, segments)
    for binding in definition.fields:
        field = recorded_field(definition, binding.recorded, snapshot.schema)
        for source in evidence.sources(field).usable:
            if source.index != definition.name:
                continue
            listed, counted = source.can.listed(), source.can.counted
            if listed is not None:
                yield from _of_field(listed, field, snapshot, prefix, positions)
            elif counted is not None:
                yield from _of_slices(counted, snapshot, prefix)
            else:
                raise IndexDefinitionError(
                    f"index {definition.name!r} is of type {definition.using}, which stores no values to inspect"
                )


def _of_slices(evidence: CountingEvidence, snapshot: Snapshot, prefix: str) -> Iterator[IndexEntry]:
    """One entry for each slice, with the keys of RFC-37."""
    for ordinal in np.flatnonzero(evidence.covered).tolist():
        path: Any = snapshot.partitions.paths[snapshot.value("partition", ordinal)]
        base_file: str | None = snapshot.value("base_file", ordinal)
        name = snapshot.value("file_id", ordinal) if base_file is None else base_file
        file = name.rpartition("/")[2]
        key = file_key(path.as_py(), file)
        if key.startswith(prefix):
            place = "/".join(part for part in (path.as_py(), file) if part)
            yield IndexEntry(key, int(evidence.distinct[ordinal]), None, evidence.counts, place)


def _of_field(
    evidence: ListedEvidence, field: Field, snapshot: Snapshot, prefix: str, positions: int
) -> Iterator[IndexEntry]:
    column = render_column_path(field.path) if field.expression is None else field.name
    if not _may_start(stem(column, "")[: -len(SEPARATOR)], prefix):
        return
    for entry, text in enumerate(evidence.texts()):
        start = stem(column, text)
        if not _may_start(start, prefix):
            continue
        slices, sizes = evidence.holders(entry)
        for ordinal, size in zip(slices.tolist(), sizes.tolist(), strict=True):
            key = start + _place(snapshot, ordinal)
            if key.startswith(prefix):
                yield IndexEntry(key, size, _positions(evidence, entry, ordinal, snapshot, positions))


def _may_start(start: str, prefix: str) -> bool:
    """Tell whether some key with this start can begin with the prefix."""
    return start.startswith(prefix) or prefix.startswith(start)


def _place(snapshot: Snapshot, ordinal: int) -> str:
    path: Any = snapshot.partitions.paths[snapshot.value("partition", ordinal)]
    return place(path.as_py(), snapshot.value("file_id", ordinal))


def _positions(
    evidence: ListedEvidence, entry: int, ordinal: int, snapshot: Snapshot, most: int
) -> tuple[int, ...] | None:
    if snapshot.has_changes[ordinal]:
        return None
    chosen = np.zeros(evidence.entry_count, np.bool_)
    chosen[entry] = True
    rows = evidence.rows(chosen, np.array([ordinal]))
    return None if len(rows.broken) else tuple(rows_of(rows.rows, ordinal)[:most].tolist())
