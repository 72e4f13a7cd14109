"""Rows of CASE and of the conditions in it: see `pruner.expr.functions.function`.

A CASE is one row nested in another: `if(a, x, if(b, y, z))`. Without ELSE it has two arguments. Some engines leave
NULL out of a condition, so none of these is certain to be NULL where every column in it is.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pruner.expr.functions.function import (
    ANYWHERE,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    VARCHAR,
    Accepts,
    Evaluation,
    Function,
    Result,
    everywhere,
    is_any_text,
    is_column_integer,
    is_condition,
    is_double,
    is_integer,
    is_text,
)


class _Kind(NamedTuple):
    """The kind of a CASE's values, with an example spelling without and with ELSE."""

    accepts: Accepts
    result: Result
    values: str
    begins: str
    ends: str


_KINDS: Final = (
    _Kind(is_any_text, VARCHAR, "text", "CASE WHEN a > 0 THEN 'x'", " ELSE 'y' END, if(a > 0, 'x', 'y')"),
    _Kind(is_integer, BIGINT, "integers", "CASE WHEN s = 'x' THEN 1", " ELSE a END"),
    _Kind(is_double, DOUBLE, "double", "CASE WHEN a > 0 THEN x", " ELSE 0e0 END"),
)


def _case(kind: _Kind, *, has_else: bool) -> Evaluation:
    accepts = (is_condition, kind.accepts, kind.accepts) if has_else else (is_condition, kind.accepts)
    return Evaluation(
        accepts=accepts,
        result=kind.result,
        sql=f"(CASE WHEN {{0}} THEN {{1}}{' ELSE {2}' if has_else else ''} END)",
        domain=ANYWHERE,
        values=kind.values if has_else else f"{kind.values}, without ELSE",
        compared=everywhere(kind.begins + (kind.ends if has_else else " END")),
        of_null=True,
    )


def _condition(name: str, sql: str, *of: tuple[str, str, tuple[Accepts, ...]]) -> Function:
    """A condition, with each kind of its arguments: in words, an example spelling, and checks of the arguments."""
    return Function(
        name=name,
        evaluations=tuple(
            Evaluation(
                accepts=accepts,
                result=BOOLEAN,
                sql=sql,
                domain=ANYWHERE,
                values=f"{values}; in a CASE",
                compared=everywhere(example),
                of_null=True,
            )
            for values, example, accepts in of
        ),
        in_spark=sql,
    )


def _comparison(name: str, sign: str) -> Function:
    return _condition(
        name,
        f"({{0}} {sign} {{1}})",
        ("integers", f"a {sign} 1", (is_integer, is_integer)),
        ("text", f"s {sign} 'x'", (is_any_text, is_any_text)),
    )


CONDITION_ROWS: Final = (
    Function(
        name="if",
        evaluations=tuple(_case(kind, has_else=choice) for choice in (True, False) for kind in _KINDS),
    ),
    _comparison("is equal", "="),
    _comparison("is less", "<"),
    _comparison("is at most", "<="),
    _condition(
        "is null",
        "({0} IS NULL)",
        ("integers", "a IS NULL", (is_column_integer,)),
        ("text", "s IS NULL", (is_text,)),
    ),
    _condition("not", "(NOT {0})", ("conditions", "NOT a = 1", (is_condition,))),
    _condition("both", "({0} AND {1})", ("conditions", "a = 1 AND b = 1", (is_condition, is_condition))),
    _condition("either", "({0} OR {1})", ("conditions", "a = 1 OR b = 1", (is_condition, is_condition))),
)
