"""The tables `tests/spec/expr_*.txt`: predicate text and its bound form, in each dialect.

A line `== duckdb` (or `== duckdb Europe/Berlin`, with the session's zone) selects whose rules apply. Pairs follow: a
predicate, and after `=>` its bound form, where `?(…)` is an unknown part with the reason, or `error: …`.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from pruner.errors import PrunerError
from pruner.expr.binding.bind import bind
from pruner.expr.bound.predicates import BoundAnd, BoundExpr, BoundNot, BoundOr, Guarded, InLeaf, Unknown
from pruner.expr.semantics import Semantics
from pruner.expr.show import describe
from pruner.expr.text.sql import parse_predicate
from tests.support.cases.spec import Case, cases, files
from tests.unit.expr.schemas import table_schema

COLUMNS = pa.schema(
    [
        ("carrier", pa.string()),
        ("delay", pa.int32()),
        ("big", pa.int64()),
        ("small", pa.int8()),
        ("ratio", pa.float64()),
        ("single", pa.float32()),
        ("price", pa.decimal128(9, 2)),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("seen", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("address", pa.struct([("zip", pa.int32()), ("Street Name", pa.string())])),
        ("id", pa.binary(16)),
        ("at", pa.time64("us")),
        ("a.b", pa.int32()),
        ('say "hi"', pa.int32()),
        ("back`tick", pa.int32()),
        ("Größe", pa.int32()),
        ("価格", pa.int32()),
        ("cost$", pa.int32()),
        ("two words", pa.int32()),
        ("Upper", pa.int32()),
        ("upper", pa.int32()),
    ]
)


def outcome(rules: str, predicate: str) -> str:
    engine, _, zone = rules.partition(" ")
    default = Semantics.of(engine)
    semantics = Semantics(engine=default.engine, zone=zone or None)
    try:
        return describe(marked(bind(parse_predicate(predicate, semantics), table_schema(COLUMNS), semantics)))
    except PrunerError as error:
        return f"error: {error}"


def marked(bound: BoundExpr) -> BoundExpr:
    match bound:
        case Unknown(_, reason):
            return Unknown(f"?({reason})", reason)
        case Guarded((BoundAnd((*domain, inner)), _)):
            shown = describe(marked(BoundAnd(tuple(domain)) if len(domain) > 1 else domain[0]))
            return Unknown(f"{describe(marked(inner))} where {shown}", "")
        case BoundAnd(operands):
            return BoundAnd(tuple(marked(operand) for operand in operands))
        case BoundOr(operands):
            return BoundOr(tuple(marked(operand) for operand in operands))
        case BoundNot(operand):
            return BoundNot(marked(operand))
        case InLeaf():
            return replace(bound, text="")  # the table has the ranges themselves
        case _:
            return bound


CASES = [case for file in files("expr_*.txt") for case in cases(file)]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.place)
def test_binding(case: Case) -> None:
    assert outcome(case.part, case.text) == case.behind("=>")


def test_what_a_function_says_of_a_column_is_shown_as_it_was_written() -> None:
    """Not as ranges, whose ends are not readable text."""
    semantics = Semantics.of("duckdb")
    written = "lower(carrier) = 'skid' AND NOT lower(carrier) LIKE 'k%'"
    bound = bind(parse_predicate(written, semantics), table_schema(COLUMNS), semantics)
    shown = describe(bound)
    assert shown == (
        "lower(carrier) = 'skid' (2 ranges of carrier) AND NOT (lower(carrier) LIKE 'k%' (1 range of carrier))"
    )
    assert shown.isprintable()
    # A list of values stays a list.
    listed = bind(parse_predicate("delay IN (1, 2)", semantics), table_schema(COLUMNS), semantics)
    assert describe(listed) == "delay IN (1, 2)"


def test_the_tables_are_read() -> None:
    assert len(CASES) > 200
    assert {case.part.partition(" ")[0] for case in CASES} == {"duckdb", "spark", "trino"}
