"""Reads and edits the timeline of a Hudi table on disk, to bring about states that last only a moment.

A writer that is still running, or died, has left everything but the file that says "completed". Taking that
file away gives exactly that state.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FILE_NAME = re.compile(
    r"(?P<requested>\d{17})(?:_(?P<completed>\d{17}))?\.(?P<action>[a-z]+)(?:\.(?P<state>requested|inflight))?"
)
TIMELINE_MOVED = 8
"""The table version from which the timeline has a folder of its own."""


@dataclass(frozen=True, slots=True)
class Instant:
    """One file of the timeline. In table version 6 a completed instant has no completion time in its name."""

    requested: str
    action: str
    state: str
    completed: str | None
    file: Path


def table_version(table: Path) -> int:
    """Return the table version from `hoodie.properties`."""
    return int(table_property(table, "hoodie.table.version") or 0)


def table_property(table: Path, name: str) -> str | None:
    """Return one property of the table, or None."""
    for line in (table / ".hoodie" / "hoodie.properties").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("=")
        if key == name:
            return value
    return None


def timeline(table: Path) -> list[Instant]:
    """Return the files of the active timeline, ordered by the time of the request."""
    folder = table / ".hoodie"
    if table_version(table) >= TIMELINE_MOVED:  # a downgrade leaves the empty folder behind
        folder /= "timeline"
    found = [_instant(file) for file in folder.iterdir() if file.is_file()]
    return sorted((i for i in found if i), key=lambda instant: (instant.requested, instant.file.name))


def completed(table: Path, *actions: str) -> list[Instant]:
    """Return the completed instants, of the given actions or of all."""
    return [i for i in timeline(table) if i.state == "completed" and (not actions or i.action in actions)]


def pending(table: Path, *actions: str) -> list[str]:
    """Return the request times of instants that have not completed, of the given actions or of all."""
    instants = [i for i in timeline(table) if not actions or i.action in actions]
    done = {i.requested for i in timeline(table) if i.state == "completed"}
    return sorted({i.requested for i in instants} - done)


def make_inflight(table: Path, instant: Instant | None = None) -> Instant:
    """Turn a completed instant (the newest) back into a running one, in the metadata table as well."""
    chosen = instant or completed(table)[-1]
    metadata = table / ".hoodie" / "metadata"
    if metadata.is_dir():
        for twin in completed(metadata):
            if twin.requested == chosen.requested:
                twin.file.unlink()
    chosen.file.unlink()
    return chosen


def complete_last(table: Path, instant: Instant, content: bytes) -> Path:
    """Complete a running instant after all others, although others were requested later."""
    name = instant.file.name
    if instant.completed is not None:
        newest = max(i.completed or i.requested for i in completed(table))
        name = f"{instant.requested}_{int(newest) + 1}.{instant.action}"
    file = instant.file.with_name(name)
    file.write_bytes(content)
    return file


def _instant(file: Path) -> Instant | None:
    match = FILE_NAME.fullmatch(file.name)
    if match is None:
        return None
    requested, done, action, state = match.group("requested", "completed", "action", "state")
    if action in {"inflight", "requested"}:  # version 6 names a running commit `<time>.inflight`
        action, state = "commit", action
    return Instant(requested, action, state or "completed", done, file)
