"""How long what nobody names stays before a vacuum deletes it, and how old it may be to be committed all the same."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from pruner.errors import PrunerError, StorageError

if TYPE_CHECKING:
    from pruner.storage.store import Store

GRACE_SECONDS = 7 * 24 * 3600.0
"""How long leftovers and old log entries stay: longer than the longest writer may run."""

COMMITTED_WITHIN_SECONDS = GRACE_SECONDS - 24 * 3600.0
"""How old a segment may be when it is committed.

A vacuum reads the log first and deletes what it saw as an old leftover afterwards. A segment that is committed in
between must therefore be too young for any vacuum that did not see the commit. The day is for the time that a vacuum
takes, for clocks that differ, and for a writer that is held up between this check and its commit.
"""


def is_too_old(store: Store, written_ns: int) -> bool:
    """Tell whether a segment was written too long ago to be committed.

    The clock that counts is the store's; it is asked only where this machine's clock says so.
    """
    limit_ns = int(COMMITTED_WITHIN_SECONDS * 1e9)
    return time.time_ns() - written_ns > limit_ns and store_time_ns(store) - written_ns > limit_ns


def store_time_ns(store: Store) -> int:
    """Return the time by the clock that stamps the store's objects, which need not be this machine's."""
    path = f"staging/{uuid.uuid4().hex}"
    store.put_new(path, b"")
    try:
        info = store.info(path)
    finally:
        store.delete([path])
    if info is None:
        raise StorageError(f"{store.uri} does not keep what is written there")
    return info.mtime_ns


def checked_grace(grace_seconds: float) -> float:
    """Return a grace that was given.

    Raises:
        PrunerError: it is no number of seconds from 0 on.
    """
    if not grace_seconds >= 0:  # NaN is no age either
        raise PrunerError(f"grace_seconds must be a number of seconds, 0 or more, not {grace_seconds!r}")
    return grace_seconds
