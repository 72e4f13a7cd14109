"""The scans of one query in one request: the plans that each would get alone, none delayed by another's table."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.service import Limits, Settings
from pruner.service.planning import Looked, Planning, UnreadableError
from pruner.service.together import MOST_SCANS
from tests.support.running.patience import PATIENCE, PATIENT
from tests.unit.service.conftest import Answer, Client


def _scan(text: str, table: str = "numbers", **more: Any) -> dict[str, Any]:
    return {
        "table": table,
        "session": {"engine": "trino"},
        "predicate": {"form": "sql", "text": text},
        **more,
    }


def _lines(answer: Answer) -> dict[int, Any]:
    """The answers by scan."""
    assert answer.status == 200, answer
    found = [json.loads(line) for line in answer.body.splitlines()]
    by_scan = {line["scan"]: line for line in found}
    assert len(by_scan) == len(found)
    return by_scan


def _decided(plan: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(plan[key] for key in ("table", "snapshot_id", "total", "kept", "drop"))


def test_each_scan_gets_the_plan_that_it_would_get_alone(client: Client) -> None:
    """Also beside scans that are refused, each with the status and the sentence that it would get alone."""
    scans: list[Any] = [
        _scan("n = 42"),
        _scan("n >= 150", "hive.web.numbers"),
        _scan("n = 42", "nobody"),
        _scan("m = 1"),
        {"table": 1},
        _scan("n IN (5, 195)"),
    ]
    found = _lines(client.post("/v1/plans", {"scans": scans}))
    assert [found[number]["status"] for number in range(len(scans))] == [200, 200, 404, 422, 400, 200]
    for number, scan in enumerate(scans):
        alone = client.post("/v1/plan", scan)
        assert alone.status == found[number]["status"]
        if alone.status == 200:
            assert _decided(found[number]["plan"]) == _decided(alone.json)
        else:
            assert found[number]["error"] == alone.json["error"]
    assert [found[number]["plan"]["kept"] for number in (0, 1, 5)] == [1, 5, 2]


def test_keys_of_a_snapshot_are_sent_once(client: Client) -> None:
    """The first answer about a table has them; for the others the client knows them."""
    scans = [_scan(f"n = {number}") for number in range(5)]
    found = _lines(client.post("/v1/plans", {"scans": scans}))
    assert [found[number]["plan"]["keys"] is not None for number in range(5)] == [True, *[False] * 4]
    snapshot = found[0]["plan"]["snapshot_id"]
    known = [_scan("n = 7", known_snapshot=snapshot), _scan("n = 8", known_snapshot="another")]
    again = _lines(client.post("/v1/plans", {"scans": known}))
    assert [again[number]["plan"]["keys"] for number in (0, 1)] == [None, None]


def test_the_scans_of_a_table_see_one_state_of_it(
    client: Client, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file added between two plans of one query is in neither; the next query sees it."""
    plan = Planning.plan
    looks: list[str] = []
    look = Planning.look

    def looking(self: Planning, asked: Any) -> Looked:
        looks.append(asked.table)
        return look(self, asked)

    def planning(self: Planning, asked: Any, looked: Looked) -> Any:
        made = plan(self, asked, looked)
        pq.write_table(pa.table({"n": [42]}), lake / f"later-{len(list(lake.iterdir()))}.parquet")
        return made

    monkeypatch.setattr(Planning, "look", looking)
    monkeypatch.setattr(Planning, "plan", planning)
    found = _lines(client.post("/v1/plans", {"scans": [_scan("n = 42"), _scan("n = 43"), _scan("n = 44")]}))
    assert {each["plan"]["total"] for each in found.values()} == {20}
    assert len({each["plan"]["snapshot_id"] for each in found.values()}) == 1
    assert looks == ["numbers"]
    assert client.post("/v1/plan", _scan("n = 42")).json["total"] == 23


def test_a_slow_table_holds_up_no_other(
    lake: Path, serve: Callable[[Settings], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan of the other table is sent while the slow one is still being listed."""
    config = lake.parent.parent / "pruner.toml"
    config.write_text(config.read_text() + '[tables.slow]\nuri = "lake/numbers"\n')
    client = serve(Settings(limits=PATIENT))
    look, listed = Planning.look, threading.Event()

    def looking(self: Planning, asked: Any) -> Looked:
        if asked.table == "slow":
            assert listed.wait(PATIENCE)
        return look(self, asked)

    monkeypatch.setattr(Planning, "look", looking)
    connection = http.client.HTTPConnection(client.url.removeprefix("http://"), timeout=PATIENCE)
    connection.request("POST", "/v1/plans", json.dumps({"scans": [_scan("n = 1", "slow"), _scan("n = 42")]}))
    response = connection.getresponse()
    first = json.loads(response.readline())
    listed.set()
    second = json.loads(response.readline())
    connection.close()
    assert (first["scan"], first["plan"]["kept"], second["scan"], second["plan"]["kept"]) == (1, 1, 0, 1)


def test_a_table_that_cannot_be_read_is_tried_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query with forty scans of it must not wait forty times."""
    tried: list[str] = []

    def failing(self: Planning, asked: Any) -> Looked:
        tried.append(asked.table)
        raise UnreadableError("table numbers: gone")

    monkeypatch.setattr(Planning, "look", failing)
    found = _lines(client.post("/v1/plans", {"scans": [_scan(f"n = {number}") for number in range(40)]}))
    assert {each["status"] for each in found.values()} == {503}
    assert (len(found), tried) == (40, ["numbers"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b'{"scans": 1}', 400),
        (b'{"scans": [], "more": 1}', 400),
        (b"[" * 100_000, 400),
        ({"scans": []}, 413),
        ({"scans": [_scan("n = 1")] * (MOST_SCANS + 1)}, 413),
    ],
    ids=["no JSON", "no list", "another key", "deep", "none", "too many"],
)
def test_requests_that_hold_no_scans_are_refused(client: Client, body: Any, status: int) -> None:
    answer = client.post("/v1/plans", body)
    assert answer.status == status
    assert set(answer.json) == {"error"}


def test_plans_that_take_too_long_together_are_refused_one_by_one(
    serve: Callable[[Settings], Client],
) -> None:
    """The request is answered; scans that could not be planned in time are named."""
    client = serve(Settings(limits=Limits(plan_seconds=0)))
    found = _lines(client.post("/v1/plans", {"scans": [_scan("n = 1"), _scan("n = 2")]}))
    assert {each["status"] for each in found.values()} == {408}


def test_each_plan_is_counted_and_has_a_report(client: Client) -> None:
    found = _lines(
        client.post("/v1/plans", {"scans": [_scan("n = 42"), _scan("n = 43"), _scan("n = 42", "x")]})
    )
    text = client.get("/metrics").body.decode()
    assert "pruner_plan_seconds_count 2.0" in text
    assert 'pruner_slices_dropped_total{table="numbers"} 38.0' in text
    assert 'pruner_requests_total{route="/v1/plans",status="200"} 1.0' in text
    for number in (0, 1):
        assert client.get(f"/v1/plans/{found[number]['plan']['plan_id']}").json["kept"] == 1
