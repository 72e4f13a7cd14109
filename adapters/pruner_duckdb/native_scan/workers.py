"""The threads that answer what DuckDB asks while it plans."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pruner.errors import PrunerError
from pruner_duckdb.catalog.pinned import failure
from pruner_duckdb.shadow.shadow import readable_json

if TYPE_CHECKING:
    from pruner_duckdb.native_scan.library import Library

Answerer: TypeAlias = "Callable[[dict[str, Any]], Sequence[str]]"
"""Answers a question by the fields of an answer."""

MOST_THREADS = 16
"""A question that finds all threads busy waits for one of them."""

PATIENCE = 30.0
"""Seconds after which DuckDB no longer waits for a plan, and reads all files."""

_SETTLED = 10.0
"""Seconds after which nobody waits any longer for messages to be processed."""


class Workers:
    """Takes questions and answers them, by as many threads as there are questions at once."""

    def __init__(self, library: Library, answer: Answerer) -> None:
        self._library = library
        self._answer = answer
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        library.open(PATIENCE)
        atexit.register(self._end)
        self._begin()

    def settle(self) -> None:
        """Wait until everything that was told up to now is known."""
        self._library.settle(_SETTLED)

    def _begin(self) -> None:
        with self._lock:
            if len(self._threads) < MOST_THREADS:
                thread = threading.Thread(target=self._work, name="pruner-native-scan", daemon=True)
                thread.start()
                self._threads.append(thread)

    def _end(self) -> None:
        """Let the threads go, which would hold on to what they know while the process ends."""
        self._library.close()
        until = time.monotonic() + 1.0
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _work(self) -> None:
        text, length, idle = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int32()
        places = ctypes.byref(text), ctypes.byref(length), ctypes.byref(idle)
        take, answer = self._library.take, self._library.answer
        while number := take(*places):
            if idle.value == 0:
                # A thread that cannot be started (at the end of the process) leaves the work to this one.
                with contextlib.suppress(RuntimeError):
                    self._begin()
            given = self._answered(ctypes.string_at(text.value or 0, length.value))
            answer(number, given, len(given))

    def _answered(self, question: bytes) -> bytes:
        """The fields of the answer; it never raises, since DuckDB waits for it."""
        try:
            fields = ["ok", *self._answer(readable_json(question.decode()))]
        except BaseException as error:  # panics of libraries in Rust are none of Exception
            told = _told(error)
            fields = ["error", told.replace("\0", " ")]
        return "\0".join(fields).encode("utf-8", "surrogateescape")


def _told(error: BaseException) -> str:
    """The reason that users read; a table that cannot be listed has a sentence of its own."""
    if isinstance(error, PrunerError):
        return str(error)
    return failure(error) if isinstance(error, Exception) else f"planning failed ({error!r})"


class Numbers:
    """Numbers that no two callers get."""

    def __init__(self) -> None:
        self._count = itertools.count(1)

    def next(self) -> str:
        """One more, as text."""
        return str(next(self._count))
