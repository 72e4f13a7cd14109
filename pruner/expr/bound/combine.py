"""AND, OR, NOT and IS NULL over bound predicates, kept flat."""

from __future__ import annotations

from pruner.expr.bound.predicates import (
    BoundAnd,
    BoundExpr,
    BoundIsNull,
    BoundNot,
    BoundOr,
    CompareLeaf,
    Guarded,
    InLeaf,
    IsNullLeaf,
    NotNullLeaf,
    PrefixLeaf,
    RecurringLeaf,
    Same,
    Unknown,
    UnknownKind,
)
from pruner.expr.nodes import FALSE, TRUE, And, Constant, Expr, Or


def flat(node: Expr, kind: type[And] | type[Or]) -> list[Expr]:
    """The operands of nested ANDs (or ORs) in order, however deep the nest."""
    operands: list[Expr] = []
    pending: list[Expr] = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, And | Or) and isinstance(part, kind):
            pending.extend(reversed(part.operands))
        else:
            operands.append(part)
    return operands


def all_of(operands: list[BoundExpr]) -> BoundExpr:
    """AND of bound predicates; constants are taken out by Kleene's logic."""
    left = [operand for operand in operands if operand != TRUE]
    if FALSE in left:
        return FALSE
    match left:
        case []:
            return TRUE
        case [single]:
            return single
        case _:
            return BoundAnd(tuple(_spliced(left, BoundAnd)))


def any_of(operands: list[BoundExpr]) -> BoundExpr:
    """OR of bound predicates; constants are taken out by Kleene's logic."""
    left = [operand for operand in operands if operand != FALSE]
    if TRUE in left:
        return TRUE
    match left:
        case []:
            return FALSE
        case [single]:
            return single
        case _:
            return BoundOr(tuple(_spliced(left, BoundOr)))


def _spliced(operands: list[BoundExpr], kind: type[BoundAnd] | type[BoundOr]) -> list[BoundExpr]:
    """Operands that came out as the same kind themselves are taken apart, as `NOT NOT (a AND b)` is."""
    flat: list[BoundExpr] = []
    for operand in operands:
        if type(operand) is kind:
            assert isinstance(operand, BoundAnd | BoundOr)
            flat.extend(operand.operands)
        else:
            flat.append(operand)
    return flat


def same(forms: list[BoundExpr]) -> BoundExpr:
    """One predicate by several forms of it; those of which nothing is known add nothing."""
    known: list[BoundExpr] = []
    for form in forms:
        if isinstance(form, Constant):
            return form
        if not isinstance(form, Unknown) and form not in known:
            known.append(form)
    return Same(tuple(known)) if len(known) > 1 else known[0] if known else forms[0]


def guarded(inner: BoundExpr, domain: BoundExpr, text: str) -> BoundExpr:
    """What `inner` says of rows where `domain` is true; of the other rows nothing is known.

    Args:
        inner: null where `domain` is null.
        domain: true of the values for which `inner` was proved.
        text: the predicate as it was written.
    """
    if domain == TRUE:
        return inner
    reason = "values outside those for which the function's rule was proved"
    elsewhere = Unknown(text, reason, UnknownKind.OUTSIDE)
    return Guarded((all_of([domain, inner]), all_of([negation(domain), elsewhere])), text)


def negation(operand: BoundExpr) -> BoundExpr:
    """NOT of a bound predicate; null stays null."""
    match operand:
        case Constant(value):
            return Constant(None if value is None else not value)
        case BoundNot(inner):
            return inner
        case _:
            return BoundNot(operand)


def null_test(operand: BoundExpr) -> BoundExpr:
    """`(operand) IS NULL` of a bound predicate; a test of the column's own NULLs where the two are the same."""
    match operand:
        case Constant(value):
            return Constant(value is None)
        case BoundNot(inner):
            return null_test(inner)
        case IsNullLeaf() | BoundIsNull():
            return FALSE
        case CompareLeaf(field) | NotNullLeaf(field) | PrefixLeaf(field) | RecurringLeaf(field):
            return IsNullLeaf(field)
        case InLeaf(field, _, False):
            return IsNullLeaf(field)
        case _:
            return BoundIsNull(operand)
