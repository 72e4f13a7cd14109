"""Subjects of conditions: a column, a column as an engine reads it, casts of it, and functions of it.

A subject turns a condition on itself into conditions on the column. A lossless cast is undone; a function has a rule
for the values on which it was proved (`pruner.expr.functions`), and is unknown elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, assert_never

import pyarrow as pa

from pruner.expr.bound.combine import all_of, any_of, compare_leaf, guarded, in_leaf, recurring_leaf
from pruner.expr.bound.predicates import BoundExpr, IsNullLeaf, NotNullLeaf, Point, PrefixLeaf
from pruner.expr.exact.patterns import successor
from pruner.expr.functions.inverse import Cycle, Cycles, NotInvertible, Periods, Piece, Pieces, Texts
from pruner.expr.nodes import TRUE, Operator
from pruner.expr.semantics import BINARY_COLLATION
from pruner.expr.types import is_string

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pruner.expr.bound.predicates import StorageValue
    from pruner.expr.exact.casts import Undo
    from pruner.expr.functions.inverse import Inverse
    from pruner.expr.semantics import Semantics
    from pruner.schema import Field

MOST_OPTIONS = 1_000
"""Longest list of values that is inverted through a function."""


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """A column; `type` is that of the cast over it, which `undo` reverses."""

    field: Field
    type: pa.DataType
    semantics: Semantics
    undo: Undo | None = None

    def compare(self, operator: Operator, point: Point) -> BoundExpr:
        """`value operator point`.

        Raises:
            NotInvertible: the condition says nothing about the column.
        """
        return compare_leaf(self.field, operator, self._undone(point), self.semantics)

    def member(self, points: Sequence[Point], *, has_null: bool) -> BoundExpr:
        """`value IN (points…)`.

        Raises:
            NotInvertible: the condition says nothing about the column.
        """
        return in_leaf(self.field, [self._undone(point) for point in points], has_null)

    def starts_with(self, prefix: bytes) -> BoundExpr:
        """`value LIKE 'prefix%'`.

        Raises:
            NotInvertible: the column is not text compared by its bytes.
        """
        if not is_string(self.field.type) or self.semantics.collation != BINARY_COLLATION:
            raise NotInvertible("text that is not compared by its bytes")
        return PrefixLeaf(self.field, prefix, True)

    def recurs(self, period: int, points: Sequence[Point]) -> BoundExpr:
        """`value % period` is in one of the points.

        Raises:
            NotInvertible: a cast is between the value and the column.
        """
        if self.undo is not None:
            raise NotInvertible("the remainder of a cast")
        return recurring_leaf(self.field, period, points)

    def is_null(self) -> BoundExpr:
        """`value IS NULL`."""
        return IsNullLeaf(self.field)

    def _undone(self, point: Point) -> Point:
        if self.undo is None:
            return point
        if point.nan and not pa.types.is_floating(self.field.type):
            raise NotInvertible("a comparison with NaN")
        return self.undo(point)


@dataclass(frozen=True, slots=True)
class FunctionValue:
    """A function of another value; `text` shows the whole condition."""

    inverse: Inverse
    inner: Subject
    text: str

    @property
    def field(self) -> Field:
        """The column that it is a function of."""
        return self.inner.field

    @property
    def type(self) -> pa.DataType:
        """The type in which constants are compared with it."""
        return self.inverse.result

    def compare(self, operator: Operator, point: Point) -> BoundExpr:
        """`value operator point`.

        Raises:
            NotInvertible: the condition says nothing about the column.
        """
        if point.nan:
            raise NotInvertible("a comparison with NaN")
        match self.inverse:
            case Pieces(_, pieces):
                return self._by_pieces(pieces, [self._by_piece(piece, operator, point) for piece in pieces])
            case Periods(_, low, high, where):
                inside = self.inner.member(where(operator, point), has_null=False)
                return guarded(inside, self._between(low, high), self.text)
            case Cycles(_, cycles):
                return self._by_cycles(cycles, [cycle.where(operator, point) for cycle in cycles])
            case Texts(_, compare):
                return compare(self.inner, operator, point)
            case _:
                assert_never(self.inverse)

    def member(self, points: Sequence[Point], *, has_null: bool) -> BoundExpr:
        """`value IN (points…)`.

        Raises:
            NotInvertible: the condition says nothing about the column.
        """
        if len(points) > MOST_OPTIONS or any(point.nan for point in points):
            raise NotInvertible("a long list of values of a function")
        if isinstance(self.inverse, Pieces):
            pieces = self.inverse.pieces
            listed = [self._listed(piece, points, has_null=has_null) for piece in pieces]
            return self._by_pieces(pieces, listed)
        if isinstance(self.inverse, Periods):
            ranges = [each for point in points for each in self.inverse.where(Operator.EQ, point)]
            listed = self.inner.member(ranges, has_null=has_null)
            return guarded(listed, self._between(self.inverse.low, self.inverse.high), self.text)
        if has_null or not points:
            raise NotInvertible("a list with NULL")
        if isinstance(self.inverse, Cycles):
            cycles = self.inverse.cycles
            ranges = [[r for point in points for r in cycle.where(Operator.EQ, point)] for cycle in cycles]
            return self._by_cycles(cycles, ranges)
        return any_of([self.compare(Operator.EQ, point) for point in points])

    def starts_with(self, prefix: bytes) -> BoundExpr:
        """`value LIKE 'prefix%'`.

        Raises:
            NotInvertible: the condition says nothing about the column.
        """
        if isinstance(self.inverse, Texts):
            return self.inverse.begins(self.inner, prefix)
        behind = successor(prefix)
        if behind is None or not isinstance(self.inverse, Pieces):
            raise NotInvertible("how the text begins that a function makes")
        # Texts are in the order of the values: those with this prefix are contiguous.
        ends = [
            self.compare(Operator.GE, Point(prefix, prefix)),
            self.compare(Operator.LT, Point(behind, behind)),
        ]
        return all_of(ends)

    def recurs(self, period: int, points: Sequence[Point]) -> BoundExpr:
        """`value % period` is in one of the points.

        Raises:
            NotInvertible: always; only columns support remainders.
        """
        raise NotInvertible("the remainder of a function")

    def is_null(self) -> BoundExpr:
        """`value IS NULL`: in its domain a function is NULL only for NULL."""
        null = self.inner.is_null()
        match self.inverse:
            case Pieces(_, pieces):
                domain = any_of([self._inside(piece) for piece in pieces])
            case Cycles(_, cycles):
                domain = any_of([self._between(cycle.low, cycle.high) for cycle in cycles])
            case Periods(_, low, high):
                domain = self._between(low, high)
            case Texts():
                return null
            case _:
                assert_never(self.inverse)
        return null if domain == TRUE else any_of([null, guarded(null, domain, self.text)])

    def _listed(self, piece: Piece, points: Sequence[Point], *, has_null: bool) -> BoundExpr:
        return self.inner.member([piece.undo(point) for point in points], has_null=has_null)

    def _by_piece(self, piece: Piece, operator: Operator, point: Point) -> BoundExpr:
        if not piece.ordered and operator not in (Operator.EQ, Operator.NE):
            raise NotInvertible("the function does not keep the order of its values")
        asked = operator.mirrored if piece.falls else operator
        return self.inner.compare(asked, piece.undo(point))

    def _by_pieces(self, pieces: Sequence[Piece], found: Sequence[BoundExpr]) -> BoundExpr:
        """The condition of each piece, where the value is in it; unknown outside all pieces."""
        if len(pieces) == 1:
            return guarded(found[0], self._inside(pieces[0]), self.text)
        inside = [self._inside(piece) for piece in pieces]
        parts = [all_of([within, operand]) for within, operand in zip(inside, found, strict=True)]
        return guarded(any_of(parts), any_of(inside), self.text)

    def _by_cycles(self, cycles: Sequence[Cycle], ranges: Sequence[Sequence[Point]]) -> BoundExpr:
        """The condition of each cycle (a remainder in its ranges), where the value is in it."""
        inside = [self._between(cycle.low, cycle.high) for cycle in cycles]
        by_cycle = [self.inner.recurs(cycle.period, r) for cycle, r in zip(cycles, ranges, strict=True)]
        if len(cycles) == 1:
            return guarded(by_cycle[0], inside[0], self.text)
        parts = [all_of([within, operand]) for within, operand in zip(inside, by_cycle, strict=True)]
        return guarded(any_of(parts), any_of(inside), self.text)

    def _inside(self, piece: Piece) -> BoundExpr:
        return self._between(piece.low, piece.high)

    def _between(self, low: StorageValue | None, high: StorageValue | None) -> BoundExpr:
        ends: list[BoundExpr] = []
        if low is not None:
            ends.append(self.inner.compare(Operator.GE, Point(low, low)))
        if high is not None:
            ends.append(self.inner.compare(Operator.LE, Point(high, high)))
        return all_of([end for end in ends if not _is_trivial(end)])


def _is_trivial(condition: BoundExpr) -> bool:
    """Tell whether a condition is true for every value."""
    return isinstance(condition, NotNullLeaf) and condition.value


Subject: TypeAlias = ColumnValue | FunctionValue
