"""Predicates bound to a table: each leaf is about one column of the table, in that column's own storage domain.

Binding (`pruner.expr.binding.bind`) resolves names, coerces literals without loss and turns whatever cannot be decided
from one column's values into `Unknown`. Indexes give evidence on the rest. As in the expression form there are And, Or,
Not and IsNull over leaves. NOT is not pushed down: the verdict's algebra handles it (`pruner.verdict`).

A literal that is compared with a column becomes a `Point`, or one of the two other results of coercion here.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as dataclass_field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pruner.expr.nodes import Constant, Operator
    from pruner.schema import Field

StorageValue: TypeAlias = bool | int | float | bytes
"""A value in a column's storage domain, in which statistics are recorded.

bool for boolean; int for integers, dates (days), timestamps and times of day (in the column's unit) and decimals
(unscaled, at the column's scale); float for floating point; bytes for strings (UTF-8), binary and UUIDs. Integers are
unbounded.
"""


@dataclass(frozen=True, slots=True)
class Point:
    """A coerced literal relative to the values of a column, as an interval of the column's storage domain.

    Values below `low` are certainly less than the literal, values above `high` certainly greater. Those in
    [low, high] are certainly equal to it when `exact`, and otherwise may be less, equal or greater (an unknown zone, a
    comparison in floating point). No value equals the literal when `low > high` (then exact): 1.5 against an integer
    column is low=2, high=1. None stands for minus infinity in `low` and plus infinity in `high`.
    `nan` is True for the literal NaN; `low` and `high` are then meaningless.
    """

    low: StorageValue | None
    high: StorageValue | None
    exact: bool = True
    nan: bool = False


@dataclass(frozen=True, slots=True)
class CompareLeaf:
    """`field operator point`, null where the field is null.

    `nan` is the result of the comparison for NaN where an adjacent condition, not the operator, decides it
    (`pruner.expr.bound.fields`).
    """

    field: Field
    operator: Operator
    point: Point
    nan: bool | None = None


@dataclass(frozen=True, slots=True)
class InLeaf:
    """`field IN (points…)`; `has_null` tells whether the list has a NULL. `points` is not empty or `has_null` is set.

    `text` is the predicate as written, where that is about a function and the points are what it implies for the field.
    """

    field: Field
    points: tuple[Point, ...]
    has_null: bool = False
    text: str = dataclass_field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class IsNullLeaf:
    """`field IS NULL`."""

    field: Field


@dataclass(frozen=True, slots=True)
class PrefixLeaf:
    """`field LIKE 'prefix…'`.

    With `whole` the pattern is exactly the prefix followed by `%`, so that each value that starts with it matches.
    Without it, more must match after the prefix. `prefix` is never empty.
    """

    field: Field
    prefix: bytes
    whole: bool


@dataclass(frozen=True, slots=True)
class RecurringLeaf:
    """`field % period`, by floor, is in one of the points; null where the field is null.

    The field's domain is the integers. `points` have both ends, the lower one from 0 to `period` - 1; a point that ends
    beyond the period continues at 0. A remainder in a point that is not `exact` may or may not count.
    """

    field: Field
    period: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class NotNullLeaf:
    """A predicate that is null where the field is null and otherwise always has the value `value`.

    `int_column < 1e30` is one: true unless null.
    """

    field: Field
    value: bool


class UnknownKind(Enum):
    """Why no index can decide a predicate."""

    PREDICATE = "its form or its constants"
    FUNCTION = "the values of a function, which an index over that expression may know"
    OUTSIDE = "what a function does outside the values for which its rule was proved"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A predicate that no index can decide; `text` shows it, `reason` says why."""

    text: str
    reason: str
    kind: UnknownKind = UnknownKind.PREDICATE

    def __str__(self) -> str:
        return f"{self.text}: {self.reason}"


@dataclass(frozen=True, slots=True)
class BoundAnd:
    """Conjunction of at least two operands."""

    operands: tuple[BoundExpr, ...]


@dataclass(frozen=True, slots=True)
class Same(BoundAnd):
    """One predicate in several forms that are equivalent on every row: each is about a different column or index.

    What any of them excludes is excluded, for every outcome. A conjunction of a predicate with itself is that
    predicate, so code that treats this as a plain conjunction loses only precision.
    """


@dataclass(frozen=True, slots=True)
class BoundOr:
    """Disjunction of at least two operands."""

    operands: tuple[BoundExpr, ...]


@dataclass(frozen=True, slots=True)
class Guarded(BoundOr):
    """A predicate over a function: what follows from the function's rule where that was proved, unknown elsewhere.

    `pruner.expr.bound.combine.guarded` creates it; `text` is the predicate as written.
    """

    text: str = ""


@dataclass(frozen=True, slots=True)
class BoundNot:
    """Negation."""

    operand: BoundExpr


@dataclass(frozen=True, slots=True)
class BoundIsNull:
    """`(predicate) IS NULL`: true where the predicate is null, otherwise false; never null itself."""

    operand: BoundExpr


ValueLeaf: TypeAlias = "CompareLeaf | InLeaf | PrefixLeaf | RecurringLeaf"
"""Leaves whose outcome depends on the value."""

Leaf: TypeAlias = "ValueLeaf | IsNullLeaf | NotNullLeaf"
BoundExpr: TypeAlias = "Leaf | Unknown | Constant | BoundAnd | BoundOr | BoundNot | BoundIsNull"


@dataclass(frozen=True, slots=True)
class NotComparable:
    """The comparison cannot be decided; `reason` says why. With `mismatch` the engine itself refuses it."""

    reason: str
    mismatch: bool = False


@dataclass(frozen=True, slots=True)
class AlwaysNull:
    """The literal is NULL: no comparison with it is ever true or false."""


Coerced: TypeAlias = Point | NotComparable | AlwaysNull
