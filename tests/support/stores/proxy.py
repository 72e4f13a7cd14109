"""Stands between a client and an object store: counts requests, and does what networks and busy stores do.

A request is passed on as it came, so that signatures stay valid. What goes wrong with it is chosen by the test,
request by request.
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

_POLL_SECONDS = 0.01
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding"})


class Fault(Enum):
    """What can happen to one request."""

    CUT = auto()
    """The connection ends before the store has seen the request."""
    LOST = auto()
    """The store does what was asked, and the connection ends before it answers."""
    SHORT = auto()
    """The answer breaks off in the middle of its body."""
    BUSY = auto()
    """503 SlowDown: the store does nothing."""
    THROTTLED = auto()
    """429: the store does nothing."""
    BROKEN = auto()
    """500 InternalError, although the store did what was asked."""


_REFUSALS = {Fault.BUSY: (503, "SlowDown"), Fault.THROTTLED: (429, "TooManyRequests")}


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its number from 0 on, the method, the key of the object, and whether it lists."""

    number: int
    method: str
    key: str
    lists: bool

    @property
    def kind(self) -> str:
        """LIST, GET, HEAD, PUT or POST."""
        return "LIST" if self.lists else self.method


@dataclass
class StoreProxy:
    """A running proxy.

    Attributes:
        endpoint: its address.
        latency: seconds that each request waits before it is passed on.
        fault: says what happens to a request; None for nothing.
        requests: what came, in its order.
        sent: bytes of the bodies of answers.
        connections: how many were opened.
        accepted: the only access key that is let through, as a store does that knows no other; None for any.
        forbidden: says which requests are refused, as a store does where a user may not look.
    """

    endpoint: str
    latency: float = 0.0
    fault: Callable[[Request], Fault | None] = lambda _: None
    requests: list[Request] = field(default_factory=list[Request])
    sent: int = 0
    connections: int = 0
    accepted: str | None = None
    forbidden: Callable[[Request], bool] = lambda _: False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def counts(self) -> Counter[str]:
        """Number of requests by kind."""
        return Counter(request.kind for request in self.requests)

    def forget(self) -> None:
        """Begin to count anew."""
        with self.lock:
            self.requests.clear()
            self.sent = self.connections = 0

    def note(self, method: str, target: str) -> Request:
        """Write a request down."""
        parts = urlsplit(target)
        query = parse_qs(parts.query, keep_blank_values=True)
        with self.lock:
            lists = method == "GET" and "list-type" in query
            key = query.get("prefix", [""])[0] if lists else unquote(parts.path)
            self.requests.append(Request(len(self.requests), method, key, lists))
            return self.requests[-1]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream
        self.proxy = StoreProxy(f"http://127.0.0.1:{self.server_address[1]}")

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no error of the proxy."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def setup(self) -> None:
        """Note that a client connected."""
        super().setup()
        with self.server.proxy.lock:
            self.server.proxy.connections += 1

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return

    def _pass_on(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        request = proxy.note(self.command, self.path)
        time.sleep(proxy.latency)
        fault = proxy.fault(request)
        signed = f"Credential={proxy.accepted}/" in self.headers.get("Authorization", "")
        if proxy.accepted is not None and not signed:
            self._answer(403, [], b"" if self.command == "HEAD" else _error("InvalidAccessKeyId"))
        elif proxy.forbidden(request):
            self._answer(403, [], b"" if self.command == "HEAD" else _error("AccessDenied"))
        elif fault is Fault.CUT:
            self._cut()
        elif fault in _REFUSALS:
            status, code = _REFUSALS[fault]
            self._answer(status, [], b"" if self.command == "HEAD" else _error(code))
        else:
            self._answer_after(body, fault)

    def _answer_after(self, body: bytes, fault: Fault | None) -> None:
        upstream = http.client.HTTPConnection(self.server.upstream)
        try:
            upstream.request(self.command, self.path, body, dict(self.headers.items()))
            answer = upstream.getresponse()
            data = answer.read()
            headers = [pair for pair in answer.getheaders() if pair[0].lower() not in _HOP_BY_HOP]
        finally:
            upstream.close()
        match fault:
            case Fault.LOST:
                self._cut()
            case Fault.BROKEN:
                self._answer(500, [], b"" if self.command == "HEAD" else _error("InternalError"))
            case Fault.SHORT if data:
                self._answer(answer.status, headers, data[: len(data) // 2], cut=True)
            case _:
                self._answer(answer.status, headers, data)

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes, *, cut: bool = False) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()
        with self.server.proxy.lock:
            self.server.proxy.sent += len(data)
        if cut:
            self._cut()

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815 - names of the base class


def _error(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>asked for by the test</Message></Error>".encode()


@contextmanager
def proxied(options: dict[str, str]) -> Iterator[tuple[dict[str, str], StoreProxy]]:
    """Stand in front of the store that storage options lead to; gives those that lead to the proxy."""
    server = _Server(options["endpoint"].removeprefix("http://"))
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
    thread.start()
    try:
        yield options | {"endpoint": server.proxy.endpoint}, server.proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
