"""As much of S3 as a metadata table uses, on a local port: the real client sends real requests and gets real answers.

`conditional=False` makes it one of the servers that accept `If-None-Match` and overwrite all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

PAGE = 3
"""Objects per page of a listing, so that tests meet several pages; S3 gives 1,000."""
POLL_SECONDS = 0.01
"""How soon the server notices that it must stop; with Python's default, each test would wait for half a second."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, conditional: bool, page: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.conditional = conditional
        self.page = page
        self.objects: dict[str, bytes] = {}
        self.lock = threading.Lock()
        self.failure: tuple[int, str] | None = None  # status and error code of every answer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer in one piece
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if "Content-Length" not in (headers or {}):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def parse_request(self) -> bool:
        """Fail instead of doing anything, if the test asks for that."""
        parsed = super().parse_request()
        if parsed and self.server.failure is not None:
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            status, code = self.server.failure
            body = b"" if self.command == "HEAD" else f"<Error><Code>{code}</Code></Error>".encode()
            self._answer(status, body)
            self.wfile.flush()
            return False
        return parsed

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix("/bucket").lstrip("/")

    def _about(self, data: bytes) -> dict[str, str]:
        return {"ETag": f'"{hash(data) & 0xFFFFFFFF:x}"', "Last-Modified": "Wed, 01 Jan 2025 00:00:00 GMT"}

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            if (
                self.headers["If-None-Match"]
                and self.server.conditional
                and self._key() in self.server.objects
            ):
                self._answer(412)
            else:
                self.server.objects[self._key()] = data
                self._answer(200, headers=self._about(data))

    def do_HEAD(self) -> None:
        data = self.server.objects.get(self._key())
        if data is None:
            self._answer(404)
        else:
            self._answer(200, headers=self._about(data) | {"Content-Length": str(len(data))})

    def do_GET(self) -> None:
        if not self._key():
            self._list(parse_qs(urlsplit(self.path).query))
            return
        data = self.server.objects.get(self._key())
        if data is None:
            self._answer(404)
            return
        wanted = self.headers["Range"]
        if not wanted:
            self._answer(200, data, self._about(data))
            return
        start, _, end = wanted.removeprefix("bytes=").partition("-")
        first, last = (int(start), int(end or len(data))) if start else (-int(end), len(data))
        first = max(0, len(data) + first) if first < 0 else first
        if first >= len(data):
            self._answer(416)
            return
        part = data[first : last + 1]
        span = f"bytes {first}-{first + len(part) - 1}/{len(data)}"
        self._answer(206, part, self._about(data) | {"Content-Range": span})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        names = [piece.split("</Key>")[0] for piece in body.split("<Key>")[1:]]
        for name in names:
            self.server.objects.pop(unescape(name), None)
        deleted = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in names)
        self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def _list(self, query: dict[str, list[str]]) -> None:
        page = self.server.page
        prefix = query.get("prefix", [""])[0]
        after = query.get("continuation-token", query.get("start-after", [""]))[0]
        names = sorted(name for name in self.server.objects if name.startswith(prefix) and name > after)
        folders: list[str] = []
        if query.get("delimiter") == ["/"]:
            below = [name for name in names if "/" in name[len(prefix) :]]
            folders = sorted({prefix + name[len(prefix) :].partition("/")[0] for name in below})
            names = [name for name in names if name not in below]
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(name)}/</Prefix></CommonPrefixes>" for name in folders
        )
        contents = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(self.server.objects[name])}</Size>"
            f"<LastModified>2025-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>{self._about(self.server.objects[name])['ETag']}</ETag></Contents>"
            for name in names[:page]
        )
        more = f"<NextContinuationToken>{names[page - 1]}</NextContinuationToken>" if names[page:] else ""
        body = f"<ListBucketResult>{contents}{common}{more}</ListBucketResult>"
        self._answer(200, body.encode())


@contextmanager
def serve(*, conditional: bool = True, page: int = PAGE) -> Iterator[tuple[dict[str, str], _Server]]:
    """Serve the bucket `bucket`; yields the storage options for it, and the server.

    Args:
        conditional: whether it refuses to overwrite if a request asks for that.
        page: objects per page of a listing.
    """
    server = _Server(conditional, page)
    thread = threading.Thread(target=server.serve_forever, args=(POLL_SECONDS,), daemon=True)
    thread.start()
    options = {
        "endpoint": f"http://127.0.0.1:{server.server_address[1]}",
        "allow_http": "true",
        "region": "local",
        "aws_access_key_id": "AKIATESTTEST",
        "aws_secret_access_key": "very-secret-key",
    }
    try:
        yield options, server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
