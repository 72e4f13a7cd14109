"""What becomes of a literal that is compared with a column: a `Point`, or one of the two results here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pruner.expr.bound.predicates import Point


@dataclass(frozen=True, slots=True)
class NotComparable:
    """Nothing can be said; `reason` says why. With `mismatch` the engine itself refuses the comparison."""

    reason: str
    mismatch: bool = False


@dataclass(frozen=True, slots=True)
class AlwaysNull:
    """The literal is NULL: no comparison with it is ever true or false."""


Coerced: TypeAlias = Point | NotComparable | AlwaysNull
