"""Sources that say less than the records of an index, since these do not apply to every engine or every file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pruner.arrow import compute

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from pruner.evidence.sources import Source
    from pruner.expr.bound.predicates import Leaf
    from pruner.expr.engines import Origin
    from pruner.expr.semantics import Semantics
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]


def either(in_file: Source, in_path: Source) -> Source:
    """Evidence of an index about a column that is also in the path, where the engine may read either (trap N6).

    Only what both exclude is excluded (R2). Which rows have the value in the path is not recorded.
    """

    def focused(leaves: Sequence[Leaf]) -> Source:
        return either(in_file.focused(leaves), in_path.focused(leaves))

    return replace(in_file.answering(_Either(in_file, in_path)), focus=focused)


def limited(source: Source, origin: Origin, *, by_engine: bool) -> Source:
    """Evidence about a value that is read only by scans that take a shared partition column from `origin`.

    Args:
        source: the source.
        origin: where the value comes from.
        by_engine: whether the engine's default origin applies if the scan does not state one.
    """

    def is_read(semantics: Semantics) -> bool:
        said = semantics.shared_partition_columns
        if said is None and by_engine:
            said = semantics.traits.shared_partition_columns
        return said is origin

    def focused(leaves: Sequence[Leaf]) -> Source:
        return limited(source.focused(leaves), origin, by_engine=by_engine)

    can = replace(source.can, locating=None, carries_over=False)
    return replace(
        source,
        can=can,
        is_read=_both(source.is_read, is_read),
        silence=None,
        focus=None if source.focus is None else focused,
    )


def since_schema_change(source: Source, earlier: Mask) -> Source:
    """Evidence about a column that got its name in a schema change: it says nothing of older files (trap T2).

    Engines find a column by its name or by its field id, and for files from before the change these are two columns.

    Args:
        source: the source.
        earlier: the slices whose files may be from before the change.
    """

    def focused(leaves: Sequence[Leaf]) -> Source:
        return since_schema_change(source.focused(leaves), earlier)

    return replace(source.answering(_SinceSchemaChange(source, earlier)), focus=focused)


def from_before(snapshot: Snapshot, about: Field) -> Mask | None:
    """Mark the slices with a file that may be from before the last change of a column; None if there are none."""
    since = about.since
    if since is None:
        return None
    instants = snapshot.column("base_instant")
    later = np.asarray(compute.fill_null(compute.greater(instants, since.instant), False))
    earlier = ~later | snapshot.has_logs
    return earlier if earlier.any() else None


def _both(
    inner: Callable[[Semantics], bool] | None, outer: Callable[[Semantics], bool]
) -> Callable[[Semantics], bool]:
    return outer if inner is None else lambda semantics: inner(semantics) and outer(semantics)


class _Either(NamedTuple):
    in_file: Source
    in_path: Source

    @property
    def uncovered(self) -> Mask | None:
        return self.in_file.uncovered

    @property
    def notes(self) -> tuple[str, ...]:
        return self.in_file.notes

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        in_file = self.in_file.possible(leaf, outcome, semantics, at)
        in_path = self.in_path.possible(leaf, outcome, semantics, at)
        return None if in_file is None or in_path is None else in_file | in_path


class _SinceSchemaChange(NamedTuple):
    source: Source
    earlier: Mask

    @property
    def uncovered(self) -> Mask | None:
        uncovered = self.source.uncovered
        return self.earlier if uncovered is None else uncovered | self.earlier

    @property
    def notes(self) -> tuple[str, ...]:
        return self.source.notes

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        answer = self.source.possible(leaf, outcome, semantics, at)
        return None if answer is None else answer | (self.earlier if at is None else self.earlier[at])
