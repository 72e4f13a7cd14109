"""From a request to a plan: only tables of the configuration, only predicates in forms that are understood.

Plans are made outside the event loop, in a bounded number of threads, each in a bounded time. An ordinal of a snapshot
denotes a file by its key: the first 16 bytes of SHA-256 over the base file's normal path, a zero byte and its size in
decimal digits. Two files with one key are practically impossible (2^-88 at a million files). A file that was rewritten
under its old name has another size, or belongs to another snapshot. So a drop never affects a file that was not planned
for.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pruner.adapters import MissingPluginError, RequestDecoder, load_adapter
from pruner.catalog.settings import ConfigError
from pruner.errors import PredicateError, PrunerError, TableError
from pruner.expr.semantics import Semantics
from pruner.expr.show import shape
from pruner.expr.text.sql import parse_predicate
from pruner.expr.wire.nodes import expression_of
from pruner.service.guard import RefusedRequestError, acquired
from pruner.service.messages import EnginePredicate, ExpressionPredicate, SqlPredicate, TableAnswer
from pruner.tables.iceberg.places import table_of_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pruner.catalog.config import Config
    from pruner.catalog.names import Catalog
    from pruner.catalog.settings import TableSettings
    from pruner.expr.nodes import Expr
    from pruner.planning.pinned import PinnedSnapshot
    from pruner.planning.plan import Plan
    from pruner.service.messages import PlanRequest, Predicate, Session
    from pruner.service.settings import Limits
    from pruner.tables.snapshot import Snapshot

KEY_BYTES = 16

NO_KEY = bytes(KEY_BYTES)
"""The key of a slice without a base file: no file has it."""

_LOCAL = re.compile(r"(?:(?:local|file):)?/+")
_S3 = re.compile(r"s3[an]://")


def normal_path(path: str) -> str:
    """Return the canonical form of a file's path as engines write it; nothing is decoded.

    Local paths become absolute, without a scheme (`file:/x`, `file:///x` and Trino's `local:///x` are `/x`) and without
    doubled slashes; Hadoop's schemes for S3 become `s3://`. In object stores, `a//b` is another key than `a/b`.
    """
    local = _LOCAL.match(path)
    if local:
        return "/" + re.sub("/{2,}", "/", path[local.end() :])
    return _S3.sub("s3://", path, count=1)


def slice_keys(snapshot: Snapshot) -> bytes:
    """Return the keys of all slices in the order of their ordinals, 16 bytes each."""
    files = snapshot.column("base_file").to_pylist()
    sizes = snapshot.column("base_size").to_pylist()
    return b"".join(
        NO_KEY if file is None or size is None else file_key(file, size)
        for file, size in zip(files, sizes, strict=True)
    )


def file_key(path: str, size: int) -> bytes:
    """Return the key of one base file; `size` in bytes."""
    text = f"{normal_path(path)}\0{size}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()[:KEY_BYTES]


Result = TypeVar("Result")


class Work:
    """The threads of one service."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # Threads end with their plan, not with a request that gave up on it, so the number of threads bounds the work.
        self._threads = ThreadPoolExecutor(limits.concurrent, thread_name_prefix="pruner-plan")
        self._free = asyncio.Semaphore(limits.concurrent)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run planning in a thread.

        Raises:
            RefusedRequestError: every thread stays busy (429), or it takes too long (408).
        """
        try:
            await acquired(self._free, self._limits.plan_seconds)
        except TimeoutError:
            raise RefusedRequestError(
                429, f"{self._limits.concurrent} plans are being made: try again"
            ) from None
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        running.add_done_callback(lambda _: self._free.release())
        try:
            async with asyncio.timeout(self._limits.plan_seconds):
                return await asyncio.shield(running)
        except TimeoutError:
            running.add_done_callback(_look_at)
            raise RefusedRequestError(
                408, f"planning took longer than {self._limits.plan_seconds:g} seconds"
            ) from None


def _look_at(late: asyncio.Future[Any]) -> None:
    """Retrieve the exception of a plan that no request awaits; otherwise asyncio would report it."""
    if not late.cancelled():
        late.exception()


SHAPED_CHARACTERS = 4096
"""Texts up to this length are cached once parsed; longer ones would be parsed again for their shape."""


class UnservedTableError(TableError):
    """The service does not plan for such a table."""


class Looked(NamedTuple):
    """The name of a table in the configuration, and a snapshot of it."""

    table: str
    snapshot: PinnedSnapshot


class Planned(NamedTuple):
    """The name of a table in the configuration, a plan for it, the snapshot that it was made on, the maximum age, in
    seconds, of the table's last check at the request, and the predicate without its constants.
    """

    table: str
    plan: Plan
    snapshot: PinnedSnapshot
    staleness: float
    shape: str


class UnreadableError(PrunerError):
    """A table cannot be opened or listed now; the message begins with its name."""


class Planning:
    """Plans requests over the tables of a configuration. Threads may share it.

    A table that names an unset environment variable is known only by its names, and cannot be planned on.

    Attributes:
        tables: all tables by name.
        vended: the storage options of those tables whose options clients may receive.
    """

    def __init__(self, config: Config, catalog: Catalog) -> None:
        self._catalog = catalog
        self.tables = tuple(
            TableAnswer(table.name, list(table.aliases)) for table in config.tables if table.name is not None
        )
        self._names: dict[str, str] = {}
        self._staleness: dict[str, float] = {}
        self.vended: dict[str, Mapping[str, str]] = {}
        for table in self.tables:
            settings = _settings(config, table.name)
            places = settings.uris if settings else ()
            self._staleness[table.name] = settings.max_staleness if settings else 0.0
            if settings and settings.vend_credentials:
                self.vended[table.name] = settings.storage_options
            for known in (table.name, *table.aliases):
                self._names[known.casefold()] = table.name
            for place in places:
                self._names[_place(place)] = self._names[table_of_metadata(_place(place))] = table.name

    def look(self, request: PlanRequest) -> Looked:
        """Return a snapshot of the table that a request names, in the state that it requests.

        Raises:
            UnservedTableError: the configuration has no such table.
            UnreadableError: the table cannot be opened or listed, or has no such state.
        """
        name = self.name_of(request)
        try:
            return Looked(name, self._catalog.open(name).snapshot(as_of=request.as_of))
        except PrunerError as error:
            raise UnreadableError(f"table {name}: {error}") from error

    def plan(self, request: PlanRequest, looked: Looked) -> Planned:
        """Plan a request over the snapshot that `look` returned.

        Raises:
            PredicateError, SchemaError: the predicate cannot be understood.
        """
        semantics = semantics_of(request.session)
        predicate = _predicate(request.predicate, semantics)
        name, snapshot = looked
        plan = snapshot.plan(predicate, semantics=semantics)
        return Planned(name, plan, snapshot, self._staleness[name], _shape(predicate, semantics))

    def name_of(self, request: PlanRequest) -> str:
        """The name, in the configuration, of the table that a request names.

        Raises:
            UnservedTableError: the configuration has no such table.
        """
        asked = request.table
        name = self._names.get(asked.casefold()) or self._names.get(_place(asked))
        if name is None:
            raise UnservedTableError(f"no table {asked[:200]!r} in the service's configuration")
        return name


def _settings(config: Config, name: str) -> TableSettings | None:
    try:
        return config.find(name)
    except ConfigError:
        return None  # the log names the variable when the table is opened


def semantics_of(session: Session) -> Semantics:
    """The rules that a client's session requests."""
    return replace(
        Semantics.of(session.engine),
        version=session.version,
        zone=session.zone,
        ansi=session.ansi,
        timestamp_unit=session.timestamp_unit,
        scan_mode=session.scan_mode,
    )


def _place(text: str) -> str:
    return normal_path(text).rstrip("/")


def _predicate(predicate: Predicate, semantics: Semantics) -> str | Expr:
    match predicate:
        case SqlPredicate(text):
            return text
        case ExpressionPredicate(expression):
            return expression_of(expression)
        case EnginePredicate(content):
            return _decoder(semantics.engine).decode_request(bytes(content), semantics)


def _shape(predicate: str | Expr, semantics: Semantics) -> str:
    if not isinstance(predicate, str):
        return shape(predicate)
    if len(predicate) > SHAPED_CHARACTERS:
        return f"SQL of {len(predicate):,} characters"
    return shape(parse_predicate(predicate, semantics))  # cached: it was parsed for the plan


def _decoder(engine: str) -> RequestDecoder:
    """The adapter of an engine that sends predicates in its own form."""
    try:
        adapter = load_adapter(engine)
    except MissingPluginError as error:
        raise PredicateError(f"{error}: send SQL or the expression form") from error
    if not isinstance(adapter, RequestDecoder):
        raise PredicateError(
            f"predicates of {engine} in its own form are not understood here: send SQL or the expression form"
        )
    return adapter
