"""Several workers on one port: each answers for all, one that dies is replaced, and none outlives the service."""

from __future__ import annotations

import http
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.running.patience import PATIENCE, until
from tests.unit.cli.conftest import command_line
from tests.unit.service.conftest import FILES, Client
from tools.planner_service import planner_process

pytestmark = pytest.mark.processes

WORKERS = 2
ASKED = 16
"""Each is a connection of its own, which the kernel gives to either worker: all to one has a chance of 1 in 32,768."""


def _workers(pid: int) -> list[int]:
    """The workers of a service, without the process that tracks what they share."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(child) for child in listed if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def _asked(client: Client, number: int) -> dict[str, Any]:
    predicate = {"form": "sql", "text": f"n = {number}"}
    asked = {"table": "numbers", "session": {"engine": "trino"}, "predicate": predicate}
    answer = client.post("/v1/plan", asked)
    while answer.status == http.HTTPStatus.REQUEST_TIMEOUT:
        # A worker just started on a busy machine: it refuses, which is not a wrong answer.
        answer = client.post("/v1/plan", asked)
    assert (answer.status, answer.json["kept"], answer.json["total"]) == (200, 1, FILES)
    return answer.json


@pytest.fixture
def service(lake: Path) -> Iterator[tuple[Client, int]]:
    """A service of two workers, and its process."""
    with planner_process(lake.parents[1], "--workers", f"{WORKERS}") as (url, pid):
        until(lambda: _log(lake).count("table numbers is ready") == WORKERS)
        yield Client(url), pid


def _log(lake: Path) -> str:
    return (lake.parents[1] / "service.log").read_text(encoding="utf-8")


def test_workers_are_one_service(service: tuple[Client, int], lake: Path) -> None:
    client, pid = service
    _any_worker_tells_what_another_one_planned(client, lake)
    _any_worker_knows_plans_of_the_catalog(client)
    _the_port_is_not_shared_with_another_service(client, lake)
    _a_worker_that_dies_is_replaced(client, pid, lake)
    _no_worker_outlives_the_service(client, pid, signal.SIGTERM)


def test_workers_end_when_the_process_that_started_them_is_killed(service: tuple[Client, int]) -> None:
    client, pid = service
    _no_worker_outlives_the_service(client, pid, signal.SIGKILL)


def _any_worker_tells_what_another_one_planned(client: Client, lake: Path) -> None:
    """Reports, keys, figures and the page are the same from every worker."""
    plans = [_asked(client, number) for number in range(ASKED)]
    by = {each: _log(lake).count(f"worker {each}: table numbers: 1 of 20") for each in (1, 2)}
    assert sum(by.values()) == ASKED
    assert min(by.values()) > 0, by
    for plan in plans:
        report = client.get(f"/v1/plans/{plan['plan_id']}")
        assert (report.status, report.json["kept"]) == (200, 1)
    keys = {client.get(f"/v1/snapshots/{plans[0]['snapshot_id']}/keys").body for _ in range(ASKED)}
    assert [len(each) for each in keys] == [16 * FILES]
    assert client.get("/v1/plans/unknown").status == client.get("/v1/snapshots/unknown/keys").status == 404
    for _ in range(4):
        assert f"Plans since the service began: {ASKED}." in client.get("/").body.decode()
        assert f"pruner_plan_seconds_count {ASKED}.0" in client.get("/metrics").body.decode()


def _any_worker_knows_plans_of_the_catalog(client: Client) -> None:
    """Any worker makes a plan again by its id, or forgets it."""
    place = "/iceberg/v1/namespaces/default/tables/numbers/plan"
    plans = [client.post(place, {}).json["plan-id"] for _ in range(ASKED)]
    for each in plans:
        assert len(client.get(f"{place}/{each}").json["file-scan-tasks"]) == FILES
        request = urllib.request.Request(f"{client.url}{place}/{each}", method="DELETE")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            assert answer.status == http.HTTPStatus.NO_CONTENT
        assert client.get(f"{place}/{each}").status == http.HTTPStatus.NOT_FOUND


def _the_port_is_not_shared_with_another_service(client: Client, lake: Path) -> None:
    """Otherwise sockets that share a port would take connections from a service that already has it."""
    port = client.url.rpartition(":")[2]
    second = subprocess.run(
        command_line("serve", "--port", port, "--workers", "2"),
        cwd=lake.parents[1],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert second.returncode == 1
    assert second.stderr.startswith(f"error: cannot listen on 127.0.0.1:{port}: Address already in use")


def _a_worker_that_dies_is_replaced(client: Client, pid: int, lake: Path) -> None:
    """Requests that reach it meanwhile wait; what it counted stays counted."""
    before = _workers(pid)
    assert len(before) == WORKERS
    os.kill(before[0], signal.SIGKILL)
    for number in range(ASKED):
        _asked(client, number)
    until(lambda: len(_workers(pid)) == WORKERS)
    assert len(set(before) & set(_workers(pid))) == 1
    assert re.search(r"worker \d ended with -9 and is started again", _log(lake))
    assert f"pruner_plan_seconds_count {2 * ASKED}.0" in client.get("/metrics").body.decode()


def _no_worker_outlives_the_service(client: Client, pid: int, told: signal.Signals) -> None:
    _asked(client, 1)
    processes = [pid, *_workers(pid)]
    os.kill(pid, told)
    until(lambda: not any(_runs(each) for each in processes))
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{client.url}/healthz", timeout=PATIENCE)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
