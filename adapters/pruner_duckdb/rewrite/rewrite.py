"""Rewrites a statement over pruned tables to the statement that DuckDB runs, with a plan for each scan."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from pruner.adapters import switched_off
from pruner.errors import PrunerError
from pruner.expr.nodes import TRUE, Expr
from pruner.expr.semantics import Semantics
from pruner_duckdb.catalog.stores import Grants
from pruner_duckdb.catalog.tables import SEMANTICS, Pinned, failure, is_failure, of_references
from pruner_duckdb.decode.calls import MOMENTS
from pruner_duckdb.plainly import FullScan
from pruner_duckdb.read.native import FileColumns, described, folded
from pruner_duckdb.read.reading import Sources
from pruner_duckdb.read.scan import Wanted
from pruner_duckdb.rewrite.blocks import may_have_blocks
from pruner_duckdb.rewrite.errors import read_only
from pruner_duckdb.rewrite.from_metadata import BlockShortcut, calls_of, extreme_of, without_covered
from pruner_duckdb.rewrite.from_metadata import edits as answer_edits
from pruner_duckdb.rewrite.markers import Markers
from pruner_duckdb.rewrite.meaning import SessionAgreement
from pruner_duckdb.rewrite.remembered import Observations, RelationOf, RememberedRewritings, parameters_key
from pruner_duckdb.rewrite.shortcuts import Shortcuts
from pruner_duckdb.rewrite.small_sides import Side, SmallSides
from pruner_duckdb.rewrite.statement import Rewritten
from pruner_duckdb.scans import LEFT_OUT, Scan
from pruner_duckdb.session.session import (
    DuckDBSessionState,
    describe_relation,
    session_state,
)
from pruner_duckdb.shadow.answers import Ask
from pruner_duckdb.shadow.predicates import (
    KEPT_TABLE_FUNCTIONS,
    Draft,
    Parameters,
    Predicates,
    StatementConditions,
    Unpruned,
    comparison_texts,
)
from pruner_duckdb.shadow.selftest import plan_format_problem
from pruner_duckdb.shadow.shadow import NotPlanned, Relation, Shadow, readable_plans
from pruner_duckdb.sql.engine_faults import (
    BUILDS_JOINS_SOUNDLY,
    RUNS_RELATIONS_WITH_PARAMETERS,
)
from pruner_duckdb.sql.forms import StatementProbe
from pruner_duckdb.sql.select import Select, Span, TableReference
from pruner_duckdb.types import quote

if TYPE_CHECKING:
    import pyarrow as pa

    from pruner_duckdb.catalog.tables import TableNames
    from pruner_duckdb.read.shape import ScanShape
    from pruner_duckdb.rewrite.statement import Statement

_PLACES = re.compile(r"\b(by|distinct|tablesample|sample)\b", re.IGNORECASE)
"""Words after which the value of an integer can be an error."""

_NAMED_BY_VALUE = re.compile(r"(?<!\w)\d")
"""Matches in the name of a column that DuckDB derived from an expression with an integer."""


@dataclass(frozen=True)
class Understood:
    """A statement and the conditions of its scans, or the reason why nothing is known about it."""

    draft: Draft | None = None
    conditions: StatementConditions | None = None
    as_written: bool = True
    """Whether predicates were also derived in the form in which they were written."""
    reason: str | None = None

    @property
    def expressions(self) -> dict[TableReference, Expr | None]:
        """The predicate of each reference, None if DuckDB scans nothing for it."""
        if self.draft is None or self.conditions is None:
            return {}
        return dict(zip(self.draft.pruned, self.conditions.expressions, strict=True))

    @property
    def joined(self) -> bool:
        """Whether the values of one scan would be a condition on another."""
        return self.conditions is not None and bool(self.conditions.joined)


BEGINS_WITHIN: Final = 600 * 10**9
"""Nanoseconds after planning within which a statement that uses the current time must begin to run. One that begins
later runs again over all files.
"""


class Rewriter:
    """Plans and rewrites statements; one serves a connection and all of its cursors."""

    def __init__(self, tables: TableNames, shadow: Shadow, predicates: Predicates) -> None:
        self.tables = tables
        self._shadow = shadow
        self._predicates = predicates
        self.parse = shadow.parse
        self._zone = "UTC"  # of the session that ran the last statement
        self._remembered = RememberedRewritings()
        self._grants = Grants()
        self.meaning = SessionAgreement(shadow, predicates)
        self._shortcuts = Shortcuts(shadow, predicates, self.meaning, self._drafted)
        self._small_sides = SmallSides(self._described)

    @property
    def shadow(self) -> Shadow:
        """The database in which statements are planned."""
        return self._shadow

    def in_full(self, statement: Statement, relation_of: RelationOf, full_scan: FullScan) -> Rewritten | None:
        """A statement that reads all files, as DuckDB alone would; takes and raises what `rewrite` does.

        Args:
            statement: the statement.
            relation_of: makes a relation of a query that sees the user's variables.
            full_scan: how each table is read, and why nothing is pruned.
        """
        form = statement.form
        if form is None:
            return None
        seen = Observations(statement.answer, statement.first_row, relation_of)
        return self._rewritten(form, statement, seen, full_scan)

    def rewrite(self, statement: Statement, relation_of: RelationOf) -> Rewritten | None:
        """Plan each scan and replace the tables by the files to read.

        Args:
            statement: the statement.
            relation_of: makes a relation of a query that sees the user's variables.

        Returns:
            The statement to run, or None if it reads none of the tables.

        Raises:
            PrunerError: a table cannot be listed completely, or cannot be read in this way.
        """
        key = _key(statement)
        remembered = None if key is None else self._remembered.get(key, statement.method, relation_of)
        # A relation may run at any later time.
        if remembered is not None and not (statement.method.lazy and remembered[0].begins_by is not None):
            again, seen = remembered
            self._zone = seen.zone
            self._grant(statement.answer, seen)
            for scan in again.scans:
                scan.plan.count_again()
            return again
        form = statement.form
        if form is None:
            return None
        seen = Observations(statement.answer, statement.first_row, relation_of)
        # Before a table's shape is known, the session is asked more than later rewritings need.
        settled = all(
            known is None or known.last_relation for known in map(self.tables.of, form.select.references)
        )
        rewritten = self._rewritten(form, statement, seen)
        if key and settled and not seen.passing and rewritten and rewritten.lasting:
            self._remembered.put(key, rewritten, seen)
        return rewritten

    def _grant(self, ask: Ask, seen: Observations) -> None:
        for known, snapshot in seen.snapshots:
            self._grants.give(ask, known.name, known.table, snapshot.data)

    def _rewritten(
        self,
        form: StatementProbe,
        statement: Statement,
        seen: Observations,
        full_scan: FullScan | None = None,
    ) -> Rewritten | None:
        select, parameters = form.select, statement.parameters
        candidates = self.tables.read_by(select)
        names = sorted({candidate.path for candidate in candidates})
        is_pristine = statement.method.answers.changes.is_pristine and self.meaning.is_shipped(select)
        comparison = None if is_pristine else self._likely_comparison(select, parameters)
        state = session_state(seen.ask, self._shadow, names, comparison, is_pristine=is_pristine)
        self._zone = seen.zone = state.zone
        seen.is_pristine = state.is_pristine
        chosen = [candidate for candidate in candidates if candidate.path not in state.known]
        if not chosen:
            return None
        for each in chosen:
            if form.changes(_name_span(each)):
                raise read_only(".".join(each.path))
        pinned = self._pin(chosen, seen)
        self._grant(seen.ask_session, seen)
        select = select.with_columns(
            {
                reference: each.shape.relation.columns
                for each in pinned.values()
                for reference in each.references
            }
        )
        understood = (
            self._understood(select, parameters, pinned, state, seen)
            if form.unpruned is None
            else Understood(reason=form.unpruned)
        )
        reason = understood.reason
        now = seen.transaction_start() if any(use.name in MOMENTS for use in select.functions) else None
        # Only a statement that runs now, and can run again, is checked to begin in time.
        bounded = now is not None and form.asks and not statement.method.lazy and full_scan is None
        latest = max(now or 0, time.time_ns()) + BEGINS_WITHIN if bounded else None
        markers = Markers(form.select, parameters, literal=form.literal or _stays_lazy(statement))
        semantics = replace(SEMANTICS, zone=state.zone, now=now, latest=latest)
        expressions = understood.expressions
        scans = _planned(pinned, expressions, reason, semantics, full_scan)
        shortcuts: Mapping[TableReference, BlockShortcut] = {}
        if reason is None and full_scan is None and form.asks and may_have_blocks(select.text):
            shortcuts = self._shortcuts.of(
                form.select, parameters, pinned, expressions, scans, semantics, seen
            )
        if BUILDS_JOINS_SOUNDLY and understood.joined and full_scan is None:
            scans.update(self._with_keys(understood, pinned, scans, shortcuts, semantics, seen))
        # A condition from outside the part, or keys, may already leave fewer files than its shortcut does.
        shortcuts = {
            reference: shorter
            for reference, shorter in shortcuts.items()
            if shorter.constants is not None or shorter.plan.kept < scans[reference].kept
        }
        # A pattern yields the files that exist when DuckDB lists them: no other scan, answer or key may depend on the
        # snapshot, no file may be skipped, and no older listing may have been allowed (R8).
        by_pattern = (
            len(of_references(pinned)) == 1
            and not shortcuts
            and all(not each.known.may_be_stale for each in pinned.values())
            and all(
                scan.plan.kept == scan.plan.total
                and self._grants.lists(statement.method.native, scan.plan.snapshot)
                for scan in scans.values()
            )
        )
        rewritten = self._splice(
            form, markers, pinned, reason, full_scan, scans, shortcuts, by_pattern=by_pattern
        )
        named = all(not reference.function or _stays(reference) for reference in select.references)
        is_known = all(scan.reason in (None, LEFT_OUT) for scan in rewritten.scans) and self.meaning.is_known(
            select
        )
        # Whatever it calls, the rewriting of a statement that reads every file stays the same.
        lasting = is_known or _unpruned_for_good(rewritten)
        lasting = lasting and all(source.lasts for source in rewritten.sources.values())
        harmless = named and form.asks and lasting and is_known
        return replace(rewritten, harmless=harmless, lasting=lasting, begins_by=latest)

    def binds(self, select: Select, parameters: Parameters, relation_of: RelationOf) -> bool:
        """Tell whether a statement is certain to bind, given the shapes of the tables as last read."""
        try:
            draft = self._as_last_read(
                select, parameters, lambda each: describe_relation(relation_of, _text_of(select, each))
            )
            if draft is None:
                return False
            text = self._predicates.comparison_text(draft)
            if not _PLACES.search(text) and not any(map(_NAMED_BY_VALUE.search, select.columns)):
                text = comparison_texts(draft.select, text)[0]
            readable_plans(self._shadow.bound_plan(text, self._zone))
        except (Unpruned, NotPlanned):
            return False
        return True

    def _likely_comparison(self, select: Select, parameters: Parameters) -> str | None:
        """The comparison text that `_understood` will need unless a shape changed; None if it needs none."""
        try:
            draft = self._as_last_read(select, parameters, lambda _: None)
            if draft is None:
                return None
            return next(iter(self.meaning.comparisons(self.meaning.with_macros(draft))), None)
        except Exception:  # it recurs in `_understood`, which reports it
            return None

    def _as_last_read(
        self, select: Select, parameters: Parameters, describe: Callable[[TableReference], Relation | None]
    ) -> Draft | None:
        """The statement with the shapes of pruned tables as last read, and of others from `describe`.

        Returns:
            None if a shape is unknown.

        Raises:
            Unpruned: a shape cannot be determined.
        """
        relations: dict[TableReference, Relation] = {}
        ours: list[TableReference] = []
        for reference in select.references:
            known = self.tables.of(reference)
            if known is None and _stays(reference):
                continue
            relation = describe(reference) if known is None else known.last_relation
            if relation is None:
                return None
            relations[reference] = relation
            if known is not None:
                ours.append(reference)
        return self._drafted(select, relations, ours, parameters)

    def _drafted(
        self,
        select: Select,
        relations: Mapping[TableReference, Relation],
        pruned: Sequence[TableReference],
        parameters: Parameters,
    ) -> Draft:
        shortened = self.tables.shortened(select, pruned)
        known = select.with_columns(
            {reference: relation.columns for reference, relation in relations.items()}
        )
        return Draft(known, relations, tuple(pruned), parameters, tuple(shortened))

    def _pin(self, chosen: Sequence[TableReference], seen: Observations) -> dict[tuple[str, ...], Pinned]:
        pinned: dict[tuple[str, ...], Pinned] = {}
        for reference in chosen:
            known = self.tables.of(reference)
            if known is None:
                continue
            if known.path not in pinned:
                snapshot = seen.snapshot(known)
                shape = self._shadow.with_connection(partial(known.shape, snapshot))
                pinned[known.path] = Pinned(known, snapshot, shape)
            pinned[known.path].references.append(reference)
        return pinned

    def _understood(
        self,
        select: Select,
        parameters: Parameters,
        pinned: Mapping[tuple[str, ...], Pinned],
        state: DuckDBSessionState,
        seen: Observations,
    ) -> Understood:
        """The conditions of a statement's scans."""
        problem = switched_off() or plan_format_problem(self._shadow)
        if problem is not None:
            return Understood(reason=problem)
        try:
            draft = self._draft(select, parameters, pinned, seen)
            draft = self.meaning.of(draft, state, seen)
            as_written = any(each.snapshot.has_expression_indexes for each in pinned.values())
            conditions = self._predicates.of(draft, state.zone, as_written=as_written)
            return Understood(draft, conditions, as_written)
        except Unpruned as reason:
            return Understood(reason=str(reason))
        except Exception as error:  # planning must never fail the query
            return Understood(reason=failure(error))

    def _with_keys(
        self,
        understood: Understood,
        pinned: Mapping[tuple[str, ...], Pinned],
        scans: Mapping[TableReference, Scan],
        shortcuts: Mapping[TableReference, BlockShortcut],
        semantics: Semantics,
        seen: Observations,
    ) -> dict[TableReference, Scan]:
        """The scans for which the keys of others skip files."""
        draft, conditions = understood.draft, understood.conditions
        assert draft is not None
        assert conditions is not None
        by_reference = of_references(pinned)
        sides = [
            Side(by_reference[reference], scans[reference], condition)
            for reference, condition in zip(draft.pruned, conditions.expressions, strict=True)
        ]
        asked = {column for each in conditions.joined.values() for columns in each for column in columns}
        answered = {
            column: [value]
            for column in asked
            if (shorter := shortcuts.get(draft.pruned[column.reference])) is not None
            and (value := extreme_of(shorter, column)) is not None
        }
        narrowed = self._small_sides.narrowed(
            conditions,
            sides,
            answered,
            lambda keys: self._predicates.with_keys(
                draft, semantics.zone or "UTC", keys, as_written=understood.as_written
            ),
            lambda place, condition: sides[place].table.plan(condition, None, semantics),
            seen.ask_now,
        )
        return {draft.pruned[place]: scan for place, scan in narrowed.items()}

    def _draft(
        self,
        select: Select,
        parameters: Parameters,
        pinned: Mapping[tuple[str, ...], Pinned],
        seen: Observations,
    ) -> Draft:
        relations: dict[TableReference, Relation] = {}
        pruned: list[TableReference] = []
        by_reference = of_references(pinned)
        for reference in select.references:
            table = by_reference.get(reference)
            if table is not None:
                relations[reference] = table.shape.relation
                pruned.append(reference)
            elif not _stays(reference):
                relations[reference] = seen.describe(_text_of(select, reference))
        return self._drafted(select, relations, pruned, parameters)

    def _splice(
        self,
        form: StatementProbe,
        markers: Markers,
        pinned: Mapping[tuple[str, ...], Pinned],
        reason: str | None,
        full_scan: FullScan | None,
        planned: Mapping[TableReference, Scan],
        shortcuts: Mapping[TableReference, BlockShortcut],
        *,
        by_pattern: bool,
    ) -> Rewritten:
        select = form.select
        by_reference = of_references(pinned)
        chosen = sorted(by_reference, key=_name_start)
        marks = markers.edits()
        edits = [*marks, *self.tables.shortened(select, chosen)]
        if select.named_by_text and form.is_select:
            edits += self._shadow.result_names(select.text, [_name_start(reference) for reference in chosen])
        answered: list[tuple[Span, str]] = []
        scans: list[Scan] = []
        sources: Sources = {}
        # Only for a SELECT with no unknown function is it known which columns it reads.
        surely = reason is None and form.is_select
        for reference in chosen:
            table, shorter = by_reference[reference], shortcuts.get(reference)
            scan = planned[reference]
            if shorter is not None:
                scan = replace(scan, left=shorter.plan)
            scans.append(scan)
            wanted = self._wanted(form, reference, table.shape, full_scan, surely=surely)
            wanted = replace(wanted, by_pattern=by_pattern)
            source = partial(
                table.known.reader.sql,
                *(scan.left or scan.plan, table.shape, markers.bind, sources, self._described, wanted),
            )
            if shorter is not None and shorter.constants is not None:
                read = source() if scan.read else None
                answered += answer_edits(shorter, select, table.shape, markers.bind, read, marks)
                continue
            alias = "" if reference.alias is not None else f" AS {quote(reference.path[-1])}"
            edits.append((_name_span(reference), f"{source()}{alias}"))
        if answered:
            names = self._shadow.call_names(select.text, calls_of(shortcuts.values()))
            edits = list(dict.fromkeys([*without_covered([*edits, *names], answered), *answered]))
        return Rewritten(form.spliced(edits), markers.values, tuple(scans), sources)

    @staticmethod
    def _wanted(
        form: StatementProbe,
        reference: TableReference,
        shape: ScanShape,
        full_scan: FullScan | None,
        *,
        surely: bool,
    ) -> Wanted:
        """What a statement needs from a table; `surely` means that it is known which columns it reads."""
        select = form.select
        bare = surely and form.names_nothing_added and not _repeats(reference, shape)
        ranges = select.uses_ranges or select.shows_few_rows
        access = None if full_scan is None else full_scan.access
        return Wanted(
            select.may_read,
            narrow=surely,
            every=select.every_column,
            bare=bare and (access is None or access.bare),
            whole_structs=select.may_list_null(),
            ranges=ranges or access is not None,
            by_name=access is not None and access.by_name,
            in_order=select.shows_rows_by_place,
        )

    def _described(self, uri: str, schema: pa.Schema) -> FileColumns | None:
        """What DuckDB reads from a file."""
        return self._shadow.with_connection(lambda run: described(run, uri, schema))


def _planned(
    pinned: Mapping[tuple[str, ...], Pinned],
    expressions: Mapping[TableReference, Expr | None],
    reason: str | None,
    semantics: Semantics,
    full_scan: FullScan | None,
) -> dict[TableReference, Scan]:
    """The scans of a statement, in the order of its text."""
    by_reference = of_references(pinned)
    return {
        reference: by_reference[reference].plan(expressions.get(reference, TRUE), reason, semantics)
        if full_scan is None
        else by_reference[reference].plan(None, full_scan.reason, semantics)
        for reference in sorted(by_reference, key=_name_start)
    }


def _name_span(reference: TableReference) -> Span:
    """The span of the table's name, which a query replaces.

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


def _name_start(reference: TableReference) -> int:
    return _name_span(reference).start


def _stays(reference: TableReference) -> bool:
    """Tell whether a reference can be kept in the shadow's copy unchanged."""
    return reference.function and reference.path[-1].lower() in KEPT_TABLE_FUNCTIONS


def _repeats(reference: TableReference, shape: ScanShape) -> bool:
    """Tell whether names given to columns repeat those of further columns: DuckDB numbers these in a table or a query,
    and rejects them in a table function.
    """
    if not reference.columns:
        return False
    own = [folded(name) for name, _, _ in shape.columns[len(reference.columns) :]]
    shown = [*map(folded, reference.columns), *own]
    return len(set(shown)) < len(shown)


def _text_of(select: Select, reference: TableReference) -> str:
    if reference.whole is None:
        raise Unpruned(f"the place of {'.'.join(reference.path)} in the statement is not known")
    return select.text[reference.whole.start : reference.whole.stop].decode()


def _unpruned_for_good(rewritten: Rewritten) -> bool:
    """Tell whether a statement reads every file, for permanent reasons."""
    reasons = [scan.reason for scan in rewritten.scans]
    return all(reason not in (None, LEFT_OUT) and not is_failure(reason) for reason in reasons)


def _stays_lazy(statement: Statement) -> bool:
    """Tell whether a relation of it stays lazy only if it takes no parameters."""
    return RUNS_RELATIONS_WITH_PARAMETERS and statement.method.lazy and not statement.parameters


def _key(statement: Statement) -> Hashable:
    """The cache key of a statement, different from those of all others; None if there is none."""
    values = parameters_key(statement.parameters)
    return None if values is None else (statement.text, values, _stays_lazy(statement), switched_off())
