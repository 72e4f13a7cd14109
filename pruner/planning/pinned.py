"""A snapshot with the index state of one moment, and plans over it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pruner.errors import PredicateError, SchemaError
from pruner.expr.binding.bind import bind
from pruner.expr.bound.predicates import Unknown
from pruner.expr.derived.indexed import NO_EXPRESSION_INDEXES, ExpressionIndexes
from pruner.expr.engines import REFERENCE_ENGINE
from pruner.expr.exact.clock import is_known_zone
from pruner.expr.nodes import Expr
from pruner.expr.semantics import Semantics
from pruner.expr.show import describe, show
from pruner.expr.text.sql import parse_predicate, with_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from pruner.indexes.optional import LocatingEvidence
    from pruner.metadata.state import State
    from pruner.planning.plan import Plan
    from pruner.planning.planner import Planner
    from pruner.schema import Field, TableSchema
    from pruner.tables.snapshot import SliceSequence, Snapshot, Watched

DISABLED_VARIABLE = "PRUNER_DISABLED"
"""Environment variable that, set to 1, makes every plan keep everything."""

_NOT_DISABLED = frozenset(["", "0", "false", "no", "off"])
"""Any other value disables pruning: users who set the variable want to be sure."""


@dataclass(frozen=True, slots=True)
class View:
    """One snapshot of the table and one state of its metadata table, with the planner for both."""

    snapshot: Snapshot
    state: State | None
    planner: Planner
    unusable: tuple[str, ...] = ()
    """Why indexes are not used, if `state` is None for a reason."""
    indexed: ExpressionIndexes = NO_EXPRESSION_INDEXES
    """Expressions that some index is over."""
    own_indexes: Callable[[], dict[str, str]] = dict
    """Returns the table's own indexes by name, and whether they are used."""
    unread: tuple[str, ...] = ()
    """Why the table's own indexes are not used, if its format fails on them."""
    doubts: tuple[str, ...] = ()
    """Why the listing did not use the table's change feed. Plans are the same nonetheless."""

    watched: Callable[[], Sequence[Watched] | None] = lambda: None
    """Returns what to watch to know that the next view equals this one; None if only a new listing can tell."""

    def shows(self, snapshot: Snapshot, state: State | None, unusable: tuple[str, ...]) -> bool:
        """Tell whether it is of exactly this snapshot and index state, and so yields the same plans."""
        return self.snapshot is snapshot and self.state is state and self.unusable == unusable


def switched_off() -> str | None:
    """Return, as the reason why nothing is pruned, that `PRUNER_DISABLED` is set; None if it is not, or says no."""
    value = os.environ.get(DISABLED_VARIABLE, "").strip()
    return None if value.lower() in _NOT_DISABLED else f"switched off by {DISABLED_VARIABLE}={value}"


class PinnedSnapshot:
    """One snapshot of a table with the index state at the time it was taken; plans over it never check again."""

    def __init__(self, view: View, *, filled_in: Collection[str] = frozenset()) -> None:
        """`filled_in`: see `with_filled_in`."""
        self._view = view
        self._filled_in = filled_in

    @property
    def id(self) -> str:
        """Identity of the snapshot: changes when files, pending services or the schema may have changed."""
        return self._view.snapshot.id

    def watched(self) -> Sequence[Watched] | None:
        """Return what on the local disk stays unchanged for as long as a new listing would find the same.

        None if only a new listing can tell, or if something unreadable may be readable the next time.
        """
        unsure = self._view.unusable or self._view.unread or self._view.doubts
        return None if unsure else self._view.watched()

    def plans_as(self, other: PinnedSnapshot) -> bool:
        """Tell whether another one is of the same snapshot and index state, so that both yield the same plans."""
        view = other._view
        same = self._view.shows(view.snapshot, view.state, view.unusable)
        return same and self._filled_in == other._filled_in

    @property
    def schema(self) -> TableSchema:
        """Schema of the whole snapshot."""
        schema = self._view.snapshot.schema
        return schema.filled_in(self._filled_in) if self._filled_in else schema

    def with_filled_in(self, columns: Collection[str]) -> PinnedSnapshot:
        """The same snapshot for an engine that reads a default of its own, not NULL, from files without some columns.

        Plans over it keep such files; what is known of files that have the column still holds.

        Args:
            columns: top-level columns, by their names in lower case.
        """
        return PinnedSnapshot(self._view, filled_in=columns) if columns else self

    @property
    def slices(self) -> SliceSequence:
        """All slices, lazily."""
        return self._view.snapshot.slices

    @property
    def data(self) -> Snapshot:
        """The snapshot as Arrow columns."""
        return self._view.snapshot

    @property
    def has_expression_indexes(self) -> bool:
        """Whether some index is over an expression: then the form of a predicate matters, not only its meaning."""
        return bool(self._view.indexed.names)

    def locating(self, field: Field) -> LocatingEvidence | None:
        """Evidence that knows the rows of many values of a field; None if no index has it or pruning is off."""
        return None if switched_off() is not None else self._view.planner.locating(field)

    def plan(
        self, predicate: str | Expr, *, dialect: str | None = None, semantics: Semantics | None = None
    ) -> Plan:
        """Plan a scan of this snapshot: see `pruner.table.Table.plan`."""
        if semantics is not None and not isinstance(semantics, Semantics):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PredicateError(
                f"semantics are a pruner.Semantics, not {semantics!r}: name an engine by dialect="
            )
        rules = semantics or Semantics.of(dialect or REFERENCE_ENGINE)
        from_text = isinstance(predicate, str)
        # For callers without a type checker.
        if not isinstance(predicate, str | Expr):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PredicateError(f"a predicate is SQL text or an expression, not {predicate!r}")
        expression = parse_predicate(predicate, rules) if from_text else predicate
        try:
            bound = bind(expression, self.schema, rules, strict=from_text, indexed=self._view.indexed)
        except SchemaError as error:
            raise (with_hint(error, predicate) if isinstance(predicate, str) else error) from None
        disabled = switched_off()
        if disabled is not None:
            bound = Unknown(describe(bound), disabled)
        text = predicate if from_text else show(expression)
        return self._view.planner.plan(
            bound,
            text,
            rules,
            (*self._view.unusable, *self._view.unread, *self._view.doubts, *_about_zone(rules.zone)),
            self.schema,
        )


def row_counts(pinned: PinnedSnapshot) -> NDArray[np.int64] | None:
    """The number of rows of each slice as indexes counted them in the files, -1 where unknown.

    None if nothing is known, or pruning is off.
    """
    planner = pinned._view.planner  # pyright: ignore[reportPrivateUsage]
    return None if switched_off() is not None else planner.row_counts


def _about_zone(zone: str | None) -> tuple[str, ...]:
    if zone is None or is_known_zone(zone):
        return ()
    return (f"no time zone {zone!r} is known here: comparisons that depend on the zone hold for every zone",)
