"""Finds the parts of a statement that metadata can answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pruner.expr.nodes import TRUE, And, Expr
from pruner_duckdb.catalog.tables import Pinned, failure, of_references
from pruner_duckdb.rewrite.blocks import SelectBlock, TopN, blocks
from pruner_duckdb.rewrite.from_metadata import (
    DEFAULT_ORDER,
    BlockShortcut,
    condition_of,
    conditions_of,
    loses_nan,
    loses_parameters,
    names_columns,
    shortcut,
)
from pruner_duckdb.rewrite.markers import named_values
from pruner_duckdb.scans import LOGGER, Scan
from pruner_duckdb.sql.result_names import without_places

if TYPE_CHECKING:
    from pruner import Plan
    from pruner.expr.semantics import Semantics
    from pruner_duckdb.rewrite.meaning import SessionAgreement
    from pruner_duckdb.rewrite.remembered import Observations
    from pruner_duckdb.shadow.predicates import Draft, Parameters, Predicates
    from pruner_duckdb.shadow.shadow import Relation, Shadow
    from pruner_duckdb.sql.queries import Node
    from pruner_duckdb.sql.select import Select, Span, TableReference


class Shortcuts:
    """Finds the parts of statements that metadata can answer; one serves a connection and all of its cursors."""

    def __init__(
        self,
        shadow: Shadow,
        predicates: Predicates,
        meaning: SessionAgreement,
        drafted: Callable[
            [Select, Mapping[TableReference, Relation], Sequence[TableReference], Parameters], Draft
        ],
    ) -> None:
        """`drafted` makes a draft of a statement, the shapes of what it reads, its pruned references and values."""
        self._shadow = shadow
        self._predicates = predicates
        self._meaning = meaning
        self._drafted = drafted

    def of(
        self,
        select: Select,
        parameters: Parameters,
        pinned: Mapping[tuple[str, ...], Pinned],
        expressions: Mapping[TableReference, Expr | None],
        scans: Mapping[TableReference, Scan],
        semantics: Semantics,
        seen: Observations,
    ) -> dict[TableReference, BlockShortcut]:
        """What metadata answers about a statement, by table reference.

        `scans` were planned with `expressions`. If a part of a predicate is not understood and left to DuckDB, there is
        nothing to gain for that reference, and it is not examined further.
        """
        shortcuts: dict[TableReference, BlockShortcut] = {}
        by_reference = {
            reference: table
            for reference, table in of_references(pinned).items()
            if names_columns(table.shape)
            and expressions.get(reference) is not None
            and _may_gain(scans[reference])
        }
        if not by_reference:
            return {}
        try:
            columns = {
                reference: [name for name, _, _ in table.shape.columns]
                for reference, table in by_reference.items()
            }
            tree = self._shadow.located_tree(select.text)
            values = named_values(parameters)
            for block in blocks(select, tree, columns, self._shadow.aggregates, values):
                table = by_reference[block.reference]
                if loses_nan(block, table.shape):
                    continue
                each = self._shortcut(
                    select, block, parameters, table, semantics, scans[block.reference], expressions, seen
                )
                if each is None or loses_parameters(each, select):
                    continue
                shortcuts[block.reference] = each
        except Exception as error:  # it only costs time
            LOGGER.debug("not answered from metadata: %s", failure(error))
            return {}
        return shortcuts

    def _shortcut(
        self,
        select: Select,
        block: SelectBlock,
        parameters: Parameters,
        table: Pinned,
        semantics: Semantics,
        scan: Scan,
        expressions: Mapping[TableReference, Expr | None],
        seen: Observations,
    ) -> BlockShortcut | None:
        told = partial(self._condition, select, block, parameters, table, semantics.zone or "UTC")
        where = TRUE if block.condition is None else told(block.where, block.condition)
        if where is None:
            return None
        plan = (scan if where == expressions[block.reference] else table.plan(where, None, semantics)).plan
        only: list[Plan] = []
        if conditions_of(block) and not isinstance(block.asks, TopN):
            plans: dict[Expr, Plan] = {TRUE: plan}
            for aggregate in block.asks.aggregates:
                its = TRUE if aggregate.only is None else told(aggregate.only.span, aggregate.only.node)
                if its is None:
                    return None
                if its not in plans:
                    plans[its] = table.plan(And((where, its)), None, semantics).plan
                only.append(plans[its])
        return shortcut(block, plan, only, table.shape, partial(seen.ask, DEFAULT_ORDER, []))

    def _condition(
        self,
        select: Select,
        block: SelectBlock,
        parameters: Parameters,
        table: Pinned,
        zone: str,
        span: Span | None,
        condition: Node,
    ) -> Expr | None:
        """The whole condition of a part of a statement; None if it is not known with certainty."""
        text = condition_of(select, block, span)
        alone = self._shadow.parse(text)
        root = self._shadow.located_tree(alone.text)
        if without_places(root["where_clause"]) != without_places(condition):
            return None
        (reference,) = alone.references
        draft = self._drafted(alone, {reference: table.shape.relation}, [reference], parameters)
        return self._predicates.whole(self._meaning.with_macros(draft), zone)


def _may_gain(scan: Scan) -> bool:
    """Tell whether metadata may answer for the rows of a scan: not if nothing is read, nor if its condition is not
    understood.
    """
    return scan.plan.kept > 0 and scan.plan.is_understood
