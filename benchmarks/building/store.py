"""The metadata table on disk and in an S3-compatible store: commits per second, requests of a plan, many segments."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

import pruner
from benchmarks.timing import medians
from pruner.errors import ConflictError
from pruner.metadata import MetadataTable
from pruner.pipeline import batches, slices
from pruner.storage.opening import open_store
from tests.support.stores.proxy import proxied
from tests.unit.metadata.s3_server import serve

SECONDS = 5.0
WRITERS = (1, 4, 16)
LATENCY = 0.02
"""Latency of a request to the store in seconds, as within one region."""
SEGMENTS = 1000
Place = tuple[str, dict[str, str]]


def run(console: Console) -> None:
    """Measure all three."""
    with _places() as places:
        _commits(console, places)
    _segments(console)


@contextmanager
def _places() -> Iterator[dict[str, Place]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        serve(page=1000) as (options, _),
        proxied(options) as (distant, proxy),
    ):
        proxy.latency = LATENCY
        yield {
            "disk": (folder, {}),
            "S3, this machine": ("s3://bucket/near", options),
            f"S3, {LATENCY * 1e3:.0f} ms a request": ("s3://bucket/far", distant),
        }


def _commits(console: Console, places: dict[str, Place]) -> None:
    grid = Grid(title=f"commits a second, by writers that all want to commit; {SECONDS:.0f} s each")
    for heading in ("store", *(f"{writers} writers" for writers in WRITERS)):
        grid.add_column(heading)
    for name, (place, options) in places.items():
        row = [_committed(f"{place}/{writers}", options, writers) for writers in WRITERS]
        grid.add_row(name, *(f"{done / SECONDS:.1f} ({lost} gave up)" for done, lost in row))
    console.print(grid)


def _committed(place: str, options: dict[str, str], writers: int) -> tuple[int, int]:
    """Commits that succeeded and that gave up; each that succeeded is one version of the log."""
    until = time.monotonic() + SECONDS
    done, lost = [0] * writers, [0] * writers

    def write(writer: int) -> None:
        table = MetadataTable(open_store(place, options))
        while time.monotonic() < until:
            try:
                table.commit(lambda state: msgspec.structs.replace(state, table_identity=f"by {writer}"))
                done[writer] += 1
            except ConflictError:
                lost[writer] += 1

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    version = MetadataTable(open_store(place, options)).state().version
    assert version == sum(done), "nothing is lost and nothing doubled"
    return sum(done), sum(lost)


def _segments(console: Console) -> None:
    grid = Grid(title=f"a metadata table of {SEGMENTS:,} segments, opened and asked; median ms of 5")
    for heading in ("", "before compaction", "after"):
        grid.add_column(heading)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "t"
        root.mkdir()
        for number in range(SEGMENTS // 2):
            pq.write_table(pa.table({"x": [number]}), root / f"{number:04}.parquet")
        table = pruner.open_table(root)
        with mock.patch.object(slices, "CHUNK_SLICES", 1), mock.patch.object(batches, "BATCH_SLICES", 1):
            table.create_index("i", on="x")

        def first() -> int:
            return pruner.open_table(root).plan("x = 7").kept

        state = MetadataTable(open_store(table.index_uri)).state()
        assert len(state.segments) == SEGMENTS
        before = _median(first)
        table.compact()
        grid.add_row("open and plan", f"{before * 1e3:.0f}", f"{_median(first) * 1e3:.0f}")
    console.print(grid)


def _median(call: Callable[[], int]) -> float:
    assert call() == 1
    return medians({"": call}, 5)[""]
