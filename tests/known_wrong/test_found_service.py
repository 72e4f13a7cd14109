"""Requests that brought the service down."""

from __future__ import annotations

import socket
import ssl
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from pruner.errors import PredicateError
from pruner.expr.wire.nodes import literal_of
from pruner.service import Limits, Settings
from pruner.service.journal import Reports
from tests.unit.service.conftest import Client, lake, number_files, serve

__all__ = ["lake", "number_files", "serve"]

HASTY = Limits(head_seconds=0.5, body_seconds=0.5, body_bytes=100_000, connections=4)
POST = b"POST /v1/plan HTTP/1.1\r\nHost: x\r\n"
CHUNK = b"8000\r\n" + b" " * 0x8000 + b"\r\n"


@pytest.mark.parametrize("text", ["1e999999999", "-1e-999999999", "9" * 4000, "0e999999"])
def test_decimals_of_a_billion_digits_are_refused(text: str) -> None:
    """Exact arithmetic expanded them while every other request waited: eleven characters stopped the service."""
    with pytest.raises(PredicateError, match="is not a value of type"):
        literal_of(text, pa.decimal128(38, 0))


@contextmanager
def _connected(client: Client) -> Iterator[socket.socket]:
    host, port = client.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        yield connection


def _closed_after(connection: socket.socket, part: bytes, pause: float = 0.05) -> tuple[float, bytes, int]:
    """Send a part repeatedly until the service closes the connection; seconds, answer, bytes sent."""
    started, answer, sent = time.monotonic(), b"", 0
    connection.setblocking(False)
    while time.monotonic() - started < 60:
        try:
            sent += connection.send(part)
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:
            return time.monotonic() - started, answer, sent
        try:
            found = connection.recv(1000)
            if found == b"":
                return time.monotonic() - started, answer, sent
            answer += found
        except BlockingIOError:
            pass
        except OSError:
            return time.monotonic() - started, answer, sent
        time.sleep(pause)
    raise AssertionError("the connection stayed open")


@pytest.mark.parametrize("before", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_half_a_head_does_not_stay(serve: Callable[[Settings], Client], before: bytes) -> None:
    """It held a connection forever, without a token, also after a whole request; bytes that drip in change nothing."""
    client = serve(Settings(limits=HASTY))
    with _connected(client) as drip:
        drip.sendall(before + b"GET /healthz HTTP/1.1\r\n")
        seconds, answer, _ = _closed_after(drip, b"A: b\r\n")
    assert seconds > 0.3
    assert answer.count(b" 200 ") == (1 if before else 0)


def test_connections_are_bounded_and_come_free(serve: Callable[[Settings], Client]) -> None:
    """900 were open; those above the limit are closed at once, and the others free their slots at their deadline."""
    client = serve(Settings(limits=HASTY))
    silent = [
        socket.create_connection(("127.0.0.1", int(client.url.split(":")[2])), timeout=5) for _ in range(9)
    ]
    try:
        closed = 0
        for connection in silent[4:]:
            try:
                closed += connection.recv(1) == b""
            except ConnectionResetError:
                closed += 1
        assert closed == 5
        assert [connection.recv(1) if _fails(connection) is None else b"" for connection in silent[:4]] == [
            b""
        ] * 4
        assert client.get("/healthz").status == 200
    finally:
        for connection in silent:
            connection.close()


def _fails(connection: socket.socket) -> None:
    """Wait until a connection has ended in any way."""
    try:
        connection.recv(1, socket.MSG_PEEK)
    except ConnectionResetError:
        return


@pytest.mark.parametrize(
    ("header", "status"), [(b"", b" 413 "), (b"Authorization: Bearer wrong\r\n", b" 401 ")]
)
def test_bodies_without_end_are_not_taken(
    serve: Callable[[Settings], Client], header: bytes, status: bytes
) -> None:
    """The service sent the refusal but read on, 196 MB of the body, even without a token."""
    client = serve(Settings(limits=HASTY, token="a token that nobody guesses" if header else None))
    with _connected(client) as endless:
        endless.sendall(POST + header + b"Transfer-Encoding: chunked\r\n\r\n")
        _, answer, sent = _closed_after(endless, CHUNK, pause=0.001)
    assert status in answer
    # The buffers of both ends took the rest.
    assert sent < 20_000_000


def test_slow_bodies_are_cut(serve: Callable[[Settings], Client]) -> None:
    """408, and the connection ends although the client keeps sending."""
    client = serve(Settings(limits=HASTY))
    with _connected(client) as slow:
        slow.sendall(POST + b"Content-Length: 90000\r\n\r\n")
        _, answer, _ = _closed_after(slow, b" ")
    assert b" 408 " in answer


def test_two_lengths_are_not_two_requests(serve: Callable[[Settings], Client]) -> None:
    """With Content-Length and Transfer-Encoding a proxy could see one request and the service two (RFC 9112, 6.3)."""
    client = serve(Settings(limits=HASTY))
    inner = b"GET /v1/tables HTTP/1.1\r\nHost: x\r\n\r\n"
    both = b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n" % (5 + len(inner))
    for head in (
        both,
        b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
        b"Transfer-Encoding: x, chunked\r\n\r\n",
    ):
        with _connected(client) as smuggler:
            smuggler.sendall(POST + head + b"0\r\n\r\n" + inner)
            answer = b""
            while part := smuggler.recv(10_000):
                answer += part
        assert answer.count(b"HTTP/1.1 ") == 1, head
        assert b"numbers" not in answer


def test_many_small_requests_are_bounded_in_memory() -> None:
    """Only their bodies were counted: ids and objects held several times as much."""
    limit = 1024 * 1024
    reports = Reports(limit)
    tracemalloc.start()
    try:
        for number in range(20_000):
            reports.remember(b"%d" % number, f"snapshot {number}")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert limit / 4 < held < limit


def test_handshakes_that_never_come_are_ended(
    serve: Callable[[Settings], Client], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent client held a connection for a minute before the deadline of its head began."""
    monkeypatch.setattr("pruner.service.serving.HANDSHAKE_SECONDS", 0.5)
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    client = serve(Settings(limits=HASTY, certificate=certificate, private_key=key))
    with _connected(client) as silent:
        assert silent.recv(1) == b""
    trusting = ssl.create_default_context(cafile=certificate)
    trusting.check_hostname = False
    with _connected(client) as plain, trusting.wrap_socket(plain, server_hostname="localhost") as speaking:
        speaking.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in speaking.recv(1000)
