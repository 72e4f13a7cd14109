"""The registry of functions is consistent: each row can be reached, read and written wherever it claims to be."""

from __future__ import annotations

import string
from collections import Counter

import pyarrow as pa
import pytest

from pruner.expr.engines import SqlEngine
from pruner.expr.functions.function import Evaluation, Function, Preimage
from pruner.expr.functions.registry import FUNCTIONS, cast_of_column, cast_of_index, named
from pruner.expr.nodes import Call, Column

ROWS = list(FUNCTIONS.values())
EVALUATIONS = [(row, each) for row in ROWS for each in row.evaluations]
PREIMAGES = [(row, each) for row in ROWS for each in row.preimages]

BY_FORM = {
    "first day",
    "days later",
    "if",
    "is equal",
    "is less",
    "is at most",
    "is null",
    "not",
    "both",
    "either",
}
"""Rows that no name leads to: arguments of another row's types do, or a form of the language."""
MADE_OF_BYTES = {("trino", "hex"), ("trino", "bytes")}
"""Functions that Trino expresses as several, nested calls."""

STORED = frozenset(
    """
    format; year; quarter; month; day; hour; minute; second; microsecond of minute; millisecond of minute
    millisecond of second; day of year; day of week, Monday 1; day of week, Sunday 0; day of week, Sunday 1
    day of week, Monday 0; week; year of week; date; last day; first day; date_trunc; days between; days later; epoch
    epoch seconds; epoch milliseconds; epoch microseconds; upper; lower; length; substring; join; trim; ltrim; rtrim
    reverse; replace; translate; split_part; right; lpad; rpad; repeat; md5; sha256; hex; position; ascii; bytes; bits
    levenshtein; integer; date of text; json field; add; subtract; multiply; negate; abs; modulo; quotient
    whole quotient; double; text; whole; moment of seconds; coalesce; nullif; greatest; least; sign; floor; ceil; trunc
    round; sqrt; bit and; bit or; bit xor; bit count; chr; if; is equal; is less; is at most; is null; not; both; either
    """.replace("\n", ";").split(";")
)


def test_no_name_in_records_is_lost() -> None:
    """Definitions and records of indexes store these names."""
    stored = {name.strip() for name in STORED if name.strip()}
    assert stored <= {row.name for row in ROWS if row.evaluations}


def test_every_row_serves_something() -> None:
    assert [row.name for row in ROWS if not row.evaluations and not row.preimages] == []


def test_a_name_means_one_function_to_an_engine() -> None:
    for engine in SqlEngine:
        own = Counter(name for row in ROWS for name in row.own.get(engine, ()))
        assert [name for name, count in own.items() if count > 1] == []
    shared = Counter(name for row in ROWS for name in (row.form, *row.called) if name)
    assert [name for name, count in shared.items() if count > 1] == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_engine_that_was_compared_has_a_way_to_call_it(row: Function) -> None:
    compared = {engine for each in (*row.evaluations, *row.preimages) for engine in each.compared}
    for engine in compared:
        reached = row.form or row.called or row.own.get(engine) or row.casts or row.name in BY_FORM
        assert reached or (str(engine), row.name) in MADE_OF_BYTES, engine


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("row", "evaluation"), EVALUATIONS, ids=lambda each: getattr(each, "name", None))
def test_templates_have_a_place_for_each_argument(row: Function, evaluation: Evaluation) -> None:
    count = len(evaluation.accepts)
    for template in (evaluation.sql, evaluation.template, row.in_spark):
        places = {
            int(name) for _, name, _, _ in string.Formatter().parse(template) if name and name.isdigit()
        }
        assert not template or places == set(range(count)), template
    known = {"first", "last", "wide", "least", "greatest"}
    named_places = {name for _, name, _, _ in string.Formatter().parse(evaluation.domain) if name}
    assert {name for name in named_places if not name.isdigit()} <= known
    assert bool(evaluation.wide) == ("wide" in named_places)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("row", "evaluation"), EVALUATIONS, ids=lambda each: getattr(each, "name", None))
def test_rising_functions_say_for_which_arguments(row: Function, evaluation: Evaluation) -> None:
    assert bool(evaluation.rises) == bool(evaluation.in_order), row.name


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("row", "preimage"), PREIMAGES, ids=lambda each: getattr(each, "name", None))
def test_a_preimage_says_of_each_engine_whether_it_was_compared(row: Function, preimage: Preimage) -> None:
    assert set(preimage.compared) | set(preimage.missing) == set(SqlEngine), row.name
    assert not set(preimage.compared) & set(preimage.missing)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_canonical_form_reads_its_own_names(row: Function) -> None:
    call = Call(row.name, (Column(("c",)),))
    assert (named(call, None) == call) == bool(row.evaluations)


@pytest.mark.parametrize(
    ("source", "target", "of_column", "of_index"),
    [
        (pa.timestamp("us"), pa.date32(), "date", "date"),
        (pa.timestamp("us", "UTC"), pa.date32(), "date", "date"),
        (pa.int32(), pa.string(), "text", "text"),
        (pa.date32(), pa.string(), "cast date to text", None),
        (pa.string(), pa.date32(), None, "date of text"),
        (pa.string(), pa.int64(), None, "integer"),
        (pa.string(), pa.int32(), None, None),
        (pa.int64(), pa.int16(), "cast to an integer", None),
        (pa.int64(), pa.float64(), None, "double"),
        (pa.float64(), pa.int64(), None, "whole"),
        (pa.float64(), pa.int32(), None, None),
        (pa.date32(), pa.timestamp("us", "UTC"), "cast to instant", None),
        (pa.timestamp("ns"), pa.timestamp("us", "UTC"), "cast to instant", None),
        (pa.timestamp("us"), pa.timestamp("ns", "UTC"), None, None),
        (pa.timestamp("us", "UTC"), pa.timestamp("us"), "cast to wall clock", None),
        # Only the function asks for an index over it: other engines have no such cast.
        (pa.timestamp("us", "UTC"), pa.int64(), "epoch seconds", None),
        (pa.timestamp("us"), pa.int64(), None, None),
        (pa.string(), pa.float64(), None, None),
    ],
    ids=str,
)
def test_casts_that_are_functions(
    source: pa.DataType, target: pa.DataType, of_column: str | None, of_index: str | None
) -> None:
    found = (cast_of_column(source, target), cast_of_index(source, target))
    assert tuple(None if row is None else row.name for row in found) == (of_column, of_index)
