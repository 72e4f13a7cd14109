"""The compiled extension: where it is, whether it fits, its functions, and the threads that answer its questions while
DuckDB plans.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import hashlib
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import duckdb

from pruner.errors import PrunerError
from pruner_duckdb.catalog.tables import failure
from pruner_duckdb.shadow.shadow import readable_json
from pruner_duckdb.types import quote_text

FOLDER = Path(__file__).parent
SOURCES = FOLDER / "source"
NAME = "pruner.duckdb_extension"

SERVED_VERSIONS = frozenset(["2.0.0", "2.0.1"])
"""Versions of DuckDB that the sources support: they use classes that change between versions."""

SWITCHED_OFF = "PRUNER_NATIVE_SCAN"
"""Environment variable that keeps the extension from being loaded if it is `off`."""

_lock = threading.Lock()


class NoExtensionError(Exception):
    """The extension cannot be used; the message is the reason."""


def fingerprint() -> str:
    """A hash of our own sources from which the extension is compiled."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.glob("*.[ch]pp")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def place(version: str, platform: str) -> Path:
    """The path of the extension for a version and platform of DuckDB."""
    return FOLDER / "built" / f"{version}-{platform}" / NAME


@cache
def platform() -> str:
    """The platform as DuckDB names it."""
    with duckdb.connect(":memory:") as con:
        row = con.execute("PRAGMA platform").fetchone()
    return str(row[0]) if row else ""


class Library:
    """The functions of a loaded extension."""

    def __init__(self, path: Path) -> None:
        library: Any = ctypes.CDLL(str(path))
        self.take: Any = library.pruner_take
        self.take.restype = ctypes.c_uint64
        self.take.argtypes = [
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.POINTER(ctypes.c_uint64),
            ctypes.POINTER(ctypes.c_int32),
        ]
        self.answer: Any = library.pruner_answer
        self.answer.restype = None
        self.answer.argtypes = [ctypes.c_uint64, ctypes.c_char_p, ctypes.c_uint64]
        self.settle: Any = library.pruner_settle
        self.settle.restype = None
        self.settle.argtypes = [ctypes.c_double]
        self.open: Any = library.pruner_open
        self.close: Any = library.pruner_close
        self.forget: Any = library.pruner_forget
        for function, arguments in (
            (self.open, [ctypes.c_double]),
            (self.close, []),
            (self.forget, []),
        ):
            function.restype = None
            function.argtypes = arguments
        library.pruner_sources.restype = ctypes.c_char_p
        self.sources = str(library.pruner_sources().decode())


def reason_against() -> str | None:
    """Why there is no extension to load; None if there is one."""
    if os.environ.get(SWITCHED_OFF, "").lower() == "off":
        return f"{SWITCHED_OFF} is off"
    if sys.platform != "linux":
        return f"the extension was never tried on {sys.platform}"
    if not place(duckdb.__version__, platform()).is_file():
        return (
            f"this installation has no extension for DuckDB {duckdb.__version__} on {platform()} ({_built()})"
        )
    if duckdb.__version__ not in SERVED_VERSIONS:
        return f"the extension is not made for DuckDB {duckdb.__version__}"
    return None


def _built() -> str:
    """Which extensions an installation has instead, or how to build one."""
    built = sorted(path.parent.name for path in (FOLDER / "built").glob(f"*/{NAME}"))
    if built:
        return f"it has {', '.join(built)}"
    return f"it has none: in a checkout `make setup` builds the one for {', '.join(sorted(SERVED_VERSIONS))}"


def load(con: duckdb.DuckDBPyConnection) -> Library:
    """Load the extension into a database that allows unsigned ones.

    Raises:
        NoExtensionError: it cannot be loaded, or was not built from this package's sources.
    """
    reason = reason_against()
    if reason is not None:
        raise NoExtensionError(reason)
    path = place(duckdb.__version__, platform())
    with _lock:
        _show_symbols()
        try:
            con.execute(f"LOAD {quote_text(str(path))}")
            library = Library(path)
        except (duckdb.Error, OSError, AttributeError) as error:
            first_line = str(error).strip().split("\n", 1)[0]
            raise NoExtensionError(f"the extension cannot be loaded ({first_line})") from error
    if library.sources != fingerprint():
        raise NoExtensionError("the extension was built from other sources: run `make setup`")
    return library


def forget_answers() -> None:
    """Clear the loaded extension's cache of answers, for measurements."""
    Library(place(duckdb.__version__, platform())).forget()


@cache
def _show_symbols() -> None:
    """Make DuckDB's functions visible to the extension: Python loads them with local scope."""
    import _duckdb

    path = getattr(_duckdb, "__file__", None)
    if path is not None:
        ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_GLOBAL | os.RTLD_NOLOAD)


Answerer: TypeAlias = "Callable[[dict[str, Any]], Sequence[str]]"
"""Returns the fields of the answer to a question."""

MOST_THREADS = 16
"""A question that finds all threads busy waits for one of them."""

PATIENCE = 30.0
"""Seconds after which DuckDB no longer waits for a plan, and reads all files."""

_SETTLED = 10.0
"""Most seconds to wait for messages to be processed."""


class Workers:
    """Answers questions, with as many threads as there are concurrent questions."""

    def __init__(self, library: Library, answer: Answerer) -> None:
        self._library = library
        self._answer = answer
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        library.open(PATIENCE)
        atexit.register(self._end)
        self._begin()

    def settle(self) -> None:
        """Wait until all messages sent so far have been processed."""
        self._library.settle(_SETTLED)

    def _begin(self) -> None:
        with self._lock:
            if len(self._threads) < MOST_THREADS:
                thread = threading.Thread(target=self._work, name="pruner-native-scan", daemon=True)
                thread.start()
                self._threads.append(thread)

    def _end(self) -> None:
        """Stop the threads, which would keep their objects alive while the process ends."""
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
                # If a thread cannot be started (while the process ends), this one does the work.
                with contextlib.suppress(RuntimeError):
                    self._begin()
            given = self._answered(ctypes.string_at(text.value or 0, length.value))
            answer(number, given, len(given))

    def _answered(self, question: bytes) -> bytes:
        """The fields of the answer; never raises an error, since DuckDB waits for it."""
        try:
            fields = ["ok", *self._answer(readable_json(question.decode()))]
        except BaseException as error:  # panics of Rust libraries are not subclasses of Exception
            told = _told(error)
            fields = ["error", told.replace("\0", " ")]
        return "\0".join(fields).encode("utf-8", "surrogateescape")


def _told(error: BaseException) -> str:
    """The reason shown to users; errors of pruner have their own message."""
    if isinstance(error, PrunerError):
        return str(error)
    return failure(error) if isinstance(error, Exception) else f"planning failed ({error!r})"


class Numbers:
    """Issues unique numbers."""

    def __init__(self) -> None:
        self._count = itertools.count(1)

    def next(self) -> str:
        """The next number, as text."""
        return str(next(self._count))
