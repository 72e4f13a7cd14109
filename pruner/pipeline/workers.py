"""Worker processes for many local files: the footers of small files cost Python time, which threads cannot share.

A worker is a fresh interpreter that communicates over its standard input and output in frames of Arrow data and JSON.
It does not import the caller's main module (which `multiprocessing` would), nothing is pickled, and a file that kills
the worker costs only that file: its chunk is halved and retried until the file is alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import IO, TYPE_CHECKING

from pruner.pipeline.requests import ChunkResult, Failure, request_json, table_bytes, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pruner.pipeline.requests import BuildRequest, Chunk

    RunChunk = Callable[[Chunk, Mapping[str, str], Sequence[BuildRequest]], ChunkResult]

_LENGTH_BYTES = 8


class WorkerDiedError(Exception):
    """A worker ended in the middle of a chunk."""


class NoWorkerError(Exception):
    """A worker ended before it was ready: no process can be started here, or not with this package."""


def run_in_workers(
    chunks: Iterable[Chunk],
    options: Mapping[str, str],
    requests: Sequence[BuildRequest],
    count: int,
    otherwise: RunChunk,
) -> Iterator[ChunkResult]:
    """Run the kernel over chunks in `count` processes; results come in any order.

    If no process can be started, `otherwise` runs the chunks in threads of this process.
    """
    workers = [Worker(options, requests, otherwise) for _ in range(count)]
    idle = list(workers)
    todo = iter(chunks)
    running: dict[Future[list[ChunkResult]], Worker] = {}
    with ThreadPoolExecutor(count) as threads:
        try:
            while True:
                while idle and (chunk := next(todo, None)) is not None:
                    worker = idle.pop()
                    running[threads.submit(worker.run, chunk)] = worker
                if not running:
                    return
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    idle.append(running.pop(future))
                    yield from future.result()
        finally:
            # Before the pool waits for its threads: a thread that waits for a worker ends with it.
            for worker in workers:
                worker.close()


class Worker:
    """One process, started for its first chunk and again after it died."""

    def __init__(
        self, options: Mapping[str, str], requests: Sequence[BuildRequest], otherwise: RunChunk
    ) -> None:
        self._options = options
        self._otherwise = otherwise
        self._hello = json.dumps(
            {"options": dict(options), "requests": [request_json(request) for request in requests]}
        ).encode()
        self._requests = requests
        self.process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def run(self, chunk: Chunk) -> list[ChunkResult]:
        """Run one chunk; if the process dies, run its halves, down to the one file that kills it."""
        try:
            return [self._ask(chunk)]
        except NoWorkerError:
            self._stop()
            return [] if self._closed else [self._otherwise(chunk, self._options, self._requests)]
        except WorkerDiedError:
            self._stop()
            if self._closed:
                return []
            halves = chunk.halves()
            if halves:
                return [result for half in halves for result in self.run(half)]
            reason = "the process that read it died: the file may be broken or too large for the memory"
            (deadly,) = chunk
            failures = [Failure(deadly.name, request.name, reason) for request in self._requests]
            return [ChunkResult(chunk.start, 1, [None] * len(self._requests), failures)]

    def close(self) -> None:
        """End the process; a chunk that is running fails."""
        self._closed = True
        self._stop()

    def _stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _ask(self, chunk: Chunk) -> ChunkResult:
        process = self._started()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            write_frame(process.stdin, json.dumps(chunk.start).encode())
            write_frame(process.stdin, table_bytes(chunk.slices))
            answer = json.loads(read_frame(process.stdout))
            tables = [table_of(read_frame(process.stdout)) if there else None for there in answer["tables"]]
        except (OSError, EOFError, ValueError) as error:
            raise WorkerDiedError from error
        failures = [Failure(*failure) for failure in answer["failures"]]
        return ChunkResult(chunk.start, len(chunk), tables, failures, answer["read"])

    def _started(self) -> subprocess.Popen[bytes]:
        if self._closed:
            raise WorkerDiedError
        if self.process is None:
            self.process = self._start()
        return self.process

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
            process = subprocess.Popen(
                [sys.executable, "-c", "from pruner.pipeline.worker_main import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
            self.process = process
            assert process.stdin is not None
            assert process.stdout is not None
            write_frame(process.stdin, self._hello)
            read_frame(process.stdout)
        except (OSError, EOFError) as error:
            raise NoWorkerError from error
        return process


def write_frame(stream: IO[bytes], data: bytes | memoryview) -> None:
    """Write one frame: its length, then its bytes."""
    stream.write(len(data).to_bytes(_LENGTH_BYTES, "little"))
    stream.write(data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes:
    """Read one frame.

    Raises:
        EOFError: the other side has ended.
    """
    length = stream.read(_LENGTH_BYTES)
    data = stream.read(int.from_bytes(length, "little")) if len(length) == _LENGTH_BYTES else b""
    if len(length) < _LENGTH_BYTES or len(data) < int.from_bytes(length, "little"):
        raise EOFError
    return data
