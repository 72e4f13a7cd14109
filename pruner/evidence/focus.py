"""What is known of the fields of one predicate: sources that read what that predicate asks for, and keep it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.evidence.sources import Sources
from pruner.expr.bound.fields import leaves

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pruner.evidence.sources import KnowsFields
    from pruner.expr.bound.fields import Path
    from pruner.expr.bound.predicates import BoundExpr, Leaf
    from pruner.schema import Field


class Focus:
    """Evidence for one predicate, in which every field is read in one way.

    `known` has the sources of each of its fields, by path and in the order in which the predicate names them.
    """

    def __init__(self, evidence: KnowsFields, predicate: BoundExpr) -> None:
        asked: dict[Path, list[Leaf]] = {}
        for leaf in leaves(predicate):
            asked.setdefault(leaf.field.path, []).append(leaf)
        self.known: Mapping[Path, Sources] = {
            path: evidence.sources(about[0].field).focused(about) for path, about in asked.items()
        }

    def sources(self, about: Field) -> Sources:
        """Everything that is known of one field of the predicate, for this predicate."""
        return self.known[about.path]
