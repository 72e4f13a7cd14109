"""What a predicate can evaluate to on the rows of each slice: can be true, can be false, can be null.

Each answer is a mask over slices and an over-approximation: a set bit may be wrong, a clear bit is proven. Anything
unknown sets all three. NOT swaps true and false, so no approximation ever flips into a claim. Only the requested
outcome is computed: a scan asks whether the predicate can be TRUE, a NOT above a part asks that part whether it can be
FALSE, and the proof that every row matches asks for FALSE and NULL.

| | can be true | can be false | can be null |
|---|---|---|---|
| a AND b | a.true ∧ b.true | a.false ∨ b.false | (a.null ∨ b.null) ∧ each (true ∨ null) |
| a OR b | a.true ∨ b.true | a.false ∧ b.false | (a.null ∨ b.null) ∧ each (false ∨ null) |
| NOT a | a.false | a.true | a.null |
| a IS NULL | a.null | a.true ∨ a.false | never |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, assert_never

import numpy as np

from pruner.expr.bound.predicates import BoundAnd, BoundIsNull, BoundNot, BoundOr, Same, Unknown
from pruner.expr.nodes import Constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import BoundExpr, Leaf

    Mask = NDArray[np.bool_]


class Outcome(Enum):
    """What a predicate evaluates to on a row."""

    TRUE = "true"
    FALSE = "false"
    NULL = "null"

    @property
    def swapped(self) -> Outcome:
        """The outcome of a predicate whose negation evaluates to this one."""
        match self:
            case Outcome.TRUE:
                return Outcome.FALSE
            case Outcome.FALSE:
                return Outcome.TRUE
            case Outcome.NULL:
                return Outcome.NULL


LeafVerdict = Callable[["Leaf", Outcome], "Mask"]
"""Which slices can hold a row on which the leaf evaluates to the outcome."""


class Lattice(Protocol):
    """A set (of slices, of rows) with union and intersection."""

    def __and__(self, other: Any, /) -> Any: ...

    def __or__(self, other: Any, /) -> Any: ...


AnswerT = TypeVar("AnswerT", bound=Lattice)


def possible(predicate: BoundExpr, outcome: Outcome, leaf_verdict: LeafVerdict, count: int) -> Mask:
    """Tell for each of `count` slices whether some row can make `predicate` evaluate to `outcome`.

    Args:
        predicate: bound to the table whose slices `leaf_verdict` knows.
        outcome: the outcome that is asked for.
        leaf_verdict: answers for one leaf; a mask of `count` entries, never modified here.
        count: number of slices.

    Returns:
        A mask of `count` entries; False is a proof that no row does.
    """

    def part(of: BoundExpr, wanted: Outcome) -> Mask | None:
        match of:
            case BoundAnd() | BoundOr() | BoundNot() | BoundIsNull() | Constant() | Unknown():
                return None
            case _:
                return leaf_verdict(of, wanted)

    return evaluate(predicate, outcome, part, lambda holds: np.full(count, holds))


def evaluate(
    predicate: BoundExpr,
    outcome: Outcome,
    part: Callable[[BoundExpr, Outcome], AnswerT | None],
    constant: Callable[[bool], AnswerT],
) -> AnswerT:
    """Determine where `predicate` can evaluate to `outcome`, in any kind of set.

    Args:
        predicate: the whole predicate.
        outcome: the outcome that is asked for.
        part: answers for a part of the predicate as a whole, None to have it decomposed; a leaf without an answer is
            unknown everywhere.
        constant: the set of everything or of nothing.
    """

    def ask(of: BoundExpr, wanted: Outcome) -> AnswerT:
        return evaluate(of, wanted, part, constant)

    answer = part(predicate, outcome)
    if answer is not None:
        return answer
    match predicate:
        case Same(operands):
            return _all(ask(operand, outcome) for operand in operands)
        case BoundAnd(operands):
            return _nary(operands, outcome, absorbing=Outcome.FALSE, ask=ask)
        case BoundOr(operands):
            return _nary(operands, outcome, absorbing=Outcome.TRUE, ask=ask)
        case BoundNot(operand):
            return ask(operand, outcome.swapped)
        case BoundIsNull(operand):
            return _null_test(operand, outcome, ask, constant)
        case Constant(value):
            return constant(_constant_outcome(value) is outcome)
        case _:
            return constant(True)


def _nary(
    operands: Iterable[BoundExpr],
    outcome: Outcome,
    *,
    absorbing: Outcome,
    ask: Callable[[BoundExpr, Outcome], AnswerT],
) -> AnswerT:
    """AND (absorbing FALSE) or OR (absorbing TRUE): one absorbing operand decides, otherwise all must be neutral."""
    neutral = absorbing.swapped
    match outcome:
        case Outcome.NULL:
            nulls = [ask(operand, Outcome.NULL) for operand in operands]
            unabsorbed = [ask(operand, neutral) | null for operand, null in zip(operands, nulls, strict=True)]
            return _any(nulls) & _all(unabsorbed)
        case Outcome.TRUE | Outcome.FALSE:
            answers = (ask(operand, outcome) for operand in operands)
            return _any(answers) if outcome is absorbing else _all(answers)
        case _:
            assert_never(outcome)


def _null_test(
    operand: BoundExpr,
    outcome: Outcome,
    ask: Callable[[BoundExpr, Outcome], AnswerT],
    constant: Callable[[bool], AnswerT],
) -> AnswerT:
    match outcome:
        case Outcome.TRUE:
            return ask(operand, Outcome.NULL)
        case Outcome.FALSE:
            return ask(operand, Outcome.TRUE) | ask(operand, Outcome.FALSE)
        case Outcome.NULL:
            return constant(False)


def _any(answers: Iterable[AnswerT]) -> AnswerT:
    return reduce(lambda left, answer: left | answer, answers)


def _all(answers: Iterable[AnswerT]) -> AnswerT:
    return reduce(lambda left, answer: left & answer, answers)


def _constant_outcome(value: bool | None) -> Outcome:
    if value is None:
        return Outcome.NULL
    return Outcome.TRUE if value else Outcome.FALSE
