"""Partial indexes: which slices an index takes whose WHERE is a predicate on partition columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.errors import IndexDefinitionError, PredicateError, SchemaError
from pruner.evidence.snapshot import SnapshotEvidence
from pruner.expr.binding.bind import bind
from pruner.expr.bound.fields import leaves, unknowns
from pruner.expr.engines import REFERENCE_ENGINE
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.planning.planner import Planner

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import BoundExpr
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.schema import TableSchema
    from pruner.tables.snapshot import Snapshot

_SEMANTICS = Semantics.of(REFERENCE_ENGINE)
"""The text is stored, so it is always read by the same rules. It says what is recorded, never what is pruned."""


def check_where(text: str, schema: TableSchema) -> None:
    """Refuse a predicate that names anything but partition columns.

    Raises:
        IndexDefinitionError: it does not, or it cannot be understood.
    """
    _bound(text, schema)


def slices_where(text: str, snapshot: Snapshot, segments: SegmentCache) -> NDArray[np.bool_]:
    """Tell for each slice whether its partition can meet the predicate.

    Raises:
        IndexDefinitionError: the table no longer has the columns that the predicate names.
    """
    planner = Planner(snapshot, SnapshotEvidence(snapshot, None, segments))
    return planner.plan(_bound(text, snapshot.schema), text, _SEMANTICS).kept_mask


def _bound(text: str, schema: TableSchema) -> BoundExpr:
    try:
        bound = bind(parse_predicate(text, _SEMANTICS), schema, _SEMANTICS)
    except (PredicateError, SchemaError) as error:
        raise IndexDefinitionError(f"WHERE of an index: {error}") from error
    for unknown in unknowns(bound):
        raise IndexDefinitionError(f"WHERE of an index cannot hold {unknown.text}: {unknown.reason}")
    for leaf in leaves(bound):
        if not leaf.field.partition:
            raise IndexDefinitionError(
                f"WHERE of an index names column {leaf.field.name!r}, which is not a partition column: "
                "an index covers whole files"
            )
    return bound
