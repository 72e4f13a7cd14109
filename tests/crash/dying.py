"""A signal before each disk change of a process, one change after the other.

Between two changes the disk stays the same, so a process that dies there leaves what it leaves when it dies right
before the second one. The states before each change are therefore all that a killed process can leave.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_CHANGES = ("write", "link", "unlink", "mkdir", "rmdir", "rename", "replace", "open")
"""Calls of `os` that change a folder; `open` is one if it may create a file."""


def without_waiting(_: int) -> None:
    """Replaces `os.fsync` in tests that only need a machine that stays up."""


class Fate:
    """Sends the process a signal before change number `at`, counted from 0; a write is half done.

    After SIGKILL, the default, no change follows.

    Attributes:
        changes: how many were made.
    """

    def __init__(self, at: int, sent: signal.Signals = signal.SIGKILL) -> None:
        self._at = at
        self._sent = sent
        self.changes = 0

    @contextmanager
    def meeting(self) -> Iterator[None]:
        """Count the changes made inside. Nothing is synced: a killed process leaves the same with and without it."""
        real_calls = {name: getattr(os, name) for name in (*_CHANGES, "fsync")}
        for name in _CHANGES:
            setattr(os, name, self._counted(name, real_calls[name]))
        os.fsync = without_waiting
        try:
            yield
        finally:
            for name, real in real_calls.items():
                setattr(os, name, real)

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if name == "open" and not args[1] & os.O_CREAT:
                return real(*args, **options)
            if self.changes == self._at:
                self.changes += 1
                if name == "write":
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
                os.kill(os.getpid(), self._sent)
            self.changes += 1
            return real(*args, **options)

        return call
