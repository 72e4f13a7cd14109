"""The table `tests/spec/trino_domains.txt`: the results of decoding Trino's predicates, and what is refused.

A line in the notation of `tests.support.trino.predicates`; after `=>` the expression form, where `?(…)` is opaque with
the reason; after `->` the same bound to the table.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from pruner.errors import PredicateError
from pruner.expr.binding.bind import bind
from pruner.expr.bound.predicates import BoundAnd, BoundExpr, BoundNot, BoundOr, InLeaf, Unknown
from pruner.expr.nodes import And, Compare, Expr, In, IsNull, Not, Opaque, Or
from pruner.expr.semantics import Semantics
from pruner.expr.show import describe, show
from pruner_trino import decode_request
from tests.support.cases.spec import Case, cases
from tests.support.trino.predicates import content
from tests.unit.expr.schemas import table_schema

TRINO = Semantics.of("trino")

STORED = pa.schema(
    [
        ("b", pa.bool_()),
        ("t", pa.int8()),
        ("n", pa.int32()),
        ("big", pa.int64()),
        ("single", pa.float32()),
        ("x", pa.float64()),
        ("price", pa.decimal128(9, 2)),
        ("wide", pa.decimal128(30, 6)),
        ("s", pa.string()),
        ("code", pa.string()),
        ("fixed", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("coarse", pa.timestamp("us")),
        ("seen", pa.timestamp("us", "UTC")),
        ("fine", pa.timestamp("ns")),
        ("at", pa.timestamp("us", "UTC")),
        ("address", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
        ("tags", pa.list_(pa.string())),
        ("year", pa.int64()),
        ("region", pa.string()),
        ("narrow", pa.int64()),
        ("unsigned", pa.uint32()),
        ("Mixed", pa.int32()),
    ]
)
COLUMNS = {
    "b": "boolean",
    "t": "tinyint",
    "n": "integer",
    "big": "bigint",
    "single": "real",
    "x": "double",
    "price": "decimal(9,2)",
    "wide": "decimal(30,6)",
    "s": "varchar",
    "code": "varchar(3)",
    "fixed": "char(3)",
    "raw": "varbinary",
    "day": "date",
    "ts": "timestamp(6)",
    "coarse": "timestamp(3)",
    "seen": "timestamp(6)",
    "fine": "timestamp(9)",
    "at": "timestamp(6) with time zone",
    "address": "row(city varchar, zip integer)",
    "address.zip": "integer",
    "tags": "array(varchar)",
    "year": "integer!partition",
    "region": "varchar!partition",
    "narrow": "integer",
    "unsigned": "bigint",
    "mixed": "integer",
    "gone": "integer",
    "$path": "varchar",
}


CASES = cases("trino_domains.txt")


def marked(node: Expr) -> Expr:
    """Opaque parts with their reasons."""
    match node:
        case Opaque(columns, text, reason):
            return replace(node, text=f"?({text}: {reason}; {', '.join(map(str, columns))})")
        case And(operands):
            return And(tuple(map(marked, operands)))
        case Or(operands):
            return Or(tuple(map(marked, operands)))
        case Not(operand):
            return Not(marked(operand))
        case Compare(operator, left, right):
            return Compare(operator, marked(left), marked(right))
        case IsNull(operand):
            return IsNull(marked(operand))
        case _:
            return node


def bound_marked(node: BoundExpr) -> BoundExpr:
    """Unknown parts with their reasons, and ranges instead of the condition on a function that implies them."""
    match node:
        case Unknown(text, reason):
            return Unknown(f"?({text}: {reason})", reason)
        case InLeaf():
            return replace(node, text="")
        case BoundAnd(operands):
            return BoundAnd(tuple(map(bound_marked, operands)))
        case BoundOr(operands):
            return BoundOr(tuple(map(bound_marked, operands)))
        case BoundNot(operand):
            return BoundNot(bound_marked(operand))
        case _:
            return node


def outcome(predicate: str) -> tuple[str, str]:
    decoded = decode_request(content(predicate, COLUMNS), TRINO)
    bound = bind(decoded, table_schema(STORED), TRINO, strict=False)
    return show(marked(decoded), 1000), describe(bound_marked(bound), 1000)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.place} {case.text[:60]}")
def test_a_predicate_of_trino_comes_to(case: Case) -> None:
    assert outcome(case.text) == (case.behind("=>"), case.behind("->"))


def test_the_table_has_its_rows() -> None:
    """A broken reader of the table must not pass as a passing table."""
    assert len(CASES) >= 80


def sent(**changes: Any) -> bytes:
    """Content of a request with some keys changed."""
    return json.dumps({**json.loads(content("$equal(n, integer:5)", COLUMNS)), **changes}).encode()


CONSTANT = {"node": "constant", "type": "boolean", "value": True}


@pytest.mark.parametrize(
    ("hostile", "reason"),
    [
        (b"", "not in Trino's form"),
        (b"[]", "not in Trino's form"),
        (b"\xff", "not in Trino's form"),
        (b'{"version": 1', "not in Trino's form"),
        (sent(version=2), "version"),
        (sent(more=1), "unknown field `more`"),
        (sent(connector="delta"), "connector"),
        (sent(expression={"node": "lambda"}), "lambda"),
        (sent(expression={**CONSTANT, "hint": 1}), "unknown field `hint`"),
        (
            sent(domains=[{"none": False, "columns": [{"column": "n", "values": {"kind": "all"}}]}]),
            "null_allowed",
        ),
        (sent(columns={}), "names the column 'n'"),
        (sent(columns={"n": {"path": [], "type": "integer", "kind": "regular"}}), "path"),
        (sent(columns={"n": {"path": ["n"], "type": "integer", "kind": "odd"}}), "kind"),
        (content("gone in [1, 2]", COLUMNS).replace(b'"column": "gone"', b'"column": "other"'), "'other'"),
        (
            b'{"expression":' + b'{"node":"call","function":"$not","type":"boolean","arguments":[' * 100_000,
            "nested",
        ),
        (b" " * (33 * 1024 * 1024), "longer than"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_content_of_another_shape_is_refused(hostile: bytes, reason: str) -> None:
    """As a whole: an unknown key may change the meaning of the others."""
    with pytest.raises(PredicateError, match=reason):
        decode_request(hostile, TRINO)


def test_the_predicate_of_another_engine_is_refused() -> None:
    """NaN would be ordered differently."""
    with pytest.raises(PredicateError, match="sent for spark"):
        decode_request(content("n all", COLUMNS), Semantics.of("spark"))


def test_deep_expressions_are_opaque_from_where_they_are_too_deep() -> None:
    """The enclosing predicate keeps its meaning, and a conjunct beside it still prunes."""
    deep = "$not(" * 150 + "b" + ")" * 150
    decoded = decode_request(content(f"$and($equal(n, integer:5), {deep})", COLUMNS), TRINO)
    assert isinstance(decoded, And)
    assert show(decoded.operands[0]) == "n = 5"
    assert "nested more than 100 deep" in describe(
        bound_marked(bind(decoded, table_schema(STORED), TRINO, strict=False)), 2000
    )


@pytest.mark.slow
def test_large_expressions_are_opaque() -> None:
    """A bound on work: time to decode is linear in the size."""
    options = ", ".join(["lower(s)->varchar"] * 60_000)
    decoded = decode_request(content(f"$in(s, $array({options})->array)", COLUMNS), TRINO)
    assert isinstance(decoded, Opaque)
    assert decoded.reason == "it has more than 100,000 parts"


@pytest.mark.slow
def test_a_domain_of_many_values_is_one_list() -> None:
    """Twenty times the most that the plugin sends."""
    points = " ".join(f"[{2 * number}, {2 * number}]" for number in range(20_000))
    decoded = decode_request(content(f"n in {points}", COLUMNS), TRINO)
    assert isinstance(decoded, In)
    assert len(decoded.options) == 20_000


FIRST_AT_ONCE = """
import sys, threading
from pruner_trino.messages import read_content

sys.setswitchinterval(1e-6)
content, barrier = sys.stdin.buffer.read(), threading.Barrier(24)
threads = [threading.Thread(target=lambda: (barrier.wait(), read_content(content))) for _ in range(24)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.processes
@pytest.mark.parametrize("_", range(4))
def test_the_first_requests_may_come_at_once(_: int) -> None:
    """msgspec prepares a type at its first use, and two threads that do so at once crash the process."""
    sent = content("$and($equal(n, integer:5), $is_null(n))", {"n": "integer"})
    run = subprocess.run([sys.executable, "-c", FIRST_AT_ONCE], input=sent, capture_output=True, check=False)
    assert (run.returncode, run.stderr) == (0, b"")
