"""Checks that every request passes before it is served: token, concurrency, size and duration of its body."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import re
from typing import TYPE_CHECKING

from starlette.responses import Response

from pruner.service.messages import FailureAnswer, encode

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from pruner.service.settings import Limits

_WAIT = re.compile(rb"(?:^|[,;])\s*wait\s*=\s*(\d{1,6})\s*(?:$|[,;])", re.IGNORECASE)

OPEN_ROUTES = frozenset({"/healthz", "/readyz"})
"""The routes that need no token."""

PAGE = "/"
"""The page for browsers: they cannot send a token by themselves, so here it may also come as a password."""


class RefusedRequestError(Exception):
    """A request that is not served: its status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class CatalogError(RefusedRequestError):
    """A refusal in the form that Iceberg clients read; `kind` is the type of the error."""

    def __init__(self, status: int, sentence: str, *, kind: str) -> None:
        super().__init__(status, sentence)
        self.kind = kind


def refusal(status: int, sentence: str) -> Response:
    """The response to a request that is not served."""
    return Response(encode(FailureAnswer(sentence)), status, media_type="application/json")


CATALOG = "/iceberg"
"""The path prefix of the catalog, whose clients read errors in a form of their own."""

_KINDS = {401: "NotAuthorizedException", 429: "ServiceUnavailableException"}


def catalog_error(status: int, sentence: str, kind: str | None = None) -> Response:
    """An error in the form of the Iceberg REST catalog: schema `IcebergErrorResponse`."""
    named = kind or _KINDS.get(status, "BadRequestException")
    content = encode({"error": {"message": sentence, "type": named, "code": status}})
    return Response(content, status, media_type="application/json")


def _refused(scope: Scope, status: int, sentence: str) -> Response:
    """A refusal in the form that clients of the route read."""
    is_catalog = scope["path"].startswith(f"{CATALOG}/")
    return catalog_error(status, sentence) if is_catalog else refusal(status, sentence)


_NO_TOKEN = "send the service's token as 'Authorization: Bearer …'"
_WRONG_TOKEN = (
    "the token is not that of the service: send its PRUNER_SERVICE_TOKEN as 'Authorization: Bearer …'"
)


class Guard:
    """Requires the token and bounds the number of concurrent requests; further ones wait for their turn."""

    def __init__(self, app: ASGIApp, token: str | None, limits: Limits) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._limits = limits
        self._places = asyncio.Semaphore(limits.concurrent)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] == "http" and _has_two_lengths(scope):
            refused = _refused(scope, 400, "send Content-Length or Transfer-Encoding, not both")
            refused.headers["Connection"] = "close"
            await refused(scope, receive, send)
            return
        if scope["type"] != "http" or scope["path"] in OPEN_ROUTES:
            await self._app(scope, receive, send)
            return
        if not self._allowed(scope):
            refused = _refused(scope, 401, _NO_TOKEN if _sent(scope) is None else _WRONG_TOKEN)
            if scope["path"] == PAGE:
                refused.headers["WWW-Authenticate"] = 'Basic realm="pruner: any name, the token as password"'
            await refused(scope, receive, send)
            return
        try:
            await acquired(self._places, _patience(scope, self._limits.wait_seconds))
        except TimeoutError:
            refused = _refused(scope, 429, f"{self._limits.concurrent} requests are being served: try again")
            refused.headers["Retry-After"] = "1"
            await refused(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self._places.release()

    def _allowed(self, scope: Scope) -> bool:
        if self._token is None:
            return True
        scheme, _, token = (_sent(scope) or b"").partition(b" ")
        if scheme.lower() == b"basic" and scope["path"] == PAGE:
            scheme, token = b"bearer", _password(token)
        # In constant time, whatever the client sent.
        same = hmac.compare_digest(token.strip(), self._token)
        return same and scheme.lower() == b"bearer"


def _sent(scope: Scope) -> bytes | None:
    """The header with the token; None if there is none, empty if there are several."""
    sent: list[bytes] = [value for name, value in scope["headers"] if name == b"authorization"]
    return None if not sent else sent[0] if len(sent) == 1 else b""


async def acquired(places: asyncio.Semaphore, seconds: float) -> None:
    """Acquire a slot as soon as one is free. A timer, which costs more than a slot, is set only if none is free yet.

    Raises:
        TimeoutError: none became free in time.
    """
    if not places.locked():
        await places.acquire()
        return
    async with asyncio.timeout(seconds):
        await places.acquire()


def _password(credentials: bytes) -> bytes:
    """The password of HTTP's Basic authentication (RFC 7617); empty if there is none."""
    try:
        return base64.b64decode(credentials.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


def _patience(scope: Scope, longest: float) -> float:
    """Seconds that a request may wait for its turn: its client's preference (RFC 7240, 4.3), within the limit."""
    preferred = b",".join(value for name, value in scope["headers"] if name == b"prefer")
    match = _WAIT.search(preferred)
    return longest if match is None else min(longest, float(match.group(1)))


def _has_two_lengths(scope: Scope) -> bool:
    """Whether a proxy may see another end of the request, and so another next request (RFC 9112, 6.3)."""
    names = {name for name, _ in scope["headers"]}
    return {b"content-length", b"transfer-encoding"} <= names


async def body_of(request: Request, limits: Limits) -> bytes:
    """Return the body of a request.

    Raises:
        RefusedRequestError: it is larger (413) or arrives more slowly (408) than the limits allow.
    """
    too_large = RefusedRequestError(413, f"the body is larger than {limits.body_bytes:,} bytes")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limits.body_bytes:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in request.stream():
                body += part
                if len(body) > limits.body_bytes:
                    raise too_large
    except TimeoutError:
        raise RefusedRequestError(
            408, f"the body did not arrive within {limits.body_seconds:g} seconds"
        ) from None
    return bytes(body)
