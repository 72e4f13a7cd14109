"""Why hudi-rs cannot list a Hudi table, as a sentence that says what to do.

What it raises names a parser's trouble; whoever has the table needs the file, and what mends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from pruner.errors import StorageError, TableError, first_line
from pruner.tables.hudi.commits import COMMIT_BYTES, UnreadCommitError, read_commit
from pruner.tables.hudi.timeline import WRITES

if TYPE_CHECKING:
    from pruner.storage.store import Store
    from pruner.tables.hudi.timeline import Timeline

_T = TypeVar("_T")
_COMMIT = re.compile(r"commit metadata|Timeline error", re.IGNORECASE)
_REMEDIES = (
    (re.compile(r"Config "), "mend .hoodie/hoodie.properties, or restore it from hoodie.properties.backup"),
    (re.compile(r"No completed commit"), "nothing was ever written to it, or its timeline is gone"),
    (re.compile(r"Failed to parse file name"), "Hudi did not write that file: move it out of the table"),
    (
        re.compile(r"Avro schema|Decimal|Data type"),
        "mend the schema in the newest commit of .hoodie",
    ),
)


@contextmanager
def refusing(store: Store, timeline: Timeline) -> Generator[None]:
    """Turn whatever hudi-rs raises into a TableError; its panics are no `Exception`s."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, TableError):
        raise
    except BaseException as error:
        raise refusal(store, timeline, first_line(error)) from None


def refusal(store: Store, timeline: Timeline, what: str) -> TableError:
    """The error for a table that hudi-rs cannot list.

    Args:
        store: the table's root.
        timeline: its timeline.
        what: what hudi-rs says, in a line.
    """
    what = what.rstrip(".")
    if _COMMIT.search(what):
        damaged = _damaged_commit(store, timeline)
        if damaged is not None:
            path, why = damaged
            return TableError(
                f"cannot list the Hudi table {store.uri} completely: {path} {why}: restore that file, or roll its "
                "commit back with Hudi's CLI"
            )
    remedy = next((f"; {text}" for pattern, text in _REMEDIES if pattern.search(what)), "")
    return TableError(f"cannot list the Hudi table {store.uri} completely: {what}{remedy}")


def incomplete(store: Store, why: str) -> TableError:
    """The error for a table whose slices cannot be told for sure; `why` is a clause."""
    return TableError(f"cannot list the Hudi table {store.uri} completely: {why}")


def read_instant(
    store: Store, timeline: Timeline, name: str, parse: Callable[[bytes], _T], max_bytes: int = COMMIT_BYTES
) -> _T:
    """What a file of the timeline says.

    Raises:
        TableError: it cannot be understood.
        StorageError: the store refuses.
    """
    path = f"{timeline.properties.timeline_path}/{name}"
    try:
        return parse(store.get(path, max_bytes))
    except UnreadCommitError as error:
        raise incomplete(store, f"{path} {error}") from None


def _damaged_commit(store: Store, timeline: Timeline) -> tuple[str, str] | None:
    """The newest write of the timeline that cannot be read, and why."""
    for entry in reversed(tuple(timeline.finished.values())):
        if entry.action not in WRITES:
            continue
        path = f"{timeline.properties.timeline_path}/{entry.name}"
        try:
            read_commit(store.get(path, COMMIT_BYTES))
        except UnreadCommitError as error:
            return path, str(error)
        except StorageError as error:
            return path, f"cannot be read ({error})"
    return None
