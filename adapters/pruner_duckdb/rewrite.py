"""From a statement over pruned tables to the statement that DuckDB runs, with a plan for each scan."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import duckdb

from pruner.adapters import switched_off
from pruner.errors import PrunerError
from pruner.expr.nodes import TRUE, Expr
from pruner.expr.semantics import NanOrder, Semantics
from pruner_duckdb.forms import Form
from pruner_duckdb.markers import Markers
from pruner_duckdb.predicates import (
    KEPT_TABLE_FUNCTIONS,
    Draft,
    Parameters,
    Predicates,
    Unpruned,
    comparison_texts,
    shortened,
)
from pruner_duckdb.reading import Sources
from pruner_duckdb.scan import ScanShape
from pruner_duckdb.scans import Scan
from pruner_duckdb.selftest import plan_format_problem
from pruner_duckdb.session import Ask, SessionState, describe_relation, require_same_meaning, session_state
from pruner_duckdb.shadow import NotPlanned, Relation, Shadow, readable_plans
from pruner_duckdb.statement import Reference, Select, Span
from pruner_duckdb.stores import grant
from pruner_duckdb.types import quote
from pruner_duckdb.views import Views

if TYPE_CHECKING:
    from pruner.planning.pinned import PinnedSnapshot
    from pruner_duckdb.tables import KnownTable

_PLACES = re.compile(r"\b(by|distinct|tablesample|sample)\b", re.IGNORECASE)
"""Words behind which an integer can be a mistake by its value."""

_NAMED_BY_VALUE = re.compile(r"(?<!\w)\d")
"""What the name of a column has in it that DuckDB made of an expression with an integer."""

RelationOf = Callable[[str], duckdb.DuckDBPyRelation]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What DuckDB is to run."""

    sql: str
    parameters: dict[str, Any] | list[Any] | None
    scans: tuple[Scan, ...]
    sources: Sources = field(default_factory=Sources)
    """What it reads besides files: DuckDB finds it under these names, as it finds data frames."""


@dataclass
class _Pinned:
    """One table of a statement with the snapshot that all of its references read (R8)."""

    known: KnownTable
    snapshot: PinnedSnapshot
    shape: ScanShape
    references: list[Reference] = field(default_factory=list[Reference])


class Rewriter:
    """Plans and rewrites statements; one serves a connection and all of its cursors."""

    def __init__(
        self, tables: Mapping[tuple[str, ...], KnownTable], shadow: Shadow, predicates: Predicates
    ) -> None:
        self._tables = tables
        self.shadow = shadow
        self._predicates = predicates
        self.views = Views(self)
        self._homes: tuple[tuple[str, ...], ...] = ()
        self._zone = "UTC"  # of the session that ran the last statement
        self.plain_names = frozenset(path[0] for path in tables if len(path) == 1)
        """Names of tables that stand without a schema, in lower case."""

    def table_called(self, name: str, *, whole: bool = False) -> str | None:
        """The table of this name, by its last part alone unless `whole`; None where there is none."""
        parts = tuple(part.strip('"').lower() for part in name.split("."))
        for path, known in self._tables.items():
            if path == parts or (not whole and path[-1] == parts[-1]):
                return known.name
        return None

    def mentions_table(self, text: str) -> bool:
        """Tell cheaply whether a text may read one of the tables at all."""
        lowered = text.lower()
        return any(path[-1].replace('"', '""') in lowered for path in self._tables)

    def candidates(self, select: Select) -> list[Reference]:
        """References of a statement that bear the name of one of the tables."""
        return [each for each in select.references if self._known(each) is not None]

    def _known(self, reference: Reference) -> KnownTable | None:
        """The table that a reference names, perhaps by way of the database and schema that the connection
        began with.
        """
        if reference.function:
            return None
        path = _lower(reference.path)
        for home in ((), *self._homes):
            if path[: len(home)] == home and path[len(home) :] in self._tables:
                return self._tables[path[len(home) :]]
        return None

    def rewrite(
        self, form: Form, parameters: Parameters, ask: Ask, relation_of: RelationOf
    ) -> Rewritten | None:
        """Plan each scan and put the files to read in the place of the tables.

        Args:
            form: the statement taken apart.
            parameters: the user's.
            ask: runs a query in the user's session.
            relation_of: makes a relation of a query, seeing the variables that the user sees.

        Returns:
            The statement to run, or None when it reads none of the tables.

        Raises:
            PrunerError: a table cannot be listed completely, or cannot be read in this way.
        """
        select = form.select
        candidates = self.candidates(select)
        if not candidates:
            return None
        names = sorted({each.path for each in candidates})
        state = session_state(ask, self.shadow, names, self._likely_comparison(select, parameters))
        self._zone = state.zone
        chosen = [each for each in candidates if each.path not in state.known]
        if not chosen:
            return None
        for each in chosen:
            if form.changes(_name_span(each)):
                raise PrunerError(
                    f"table {'.'.join(each.path)} is read-only here: change its files with the engine that "
                    "writes them"
                )
        pinned = self._pin(chosen)
        for table in pinned.values():
            grant(ask, table.known.name, table.snapshot.data.root, table.known.table.storage_options)
        expressions, reason = self._expressions(select, parameters, pinned, state, ask, relation_of)
        return self._splice(form, parameters, pinned, expressions, reason, state.zone)

    def shapes_for(self, text: str, ask: Ask) -> list[tuple[tuple[str, ...], Relation]]:
        """Paths and shapes of the tables that a text may read, as they are now.

        Raises:
            PrunerError: a table cannot be listed completely.
        """
        lowered = text.lower()
        paths = [path for path in self._tables if path[-1].replace('"', '""') in lowered]
        known = session_state(ask, self.shadow, sorted(paths)).known
        tables = [self._tables[path] for path in paths if path not in known]
        return [
            (each.path, self.shadow.with_connection(partial(each.shape, each.snapshot())).relation)
            for each in tables
        ]

    def require_free_names(self, ask: Ask) -> None:
        """Make sure that the session has no table or view under any of the names, and learn the names of its
        database and schema.

        Raises:
            PrunerError: it has one.
        """
        for path in session_state(ask, self.shadow, sorted(self._tables)).known:
            name = self._tables[path].name
            raise PrunerError(f"the database already has a table or view named {name}: choose another name")
        database, schema = _lower(
            ask("SELECT system.main.current_database(), system.main.current_schema()", [])
        )
        self._homes = ((schema,), (database,), (database, schema))
        self.views.look(ask)

    def look_again(self) -> None:
        """Let the next plans be made for the tables as they are then, whatever staleness they allow (rule R8)."""
        for known in self._tables.values():
            known.look_again()

    def binds(self, select: Select, parameters: Parameters, relation_of: RelationOf) -> bool:
        """Tell whether a statement surely makes sense, judged by the tables' shapes as last read."""
        try:
            text = self._as_last_read(select, parameters, lambda each: _described(select, each, relation_of))
            if text is None:
                return False
            if not _PLACES.search(text) and not any(map(_NAMED_BY_VALUE.search, select.columns)):
                text = comparison_texts(select, text)[0]
            readable_plans(self.shadow.bound_plan(text, self._zone))
        except (Unpruned, NotPlanned):
            return False
        return True

    def _likely_comparison(self, select: Select, parameters: Parameters) -> str | None:
        """The comparison text that `_expressions` will want unless a shape changed; None where it will not."""
        try:
            if select.plain:
                return None
            text = self._as_last_read(select, parameters, lambda _: None)
            return None if text is None else comparison_texts(select, text)[0]
        except Exception:  # `_expressions` meets it again and reports it
            return None

    def _as_last_read(
        self, select: Select, parameters: Parameters, describe: Callable[[Reference], Relation | None]
    ) -> str | None:
        """The statement without tables, by the shapes of pruned tables as last read and of others by `describe`.

        Returns:
            None where a shape is not known.

        Raises:
            Unpruned: some part cannot be carried over.
        """
        relations: dict[Reference, Relation] = {}
        ours: list[Reference] = []
        for reference in select.references:
            known = self._known(reference)
            if known is None and _stays(reference):
                continue
            relation = describe(reference) if known is None else known.last_relation
            if relation is None:
                return None
            relations[reference] = relation
            if known is not None:
                ours.append(reference)
        return self._predicates.comparison_text(Draft(select, relations, tuple(ours), parameters))

    def _pin(self, chosen: Sequence[Reference]) -> dict[tuple[str, ...], _Pinned]:
        pinned: dict[tuple[str, ...], _Pinned] = {}
        for reference in chosen:
            known = self._known(reference)
            if known is None:
                continue
            if known.path not in pinned:
                snapshot = known.snapshot()
                shape = self.shadow.with_connection(partial(known.shape, snapshot))
                pinned[known.path] = _Pinned(known, snapshot, shape)
            pinned[known.path].references.append(reference)
        return pinned

    def _expressions(
        self,
        select: Select,
        parameters: Parameters,
        pinned: Mapping[tuple[str, ...], _Pinned],
        state: SessionState,
        ask: Ask,
        relation_of: RelationOf,
    ) -> tuple[dict[Reference, Expr], str | None]:
        """The predicate of each reference, or the reason why there is none for the whole statement."""
        problem = switched_off() or plan_format_problem(self.shadow)
        if problem is not None:
            return {}, problem
        try:
            draft = self._draft(select, parameters, pinned, relation_of)
            text = "" if select.plain else self._predicates.comparison_text(draft)
            require_same_meaning(state, self.shadow, ask, comparison_texts(select, text) if text else ())
            as_written = any(each.snapshot.has_expression_indexes for each in pinned.values())
            expressions = self._predicates.of(draft, state.zone, as_written=as_written)
            return dict(zip(draft.pruned, expressions, strict=True)), None
        except Unpruned as reason:
            return {}, str(reason)
        except Exception as error:  # planning must never fail the query
            return {}, _failure(error)

    def _draft(
        self,
        select: Select,
        parameters: Parameters,
        pinned: Mapping[tuple[str, ...], _Pinned],
        relation_of: RelationOf,
    ) -> Draft:
        relations: dict[Reference, Relation] = {}
        pruned: list[Reference] = []
        by_reference = _by_reference(pinned)
        for reference in select.references:
            table = by_reference.get(reference)
            if table is not None:
                relations[reference] = table.shape.relation
                pruned.append(reference)
            elif not _stays(reference):
                relations[reference] = _described(select, reference, relation_of)
        return Draft(select, relations, tuple(pruned), parameters)

    def _splice(
        self,
        form: Form,
        parameters: Parameters,
        pinned: Mapping[tuple[str, ...], _Pinned],
        expressions: Mapping[Reference, Expr],
        reason: str | None,
        zone: str,
    ) -> Rewritten:
        select = form.select
        markers = Markers(select, parameters, literal=form.literal)
        by_reference = _by_reference(pinned)
        chosen = sorted(by_reference, key=_name_start)
        edits = [*markers.edits(), *shortened(select, chosen)]
        scans: list[Scan] = []
        sources: Sources = {}
        # Only of a SELECT whose every function is known is it known which columns it reads.
        narrow = form.lazy and reason is None
        for reference in chosen:
            table = by_reference[reference]
            scan = _plan(table, expressions.get(reference, TRUE), reason, zone)
            scans.append(scan)
            alias = "" if reference.alias is not None else f" AS {quote(reference.path[-1])}"
            query = table.known.reader.sql(
                scan.plan,
                table.shape,
                markers.bind,
                select.may_read,
                sources,
                narrow=narrow,
                whole_structs=select.may_list_null(),
            )
            edits.append((_name_span(reference), f"({query}){alias}"))
        return Rewritten(form.spliced(edits), markers.values, tuple(scans), sources)


def _plan(table: _Pinned, expression: Expr, reason: str | None, zone: str) -> Scan:
    semantics = Semantics(
        engine="duckdb",
        version=duckdb.__version__,
        zone=zone,
        nan_order=NanOrder.GREATEST,
        scan_mode="read_optimized" if table.known.read_optimized else "snapshot",
    )
    try:
        return Scan(table.known.name, table.snapshot.plan(expression, semantics=semantics), reason)
    except Exception as error:  # planning must never fail the query
        plan = table.snapshot.plan(TRUE, semantics=semantics)
        return Scan(table.known.name, plan, _failure(error))


def _failure(error: Exception) -> str:
    first_line = str(error).strip().split("\n", 1)[0]
    return f"planning failed ({type(error).__name__}: {first_line})"


def _name_span(reference: Reference) -> Span:
    """Where the table's name stands, to put a query in its place.

    Raises:
        PrunerError: it cannot be replaced in this statement.
    """
    name = ".".join(reference.path)
    if reference.time_travel:
        raise PrunerError(f"table {name}: AT is not supported here; give the table the option as_of instead")
    if reference.name is None:
        raise PrunerError(
            f"table {name} cannot be read in this kind of statement; write SELECT … FROM {name}"
        )
    return reference.name


def _name_start(reference: Reference) -> int:
    return _name_span(reference).start


def _stays(reference: Reference) -> bool:
    """Tell whether a reference can stand in the shadow's copy as it is."""
    return reference.function and reference.path[-1].lower() in KEPT_TABLE_FUNCTIONS


def _described(select: Select, reference: Reference, relation_of: RelationOf) -> Relation:
    if reference.whole is None:
        raise Unpruned(f"the place of {'.'.join(reference.path)} in the statement is not known")
    text = select.text[reference.whole.start : reference.whole.stop].decode()
    return describe_relation(relation_of, text)


def _by_reference(pinned: Mapping[tuple[str, ...], _Pinned]) -> dict[Reference, _Pinned]:
    return {reference: table for table in pinned.values() for reference in table.references}


def _lower(path: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.lower() for part in path)
