"""Running readers: each in its own process and environment, with a time limit, and watched."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from threading import Event, Thread, Timer
from types import MappingProxyType
from typing import Any, Final

import pruner
from benchmarks.peers.results import TOO_SLOW, Contender
from referee.run import Reader, readers
from tools.cache import cache_dir
from tools.trino import distribution

HERE: Final = Path(__file__).resolve().parent
CHECKOUT: Final = os.pathsep.join((str(HERE.parents[1]), str(HERE.parents[1] / "adapters")))
ENGINES: Final = ("spark", "pruned-spark", "trino", "pruned-trino")
"""Readers of `engine_readers.py`, in pruner's own environment."""
OURS: Final = ("pruner", "pruned-spark", "pruned-trino")
"""Readers that are given the indexes of pruner."""
ALSO: Final = (
    Reader("hudi", "hudi==0.5.0", ("hudi",), ("pyarrow==26.0.1",)),
    Reader(
        "polars",
        "polars==2.1.0",
        ("iceberg",),
        ("polars-iceberg==0.1.0", "pyiceberg[pyarrow]==0.12.0"),
    ),
)
"""Readers that the referee does not use, and those that plan faster with an additional package."""


class Asked:
    """A running reader; if an answer takes longer than `patience`, it is killed and restarted."""

    def __init__(
        self,
        title: str,
        command: Sequence[str],
        patience: float,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.title = title
        self._command = command
        self._environment = {**os.environ, **environment}
        self._patience = patience
        self._location: str | None = None
        self._process = self._start()

    def open(self, location: str) -> dict[str, Any]:
        """Have it open the table; return seconds, and the error if there is one."""
        self._location = location
        return self._tell({"open": location})

    def ask(self, workload: str, values: dict[str, Any]) -> dict[str, Any]:
        """Return its answer: rows or an error, and seconds."""
        return self._tell({"ask": workload, "values": values})

    def start_anew(self, *, opened: bool = True) -> None:
        """End it and start a new process, with the table open: after an error it may no longer answer anything."""
        self._kill()
        self._process.wait()
        self._process = self._start()
        if opened and self._location is not None:
            self.open(self._location)

    def end(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _start(self) -> subprocess.Popen[str]:
        started = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=HERE.parents[1],
            start_new_session=True,
            env=self._environment,
        )
        assert started.stdout is not None
        if not started.stdout.readline():
            raise SystemExit(f"{self.title} ended with {started.wait()}: its error stands above")
        return started

    def _kill(self) -> None:
        """End it and the servers that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _tell(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        begun = time.monotonic()
        ended = Timer(self._patience, self._kill)
        ended.start()
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        ended.cancel()
        if time.monotonic() - begun < self._patience:
            if not line:
                raise SystemExit(f"{self.title} ended with {self._process.wait()}: its error stands above")
            return json.loads(line)
        self.start_anew(opened="open" not in question)
        return {"error": TOO_SLOW}


@contextmanager
def reader_of(
    contender: Contender,
    options: dict[str, Any],
    *,
    patience: float,
    apart: bool = True,
    python: Path | None = None,
) -> Iterator[Asked]:
    """Run a reader in its own environment, which is created when first needed.

    Args:
        contender: the reader.
        options: further arguments beside its own.
        patience: seconds to wait for an answer.
        apart: whether it runs in its own environment, or in this one.
        python: another interpreter for it, which finds pruner in this checkout.
    """
    found = _environment(contender) if apart else None
    own = found[0].python(found[1]) if found else sys.executable
    told = json.dumps({**contender.options, **options})
    module = ["-m", "benchmarks.peers.engine_readers"]
    program = module if contender.reader in ENGINES else [str(HERE / "readers.py")]
    command = [str(python or own), *program, contender.reader, told]
    asked = Asked(contender.title, command, patience, {"PYTHONPATH": CHECKOUT} if python else {})
    try:
        yield asked
    finally:
        asked.end()


def version(contender: Contender) -> str:
    """The version of a reader in its environment; pruner's own if it is pruner in an engine."""
    if contender.reader == "spark":
        return metadata.version("pyspark")
    if contender.reader == "trino":
        return distribution.VERSION
    found = _environment(contender)
    return found[0].title.rpartition(" ")[2] if found else pruner.__version__


def _environment(contender: Contender) -> tuple[Reader, Path] | None:
    """The newest environment in which a reader reads the format, and its path; None for pruner's own."""
    if contender.reader in ENGINES:  # the referee runs Spark in its own environment
        return None
    for known, folder in ((ALSO, "head-to-head"), (readers(), "referee")):
        for each in reversed(known):
            if each.name == contender.reader and contender.kind in each.formats:
                return each, cache_dir() / folder
    return None


_IN_OPEN: Final = 0x20
_OVERFLOW: Final = 0x4000
_EVENT: Final = struct.Struct("iIII")


@contextmanager
def opened_in(folder: Path) -> Iterator[set[str]]:
    """The names of the data files in a folder that any process opens within the block, complete at its end."""
    libc = ctypes.CDLL(None, use_errno=True)
    watching = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if watching < 0 or libc.inotify_add_watch(watching, os.fsencode(folder), _IN_OPEN) < 0:
        raise OSError(ctypes.get_errno(), f"inotify cannot watch {folder}")
    names, ended = set[str](), Event()

    def read() -> None:
        while not ended.wait(0.001):
            _read_events(watching, names)

    thread = Thread(target=read)
    thread.start()
    try:
        yield names
    finally:
        ended.set()
        thread.join()
        _read_events(watching, names)
        os.close(watching)


def _read_events(watching: int, names: set[str]) -> None:
    """Read what the kernel has queued: at most 16,384 events; beyond that it reports that it lost some."""
    while True:
        try:
            data = os.read(watching, 1 << 20)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, at)
            assert not mask & _OVERFLOW, "more files were opened than the kernel could tell"
            name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0").decode()
            if name.endswith(".parquet"):
                names.add(name)
            at += _EVENT.size + length
