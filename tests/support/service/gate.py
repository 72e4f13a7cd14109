"""Stands between a client and the service: passes requests on and remembers them, or makes the service fail."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.running.patience import PATIENCE


@dataclass(frozen=True)
class Behaviour:
    """How a gate treats requests; the default passes them on."""

    seconds: float = 0.0
    cut: bool = False
    status: int | None = None
    body: bytes | None = None
    changed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    meanwhile: Callable[[], None] | None = None
    """What happens after the service has answered and before Trino knows."""
    times: int | None = None
    """So many requests are treated like that, and those after them passed on; None for all."""
    unknown: str | None = None
    """A path that is answered as by a service that has no such route."""


class Gate:
    """A server on a port of its own that treats requests as `behaviour` says."""

    def __init__(self) -> None:
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                gate.serve(self, self.rfile.read(int(self.headers["Content-Length"])))

            def do_GET(self) -> None:
                gate.serve(self, None)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base class's name)
                """Log nothing: no test reads it."""

        self.target = ""
        self.behaviour: Behaviour = Behaviour()
        self.requests: list[Any] = []
        self.answers: list[Any] = []
        self.exchanges: list[tuple[Any, Any]] = []
        self.posts: list[str] = []
        self._treated = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """What the catalogs name as `pruner.url`."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def forget(self) -> None:
        """Forget what was asked and answered so far."""
        self.requests.clear()
        self.answers.clear()
        self.exchanges.clear()
        self.posts.clear()

    def serve(self, handler: BaseHTTPRequestHandler, body: bytes | None) -> None:
        """Answer one request; what is asked and answered about several scans is remembered scan by scan."""
        behaviour = self._due()
        asked = [] if body is None else _scans(handler.path, json.loads(body))
        if body is not None:
            self.requests.extend(asked)
            self.posts.append(handler.path)
        if behaviour.cut:
            handler.close_connection = True
            handler.connection.close()
            return
        time.sleep(behaviour.seconds)
        status, answer = self._answered(handler, body, behaviour)
        if behaviour.changed and status == HTTPStatus.OK and body is not None:
            answer = _changed(handler.path, answer, behaviour.changed)
        if behaviour.meanwhile is not None and body is not None:
            behaviour.meanwhile()
        if body is not None and status == HTTPStatus.OK and behaviour == Behaviour():
            for number, plan in _plans(handler.path, answer):
                self.answers.append(plan)
                self.exchanges.append((asked[number], plan))
        handler.send_response(behaviour.status or status)
        handler.send_header("Content-Length", str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer)

    def _due(self) -> Behaviour:
        if self.behaviour.times is not None and self._treated >= self.behaviour.times:
            return Behaviour()
        self._treated += 1
        return self.behaviour

    def _answered(
        self, handler: BaseHTTPRequestHandler, body: bytes | None, behaviour: Behaviour
    ) -> tuple[int, bytes]:
        if handler.path == behaviour.unknown:
            return HTTPStatus.NOT_FOUND, b'{"error":"no route"}'
        return self._passed_on(handler, body) if behaviour.body is None else (HTTPStatus.OK, behaviour.body)

    def _passed_on(self, handler: BaseHTTPRequestHandler, body: bytes | None) -> tuple[int, bytes]:
        wanted = {
            key: handler.headers[key] for key in ("Authorization", "Content-Type") if key in handler.headers
        }
        request = urllib.request.Request(self.target + handler.path, body, wanted)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read()

    @contextmanager
    def behaving(self, behaviour: Behaviour) -> Generator[None]:
        """Misbehave for a while."""
        self.behaviour, self._treated = behaviour, 0
        try:
            yield
        finally:
            self.behaviour = Behaviour()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


TOGETHER = "/v1/plans"
"""Where the scans of a query are asked for with one request; its answer has a line for each."""


def _scans(path: str, asked: Any) -> list[Any]:
    return asked["scans"] if path == TOGETHER else [asked]


def _plans(path: str, answer: bytes) -> list[tuple[int, Any]]:
    """The plans in an answer, each with the number of its scan."""
    if path != TOGETHER:
        return [(0, json.loads(answer))]
    lines = sorted((json.loads(line) for line in answer.splitlines()), key=lambda line: line["scan"])
    return [(line["scan"], line["plan"]) for line in lines if line["status"] == HTTPStatus.OK]


def _changed(path: str, answer: bytes, changed: Mapping[str, Any]) -> bytes:
    if path != TOGETHER:
        return json.dumps({**json.loads(answer), **changed}).encode()
    lines = [json.loads(line) for line in answer.splitlines()]
    return b"".join(
        json.dumps({**line, "plan": {**line["plan"], **changed}} if "plan" in line else line).encode() + b"\n"
        for line in lines
    )
