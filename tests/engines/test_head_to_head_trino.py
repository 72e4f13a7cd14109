"""Trino in `python -m benchmarks head-to-head`, at a small size: its answers, and the files that it opens for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.lakes.events import Events, FileFormat, Lake
from benchmarks.peers.engine_readers import Trino, known_to_service
from benchmarks.peers.head_to_head import build
from benchmarks.peers.questions import WORKLOADS
from tests.support.cases.head_to_head import opened_for
from tests.support.service.planner import running_service
from tests.support.trino.server import aged

if TYPE_CHECKING:
    from tests.support.trino.server import Trino as Server

FILES, ROWS = 6, 50
pytestmark = pytest.mark.trino


@pytest.fixture
def services() -> Iterator[ExitStack]:
    with ExitStack() as running:
        yield running


@pytest.mark.parametrize("kind", ["parquet", "iceberg"])
def test_trino_answers_alone_and_with_pruner(
    trino: Server, kind: FileFormat, tmp_path: Path, services: ExitStack
) -> None:
    """Without Hudi, whose table Spark would have to write first."""
    lake = Lake(tmp_path, Events(FILES, ROWS))
    lake.write()
    aged(lake.folder)
    build(lake, kind)

    def plans(location: str) -> None:
        config = tmp_path / "pruner.toml"
        index = f"{lake.folder}/{kind}.index"
        config.write_text(known_to_service(kind, location, index, f"pruned_{kind}_events"))
        trino.gate.target = services.enter_context(running_service(config))
        trino.gate.forget()

    some: Iterable[str] = ("key", "window")
    for known, asked in ((None, some), (plans, WORKLOADS if kind == "parquet" else some)):
        schema = f"{'pruned' if known else 'plain'}_{kind}_events"
        reader = Trino(trino.client, trino.metastore, kind, known, schema)
        reader.open(lake.location(kind))
        opened = opened_for(asked, reader, lake, kind)
        # Trino's Iceberg connector caches small files in memory: which ones it reads cannot be seen.
        if known is not None and kind == "parquet":
            assert opened["key"] == 1
            assert opened["window"] <= 2
            assert opened["nothing"] == FILES
