"""Malicious clients: large answers to small requests, answers that are never read, numbers without end."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests

from pruner.service import Limits, Settings
from pruner.service.rest_catalog.tasks import ANSWER_BYTES
from tests.support.running.patience import PATIENCE, PATIENT
from tests.support.service.planner import running_service

FILES = 60
PLACE = "/iceberg/v1/namespaces/default/tables/many"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of many files, all of which may have a row of any id."""
    folder = tmp_path_factory.mktemp("attacked")
    (folder / "many").mkdir()
    for at in range(FILES):
        pq.write_table(pa.table({"id": [0, 10**9]}), folder / "many" / f"{at}.parquet")
    (folder / "pruner.toml").write_text(f'[tables.many]\nuri = "{folder}/many"\n', encoding="utf-8")
    return folder / "pruner.toml"


@pytest.fixture
def url(config: Path) -> Iterator[str]:
    with running_service(config) as served:
        yield served


def _filter(count: int) -> dict[str, Any]:
    return {"type": "in", "term": "id", "values": list(range(10**6, 10**6 + count))}


@pytest.mark.slow
def test_a_long_filter_makes_no_endless_answer(url: str) -> None:
    """Each task has the filter: 3 MB for each of the 60 files would be 180 MB. Each file is still named once."""
    for count in (50_000, 400_000):
        asked: dict[str, Any] = {"filter": _filter(count)}
        size, found = len(json.dumps(asked)), list[str]()
        answer = requests.post(f"{url}{PLACE}/plan", json=asked, timeout=PATIENCE)
        pages = 0
        while True:
            assert answer.status_code == 200, answer.text[:200]
            assert len(answer.content) < ANSWER_BYTES + 2 * size
            page = answer.json()
            assert all(each["residual-filter"] == asked["filter"] for each in page["file-scan-tasks"])
            found += [each["data-file"]["file-path"] for each in page["file-scan-tasks"]]
            pages += 1
            if pages == 4 or not page.get("plan-tasks"):
                break
            task = {"plan-task": page["plan-tasks"][0]}
            answer = requests.post(f"{url}{PLACE}/tasks", json=task, timeout=PATIENCE)
        assert len(found) == len(set(found))
        assert len(found) == FILES if count == 50_000 else 4 <= len(found) < FILES


def test_an_ordinary_filter_has_whole_pages(url: str) -> None:
    answer = requests.post(f"{url}{PLACE}/plan", json={"filter": _filter(100)}, timeout=PATIENCE).json()
    assert len(answer["file-scan-tasks"]) == FILES
    assert "plan-tasks" not in answer


def _asking(url: str, count: int) -> tuple[socket.socket, bytes]:
    """A connection with a small receive buffer, and a request for a large answer."""
    host, port = url.removeprefix("http://").split(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    made.settimeout(PATIENCE)
    made.connect((host, int(port)))
    body = json.dumps({"filter": _filter(count)}).encode()
    head = f"POST {PLACE}/plan HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return made, head.encode() + body


def _received(connection: socket.socket) -> int:
    """The bytes that still arrive before the connection ends."""
    found = 0
    while True:
        try:
            part = connection.recv(65_536)
        except ConnectionResetError:
            return found
        if not part:
            return found
        found += len(part)


@pytest.mark.slow
def test_an_answer_that_nobody_reads_is_thrown_away(config: Path) -> None:
    """The connection ends, and its memory is freed; a client that reads meanwhile gets everything."""
    limits = Limits(read_seconds=0.5, body_seconds=PATIENCE, plan_seconds=PATIENCE, wait_seconds=PATIENCE)
    with running_service(config, Settings(limits=limits)) as url:
        idle, request = _asking(url, 50_000)
        idle.sendall(request)
        time.sleep(0.2)
        whole = requests.post(f"{url}{PLACE}/plan", json={"filter": _filter(50_000)}, timeout=PATIENCE)
        assert whole.status_code == 200
        deadline = time.monotonic() + PATIENCE
        while _is_open(url, idle) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert _received(idle) < len(whole.content)
        idle.close()


def _is_open(url: str, connection: socket.socket) -> bool:
    """Whether the server still has its end of a connection, by the kernel's table of connections."""
    own = f"{connection.getsockname()[1]:04X}"
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    states = [each.split()[3] for each in lines if each.split()[2].endswith(f":{own}")]
    return "01" in states


@pytest.mark.slow
def test_a_slow_reader_gets_its_answer(config: Path) -> None:
    """As long as it keeps reading."""
    limits = Limits(
        read_seconds=PATIENCE / 10, body_seconds=PATIENCE, plan_seconds=PATIENCE, wait_seconds=PATIENCE
    )
    with running_service(config, Settings(limits=limits)) as url:
        slow, request = _asking(url, 50_000)
        slow.sendall(request)
        head = slow.recv(2_000)
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        left = length - len(head.partition(b"\r\n\r\n")[2])
        started = time.monotonic()
        while left:
            part = slow.recv(min(left, 400_000))
            assert part, left
            left -= len(part)
            if time.monotonic() - started < 5:
                time.sleep(0.02)
        slow.close()


@pytest.mark.parametrize("digits", [5_000, 4_000_000])
def test_numbers_without_an_end_are_refused(url: str, digits: int) -> None:
    body = b'{"filter":{"type":"eq","term":"id","value":' + b"9" * digits + b"}}"
    started = time.process_time()
    answer = requests.post(f"{url}{PLACE}/plan", data=body, timeout=PATIENCE)
    assert answer.status_code in (200, 400)
    assert time.process_time() - started < 5
    assert requests.get(f"{url}/v1/asked", timeout=PATIENCE).status_code == 200


def test_reports_of_too_much_do_not_break_what_is_told(url: str) -> None:
    """Sums may be larger than any number that was sent."""
    report = {
        "report-type": "scan-report",
        "table-name": "many",
        "snapshot-id": 1,
        "filter": {"type": "eq", "term": "id", "value": 10**18},
        "schema-id": 0,
        "projected-field-ids": [],
        "projected-field-names": [],
        "metrics": {"result-data-files": {"unit": "count", "value": 2**63 - 1}},
    }
    for _ in range(4):
        assert requests.post(f"{url}{PLACE}/metrics", json=report, timeout=PATIENCE).status_code == 204
    (line,) = requests.get(f"{url}/v1/asked", timeout=PATIENCE).text.splitlines()
    assert json.loads(line)["files_read"] == 4 * (2**63 - 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [10_000, 100_000, 1_000_000])
def test_heads_are_bounded(config: Path, size: int) -> None:
    """A head of any size is answered or cut off, and the service continues."""
    with running_service(config, Settings(limits=PATIENT)) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
            request = f"GET {PLACE} HTTP/1.1\r\nHost: x\r\nIf-None-Match: {'x' * size}\r\n\r\n".encode()
            try:
                connection.sendall(request)
                answer = connection.recv(65_536)
            except OSError:
                answer = b""
        assert answer == b"" or answer.split()[1] in (b"200", b"400", b"431")
        assert (b" 200 " in answer) if size == 10_000 else size < 1_000_000 or b" 200 " not in answer
        assert requests.get(f"{url}{PLACE}", timeout=PATIENCE).status_code == 200


def test_two_ends_of_one_request_are_refused(url: str) -> None:
    """What follows the first end is not taken for a request (RFC 9112, 6.3)."""
    host, port = url.removeprefix("http://").split(":")
    hidden = f"DELETE {PLACE} HTTP/1.1\r\nHost: x\r\n\r\n"
    for head in (
        f"Content-Length: {len(hidden) + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
        f"Content-Length: 0\r\nContent-Length: {len(hidden)}\r\n\r\n{hidden}",
        f"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n{hidden}",
    ):
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
            connection.sendall(f"POST {PLACE}/plan HTTP/1.1\r\nHost: x\r\n{head}".encode())
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while part := connection.recv(65_536):
                answer += part
        assert answer.count(b"HTTP/1.1 ") == 1, answer
        assert answer.split()[1] in (b"400", b"501"), answer
