"""What a worker process of `pruner.pipeline.workers` does: it runs the kernel over chunks until its input ends."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import astuple
from typing import IO

import pyarrow as pa

from pruner.pipeline.local import run_chunk
from pruner.pipeline.requests import Chunk, ChunkResult
from pruner.pipeline.workers import read_frame, request_of, write_frame


def main() -> None:
    """Serve the process that started this one."""
    # Whatever a library prints must not stand between the frames.
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        try:
            _serve(sys.stdin.buffer, answers)
        except (EOFError, BrokenPipeError, KeyboardInterrupt):
            os._exit(0)  # the other side is gone: nothing is left to write, not even what is buffered


def _serve(tasks: IO[bytes], answers: IO[bytes]) -> None:
    hello = json.loads(read_frame(tasks))
    requests = [request_of(sent) for sent in hello["requests"]]
    write_frame(answers, b"ready")
    while True:
        result = run_chunk(Chunk(*json.loads(read_frame(tasks))), hello["options"], requests)
        _answer(answers, result)


def _answer(answers: IO[bytes], result: ChunkResult) -> None:
    about = {
        "tables": [table is not None for table in result.tables],
        "failures": [astuple(failure) for failure in result.failures],
    }
    write_frame(answers, json.dumps(about).encode())
    for table in result.tables:
        if table is not None:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            write_frame(answers, memoryview(sink.getvalue()))
