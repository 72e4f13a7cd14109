"""The HTTP server: connections that do not finish their requests are closed, and their number is bounded."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.applications import Starlette

    from pruner.service.settings import Limits, Settings

HANDSHAKE_SECONDS = 5.0
"""How long a client may take for the TLS handshake."""

LEAST_READ = 64 * 1024
"""Bytes of its answer that a client must read within `Limits.read_seconds`."""


def log_to_stderr(prefix: str = "") -> None:
    """Send the log of this process to standard error, with `prefix` before each message."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)s {prefix}%(message)s"))
    log = logging.getLogger("pruner")
    log.addHandler(handler)
    log.setLevel(logging.INFO)


def server_of(
    app: Starlette, settings: Settings, at_end: Callable[[], None] = lambda: None
) -> uvicorn.Server:
    """Return a server for the service; the caller provides the listening socket.

    `at_end` is called after the last answer: a process that is ended by a signal runs nothing after the server.
    """
    # The protocol is named, so that other installed packages change nothing; there is no WebSocket here.
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=_protocol(settings.limits),
        ws="none",
        lifespan="off",
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.private_key,
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=settings.limits.idle_seconds,
    )
    return _Server(config, at_end)


class _Server(uvicorn.Server):
    """A server whose loop also bounds TLS handshakes: they precede the connection's own deadline."""

    def __init__(self, config: uvicorn.Config, at_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._at_end = at_end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish pending requests, then call `at_end`."""
        await super().shutdown(sockets)
        await asyncio.to_thread(self._at_end)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until the server is stopped."""
        with asyncio.Runner(loop_factory=_Loop) as runner:
            runner.run(self.serve(sockets=sockets))


class _Loop(asyncio.SelectorEventLoop):
    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        """Listen; asyncio's own limit for a handshake is a minute."""
        if options.get("ssl") is not None:
            options["ssl_handshake_timeout"] = HANDSHAKE_SECONDS
        return await super().create_server(*args, **options)


def _send_at_once(transport: asyncio.Transport) -> None:
    """Send an answer's body without waiting for the client to acknowledge its head, for which clients take 40 ms.

    asyncio does so by itself only for sockets that report their protocol, which those accepted from a listening socket
    that was passed in do not.
    """
    connection: socket.socket = transport.get_extra_info("socket")
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _protocol(limits: Limits) -> type[asyncio.Protocol]:
    """The class that the server instantiates for each connection; it carries the limits, as the server passes none."""
    return type("Connection", (_Connection,), {"limits": limits})


class _Connection(H11Protocol):
    """A connection with a deadline for the head of a request, for the rest of a body that the service does not read,
    and for answers that the client does not read.

    Arriving data does not extend the first two. Bodies that are read have their own limits (`guard.body_of`).
    """

    limits: Limits
    _left_over = 0
    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection, unless there are too many."""
        super().connection_made(cast("asyncio.Transport", transport))
        if len(self.connections) > self.limits.connections:
            self.transport.abort()
        else:
            _send_at_once(self.transport)
            self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel all deadlines."""
        self._clear_deadline()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client reads more slowly than the answer is written."""
        super().pause_writing()
        self._watch(self._unread_bytes())

    def resume_writing(self) -> None:
        """The client has read nearly everything."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _unread_bytes(self) -> int:
        """Bytes that the client has not received yet, here and in the kernel, whose buffer holds megabytes."""
        connection: socket.socket = self.transport.get_extra_info("socket")
        kept = bytearray(4)
        with suppress(ImportError, OSError):  # systems without the call
            import fcntl
            import termios

            fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, kept)
        return self.transport.get_write_buffer_size() + int.from_bytes(kept, sys.byteorder)

    def _watch(self, size: int) -> None:
        """Disconnect the client unless it reads some of `size` bytes in time; otherwise an answer would hold memory
        forever, as closing a connection waits until everything has been read.
        """

        def look() -> None:
            left = self._unread_bytes()
            if left <= size - LEAST_READ:
                self._watch(left)
            else:
                self.transport.abort()

        self._unread = self.loop.call_later(self.limits.read_seconds, look)

    def data_received(self, data: bytes) -> None:
        """Process the data, and update the deadlines."""
        super().data_received(data)
        if self._is_left_over():
            self._left_over += len(data)
            if self._left_over > self.limits.body_bytes:
                self.transport.abort()
        elif self.conn.their_state is h11.IDLE:
            self._set_deadline()
        else:
            self._clear_deadline()

    def on_response_complete(self) -> None:
        """Bound a client that was refused early and still sends; closing at once could lose the answer."""
        super().on_response_complete()
        if self._is_left_over():
            self._set_deadline()

    def _is_left_over(self) -> bool:
        return self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY

    def _set_deadline(self) -> None:
        if self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.limits.head_seconds, self.transport.abort)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
