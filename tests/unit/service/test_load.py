"""Many clients of a service in a process of its own: every plan is correct, and nothing leaks."""

from __future__ import annotations

import http.client
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.running.patience import PATIENCE, until
from tests.support.running.profiles import IS_FIXED
from tests.unit.service.conftest import FILES, ROWS
from tools.planner_service import planner_process

CLIENTS = 32
REQUESTS = 1_000 if IS_FIXED else 100_000
GROWTH = 24 * 2**20
"""Bytes that 1,000 requests may leave: what is kept of past plans, and what allocators keep for later."""

GROWTH_OF_MANY = 0.05
"""The share of its memory by which a service may grow that has answered for long."""


def _ask_for_some(address: str, client: int, requests: int) -> list[str]:
    """What is wrong with the answers to one client, which retries when the service is overloaded."""
    wrong: list[str] = []
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    for number in range(client, requests, CLIENTS):
        low = number % FILES
        text = f"n >= {low * ROWS} AND n < {(low + 1 + number % 3) * ROWS}"
        kept = min(1 + number % 3, FILES - low)
        body = json.dumps(
            {"table": "numbers", "session": {"engine": "trino"}, "predicate": {"form": "sql", "text": text}}
        )
        while (found := _answer(connection, body)) is None:
            time.sleep(0.01)
        if (found.get("kept"), found.get("total")) != (kept, FILES):
            wrong.append(f"{text}: {found}")
    connection.close()
    return wrong


def _answer(connection: http.client.HTTPConnection, body: str) -> dict[str, Any] | None:
    """The answer to one request; None if it must be repeated.

    On a busy machine a plan, or this client, can be slower than the service waits for (408, or a connection that it
    closes). That refuses a plan, and is not a wrong answer.
    """
    try:
        connection.request("POST", "/v1/plan", body)
        response = connection.getresponse()
        content = response.read()
    except (http.client.RemoteDisconnected, ConnectionError):
        connection.close()  # the next request opens it again
        return None
    if response.status in (http.HTTPStatus.TOO_MANY_REQUESTS, http.HTTPStatus.REQUEST_TIMEOUT):
        return None
    return json.loads(content)


def _all_ask(address: str, requests: int) -> list[str]:
    with ThreadPoolExecutor(CLIENTS) as pool:
        found = pool.map(lambda client: _ask_for_some(address, client, requests), range(CLIENTS))
        return [problem for problems in found for problem in problems]


def _wait_until_ready(address: str) -> None:
    """Like any client. Until then it loads adapters of all engines during the first requests."""

    def ready() -> bool:
        with closing(http.client.HTTPConnection(address, timeout=PATIENCE)) as connection:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK

    until(ready, "readiness")


def _held(pid: int) -> tuple[int, int]:
    """Resident bytes and open descriptors of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.mark.load
def test_a_thousand_requests_of_many_clients(lake: Path) -> None:
    """No plan is wrong, memory hardly grows after the first tenth of the requests, and no descriptors are left."""
    with planner_process(lake.parents[1]) as (url, pid):
        address = url.removeprefix("http://")
        _wait_until_ready(address)
        assert _all_ask(address, REQUESTS // 10) == []
        memory, _ = _held(pid)
        assert _all_ask(address, REQUESTS) == []
        # Descriptors of the process itself, without one for each client.
        until(lambda: _held(pid)[1] < CLIENTS, lambda: f"the end of {_held(pid)[1]} descriptors")
        held = _held(pid)
        record = f"{(held[0] - memory) / 2**20:.1f} MiB more, {held[1]} descriptors"
        assert held[0] - memory < (GROWTH if IS_FIXED else GROWTH_OF_MANY * memory), record
