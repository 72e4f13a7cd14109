"""The nodes and columns of an expression, and conditions on unknown columns."""

from __future__ import annotations

import pyarrow as pa

from pruner.expr.nodes import (
    NULL,
    And,
    Call,
    Column,
    Compare,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Opaque,
    Operator,
    Or,
)
from pruner.expr.walk import columns_of, nodes_of, without_columns

A, B, C, D, E = (Column((name,)) for name in "abcde")
ONE = Literal(1, pa.int64())
CALL = Call("add", (B, ONE))
COMPARED = Compare(Operator.LT, A, CALL)
WHOLE = And((COMPARED, Or((Not(In(C, (ONE,))), IsNull(D), Like(E, "x%"), Opaque((A, D), "f(a, d)"), NULL))))


def test_every_node_comes_once_before_those_below_it() -> None:
    nodes = list(nodes_of(WHOLE))
    assert len(nodes) == 16
    assert nodes[:6] == [WHOLE, COMPARED, A, CALL, B, ONE]
    assert [node for node in nodes if isinstance(node, Column)] == [A, B, C, D, E]


def test_a_deep_expression_is_walked() -> None:
    deep = COMPARED
    for _ in range(5_000):
        deep = Not(deep)
    assert sum(1 for _ in nodes_of(deep)) == 5_005


def test_columns_are_named_once_and_those_of_opaque_parts_as_well() -> None:
    assert columns_of(WHOLE) == (A, B, C, D, E)
    assert columns_of(Opaque((D, A), "f(d, a)")) == (D, A)


def test_conditions_on_unknown_columns_are_opaque_and_the_logic_stays() -> None:
    found = without_columns(WHOLE, lambda column: column == B, "why")
    assert found == And((Opaque((A, B), "a < add(b, 1)", "why"), WHOLE.operands[1]))
    assert without_columns(Not(IsNull(D)), lambda column: column == D, "why") == Not(
        Opaque((D,), "d IS NULL", "why")
    )
    assert without_columns(WHOLE, lambda _: False, "why") == WHOLE
