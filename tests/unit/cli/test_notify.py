"""`pruner notify`: the output for a writer's hook, and that a plan of another process over the table sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pruner
from tests.unit.cli.conftest import Run


@pytest.fixture
def declared(flights: Path, tmp_path: Path) -> pruner.Table:
    """The table, named in a configuration with a feed that already has an event."""
    (tmp_path / "pruner.toml").write_text('[tables.flights]\nuri = "flights"\nfeed = "events"\n')
    pruner.notify("flights")
    return pruner.open_table("flights")


def test_a_plan_sees_what_was_named_and_nothing_else(run: Run, flights: Path, declared: pruner.Table) -> None:
    assert declared.plan("delay = 1").total == 4
    for number in (2, 3):
        (flights / f"part-{number}.parquet").unlink()
    assert declared.plan("delay = 1").total == 4
    told = run("notify", "flights", "part-2.parquet", "--output", "json")
    assert told.code == 0
    event = Path(json.loads(told.out)["event"])
    assert event.parent == flights.parent / "events"
    assert json.loads(event.read_text())["paths"] == ["part-2.parquet"]
    assert declared.plan("delay = 1").total == 3
    assert run("notify", str(flights), str(flights / "part-3.parquet")).out.endswith(": written\n")
    assert declared.plan("delay = 1").total == 2


def test_events_of_a_store_are_taken_as_they_came(
    run: Run, flights: Path, tmp_path: Path, declared: pruner.Table
) -> None:
    events = tmp_path / "queue.json"
    events.write_text(json.dumps({"Messages": [{"Body": json.dumps({"Records": []})}]}))
    assert run("notify", "flights", "--events", str(events)).code == 0
    assert len(list((tmp_path / "events").glob("*.json"))) == 2
    events.write_text('{"Messages": [')
    assert "the text is not a file of events" in run("notify", "flights", "--events", str(events)).err
    assert run("notify", "flights", "x", "--events", str(events)).code == 2
    assert run("notify", "flights", "--events", str(tmp_path / "none")).code == 2


def test_a_missing_path_is_not_an_error(run: Run, flights: Path, declared: pruner.Table) -> None:
    """A deletion looks the same, and cannot be told from a misspelled path."""
    ran = run("notify", "flights", "part-9.parquet")
    assert (ran.code, ran.err) == (0, "")
    assert declared.plan("delay = 1").total == 4


def test_what_is_wrong_is_said(run: Run, flights: Path, declared: pruner.Table) -> None:
    assert "is not below" in run("notify", "flights", "/else/a.parquet").err
    (flights.parent / "pruner.toml").unlink()
    assert "has no change feed" in run("notify", str(flights), "part-2.parquet").err
