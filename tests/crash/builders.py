"""Builds that run in processes of their own and are killed there."""

from __future__ import annotations

import os
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import pruner
from pruner.pipeline import batches, slices
from tests.crash.dying import Fate


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
    """Refresh, but die by SIGKILL before disk change number `step`."""
    small_batches()
    table = pruner.open_table(place)
    with Fate(step).meeting():
        table.refresh()
    tell.send("done")


def keep_refreshing(place: str, rounds: int, tell: Connection) -> None:
    """Refresh and now and then compact, as fast as possible, beside other processes that do the same."""
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
