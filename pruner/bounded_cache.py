"""A cache with a bound in bytes that evicts the least recently used values first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

ENTRY_BYTES = 512
"""Bytes that an entry takes besides its content: objects, key and slot in the mapping, rounded up."""


class BoundedCache(Generic[Key, Value]):
    """Values by key, up to a number of bytes; the newest is kept whatever its size. Threads may share it."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._held = 0
        self._lock = Lock()

    def put(self, key: Key, value: Value, size: int) -> Value:
        """Store a value of `size` bytes, replacing an earlier one, and return it; the oldest others make room."""
        with self._lock:
            self._take_out(key)
            self._values[key] = value, size + ENTRY_BYTES
            self._held += size + ENTRY_BYTES
            while self._held > self._limit and len(self._values) > 1:
                self._held -= self._values.popitem(last=False)[1][1]
        return value

    def get(self, key: Key) -> Value | None:
        """The value, which becomes the most recently used; None if it was evicted or never stored."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def drop(self, key: Key) -> None:
        """Remove a value, if it is there."""
        with self._lock:
            self._take_out(key)

    def sizes(self) -> list[tuple[Key, int]]:
        """The keys with the sizes of their values in bytes, the least recently used first."""
        with self._lock:
            return [(key, size - ENTRY_BYTES) for key, (_, size) in self._values.items()]

    def _take_out(self, key: Key) -> None:
        if key in self._values:
            self._held -= self._values.pop(key)[1]
