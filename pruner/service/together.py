"""The scans of one query, planned for one request: a line of JSON for each, sent as soon as it is ready.

Scans of one table are planned one after the other on one snapshot of it. Tables do not wait for each other, so that one
that is slow to list delays only its own plans.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from pruner.service.guard import RefusedRequestError
from pruner.service.messages import ScanAnswer, decode_requests, encode
from pruner.service.planning import UnreadableError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from pruner.service.journal import PlannedAnswer
    from pruner.service.messages import PlanRequest
    from pruner.service.planning import Looked, Planning

MOST_SCANS = 256
"""Most scans of one request; a larger query needs several requests."""

CONTENT_TYPE = "application/x-ndjson"


class Looks:
    """Reads each table of one request once: all scans of a table see one state, unless they request others.

    Calls about one table must come one after the other.

    Attributes:
        planning: the planning of the configuration that was in effect when the request arrived.
    """

    def __init__(self, planning: Planning) -> None:
        self.planning = planning
        self._found: dict[tuple[str, str | None], Looked | UnreadableError] = {}

    def look(self, asked: PlanRequest) -> Looked:
        """The table that a request names, in its state at the first call for it.

        Raises:
            UnservedTableError: the configuration has no such table.
            UnreadableError: the table cannot be opened or listed.
        """
        wanted = self.planning.name_of(asked), asked.as_of
        looked = self._found.get(wanted)
        if looked is None:
            try:
                looked = self.planning.look(asked)
            except UnreadableError as error:
                looked = error
            self._found[wanted] = looked
        if isinstance(looked, UnreadableError):
            raise looked
        return looked


class RequestedScan(NamedTuple):
    """One scan of a request: its position, the decoded request, and its bytes."""

    number: int
    asked: PlanRequest
    body: bytes

    def knowing(self, snapshot_id: str) -> RequestedScan:
        """The same for a client that has received the keys of a snapshot with the answer to an earlier scan."""
        if self.asked.known_snapshot == snapshot_id:
            return self
        asked = msgspec.structs.replace(self.asked, known_snapshot=snapshot_id)
        return RequestedScan(self.number, asked, encode(asked))


PlanOne: TypeAlias = "Callable[[PlanRequest, bytes, Looks], Awaitable[PlannedAnswer]]"
Decode: TypeAlias = "Callable[[bytes], PlanRequest]"
Reason: TypeAlias = "Callable[[Exception], RefusedRequestError]"


def scans_of(body: bytes) -> list[bytes]:
    """The requests in a body.

    Raises:
        RefusedRequestError: it cannot be read, or holds none or too many.
    """
    try:
        scans = [bytes(scan) for scan in decode_requests(body).scans]
    except RecursionError:
        raise RefusedRequestError(400, "the request is nested too deep") from None
    except msgspec.MsgspecError as error:
        raise RefusedRequestError(400, f"the request cannot be read: {error}") from None
    if not 0 < len(scans) <= MOST_SCANS:
        raise RefusedRequestError(413, f"a request must hold 1 to {MOST_SCANS} scans, not {len(scans)}")
    return scans


class Together:
    """Plans the scans of one request.

    Args:
        planning: the planning of the configuration that is in effect when the request arrives.
        decode: reads one request.
        plan: plans one request.
        reason: turns a failure into what the client is told.
        seconds: the time after which no further plan is started.
    """

    def __init__(
        self, planning: Planning, decode: Decode, plan: PlanOne, reason: Reason, seconds: float
    ) -> None:
        self._planning = planning
        self._decode = decode
        self._plan = plan
        self._reason = reason
        self._seconds = seconds
        self._answers: asyncio.Queue[ScanAnswer] = asyncio.Queue()

    async def lines(self, bodies: list[bytes]) -> AsyncGenerator[bytes]:
        """Yield a line for each scan, in the order in which they are ready."""
        looks = Looks(self._planning)
        end = asyncio.get_running_loop().time() + self._seconds
        groups = [asyncio.create_task(self._plan_group(scans, looks, end)) for scans in self._groups(bodies)]
        try:
            for _ in bodies:
                yield encode(await self._answers.get()) + b"\n"
        finally:
            # The client may have gone away; a running plan ends by itself.
            for group in groups:
                group.cancel()

    def _groups(self, bodies: list[bytes]) -> list[list[RequestedScan]]:
        """The scans by table; those that cannot be read are answered at once."""
        groups: dict[str, list[RequestedScan]] = {}
        for number, body in enumerate(bodies):
            try:
                asked = self._decode(body)
                name = self._planning.name_of(asked)
            except Exception as error:
                self._refuse(number, error)
            else:
                groups.setdefault(name, []).append(RequestedScan(number, asked, body))
        return list(groups.values())

    async def _plan_group(self, scans: list[RequestedScan], looks: Looks, end: float) -> None:
        loop = asyncio.get_running_loop()
        snapshot_id: str | None = None
        for each in scans:
            scan = each if snapshot_id is None else each.knowing(snapshot_id)
            try:
                if loop.time() > end:
                    raise RefusedRequestError(408, "the scans before it took too long")
                made = await self._plan(scan.asked, scan.body, looks)
            except Exception as error:
                self._refuse(scan.number, error)
            else:
                snapshot_id = made.keys_id
                self._answers.put_nowait(ScanAnswer(scan.number, 200, plan=msgspec.Raw(made.answer)))

    def _refuse(self, number: int, error: Exception) -> None:
        refused = self._reason(error)
        self._answers.put_nowait(ScanAnswer(number, refused.status, error=str(refused)))
