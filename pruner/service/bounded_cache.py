"""A cache with a bound in bytes; what was used longest ago goes first."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")

ENTRY_BYTES = 512
"""What an entry takes besides its content: objects, key and place in the mapping, rounded up."""


class BoundedCache(Generic[Value]):
    """Values by id up to a number of bytes. Threads may share it."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._values: OrderedDict[str | bytes, tuple[Value, int]] = OrderedDict()
        self._held = 0
        self._lock = Lock()

    def put(self, key: str | bytes, value: Value, size: int) -> None:
        """Remember a value of `size` bytes in place of an earlier one; the oldest others make room."""
        with self._lock:
            self._take_out(key)
            self._values[key] = value, size + ENTRY_BYTES
            self._held += size + ENTRY_BYTES
            while self._held > self._limit and len(self._values) > 1:
                self._held -= self._values.popitem(last=False)[1][1]

    def get(self, key: str | bytes) -> Value | None:
        """The value, which now counts as used last; None where it was forgotten or never known."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def drop(self, key: str | bytes) -> None:
        """Forget a value, if it is known."""
        with self._lock:
            self._take_out(key)

    def _take_out(self, key: str | bytes) -> None:
        if key in self._values:
            self._held -= self._values.pop(key)[1]
