"""What an index would cost, reported before it is built, and indexes that are too large for their table."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import pruner
from pruner.cli.app import app
from pruner.indexes.bloom_filter.index import BloomFilter
from pruner.maintenance import build
from pruner.maintenance import estimate as estimates
from pruner.maintenance.estimate import estimate
from pruner.pipeline.requests import BuildRequest, Chunk
from pruner.pipeline.slices import run_chunk

ROWS = 2_000


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six files with a UUID in each row and one of three kinds."""
    root = tmp_path_factory.mktemp("events")
    rng = np.random.default_rng(5)
    for number in range(6):
        ids = [str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(ROWS)]
        kinds, numbers = rng.choice(["a", "b", "c"], ROWS), rng.integers(0, 9, ROWS)
        columns: dict[str, Any] = {"id": ids, "kind": kinds, "n": numbers}
        pq.write_table(pa.table(columns), root / f"part-{number}.parquet")
    return root


@pytest.fixture
def events(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pruner.Table:
    """A copy of the files; a table counts as large from the first byte."""
    monkeypatch.setattr(build, "SMALL_TABLE_BYTES", 0)
    return pruner.open_table(str(shutil.copytree(written, tmp_path / "t")))


@pytest.mark.slow
def test_the_estimate_is_about_what_is_stored(events: pruner.Table) -> None:
    told = events.create_index("ids", on=["id", "kind"], using="bitmap", dry_run=True)
    assert told is not None
    assert told.dry_run
    assert events.indexes() == ()
    found = told.estimate
    assert found is not None
    assert (found.files, found.sampled, found.rows_per_file) == (6, 4, ROWS)
    assert found.values_per_file == {"id": ROWS, "kind": 3}
    assert events.create_index("ids", on=["id", "kind"], using="bitmap", force=True) is not None
    (stored,) = events.status().indexes
    assert found.bytes == pytest.approx(stored.bytes, rel=0.1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("using", ["record_index", "bloom_filter", "bitmap"])
def test_the_estimate_holds_for_many_small_files(using: str, tmp_path: Path) -> None:
    """The keys of a few small files are below the size up to which Parquet repeats values in its footers."""
    rng = np.random.default_rng(7)
    for number in range(80):
        columns: dict[str, Any] = {
            "customer": rng.integers(0, 400_000, 200),
            "state": rng.integers(0, 50, 200),
        }
        pq.write_table(pa.table(columns), tmp_path / f"part-{number}.parquet")
    table = pruner.open_table(str(tmp_path))
    for column in ("customer", "state"):
        told = table.create_index(f"of_{column}", on=column, using=using, dry_run=True)
        assert told is not None
        assert told.estimate is not None
        table.create_index(f"of_{column}", on=column, using=using, force=True)
        stored = next(index.bytes for index in table.status().indexes if index.name == f"of_{column}")
        assert stored / 2 < told.estimate.bytes < stored * 2
        if using != "bloom_filter":
            distinct = told.estimate.values_per_file[column]
            assert distinct is not None
            assert distinct > 195 if column == "customer" else 45 <= distinct <= 50


class Waiting(BloomFilter):
    """Waits at each file, as for a store or on a busy machine."""

    def record(self, reader: Any, field: Any, options: Any) -> pa.Table:
        time.sleep(0.2)
        return super().record(reader, field, options)


class Beginning(BloomFilter):
    """Uses CPU time for the first file only, like an import at first use."""

    begun = False

    def record(self, reader: Any, field: Any, options: Any) -> pa.Table:
        if not self.begun:
            self.begun, until = True, time.process_time() + 0.3
            while time.process_time() < until:
                pass
        return super().record(reader, field, options)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", [Waiting, Beginning])
def test_seconds_are_what_each_file_takes_of_a_processor(events: pruner.Table, kind: Any) -> None:
    snapshot = events.snapshot().data
    field = snapshot.schema.find(("n",), case_sensitive=True)
    found = estimate(snapshot, snapshot.coverable, [BuildRequest(kind(), field, {}, "ns")], {})
    assert found is not None
    assert (found.files, found.sampled) == (6, 4)
    assert 0 < found.seconds < 0.3


@pytest.mark.parametrize(("dry_run", "times"), [(True, 2), (False, 1)])
def test_a_sample_is_read_again_for_its_seconds_alone(
    events: pruner.Table, monkeypatch: pytest.MonkeyPatch, dry_run: bool, times: int
) -> None:
    """A build only needs to know whether the index would be too large."""
    taken: list[int] = []

    def run(chunk: Chunk, storage_options: Mapping[str, str], requests: Sequence[BuildRequest]) -> Any:
        taken.append(chunk.start)
        return run_chunk(chunk, storage_options, requests)

    monkeypatch.setattr(estimates, "run_chunk", run)
    events.create_index("kinds", on="kind", using="bitmap", dry_run=dry_run)
    assert len(taken) == times


@pytest.mark.slow
def test_too_large_an_index_is_refused_with_the_reason(events: pruner.Table) -> None:
    with pytest.raises(pruner.IndexDefinitionError) as refused:
        events.create_index("ids", on="id", using="bitmap")
    sentence = str(refused.value)
    assert "2,000 values in 2,000 rows of a file" in sentence
    assert "bloom_filter" in sentence
    assert "force=True" in sentence
    assert events.indexes() == ()
    events.create_index("kinds", on="kind", using="bitmap")
    events.create_index("stats", on="*")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", ["true", "TRUE"])
def test_force_is_an_option_of_every_statement(events: pruner.Table, text: str) -> None:
    statement = f"CREATE INDEX ids ON t USING bitmap (id) OPTIONS (force = '{text}', max_cardinality = 5000)"
    pruner.sql(statement, tables={"t": events})
    (index,) = events.indexes()
    assert index.options == {"max_cardinality": "5000"}


def test_force_is_true_or_false(events: pruner.Table) -> None:
    with pytest.raises(pruner.IndexDefinitionError, match="give true or false"):
        events.create_index("ids", on="id", using="bitmap", options={"force": "maybe"})


@pytest.mark.slow
def test_an_index_that_exists_is_not_judged_again(events: pruner.Table) -> None:
    events.create_index("ids", on="id", using="bitmap", force=True)
    assert events.create_index("ids", on="id", using="bitmap", if_not_exists=True) is None


def test_small_tables_are_not_bothered(events: pruner.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "SMALL_TABLE_BYTES", 1 << 30)
    assert events.create_index("ids", on="id", using="bitmap") is not None


def test_files_that_cannot_be_read_are_the_builds_business(events: pruner.Table, tmp_path: Path) -> None:
    for file in (tmp_path / "t").iterdir():
        data = bytearray(file.read_bytes())
        data[4:5000] = bytes(4996)
        file.write_bytes(bytes(data))
    result = events.create_index("ids", on="id", using="bitmap")
    assert result is not None
    assert len(result.failures) == 6


@pytest.mark.slow
def test_the_command_line(events: pruner.Table) -> None:
    runner = CliRunner()
    create = f"CREATE INDEX ids ON '{events.uri}' USING bitmap (id)"
    shown = runner.invoke(app, ["sql", create, "--dry-run", "--output", "json"])
    assert shown.exit_code == 0, shown.output
    told = json.loads(shown.stdout)
    assert not told["changed"]
    assert told["refresh"]["estimate"]["values_per_file"] == {"id": ROWS}
    assert runner.invoke(app, ["sql", create]).exit_code == 1
    assert runner.invoke(app, ["sql", create, "--force"]).exit_code == 0
    assert runner.invoke(app, ["sql", "SHOW INDEXES ON t", "--dry-run"]).exit_code == 2
