"""Builds that run in processes of their own and are killed there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pruner
from pruner.pipeline import batches, slices
from tests.crash.writers import STEPS


def write_files(root: Path, numbers: range) -> None:
    """Files whose values are in no other file."""
    root.mkdir(exist_ok=True)
    for i in numbers:
        columns = pa.table({"x": [2 * i, 2 * i + 1], "s": [f"v{i}", None]})
        pq.write_table(columns, root / f"{i:04}.parquet")
        os.utime(root / f"{i:04}.parquet", ns=(10**18, 10**18 + i))  # long settled


def small_batches() -> None:
    """Two slices for each chunk, and a batch for each chunk."""
    slices.CHUNK_SLICES = 2
    batches.BATCH_SLICES = 2


def refresh_and_die(place: str, step: int, tell: Connection) -> None:
    """Refresh, but die by SIGKILL at the given call of `STEPS`; a write there is done by half."""
    small_batches()
    calls = 0

    def dying(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal calls
            if calls == step:
                if name == "write":
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            calls += 1
            return real(*args, **options)

        return call

    table = pruner.open_table(place)
    real_calls = {name: getattr(os, name) for name in STEPS}
    for name, real in real_calls.items():
        setattr(os, name, dying(name, real))
    table.refresh()
    for name, real in real_calls.items():
        setattr(os, name, real)
    tell.send("done")


def keep_refreshing(place: str, rounds: int, tell: Connection) -> None:
    """Refresh and now and then compact, as fast as it goes, beside other processes that do the same."""
    small_batches()
    table = pruner.open_table(place)
    tell.send("ready")
    for number in range(rounds):
        result = table.refresh()
        assert result.failures == ()
        if number % 3 == 2:
            # Another process may have merged the same segments: then there is nothing to do.
            with suppress(pruner.ConflictError):
                table.compact()
    tell.send("done")
