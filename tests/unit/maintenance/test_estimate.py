"""What an index would cost, said before it is made, and indexes that are too large for their table."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import pruner
from pruner.cli.app import app
from pruner.maintenance import build

ROWS = 2_000


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pruner.Table:
    """Six files with a UUID in each row and one of three kinds; a table counts as large from the first byte."""
    monkeypatch.setattr(build, "SMALL_TABLE_BYTES", 0)
    rng = np.random.default_rng(5)
    (tmp_path / "t").mkdir()
    for number in range(6):
        ids = [str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(ROWS)]
        kinds, numbers = rng.choice(["a", "b", "c"], ROWS), rng.integers(0, 9, ROWS)
        columns: dict[str, Any] = {"id": ids, "kind": kinds, "n": numbers}
        pq.write_table(pa.table(columns), tmp_path / "t" / f"part-{number}.parquet")
    return pruner.open_table(str(tmp_path / "t"))


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


@pytest.mark.parametrize("text", ["true", "TRUE"])
def test_force_is_an_option_of_every_statement(events: pruner.Table, text: str) -> None:
    statement = f"CREATE INDEX ids ON t USING bitmap (id) OPTIONS (force = '{text}', max_cardinality = 5000)"
    pruner.sql(statement, tables={"t": events})
    (index,) = events.indexes()
    assert index.options == {"max_cardinality": "5000"}


def test_force_is_true_or_false(events: pruner.Table) -> None:
    with pytest.raises(pruner.IndexDefinitionError, match="give true or false"):
        events.create_index("ids", on="id", using="bitmap", options={"force": "maybe"})


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
