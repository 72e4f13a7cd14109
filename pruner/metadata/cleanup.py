"""Maintenance of a metadata table: finds leftovers and damage, deletes what is out of use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

import numpy as np

from pruner.errors import FormatError, StorageError
from pruner.metadata import log, segments
from pruner.metadata.receipts import GRACE_SECONDS, store_time_ns
from pruner.metadata.state import FILES, refuse_newer
from pruner.storage.store import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from pruner.metadata.state import SegmentEntry, State
    from pruner.storage.store import ObjectInfo, Store

KEPT_ENTRIES = 8
"""Number of log entries that are always kept: a writer confirms its commit by the entry before it."""

_UNINSTALL_ROUNDS = 10

_OURS = re.compile(r"[a-z][a-z0-9_]*/[0-9a-f]{32}\.pidx|staging/[0-9a-f]{32}|finished/[0-9a-f]{32}\.json")


def unreferenced(store: Store, state: State) -> list[ObjectInfo]:
    """Segments and unfinished files that the newest state does not name: dead writers left them, or active writers
    need them.
    """
    return _leftovers(store, {entry.path for entry in state.stored()})


def vacuum(store: Store, state: State, grace_seconds: float = GRACE_SECONDS) -> int:
    """Delete what no reader or writer can need: log entries and segments out of use for longer than the grace.

    `state` is the newest one. Returns the number of files. A writer that runs longer than the grace finds its
    segments gone and fails with a conflict. Ages are measured by the store's clock.

    Raises:
        NewerFormatError: this pruner is too old to know what belongs to the table.
        FormatError: a log entry that is still in use cannot be read; nothing was deleted.
    """
    refuse_newer(state)
    limit = store_time_ns(store) - int(grace_seconds * 1e9)
    entries = log.entries(store)
    superseded = sum(1 for _ in takewhile(lambda follower: follower[1].mtime_ns <= limit, entries[1:]))
    in_use: set[str] = set()
    for version, _ in entries[superseded:]:
        entry_state, _ = log.read(store, version)
        in_use.update(entry.path for entry in entry_state.stored())
    leftovers = [info for info in _leftovers(store, in_use) if info.mtime_ns <= limit]
    expired = entries[: max(0, min(superseded, len(entries) - KEPT_ENTRIES))]
    # Oldest first, so that an interrupted vacuum leaves no gap.
    store.delete(log.entry_path(version) for version, _ in expired)
    store.delete(info.path for info in leftovers)
    return len(expired) + len(leftovers)


@dataclass(frozen=True, slots=True)
class OutOfUse:
    """Files that nothing refers to any more and that are kept for now: number, size, and when the last may go."""

    files: int
    bytes: int
    until: datetime | None


def out_of_use(store: Store, state: State, grace_seconds: float = GRACE_SECONDS) -> OutOfUse:
    """Files that a vacuum with this grace keeps although the newest state, `state`, does not name them.

    Raises:
        NewerFormatError: this pruner is too old to know what belongs to the table.
        FormatError: a log entry cannot be read.
    """
    leftovers = unreferenced(store, state)
    since = {info.path: info.mtime_ns for info in leftovers}
    # A segment that a state names went out of use when the next state was written.
    for (version, _), (_, follower) in pairwise(log.entries(store)):
        named, _ = log.read(store, version)
        for entry in named.stored():
            if entry.path in since:
                since[entry.path] = max(since[entry.path], follower.mtime_ns)
    if not leftovers:
        return OutOfUse(0, 0, None)
    until = max(since.values()) / 1e9 + grace_seconds
    size = sum(info.size for info in leftovers)
    return OutOfUse(len(leftovers), size, datetime.fromtimestamp(until, UTC))


def verify(store: Store) -> list[str]:
    """Read everything and return one sentence for each problem; an empty list means that there is none.

    Leftovers of writers that died are not a problem: see `unreferenced`.
    """
    problems: list[str] = []
    newest: State | None = None
    known: tuple[int, str] | None = None
    for version, _ in log.entries(store):
        newest = None
        try:
            newest, checksum = log.read(store, version)
        except (FormatError, StorageError) as error:
            problems.append(str(error))
            known = None
            continue
        if known is not None and (known[0] + 1, known[1]) != (version, newest.parent):
            problems.append(f"the log entry {version} of {store.uri} does not continue the entry {known[0]}")
        known = (version, checksum)
    return problems + (_segment_problems(store, newest) if newest else [])


def uninstall(store: Store) -> int:
    """Delete the metadata table, and only what belongs to it; return the number of files deleted.

    The newest log entry is deleted last of the log, so an interrupted run leaves a table or leftovers, never an
    older state.
    """
    deleted = 0
    # Repeat until nothing is left: a writer may have written between the listing and the deletion.
    for _ in range(_UNINSTALL_ROUNDS):
        paths = [log.entry_path(version) for version, _ in log.entries(store)]
        paths += [info.path for info in _leftovers(store, set())]
        if not paths:
            break
        store.delete(paths)
        deleted += len(paths)
    store.remove_empty_folders()
    return deleted


def _leftovers(store: Store, in_use: set[str]) -> list[ObjectInfo]:
    return [info for info in store.list() if _OURS.fullmatch(info.path) and info.path not in in_use]


def _segment_problems(store: Store, state: State) -> list[str]:
    """Problems of the segments of a state: every segment is read, and each sentence begins with its index."""
    problems: list[str] = []
    batch_rows: dict[str, int] = {}
    if state.last_snapshot is not None:
        look = partial(segments.read_saved, store, state.last_snapshot)
        problem = _problem(look, segments.SAVED_REMEDY)
        problems += [f"the snapshot for the next look: {problem}"] if problem else []
    for entry in sorted(state.segments, key=lambda entry: entry.partition != FILES):
        looks = [partial(_check_segment, store, entry, batch_rows)]
        looks += [partial(segments.read_segment, store, attached) for attached in entry.attached()]
        found_problems = (_problem(look, segments.REMEDY) for look in looks)
        problems += [f"{state.about(entry)}: {problem}" for problem in found_problems if problem]
    return problems


def _problem(look: Callable[[], object], remedy: str) -> str | None:
    """Why stored data cannot be read or does not fit, and what to do about it."""
    try:
        look()
    except NotFoundError as error:
        return f"{error}: {remedy}"
    except (FormatError, StorageError) as error:
        return str(error)
    return None


def _check_segment(store: Store, entry: SegmentEntry, batch_rows: dict[str, int]) -> None:
    """Read a segment, and compare the slices of records with their batch, whose number of rows is in `batch_rows`.

    Raises:
        FormatError, StorageError: it cannot be read.
        FormatError: it is a slice batch with a slice twice, or refers to slices that its batch does not have.
    """
    records = segments.read_segment(store, entry)
    where = f"the segment {store.uri}/{entry.path}"
    if entry.partition == FILES:
        batch_rows[entry.id] = records.num_rows
        if len(records.column("slice_key").unique()) != records.num_rows:
            raise FormatError(f"{where} lists a slice twice: {segments.REMEDY}")
    elif entry.batch in batch_rows and not _ordinals_fit(records, batch_rows[entry.batch]):
        raise FormatError(f"{where} refers to slices that its batch does not have: {segments.REMEDY}")


def _ordinals_fit(records: pa.Table, count: int) -> bool:
    if segments.SLICE_COLUMN not in records.column_names:
        return False
    ordinals = records.column(segments.SLICE_COLUMN).to_numpy()
    return bool(np.all((ordinals >= 0) & (ordinals < count)))
