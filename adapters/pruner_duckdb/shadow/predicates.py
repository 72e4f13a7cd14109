"""Derives the predicate of each table reference in a SELECT, using the shadow database."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

from pruner.expr.nodes import And, Expr
from pruner_duckdb.decode.calls import MOMENTS, unfolded
from pruner_duckdb.decode.decode import all_of
from pruner_duckdb.decode.gets import UnknownPlanFormat, scan_conditions, whole_predicate
from pruner_duckdb.decode.join_keys import KnownKeys
from pruner_duckdb.decode.numbered import PlanColumn
from pruner_duckdb.shadow.macros import NO_MACROS, Macros
from pruner_duckdb.shadow.shadow import LruCache, NotPlanned, Relation, Shadow, with_typical_integers
from pruner_duckdb.sql.engine_faults import fault
from pruner_duckdb.sql.functions import FOLDABLE, VALUE_BLIND
from pruner_duckdb.sql.literals import AnyOfList, NoLiteral, sql_literal
from pruner_duckdb.sql.select import Parameter, Select, Span, TableReference, outermost, splice
from pruner_duckdb.types import quote

KEPT_TABLE_FUNCTIONS = frozenset(["unnest", "range", "generate_series"])
"""Table functions that may depend on the row of another table in FROM; they stay unchanged in the shadow's copy."""

Parameters = Sequence[object] | Mapping[str, object] | None


class Unpruned(Exception):  # noqa: N818 - never reaches a user
    """Nothing is known about the statement's scans; `str()` is the reason."""


@dataclass(frozen=True)
class Draft:
    """A statement with the shape of everything it reads.

    `relations` has the shape of every reference that is replaced in the shadow's copy; `pruned` holds those of them
    that are tables of pruner; `shortened` has the edits that remove schemas from the names of their columns.
    """

    select: Select
    relations: Mapping[TableReference, Relation]
    pruned: tuple[TableReference, ...]
    parameters: Parameters
    shortened: tuple[tuple[Span, str], ...] = ()
    macros: Macros = NO_MACROS
    """The known macros of the user that the statement calls."""

    def _tables(self, replaced: Mapping[TableReference, str]) -> list[tuple[Span, str]]:
        edits: list[tuple[Span, str]] = []
        for reference, text in replaced.items():
            keeps_tail = reference in self.pruned
            span = reference.name if keeps_tail else reference.whole
            if span is None:
                raise Unpruned(f"the place of {'.'.join(reference.path)} in the statement is not known")
            named = keeps_tail and reference.alias is not None
            edits.append((span, text if named else f"{text} AS {quote(reference.shown_as)}"))
        return edits

    @cached_property
    def _session_part(self) -> list[tuple[Span, str]]:
        """Edits that do not depend on the tables: parameters, lists, schemas in front of columns."""
        lists = self.select.any_lists
        outside = [
            parameter
            for parameter in self.select.parameters
            if not any(one.start <= parameter.span.start < one.stop for one in lists)
        ]
        edits = [(parameter.span, self._literal(parameter)) for parameter in outside]
        return [*edits, *(self._as_in(list_) for list_ in lists), *self.shortened]

    def _as_in(self, compared: AnyOfList) -> tuple[Span, str]:
        value = None if compared.parameter is None else self._value(compared.parameter)
        try:
            return Span(compared.start, compared.stop), compared.as_in(self.select.text, value)
        except NoLiteral as reason:
            raise Unpruned(str(reason)) from None

    def _literal(self, parameter: Parameter) -> str:
        try:
            return sql_literal(self._value(parameter.identifier))
        except NoLiteral as reason:
            raise Unpruned(str(reason)) from None

    def _value(self, identifier: str) -> object:
        values = self.parameters
        try:
            return values[identifier] if isinstance(values, Mapping) else (values or ())[int(identifier) - 1]
        except (KeyError, IndexError, ValueError):
            raise Unpruned(f"no value for parameter {identifier}") from None

    def shadow_text(self, replaced: Mapping[TableReference, str], aggregates: frozenset[str]) -> str:
        """Return the shadow's copy: other tables, literals instead of parameters, and nothing that must not be folded.

        A function outside the allow list becomes a branch of a CASE that depends on a random value: DuckDB keeps its
        type and cannot evaluate it while planning.

        Args:
            replaced: the replacement of each reference.
            aggregates: names of aggregate functions, which are never evaluated while planning.

        Raises:
            Unpruned: some part cannot be represented in the copy.
        """
        inside: list[tuple[Span, str]] = []
        for use in self.select.functions:
            if use.name in FOLDABLE or use.name in aggregates or use.name in self.macros.names:
                continue
            if use.span is None:
                raise Unpruned(f"function {use.name} may depend on the session")
            inside.append((use.span, unfolded(self._nested(use.span), moment=use.name in MOMENTS)))
        return self.select.spliced(outermost([*inside, *self._session_part, *self._tables(replaced)]))

    def _nested(self, outer: Span) -> str:
        """The text of a call with literals for the parameters inside it, and without moments that would be folded."""
        moments = [
            (use.span, unfolded(self.select.text[use.span.start : use.span.stop].decode(), moment=True))
            for use in self.select.functions
            if use.name in MOMENTS and use.span is not None and use.span != outer
        ]
        edits = [
            (Span(span.start - outer.start, span.stop - outer.start), text)
            for span, text in outermost([*moments, *self._session_part])
            if outer.start <= span.start and span.stop <= outer.stop
        ]
        part = self.select.text[outer.start : outer.stop]
        return splice(part, edits)


class ReferenceColumn(NamedTuple):
    """A column of a pruned reference, identified by its position among them, as `PlanColumn` identifies it by table."""

    reference: int
    column: str
    data_type: str
    aggregate: str = ""


@dataclass(frozen=True)
class StatementConditions:
    """The conditions of the scans of a statement.

    `expressions` has the predicate of each pruned reference, None for one that is not scanned. `joined` has, by the
    positions of pruned references, the sets of columns of others whose values would be a condition on that reference.
    """

    expressions: list[Expr | None]
    joined: Mapping[int, frozenset[frozenset[ReferenceColumn]]]


ReferenceKeys: TypeAlias = Mapping[ReferenceColumn, Sequence[object]]
"""The distinct values of columns, as plans write them (`KnownKeys`)."""


def comparison_texts(select: Select, text: str) -> tuple[str, ...]:
    """Texts to compare to learn whether a session understands a statement: the first one that it understands is
    enough.

    The values of integers cannot matter if no function of the statement inspects a value before rows are read, so a
    text that many statements share is tried first.

    Args:
        select: the statement.
        text: a statement with the same meaning that any session can plan.
    """
    table_functions = any(reference.function for reference in select.references)
    if table_functions or not all(use.name in VALUE_BLIND for use in select.functions):
        return (text,)
    return tuple(dict.fromkeys((with_typical_integers(text), text)))


class Predicates:
    """Asks the shadow database, and caches its answers by statement."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow
        self._cache = LruCache()
        self._lock = threading.Lock()

    def comparison_text(self, draft: Draft) -> str:
        """A statement with the same meaning that any session can plan, since it reads no table.

        Raises:
            Unpruned: some part cannot be represented in it.
        """
        return draft.shadow_text(
            {
                reference: f"({relation.narrowed(draft.select.may_read).empty_select()})"
                for reference, relation in draft.relations.items()
            },
            self._shadow.aggregates,
        )

    def of(self, draft: Draft, zone: str, *, as_written: bool = True) -> StatementConditions:
        """Return the conditions of a statement's scans.

        Args:
            draft: the statement.
            zone: the session's time zone.
            as_written: whether to derive predicates in the form in which they were written, too. Without an index
                over an expression, this form adds nothing to the rewritten one.

        Raises:
            Unpruned: nothing is known, with the reason.
        """
        return self._asked(draft, zone, as_written, None)

    def with_keys(
        self, draft: Draft, zone: str, keys: ReferenceKeys, *, as_written: bool = True
    ) -> list[Expr | None]:
        """Return the predicates given the values of some columns; takes and raises what `of` does."""
        return self._asked(draft, zone, as_written, keys).expressions

    def _asked(
        self, draft: Draft, zone: str, as_written: bool, keys: ReferenceKeys | None
    ) -> StatementConditions:
        forms = (True, False) if as_written else (False,)
        try:
            names = self._shadow.table_names(list(draft.relations.values()))
            by_reference = dict(zip(draft.relations, names, strict=True))
            text = draft.shadow_text(by_reference, self._shadow.aggregates)
            # The same text may read tables of pruner in other references: tables of the session may hide some.
            pruned = tuple(by_reference[reference] for reference in draft.pruned)
            with self._lock:
                if keys is not None:
                    return self._plan(draft, text, zone, pruned, forms, keys)
                return self._cache.get(
                    (text, zone, forms, pruned, draft.macros),
                    len(text),
                    lambda: self._plan(draft, text, zone, pruned, forms, {}),
                )
        except NotPlanned as reason:
            raise Unpruned(f"the DuckDB that plans for the session {reason}") from reason
        except UnknownPlanFormat as reason:
            raise Unpruned(str(reason)) from reason

    def whole(self, draft: Draft, zone: str) -> Expr | None:
        """The condition of a SELECT of constants over one table; None unless it is certain to be the whole condition.

        Raises:
            Unpruned: nothing is known, with the reason.
        """
        try:
            names = self._shadow.table_names(list(draft.relations.values()))
            by_reference = dict(zip(draft.relations, names, strict=True))
            text = draft.shadow_text(by_reference, self._shadow.aggregates)
            with self._lock:
                key = ("whole", text, zone, draft.macros)
                return self._cache.get(key, len(text), lambda: self._whole(draft, text, zone))
        except NotPlanned as reason:
            raise Unpruned(f"the DuckDB that plans for the session {reason}") from reason
        except UnknownPlanFormat as reason:
            raise Unpruned(str(reason)) from reason

    def _whole(self, draft: Draft, text: str, zone: str) -> Expr | None:
        plans = self._shadow.optimized_plans(text, zone, keep_form=False, macros=draft.macros.definitions)
        return None if fault(plans, zone) is not None else whole_predicate(plans)

    def _plan(
        self,
        draft: Draft,
        text: str,
        zone: str,
        pruned: Sequence[str],
        forms: Sequence[bool],
        keys: ReferenceKeys,
    ) -> StatementConditions:
        plans = [
            self._shadow.optimized_plans(text, zone, keep_form=keep_form, macros=draft.macros.definitions)
            for keep_form in forms
        ]
        reason = fault(plans[-1], zone)
        if reason is not None:
            raise Unpruned(reason)
        known: KnownKeys = {
            PlanColumn(pruned[column.reference], *column[1:]): values for column, values in keys.items()
        }
        passes = [scan_conditions(plan, text, known) for plan in plans]
        places = {name: place for place, name in enumerate(pruned)}
        joined: dict[int, frozenset[frozenset[ReferenceColumn]]] = {}
        for place, name in enumerate(pruned):
            every = frozenset[frozenset[PlanColumn]]().union(*(each.joined.get(name, ()) for each in passes))
            ours = [columns for columns in every if all(column.table in places for column in columns)]
            if ours:
                joined[place] = frozenset(
                    frozenset(ReferenceColumn(places[column.table], *column[1:]) for column in columns)
                    for columns in ours
                )
        return StatementConditions(
            [_both(conditions.predicates.get(name) for conditions in passes) for name in pruned], joined
        )


def _both(expressions: Iterable[Expr | None]) -> Expr | None:
    """AND of the predicates that the passes found, each conjunct once; None if no pass found a scan."""
    conjuncts: list[Expr] = []
    both = [expression for expression in expressions if expression is not None]
    if not both:
        return None
    for expression in both:
        for part in expression.operands if isinstance(expression, And) else (expression,):
            if part not in conjuncts:
                conjuncts.append(part)
    return all_of(conjuncts)
