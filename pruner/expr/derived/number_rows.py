"""Rows of functions of numbers: see `pruner.expr.derived.function`."""

from __future__ import annotations

from typing import Final

from pruner.expr.derived import rising
from pruner.expr.derived.function import (
    ANYWHERE,
    BIGINT,
    BOTH_KNOWN,
    DOUBLE,
    DUCKDB,
    FITS,
    FITTING,
    SPARK,
    TRINO,
    Function,
    Rises,
    everywhere,
    is_column_double,
    is_column_integer,
    is_constant_integer,
    is_count,
    is_double,
    is_integer,
)


def _arithmetic(name: str, sign: str, rises: Rises, in_order: str) -> tuple[Function, Function]:
    wide = f"({{0}}::HUGEINT {sign} {{1}}::HUGEINT)"
    compared = everywhere(f"a {sign} b")
    return (
        Function(
            name=name,
            accepts=(is_integer, is_integer),
            result=BIGINT,
            sql=f"{wide}::BIGINT",
            written=f"({{0}} {sign} {{1}})",
            wide=wide,
            domain=FITTING,
            values=f"integers; {FITS}",
            compared=compared,
            rises=rises,
            in_order=in_order,
        ),
        Function(
            name=name,
            accepts=(is_double, is_double),
            result=DOUBLE,
            sql=f"({{0}} {sign} {{1}})",
            domain=ANYWHERE,
            values="double",
            compared=compared,
        ),
    )


def _of_double(name: str, domain: str, values: str, **compared: str) -> Function:
    """A function of a double that comes to one."""
    return Function(
        name=name,
        accepts=(is_column_double,),
        result=DOUBLE,
        sql=f"{name}({{0}})",
        domain=domain,
        values=values,
        compared=compared,
    )


def _of_two(name: str) -> Function:
    """The greater or smaller of two integers; some engines leave NULL out, some come to NULL."""
    return Function(
        name=name,
        accepts=(is_column_integer, is_integer),
        result=BIGINT,
        sql=f"{name}({{0}}::BIGINT, {{1}}::BIGINT)",
        written=f"{name}({{0}}, {{1}})",
        domain=BOTH_KNOWN,
        values="integers, none of them NULL",
        compared=everywhere(f"{name}(a, b)"),
    )


def _about_null(name: str) -> Function:
    return Function(
        name=name,
        accepts=(is_column_integer, is_constant_integer),
        result=BIGINT,
        sql=f"{name}({{0}}::BIGINT, {{1}}::BIGINT)",
        written=f"{name}({{0}}, {{1}})",
        domain=ANYWHERE,
        values="integers and a constant",
        compared=everywhere(f"{name}(a, 0)"),
    )


NUMBER_ROWS: Final = (
    Function(
        name="double",
        accepts=(is_integer,),
        result=DOUBLE,
        sql="({0}::DOUBLE)",
        domain=ANYWHERE,
        values="integers",
        compared={DUCKDB: "a::DOUBLE", SPARK: "double(a)", TRINO: "CAST(a AS double)"},
    ),
    *_arithmetic("add", "+", rising.added, "with a constant"),
    *_arithmetic("subtract", "-", rising.subtracted, "less a constant"),
    *_arithmetic("multiply", "*", rising.multiplied, "by a constant from 1 on"),
    Function(
        name="modulo",
        accepts=(is_column_integer, is_count),
        result=BIGINT,
        sql="({0} % {1})::BIGINT",
        written="({0} % {1})",
        domain=ANYWHERE,
        values="integers; a constant from 1 on",
        compared=everywhere("a % 8"),
    ),
    Function(
        name="negate",
        accepts=(is_column_integer,),
        result=BIGINT,
        sql="(-{0}::HUGEINT)::BIGINT",
        written="(-{0})",
        wide="(-{0}::HUGEINT)",
        domain=FITTING,
        values=f"integers; {FITS}",
        compared=everywhere("-a"),
    ),
    Function(
        name="abs",
        accepts=(is_column_integer,),
        result=BIGINT,
        sql="abs({0}::HUGEINT)::BIGINT",
        written="abs({0})",
        wide="abs({0}::HUGEINT)",
        domain=FITTING,
        values=f"integers; {FITS}",
        compared=everywhere("abs(a)"),
    ),
    Function(
        name="sign",
        accepts=(is_column_integer,),
        result=BIGINT,
        sql="sign({0})::BIGINT",
        written="sign({0})",
        domain=ANYWHERE,
        values="integers",
        compared={DUCKDB: "sign(a)", TRINO: "sign(a)"},
    ),
    _of_two("greatest"),
    _of_two("least"),
    _about_null("coalesce"),
    _about_null("nullif"),
    _of_double("floor", ANYWHERE, "double", duckdb="floor(x)", trino="floor(x)"),
    _of_double("ceil", ANYWHERE, "double", duckdb="ceil(x)", trino="ceil(x)"),
    _of_double("trunc", ANYWHERE, "double", duckdb="trunc(x)", trino="truncate(x)"),
    _of_double("sqrt", "{0} >= 0", "double from 0 on", **everywhere("sqrt(x)")),
)
