"""A snapshot of Parquet files made from the one before, where few files came or went.

What a snapshot is made of for each file costs several microseconds; copying what was made before costs nanoseconds.
The result is the very snapshot that a look at all files would make, or none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow
from pruner.tables.file_schemas import BrokenFileError
from pruner.tables.parquet_building import key_array, slice_rows, snapshot_id
from pruner.tables.snapshot import SLICE_KEY_BYTES, Descent, FileSchemas

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.tables.listing import Lister
    from pruner.tables.parquet_building import DataFile
    from pruner.tables.snapshot import Snapshot

FEW: Final = 4096
"""Files that may have come and gone; where there are more, the snapshot is made anew."""

MOST_PIECES: Final = 1024
"""Pieces up to which columns are left in pieces, of which a look copies none: nothing but the new rows is written."""


class _Run(NamedTuple):
    """Rows that lie one after another among the old ones (`new` is False) or the new ones, `stop` excluded."""

    new: bool
    start: int
    stop: int


class _Change(NamedTuple):
    """One row that comes to a place among the old ones, or goes from it.

    Changes are sorted as tuples: what comes to a place stands before what goes from it.
    """

    at: int
    goes: bool
    new: int
    """The row that comes, as an ordinal among the new ones."""


def _runs(changes: Sequence[_Change], count: int) -> Iterator[_Run]:
    """Yield the runs that make the new order of rows, of which `count` were there before."""
    start = 0
    for change in changes:
        yield _Run(False, start, change.at)
        start = change.at + change.goes
        if not change.goes:
            yield _Run(True, change.new, change.new + 1)
    yield _Run(False, start, count)


def patched(
    snapshot: Snapshot,
    lister: Lister,
    gone: Sequence[DataFile],
    come: Sequence[tuple[DataFile, pa.Schema | BrokenFileError]],
) -> Snapshot | None:
    """Return the snapshot without some files and with others.

    Args:
        snapshot: of a single root, all of whose files are settled and none of which is broken.
        lister: that of the root.
        gone: files of the snapshot.
        come: files that are none of it, in order, with their schemas.

    Returns:
        None where more than rows would differ: other folders, schemas or columns, or the order of them.
    """
    schemas = snapshot.file_schemas
    if schemas is None or snapshot.problems or snapshot.unsettled_because:
        return None
    added = _added(snapshot, schemas, lister, come)
    changes = _changes(snapshot, lister, gone, [file for file, _ in come])
    if added is None or changes is None:
        return None
    rows, ordinals = added
    runs = list(_runs(changes, len(snapshot)))
    of_schemas = _spliced(schemas.ordinals, ordinals, runs)
    partition = _spliced(snapshot.partition_ordinals, rows.column("partition").to_numpy(), runs)
    if not _first_seen_in_order(of_schemas, len(schemas.distinct)) or not _first_seen_in_order(
        partition, len(snapshot.partitions)
    ):
        return None
    columns = _spliced_columns(snapshot.columns, rows, runs, partition)
    keys = _spliced_keys(snapshot, b"".join(file.key for file, _ in come), runs)
    return replace(
        snapshot,
        id=snapshot_id([lister.root], keys, bytes(len(columns))),
        columns=columns,
        keys=key_array(keys),
        file_schemas=FileSchemas(schemas.distinct, of_schemas),
        descent=Descent(snapshot.id, _origin(len(snapshot), len(come), runs)),
    )


def _added(
    snapshot: Snapshot,
    schemas: FileSchemas,
    lister: Lister,
    come: Sequence[tuple[DataFile, pa.Schema | BrokenFileError]],
) -> tuple[pa.Table, NDArray[np.int32]] | None:
    """The rows of the new files, and the ordinals of their schemas; None for files unlike those that were there."""
    folders = {path: ordinal for ordinal, path in enumerate(snapshot.partitions.paths.to_pylist())}
    known = {id(schema): ordinal for ordinal, schema in enumerate(schemas.distinct)}
    split = [file.path.rpartition("/") for file, _ in come]
    partition = [folders.get(folder, -1) for folder, _, _ in split]
    ordinals = [known.get(id(schema), -1) for _, schema in come]
    if -1 in partition or -1 in ordinals or len(folders) != len(snapshot.partitions):
        return None
    files = [file for file, _ in come]
    uris = [lister.uri(file.path) for file in files]
    rows = slice_rows(files, uris, [name for _, _, name in split], partition, [False] * len(files))
    return rows, np.array(ordinals, np.int32)


def _changes(
    snapshot: Snapshot, lister: Lister, gone: Sequence[DataFile], come: Sequence[DataFile]
) -> list[_Change] | None:
    """Find the places of the files among the rows, which lie in the order of paths; None where one is not there."""
    files = _Files(snapshot.columns.column("base_file"))
    keys = snapshot.keys
    changes: list[_Change] = []
    for file in gone:
        at = bisect_left(files, lister.uri(file.path))
        if at == len(files) or keys[at].as_py() != file.key:
            return None
        changes.append(_Change(at, goes=True, new=-1))
    for number, file in enumerate(come):
        changes.append(_Change(bisect_left(files, lister.uri(file.path)), goes=False, new=number))
    return sorted(changes)


def _spliced(old: NDArray[Any], new: NDArray[Any], runs: Sequence[_Run]) -> NDArray[Any]:
    return np.concatenate([(new if run.new else old)[run.start : run.stop] for run in runs])


def _origin(count: int, new: int, runs: Sequence[_Run]) -> NDArray[np.int32]:
    """What each row was among the old ones, -1 where it is new."""
    return _spliced(np.arange(count, dtype=np.int32), np.full(new, -1, np.int32), runs)


def _spliced_columns(
    old: pa.Table, new: pa.Table, runs: Sequence[_Run], partition: NDArray[np.int32]
) -> pa.Table:
    pieces = [(new if run.new else old).slice(run.start, run.stop - run.start) for run in runs]
    columns = arrow.concat_tables([piece for piece in pieces if piece.num_rows])
    # Every plan needs the partitions in one piece; they are at hand so.
    at = columns.column_names.index("partition")
    columns = columns.set_column(at, columns.schema.field(at), pa.array(partition, pa.int32()))
    return columns.combine_chunks() if columns.column("base_file").num_chunks > MOST_PIECES else columns


def _spliced_keys(snapshot: Snapshot, new: bytes, runs: Sequence[_Run]) -> bytes:
    data = snapshot.keys.buffers()[1]
    assert data is not None
    old = memoryview(data)[snapshot.keys.offset * SLICE_KEY_BYTES :]
    pieces: list[Any] = [
        (new if run.new else old)[run.start * SLICE_KEY_BYTES : run.stop * SLICE_KEY_BYTES] for run in runs
    ]
    return b"".join(pieces)


def _first_seen_in_order(ordinals: NDArray[np.int32], count: int) -> bool:
    """Tell whether all ordinals below `count` occur, each for the first time after those below it."""
    if not len(ordinals):
        return False
    if count == 1:
        return not ordinals.any()
    highest = np.maximum.accumulate(ordinals)
    steps = np.diff(highest)
    return bool(highest[0] == 0 and highest[-1] == count - 1 and (steps <= 1).all() and ordinals.min() >= 0)


class _Files(Sequence[str]):
    """Texts of an Arrow column, one at a time."""

    def __init__(self, texts: Any) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._texts[index].as_py() if isinstance(index, int) else _Files(self._texts[index])
