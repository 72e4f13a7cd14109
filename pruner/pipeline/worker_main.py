"""The program of a worker process of `pruner.pipeline.workers`: it runs the kernel over chunks until its input ends."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import astuple
from typing import IO

from pruner.pipeline.requests import Chunk, ChunkResult, request_of, table_bytes, table_of
from pruner.pipeline.slices import run_chunk
from pruner.pipeline.workers import read_frame, write_frame


def main() -> None:
    """Serve the process that started this one."""
    # Output that a library prints must not get between the frames.
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        try:
            _serve(sys.stdin.buffer, answers)
        except (EOFError, BrokenPipeError, KeyboardInterrupt):
            os._exit(0)  # the other side is gone: nothing must be written, not even buffered output


def _serve(tasks: IO[bytes], answers: IO[bytes]) -> None:
    hello = json.loads(read_frame(tasks))
    requests = [request_of(sent) for sent in hello["requests"]]
    write_frame(answers, b"ready")
    while True:
        start = json.loads(read_frame(tasks))
        chunk = Chunk(start, table_of(read_frame(tasks)))
        _answer(answers, run_chunk(chunk, hello["options"], requests))


def _answer(answers: IO[bytes], result: ChunkResult) -> None:
    about = {
        "tables": [table is not None for table in result.tables],
        "read": result.read,
        "failures": [astuple(failure) for failure in result.failures],
    }
    write_frame(answers, json.dumps(about).encode())
    for table in result.tables:
        if table is not None:
            write_frame(answers, table_bytes(table))
