"""The routes of the catalog, below `/iceberg`: tables are listed, loaded and planned; nothing is written.

Each page's token contains the filter, the snapshot and the position where the page begins, so that any worker can serve
any page. Two things are cached for each plan: the token of its first page, so that it can be fetched again by its id,
and the files that it names, so that its further pages are not planned again. Both caches are bounded, and serving
pages depends on neither.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import time
import uuid
import zlib
from collections import OrderedDict
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
from starlette.responses import Response
from starlette.routing import Route

from pruner.arrow import as_numpy, compute
from pruner.bounded_cache import BoundedCache
from pruner.errors import PredicateError, PrunerError, SchemaError
from pruner.service.guard import CATALOG, CatalogError, RefusedRequestError, body_of, catalog_error
from pruner.service.planning import UnservedTableError
from pruner.service.rest_catalog.asked import RecordedFilters, Report, ScanReport
from pruner.service.rest_catalog.credentials import NOT_STORED, WANTED_BY, Vending, storage_credentials
from pruner.service.rest_catalog.filters import Filter
from pruner.service.rest_catalog.iceberg import IcebergTable
from pruner.service.rest_catalog.metadata import ServedTable, UnservedError, snapshot_number
from pruner.service.rest_catalog.tasks import PagedPlans, RowCounts, page_of, place_for_client
from pruner.tables.iceberg.source import IcebergState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from numpy.typing import NDArray
    from starlette.requests import Request

    from pruner.planning.pinned import PinnedSnapshot
    from pruner.service.planning import Work
    from pruner.service.served import Served
    from pruner.service.settings import Settings
    from pruner.service.siblings import Siblings, Subject

AnyTable = ServedTable | IcebergTable

DEFAULT_NAMESPACE: Final = "default"
"""The namespace of tables whose names have no dot."""

_SEPARATOR: Final = "\x1f"
_KEPT_SNAPSHOTS: Final = 8
"""Snapshots of a table, the newest included, that can be read by their numbers while the service runs."""

_TOKEN_BYTES: Final = 32 * 1024 * 1024
"""More than the size of a filter as large as a body may be, once its numbers are written out."""

PLAN_SECONDS: Final = 900.0
"""How long a plan can be fetched again by its id."""

_PLAN_ID_LENGTH: Final = 32

_NEXT: Final = -1
"""The start of a page of an incremental scan whose snapshot has no more files: it begins with the next snapshot."""

_TOKEN_AROUND: Final = 64
"""Bytes of a request for a page besides its token."""

_PLAN_BYTES: Final = 8 * 1024 * 1024
"""Memory for plans that can be fetched again; the most recently used ones stay."""

_log = logging.getLogger("pruner")

_ENDPOINTS: Final = (
    "GET /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan/{plan-id}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
)
_SERVER_PLANS: Final = {"scan-planning-mode": "server"}


_Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class PlanScan(msgspec.Struct, rename="kebab"):
    """A scan that a client wants planned: schema `PlanTableScanRequest`."""

    snapshot_id: _Long | None = None
    select: list[str] | None = None
    filter: Any = None
    case_sensitive: bool = True
    use_snapshot_schema: bool = False
    start_snapshot_id: _Long | None = None
    end_snapshot_id: _Long | None = None
    stats_fields: list[str] | None = None
    min_rows_requested: int | None = None


class FetchTasks(msgspec.Struct, rename="kebab"):
    """A request for the next page: schema `FetchScanTasksRequest`."""

    plan_task: str


class _Page(NamedTuple):
    """Where a page of a plan begins.

    Attributes:
        snapshot_id: the snapshot whose files it names.
        start: the position of the first slice.
        filter: as the client sent it.
        case_sensitive: whether names in the filter are case-sensitive.
        snapshot_schema: whether names in the filter are those of the snapshot's own schema.
        end_snapshot_id: the last snapshot of an incremental scan; the page then names files that its snapshot added.
    """

    snapshot_id: int
    start: int
    filter: Any
    case_sensitive: bool
    snapshot_schema: bool
    end_snapshot_id: int | None


class Plans:
    """The tokens of the first pages of plans, by plan id. Threads may share it."""

    def __init__(self, limit_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._kept: BoundedCache[str, tuple[float, str, str]] = BoundedCache(limit_bytes)
        self._clock = clock

    def keep(self, table: str, token: str) -> str:
        """Keep the token of a plan's first page; returns the id of the plan, which cannot be guessed."""
        plan_id = uuid.uuid4().hex
        self._kept.put(plan_id, (self._clock(), table, token), len(token))
        return plan_id

    def token(self, table: str, plan_id: str) -> str | None:
        """The token of a plan's first page; None for a plan of another table, and for one that was forgotten."""
        kept_plan = self._kept.get(plan_id)
        if kept_plan is None or kept_plan[1] != table or self._clock() - kept_plan[0] > PLAN_SECONDS:
            return None
        return kept_plan[2]

    def forget(self, table: str, plan_id: str) -> bool:
        """Forget a plan; returns whether it was known."""
        known = self.token(table, plan_id) is not None
        if known:
            self._kept.drop(plan_id)
        return known


class RestCatalog:
    """Serves the configured tables to stock Iceberg clients."""

    def __init__(
        self, served: Served, work: Work, settings: Settings, siblings: Siblings | None = None
    ) -> None:
        self._served = served
        self._work = work
        self._limits = settings.limits
        self._vending = Vending(has_token=settings.token is not None)
        self.asked = RecordedFilters()
        self._siblings = siblings
        self._plans = Plans(_PLAN_BYTES)
        self._kept_slices = PagedPlans()
        self._known: dict[str, OrderedDict[int, tuple[AnyTable, RowCounts]]] = {}
        self._lock = Lock()

    def routes(self) -> list[Route]:
        """All routes; the last one, for everything else, answers that the catalog is read-only."""
        table = "/v1/namespaces/{namespace}/tables/{table}"
        served: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
            ("GET", "/v1/config", self.config),
            ("GET", "/v1/namespaces", self.namespaces),
            ("GET", "/v1/namespaces/{namespace}", self.namespace),
            ("GET", "/v1/namespaces/{namespace}/tables", self.tables),
            ("GET", table, self.table),
            ("POST", f"{table}/plan", self.plan),
            ("GET", f"{table}/plan/{{plan_id}}", self.planned),
            ("DELETE", f"{table}/plan/{{plan_id}}", self.cancelled),
            ("POST", f"{table}/tasks", self.tasks),
            ("POST", f"{table}/metrics", self.reported),
            ("GET", f"{table}/credentials", self.credentials),
        ]
        others = ["GET", "POST", "PUT", "DELETE", "PATCH"]
        return [
            *(
                Route(CATALOG + path, _answering(handler), methods=[method])
                for method, path, handler in served
            ),
            Route(f"{CATALOG}/{{path:path}}", _answering(self.unsupported), methods=others),
        ]

    async def config(self, _: Request) -> Response:
        """The endpoints that clients may use, and the setting that plans are made by the server."""
        return _json({"defaults": {}, "overrides": _SERVER_PLANS, "endpoints": list(_ENDPOINTS)})

    async def namespaces(self, request: Request) -> Response:
        """The namespaces directly below a parent, or at the top level."""
        parent = _namespace(request.query_params.get("parent") or "")
        depth = len(parent) + 1
        spaces = {
            space[:depth] for space in self._spaces() if len(space) >= depth and space[: depth - 1] == parent
        }
        if parent and not spaces and parent not in self._spaces():
            raise _missing("NoSuchNamespaceException", f"no namespace {'.'.join(parent)[:200]!r} is served")
        return _json({"namespaces": [list(space) for space in sorted(spaces)]})

    async def namespace(self, request: Request) -> Response:
        """Whether a namespace exists."""
        space = self._space(request)
        if request.method == "HEAD":
            return Response(status_code=204)
        return _json({"namespace": list(space), "properties": {}})

    async def tables(self, request: Request) -> Response:
        """The tables of a namespace."""
        space = self._space(request)
        names = sorted(name for where, name in self._names().values() if where == space)
        return _json({"identifiers": [{"namespace": list(space), "name": name} for name in names]})

    async def table(self, request: Request) -> Response:
        """A table's metadata; the ETag covers the whole response."""
        name = self._name(request)
        if request.method == "HEAD":
            return Response(status_code=204)
        python = _is_python(request)
        wanted = request.headers.get(WANTED_BY, "")
        answer, has_secrets = await self._work.run(lambda: self._loaded(name, wanted, python=python))
        headers = {
            "ETag": f'"{hashlib.sha256(answer).hexdigest()[:32]}"',
            **(NOT_STORED if has_secrets else {}),
        }
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(answer, media_type="application/json", headers=headers)

    def _loaded(self, name: str, wanted: str, *, python: bool) -> tuple[bytes, bool]:
        """A table's metadata, and whether credentials are included."""
        table, _ = self._now(name)
        root = table.pinned.data.root
        config = self._vending.config(self._served.planning.vended.get(name), root, wanted)
        metadata = table.metadata(python=python)
        encoded = msgspec.json.encode(metadata)
        told: dict[str, Any] = {"metadata": msgspec.Raw(encoded), "config": _SERVER_PLANS | config}
        if not python:
            told["metadata-location"] = _metadata_file(table, metadata["location"], encoded)
        if config:
            told["storage-credentials"] = storage_credentials(root, config)
        return msgspec.json.encode(told), bool(config)

    async def credentials(self, request: Request) -> Response:
        """The credentials of a table's store, if `pruner.toml` allows clients to have them."""
        name = self._name(request)
        options = self._served.planning.vended.get(name)

        def found() -> list[dict[str, Any]]:
            root = "" if options is None else self._served.table(name).snapshot().data.root
            return self._vending.answer(name, options, root)

        return _json({"storage-credentials": await self._work.run(found)}, NOT_STORED)

    async def plan(self, request: Request) -> Response:
        """The first page of a plan."""
        name = self._name(request)
        asked = _decoded(await body_of(request, self._limits), PlanScan)

        def first() -> dict[str, Any]:
            page = self._first(name, asked)
            if asked.select is not None and _is_python(request):
                self._require_selected(name, page, asked.select)
            first_page = self._page(name, page, request, is_new=True)
            return {"status": "completed", "plan-id": self._plans.keep(name, _token(page)), **first_page}

        return _json(await self._work.run(first))

    async def planned(self, request: Request) -> Response:
        """The first page of an earlier plan, over the same snapshot."""
        name, plan_id = self._name(request), request.path_params["plan_id"]

        def again() -> dict[str, Any]:
            token = self._plans.token(name, plan_id) or self._elsewhere("scan", name, plan_id)
            if token is None:
                raise _no_plan(plan_id)
            return {"status": "completed", **self._page(name, _page_of_token(token), request)}

        return _json(await self._work.run(again))

    async def cancelled(self, request: Request) -> Response:
        """Forget a plan that a client no longer needs."""
        name, plan_id = self._name(request), request.path_params["plan_id"]
        forgotten = await self._work.run(
            lambda: self._plans.forget(name, plan_id) or self._elsewhere("cancel", name, plan_id) is not None
        )
        if not forgotten:
            raise _no_plan(plan_id)
        return Response(status_code=204)

    async def tasks(self, request: Request) -> Response:
        """A further page."""
        name = self._name(request)
        page = _page_of_token(_decoded(await body_of(request, self._limits), FetchTasks).plan_task)
        return _json(await self._work.run(lambda: self._page(name, page, request)))

    def tell(self, subject: Subject, about: str) -> bytes | None:
        """Answer another worker about a plan, by its id and the name of its table."""
        plan_id, _, table = about.partition(" ")
        if subject == "cancel":
            return b"forgotten" if self._plans.forget(table, plan_id) else None
        token = self._plans.token(table, plan_id)
        return None if token is None else token.encode()

    def _elsewhere(self, subject: Subject, table: str, plan_id: str) -> str | None:
        """What another worker knows about a plan. Ids of another length are not sent, so that questions stay short."""
        if self._siblings is None or len(plan_id) != _PLAN_ID_LENGTH:
            return None
        told = next(self._siblings.ask(subject, f"{plan_id} {table}"), None)
        return None if told is None else told.decode()

    async def reported(self, request: Request) -> Response:
        """Accept a client's metrics report; scan reports are kept for the advisor."""
        name = self._name(request)
        report = _decoded(await body_of(request, self._limits), Report)
        if isinstance(report, ScanReport):
            await self._work.run(lambda: self._keep_report(name, report))
        return Response(status_code=204)

    def _keep_report(self, name: str, report: ScanReport) -> None:
        table, _ = self._now(name)
        names = table.columns(case_sensitive=False)
        named = None if names is None else names.field
        asked = Filter(report.filter, table.pinned.schema, case_sensitive=False, named=named)
        self.asked.reported(name, table.pinned.data.root, asked, report)

    async def unsupported(self, request: Request) -> Response:
        """Refuse everything that would change a table, and everything that this catalog does not support."""
        raise _unsupported(
            f"{request.method} {request.url.path[:200]} is not served: this catalog is read-only; change the table "
            "by the engine that writes it"
        )

    def _first(self, name: str, asked: PlanScan) -> _Page:
        """Where a plan begins.

        Raises:
            RefusedRequestError: an incremental scan lacks one of its two ends, or the end does not descend from the
                start.
            CatalogError: an incremental scan of a table that is not an Iceberg table.
        """
        start, end = asked.start_snapshot_id, asked.end_snapshot_id
        if start is None and end is None:
            table, _ = self._at(name, asked.snapshot_id)
            return _Page(
                table.snapshot_id, 0, asked.filter, asked.case_sensitive, asked.use_snapshot_schema, None
            )
        if start is None or end is None or asked.snapshot_id is not None:
            raise RefusedRequestError(
                400, "an incremental scan has start-snapshot-id and end-snapshot-id, and no snapshot-id"
            )
        table, _ = self._now(name)
        if not isinstance(table, IcebergTable):
            raise _unsupported(
                f"table {name} is not an Iceberg table: which files a snapshot added is known of those alone, so "
                "incremental scans are not planned"
            )
        if table.appends(start, end) is None:
            raise RefusedRequestError(
                400, f"snapshot {start} of table {name} is no ancestor of snapshot {end}"
            )
        return _Page(start, _NEXT, asked.filter, asked.case_sensitive, asked.use_snapshot_schema, end)

    def _require_selected(self, name: str, page: _Page, select: list[str]) -> None:
        """Refuse a plan with which PyIceberg would lose rows: when filtering, it treats columns that are in no file as
        NULL unless they are selected.
        """
        table, _ = self._at(name, page.snapshot_id)
        asked = _filter_of(table, page)
        if asked is None or isinstance(table, IcebergTable):
            return
        fold: Callable[[str], str] = str if page.case_sensitive else str.lower
        selected = {fold(each) for each in select}
        of_paths = (
            each.path[0] for each in table.pinned.schema.fields if each.partition and not each.in_file
        )
        lacking = sorted(each for each in asked.columns() & {*of_paths} if fold(each) not in selected)
        if lacking:
            raise RefusedRequestError(
                400,
                f"select {' and '.join(lacking)} as well: PyIceberg finds wrong rows where it filters by a partition "
                "column that is not in the files of the table and not selected",
            )

    def _page(self, name: str, page: _Page, request: Request, *, is_new: bool = False) -> dict[str, Any]:
        """The scan tasks of a page, and the token of the next page; `is_new` for the first page of a new plan."""
        if page.start == _NEXT:
            page = self._next_append(name, page)
            if page.start == _NEXT:
                return {"file-scan-tasks": []}
        table, counts = self._at(name, page.snapshot_id)
        asked = _filter_of(table, page)
        added = None if page.end_snapshot_id is None else partial(self._added, name, table)
        answer, following, left = page_of(
            table, asked, page.start, counts, self._kept_slices, python=_is_python(request), added=added
        )
        if is_new:
            self.asked.planned(name, table.pinned.data.root, asked, left, len(table.pinned.data))
        if following is None and page.end_snapshot_id not in (None, page.snapshot_id):
            following = _NEXT
        if following is not None:
            token = _token(page._replace(start=following))
            if len(token) > self._limits.body_bytes - _TOKEN_AROUND:
                raise RefusedRequestError(
                    413, "the filter is too large for a plan of several pages: send a shorter one"
                )
            answer["plan-tasks"] = [token]
        return answer

    def _next_append(self, name: str, page: _Page) -> _Page:
        """The first page of files that the next snapshot of an incremental scan added; the page itself if none did."""
        table, _ = self._now(name)
        end = page.end_snapshot_id
        appends = None
        if isinstance(table, IcebergTable) and end is not None:
            appends = table.appends(page.snapshot_id, end)
        if appends is None:
            raise _missing("NoSuchPlanTaskException", f"table {name} was rolled back meanwhile: plan again")
        return page._replace(snapshot_id=appends[0], start=0) if appends else page

    def _added(self, name: str, table: AnyTable) -> NDArray[np.bool_]:
        """Which slices a snapshot of an Iceberg table added to those of its parent."""
        assert isinstance(table, IcebergTable)
        parent = table.parent_id
        if parent is None:
            return np.ones(len(table.pinned.data), np.bool_)
        before, _ = self._at(name, parent)
        assert isinstance(before, IcebergTable)
        known: Any = compute.is_in(table.paths, value_set=before.paths)
        return ~as_numpy(known)

    def _names(self) -> dict[str, tuple[tuple[str, ...], str]]:
        """The namespace and name of each table, by its name in the configuration."""
        names: dict[str, tuple[tuple[str, ...], str]] = {}
        for table in self._served.planning.tables:
            *space, name = table.name.split(".")
            names[table.name] = tuple(space) or (DEFAULT_NAMESPACE,), name
        return names

    def _spaces(self) -> set[tuple[str, ...]]:
        return {space[:depth] for space, _ in self._names().values() for depth in range(1, len(space) + 1)}

    def _space(self, request: Request) -> tuple[str, ...]:
        space = _namespace(request.path_params["namespace"])
        if space not in self._spaces():
            raise _missing("NoSuchNamespaceException", f"no namespace {'.'.join(space)[:200]!r} is served")
        return space

    def _name(self, request: Request) -> str:
        asked = _namespace(request.path_params["namespace"]), request.path_params["table"]
        table_name = next((name for name, place in self._names().items() if place == asked), None)
        if table_name is None:
            shown = ".".join((*asked[0], asked[1]))[:200]
            raise _missing("NoSuchTableException", f"no table {shown!r} is served: name it in pruner.toml")
        return table_name

    def _now(self, name: str) -> tuple[AnyTable, RowCounts]:
        """The current state of the table."""
        return self._take(name, self._served.table(name).snapshot())

    def _at(self, name: str, snapshot_id: int | None) -> tuple[AnyTable, RowCounts]:
        """The table at a snapshot that a client has been given.

        Raises:
            CatalogError: it was forgotten, or given by another worker or an earlier run of the service.
        """
        with self._lock:
            snapshots = self._known.get(name)
            known = None if snapshots is None or snapshot_id is None else snapshots.get(snapshot_id)
        if known is not None and not isinstance(known[0], IcebergTable):
            return known
        table = self._now(name)
        if snapshot_id is None or table[0].snapshot_id == snapshot_id:
            return table
        if isinstance(table[0], IcebergTable):
            return self._past(table[0], snapshot_id, known)
        raise _missing(
            "NoSuchSnapshotException",
            f"table {name} has changed since snapshot {snapshot_id}, which is no longer known: load it again",
        )

    def _past(
        self, now: IcebergTable, snapshot_id: int, known: tuple[AnyTable, RowCounts] | None
    ) -> tuple[AnyTable, RowCounts]:
        """An older snapshot of an Iceberg table, or one of another branch, that its metadata names.

        Column names are always those of the newest metadata: no client has loaded newer metadata.
        """
        name = now.name
        if known is not None:
            past, counts = known
            assert isinstance(past, IcebergTable)
            if past.newest is now.newest:
                return past, counts
            return self._keep(name, snapshot_id, replace(past, newest=now.newest), counts)
        if all(snapshot.snapshot_id != snapshot_id for snapshot in now.newest.metadata.snapshots):
            raise _missing("NoSuchSnapshotException", f"table {name} has no snapshot {snapshot_id}")
        pinned = self._served.table(name).snapshot(as_of=str(snapshot_id))
        table = replace(now, pinned=pinned)
        if table.snapshot_id != snapshot_id:
            raise _unsupported(f"table {name} has a branch or tag that is called {snapshot_id}: rename it")
        return self._keep(name, snapshot_id, table, RowCounts(pinned.data))

    def _take(self, name: str, pinned: PinnedSnapshot) -> tuple[AnyTable, RowCounts]:
        state = pinned.data.state
        if isinstance(state, IcebergState):
            newest = IcebergTable(name, pinned, state)
            with self._lock:
                known = self._known.setdefault(name, OrderedDict()).get(newest.snapshot_id)
            before = None if known is None else known[0]
            if isinstance(before, IcebergTable) and before.newest is state and before.pinned.plans_as(pinned):
                newest = before
            return self._keep(name, newest.snapshot_id, newest, RowCounts(pinned.data))
        number = snapshot_number(pinned.id)
        with self._lock:
            kept = self._known.setdefault(name, OrderedDict())
            taken, latest = kept.get(number), next(reversed(kept.values()), None)
        if taken is not None and isinstance(taken[0], ServedTable) and taken[0].pinned.plans_as(pinned):
            return self._keep(name, number, *taken)
        since = int(time.time() * 1000)
        if taken is not None and isinstance(taken[0], ServedTable):
            since = taken[0].since_ms
        # If the number is known, only the indexes have changed, not the files.
        table = ServedTable(name, pinned, since)
        table.check()
        before = taken or latest
        counts = None if before is None else before[1]
        if counts is None or not counts.are_of(pinned.data):
            counts = RowCounts(pinned.data, counts)
        return self._keep(name, number, table, counts)

    def _keep(self, name: str, number: int, table: AnyTable, counts: RowCounts) -> tuple[AnyTable, RowCounts]:
        with self._lock:
            known = self._known.setdefault(name, OrderedDict())
            known[number] = table, counts
            known.move_to_end(number)
            while len(known) > _KEPT_SNAPSHOTS:
                known.popitem(last=False)
        return table, counts


def _filter_of(table: AnyTable, page: _Page) -> Filter | None:
    if page.filter is None:
        return None
    names = table.columns(case_sensitive=page.case_sensitive, snapshot_schema=page.snapshot_schema)
    return Filter(
        page.filter,
        table.pinned.schema,
        case_sensitive=page.case_sensitive,
        snapshot_schema=page.snapshot_schema,
        named=None if names is None else names.field,
    )


def _missing(kind: str, sentence: str) -> CatalogError:
    return CatalogError(404, sentence, kind=kind)


def _unsupported(sentence: str) -> CatalogError:
    return CatalogError(406, sentence, kind="UnsupportedOperationException")


def _answering(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as error:
            return _refused(error)

    return answer


def _refused(error: Exception) -> Response:
    match error:
        case CatalogError():
            return catalog_error(error.status, str(error), error.kind)
        case RefusedRequestError():
            return catalog_error(error.status, str(error), "BadRequestException")
        case UnservedTableError():
            return catalog_error(404, str(error), "NoSuchTableException")
        case PredicateError() | SchemaError():
            return catalog_error(400, str(error), "BadRequestException")
        case UnservedError():
            return catalog_error(406, str(error), "UnsupportedOperationException")
        case PrunerError():
            _log.warning("no plan: %s", error)
            sentence = "the table cannot be read now: the service's log says why"
            return catalog_error(503, sentence, "ServiceUnavailableException")
        case _:
            _log.error("a request failed", exc_info=error)
            return catalog_error(500, "the service failed: its log says why", "InternalServerError")


def _is_python(request: Request) -> bool:
    """Whether the client is PyIceberg, which takes partitions in a form of its own."""
    return request.headers.get("user-agent", "").startswith("PyIceberg/")


def _namespace(text: str) -> tuple[str, ...]:
    return tuple(text.split(_SEPARATOR)) if text else ()


def _metadata_file(table: AnyTable, location: str, encoded: bytes) -> str:
    """The location of the metadata file, or a nonexistent one that differs for different metadata.

    Iceberg's Java library uses nothing else to detect whether a table has changed. Its metadata tables of snapshots and
    references need the size of the file. PyIceberg would use the location to choose how it reads data files.
    """
    if isinstance(table, IcebergTable):
        return place_for_client(table.newest.metadata.place, python=False)
    return f"{location}/metadata/{hashlib.sha256(encoded).hexdigest()[:32]}.metadata.json"


def _json(content: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json", headers=headers)


def _decoded(body: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except RecursionError:
        raise RefusedRequestError(400, "the request is nested too deep") from None
    except msgspec.MsgspecError as error:
        raise RefusedRequestError(400, f"the request cannot be read: {error}") from None


def _no_plan(plan_id: str) -> CatalogError:
    return _missing(
        "NoSuchPlanIdException",
        f"there is no plan {plan_id[:_PLAN_ID_LENGTH]!r} of this table here, or it was forgotten: plan again",
    )


def _token(page: _Page) -> str:
    return base64.urlsafe_b64encode(zlib.compress(msgspec.json.encode(page))).decode()


def _page_of_token(token: str) -> _Page:
    unknown = _missing("NoSuchPlanTaskException", "that is no plan task of this catalog: plan again")
    try:
        unpacked = zlib.decompressobj()
        text = unpacked.decompress(base64.urlsafe_b64decode(token.encode()), _TOKEN_BYTES)
        page = msgspec.json.decode(text, type=_Page)
    except (ValueError, zlib.error, msgspec.MsgspecError, RecursionError):
        raise unknown from None
    if not unpacked.eof or page.start < (_NEXT if page.end_snapshot_id is not None else 0):
        raise unknown
    return page
