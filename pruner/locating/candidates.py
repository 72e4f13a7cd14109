"""Which slices can hold which keys: by the record index where there is one, else by all other indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from pruner.expr.nodes import And, Column, Compare, In, Literal, Operator
from pruner.locating.keys import ends, literals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.expr.nodes import Expr
    from pruner.indexes.optional import Located
    from pruner.planning.pinned import PinnedSnapshot
    from pruner.schema import Field

MOST_LISTED = 1024
"""Keys that are asked about one by one where there is no record index: bloom filters answer for as many."""


class Candidates(NamedTuple):
    """What the indexes say of some keys.

    `located` are rows that have one of the keys, or may have it where not `certain`; None without a record index.
    `to_read` are the other slices that may hold any of the keys, ascending.
    """

    located: Located | None
    certain: bool
    to_read: NDArray[np.intp]


def candidates(pinned: PinnedSnapshot, fields: Sequence[Field], keys: pa.Table) -> Candidates:
    """Ask the indexes about different keys (see `pruner.locating.keys.distinct`)."""
    found: Located | None = None
    certain = False
    for number, field in enumerate(fields):
        evidence = pinned.locating(field)
        if evidence is not None:
            found = evidence.locate(keys.column(str(number)).combine_chunks())
            certain = len(fields) == 1 and evidence.tells_all_apart
            break
    unknown = np.ones(len(pinned.data), np.bool_) if found is None else found.unknown
    if not unknown.any() or not keys.num_rows:
        return Candidates(found, certain, np.empty(0, np.intp))
    parts = [_about(field, keys.column(str(number))) for number, field in enumerate(fields)]
    plan = pinned.plan(parts[0] if len(parts) == 1 else And(tuple(parts)))
    return Candidates(found, certain, np.flatnonzero(plan.kept_mask & unknown))


def _about(field: Field, values: Any) -> Expr:
    """What is true of each row with one of the values in a column: a list of them, or their range."""
    column, different = Column(field.path), values.combine_chunks().unique()
    if len(different) <= MOST_LISTED:
        return In(column, tuple(Literal(value, field.type) for value in literals(different, field.type)))
    low, high = literals(ends(different), field.type)
    return And(
        (
            Compare(Operator.GE, column, Literal(low, field.type)),
            Compare(Operator.LE, column, Literal(high, field.type)),
        )
    )
