"""Rows of functions of numbers: see `pruner.expr.functions.function`."""

from __future__ import annotations

from typing import Final

from pruner.expr.functions import rising
from pruner.expr.functions.function import (
    ANYWHERE,
    BIGINT,
    BOTH_KNOWN,
    DOUBLE,
    DUCKDB,
    FITS,
    FITTING,
    SPARK,
    TRINO,
    VARCHAR,
    Function,
    Rises,
    everywhere,
    is_column_double,
    is_column_integer,
    is_constant_integer,
    is_count,
    is_divisor,
    is_double,
    is_few,
    is_integer,
    of_type,
)
from pruner.expr.types import timestamp


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


_SCALE: Final = "power(10, {1})"
_ROUNDED: Final = (
    Function(
        name="round",
        accepts=(is_column_double,),
        result=DOUBLE,
        sql="round({0})",
        # Trino adds 0.5, which makes 1 of the greatest double below it. Spark has no negative zero here.
        domain="(abs({0}) BETWEEN 0.5 AND 1e15 OR {0} < 0.49 AND NOT signbit({0}))",
        values="double from 0.5 to 1e15, or minus that, or from 0 to 0.49",
        compared=everywhere("round(x)"),
    ),
    Function(
        name="round",
        accepts=(is_column_double, is_few),
        result=DOUBLE,
        sql="round({0}, {1})",
        # Some round the double, some its shortest decimal.
        domain=f"(abs({{0}}) * {_SCALE} < 1e11 AND abs(abs({{0}}) * {_SCALE} % 1 - 0.5) > 1e-3"
        f" AND (NOT signbit({{0}}) OR abs({{0}}) * {_SCALE} > 0.5))",
        values="double below 1e11 in its last digit, and not near the middle of two; 1 to 6 digits",
        compared=everywhere("round(x, 2)"),
    ),
    Function(
        name="whole",
        accepts=(is_column_double,),
        result=BIGINT,
        sql="({0}::BIGINT)",
        domain="abs({0}) <= 1e15 AND {0} = trunc({0})",
        values="double that is whole, up to 1e15",
        compared={
            DUCKDB: "floor(x)::BIGINT",
            SPARK: "floor(x), bigint(x)",
            TRINO: "CAST(floor(x) AS bigint)",
        },
    ),
)

_QUOTIENTS: Final = (
    Function(
        name="quotient",
        accepts=(is_column_double, is_divisor),
        result=DOUBLE,
        sql="({0} / {1})",
        domain=ANYWHERE,
        values="double by a constant that is not zero; in DuckDB and Spark integers as well",
        compared=everywhere("x / 4e0"),
    ),
    Function(
        name="whole quotient",
        accepts=(is_column_integer, is_count),
        result=BIGINT,
        sql="({0} // {1})::BIGINT",
        written="({0} // {1})",
        domain=ANYWHERE,
        values="integers; by a constant from 1 on",
        compared={DUCKDB: "a // 8", SPARK: "a div 8", TRINO: "a / 8"},
        rises=rising.divided,
        in_order="always",
    ),
)


def _of_bits(name: str, sql: str, **compared: str) -> Function:
    """The bits of two integers, taken together."""
    return Function(
        name=name,
        accepts=(is_column_integer, is_integer),
        result=BIGINT,
        sql=sql.format("{0}::BIGINT", "{1}::BIGINT"),
        written=sql,
        domain=ANYWHERE,
        values="integers",
        compared=compared,
    )


_OF_BITS: Final = (
    _of_bits("bit and", "({0} & {1})", duckdb="a & 4", spark="a & 4", trino="bitwise_and(a, 4)"),
    _of_bits("bit or", "({0} | {1})", duckdb="a | 4", spark="a | 4", trino="bitwise_or(a, 4)"),
    _of_bits("bit xor", "xor({0}, {1})", duckdb="xor(a, 4)", spark="a ^ 4", trino="bitwise_xor(a, 4)"),
    Function(
        name="bit count",
        accepts=(is_column_integer,),
        result=BIGINT,
        sql="bit_count({0}::BIGINT)::BIGINT",
        written="bit_count({0})",
        # The sign has as many bits as the engine's type of integers.
        domain="{0} >= 0",
        values="integers from 0 on",
        compared={DUCKDB: "bit_count(a)", SPARK: "bit_count(a)", TRINO: "bit_count(a, 64)"},
    ),
    Function(
        name="chr",
        accepts=(is_column_integer,),
        result=VARCHAR,
        sql="chr({0}::INTEGER)",
        written="chr({0})",
        domain="{0} BETWEEN 32 AND 126",
        values="integers from 32 to 126",
        compared=everywhere("chr(a)"),
    ),
    Function(
        name="moment of seconds",
        accepts=(is_column_integer,),
        result=of_type(timestamp("us", instant=True)),
        sql="make_timestamp({0}::BIGINT * 1000000)",
        written="to_timestamp({0})",
        domain="{0} BETWEEN -2208988800 AND 253402300799",
        values="integers, as seconds of the years 1900 to 9999",
        compared={DUCKDB: "to_timestamp(a)", SPARK: "timestamp_seconds(a)"},
    ),
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
    _of_double(
        "floor", ANYWHERE, "double", duckdb="floor(x)", spark="double(floor(x)), up to 1e15", trino="floor(x)"
    ),
    _of_double(
        "ceil", ANYWHERE, "double", duckdb="ceil(x)", spark="double(ceil(x)), up to 1e15", trino="ceil(x)"
    ),
    _of_double("trunc", ANYWHERE, "double", duckdb="trunc(x)", trino="truncate(x)"),
    *_ROUNDED,
    *_QUOTIENTS,
    *_OF_BITS,
    _of_double("sqrt", "{0} >= 0", "double from 0 on", **everywhere("sqrt(x)")),
)
