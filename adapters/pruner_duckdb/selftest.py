"""Does the running DuckDB write plans in the form that `gets` and `decode` were made for? Asked once per
process.
"""

from __future__ import annotations

import warnings

import duckdb
import pyarrow as pa

from pruner.expr.nodes import And, Column, Compare, Expr, In, IsNull, Like, Literal, Not, Operator, Or
from pruner_duckdb.gets import UnknownPlanFormat, scan_predicates
from pruner_duckdb.shadow import NotPlanned, Relation, Shadow

_RELATION = Relation((("x", "INTEGER"), ("a", "INTEGER"), ("b", "VARCHAR"), ("c", "TIMESTAMP")))
_A, _B, _C = Column(("a",)), Column(("b",)), Column(("c",))


def _int(value: int) -> Literal:
    return Literal(value, pa.int32())


_CASES: tuple[tuple[str, Expr], ...] = (
    ("SELECT x FROM {} WHERE a > 7", Compare(Operator.GT, _A, _int(7))),
    ("SELECT x FROM {} WHERE c IS NOT NULL", Not(IsNull(_C))),
    (
        "SELECT b FROM {} WHERE a = 1 OR b = 'q'",
        Or((Compare(Operator.EQ, _A, _int(1)), Compare(Operator.EQ, _B, Literal("q", pa.string())))),
    ),
    ("SELECT x FROM {} WHERE a IN (1, 5, 9)", In(_A, (_int(1), _int(5), _int(9)))),
    ("SELECT x FROM {} WHERE b LIKE 'q_%'", Like(_B, "q_%")),
    (
        "SELECT x FROM {} WHERE c >= TIMESTAMP '1970-01-01 00:00:01'",
        Compare(Operator.GE, _C, Literal(1_000_000, pa.timestamp("us"))),
    ),
)

_answers: dict[str, str | None] = {}


def plan_format_problem(shadow: Shadow) -> str | None:
    """Return why plans of the running DuckDB cannot be used; None where they can. Warns once if they
    cannot.
    """
    version = duckdb.__version__
    if version not in _answers:
        _answers[version] = _find_problem(shadow)
        if _answers[version] is not None:
            warnings.warn(
                f"pruner: {_answers[version]}; statements run unpruned", RuntimeWarning, stacklevel=2
            )
    return _answers[version]


def _find_problem(shadow: Shadow) -> str | None:
    try:
        (table,) = shadow.table_names([_RELATION])
        for sql, expected in _CASES:
            plans = shadow.optimized_plans(sql.format(table), "UTC", keep_form=True)
            found = scan_predicates(plans).get(table)
            if found is None or not _holds(found, expected):
                return f"plans of DuckDB {duckdb.__version__} are not written as expected ({sql.format('t')})"
    except (NotPlanned, UnknownPlanFormat) as error:
        return f"plans of DuckDB {duckdb.__version__} cannot be read ({error})"
    return None


def _holds(found: Expr, expected: Expr) -> bool:
    return found == expected or (isinstance(found, And) and expected in found.operands)
