"""An index type of another distribution: lengths of the shortest and longest text of each file, in UTF-8 bytes.

A file can hold a text equal to 'LEX' only if it holds some text of three bytes. All that pruner needs is the entry
point in `pyproject.toml`; see `pruner.indexes.base` for what an index type is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from pruner.errors import IndexDefinitionError
from pruner.expr.bound.predicates import CompareLeaf, InLeaf
from pruner.expr.nodes import Operator
from pruner.expr.semantics import BINARY_COLLATION
from pruner.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.base import SliceReader
    from pruner.schema import Field

pc: Any = pyarrow.compute  # whose stubs have too few argument types


class TextLength:
    """See `pruner.indexes.base.IndexType`."""

    name = "text_length"
    partition = "text_length"
    version = 1

    def check(self, field: Field, options: Mapping[str, str]) -> None:
        """Only texts have a length."""
        if not pa.types.is_string(field.type) or options:
            raise IndexDefinitionError(
                f"text_length indexes columns of text without options, not {field.name!r}"
            )

    def record(self, reader: SliceReader, field: Field, options: Mapping[str, str]) -> pa.Table:
        """One row: the least and the greatest length, null where the file is not understood or has no text."""
        leaf = reader.footer.leaf(field.path)
        known = (
            leaf is not None
            and leaf.type == field.type
            and not leaf.partly_absent
            and not reader.footer.alike(field.path, field.field_id)
        )
        lengths: list[int] = []
        if leaf is not None and known:
            for part in reader.batches(leaf):
                found = pc.min_max(pc.binary_length(part)).as_py()
                lengths += [length for length in found.values() if length is not None]
        ends = {"shortest": min(lengths, default=None), "longest": max(lengths, default=None)}
        return pa.table({name: pa.array([end], pa.int64()) for name, end in ends.items()})

    def load(self, records: pa.Table, count: int, field: Field) -> LengthEvidence:
        """Put the lengths of each slice at its position."""
        return LengthEvidence(records.drop_null(), count)


class LengthEvidence:
    """See `pruner.indexes.base.Evidence`."""

    def __init__(self, records: pa.Table, count: int) -> None:
        at = records.column("__slice").to_numpy()
        self.count = count
        self.covered: NDArray[np.bool_] = np.zeros(count, np.bool_)
        self._shortest, self._longest = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.covered[at] = True
        self._shortest[at] = records.column("shortest").to_numpy()
        self._longest[at] = records.column("longest").to_numpy()

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> NDArray[np.bool_] | None:
        """Exclude covered slices that have no text as long as any of the literals; all others are possible."""
        literals = _equal_to(leaf) if outcome is Outcome.TRUE else None
        if literals is None or semantics.collation != BINARY_COLLATION:
            return None
        fits = np.zeros(self.count, np.bool_)
        for literal in literals:
            fits |= (self._shortest <= len(literal)) & (len(literal) <= self._longest)
        answer = fits | ~self.covered
        return answer if at is None else answer[at]


def _equal_to(leaf: Leaf) -> list[bytes] | None:
    """The texts of which a leaf requires one; None for other leaves."""
    match leaf:
        case CompareLeaf(operator=Operator.EQ, point=point):
            points: Any = [point]
        case InLeaf(points=points):
            pass
        case _:
            return None
    plain = all(isinstance(point.low, bytes) and point.exact and point.low == point.high for point in points)
    return [point.low for point in points] if plain else None


TEXT_LENGTH = TextLength()
