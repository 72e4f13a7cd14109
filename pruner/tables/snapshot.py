"""A snapshot: the slices of a table with its schema, as Arrow columns and never as a Python object per slice.

Slices are numbered 0 to n-1 in the order of the columns; sets of slices are masks or arrays of ordinals.
Slice objects are made one at a time, when they are accessed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast, overload, runtime_checkable
from typing import Literal as OneOf

import numpy as np
import pyarrow as pa
import xxhash

from pruner.arrow import arrow, as_numpy, filled, number_array, positions, rows_at, text_array
from pruner.showing.words import FILE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.expr.engines import Traits
    from pruner.schema import TableSchema

SLICE_COLUMNS = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),  # ordinal into Snapshot.partitions
        pa.field("file_id", pa.string(), nullable=False),
        pa.field("base_file", pa.string()),  # URI, in the form that engines take; null without a base file
        pa.field("base_size", pa.int64()),
        pa.field("base_version", pa.string()),  # e-tag or modification time: what an overwrite changes
        pa.field("base_instant", pa.string()),
        pa.field("log_files", pa.list_(pa.string())),  # URIs; null without logs
        pa.field("log_size", pa.int64()),
        pa.field("unsettled", pa.bool_(), nullable=False),  # R4: never covered by any index
    ]
)
"""Columns of `Snapshot.columns`, in this order."""

LOG_INSTANTS = "log_instants"
READ_COLUMNS = ("base_file", "base_size", "log_files", "log_size", LOG_INSTANTS)
"""What determines which data of a slice is read: columns of `SLICE_COLUMNS`, and `Snapshot.log_instants` for slices
with log files."""

RUNS_FROM = 100_000
"""Slices from which neighbors of one partition are handled as runs."""

FEW_SIZES = 65_536
"""Up to this many slices that are not read yet, sizes are read for these slices only."""

FEW_FILES = 32
"""Up to this many slices, values are taken one by one."""

SLICES_AT_ONCE = 1024
"""So many slices are made into objects at once."""


@runtime_checkable
class UnreadColumns(Protocol):
    """Columns of slices that are read on demand; `SLICE_COLUMNS` lists them.

    What cannot be read is taken from the table itself, or raises an error: no slice is ever left out.

    Attributes:
        lost: whether some can no longer be read and the table has other slices now.
    """

    lost: bool

    @property
    def num_rows(self) -> int:
        """The number of slices."""
        ...

    @property
    def total_size(self) -> int:
        """Size of all slices in bytes, log files included."""
        ...

    @property
    def partition_runs(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The partitions of neighboring slices as ordinals, and the number of slices in each run."""
        ...

    @property
    def any_logs(self) -> bool:
        """True if some slice has log files."""
        ...

    @property
    def all_coverable(self) -> bool:
        """True if each slice is known, without reading it, to be settled and to have a base file."""
        ...

    def column(self, name: str) -> pa.ChunkedArray[Any]:
        """A column of all slices.

        Raises:
            TableError: it cannot be read, and the table has other slices now.
            StorageError: the store refuses to be read.
        """
        ...

    def is_there(self, name: str) -> NDArray[np.bool_]:
        """Tell for each slice whether a column has a value; raises as `column` does."""
        ...

    def rows(self, ordinals: Any, names: Sequence[str]) -> pa.Table:
        """Some columns of some slices, in their order, NULL where an ordinal is NULL; raises as `column` does."""
        ...


SLICE_KEY_BYTES = 16
"""Length of a slice key: the XXH3-128 of everything that makes a slice unique for good (the slice id)."""


class Watched(NamedTuple):
    """A local path that stays unchanged for as long as a listing would find the same snapshot.

    For a `tree`, names, sizes, times and inodes of everything below it count; hidden entries count by name only. For a
    `folder`, those of its direct entries; it need not exist. For a `stat`, its own times and inode count, and for a
    `name`, whether it is there.
    """

    kind: OneOf["tree", "folder", "stat", "name"]
    path: str


@dataclass(frozen=True, slots=True)
class FileSlice:
    """One slice: a base file (optional) and its log files, oldest first. `size` is in bytes, with logs."""

    partition_path: str
    file_id: str
    base_file: str | None
    base_instant: str | None
    log_files: tuple[str, ...]
    size: int


@dataclass(frozen=True)
class Partitions:
    """The partitions of a snapshot: physical path and logical values are separate things.

    `paths[i]` is relative to its root ("" when not partitioned). `values` has one typed Arrow array for each
    partition column (by field path), as long as `paths`; a null is a NULL partition value. `trusted` names
    the columns whose path value is known to be exactly the value that every row of the partition has, whichever
    engine reads it; `padded` names those for which this is known only for engines that read `month=01` as text,
    `escaped` those for which it is known only for engines that decode escaped bytes as UTF-8 (`city=Z%C3%BCrich`).
    `shared` names columns that files hold as well and whose path value every engine reads alike: a row has one of the
    two values. Values of other columns prove nothing. With `origin_by_engine` an engine's trait
    (`shared_partition_columns`) tells which of the two it shows.

    `texts` is set where values are stored in a log instead of the paths, which are then for display: the texts of each
    column to give to engines.
    """

    paths: pa.Array[Any]
    values: dict[tuple[str, ...], pa.Array[Any]] = field(
        default_factory=dict[tuple[str, ...], "pa.Array[Any]"]
    )
    trusted: frozenset[tuple[str, ...]] = frozenset()
    padded: frozenset[tuple[str, ...]] = frozenset()
    escaped: frozenset[tuple[str, ...]] = frozenset()
    shared: frozenset[tuple[str, ...]] = frozenset()
    origin_by_engine: bool = False
    texts: dict[tuple[str, ...], pa.Array[Any]] | None = None

    def trusts(self, path: tuple[str, ...], traits: Traits) -> bool:
        """Tell whether the path values of a column are what the rows have when an engine reads them."""
        return (
            path in self.trusted
            or (traits.reads_padded_folders_as_text and path in self.padded)
            or (traits.reads_escaped_bytes_as_utf8 and path in self.escaped)
        )

    def __len__(self) -> int:
        return len(self.paths)


class RowDeletes(Protocol):
    """Which rows of base files are removed by deletes that are stored apart, such as deletion vectors (rule R13).

    Attributes:
        slices: true for each slice of the snapshot that has any.
    """

    slices: NDArray[np.bool_]

    def positions(self, ordinals: NDArray[np.intp]) -> list[NDArray[np.uint64]]:
        """The positions in their base file of the removed rows, ascending, for each of some slices.

        Raises:
            TableError: they cannot be read, so the rows of the slice are unknown.
            StorageError: the store refuses to be read.
        """
        ...


@runtime_checkable
class CountedDeletes(RowDeletes, Protocol):
    """Deletes for which the table itself says how many rows they remove.

    Attributes:
        counts: for each slice of the snapshot the number of rows that deletes remove, each counted once; -1 where the
            table does not say.
    """

    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HeldColumns:
    """How a file holds the columns of a table that identifies them by field ids.

    `names` has for each column its name in a file without field ids, or a name that no column of the file has where it
    lacks the column; None where field ids tell. With `int96` instants are INT96. `constants` are columns that the file
    lacks and that have the value of its partition.
    """

    names: tuple[tuple[str, str], ...] | None = None
    int96: bool = False
    constants: frozenset[str] = frozenset()


class FieldNames(Protocol):
    """How the files of a table hold its columns, where field ids tell them apart."""

    def held(self, files: Sequence[tuple[str, int | None]], columns: Collection[str]) -> list[HeldColumns]:
        """Find out how files hold the columns of the table; each footer is read once.

        Args:
            files: URIs and sizes of base files.
            columns: those that may be read.

        Raises:
            TableError: a file cannot be read, or names a field inside of a column differently than the table does, or
                has a column in a type that is not read as the table's.
        """
        ...

    def constant(self, column: str) -> pa.Array[Any]:
        """The value of each partition for a column that files may lack; NULL where a partition does not have it."""
        ...


Contradicted = Callable[[pa.Schema, Collection[str]], str | None]
"""Tells which of some table columns a file's field ids and names resolve differently; None for none."""


@dataclass(frozen=True)
class FileSchemas:
    """The schema of each base file: `ordinals[i]` is that of slice i in `distinct`, -1 where unknown."""

    distinct: tuple[pa.Schema, ...]
    ordinals: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Descent:
    """Which slices of a snapshot are the same as in an earlier snapshot, by their slice keys.

    `of` is the id of that snapshot, `origin[i]` the ordinal that slice i had there, ascending, or -1 for a new slice.
    Everything but rows is unchanged: schema, partitions and schemas of files.
    """

    of: str
    origin: NDArray[np.int32]


@dataclass(frozen=True)
class Snapshot:
    """The slices of a table at one moment.

    `id` changes whenever the set of slices, their files or the schema may have changed. `columns` follows
    `SLICE_COLUMNS`; `keys` holds the slice keys (fixed_size_binary(16)), by which index records are joined. `problems`
    maps a URI to one sentence for each file that could not be read; every plan keeps its slice. `file_schemas` is set
    where the listing had to read them anyway. `unsettled_because` counts the unsettled slices by reason, where the
    format knows one. `log_instants` says whose blocks in log files count when they are read (rule R4): the oldest
    instant of the timeline, then each completed one, separated by spaces; an instant that is neither completed nor
    older than all of them is unfinished, and so is every instant while it is None. `descent` is set where the snapshot
    was made from the previous one. `deletes` is set where something other than a log file removes rows of base files:
    then what is known of a base file covers more rows than the slice has. `noun` is what users call a slice. `version`
    is the format's own name of the snapshot, where it numbers them: the identity of the table, a space, the number.
    `hides_nan` tells that writers of the format may leave NaN out of the statistics in a file, so an engine that
    trusts them must be told (trap S1). `nested` is set where files may name fields of structs differently. `merges`
    tells that slices are read as the format's own reader merges them, which has rules for base files, too.
    `may_leave_files` tells that a later snapshot may have other rows than its base files hold, through log files or
    deletes, even if this one has none. `contradicted` is set where columns of files are found by field ids, which
    names may contradict. `glob` is a pattern that matches the table's files in its store and no others, None where
    there is none. `state` is what the format itself knows of the snapshot, for readers that know the format:
    `IcebergState`, `DeltaState`, or None.
    """

    id: str
    schema: TableSchema
    columns: pa.Table | UnreadColumns
    keys: pa.Array[Any]
    partitions: Partitions
    root: str
    problems: dict[str, str] = field(default_factory=dict[str, str])
    file_schemas: FileSchemas | None = None
    unsettled_because: dict[str, int] = field(default_factory=dict[str, int])
    log_instants: str | None = None
    descent: Descent | None = field(default=None, compare=False, repr=False)
    noun: str = FILE
    hides_nan: bool = False
    deletes: RowDeletes | None = field(default=None, compare=False, repr=False)
    version: str | None = None
    nested: FieldNames | None = field(default=None, compare=False, repr=False)
    merges: bool = False
    may_leave_files: bool = False
    contradicted: Contradicted | None = field(default=None, compare=False, repr=False)
    glob: str | None = field(default=None, compare=False, repr=False)
    state: object | None = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        return self.columns.num_rows

    def column(self, name: str) -> pa.ChunkedArray[Any]:
        """One of `SLICE_COLUMNS`, for all slices."""
        return self.columns.column(name)

    @property
    def lost(self) -> bool:
        """Whether something known of these slices can no longer be read, so that the table must be listed again."""
        return not isinstance(self.columns, pa.Table) and self.columns.lost

    def rows(self, ordinals: Any, names: Sequence[str] = SLICE_COLUMNS.names) -> pa.Table:
        """Some of `SLICE_COLUMNS`, for some slices in their order; NULL in all where an ordinal is NULL."""
        if not isinstance(self.columns, pa.Table):
            return self.columns.rows(ordinals, names)
        return rows_at(self.columns.select(list(names)), ordinals)

    def value(self, name: str, ordinal: int) -> Any:
        """The value of one of `SLICE_COLUMNS` for one slice, as a Python value."""
        if not isinstance(self.columns, pa.Table):
            return self.columns.rows(positions([ordinal]), (name,)).column(0)[0].as_py()
        return self.columns.column(name)[ordinal].as_py()

    def row(self, ordinal: int) -> dict[str, Any]:
        """All of `SLICE_COLUMNS` for one slice, as Python values."""
        if not isinstance(self.columns, pa.Table):
            return self.columns.rows(positions([ordinal]), SLICE_COLUMNS.names).to_pylist()[0]
        return self.columns.slice(ordinal, 1).to_pylist()[0]

    def values(self, name: str, ordinals: NDArray[np.intp]) -> list[Any]:
        """The values of one of `SLICE_COLUMNS` for some slices, in their order."""
        if isinstance(self.columns, pa.Table) and len(ordinals) <= FEW_FILES:
            # Taking them one by one is done before Arrow has looked up how to take them.
            column: Any = self.columns.column(name)
            return [column[ordinal].as_py() for ordinal in ordinals.tolist()]
        return self.rows(positions(ordinals), (name,)).column(0).to_pylist()

    def _is_there(self, name: str) -> NDArray[np.bool_]:
        if not isinstance(self.columns, pa.Table):
            return self.columns.is_there(name)
        return as_numpy(self.columns.column(name).is_valid())

    @cached_property
    def partition_ordinals(self) -> NDArray[np.int32]:
        """The partition of each slice, as an ordinal into `partitions`."""
        return as_numpy(self.column("partition"))

    @cached_property
    def _partition_runs(self) -> tuple[NDArray[np.int32], NDArray[np.int64]] | None:
        """The partitions of neighboring slices with their number; None where that is no shorter."""
        if len(self) < RUNS_FROM:
            return None
        if not isinstance(self.columns, pa.Table):
            return self.columns.partition_runs
        ordinals = self.partition_ordinals
        starts = np.flatnonzero(np.diff(ordinals, prepend=-1))
        if len(starts) > len(ordinals) // 64:
            return None
        return ordinals[starts], np.diff(starts, append=len(ordinals))

    def spread(self, by_partition: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A property of each partition, for each slice."""
        runs = self._partition_runs
        if runs is None:
            return by_partition[self.partition_ordinals]
        return np.repeat(by_partition[runs[0]], runs[1])

    def ordinals_in(self, by_partition: NDArray[np.bool_], below: float) -> NDArray[np.intp] | None:
        """The slices of some partitions, ascending, without touching the others.

        None where that is not possible, or there are not fewer than `below`.
        """
        runs = self._partition_runs
        if runs is None:
            return None
        chosen = np.flatnonzero(by_partition[runs[0]])
        counts = runs[1][chosen]
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        if total >= below:
            return None
        return np.repeat(self._run_ends[chosen] - ends, counts) + np.arange(total)

    @cached_property
    def _run_ends(self) -> NDArray[np.int64]:
        """Where runs of neighboring slices in one partition end."""
        runs = self._partition_runs
        assert runs is not None
        return np.cumsum(runs[1])

    def partitions_of(self, ordinals: NDArray[np.intp]) -> NDArray[np.int32]:
        """The partition of some slices."""
        runs = None if isinstance(self.columns, pa.Table) else self._partition_runs
        if runs is None:
            return self.partition_ordinals[ordinals]
        return runs[0][np.searchsorted(self._run_ends, ordinals, side="right")]

    @cached_property
    def base_files(self) -> Any:
        """URIs of the base files in one piece, NULL for a slice without one."""
        return self.column("base_file").combine_chunks()

    def files_of(self, ordinals: NDArray[np.intp]) -> Any:
        """URIs of the base files of some slices, in their order; those without one are left out."""
        if not isinstance(self.columns, pa.Table):
            return self.rows(positions(ordinals), ("base_file",)).column(0).combine_chunks().drop_null()
        if len(ordinals) <= FEW_FILES:
            return text_array([uri for uri in self.values("base_file", ordinals) if uri is not None])
        return self.base_files.take(positions(ordinals)).drop_null()

    @cached_property
    def has_base(self) -> NDArray[np.bool_]:
        """True for each slice that has a base file."""
        return self._is_there("base_file")

    @cached_property
    def has_logs(self) -> NDArray[np.bool_]:
        """True for each slice that has log files."""
        return self._is_there("log_files")

    @cached_property
    def any_logs(self) -> bool:
        """True if some slice has log files."""
        return bool(self.has_logs.any()) if isinstance(self.columns, pa.Table) else self.columns.any_logs

    @cached_property
    def coverable(self) -> NDArray[np.bool_]:
        """True for each slice that indexes may cover: settled, with a base file or log files (rule R5)."""
        unsettled = as_numpy(self.column("unsettled"))
        return (self.has_base | self.has_logs) & ~unsettled

    @cached_property
    def stands(self) -> NDArray[np.bool_]:
        """True for each slice whose rows are exactly those of its base file: indexes may cover it, no log file changes
        it, and none of its rows is deleted. Statements about all rows of a slice hold for these slices only (traps
        A1, D2).
        """
        return self.has_base & self.coverable & ~self.has_changes

    @cached_property
    def has_deletes(self) -> NDArray[np.bool_]:
        """True for each slice with rows of its base file removed by deletes that are stored apart."""
        return np.zeros(len(self), np.bool_) if self.deletes is None else self.deletes.slices

    @cached_property
    def deleted_counts(self) -> NDArray[np.int64]:
        """The number of rows that deletes stored apart remove from each slice's base file; -1 where it is unknown."""
        deletes = self.deletes
        return deletes.counts if isinstance(deletes, CountedDeletes) else np.where(self.has_deletes, -1, 0)

    @property
    def has_changes(self) -> NDArray[np.bool_]:
        """True for each slice whose rows differ from those of its base file."""
        return self.has_logs if self.deletes is None else self.has_logs | self.deletes.slices

    @cached_property
    def any_changes(self) -> bool:
        """True if some slice's rows differ from those of its base file."""
        return self.any_logs or bool(self.has_deletes.any())

    @cached_property
    def uncoverable(self) -> NDArray[np.bool_] | None:
        """True for each slice that no index may cover; None where there is none."""
        if not isinstance(self.columns, pa.Table) and self.columns.all_coverable:
            return None
        return None if self.coverable.all() else ~self.coverable

    @cached_property
    def uncoverable_because(self) -> dict[str, int]:
        """The number of slices that no index may cover, by reason."""
        uncoverable = 0 if self.uncoverable is None else int(np.count_nonzero(self.uncoverable))
        others = uncoverable - sum(self.unsettled_because.values())
        rest = {f"{self.noun}s that are unsettled or unreadable": others} if others > 0 else {}
        return {**self.unsettled_because, **rest}

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Size of each slice in bytes, log files included."""
        base = as_numpy(filled(self.column("base_size"), 0))
        return base + as_numpy(filled(self.column("log_size"), 0))

    @cached_property
    def total_size(self) -> int:
        """Size of all slices in bytes, log files included."""
        return int(self.sizes.sum()) if isinstance(self.columns, pa.Table) else self.columns.total_size

    def size_of(self, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> int:
        """Size of some slices in bytes, log files included; they are chosen by ordinals or by a mask."""
        if isinstance(self.columns, pa.Table) or chosen.dtype == np.bool_ or len(chosen) > FEW_SIZES:
            return int(self.sizes[chosen].sum())
        rows = self.rows(positions(chosen), ("base_size", "log_size"))
        return sum(int(as_numpy(filled(column, 0)).sum()) for column in rows.columns)

    @property
    def slices(self) -> SliceSequence:
        """All slices, lazily."""
        return SliceSequence(self, None)

    def to_read(self, ordinals: NDArray[np.intp], rows: pa.Table | None = None) -> pa.Table:
        """What must be read of some slices, in their order: columns as `READ_COLUMNS`.

        `rows` are those of these slices, where they are at hand.
        """
        names = [name for name in READ_COLUMNS if name != LOG_INSTANTS]
        columns = self.rows(positions(ordinals), names) if rows is None else rows.select(names)
        # The text is the same for all slices: a dictionary holds it once.
        logs: Any = columns.column("log_files").combine_chunks()
        codes: Any = number_array(np.zeros(len(ordinals), np.int32), pa.int32(), as_numpy(logs.is_null()))
        instants = arrow.DictionaryArray.from_arrays(codes, text_array([self.log_instants or ""]))
        return columns.append_column(LOG_INSTANTS, instants)


def key_array(keys: bytes) -> pa.FixedSizeBinaryArray:
    """Return slice keys, one after another, as an array."""
    type_ = pa.binary(SLICE_KEY_BYTES)
    count = len(keys) // SLICE_KEY_BYTES
    return cast("pa.FixedSizeBinaryArray", pa.Array.from_buffers(type_, count, [None, pa.py_buffer(keys)]))


def keys_of_paths(paths: Any, read_by: bytes = b"") -> Iterator[bytes]:
    """Yield the slice keys of files whose paths are never reused; deletes from a file are not part of its key.

    `read_by` is what else determines how they are read: when it changes, records count as those of other files.
    """
    texts: list[bytes] = paths.cast(pa.binary()).to_pylist()
    return map(xxhash.xxh3_128_digest, [read_by + text for text in texts] if read_by else texts)


class SliceSequence(Sequence[FileSlice]):
    """Slices of a snapshot, made into objects when they are asked for."""

    def __init__(self, snapshot: Snapshot, ordinals: NDArray[np.intp] | None) -> None:
        self._snapshot = snapshot
        self._ordinals = ordinals

    def __len__(self) -> int:
        return len(self._snapshot) if self._ordinals is None else len(self._ordinals)

    @overload
    def __getitem__(self, index: int) -> FileSlice: ...
    @overload
    def __getitem__(self, index: slice) -> SliceSequence: ...
    def __getitem__(self, index: int | slice) -> FileSlice | SliceSequence:
        if isinstance(index, slice):
            ordinals = np.arange(len(self._snapshot)) if self._ordinals is None else self._ordinals
            return SliceSequence(self._snapshot, ordinals[index])
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        position = range(len(self))[index]
        return self._slice(
            self._snapshot.row(position if self._ordinals is None else int(self._ordinals[position]))
        )

    def __iter__(self) -> Iterator[FileSlice]:
        # All columns of many slices at once: blocks are searched for each read of a column.
        for start in range(0, len(self), SLICES_AT_ONCE):
            ordinals = np.arange(start, min(start + SLICES_AT_ONCE, len(self)))
            chosen = ordinals if self._ordinals is None else self._ordinals[ordinals]
            yield from map(self._slice, self._snapshot.rows(positions(chosen)).to_pylist())

    def _slice(self, row: dict[str, Any]) -> FileSlice:
        return FileSlice(
            partition_path=self._snapshot.partitions.paths[row["partition"]].as_py(),
            file_id=row["file_id"],
            base_file=row["base_file"],
            base_instant=row["base_instant"],
            log_files=tuple(row["log_files"] or ()),
            size=(row["base_size"] or 0) + (row["log_size"] or 0),
        )


def evenly(ordinals: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """At most `most` of some ordinals, in their order, spread evenly from the first to the last."""
    places = np.linspace(0, len(ordinals) - 1, min(most, len(ordinals))).round().astype(np.intp)
    return ordinals[np.unique(places)]
