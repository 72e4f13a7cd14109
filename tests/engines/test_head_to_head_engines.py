"""Spark and Trino in `python -m benchmarks head-to-head`, at a small size: answers, files, and time below a process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.lakes.events import Events, FileFormat, Lake
from benchmarks.peers import engine_readers
from benchmarks.peers.engine_readers import Spark, Trino, known_to_service
from benchmarks.peers.head_to_head import CONTENDERS, Truth, build, chosen
from benchmarks.peers.questions import WORKLOADS, Reader
from benchmarks.peers.running import ENGINES, opened_in
from tests.support.service.planner import running_service
from tests.support.trino.server import aged
from tools.spark_sessions import iceberg_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.trino.server import Trino as Server

FILES = 12
ALL: Sequence[FileFormat] = ("parquet", "delta", "iceberg", "hudi")
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(tmp_path_factory.mktemp("engines"), Events(FILES, 50))
    lake.write()
    lake.write_hudi(spark)
    aged(lake.folder)
    for kind in ALL:
        build(lake, kind)
    return lake


@pytest.fixture
def services() -> Iterator[ExitStack]:
    with ExitStack() as running:
        yield running


def _index(lake: Lake, kind: FileFormat) -> str:
    return str(lake.folder / f"{kind}.index")


def _asked(reader: Reader, lake: Lake, kind: FileFormat) -> dict[str, int]:
    """The number of files that a reader opens for each question; its answers must be right."""
    truth, opened = Truth(lake.events), dict[str, int]()
    for workload in WORKLOADS:
        values = truth.values(workload, 0)
        with opened_in(lake.data(kind)) as names:
            rows = reader.ask(workload, values)
        assert rows is not None
        truth.check(workload, values, rows, f"{type(reader).__name__} of {kind}")
        opened[workload] = len(names)
    return opened


@pytest.mark.parametrize("kind", ALL)
def test_spark_answers_alone_and_with_pruner(
    spark: SparkSession, delta: SparkSession, lake: Lake, kind: FileFormat, tmp_path: Path
) -> None:
    session = {"delta": delta, "iceberg": iceberg_session(spark, tmp_path)}.get(kind, spark)
    for index in (None, _index(lake, kind)):
        reader = Spark(session, kind, index)
        reader.open(lake.location(kind))
        opened = _asked(reader, lake, kind)
        assert opened["nothing"] == FILES
        if index is not None:
            assert opened["key"] == 1
            assert opened["window"] <= 2


@pytest.mark.trino
@pytest.mark.parametrize("kind", ["parquet", "iceberg", "hudi"])
def test_trino_answers_alone_and_with_pruner(
    trino: Server, lake: Lake, kind: FileFormat, tmp_path: Path, services: ExitStack
) -> None:
    def plans(location: str) -> None:
        config = tmp_path / "pruner.toml"
        config.write_text(known_to_service(kind, location, _index(lake, kind), f"pruned_{kind}_events"))
        trino.gate.target = services.enter_context(running_service(config))
        trino.gate.forget()

    for known in (None, plans):
        schema = f"{'pruned' if known else 'plain'}_{kind}_events"
        reader = Trino(trino.client, trino.metastore, kind, known, schema)
        reader.open(lake.location(kind))
        opened = _asked(reader, lake, kind)
        if kind == "iceberg":
            continue  # Trino's connector holds small files in memory: which ones it reads is not seen
        assert opened["nothing"] == FILES
        if known is not None:
            assert opened["key"] == 1
            assert opened["window"] <= 2


def test_the_processor_time_of_a_reader_is_also_that_of_what_it_has_started() -> None:
    program = "sum(range(10_000_000)); print(flush=True); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True) as busy:
        engine_readers._below.cache_clear()  # pyright: ignore[reportPrivateUsage]
        own, before = time.process_time(), engine_readers.processor()
        assert busy.stdout is not None
        busy.stdout.readline()
        spent = engine_readers.processor() - before
        own = time.process_time() - own
        busy.communicate("\n")
    engine_readers._below.cache_clear()  # pyright: ignore[reportPrivateUsage]
    assert spent > own + 0.05


def test_engines_are_asked_about_lakes_that_they_read_in_time() -> None:
    engines = [each for each in CONTENDERS if each.reader in ENGINES]
    assert {each.kind for each in engines if each.reader == "pruned-spark"} == set(ALL)
    assert {each.kind for each in engines if each.reader == "pruned-trino"} == {"parquet", "iceberg", "hudi"}
    assert all(each in chosen(1_000, ()) for each in engines)
    assert not any(each in chosen(10_000, ()) for each in engines)
    assert {each.title for each in chosen(10_000, ["Spark"])} == {"Spark", "pruner in Spark"}
