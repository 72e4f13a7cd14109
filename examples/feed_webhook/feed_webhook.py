"""Writes what an object store's webhook tells into a table's change feed: `python feed_webhook.py visits`.

The table's `feed` stands in `pruner.toml`. Each request is one event file. It is acknowledged only when the feed holds
it, so that a store which keeps what it could not deliver sends it again.
"""

from __future__ import annotations

import argparse
import hmac
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pruner


class Receiver(ThreadingHTTPServer):
    """Listens for events of a table, or of all tables that share its feed."""

    daemon_threads = True
    MOST_BYTES = 1 << 20
    MOST_DISCARDED = 1 << 24

    def __init__(self, address: tuple[str, int], table: str, token: str = "", **options: Any) -> None:
        super().__init__(address, _Handler)
        self.table = table
        self.token = token
        self.options = options

    def write(self, events: bytes) -> int:
        """Write events into the feed; return the status of the answer."""
        try:
            pruner.notify(self.table, events=events, **self.options)
        except pruner.TableError as error:
            print(f"refused: {error}", flush=True)
            return 400  # sending it again would not help
        except pruner.PrunerError as error:
            print(f"not written: {error}", flush=True)
            return 503
        return 204


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    timeout = 30
    """Seconds that a sender may pause before the connection is closed."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - a name of the base class
        return

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "0")
        is_number = length.isascii() and length.isdigit() and len(length) < 20
        size = int(length) if is_number else -1
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self.server.token.encode()):
            status = 403
        elif size < 0:
            status = 400
        elif size > Receiver.MOST_BYTES:
            status = 413
        else:
            status, size = self.server.write(self.rfile.read(size)), 0
        self.discard(size)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def discard(self, size: int) -> None:
        """Read the body of a refused request: otherwise, a sender that is still sending may never see the answer."""
        left = min(size, Receiver.MOST_DISCARDED)
        while left > 0 and (piece := self.rfile.read(min(left, 1 << 16))):
            left -= len(piece)


def main() -> None:
    """Listen until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", help="a name in pruner.toml")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9010)
    given = parser.parse_args()
    Receiver((given.host, given.port), given.table, os.environ.get("FEED_TOKEN", "")).serve_forever()


if __name__ == "__main__":
    main()
