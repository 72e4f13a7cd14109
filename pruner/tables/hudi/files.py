"""The files of Hudi's file groups by their names, and the log files that completed instants alone do not tell of.

Base files are named `<file id>_<write token>_<instant>.<ending>`, log files
`.<file id>_<instant>.log.<version>_<write token>` (Hudi technical specification, "File layout hierarchy").
The instant of a log file is that of the slice it belongs to in table version 6, and that of its own write
from version 8 on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pruner.storage.store import ObjectInfo
    from pruner.tables.hudi.timeline import Timeline

# Instants have 14 or 17 digits; up to version 6, services of the metadata table append three more to that of a commit.
_LOG_NAME = re.compile(
    r"\.(?P<file_id>.+)_(?P<instant>[0-9]{14,20})\.log\.(?P<version>[0-9]+)(?:_(?P<token>[0-9-]+))?"
)
_BASE_NAME = re.compile(
    r"(?P<file_id>[^_]+)_(?P<token>[^_]+)_(?P<instant>[0-9]{14,20})\.(?P<ending>[a-z0-9.]+)"
)
BASE_ENDINGS = frozenset({"parquet", "orc", "hfile", "lance"})

_SHARED_LOGS_VERSION = 6
"""The table version in which running writes append to the log files that readers already list."""

_LOG_WRITERS = frozenset({"compaction", "logcompaction", "deltacommit", "rollback", "restore"})

OTHER_FORMAT = "the base file is not a Parquet file"
UNFINISHED = "a file is of an instant that has not completed or is not known"
RUNNING_WRITE = (
    "a write or service is pending in this table of version 6, which appends to log files that are listed"
)
OWN_CODE = "the merger or payload of the table can make values that are in no file"
OWN_CODE_REPLAYED = (
    "Hudi replays older log files of version 6 by a merger or payload that can make values of its own"
)
"""Why a slice is unsettled (rules R4 to R6), as plans report it."""


@dataclass(frozen=True, slots=True)
class HudiSlice:
    """One slice by the names of its files; sizes in bytes. `base` is "" without a base file.

    `unsettled` is the reason why no index may cover the slice, "" where one may.
    """

    partition: str
    file_id: str
    instant: str
    base: str
    base_size: int
    logs: tuple[str, ...]
    log_sizes: tuple[int, ...]
    unsettled: str = ""


def instant_of(name: str) -> str | None:
    """Return the instant in the name of a base or log file, or None when it is neither."""
    match = _LOG_NAME.fullmatch(name) or _BASE_NAME.fullmatch(name)
    return match.group("instant") if match else None


class LogName(NamedTuple):
    """The parts of a log file's name; log files sort by instant, version and write token."""

    name: str
    file_id: str
    instant: str
    version: int
    token: str


def log_name(name: str) -> LogName | None:
    """Take the name of a log file apart; None when it is not one."""
    match = _LOG_NAME.fullmatch(name)
    if match is None:
        return None
    file_id, instant, version, token = match.group("file_id", "instant", "version", "token")
    return LogName(name, file_id, instant, int(version), token or "")


class BaseName(NamedTuple):
    """The parts of a base file's name that tell what it belongs to."""

    file_id: str
    instant: str


def base_name(name: str) -> BaseName | None:
    """Take the name of a base file apart; None when it is not one, as the checksum of one (`.….crc`) is not."""
    match = None if name.startswith(".") else _BASE_NAME.fullmatch(name)
    if match is None or match.group("ending") not in BASE_ENDINGS:
        return None
    return BaseName(*match.group("file_id", "instant"))


def group_of(name: str) -> str | None:
    """Return the file id in the name of a base or log file, or None when it is neither."""
    match = _LOG_NAME.fullmatch(name) or _BASE_NAME.fullmatch(name)
    return match.group("file_id") if match else None


def mark_unsettled(slices: list[HudiSlice], timeline: Timeline) -> list[HudiSlice]:
    """Mark the slices that no index may cover with the reason (rules R4 and R5)."""
    return [marked(entry, timeline) for entry in slices]


def marked(entry: HudiSlice, timeline: Timeline) -> HudiSlice:
    """Return a slice with the reason why no index may cover it, if there is one: see `mark_unsettled`."""
    reason = entry.unsettled or _why_unsettled(entry, timeline)
    return replace(entry, unsettled=reason) if reason else entry


def _why_unsettled(entry: HudiSlice, timeline: Timeline) -> str:
    if entry.base and not entry.base.endswith(".parquet"):
        return OTHER_FORMAT
    properties = timeline.properties
    # Hudi 1.2 merges the logs of earlier slices of version 6 into a compacted base file once more. Where the newest row
    # wins that changes nothing, but with other mergers the rows need not be those of the base file.
    replays = properties.version <= _SHARED_LOGS_VERSION and properties.merge_on_read
    if replays and not properties.newest_row_wins:
        return OWN_CODE_REPLAYED
    if entry.logs and properties.merges_by_own_code:
        return OWN_CODE
    names = (*((entry.base,) if entry.base else ()), *entry.logs)
    instants = [instant_of(name) for name in names]
    if not all(instant is not None and timeline.settled(instant) for instant in instants):
        return UNFINISHED
    return ""


def misread_by_hudi_rs(timeline: Timeline) -> bool:
    """Tell whether hudi-rs may list the log files of this table wrongly (rule R6, traps T10 and T11).

    In table version 6 a running delta commit appends to log files under the names that they keep, and what is
    written after a compaction was planned goes to log files on the planned instant, which hudi-rs leaves out.
    """
    return (
        timeline.properties.version <= _SHARED_LOGS_VERSION
        and timeline.properties.merge_on_read
        and any(action in _LOG_WRITERS for action in timeline.pending.values())
    )


def attach_logs(slices: list[HudiSlice], files: list[ObjectInfo]) -> list[HudiSlice]:
    """Give each slice every log file of its group from its own instant on: see `with_shared_logs`."""
    logs: dict[tuple[str, str], list[tuple[LogName, int]]] = {}
    for file in files:
        partition, _, name = file.path.rpartition("/")
        log = log_name(name)
        if log is not None:
            logs.setdefault((partition, log.file_id), []).append((log, file.size))
    return [with_shared_logs(entry, logs.get((entry.partition, entry.file_id), ())) for entry in slices]


def with_shared_logs(entry: HudiSlice, logs: Iterable[tuple[LogName, int]]) -> HudiSlice:
    """Return a slice with all log files of its group from its own instant on; with any it is not settled.

    Hudi joins the slice of a pending compaction with the one before it (`fetchMergedFileSlice` of
    `AbstractTableFileSystemView`), which comes to the same log files.
    """
    # In a table that was downgraded, a log file may belong to the slice by its content and not by its name.
    listed = frozenset(entry.logs)
    own = sorted(
        (log for log in logs if log[0].instant >= entry.instant or log[0].name in listed), key=by_writing
    )
    return replace(
        entry,
        logs=tuple(log.name for log, _ in own),
        log_sizes=tuple(size for _, size in own),
        unsettled=RUNNING_WRITE if own or entry.logs else "",
    )


def by_writing(log: tuple[LogName, int]) -> tuple[str, int, str]:
    """Sort log files in the order of their writing."""
    return log[0].instant, log[0].version, log[0].token
