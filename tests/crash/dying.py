"""A signal before each change that a process makes on the disk, one after the other.

Between two changes the disk is the same, so a process that dies there leaves what it leaves before the second one. All
changes together are therefore everything that a killed process can leave.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_CHANGES = ("write", "link", "unlink", "mkdir", "rmdir", "rename", "replace", "open")
"""Calls of `os` that change a folder; `open` is one where it may create a file."""


def without_waiting(_: int) -> None:
    """In the place of `os.fsync`, where a machine that stays up is all that is asked for."""


class Fate:
    """Sends the process a signal before the change with the number `at`, counted from 0; a write is done by half.

    SIGKILL, which is meant unless another one is given, leaves no change after that.

    Attributes:
        changes: how many were made.
    """

    def __init__(self, at: int, sent: signal.Signals = signal.SIGKILL) -> None:
        self._at = at
        self._sent = sent
        self.changes = 0

    @contextmanager
    def meeting(self) -> Iterator[None]:
        """Count what happens inside. Nothing is synced: whoever is killed leaves the same with and without."""
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
