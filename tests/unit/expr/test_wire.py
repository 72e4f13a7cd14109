"""The expression form as JSON: it survives a round trip, and errors are refused by name."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.errors import PredicateError
from pruner.expr import nodes
from pruner.expr.values import Interval
from pruner.expr.wire.nodes import Node, expression_of, node_of
from pruner.limits import PREDICATE_DEPTH

_INTEGERS = st.integers(-(2**80), 2**80)
_INTERVALS = st.builds(
    Interval,
    st.integers(-999_999, 999_999),
    st.integers(-99_999_999, 99_999_999),
    st.integers(-(2**62), 2**62),
)
_LITERALS = st.one_of(
    _INTERVALS.map(lambda value: nodes.Literal(value, pa.month_day_nano_interval())),
    st.builds(nodes.Literal, st.none(), st.sampled_from([pa.null(), pa.int32(), pa.string()])),
    st.builds(nodes.Literal, st.booleans(), st.just(pa.bool_())),
    st.builds(nodes.Literal, _INTEGERS, st.sampled_from([pa.int8(), pa.int64(), pa.uint64()])),
    st.builds(nodes.Literal, st.floats(allow_nan=False), st.sampled_from([pa.float32(), pa.float64()])),
    st.builds(
        nodes.Literal, st.decimals(allow_nan=False, allow_infinity=False), st.just(pa.decimal128(38, 4))
    ),
    st.builds(nodes.Literal, st.text(), st.sampled_from([pa.string(), pa.large_string()])),
    st.builds(nodes.Literal, st.binary(), st.sampled_from([pa.binary(), pa.large_binary(), pa.binary(3)])),
    st.builds(nodes.Literal, st.dates() | st.integers(-(2**40), 2**40), st.just(pa.date32())),
    st.builds(
        nodes.Literal,
        _INTEGERS,
        st.sampled_from(
            [pa.timestamp("us"), pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("s", "+02:00")]
        ),
    ),
)
_COLUMNS = st.builds(nodes.Column, st.lists(st.text(), min_size=1, max_size=3).map(tuple))


def _larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(nodes.Call, st.text(), several | st.just(()), st.none() | st.just(pa.int64())),
        st.builds(nodes.Compare, st.sampled_from(nodes.Operator), inner, inner),
        st.builds(nodes.IsNull, inner),
        st.builds(nodes.Like, inner, st.text(), st.none() | st.text(max_size=1)),
        st.builds(nodes.In, inner, st.lists(_INTEGERS.map(_long), max_size=3).map(tuple)),
        several.map(nodes.conjunction),
        several.map(nodes.disjunction),
        st.builds(nodes.Not, inner),
    )


def _long(value: int) -> nodes.Literal:
    return nodes.Literal(value, pa.int64())


_EXPRESSIONS = st.recursive(
    _LITERALS
    | _COLUMNS
    | st.builds(nodes.Constant, st.none() | st.booleans())
    | st.builds(nodes.Opaque, st.lists(_COLUMNS).map(tuple), st.text(), st.text()),
    _larger,
)


def _there_and_back(expression: nodes.Expr) -> nodes.Expr:
    return expression_of(msgspec.json.decode(msgspec.json.encode(node_of(expression)), type=Node))


@given(_EXPRESSIONS)
def test_what_goes_out_comes_back(expression: nodes.Expr) -> None:
    """Except for flattened junctions, which mean the same, the JSON loses nothing."""
    once = _there_and_back(expression)
    assert _there_and_back(once) == once
    assert node_of(once) == node_of(_there_and_back(expression))


@given(_LITERALS)
def test_constants_keep_value_and_type(literal: nodes.Literal) -> None:
    """Not one bit of a constant changes: -0.0 stays -0.0, 1.0 stays a double."""
    back = _there_and_back(literal)
    assert isinstance(back, nodes.Literal)
    assert (repr(back.value), back.type) == (repr(literal.value), literal.type)


def test_not_a_number_is_a_text() -> None:
    """JSON has no NaN."""
    back = _there_and_back(nodes.Literal(float("nan"), pa.float64()))
    assert isinstance(back, nodes.Literal)
    assert repr(back.value) == "nan"


@pytest.mark.parametrize(
    ("json", "sentence"),
    [
        ('{"node":"literal","type":"int64","value":"7"}', "is not a value of type int64"),
        ('{"node":"literal","type":"int64","value":true}', "is not a value of type int64"),
        ('{"node":"literal","type":"bool","value":1}', "is not a value of type bool"),
        ('{"node":"literal","type":"double","value":"abc"}', "is not a value of type double"),
        ('{"node":"literal","type":"decimal128(5, 2)","value":"NaN"}', "is not a value of type decimal128"),
        ('{"node":"literal","type":"decimal128(99, 2)","value":"1"}', "is not a literal type"),
        ('{"node":"literal","type":"date32[day]","value":"2024-02-30"}', "is not a value of type date32"),
        ('{"node":"literal","type":"binary","value":"?"}', "is not a value of type binary"),
        ('{"node":"literal","type":"struct<a: int64>","value":1}', "is not a literal type"),
        ('{"node":"compare","operator":"~","left":{"node":"column","path":["a"]},"right":{"node":"column","path":["b"]}}',
         "the operator '~' is not one of"),
        ('{"node":"column","path":[]}', "empty path"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_name(json: str, sentence: str) -> None:
    """One sentence names the faulty value, type or operator."""
    with pytest.raises(PredicateError, match=sentence):
        expression_of(msgspec.json.decode(json, type=Node))


def test_nesting_is_bounded() -> None:
    """A tree that is deeper than the limit for predicates is refused before anything recurses over it."""
    deep: nodes.Expr = nodes.Constant(True)
    for _ in range(PREDICATE_DEPTH + 1):
        deep = nodes.Not(deep)
    with pytest.raises(PredicateError, match="nested deeper"):
        expression_of(node_of(deep))


def test_dates_and_decimals_as_people_write_them() -> None:
    """The grammar of docs/http.md."""
    assert node_of(nodes.Literal(datetime.date(2024, 2, 29), pa.date32())).value == "2024-02-29"  # type: ignore[union-attr]
    assert node_of(nodes.Literal(Decimal("1.50"), pa.decimal128(5, 2))).value == "1.50"  # type: ignore[union-attr]
