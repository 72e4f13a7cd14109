"""What indexes have saved in this process: nothing of it is stored, so it begins anew with each process."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Saved(NamedTuple):
    """Plans that asked an index, and slices that it dropped in them, together with indexes that it was asked with.

    `idle` counts the newest of these plans, since the last one in which it dropped something.
    """

    plans: int = 0
    dropped: int = 0
    idle: int = 0


class Usage:
    """Counts, by the names of indexes. Threads may share it."""

    def __init__(self) -> None:
        self._saved: dict[str, Saved] = {}
        self._lock = Lock()

    def add(self, dropped: Mapping[str, int]) -> None:
        """Count one plan: the slices that each index which was asked dropped in it."""
        with self._lock:
            for name, count in dropped.items():
                before = self.of(name)
                idle = 0 if count else before.idle + 1
                self._saved[name] = Saved(before.plans + 1, before.dropped + count, idle)

    def of(self, name: str) -> Saved:
        """What one index saved."""
        return self._saved.get(name, Saved())
