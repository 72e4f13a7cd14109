"""Many clients of a service in a process of its own: every plan is right, and nothing is left behind."""

from __future__ import annotations

import http.client
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.unit.service.conftest import FILES, ROWS
from tools.planner_service import planner_process

CLIENTS = 32
REQUESTS = 1_000
GROWTH = 24 * 2**20
"""Bytes that 1,000 requests may leave: what is kept of past plans, and what allocators keep for later."""


def _ask_for_some(address: str, client: int, requests: int) -> list[str]:
    """What is wrong with the answers to one client, who asks again when the service has too much to do."""
    wrong: list[str] = []
    connection = http.client.HTTPConnection(address, timeout=30)
    for number in range(client, requests, CLIENTS):
        low = number % FILES
        text = f"n >= {low * ROWS} AND n < {(low + 1 + number % 3) * ROWS}"
        kept = min(1 + number % 3, FILES - low)
        body = json.dumps(
            {"table": "numbers", "session": {"engine": "trino"}, "predicate": {"form": "sql", "text": text}}
        )
        while True:
            connection.request("POST", "/v1/plan", body)
            response = connection.getresponse()
            answer = json.loads(response.read())
            if response.status != http.HTTPStatus.TOO_MANY_REQUESTS:
                break
            time.sleep(0.01)
        if (answer.get("kept"), answer.get("total")) != (kept, FILES):
            wrong.append(f"{text}: {answer}")
    connection.close()
    return wrong


def _all_ask(address: str, requests: int) -> list[str]:
    with ThreadPoolExecutor(CLIENTS) as pool:
        found = pool.map(lambda client: _ask_for_some(address, client, requests), range(CLIENTS))
        return [problem for problems in found for problem in problems]


def _held(pid: int) -> tuple[int, int]:
    """Resident bytes and open descriptors of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.mark.load
def test_a_thousand_requests_of_many_clients(lake: Path) -> None:
    """No wrong plan among them; memory and descriptors are afterwards what they were after the first hundred."""
    with planner_process(lake.parents[1]) as (url, pid):
        address = url.removeprefix("http://")
        assert _all_ask(address, 100) == []
        memory, _ = _held(pid)
        assert _all_ask(address, REQUESTS) == []
        deadline = time.monotonic() + 10
        while (held := _held(pid))[1] >= CLIENTS and time.monotonic() < deadline:
            time.sleep(0.05)
        record = f"{(held[0] - memory) / 2**20:.1f} MiB more, {held[1]} descriptors"
        assert held[0] - memory < GROWTH, record
        # Those of the process itself, without one for each client.
        assert held[1] < CLIENTS, record
