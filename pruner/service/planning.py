"""From a request to a plan: only tables of the configuration, only predicates in forms that are understood."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pruner.adapters import MissingPluginError, RequestDecoder, load_adapter
from pruner.catalog.settings import ConfigError
from pruner.errors import PredicateError, PrunerError, TableError
from pruner.expr.semantics import Semantics
from pruner.expr.show import shape
from pruner.expr.text.sql import parse_predicate
from pruner.expr.wire.nodes import expression_of
from pruner.service.keys import normal_path
from pruner.service.messages import EnginePredicate, ExpressionPredicate, SqlPredicate, TableAnswer

if TYPE_CHECKING:
    from pruner.catalog.config import Config
    from pruner.catalog.names import Catalog
    from pruner.catalog.settings import TableSettings
    from pruner.expr.nodes import Expr
    from pruner.planning.pinned import PinnedSnapshot
    from pruner.planning.plan import Plan
    from pruner.service.messages import PlanRequest, Predicate, Session


SHAPED_CHARACTERS = 4096
"""Texts up to this length are remembered once they are parsed; longer ones would be parsed again for their shape."""


class UnknownTableError(TableError):
    """The service does not plan for such a table."""


class Looked(NamedTuple):
    """The name of a table in the configuration, and a snapshot of it."""

    table: str
    snapshot: PinnedSnapshot


class Planned(NamedTuple):
    """A plan, the name of its table in the configuration, the snapshot that it was made on, how many seconds before
    the request the table may have been looked at, and the predicate without its constants.
    """

    table: str
    plan: Plan
    snapshot: PinnedSnapshot
    staleness: float
    shape: str


class UnreadableError(PrunerError):
    """A table that cannot be opened or listed now; the sentence begins with its name."""


class Planning:
    """Plans requests over the tables of a configuration. Threads may share it.

    A table that names an environment variable which is not set is known by its names alone, and cannot be planned on.
    """

    def __init__(self, config: Config, catalog: Catalog) -> None:
        self._catalog = catalog
        self.tables = tuple(
            TableAnswer(table.name, list(table.aliases)) for table in config.tables if table.name is not None
        )
        self._names: dict[str, str] = {}
        self._staleness: dict[str, float] = {}
        for table in self.tables:
            settings = _settings(config, table.name)
            places = settings.uris if settings else ()
            self._staleness[table.name] = settings.max_staleness if settings else 0.0
            for known in (table.name, *table.aliases):
                self._names[known.casefold()] = table.name
            for place in places:
                self._names[_place(place)] = table.name

    def look(self, request: PlanRequest) -> Looked:
        """Look at the table that a request names, as it stands now.

        Raises:
            UnknownTableError: the configuration has no such table.
            UnreadableError: the table cannot be opened or listed.
        """
        name = self.name_of(request)
        try:
            return Looked(name, self._catalog.open(name).snapshot())
        except PrunerError as error:
            raise UnreadableError(f"table {name}: {error}") from error

    def plan(self, request: PlanRequest, looked: Looked) -> Planned:
        """Plan a request over what a look found.

        Raises:
            PredicateError, SchemaError: the predicate cannot be understood.
        """
        semantics = semantics_of(request.session)
        predicate = _predicate(request.predicate, semantics)
        name, snapshot = looked
        plan = snapshot.plan(predicate, semantics=semantics)
        return Planned(name, plan, snapshot, self._staleness[name], _shape(predicate, semantics))

    def name_of(self, request: PlanRequest) -> str:
        """The name in the configuration of the table that a request names.

        Raises:
            UnknownTableError: the configuration has no such table.
        """
        asked = request.table
        found = self._names.get(asked.casefold()) or self._names.get(_place(asked))
        if found is None:
            raise UnknownTableError(f"no table {asked[:200]!r} in the service's configuration")
        return found


def _settings(config: Config, name: str) -> TableSettings | None:
    try:
        return config.find(name)
    except ConfigError:
        return None  # the log names the variable when the table is opened


def semantics_of(session: Session) -> Semantics:
    """The rules that a client's session asks for."""
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
    return shape(parse_predicate(predicate, semantics))  # remembered: it was parsed for the plan


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
