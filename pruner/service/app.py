"""The planner over HTTP: `POST /v1/plan`, and the routes for operating it (docs/service.md)."""

from __future__ import annotations

import base64
import hashlib
import logging
import time
import weakref
import zlib
from collections import deque
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from pruner.bounded_cache import BoundedCache
from pruner.errors import PredicateError, PrunerError, SchemaError
from pruner.service.answering import answers_of
from pruner.service.guard import Guard, RefusedRequestError, body_of, refusal
from pruner.service.journal import (
    Entry,
    Journal,
    Lately,
    PlannedAnswer,
    ReceivedRequest,
    Remembered,
    Reports,
    outcome_of,
)
from pruner.service.messages import PlanAnswer, decode_question, decode_request, encode
from pruner.service.metrics import CONTENT_TYPE, Metrics
from pruner.service.openapi import description
from pruner.service.page import PAGE_HEADERS, overview_of, page
from pruner.service.planning import KEY_BYTES, UnservedTableError, Work, slice_keys
from pruner.service.rest_catalog.routes import RestCatalog
from pruner.service.together import CONTENT_TYPE as LINES
from pruner.service.together import Looks, Together, scans_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Mapping

    from starlette.requests import Request

    from pruner.service.messages import PlanRequest
    from pruner.service.planning import Planned
    from pruner.service.served import Served
    from pruner.service.settings import Settings
    from pruner.service.siblings import Siblings, Subject
    from pruner.service.telemetry import Telemetry
    from pruner.tables.snapshot import Snapshot

    Handler = Callable[[Request], Awaitable[Response]]

# Plans as answers that stay small: one bit for each slice, and the slices' keys only for clients that lack them.

INLINE_SLICES = 4096
"""Up to this number of slices, an answer includes their keys: 64 KiB, which costs less than a second request."""

CACHED_KEY_BYTES = 256 * 1024 * 1024
"""Memory for the keys of snapshots; the most recently used ones stay."""

KEPT_SNAPSHOTS = 8
"""Snapshots of a table whose keys are kept: a client requests keys right after the answer that names them."""


class SnapshotKeys(NamedTuple):
    """The keys of all slices of a snapshot, in the order of their ordinals, and the id by which clients know them.

    The id begins with that of the snapshot and ends with a digest of the keys: copies of a Hudi table have the same
    timeline, and so the same snapshot id, but other files.
    """

    id: str
    keys: bytes


class _Known(NamedTuple):
    snapshot: weakref.ref[Snapshot]
    id: str


class KeyCache:
    """The keys of the snapshots that were planned on; they are computed once, at about 2 µs per slice."""

    def __init__(self, limit_bytes: int = CACHED_KEY_BYTES) -> None:
        self._keys: BoundedCache[str, bytes] = BoundedCache(limit_bytes)
        self._last: dict[str, _Known] = {}
        self._ids: dict[str, deque[str]] = {}
        self._lock = Lock()

    def of(self, table: str, snapshot: Snapshot) -> SnapshotKeys:
        """The keys of a table's snapshot; afterwards they can be looked up by their id."""
        last = self._last.get(table)
        if last is not None and last.snapshot() is snapshot:
            keys = self._keys.get(last.id)
            if keys is not None:
                return SnapshotKeys(last.id, keys)
        keys = slice_keys(snapshot)
        keys_id = f"{snapshot.id}-{hashlib.sha256(keys).hexdigest()[:32]}"
        self._keys.put(keys_id, keys, len(keys))
        self._last[table] = _Known(weakref.ref(snapshot), keys_id)
        self._forget_old(table, keys_id)
        return SnapshotKeys(keys_id, keys)

    def _forget_old(self, table: str, newest: str) -> None:
        """Forget the keys of old snapshots of a table that changes all the time."""
        with self._lock:
            ids = self._ids.setdefault(table, deque())
            if newest in ids:
                ids.remove(newest)
            ids.append(newest)
            if len(ids) > KEPT_SNAPSHOTS:
                oldest = ids.popleft()
                if not any(oldest in others for others in self._ids.values()):
                    self._keys.drop(oldest)

    def known(self, keys_id: str) -> bytes | None:
        """The keys of a snapshot that was planned on recently; None for others."""
        return self._keys.get(keys_id)


def answer_of(request: PlanRequest, planned: Planned, plan_id: str, cache: KeyCache) -> PlanAnswer:
    """Return the answer to a request; the keys are then in `cache`."""
    plan = planned.plan
    keys_id, keys = cache.of(planned.table, planned.snapshot.data)
    inline = request.known_snapshot != keys_id and len(keys) <= INLINE_SLICES * KEY_BYTES
    bits = np.packbits(~plan.kept_mask, bitorder="little").tobytes()
    return PlanAnswer(
        plan_id=plan_id,
        table=planned.table,
        snapshot_id=keys_id,
        total=plan.total,
        kept=plan.kept,
        drop=base64.b64encode(zlib.compress(bits, level=1)).decode(),
        keys=base64.b64encode(keys).decode() if inline else None,
        planning_ms=round(plan.planning_seconds * 1000, 3),
        fallbacks=list(plan.fallbacks),
        staleness_ms=planned.staleness * 1000,
    )


_log = logging.getLogger("pruner")

Decoded = TypeVar("Decoded")

_PACKED = msgspec.msgpack.Encoder()


def create_app(
    served: Served,
    settings: Settings,
    siblings: Siblings | None = None,
    telemetry: Telemetry | None = None,
) -> Starlette:
    """Return the ASGI application that plans over the served tables.

    Args:
        served: the tables.
        settings: limits, and who may use the service.
        siblings: the other workers of the same service; None if there are none.
        telemetry: where spans and metrics are sent; None for nowhere.

    Raises:
        ConfigError: the settings would let strangers in.
    """
    settings.check()
    service = _Service(served, settings, siblings, telemetry)
    routes = [
        service.route("/v1/plan", service.plan, "POST"),
        service.route("/v1/plans", service.plans, "POST"),
        service.route("/v1/answers", service.answers, "POST"),
        service.route("/v1/plans/{id}", service.report, "GET"),
        service.route("/v1/snapshots/{id}/keys", service.keys, "GET"),
        service.route("/v1/tables", service.tables, "GET"),
        service.route("/v1/asked", service.asked, "GET"),
        service.route("/v1/openapi.json", service.openapi, "GET"),
        service.route("/healthz", service.health, "GET"),
        service.route("/readyz", service.ready, "GET"),
        service.route("/", service.page, "GET"),
        service.route("/metrics", service.figures, "GET"),
        *service.catalog.routes(),
    ]
    guard = Middleware(Guard, token=settings.token, limits=settings.limits)
    return Starlette(routes=routes, middleware=[guard], exception_handlers={HTTPException: _no_route})


async def _no_route(request: Request, error: Exception) -> Response:
    """Refuse a path or a method that no route has, in the form of every other refusal."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    headers: Mapping[str, str] = getattr(error, "headers", None) or {}
    path = request.url.path[:200]
    taken = headers.get("Allow")
    sentence = (
        f"no route for {request.method} {path}: /v1/openapi.json lists them"
        if taken is None
        else f"{path} takes {taken}, not {request.method}: /v1/openapi.json describes it"
    )
    answer = refusal(status, sentence)
    answer.headers.update(headers)
    return answer


class _Service:
    """The routes and what they share."""

    def __init__(
        self, served: Served, settings: Settings, siblings: Siblings | None, telemetry: Telemetry | None
    ) -> None:
        self._served = served
        self._telemetry = telemetry
        self._limits = settings.limits
        self._metrics = Metrics()
        self._reports = Reports()
        self._keys = KeyCache()
        self._remembered = Remembered()
        self._journal = Journal()
        self.work = Work(settings.limits)
        self.catalog = RestCatalog(served, self.work, settings, siblings)
        self._siblings = siblings
        self._all_began = siblings is None
        if siblings is not None:
            siblings.listen(self._tell)

    def _tell(self, subject: Subject, name: str) -> bytes | None:
        """Answer another worker from what only this process knows."""
        match subject:
            case "plan":
                asked = self._reports.asked(name)
                return None if asked is None else _PACKED.encode(asked)
            case "keys":
                return self._keys.known(name)
            case "plans":
                return _PACKED.encode(self._journal.lately())
            case "asked":
                return self.catalog.asked.lines()
            case "scan" | "cancel":
                return self.catalog.tell(subject, name)
            case "ready":
                return None if self._served.readiness() else b"ready"

    def _asked_elsewhere(self, plan_id: str) -> ReceivedRequest | None:
        told = next(self._siblings.ask("plan", plan_id), None) if self._siblings is not None else None
        return None if told is None else msgspec.msgpack.decode(told, type=ReceivedRequest)

    def _keys_elsewhere(self, keys_id: str) -> bytes | None:
        return next(self._siblings.ask("keys", keys_id), None) if self._siblings is not None else None

    def _have_all_begun(self) -> bool:
        """Whether each worker has been ready once; a worker that is restarted later does not change that."""
        if self._siblings is not None and not self._all_began:
            self._all_began = sum(1 for _ in self._siblings.ask("ready")) == self._siblings.count - 1
        return self._all_began

    def _lately(self) -> Lately:
        told = self._siblings.ask("plans") if self._siblings is not None else ()
        return self._journal.lately().together(msgspec.msgpack.decode(item, type=Lately) for item in told)

    def route(self, path: str, handler: Handler, method: str) -> Route:
        """A route whose failures become a status and one sentence; requests are counted under the route's pattern."""

        async def serve(request: Request) -> Response:
            if self._telemetry is not None:
                self._telemetry.began()
            with self._metrics.in_flight.track_inprogress():
                try:
                    response = await handler(request)
                except Exception as error:
                    refused = _reason(error)
                    response = refusal(refused.status, str(refused))
            self._metrics.served(path, response.status_code)
            if self._telemetry is not None:
                self._telemetry.served(path, response.status_code)
            return response

        return Route(path, serve, methods=[method])

    async def plan(self, request: Request) -> Response:
        """Plan one scan."""
        with self._span(request) as told:
            started = time.perf_counter()
            body = await body_of(request, self._limits)
            made = await self._made(_decoded(body), body, Looks(self._served.planning), started, told)
        return Response(made.answer, media_type="application/json")

    async def plans(self, request: Request) -> Response:
        """Plan the scans of a query, and answer each as soon as it is planned."""
        bodies = scans_of(await body_of(request, self._limits))

        async def plan(asked: PlanRequest, body: bytes, looks: Looks) -> PlannedAnswer:
            with self._span(request) as told:
                return await self._made(asked, body, looks, time.perf_counter(), told)

        together = Together(self._served.planning, _decoded, plan, _reason, self._limits.plan_seconds)
        return StreamingResponse(together.lines(bodies), media_type=LINES)

    async def answers(self, request: Request) -> Response:
        """Answer what metadata says about the rows of a scan."""
        asked = _read(await body_of(request, self._limits), decode_question)
        planning = self._served.planning
        answer = await self.work.run(lambda: answers_of(planning, asked))
        return Response(encode(answer), media_type="application/json")

    @contextmanager
    def _span(self, request: Request) -> Generator[Callable[[Entry], None]]:
        """A span for one plan, if spans are sent; yields a function that records the plan's outcome in it."""
        telemetry = self._telemetry
        if telemetry is None:
            yield lambda _: None
            return
        with telemetry.plan(request.headers) as span:
            yield lambda entry: telemetry.planned(span, entry)

    async def _made(
        self, asked: PlanRequest, body: bytes, looks: Looks, started: float, told: Callable[[Entry], None]
    ) -> PlannedAnswer:
        """A plan, counted and logged; its duration is measured from `started`."""
        made, again = await self.work.run(lambda: self._answer(asked, body, looks))
        seconds = time.perf_counter() - started
        self._metrics.planned(made.outcome, seconds)
        entry = Entry(made.outcome, time.time() - seconds, seconds, again)
        self._journal.record(entry)
        told(entry)
        return made

    def _answer(self, asked: PlanRequest, body: bytes, looks: Looks) -> tuple[PlannedAnswer, bool]:
        """The answer to a request, and whether it was made before; the table is checked in any case."""
        looked = looks.look(asked)
        known = self._remembered.made(looked.table, looked.snapshot, body)
        if known is not None:
            # The client may request the keys and the report next, as after a new plan.
            self._keys.of(looked.table, looked.snapshot.data)
            self._reports.remember(body, looked.snapshot.id)
            known.count_again()
            return known, True
        planned = looks.planning.plan(asked, looked)
        plan_id = self._reports.remember(body, planned.plan.snapshot_id)
        answer = answer_of(asked, planned, plan_id, self._keys)
        outcome = outcome_of(planned, asked.session.engine, plan_id)
        made = PlannedAnswer(outcome, encode(answer), answer.snapshot_id, planned.plan.count_again)
        self._remembered.remember(looked.table, looked.snapshot, body, made)
        return made, False

    async def report(self, request: Request) -> Response:
        """The report of a past plan, which is made again from the request."""
        plan_id: str = request.path_params["id"]
        asked = self._reports.asked(plan_id) or await self.work.run(lambda: self._asked_elsewhere(plan_id))
        if asked is None:
            raise RefusedRequestError(404, "no such plan: it is unknown or has expired")
        planned = await self.work.run(lambda: self._plan_again(_decoded(asked.body)))
        if planned.plan.snapshot_id != asked.snapshot_id:
            raise RefusedRequestError(410, "the table has changed since that plan: plan again")
        return Response(planned.plan.to_json("summary"), media_type="application/json")

    def _plan_again(self, asked: PlanRequest) -> Planned:
        planning = self._served.planning
        return planning.plan(asked, planning.look(asked))

    async def keys(self, request: Request) -> Response:
        """The keys of all slices of a snapshot that was planned on, as bytes."""
        keys_id: str = request.path_params["id"]
        keys = self._keys.known(keys_id) or await self.work.run(lambda: self._keys_elsewhere(keys_id))
        if keys is None:
            raise RefusedRequestError(404, "no recent plan used that snapshot: plan again")
        return Response(keys, media_type="application/octet-stream")

    async def tables(self, _: Request) -> Response:
        """The tables by name."""
        return Response(encode(self._served.planning.tables), media_type="application/json")

    async def asked(self, _: Request) -> Response:
        """The scans that stock Iceberg clients requested from the catalog: lines for `pruner advise --log`."""
        return Response(await self.work.run(self._asked), media_type=LINES)

    def _asked(self) -> bytes:
        told = self._siblings.ask("asked") if self._siblings is not None else ()
        return b"".join((self.catalog.asked.lines(), *told))

    async def openapi(self, _: Request) -> Response:
        """The OpenAPI description."""
        return Response(encode(description()), media_type="application/json")

    async def health(self, _: Request) -> Response:
        """Whether the service runs."""
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def ready(self, _: Request) -> Response:
        """Whether plans can be requested; it says nothing about the tables, because it needs no token."""
        hindrance = self._served.readiness()
        if hindrance is None and not self._all_began and not await self.work.run(self._have_all_begun):
            hindrance = "starting"
        state = encode({"status": hindrance or "ready"})
        return Response(state, 503 if hindrance else 200, media_type="application/json")

    async def page(self, _: Request) -> Response:
        """The tables, how far indexes cover them, the last plans and what to do, for display."""
        content = await self.work.run(lambda: page(overview_of(self._served, self._lately())))
        return Response(content, media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)

    async def figures(self, _: Request) -> Response:
        """The metrics, for Prometheus."""
        return Response(self._metrics.text(), media_type=CONTENT_TYPE)


def _decoded(body: bytes) -> PlanRequest:
    return _read(body, decode_request)


def _read(body: bytes, decode: Callable[[bytes], Decoded]) -> Decoded:
    try:
        return decode(body)
    except RecursionError:
        raise RefusedRequestError(400, "the request is nested too deep") from None
    except msgspec.MsgspecError as error:
        raise RefusedRequestError(400, f"the request cannot be read: {error}") from None


def _reason(error: Exception) -> RefusedRequestError:
    """The refusal that a client gets for a failure; details that strangers must not read go to the service's log."""
    match error:
        case RefusedRequestError():
            return error
        case ClientDisconnect():
            return RefusedRequestError(400, "the client went away")
        case UnservedTableError():
            return RefusedRequestError(404, str(error))
        case PredicateError() | SchemaError():
            return RefusedRequestError(422, str(error))
        case PrunerError():
            # Messages of stores can contain locations and keys.
            _log.warning("no plan: %s", error)
            return RefusedRequestError(503, "the table cannot be planned now: the service's log says why")
        case _:
            _log.error("a request failed", exc_info=error)
            return RefusedRequestError(500, "the service failed: its log says why")
