"""The algebra of verdicts, against a readable table and against brute force over rows."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.expr.bound.predicates import (
    BoundAnd,
    BoundExpr,
    BoundIsNull,
    BoundNot,
    BoundOr,
    IsNullLeaf,
    Unknown,
)
from pruner.expr.nodes import FALSE, NULL, TRUE, Constant
from pruner.schema import Field
from pruner.verdict import Outcome, possible
from tests.support.cases import spec

LEAVES = {name: IsNullLeaf(Field((name,), pa.bool_())) for name in "abc"}
LETTERS = {"t": Outcome.TRUE, "f": Outcome.FALSE, "n": Outcome.NULL}


def _parse(text: str) -> BoundExpr:
    """Python's own grammar has the same precedence for and, or, not."""
    names = {"a": LEAVES["a"], "b": LEAVES["b"], "true": TRUE, "false": FALSE, "null": NULL}
    names["unknown"] = Unknown("unknown", "a test")

    def parse_or(tokens: list[str]) -> BoundExpr:
        parts = [parse_and(tokens)]
        while tokens and tokens[0] == "or":
            tokens.pop(0)
            parts.append(parse_and(tokens))
        return parts[0] if len(parts) == 1 else BoundOr(tuple(parts))

    def parse_and(tokens: list[str]) -> BoundExpr:
        parts = [parse_not(tokens)]
        while tokens and tokens[0] == "and":
            tokens.pop(0)
            parts.append(parse_not(tokens))
        return parts[0] if len(parts) == 1 else BoundAnd(tuple(parts))

    def parse_not(tokens: list[str]) -> BoundExpr:
        token = tokens.pop(0)
        if token == "not":
            return BoundNot(parse_not(tokens))
        if token == "(":
            inside = parse_or(tokens)
            assert tokens.pop(0) == ")"
            return tested(inside, tokens)
        return names[token]

    def tested(operand: BoundExpr, tokens: list[str]) -> BoundExpr:
        if tokens[:1] != ["isnull"]:
            return operand
        tokens.pop(0)
        return BoundIsNull(operand)

    tokens = re.findall(r"[()]|\w+", text)
    parsed = parse_or(tokens)
    assert not tokens
    return parsed


def _bits(predicate: BoundExpr, can: dict[str, str]) -> str:
    def leaf_verdict(leaf: object, outcome: Outcome) -> np.ndarray:
        name = next(name for name, known in LEAVES.items() if known is leaf)
        letters = "tfn" if can[name] == "?" else can[name]
        return np.array([outcome in [LETTERS[letter] for letter in letters if letter != "-"]])

    answer = "".join(
        letter for letter, outcome in LETTERS.items() if possible(predicate, outcome, leaf_verdict, 1)[0]
    )
    return answer or "-"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("row", spec.rows("verdict.txt", 4), ids=lambda row: row.place)
def test_spec(row: spec.Row) -> None:
    a, b, predicate, expected = row.cells
    assert _bits(_parse(predicate), {"a": a, "b": b}) == expected


def _evaluate(predicate: BoundExpr, row: dict[str, bool | None]) -> bool | None:
    """Kleene's logic on one row, straight from its definition."""
    match predicate:
        case BoundAnd(operands):
            values = [_evaluate(operand, row) for operand in operands]
            return False if False in values else None if None in values else True
        case BoundOr(operands):
            values = [_evaluate(operand, row) for operand in operands]
            return True if True in values else None if None in values else False
        case BoundNot(operand):
            value = _evaluate(operand, row)
            return None if value is None else not value
        case BoundIsNull(operand):
            return _evaluate(operand, row) is None
        case Constant(value):
            return value
        case IsNullLeaf(field):
            return row[field.name]
        case _:
            raise AssertionError(predicate)


PREDICATES = st.recursive(
    st.sampled_from([*LEAVES.values(), TRUE, FALSE, NULL]),
    lambda inner: st.one_of(
        st.builds(BoundNot, inner),
        st.builds(BoundIsNull, inner),
        st.builds(BoundAnd, st.lists(inner, min_size=2, max_size=4).map(tuple)),
        st.builds(BoundOr, st.lists(inner, min_size=2, max_size=4).map(tuple)),
    ),
    max_leaves=12,
)
ROWS = st.lists(
    st.fixed_dictionaries({name: st.sampled_from([True, False, None]) for name in LEAVES}), max_size=4
)
OUTCOME_OF = {True: Outcome.TRUE, False: Outcome.FALSE, None: Outcome.NULL}


@given(PREDICATES, st.lists(ROWS, min_size=1, max_size=5))
def test_no_outcome_that_occurs_is_excluded(
    predicate: BoundExpr, slices: list[list[dict[str, bool | None]]]
) -> None:
    def leaf_verdict(leaf: object, outcome: Outcome) -> np.ndarray:
        name = next(name for name, known in LEAVES.items() if known is leaf)
        return np.array([any(OUTCOME_OF[row[name]] is outcome for row in rows) for rows in slices])

    for outcome in Outcome:
        answer = possible(predicate, outcome, leaf_verdict, len(slices))
        occurs = [any(OUTCOME_OF[_evaluate(predicate, row)] is outcome for row in rows) for rows in slices]
        assert all(answer[occurs]), (outcome, answer, occurs)
        for position, rows in enumerate(slices):
            if len(rows) == 1:  # with one row the leaves' bits are exact, so the result must be, too
                assert answer[position] == occurs[position]
