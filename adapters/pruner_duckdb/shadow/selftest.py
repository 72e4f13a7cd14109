"""Checks whether the running DuckDB writes parse trees and plans in the form that this package was made for.

The versions below run the whole test suite. Any other version is checked when the package is imported; if an answer is
not as expected, nothing is pruned.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import duckdb
import pyarrow as pa

from pruner.expr.nodes import (
    And,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Opaque,
    Operator,
    Or,
)
from pruner_duckdb.decode.gets import UnknownPlanFormat, scan_predicates
from pruner_duckdb.shadow.shadow import NotPlanned, Relation, Shadow
from pruner_duckdb.sql.select import NotSelect, Span

TESTED_VERSIONS = frozenset(["1.5.6", "2.0.0", "2.0.1"])
"""Versions that pass all tests (`make test` and `make check-matrix`)."""

_RELATION = Relation((("x", "INTEGER"), ("a", "INTEGER"), ("b", "VARCHAR"), ("c", "TIMESTAMP")))
_A, _B, _C = Column(("a",)), Column(("b",)), Column(("c",))


def _int(value: int) -> Literal:
    return Literal(value, pa.int32())


_PLANS: tuple[tuple[str, Expr], ...] = (
    ("SELECT x FROM {} WHERE a > 7", Compare(Operator.GT, _A, _int(7))),
    ("SELECT x FROM {} WHERE c IS NOT NULL", Not(IsNull(_C))),
    (
        "SELECT b FROM {} WHERE a = 1 OR b = 'q'",
        Or((Compare(Operator.EQ, _A, _int(1)), Compare(Operator.EQ, _B, Literal("q", pa.string())))),
    ),
    ("SELECT c FROM {} WHERE b IS NULL OR a <> 3", Or((IsNull(_B), Compare(Operator.NE, _A, _int(3))))),
    ("SELECT x FROM {} WHERE a IN (1, 5, 9)", In(_A, (_int(1), _int(5), _int(9)))),
    ("SELECT x FROM {} WHERE b LIKE 'q_%'", Like(_B, "q_%")),
    (
        "SELECT x FROM {} WHERE c >= TIMESTAMP '1970-01-01 00:00:01'",
        Compare(Operator.GE, _C, Literal(1_000_000, pa.timestamp("us"))),
    ),
    (
        "WITH w AS (SELECT * FROM {}) SELECT 1 FROM w p, w q WHERE p.a < 1 AND q.a > 2",
        Or((Compare(Operator.LT, _A, _int(1)), Compare(Operator.GT, _A, _int(2)))),
    ),
)
"""Statements, each with an expression that must be among the conjuncts of its table's predicate."""

_UNFOLDED = "SELECT x FROM {} WHERE (CASE WHEN random() < 2 THEN 5 END) = 5"
"""A condition that must neither be evaluated while planning nor be understood."""

_PARSED = "WITH w AS (SELECT x FROM s.t AS u WHERE f(a) < ?) SELECT w.x FROM w, g(1) h WHERE d > current_date"
_PARTS = (["s.t", "s.t AS u", "g(1) h", "g(1) h"], ["f(a)", "current_date"], ["?"])
"""Its tables (the name and the whole reference of each), what may depend on the session, and its parameters."""

_answers: WeakKeyDictionary[Shadow, str | None] = WeakKeyDictionary()


def plan_format_problem(shadow: Shadow) -> str | None:
    """Return why the output of the running DuckDB cannot be used; None if it can.

    Warns about a problem the first time.
    """
    if duckdb.__version__ in TESTED_VERSIONS:
        return None
    if shadow not in _answers:
        _answers[shadow] = problem = find_problem(shadow)
        if problem is not None:
            warnings.warn(f"pruner: {problem}; statements run unpruned", RuntimeWarning, stacklevel=2)
    return _answers[shadow]


def find_problem(shadow: Shadow) -> str | None:
    """Check that parse trees and plans are understood correctly; return the first problem, None if there is none."""
    version = f"DuckDB {duckdb.__version__}"
    try:
        if not _parses(shadow):
            return f"parse trees of {version} are not written as expected"
        (table,) = shadow.table_names([_RELATION])
        for keep_form in (True, False):
            for sql, expected in _PLANS:
                if expected not in _conjuncts(shadow, sql, table, keep_form=keep_form):
                    return f"plans of {version} are not written as expected ({sql.format('t')})"
            if not any(map(_is_opaque, _conjuncts(shadow, _UNFOLDED, table, keep_form=keep_form))):
                return f"{version} evaluates while planning what it must not"
    except (NotPlanned, NotSelect, UnknownPlanFormat) as error:
        return f"plans of {version} cannot be read ({error})"
    except Exception as error:  # even an unrelated format must not keep the package from being imported
        return f"plans of {version} cannot be read ({type(error).__name__}: {error})"
    return None


def _conjuncts(shadow: Shadow, sql: str, table: str, *, keep_form: bool) -> Sequence[Expr]:
    plans = shadow.optimized_plans(sql.format(table), "UTC", keep_form=keep_form)
    predicate = scan_predicates(plans)[table]
    return predicate.operands if isinstance(predicate, And) else (predicate,)


def _is_opaque(expression: Expr) -> bool:
    return isinstance(expression, Opaque) or (
        isinstance(expression, Compare) and isinstance(expression.left, Opaque)
    )


def _parses(shadow: Shadow) -> bool:
    def shown(spans: Sequence[Span | None]) -> list[str]:
        return [_PARSED[span.start : span.stop] for span in spans if span is not None]

    select = shadow.parse(_PARSED)
    tables = [span for reference in select.references for span in (reference.name, reference.whole)]
    depending = [use.span for use in sorted(select.functions, key=lambda use: use.name, reverse=True)]
    parsed = (shown(tables), shown(depending), shown([parameter.span for parameter in select.parameters]))
    return parsed == _PARTS and not select.plain and shadow.parse("SELECT a FROM t WHERE a > 5").plain
