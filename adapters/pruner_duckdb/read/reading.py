"""How the slices of a plan reach DuckDB: base files by `read_parquet`, the others merged by hudi-rs, in one query."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from pruner.arrow import positions
from pruner.tables.hudi.merging.slices import SliceMerger
from pruner.tables.snapshot import SliceSequence
from pruner_duckdb.read.native import Describe, FileKinds
from pruner_duckdb.read.scan import MOST_SCANS, Bind, Reading, Wanted, merged_sql, scan_sql, source_sql
from pruner_duckdb.read.shape import ScanShape
from pruner_duckdb.read.widened import FileTypes
from pruner_duckdb.types import is_remote

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner import Plan
    from pruner.tables.snapshot import HeldColumns, Snapshot
    from pruner_duckdb.read.arrow_sources import DeletedRows, MergedRows

# When DuckDB is told which rows to read, and not only which files.
#
# It skips row groups by `file_row_number`, so a few rows of a big file cost as much as their row groups. With smaller
# files, or more rows, the list of files alone is as fast or faster.

MOST_FILES = 4
"""Positions apply to all files alike, so each file adds row groups to every other one."""

LEAST_BYTES = 8 * 1024**2
"""Minimum size of every file: some ten row groups of DuckDB, one of Spark."""

MOST_POSITIONS = 16
"""Each may be in a different row group."""


def positions_to_read(plan: Plan, files: NDArray[np.intp]) -> NDArray[np.uint32] | None:
    """The positions of the rows to read from each of some base files; None if all rows are read.

    Args:
        plan: the plan.
        files: slices of the plan, ascending, of which only the base file is read.
    """
    if not 0 < len(files) <= MOST_FILES:
        return None
    sizes = plan.snapshot.columns.column("base_size").take(positions(files)).to_pylist()
    if any(size is None or size < LEAST_BYTES for size in sizes):
        return None
    rows = plan.rows
    return None if rows is None else rows.few(files, MOST_POSITIONS)


_KEPT_MERGERS = 4

Sources = dict[str, "MergedRows | DeletedRows"]
"""What a statement reads besides files, by the names that the statement uses."""


class PlanReader:
    """Reads the plans of one table. Threads may share it."""

    def __init__(self, name: str, root: str, storage_options: Mapping[str, str], as_of: str | None) -> None:
        self._name = name
        self._root = root
        self._storage_options = storage_options
        self._as_of = as_of
        self._lock = RLock()
        self._types: FileTypes | None = None
        self._mergers: dict[str, SliceMerger] = {}

    def sql(
        self,
        plan: Plan,
        shape: ScanShape,
        bind: Bind,
        sources: Sources,
        describe: Describe,
        wanted: Wanted,
    ) -> str:
        """Return the text for FROM that reads the slices, each row once.

        Args:
            plan: which slices.
            shape: how their columns are read.
            bind: adds a value as one more parameter of the statement.
            sources: receives what the query reads besides files.
            describe: returns what DuckDB reads from a file.
            wanted: what the statement needs from the slices.

        Raises:
            SchemaError: DuckDB cannot tell columns of the table apart.
            TableError: slices with log files cannot be merged as Hudi does.
            TableChanged: the table changed since the snapshot was taken.
        """
        may_read = wanted.may_read
        shape.require_names(self._name, may_read)
        snapshot, ordinals = plan.snapshot, plan.ordinals
        if snapshot.file_schemas is None and not snapshot.merges and len(ordinals):
            return self._unmerged(plan, shape, bind, sources, describe, wanted)
        to_merge = self._to_merge(plan, may_read)
        files, merged = ordinals[~to_merge], ordinals[to_merge]
        kinds = self.kinds(snapshot, files, shape, describe)
        positions = positions_to_read(plan, files)
        if not len(merged):
            return source_sql(snapshot, files, shape, bind, Reading(wanted, kinds, positions))
        # Both queries show every column.
        reading = Reading(replace(wanted, narrow=False, bare=False), kinds, positions)
        merger = self._merger(snapshot)
        slices = SliceSequence(snapshot, merged)
        merger.require_mergeable(slices)
        from pruner_duckdb.read.arrow_sources import MergedRows

        name = f"pruner_merged_{secrets.token_hex(16)}"
        sources[name] = MergedRows(merger, slices, snapshot.schema.to_arrow())
        query = merged_sql(snapshot, shape, name)
        if not len(files):
            return f"({query})"
        scan = scan_sql(snapshot, files, shape, bind, reading)
        return f"(({scan}) UNION ALL ({query}))"

    def _unmerged(
        self, plan: Plan, shape: ScanShape, bind: Bind, sources: Sources, describe: Describe, wanted: Wanted
    ) -> str:
        """The text for FROM for slices that are only base files, of which some rows may be deleted separately."""
        snapshot, files = plan.snapshot, plan.ordinals
        deleted = snapshot.has_deletes[files]
        alike = self._alike(snapshot, files, shape, wanted)
        ways = deleted.astype(np.intp)
        for number, (of_way, _) in enumerate(alike):
            ways[of_way] += 2 * number
        parts: list[tuple[NDArray[np.intp], ScanShape, bool]] = [
            (files[places], alike[ways[places[0]] // 2][1], bool(deleted[places[0]]))
            for places in _of_one_kind(ways, in_order=wanted.in_order)
        ]
        if len(parts) == 1 and not deleted.any():
            ((some, own, _),) = parts
            kinds = self.kinds(snapshot, some, own, describe)
            return source_sql(
                snapshot, some, own, bind, Reading(wanted, kinds, positions_to_read(plan, some))
            )
        # Every query shows every column.
        wanted = replace(wanted, narrow=False, bare=False)
        queries: list[str] = []
        for some, own, is_deleted in parts:
            kinds = self.kinds(snapshot, some, own, describe)
            reading = Reading(
                wanted, kinds, deleted=partial(_deleted, snapshot, sources) if is_deleted else None
            )
            queries.append(scan_sql(snapshot, some, own, bind, reading))
        return f"({' UNION ALL '.join(f'({query})' for query in queries)})"

    def _alike(
        self, snapshot: Snapshot, files: NDArray[np.intp], shape: ScanShape, wanted: Wanted
    ) -> list[tuple[NDArray[np.bool_], ScanShape]]:
        """The files grouped by the way in which they store the columns, with how each group is read."""
        columns = {name for name, _, _ in shape.columns if wanted.may_read(name)}
        if snapshot.contradicted is not None:
            self._file_types().require_ids(snapshot.contradicted, snapshot, files, columns)
        if snapshot.nested is None:
            int96 = self.of_int96(snapshot, files, wanted.may_read)
            return [(~int96, shape), (int96, shape.of_int96(snapshot))]
        numbers: dict[HeldColumns, int] = {}
        held = snapshot.nested.held(_files(snapshot, files), columns)
        codes = np.array([numbers.setdefault(columns, len(numbers)) for columns in held])
        return [(codes == number, shape.of_files(columns, snapshot)) for columns, number in numbers.items()]

    def _to_merge(self, plan: Plan, may_read: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Tell for each slice to read whether its rows come from hudi-rs."""
        snapshot, ordinals = plan.snapshot, plan.ordinals
        if snapshot.file_schemas is not None or not snapshot.merges:  # then no file is merged with others
            return np.zeros(len(ordinals), dtype=bool)
        read_optimized = plan.semantics.scan_mode == "read_optimized"
        to_merge = np.zeros(len(ordinals), dtype=bool) if read_optimized else snapshot.has_logs[ordinals]
        unmerged = np.flatnonzero(snapshot.has_base[ordinals] & ~to_merge)
        to_merge[unmerged] = self.widened(snapshot, ordinals[unmerged], may_read)
        return to_merge

    def widened(
        self, snapshot: Snapshot, ordinals: NDArray[np.intp], may_read: Callable[[str], bool]
    ) -> NDArray[np.bool_]:
        """Tell for each base file whether it has floats that may be read and that Hudi widens in its own way."""
        if snapshot.file_schemas is not None or not snapshot.merges:  # DuckDB is told what each file contains
            return np.zeros(len(ordinals), dtype=bool)
        return self._file_types().widened(snapshot, ordinals, may_read)

    def of_int96(
        self, snapshot: Snapshot, ordinals: NDArray[np.intp], may_read: Callable[[str], bool]
    ) -> NDArray[np.bool_]:
        """Tell for each base file whether instants that may be read are stored as INT96, if the table has a schema."""
        if snapshot.file_schemas is not None or snapshot.merges:
            return np.zeros(len(ordinals), dtype=bool)
        return self._file_types().of_int96(snapshot, ordinals, may_read)

    def kinds(
        self, snapshot: Snapshot, ordinals: NDArray[np.intp], shape: ScanShape, describe: Describe
    ) -> FileKinds | None:
        """What is known about the base files to read.

        Args:
            snapshot: the snapshot.
            ordinals: the slices to read.
            shape: how their columns are read.
            describe: returns what DuckDB reads from a file.
        """
        if snapshot.file_schemas is not None:
            return FileKinds(shape.files, snapshot.file_schemas.ordinals)
        if snapshot.nested is not None:
            return None
        if is_remote(self._root):
            return None  # it would take a request for each file, which DuckDB would repeat
        kinds = self._file_types().kinds(snapshot, ordinals[snapshot.has_base[ordinals]], describe)
        columns = (None if column is None else shape.by_table(column) for column in kinds.columns)
        return FileKinds(tuple(columns), kinds.ordinals)

    def _file_types(self) -> FileTypes:
        with self._lock:
            if self._types is None:
                self._types = FileTypes(self._root, self._storage_options)
            return self._types

    def _merger(self, snapshot: Snapshot) -> SliceMerger:
        with self._lock:
            merger = self._mergers.get(snapshot.id)
            if merger is None:
                merger = SliceMerger(self._name, snapshot, self._storage_options, self._as_of)
                while len(self._mergers) >= _KEPT_MERGERS:
                    self._mergers.pop(next(iter(self._mergers)))
                self._mergers[snapshot.id] = merger
            return merger


def _of_one_kind(kinds: NDArray[np.intp], *, in_order: bool) -> list[NDArray[np.intp]]:
    """The places of each kind, or with `in_order` of neighbors of one kind, where these are few enough."""
    if in_order:
        ends = np.flatnonzero(np.diff(kinds)) + 1
        if len(ends) < MOST_SCANS:
            return np.split(np.arange(len(kinds)), ends)
    return [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]


def _deleted(snapshot: Snapshot, sources: Sources, ordinals: NDArray[np.intp], by_name: bool) -> str:
    """Read the deleted rows of some slices: see `DeletedOf`."""
    from pruner_duckdb.read.arrow_sources import DeletedRows

    name = f"pruner_deleted_{secrets.token_hex(16)}"
    sources[name] = DeletedRows(snapshot, ordinals, by_name=by_name)
    return name


def _files(snapshot: Snapshot, ordinals: NDArray[np.intp]) -> list[tuple[str, int | None]]:
    """The URIs and sizes of the base files of some slices."""
    chosen = snapshot.rows(positions(ordinals), ("base_file", "base_size"))
    uris: list[Any] = chosen.column(0).to_pylist()
    sizes: list[Any] = chosen.column(1).to_pylist()
    return list(zip(uris, sizes, strict=True))
