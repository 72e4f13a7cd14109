"""Looking after a metadata table: what is left over, what is broken, what can go."""

from __future__ import annotations

import re
import uuid
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from pruner.errors import FormatError, StorageError
from pruner.metadata import log, segments
from pruner.metadata.state import FILES, NewerFormatError, refuse_newer

if TYPE_CHECKING:
    import pyarrow as pa

    from pruner.metadata.state import State
    from pruner.metadata.table import MetadataTable
    from pruner.storage.store import ObjectInfo

GRACE_SECONDS = 7 * 24 * 3600.0
"""How long leftovers and old log entries stay: longer than the longest writer may run."""

KEPT_ENTRIES = 8
"""Log entries that always stay: a writer confirms its commit by the entry before it."""

_OURS = re.compile(r"[a-z][a-z0-9_]*/[0-9a-f]{32}\.pidx|staging/[0-9a-f]{32}|finished/[0-9a-f]{32}\.json")


def unreferenced(table: MetadataTable) -> list[ObjectInfo]:
    """The segments and unfinished files that the newest state does not name: of dead or busy writers.

    Raises:
        FormatError: the newest log entry cannot be read, so nothing is known about what is needed.
    """
    return _leftovers(table, {entry.path for entry in table.state().stored()})


def vacuum(table: MetadataTable, grace_seconds: float = GRACE_SECONDS) -> int:
    """Delete what nobody can need: log entries and segments out of use for longer than the grace.

    Returns the number of files. A writer that runs longer than the grace finds its segments gone and fails
    with a conflict. Ages are by the store's own clock.

    Raises:
        FormatError: a log entry that is still in use cannot be read; nothing was deleted.
    """
    refuse_newer(table.state())
    limit = _store_time_ns(table) - int(grace_seconds * 1e9)
    entries = log.entries(table.store)
    superseded = sum(1 for _ in takewhile(lambda follower: follower[1].mtime_ns <= limit, entries[1:]))
    in_use: set[str] = set()
    for version, _ in entries[superseded:]:
        state, _ = log.read(table.store, version)
        in_use.update(entry.path for entry in state.stored())
    leftovers = [info for info in _leftovers(table, in_use) if info.mtime_ns <= limit]
    expired = entries[: max(0, min(superseded, len(entries) - KEPT_ENTRIES))]
    # Oldest first, so that a vacuum that is interrupted leaves no gap.
    table.store.delete(log.entry_path(version) for version, _ in expired)
    table.store.delete(info.path for info in leftovers)
    return len(expired) + len(leftovers)


def verify(table: MetadataTable) -> list[str]:
    """Read everything and return one sentence for each problem; nothing in the list, nothing wrong.

    Leftovers of writers that died are no problem: see `unreferenced`.
    """
    problems: list[str] = []
    newest: State | None = None
    known: tuple[int, str] | None = None
    for version, _ in log.entries(table.store):
        newest = None
        try:
            newest, checksum = log.read(table.store, version)
        except (FormatError, StorageError) as error:
            problems.append(str(error))
            known = None
            continue
        if known is not None and (known[0] + 1, known[1]) != (version, newest.parent):
            problems.append(
                f"the log entry {version} of {table.store.uri} does not continue the entry {known[0]}"
            )
        known = (version, checksum)
    return problems + (_segment_problems(table, newest) if newest else [])


def uninstall(table: MetadataTable) -> int:
    """Delete the metadata table, and only what belongs to it; return the number of files deleted.

    The newest log entry goes last of the log, so an interrupted run leaves a table or leftovers, never an
    older state.

    Raises:
        NewerFormatError: this pruner is too old to know what belongs to it.
    """
    try:
        refuse_newer(table.state())
    except NewerFormatError:
        raise
    except FormatError:
        pass  # what cannot be read can still be deleted
    log_paths = [log.entry_path(version) for version, _ in log.entries(table.store)]
    table.store.delete(log_paths)
    others = [info.path for info in _leftovers(table, set())]
    table.store.delete(others)
    table.store.remove_empty_folders()
    return len(log_paths) + len(others)


def _leftovers(table: MetadataTable, in_use: set[str]) -> list[ObjectInfo]:
    return [info for info in table.store.list() if _OURS.fullmatch(info.path) and info.path not in in_use]


def _store_time_ns(table: MetadataTable) -> int:
    """The time by the clock that stamps the store's objects, which need not be this machine's."""
    path = f"staging/{uuid.uuid4().hex}"
    table.store.put_new(path, b"")
    try:
        info = table.store.info(path)
    finally:
        table.store.delete([path])
    if info is None:
        raise StorageError(f"{table.store.uri} does not keep what is written there")
    return info.mtime_ns


def _segment_problems(table: MetadataTable, state: State) -> list[str]:
    problems: list[str] = []
    batch_rows: dict[str, int] = {}
    if state.last_snapshot is not None:
        try:
            segments.read_saved(table.store, state.last_snapshot.segment)
        except (FormatError, StorageError) as error:
            problems.append(str(error))
    for entry in sorted(state.segments, key=lambda entry: entry.partition != FILES):
        try:
            records = segments.read_segment(table.store, entry)
        except (FormatError, StorageError) as error:
            problems.append(str(error))
            continue
        where = f"the segment {table.store.uri}/{entry.path}"
        if entry.partition == FILES:
            batch_rows[entry.id] = records.num_rows
            if len(records.column("slice_key").unique()) != records.num_rows:
                problems.append(f"{where} lists a slice twice")
        elif entry.batch in batch_rows and not _ordinals_fit(records, batch_rows[entry.batch]):
            problems.append(f"{where} refers to slices that its batch does not have")
        if entry.partition_stats is not None:
            try:
                segments.read_segment(table.store, entry.partition_stats)
            except (FormatError, StorageError) as error:
                problems.append(str(error))
    return problems


def _ordinals_fit(records: pa.Table, count: int) -> bool:
    if segments.SLICE_COLUMN not in records.column_names:
        return False
    ordinals = records.column(segments.SLICE_COLUMN).to_numpy()
    return bool(np.all((ordinals >= 0) & (ordinals < count)))
