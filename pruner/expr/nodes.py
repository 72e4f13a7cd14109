"""The common expression form: what an adapter or the SQL parser passes to the planner.

The nodes are values: frozen, compared by content, independent of any table. Literals are typed Python values, never SQL
text. `Opaque` stands for whatever its producer did not understand, so that nothing is ever silently dropped: it may be
true, false or null for any row. Consumers destructure nodes with `match` and end with `assert_never`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

    from pruner.expr.values import LiteralValue


class Operator(Enum):
    """The six comparisons; each value is its SQL spelling."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def negated(self) -> Operator:
        """The operator that is true exactly where this one is false (for operands that are not null)."""
        return _NEGATED[self]

    @property
    def mirrored(self) -> Operator:
        """The operator with the same meaning once the operands are swapped."""
        return _MIRRORED[self]


_NEGATED = {
    Operator.EQ: Operator.NE,
    Operator.NE: Operator.EQ,
    Operator.LT: Operator.GE,
    Operator.GE: Operator.LT,
    Operator.GT: Operator.LE,
    Operator.LE: Operator.GT,
}
_MIRRORED = {
    Operator.EQ: Operator.EQ,
    Operator.NE: Operator.NE,
    Operator.LT: Operator.GT,
    Operator.GT: Operator.LT,
    Operator.LE: Operator.GE,
    Operator.GE: Operator.LE,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column by its path: `("city",)` is a top-level column, `("address", "zip")` a field of a struct."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Literal:
    """A typed constant; `value` is None for NULL (whose type may be Arrow's null type).

    The Python value for each type is fixed by `pruner.expr.values.LiteralValue`.
    """

    value: LiteralValue
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A function or a cast by its canonical name; `type` is the result type where the producer knows it.

    A cast is `Call("cast", (operand,), target_type)`; a cast that yields NULL instead of failing is `"try_cast"`.
    """

    function: str
    arguments: tuple[Expr, ...]
    type: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class Compare:
    """`left operator right`; null where either side is null."""

    operator: Operator
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class In:
    """`operand IN (options…)`; a NULL among the options makes every non-match null, as in SQL."""

    operand: Expr
    options: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """`operand IS NULL`; never null itself. `IS NOT NULL` is `Not(IsNull(…))`."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class Like:
    """`operand LIKE pattern [ESCAPE escape]`, case-sensitive; `escape` is None where there is no escape character."""

    operand: Expr
    pattern: str
    escape: str | None = None


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction of at least two operands in Kleene's logic."""

    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction of at least two operands in Kleene's logic."""

    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Negation in Kleene's logic: null stays null."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class Constant:
    """A predicate that does not depend on the row: true, false or (None) null."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something that was not understood: it may be true, false or null for any row.

    `text` is for display and `reason` says why it is opaque; neither is ever parsed.
    """

    columns: tuple[Column, ...]
    text: str
    reason: str = "not understood"


TRUE = Constant(True)
FALSE = Constant(False)
NULL = Constant(None)

Expr: TypeAlias = Column | Literal | Call | Compare | In | IsNull | Like | And | Or | Not | Constant | Opaque


def conjunction(operands: tuple[Expr, ...]) -> Expr:
    """AND of any number of operands, nested ANDs flattened one level; TRUE for no operands."""
    flat: list[Expr] = []
    for operand in operands:
        flat.extend(operand.operands if isinstance(operand, And) else (operand,))
    match flat:
        case []:
            return TRUE
        case [single]:
            return single
        case _:
            return And(tuple(flat))


def disjunction(operands: tuple[Expr, ...]) -> Expr:
    """OR of any number of operands, nested ORs flattened one level; FALSE for no operands."""
    flat: list[Expr] = []
    for operand in operands:
        flat.extend(operand.operands if isinstance(operand, Or) else (operand,))
    match flat:
        case []:
            return FALSE
        case [single]:
            return single
        case _:
            return Or(tuple(flat))
