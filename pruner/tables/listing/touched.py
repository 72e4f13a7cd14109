"""Recognizes files of which only the change time moved: after `chmod`, `chown`, or a new hard link to them.

The change time is part of a file's version, because the modification time can be set by anyone (trap T16). So
harmless changes make a new version of a file with unchanged content. Such a file is taken for its earlier version if
its path, size, modification time and inode are unchanged, and the fingerprint of its content equals the one taken of
the earlier version. docs/guarantee.md says what that assumes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash

from pruner.arrow import (
    arrow,
    as_numpy,
    compute,
    empty_table,
    filled,
    index_of_few,
    number_array,
    positions,
    rows_in_runs,
)
from pruner.parquet_type import MAGIC
from pruner.tables.snapshot import SLICE_KEY_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.tables.snapshot import Snapshot

WHOLE_BYTES = 64 * 1024
"""The fingerprint covers all bytes of a file up to this size, and this many bytes at the end of a larger one."""

MOST_PIECES = 64
"""Chunks up to which additions stay in chunks of their own: combining all takes longer than adding one."""

SAMPLES = 4
SAMPLE_BYTES = 4096

_TRAILER = 8

PRINTS = pa.schema(
    [
        pa.field("slice_key", pa.binary(SLICE_KEY_BYTES), nullable=False),
        pa.field("still_key", pa.binary(SLICE_KEY_BYTES), nullable=False),  # what a touch leaves unchanged
        pa.field("version", pa.string(), nullable=False),
        pa.field("fingerprint", pa.binary(16), nullable=False),
    ]
)
"""What is remembered of each file."""


class ListedFile(NamedTuple):
    """One listed file: its slice key, what a touch leaves unchanged, and how to take its fingerprint."""

    key: bytes
    version: str
    still: bytes
    fingerprint: Callable[[], bytes | None]


class _Joined(NamedTuple):
    """The remembered row of each file of the snapshot with this id, -1 where there is none."""

    of: str
    rows: NDArray[np.int64]


class TouchedFiles:
    """What one source remembers of the files that it has seen.

    Attributes:
        believed: slice key of a file as listed now, to the version that it is taken for.
    """

    def __init__(self) -> None:
        self._prints: pa.Table = empty_table(PRINTS)
        self.believed: Mapping[bytes, str] = {}
        self._joined: _Joined | None = None

    def take_up(self, prints: pa.Table) -> None:
        """Resume from the files that another process remembered."""
        self._prints = prints
        self._joined = None

    def recognize(self, files: Iterable[ListedFile]) -> None:
        """Recognize files whose keys are unknown, and which are not too young (R4), as their earlier versions.

        The files are not consumed where nothing is remembered, as on the first listing of a table without indexes.
        """
        files = list(files) if self._prints.num_rows else []
        if not files:
            return
        rows = self._rows("still_key", [file.still for file in files])
        believed = dict(self.believed)
        for file, row in zip(files, rows, strict=True):
            # The fingerprint is read only for files of which all else matches.
            if row is not None and file.fingerprint() == self._value("fingerprint", row):
                believed[file.key] = self._value("version", row)
        self.believed = believed

    def forget_all_but(self, keys: set[bytes]) -> None:
        """Forget the beliefs about files that are no longer listed."""
        if not self.believed.keys() <= keys:
            self.believed = {key: version for key, version in self.believed.items() if key in keys}

    def lacking(self, snapshot: Snapshot) -> NDArray[np.bool_]:
        """Tell which settled (R4) files of a snapshot have no fingerprint yet."""
        return snapshot.coverable & (self._rows_of(snapshot) < 0)

    def _rows_of(self, snapshot: Snapshot) -> NDArray[np.int64]:
        """The remembered row of each file of a snapshot, -1 where there is none."""
        known, descent = self._joined, snapshot.descent
        if known is not None and known.of == snapshot.id:
            return known.rows
        if known is not None and descent is not None and descent.of == known.of:
            # A file that stays keeps its key and its row. A new one may be an earlier file that came back.
            origin = descent.origin
            rows = known.rows[origin]
            new = np.flatnonzero(origin < 0)
            wanted: Any = snapshot.keys.take(positions(new))
            rows[new] = as_numpy(filled(index_of_few(wanted, self._column("slice_key")), -1))
        else:
            found = compute.index_in(snapshot.keys, value_set=self._column("slice_key"))
            rows = as_numpy(filled(found, -1)).astype(np.int64)
        self._joined = _Joined(snapshot.id, rows)
        return rows

    def remember(self, snapshot: Snapshot, lacking: Iterable[ListedFile]) -> pa.Table:
        """Take the fingerprints of files that lack one; return what is remembered of a snapshot's files."""
        rows = self._rows_of(snapshot)
        kept = snapshot.coverable & (rows >= 0)
        before = self._prints
        if np.count_nonzero(kept) < before.num_rows:
            # In the order of the files, so that there are few runs next time.
            before = rows_in_runs(before, rows[kept]).combine_chunks()
            rows = np.full(len(snapshot), -1, np.int64)
            rows[kept] = np.arange(before.num_rows)
        new: dict[str, list[Any]] = {name: [] for name in PRINTS.names}
        for file in lacking:
            print_ = file.fingerprint()
            if print_ is not None:
                for name, value in zip(
                    PRINTS.names, (file.key, file.still, file.version, print_), strict=True
                ):
                    new[name].append(value)
        added = pa.table(new, schema=PRINTS)
        if added.num_rows:
            places = index_of_few(added.column("slice_key").combine_chunks(), snapshot.keys)
            found = as_numpy(filled(places, -1)).astype(np.int64)
            rows = rows.copy()
            rows[found[found >= 0]] = before.num_rows + np.flatnonzero(found >= 0)
        prints = arrow.concat_tables([before, added])
        many = prints.column("slice_key").num_chunks > MOST_PIECES
        self._prints = prints.combine_chunks() if many else prints
        self._joined = _Joined(snapshot.id, rows)
        return self._prints

    def remembered(self, snapshot: Snapshot, chosen: NDArray[np.intp]) -> pa.Table:
        """What is remembered of some files of a snapshot, in their order, as `PRINTS`; NULL where nothing is."""
        rows = self._rows_of(snapshot)[chosen]
        if not (rows < 0).any():
            return rows_in_runs(self._prints, rows)
        return self._prints.take(number_array(rows, pa.int64(), rows < 0))

    def _rows(self, column: str, keys: list[bytes]) -> list[int | None]:
        wanted = pa.array(keys, pa.binary(SLICE_KEY_BYTES))
        return index_of_few(wanted, self._column(column)).to_pylist()

    def _column(self, name: str) -> pa.Array[Any]:
        return self._prints.column(name).combine_chunks()

    def _value(self, column: str, row: int) -> Any:
        return self._prints.column(column)[row].as_py()


def fingerprint(path: str, size: int, stamp: tuple[int, int, int]) -> bytes | None:
    """Return a fingerprint of the content of a Parquet file: of its footer, and of samples of its data.

    Args:
        path: of a local file.
        size: in bytes, as listed.
        stamp: modification time, change time and inode, likewise.

    Returns:
        16 bytes; None where the file is not, or does not stay, the one that was listed, or is not a Parquet file.
    """
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        if not _is_listed(file, size, stamp):
            return None
        digest = _digest(file, size)
        # Every write moves the change time: if it has not moved, what was read is of this version.
        return digest if _is_listed(file, size, stamp) else None
    except OSError:
        return None
    finally:
        os.close(file)


def _is_listed(file: int, size: int, stamp: tuple[int, int, int]) -> bool:
    status = os.fstat(file)
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino) == (size, *stamp)


def _digest(file: int, size: int) -> bytes | None:
    end = os.pread(file, WHOLE_BYTES, max(0, size - WHOLE_BYTES))
    if len(end) != min(size, WHOLE_BYTES) or end[-len(MAGIC) :] != MAGIC:
        return None
    pieces = [end]
    before = size - len(end)
    footer_start = max(0, size - _TRAILER - int.from_bytes(end[-_TRAILER : -len(MAGIC)], "little"))
    if footer_start < before:
        pieces.append(os.pread(file, before - footer_start, footer_start))
        before = footer_start
    pieces += [
        os.pread(file, SAMPLE_BYTES, before * number // SAMPLES) for number in range(SAMPLES) if before
    ]
    return xxhash.xxh3_128_digest(b"".join(pieces))
