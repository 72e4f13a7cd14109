"""The slices of a Hudi table as columns: built from a listing, changed by commits, stored and read back.

A few commits change a listing of a million slices all the time, so a change costs only a few passes over Arrow
columns, and Python objects for the changed slices alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import xxhash

from pruner.arrow import (
    arrow,
    as_numpy,
    bytes_array,
    compute,
    filled,
    null_unless,
    number_array,
    positions,
    text_array,
    truth_array,
)
from pruner.tables.hudi.listing import HudiSlice, mark_unsettled
from pruner.tables.snapshot import SLICE_COLUMNS, SLICE_KEY_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.tables.hudi.timeline import Timeline

Group: TypeAlias = tuple[str, str]
"""A file group: partition path and file id."""

Changes: TypeAlias = "dict[Group, HudiSlice | None]"
"""The newest slice of each file group that changed; None where the group is gone."""

STORED_COLUMNS = pa.schema(
    [
        pa.field("slice_key", pa.binary(SLICE_KEY_BYTES), nullable=False),
        pa.field("partition_path", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("file_id", pa.string(), nullable=False),
        pa.field("base_file", pa.string()),  # its name; the folder is the partition's
        pa.field("base_size", pa.int64()),
        pa.field("base_instant", pa.string()),
        pa.field("log_files", pa.list_(pa.string())),  # names
        pa.field("log_sizes", pa.list_(pa.int64())),
        pa.field("unsettled", pa.bool_(), nullable=False),
    ]
)
"""How slices are stored: nothing in it says where the table is, so a table may be moved (trap T7)."""

_AT_ONCE = 8192
"""Slices that are turned into columns together."""


@dataclass(frozen=True)
class HudiColumns:
    """The slices of one moment, by partition path and file id; `columns` as `Snapshot.columns` has them.

    `paths` are the partition paths, sorted. `log_sizes` has the size of each log file, in the order of `log_files`.
    `unsettled` counts slices by the reason why no index may cover them.
    """

    root: str
    paths: tuple[str, ...]
    columns: pa.Table
    keys: pa.Array[Any]
    log_sizes: pa.Array[Any]
    unsettled: Mapping[str, int]

    @classmethod
    def of(cls, root: str, slices: Sequence[HudiSlice], paths: tuple[str, ...] | None = None) -> HudiColumns:
        """Make columns of sorted slices; `paths` defaults to the partition paths of these slices."""
        known = tuple(sorted({entry.partition for entry in slices})) if paths is None else paths
        ordinals = {path: position for position, path in enumerate(known)}
        folders = {entry.partition: _folder(root, entry.partition) for entry in slices}
        without_base = [not entry.base for entry in slices]
        without_logs = [not entry.logs for entry in slices]
        columns = {
            "partition": _numbers([ordinals[entry.partition] for entry in slices], np.int32),
            "file_id": text_array([entry.file_id for entry in slices]),
            "base_file": text_array(
                [folders[entry.partition] + entry.base if entry.base else "" for entry in slices],
                without_base,
            ),
            "base_size": _numbers([entry.base_size for entry in slices], np.int64, without_base),
            "base_version": text_array(
                [entry.instant if entry.base else "" for entry in slices], without_base
            ),
            "base_instant": text_array([entry.instant for entry in slices]),
            "log_files": _lists(
                text_array([folders[entry.partition] + name for entry in slices for name in entry.logs]),
                [len(entry.logs) for entry in slices],
                truth_array(without_logs),
            ),
            "log_size": _numbers([sum(entry.log_sizes) for entry in slices], np.int64, without_logs),
            "unsettled": truth_array([bool(entry.unsettled) for entry in slices]),
        }
        return cls(
            root,
            known,
            pa.table([columns[name] for name in SLICE_COLUMNS.names], schema=SLICE_COLUMNS),
            bytes_array([slice_key(entry) for entry in slices], SLICE_KEY_BYTES),
            _lists(
                _numbers([size for entry in slices for size in entry.log_sizes], np.int64),
                [len(entry.log_sizes) for entry in slices],
                truth_array([not entry.log_sizes for entry in slices]),
            ),
            dict(Counter(entry.unsettled for entry in slices if entry.unsettled)),
        )

    @classmethod
    def joined(cls, root: str, slices: Iterable[HudiSlice]) -> HudiColumns:
        """Make columns of sorted slices, a few thousand at a time: never all of them are Python objects at once."""
        left = iter(slices)
        parts: list[HudiColumns] = []
        paths: list[str] = []
        unsettled: Counter[str] = Counter()
        while some := list(islice(left, _AT_ONCE)):
            part = cls.of(root, some)
            # The last folder of the previous part may continue.
            first = len(paths) - (paths[-1:] == list(part.paths[:1]))
            paths += part.paths[len(paths) - first :]
            unsettled.update(part.unsettled)
            parts.append(replace(part, columns=_with_partitions(part.columns, part._partitions + first)))
        if not parts:
            return cls.of(root, [])
        joined: Any = pa.concat_tables([part.columns for part in parts])
        keys, log_sizes = [part.keys for part in parts], [part.log_sizes for part in parts]
        parts.clear()
        return cls(
            root,
            tuple(paths),
            _combined(joined),
            pa.concat_arrays(keys),
            pa.concat_arrays(log_sizes),
            dict(unsettled),
        )

    @property
    def any_logs(self) -> bool:
        """True if some slice has log files."""
        return self.log_sizes.null_count < len(self)

    def __len__(self) -> int:
        return self.columns.num_rows

    @cached_property
    def _partitions(self) -> NDArray[np.int32]:
        return as_numpy(self.columns.column("partition"))

    def find(self, group: Group) -> tuple[int, bool]:
        """Return the ordinal of a group's slice, or the one where it would be inserted, and whether it is there."""
        partition, file_id = group
        at = bisect_left(self.paths, partition)
        if at == len(self.paths) or self.paths[at] != partition:
            return int(np.searchsorted(self._partitions, at, side="left")), False
        low, high = (int(np.searchsorted(self._partitions, at, side=side)) for side in ("left", "right"))
        ids = self.columns.column("file_id")
        position = bisect_left(range(high), file_id, low, high, key=lambda ordinal: ids[ordinal].as_py())
        return position, position < high and ids[position].as_py() == file_id

    def expect(self, groups: Sequence[Group]) -> None:
        """Do nothing: all slices are in memory."""

    def slice_of(self, group: Group) -> HudiSlice | None:
        """Return the newest slice of a group by the names of its files; None when there is no such group."""
        ordinal, is_there = self.find(group)
        if not is_there:
            return None
        row = {name: self.columns.column(name)[ordinal].as_py() for name in SLICE_COLUMNS.names}
        return HudiSlice(
            partition=group[0],
            file_id=group[1],
            instant=row["base_instant"],
            base=_name(row["base_file"]) if row["base_file"] else "",
            base_size=row["base_size"] or 0,
            logs=tuple(_name(uri) for uri in row["log_files"] or ()),
            log_sizes=tuple(self.log_sizes[ordinal].as_py() or ()),
        )

    def changed(self, changes: Changes, before: Timeline) -> HudiColumns:
        """Return the columns with some slices replaced, new or gone.

        Args:
            changes: the newest slice of each group that changed, marked as settled or not.
            before: the timeline by which these columns were made.
        """
        kept = np.ones(len(self), np.bool_)
        unsettled = Counter(self.unsettled)
        added: list[tuple[int, HudiSlice]] = []
        for group, entry in sorted(changes.items()):
            ordinal, is_there = self.find(group)
            if is_there:
                kept[ordinal] = False
                unsettled.subtract(_reasons(self.slice_of(group), before))
            if entry is not None:
                added.append((ordinal, entry))
                unsettled.update([entry.unsettled] if entry.unsettled else [])
        rows = HudiColumns.of(self.root, [entry for _, entry in added])
        paths, old_ordinals, new_ordinals = self._joined_paths(rows, kept)
        order = _order(kept, [ordinal for ordinal, _ in added])
        partition = np.concatenate([old_ordinals[self._partitions], new_ordinals[rows._partitions]])
        columns: Any = pa.concat_tables([self.columns, rows.columns]).combine_chunks().take(order)
        columns = _with_partitions(columns, partition[as_numpy(order)])
        return HudiColumns(
            self.root,
            paths,
            columns,
            pa.concat_arrays([self.keys, rows.keys]).take(order),
            pa.concat_arrays([self.log_sizes, rows.log_sizes]).take(order),
            {reason: count for reason, count in unsettled.items() if count},
        )

    def _joined_paths(
        self, rows: HudiColumns, kept: NDArray[np.bool_]
    ) -> tuple[tuple[str, ...], NDArray[np.int32], NDArray[np.int32]]:
        """The partition paths that are left, and the ordinals among them of the paths of both."""
        used = np.bincount(self._partitions[kept], minlength=len(self.paths)) > 0
        if used.all() and set(rows.paths) <= set(self.paths):
            paths = self.paths
        else:
            left = {path for path, is_used in zip(self.paths, used.tolist(), strict=True) if is_used}
            paths = tuple(sorted(left | set(rows.paths)))
        ordinals = {path: position for position, path in enumerate(paths)}
        old, new = (
            np.array([ordinals.get(path, -1) for path in paths], np.int32)
            for paths in (self.paths, rows.paths)
        )
        return paths, old, new

    def with_partitions(self, paths: tuple[str, ...], ordinals: NDArray[np.int32]) -> HudiColumns:
        """Return the same slices with their partitions as ordinals among other paths."""
        return replace(self, paths=paths, columns=_with_partitions(self.columns, ordinals))

    def stored(self) -> pa.Table:
        """Return the slices as `STORED_COLUMNS`."""
        partition = arrow.DictionaryArray.from_arrays(
            _column(self.columns, "partition"), text_array(self.paths)
        )
        uris = _column(self.columns, "log_files")
        columns: dict[str, Any] = {
            "slice_key": self.keys,
            "partition_path": partition,
            "file_id": self.columns.column("file_id"),
            "base_file": _names(_column(self.columns, "base_file")),
            "base_size": self.columns.column("base_size"),
            "base_instant": self.columns.column("base_instant"),
            "log_files": _each(uris, _names(uris.flatten())),
            "log_sizes": self.log_sizes,
            "unsettled": self.columns.column("unsettled"),
        }
        return pa.table(columns, schema=STORED_COLUMNS)

    @classmethod
    def from_stored(cls, root: str, table: pa.Table, unsettled: Mapping[str, int]) -> HudiColumns:
        """Make columns of what `stored` returned; `root` is the table's current location."""
        table = table.combine_chunks()
        partition: Any = _column(table, "partition_path")
        paths = tuple(cast("list[str]", partition.dictionary.to_pylist()))
        ordinals = partition.indices.cast(pa.int32())
        folders = text_array([_folder(root, path) for path in paths])
        below: Any = folders.take(ordinals)
        base = _column(table, "base_file")
        logs, sizes = _column(table, "log_files"), _column(table, "log_sizes")
        log_folders = below.take(compute.list_parent_indices(logs))
        uris = compute.binary_join_element_wise(log_folders, logs.flatten(), "")
        columns: dict[str, Any] = {
            "partition": ordinals,
            "file_id": table.column("file_id"),
            "base_file": compute.binary_join_element_wise(below, base, ""),
            "base_size": table.column("base_size"),
            "base_version": null_unless(base.is_valid(), table.column("base_instant")),
            "base_instant": table.column("base_instant"),
            "log_files": _each(logs, uris),
            "log_size": sums(sizes),
            "unsettled": table.column("unsettled"),
        }
        return cls(
            root,
            paths,
            pa.table(columns, schema=SLICE_COLUMNS).combine_chunks(),
            _column(table, "slice_key"),
            sizes,
            dict(unsettled),
        )


def _with_partitions(columns: Any, ordinals: NDArray[np.int32]) -> Any:
    schema: Any = SLICE_COLUMNS
    at = schema.get_field_index("partition")
    return columns.set_column(at, schema.field(at), number_array(ordinals, pa.int32()))


def _combined(table: Any) -> Any:
    """The table with one chunk per column, built one by one: a column's chunks are freed before the next is built."""
    columns: list[Any] = []
    schema = table.schema
    while table.num_columns:
        columns.append(table.column(0).combine_chunks())
        table = table.remove_column(0)
    return pa.table(columns, schema=schema)


def slice_key(entry: HudiSlice) -> bytes:
    """Return the slice key: names and sizes of all files, prefixed with their lengths so that no two are alike.

    Names hold instants and write tokens and are never used twice, so the key needs no times and survives a
    copy.
    """
    digest = xxhash.xxh3_128()
    sizes = (entry.base_size, *entry.log_sizes)
    for text in (entry.partition, entry.file_id, entry.instant, *map(str, sizes), entry.base, *entry.logs):
        data = text.encode()
        digest.update(b"%d:" % len(data) + data)
    return digest.digest()


def _reasons(entry: HudiSlice | None, timeline: Timeline) -> list[str]:
    return [
        slice_.unsettled for slice_ in mark_unsettled([entry] if entry else [], timeline) if slice_.unsettled
    ]


def _order(kept: NDArray[np.bool_], added: list[int]) -> pa.Array[Any]:
    """Positions of the slices in their new order, among the old slices followed by the new ones.

    `added` has for each new slice the old ordinal that it precedes.
    """
    left = np.flatnonzero(kept)
    places = np.searchsorted(left, np.array(added, np.int64), side="left")
    order = np.insert(left, places, len(kept) + np.arange(len(added)))
    return positions(order)


def _folder(root: str, partition: str) -> str:
    return f"{root}/{partition}/" if partition else f"{root}/"


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]


def _names(uris: Any) -> Any:
    return compute.replace_substring_regex(uris, r"(?s)^.*/", "")


def _numbers(values: Sequence[int], width: type[np.int32 | np.int64], absent: Sequence[bool] = ()) -> Any:
    """A column of integers, null where they are `absent`."""
    made = np.fromiter(values, width, len(values))
    return number_array(made, pa.int32() if width is np.int32 else pa.int64(), absent)


def _lists(values: Any, lengths: Sequence[int] | NDArray[Any], absent: Any) -> Any:
    """Consecutive lists of the given lengths over the values; null where they are `absent`."""
    offsets = np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))]).astype(np.int32)
    return arrow.ListArray.from_arrays(number_array(offsets, pa.int32()), values, mask=absent)


def _each(lists: Any, values: Any) -> Any:
    """The same lists with other values."""
    lengths = as_numpy(filled(compute.list_value_length(lists), 0))
    return _lists(values, lengths, lists.is_null())


def sums(lists: Any) -> pa.Array[Any]:
    """The sum of each list; null where there is no list."""
    totals = np.zeros(len(lists), np.int64)
    np.add.at(totals, as_numpy(compute.list_parent_indices(lists)), as_numpy(lists.flatten()))
    return number_array(totals, pa.int64(), as_numpy(lists.is_null()))


def _column(table: pa.Table, name: str) -> Any:
    """A column in one piece; it is copied only where it has several."""
    column: Any = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
