"""Rows of functions of numbers, and of additions to moments: see `pruner.expr.functions.function`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pruner.expr.functions import cycles, decimals, numbers, rising, shapes
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
    Cast,
    Evaluation,
    Function,
    Preimage,
    Rises,
    everywhere,
    is_column_double,
    is_column_integer,
    is_constant_integer,
    is_count,
    is_digit_count,
    is_divisor,
    is_double,
    is_integer,
    of_type,
    own,
    spelled,
)
from pruner.expr.functions.of_moments import EARLIER, LATER
from pruner.expr.functions.of_texts import OR_A_TEXT
from pruner.expr.types import is_string, timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from pruner.expr.functions.inverse import Inverse, Use

_INTEGERS: Final = "signed integers; results that fit the column's type"


def _are_decimals(types: Sequence[pa.DataType]) -> bool:
    return any(map(pa.types.is_decimal, types))


def _arithmetic(sign: str, rises: Rises, in_order: str) -> tuple[Evaluation, Evaluation]:
    wide = f"({{0}}::HUGEINT {sign} {{1}}::HUGEINT)"
    compared = everywhere(f"a {sign} b")
    return (
        Evaluation(
            accepts=(is_integer, is_integer),
            result=BIGINT,
            sql=f"{wide}::BIGINT",
            template=f"({{0}} {sign} {{1}})",
            wide=wide,
            domain=FITTING,
            values=f"integers; {FITS}",
            compared=compared,
            rises=rises,
            in_order=in_order,
        ),
        Evaluation(
            accepts=(is_double, is_double),
            result=DOUBLE,
            sql=f"({{0}} {sign} {{1}})",
            domain=ANYWHERE,
            values="double",
            compared=compared,
        ),
    )


def _of_integer(
    sql: str, *, template: str, of_wide: bool = False, compared: Mapping[str, str]
) -> tuple[Evaluation]:
    """A function from integer to integer; with `of_wide` the result may not fit."""
    evaluation = Evaluation(
        accepts=(is_column_integer,),
        result=BIGINT,
        sql=f"{sql}::BIGINT",
        template=template,
        wide=sql if of_wide else "",
        domain=FITTING if of_wide else ANYWHERE,
        values=f"integers; {FITS}" if of_wide else "integers",
        compared=compared,
    )
    return (evaluation,)


def _of_integers(rule: Callable[[Use], Inverse], example: str) -> Preimage:
    return Preimage(rule=rule, domain=_INTEGERS, compared=everywhere(example))


def _of_decimals(name: str, rule: Callable[[Use], Inverse], example: str) -> Preimage:
    return Preimage(
        title=f"{name} decimals",
        rule=rule,
        of=_are_decimals,
        domain="decimals, and integers with a decimal; results that fit the type of the result",
        compared={DUCKDB: example, TRINO: example},
        missing={SPARK: "rounds to fewer digits"},
    )


_ARITHMETIC: Final = (
    Function(
        name="add",
        form="add",
        own=own(duckdb="+ add date_add", trino="$add"),
        evaluations=_arithmetic("+", rising.added, "with a constant"),
        preimages=(
            LATER,
            _of_decimals("add", decimals.added, "x + 0.5"),
            _of_integers(numbers.added, "x + 1"),
        ),
        # In ANSI mode the others fail where a result does not fit.
        in_spark="try_add({0}, {1})",
    ),
    Function(
        name="subtract",
        form="subtract",
        own=own(duckdb="- subtract", trino="$subtract"),
        evaluations=_arithmetic("-", rising.subtracted, "less a constant"),
        preimages=(
            EARLIER,
            _of_decimals("subtract", decimals.subtracted, "x - 0.5, 0.5 - x"),
            _of_integers(numbers.subtracted, "x - 1, 1 - x"),
        ),
        in_spark="try_subtract({0}, {1})",
    ),
    Function(
        name="multiply",
        form="multiply",
        own=own(duckdb="* multiply", trino="$multiply"),
        evaluations=_arithmetic("*", rising.multiplied, "by a constant from 1 on"),
        preimages=(
            _of_decimals("multiply", decimals.multiplied, "x * 1.19"),
            _of_integers(numbers.multiplied, "x * 2"),
        ),
        in_spark="try_multiply({0}, {1})",
    ),
    Function(
        name="negate",
        form="negate",
        own=own(trino="$negate"),
        evaluations=_of_integer(
            "(-{0}::HUGEINT)", template="(-{0})", of_wide=True, compared=everywhere("-a")
        ),
        preimages=(_of_decimals("negate", decimals.negated, "-x"), _of_integers(numbers.negated, "-x")),
        in_spark="try_subtract(0, {0})",
    ),
    Function(
        name="abs",
        form="abs",
        own=own(duckdb="@ abs", trino="abs"),
        evaluations=_of_integer(
            "abs({0}::HUGEINT)", template="abs({0})", of_wide=True, compared=everywhere("abs(a)")
        ),
        preimages=(_of_integers(numbers.absolute, "abs(x)"),),
        in_spark="abs({0})",
    ),
    Function(
        name="modulo",
        form="modulo",
        own=own(duckdb="% mod", trino="$modulo mod"),
        evaluations=(
            Evaluation(
                accepts=(is_column_integer, is_count),
                result=BIGINT,
                sql="({0} % {1})::BIGINT",
                template="({0} % {1})",
                domain=ANYWHERE,
                values="integers; a constant from 1 on",
                compared=everywhere("a % 8"),
            ),
        ),
        preimages=(
            Preimage(
                rule=cycles.remainder,
                domain="signed integers; divisors from 1",
                compared=everywhere("x % 8, mod(x, 8)"),
            ),
        ),
        in_spark="({0} % {1})",
    ),
    Function(
        name="quotient",
        form="quotient",
        own=own(duckdb="/", trino="$divide"),
        evaluations=(
            Evaluation(
                accepts=(is_column_double, is_divisor),
                result=DOUBLE,
                sql="({0} / {1})",
                domain=ANYWHERE,
                values="double by a constant that is not zero; in DuckDB and Spark integers as well",
                compared=everywhere("x / 4e0"),
            ),
        ),
        in_spark="({0} / {1})",
    ),
    Function(
        name="whole quotient",
        form="whole_quotient",
        own=own(duckdb="//"),
        evaluations=(
            Evaluation(
                accepts=(is_column_integer, is_count),
                result=BIGINT,
                sql="({0} // {1})::BIGINT",
                template="({0} // {1})",
                domain=ANYWHERE,
                values="integers; by a constant from 1 on",
                compared={DUCKDB: "a // 8", SPARK: "a div 8", TRINO: "a / 8"},
                rises=rising.divided,
                in_order="always",
            ),
        ),
        in_spark="({0} div {1})",
    ),
)

_CASTS: Final = (
    Function(
        name="double",
        casts=(Cast(pa.types.is_signed_integer, pa.types.is_float64),),
        evaluations=(
            Evaluation(
                accepts=(is_integer,),
                result=DOUBLE,
                sql="({0}::DOUBLE)",
                domain=ANYWHERE,
                values="integers",
                compared={DUCKDB: "a::DOUBLE", SPARK: "double(a)", TRINO: "CAST(a AS double)"},
            ),
        ),
        in_spark="double({0})",
    ),
    Function(
        name="text",
        casts=(Cast(pa.types.is_integer, is_string),),
        evaluations=(
            Evaluation(
                accepts=(is_column_integer,),
                result=VARCHAR,
                sql="({0}::VARCHAR)",
                domain=ANYWHERE,
                values="integers",
                compared={DUCKDB: "a::VARCHAR", SPARK: "string(a)", TRINO: "CAST(a AS varchar)"},
                changed=2,
            ),
        ),
        preimages=(
            Preimage(
                title="cast to text",
                rule=numbers.text_of_integer,
                domain="integers",
                operators="=, <>, IN",
                compared={DUCKDB: "x::VARCHAR", SPARK: "CAST(x AS STRING)", TRINO: "CAST(x AS varchar)"},
            ),
        ),
        in_spark="string({0})",
    ),
    Function(
        name="cast to an integer",
        casts=(Cast(pa.types.is_integer, pa.types.is_integer),),
        preimages=(
            Preimage(
                rule=numbers.widened,
                domain="integers that fit",
                compared={DUCKDB: "x::BIGINT", SPARK: "CAST(x AS BIGINT)", TRINO: "CAST(x AS bigint)"},
            ),
        ),
    ),
    Function(
        name="whole",
        casts=(Cast(pa.types.is_float64, pa.types.is_int64),),
        evaluations=(
            Evaluation(
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
        ),
        in_spark="try_cast({0} AS BIGINT)",
    ),
    Function(
        name="moment of seconds",
        own=own(duckdb="to_timestamp unix_to_time", spark="timestamp_seconds"),
        evaluations=(
            Evaluation(
                accepts=(is_column_integer,),
                result=of_type(timestamp("us", instant=True)),
                sql="make_timestamp({0}::BIGINT * 1000000)",
                template="to_timestamp({0})",
                domain="{0} BETWEEN -2208988800 AND 253402300799",
                values="integers, as seconds of the years 1900 to 9999",
                compared={DUCKDB: "to_timestamp(a)", SPARK: "timestamp_seconds(a)"},
            ),
        ),
        in_spark="timestamp_seconds({0})",
    ),
)


def _of_two(name: str) -> Function:
    """The greater or smaller of two integers; some engines ignore NULL, some yield NULL."""
    return Function(
        name=name,
        called=(name,),
        own=own(trino=name),
        evaluations=(
            Evaluation(
                accepts=(is_column_integer, is_integer),
                result=BIGINT,
                sql=f"{name}({{0}}::BIGINT, {{1}}::BIGINT)",
                template=f"{name}({{0}}, {{1}})",
                domain=BOTH_KNOWN,
                values="integers, none of them NULL",
                compared=everywhere(f"{name}(a, b)"),
                of_null=True,
            ),
        ),
        in_spark=f"{name}({{0}}, {{1}})",
    )


def _about_null(name: str, *, of_null: bool) -> Function:
    evaluation = Evaluation(
        accepts=(is_column_integer, is_constant_integer),
        result=BIGINT,
        sql=f"{name}({{0}}::BIGINT, {{1}}::BIGINT)",
        template=f"{name}({{0}}, {{1}})",
        domain=ANYWHERE,
        values="integers and a constant",
        compared=everywhere(f"{name}(a, 0)"),
        of_null=of_null,
    )
    return Function(
        name=name,
        form=name,
        own=own(trino=f"${name}"),
        evaluations=(OR_A_TEXT[name], evaluation),
        in_spark=f"{name}({{0}}, {{1}})",
    )


_CHOSEN: Final = (
    _about_null("coalesce", of_null=True),
    _about_null("nullif", of_null=False),
    _of_two("greatest"),
    _of_two("least"),
    Function(
        name="sign",
        called=("sign",),
        own=own(trino="sign"),
        evaluations=_of_integer(
            "sign({0})", template="sign({0})", compared=spelled(duckdb="sign(a)", trino="sign(a)")
        ),
    ),
)


def _of_double(
    name: str, domain: str = ANYWHERE, values: str = "double", *, compared: Mapping[str, str]
) -> Evaluation:
    """A function from double to double."""
    return Evaluation(
        accepts=(is_column_double,),
        result=DOUBLE,
        sql=f"{name}({{0}})",
        domain=domain,
        values=values,
        compared=compared,
    )


_SCALE: Final = "power(10, {1})"
_ROUNDED: Final = (
    Function(
        name="floor",
        called=("floor",),
        own=own(trino="floor"),
        evaluations=(
            _of_double(
                "floor",
                compared=spelled(duckdb="floor(x)", spark="double(floor(x)), up to 1e15", trino="floor(x)"),
            ),
        ),
    ),
    Function(
        name="ceil",
        called=(
            "ceil",
            "ceiling",
        ),
        own=own(trino="ceil ceiling"),
        evaluations=(
            _of_double(
                "ceil",
                compared=spelled(duckdb="ceil(x)", spark="double(ceil(x)), up to 1e15", trino="ceil(x)"),
            ),
        ),
    ),
    Function(
        name="trunc",
        called=("trunc",),
        own=own(trino="truncate"),
        evaluations=(_of_double("trunc", compared=spelled(duckdb="trunc(x)", trino="truncate(x)")),),
    ),
    Function(
        name="round",
        called=("round",),
        own=own(trino="round"),
        evaluations=(
            _of_double(
                "round",
                # Trino adds 0.5, which turns the greatest double below 0.5 into 1. Spark has no negative zero here.
                "(abs({0}) BETWEEN 0.5 AND 1e15 OR {0} < 0.49 AND NOT signbit({0}))",
                "double from 0.5 to 1e15, or minus that, or from 0 to 0.49",
                compared=everywhere("round(x)"),
            ),
            Evaluation(
                accepts=(is_column_double, is_digit_count),
                result=DOUBLE,
                sql="round({0}, {1})",
                # Some round the double, some its shortest decimal.
                domain=f"(abs({{0}}) * {_SCALE} < 1e11 AND abs(abs({{0}}) * {_SCALE} % 1 - 0.5) > 1e-3"
                f" AND (NOT signbit({{0}}) OR abs({{0}}) * {_SCALE} > 0.5))",
                values="double below 1e11 in its last digit, and not near the middle of two; 1 to 6 digits",
                compared=everywhere("round(x, 2)"),
            ),
        ),
    ),
    Function(
        name="sqrt",
        called=("sqrt",),
        own=own(trino="sqrt"),
        evaluations=(_of_double("sqrt", "{0} >= 0", "double from 0 on", compared=everywhere("sqrt(x)")),),
        in_spark="sqrt({0})",
    ),
)


def _of_bits(name: str, called: str, sql: str, sign: str, compared: Mapping[str, str]) -> Function:
    """A bitwise combination of two integers."""
    return Function(
        name=name,
        form=called,
        own=own(duckdb=sign, trino=called),
        evaluations=(
            Evaluation(
                accepts=(is_column_integer, is_integer),
                result=BIGINT,
                sql=sql.format("{0}::BIGINT", "{1}::BIGINT"),
                template=sql,
                domain=ANYWHERE,
                values="integers",
                compared=compared,
            ),
        ),
        in_spark=f"({{0}} {compared[SPARK].split()[1]} {{1}})",
    )


_BITS: Final = (
    _of_bits(
        "bit and",
        "bitwise_and",
        "({0} & {1})",
        "&",
        compared=spelled(duckdb="a & 4", spark="a & 4", trino="bitwise_and(a, 4)"),
    ),
    _of_bits(
        "bit or",
        "bitwise_or",
        "({0} | {1})",
        "|",
        compared=spelled(duckdb="a | 4", spark="a | 4", trino="bitwise_or(a, 4)"),
    ),
    _of_bits(
        "bit xor",
        "bitwise_xor",
        "xor({0}, {1})",
        "xor",
        compared=spelled(duckdb="xor(a, 4)", spark="a ^ 4", trino="bitwise_xor(a, 4)"),
    ),
    Function(
        name="bit count",
        called=("bitwise_count",),
        own=own(duckdb="bit_count", trino="bit_count"),
        shape=shapes.bit_count,
        evaluations=(
            Evaluation(
                accepts=(is_column_integer,),
                result=BIGINT,
                sql="bit_count({0}::BIGINT)::BIGINT",
                template="bit_count({0})",
                # The sign is extended to the width of the engine's integer type.
                domain="{0} >= 0",
                values="integers from 0 on",
                compared={DUCKDB: "bit_count(a)", SPARK: "bit_count(a)", TRINO: "bit_count(a, 64)"},
            ),
        ),
        in_spark="bit_count({0})",
    ),
    Function(
        name="chr",
        called=("chr",),
        own=own(trino="chr"),
        evaluations=(
            Evaluation(
                accepts=(is_column_integer,),
                result=VARCHAR,
                sql="chr({0}::INTEGER)",
                template="chr({0})",
                domain="{0} BETWEEN 32 AND 126",
                values="integers from 32 to 126",
                compared=everywhere("chr(a)"),
            ),
        ),
        in_spark="chr({0})",
    ),
)

NUMBER_ROWS: Final = (*_ARITHMETIC, *_CASTS, *_CHOSEN, *_ROUNDED, *_BITS)
