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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


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

    def serve(self, handler: BaseHTTPRequestHandler, body: bytes | None) -> None:
        """Answer one request."""
        behaviour = self.behaviour
        if body is not None:
            self.requests.append(json.loads(body))
        if behaviour.cut:
            handler.close_connection = True
            handler.connection.close()
            return
        time.sleep(behaviour.seconds)
        status, answer = self._passed_on(handler, body) if behaviour.body is None else (200, behaviour.body)
        if behaviour.changed and status == 200 and body is not None:
            answer = json.dumps({**json.loads(answer), **behaviour.changed}).encode()
        if behaviour.meanwhile is not None and body is not None:
            behaviour.meanwhile()
        if body is not None and status == 200 and behaviour == Behaviour():
            self.answers.append(json.loads(answer))
            self.exchanges.append((json.loads(body), self.answers[-1]))
        handler.send_response(behaviour.status or status)
        handler.send_header("Content-Length", str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer)

    def _passed_on(self, handler: BaseHTTPRequestHandler, body: bytes | None) -> tuple[int, bytes]:
        wanted = {
            key: handler.headers[key] for key in ("Authorization", "Content-Type") if key in handler.headers
        }
        request = urllib.request.Request(self.target + handler.path, body, wanted)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read()

    @contextmanager
    def behaving(self, behaviour: Behaviour) -> Generator[None]:
        """Misbehave for a while."""
        self.behaviour = behaviour
        try:
            yield
        finally:
            self.behaviour = Behaviour()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
