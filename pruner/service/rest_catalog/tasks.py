"""Plans as scan tasks: pages of files that a client may have to read.

A page covers a range of the snapshot's slices and says where the next one begins, so that the pages of one snapshot
name each file that may match once, even if indexes change in between, or another process answers. For that, slices
are numbered in an order that all processes agree on.
"""

from __future__ import annotations

import datetime
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa
from pyarrow import parquet as pq

from pruner.arrow import as_numpy, compute, filled
from pruner.bounded_cache import BoundedCache
from pruner.errors import StorageError, cause
from pruner.expr.nodes import TRUE
from pruner.expr.semantics import Semantics
from pruner.planning.pinned import row_counts, switched_off
from pruner.service.rest_catalog.iceberg import IcebergTable, residual_of
from pruner.service.rest_catalog.metadata import UnservedError
from pruner.storage.opening import open_for_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from pruner.planning.pinned import PinnedSnapshot
    from pruner.service.rest_catalog.filters import Filter
    from pruner.service.rest_catalog.metadata import ServedTable
    from pruner.tables.snapshot import Snapshot

PAGE: Final = 1_000
"""Most tasks in one answer."""

ANSWER_BYTES: Final = 8 * 1024 * 1024
"""Approximate upper bound for the tasks of one answer: each has the whole filter, so long filters make pages short."""

_TASK_BYTES: Final = 512
"""Bytes of a task besides its filter."""

KEPT_BYTES: Final = 64 * 1024 * 1024
"""Memory for the files of plans with several pages: four bytes per file. The least recently used plan goes first."""

_SEMANTICS: Final = replace(Semantics.of("spark"), zone="UTC")
"""The rules that filters of clients follow."""

_THREADS: Final = 16
_FILE: Final = "file://"
_EPOCH: Final = datetime.date(1970, 1, 1)

_FEW_FOOTERS: Final = 64
"""Up to this number, footers are read instead of indexes, which load the counts of all files."""


class RowCounts:
    """The row counts of base files, from indexes or else from footers: clients count by them. Threads may share it."""

    def __init__(self, snapshot: Snapshot, before: RowCounts | None = None) -> None:
        """Take over the known counts of files of the previous snapshot."""
        self._snapshot = snapshot
        self._known = np.full(len(snapshot), -1, np.int64)
        self._lock = Lock()
        if before is not None:
            at: Any = compute.index_in(snapshot.keys, value_set=before._snapshot.keys)
            origin = as_numpy(filled(at, -1))
            there = origin >= 0
            self._known[there] = before._known[origin[there]]

    def are_of(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot's slices have the same ordinals here: after reopening, they may have others."""
        return self._snapshot is snapshot

    def of(
        self, ordinals: NDArray[np.intp], pinned: PinnedSnapshot, storage_options: Mapping[str, str]
    ) -> NDArray[np.int64]:
        """The row counts of the given slices of `pinned`; footers are read where nothing else is known.

        Raises:
            UnservedError: a file cannot be read.
        """
        missing = ordinals[self._known[ordinals] < 0]
        indexed = row_counts(pinned) if len(missing) > _FEW_FOOTERS else None
        if indexed is not None:
            with self._lock:
                np.copyto(self._known, indexed, where=self._known < 0)
            missing = missing[indexed[missing] < 0]
        if len(missing):
            stored = [self._snapshot.values(name, missing) for name in ("base_file", "base_size")]
            with ThreadPoolExecutor(min(_THREADS, len(missing))) as threads:
                counted = list(threads.map(partial(_rows, storage_options), *stored))
            with self._lock:
                self._known[missing] = counted
        return self._known[ordinals]


def _rows(storage_options: Mapping[str, str], uri: str, size: int) -> int:
    reader: Any = pq
    try:
        return reader.read_metadata(open_for_arrow(uri, size, storage_options)).num_rows
    except (StorageError, OSError, pa.ArrowException) as error:
        raise UnservedError(
            f"{uri}, of which the plan needs the number of rows, cannot be read: {cause(error)}"
        ) from error


class _Question(NamedTuple):
    """Everything that the slices of a plan depend on; `state` identifies a snapshot and a state of its indexes."""

    state: int
    filter: bytes | None
    case_sensitive: bool
    snapshot_schema: bool
    python: bool
    of_append: bool
    switched_off: str | None


class _Kept(NamedTuple):
    """The slices that a plan keeps, ascending, by their positions in `agreed_order` if the plan has several pages; and
    the options with which their files are opened.
    """

    places: NDArray[np.int32]
    storage_options: Mapping[str, str]


class PagedPlans:
    """The cached slices of plans with several pages, so that a page need not be planned again. Threads may share it.

    A page that is not found here is planned again, so forgotten plans, and those of another worker, do no harm.
    """

    def __init__(self, limit_bytes: int = KEPT_BYTES) -> None:
        self._limit = limit_bytes
        self._kept: BoundedCache[_Question, _Kept] = BoundedCache(limit_bytes)

    def get(self, question: _Question) -> _Kept | None:
        """The cached slices of a plan, or None."""
        return self._kept.get(question)

    def put(self, question: _Question, kept: _Kept) -> None:
        """Cache a plan, unless it alone exceeds the limit."""
        size = kept.places.nbytes + len(question.filter or b"")
        if size <= self._limit:
            self._kept.put(question, kept, size)


class Page(NamedTuple):
    """The tasks of one page as JSON, where the next page begins (None after the last), and the number of files from
    this page on.
    """

    answer: dict[str, Any]
    following: int | None
    left: int


def page_of(
    table: ServedTable | IcebergTable,
    asked: Filter | None,
    start: int,
    counts: RowCounts,
    known: PagedPlans,
    *,
    python: bool,
    added: Callable[[], NDArray[np.bool_]] | None = None,
) -> Page:
    """Return the tasks of one page.

    Args:
        table: the snapshot that is read.
        asked: the client's filter; None for all rows.
        start: the position of the slice with which the page begins; the first page, at 0, is always planned again.
        counts: the row counts of the table.
        known: the cached slices of plans.
        python: whether the client is PyIceberg, which takes dates as days, and local files by their paths.
        added: gives the slices of an incremental scan, which has no delete files; None for all slices.

    Raises:
        PredicateError: the filter cannot be understood.
        UnservedError: a file cannot be read.
    """
    residual = None if asked is None else asked.encoded
    most = max(1, min(PAGE, ANSWER_BYTES // (len(residual or b"") + _TASK_BYTES)))
    question = _question(table, asked, python=python, of_append=added is not None)
    again = known.get(question) if start else None
    kept = _planned(table, asked, python=python, added=added) if again is None else again
    of_several = start > 0 or len(kept.places) > most
    order = table.agreed_order if of_several else None
    if again is None and of_several:
        kept = kept._replace(places=_places(order, kept.places))
        if len(kept.places) > most:
            known.put(question, kept)
    first = int(np.searchsorted(kept.places, start))
    left = len(kept.places) - first
    ordinals = kept.places[first : first + most].astype(np.intp)
    if order is not None:
        ordinals = order[ordinals]
    following = int(kept.places[first + most]) if left > most else None
    if isinstance(table, IcebergTable):
        answer = table.tasks(ordinals, residual, python=python, deletes=added is None)
    else:
        rows = counts.of(ordinals, table.pinned, kept.storage_options)
        answer = {"file-scan-tasks": _tasks(table, ordinals, rows, residual, python=python)}
    return Page(answer, following, left)


def _question(
    table: ServedTable | IcebergTable, asked: Filter | None, *, python: bool, of_append: bool
) -> _Question:
    if asked is None:
        return _Question(table.state_number, None, True, False, python, of_append, switched_off())
    return _Question(
        table.state_number,
        asked.encoded,
        asked.case_sensitive,
        asked.snapshot_schema,
        python,
        of_append,
        switched_off(),
    )


def _planned(
    table: ServedTable | IcebergTable,
    asked: Filter | None,
    *,
    python: bool,
    added: Callable[[], NDArray[np.bool_]] | None,
) -> _Kept:
    plan = table.pinned.plan(TRUE if asked is None else asked.expression(), semantics=_SEMANTICS)
    ordinals = plan.ordinals
    if added is not None:
        ordinals = ordinals[added()[ordinals]]
    if isinstance(table, IcebergTable):
        ordinals = table.kept(ordinals, asked, python=python)
    else:
        ordinals = ordinals[_partitions_match(table, asked, table.pinned.data.partition_ordinals[ordinals])]
    return _Kept(ordinals.astype(np.int32), plan.storage_options())


def _places(order: NDArray[np.intp] | None, ordinals: NDArray[np.int32]) -> NDArray[np.int32]:
    """The positions of slices in the order that all processes agree on, ascending."""
    if order is None:
        return ordinals
    kept = np.zeros(len(order), np.bool_)
    kept[ordinals] = True
    return np.flatnonzero(kept[order]).astype(np.int32)


def _partitions_match(
    table: ServedTable, asked: Filter | None, at: NDArray[np.int32]
) -> NDArray[np.bool_] | slice:
    """Which slices, given by their partitions, match filters over partition columns alone: clients do not apply those
    themselves.
    """
    names = frozenset(partition.name for partition in table.schema.partitions)
    decides = None if asked is None else asked.on_partitions(names)
    if decides is None:
        return slice(None)
    used, where = np.unique(at, return_inverse=True)
    return decides([table.partition_values[number] for number in cast("list[int]", used.tolist())])[where]


def _tasks(
    table: ServedTable,
    ordinals: NDArray[np.intp],
    rows: NDArray[np.int64],
    residual: bytes | None,
    *,
    python: bool,
) -> list[dict[str, Any]]:
    data = table.pinned.data
    uris, sizes = data.values("base_file", ordinals), data.values("base_size", ordinals)
    at = data.partition_ordinals[ordinals]
    used: list[int] = np.unique(at).tolist()
    values = {used_one: _tuple(table.partition_values[used_one], python=python) for used_one in used}
    filtered = residual_of(residual)
    return [
        {
            "data-file": {
                "spec-id": int(table.spec_of[partition]),
                "content": "data",
                "file-path": place_for_client(uri, python=python),
                "file-format": "parquet",
                "partition": values[partition],
                "file-size-in-bytes": size,
                "record-count": count,
            },
            **filtered,
        }
        for uri, size, partition, count in zip(uris, sizes, at.tolist(), rows.tolist(), strict=True)
    ]


def _tuple(values: Mapping[str, Any], *, python: bool) -> list[Any]:
    """The values of a partition in the order of its spec, which has no NULL column."""
    return [_value(value, python=python) for value in values.values() if value is not None]


def _value(value: Any, *, python: bool) -> Any:
    if isinstance(value, datetime.date):
        return (value - _EPOCH).days if python else value.isoformat()
    return value


def place_for_client(uri: str, *, python: bool) -> str:
    """The location of a file for a client: PyIceberg cuts a URI at `?` and `#`, but takes a path unchanged."""
    if uri.startswith("/"):
        return uri if python else f"file:{uri}"
    return uri.removeprefix(_FILE) if python and uri.startswith(_FILE) else uri
