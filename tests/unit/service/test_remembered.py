"""Repeated requests: answered from memory, and never with what was true of another state of the table."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.service.journal import KEPT_SECONDS, PlannedAnswer, PlanOutcome, Remembered
from tests.unit.service.conftest import FILES, Client

MADE = PlannedAnswer(PlanOutcome("id", "t", "trino", "n = ?", 1, 2, (), ()), b"answer", "keys", lambda: None)


def _ask(client: Client, text: str = "n = 42", **session: str) -> dict[str, Any]:
    predicate = {"form": "sql", "text": text}
    asked = {"table": "numbers", "session": {"engine": "trino", **session}, "predicate": predicate}
    answer = client.post("/v1/plan", asked)
    assert answer.status == 200
    return answer.json


def test_the_same_request_gets_the_same_answer(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="pruner"):
        first, second = _ask(client), _ask(client)
    assert first == second
    lines = [record.getMessage() for record in caplog.records if "files kept" in record.getMessage()]
    assert ["again" in line for line in lines] == [False, True]
    assert client.get(f"/v1/plans/{second['plan_id']}").status == 200


def test_a_request_that_differs_in_anything_is_planned(client: Client) -> None:
    asked = [_ask(client), _ask(client, "n = 43"), _ask(client, version="483"), _ask(client, zone="UTC")]
    assert len({answer["plan_id"] for answer in asked}) == len(asked)


def test_a_change_of_the_table_is_seen_at_once(client: Client, lake: Path) -> None:
    """A new file, a rewritten one, a removed one: the plan is made again each time."""
    assert (_ask(client)["kept"], _ask(client)["kept"]) == (1, 1)
    pq.write_table(pa.table({"n": [42]}), lake / "new.parquet")
    assert _ask(client)["kept"] == 2
    pq.write_table(pa.table({"n": [42, 42]}), lake / "part-07.parquet")
    assert _ask(client)["kept"] == 3
    (lake / "part-04.parquet").unlink()
    assert (_ask(client)["kept"], _ask(client)["total"]) == (2, FILES)


def test_a_change_of_the_indexes_is_seen_at_once(client: Client, lake: Path) -> None:
    table = pruner.open_table(lake)
    table.drop_index("stats")
    assert _ask(client)["kept"] == FILES
    table.create_index("stats", on="n")
    assert _ask(client)["kept"] == 1


def test_answers_are_forgotten_after_a_while_and_with_the_snapshot(lake: Path) -> None:
    """Memory holds answers about one state of a table only."""
    now = [0.0]
    remembered = Remembered(clock=lambda: now[0])
    table = pruner.open_table(lake)
    before = table.snapshot()
    remembered.remember("t", before, b"asked", MADE)
    assert remembered.made("t", table.snapshot(), b"asked") is MADE
    assert remembered.made("t", before, b"asked otherwise") is None
    assert remembered.made("other", before, b"asked") is None
    now[0] = KEPT_SECONDS
    assert remembered.made("t", before, b"asked") is None
    remembered.remember("t", before, b"asked", MADE)
    assert remembered.made("t", before, b"asked") is MADE
    (lake / "part-00.parquet").unlink()
    after = table.snapshot()
    assert remembered.made("t", after, b"asked") is None
    remembered.remember("t", after, b"asked", MADE)
    assert remembered.made("t", before, b"asked") is None
