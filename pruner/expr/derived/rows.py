"""The functions that an index may be over: one row for each.

A row says how DuckDB evaluates the function (every column a wall clock, number, text or date by itself), and for each
engine on which values it was compared with that. A value outside keeps its file in a plan for that engine. Nested
calls are checked node by node. An engine that a row does not name was not compared, and is never answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from pruner.expr.engines import SqlEngine
from pruner.expr.types import is_instant, is_string, is_temporal, timestamp
from pruner.expr.values import LiteralValue

REGISTRY_VERSION: Final = 1
"""Counted up when a row changes what it means or where it holds; the row then names the new version as `changed`."""

DUCKDB, SPARK, TRINO = SqlEngine.DUCKDB, SqlEngine.SPARK, SqlEngine.TRINO


class Argument(NamedTuple):
    """An argument as a row judges it: its type, and its value where it is a constant."""

    type: pa.DataType
    constant: LiteralValue = None

    @property
    def is_constant(self) -> bool:
        """Whether it is a constant (NULL is refused before)."""
        return self.constant is not None


Accepts: TypeAlias = Callable[[Argument], bool]

ANYWHERE: Final = "true"
MOMENTS: Final = "{0} BETWEEN {first} AND {last}"
"""From 1900, where all calendars agree (trap S17), to 9999. `{first}` and `{last}` are of the argument's type."""
SECOND_ARGUMENT_MOMENTS: Final = "{1} BETWEEN {first} AND {last}"
ASCII: Final = "strlen({0}) = length({0})"
FITTING: Final = "{wide} BETWEEN {least} AND {greatest}"
"""The result fits the narrowest type that an engine may give it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function with its evaluation."""

    name: str
    """Its name in the canonical form."""
    accepts: tuple[Accepts, ...]
    result: Callable[[Sequence[Argument]], pa.DataType]
    sql: str
    """Its evaluation by DuckDB; `{0}` is the first argument."""
    wide: str = ""
    """The result of integers before it is cut to 64 bits."""
    domain: str
    """Condition on the arguments by which `compared` holds."""
    values: str
    """The same, for people."""
    compared: Mapping[str, str]
    """The engines that were compared with the evaluation, and how each spells it."""
    reads_clock: bool = False
    """Whether an instant becomes a wall clock, by the session's zone."""
    changed: int = 1
    """Registry version since which it means what it means now."""


def _moment(argument: Argument) -> bool:
    return not argument.is_constant and is_temporal(argument.type)


def _stamp(argument: Argument) -> bool:
    return not argument.is_constant and pa.types.is_timestamp(argument.type)


def _text(argument: Argument) -> bool:
    return not argument.is_constant and is_string(argument.type)


def _integer(argument: Argument) -> bool:
    return pa.types.is_signed_integer(argument.type)


def _double(argument: Argument) -> bool:
    return pa.types.is_float64(argument.type)


def _column_integer(argument: Argument) -> bool:
    return not argument.is_constant and _integer(argument)


def _constant_text(argument: Argument) -> bool:
    return isinstance(argument.constant, str)


def _count(argument: Argument) -> bool:
    value = argument.constant
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31


def _unit(argument: Argument) -> bool:
    return argument.constant in ("year", "quarter", "month", "day", "hour", "minute", "second")


def _of_type(type_: pa.DataType) -> Callable[[Sequence[Argument]], pa.DataType]:
    return lambda _: type_


def _same_clock(arguments: Sequence[Argument]) -> pa.DataType:
    return timestamp("us", instant=is_instant(arguments[1].type))


_BIGINT: Final = _of_type(pa.int64())
_DOUBLE: Final = _of_type(pa.float64())
_VARCHAR: Final = _of_type(pa.string())
_YEARS: Final = "years 1900 to 9999"
_FITS: Final = "results that fit the narrowest column's type"


def _part(name: str, sql: str, **compared: str) -> Function:
    """A part of a moment, which is a whole number."""
    return Function(
        name=name,
        accepts=(_moment,),
        result=_BIGINT,
        sql=sql,
        domain=MOMENTS,
        values=_YEARS,
        compared=compared,
        reads_clock=True,
    )


def _arithmetic(name: str, sign: str) -> tuple[Function, Function]:
    wide = f"({{0}}::HUGEINT {sign} {{1}}::HUGEINT)"
    spelled = f"a {sign} b"
    return (
        Function(
            name=name,
            accepts=(_integer, _integer),
            result=_BIGINT,
            sql=f"{wide}::BIGINT",
            wide=wide,
            domain=FITTING,
            values=f"integers; {_FITS}",
            compared={DUCKDB: spelled, SPARK: spelled, TRINO: spelled},
        ),
        Function(
            name=name,
            accepts=(_double, _double),
            result=_DOUBLE,
            sql=f"({{0}} {sign} {{1}})",
            domain=ANYWHERE,
            values="double",
            compared={DUCKDB: spelled, SPARK: spelled, TRINO: spelled},
        ),
    )


_ALL: Final = (
    Function(
        name="format",
        accepts=(_moment, _constant_text),
        result=_VARCHAR,
        sql="strftime({0}, {1})",
        domain=MOMENTS,
        values=f"{_YEARS}; year, month, day, hour, minute, second and day of the year as padded numbers",
        compared={
            DUCKDB: "strftime(ts, '%H')",
            SPARK: "date_format(ts, 'HH')",
            TRINO: "date_format(ts, '%H')",
        },
        reads_clock=True,
    ),
    _part("year", "year({0})", duckdb="year(ts)", spark="year(ts)", trino="year(ts)"),
    _part("quarter", "quarter({0})", duckdb="quarter(ts)", spark="quarter(ts)", trino="quarter(ts)"),
    _part("month", "month({0})", duckdb="month(ts)", spark="month(ts)", trino="month(ts)"),
    _part("day", "day({0})", duckdb="day(ts)", spark="day(ts)", trino="day(ts)"),
    _part("hour", "hour({0})", duckdb="hour(ts)", spark="hour(ts)", trino="hour(ts)"),
    _part("minute", "minute({0})", duckdb="minute(ts)", spark="minute(ts)", trino="minute(ts)"),
    _part("second", "second({0})", duckdb="second(ts)", spark="second(ts)", trino="second(ts)"),
    _part(
        "day of year",
        "dayofyear({0})",
        duckdb="dayofyear(ts)",
        spark="dayofyear(ts)",
        trino="day_of_year(ts)",
    ),
    _part("day of week, Monday 1", "isodow({0})", duckdb="isodow(ts)", trino="day_of_week(ts)"),
    _part("day of week, Sunday 0", "dayofweek({0})", duckdb="dayofweek(ts)"),
    _part("day of week, Sunday 1", "dayofweek({0}) + 1", spark="dayofweek(ts)"),
    _part("day of week, Monday 0", "isodow({0}) - 1", spark="weekday(ts)"),
    _part("week", "week({0})", duckdb="week(ts)", spark="weekofyear(ts)", trino="week(ts)"),
    Function(
        name="date",
        accepts=(_moment,),
        result=_of_type(pa.date32()),
        sql="({0}::DATE)",
        domain=MOMENTS,
        values=_YEARS,
        compared={DUCKDB: "ts::DATE", SPARK: "date(ts)", TRINO: "date(ts)"},
        reads_clock=True,
    ),
    Function(
        name="date_trunc",
        accepts=(_unit, _stamp),
        result=_same_clock,
        sql="date_trunc({0}, {1})",
        domain=SECOND_ARGUMENT_MOMENTS,
        values=_YEARS,
        compared={
            DUCKDB: "date_trunc('hour', ts)",
            SPARK: "date_trunc('hour', ts)",
            TRINO: "date_trunc('hour', ts)",
        },
        reads_clock=True,
    ),
    Function(
        name="upper",
        accepts=(_text,),
        result=_VARCHAR,
        sql="upper({0})",
        domain=ASCII,
        values="ASCII",
        compared={DUCKDB: "upper(s)", SPARK: "upper(s)", TRINO: "upper(s)"},
    ),
    Function(
        name="lower",
        accepts=(_text,),
        result=_VARCHAR,
        sql="lower({0})",
        domain=ASCII,
        values="ASCII",
        compared={DUCKDB: "lower(s)", SPARK: "lower(s)", TRINO: "lower(s)"},
    ),
    Function(
        name="length",
        accepts=(_text,),
        result=_BIGINT,
        sql="length({0})",
        domain=ASCII,
        values="ASCII",
        compared={DUCKDB: "length(s)", SPARK: "length(s)", TRINO: "length(s)"},
    ),
    Function(
        name="substring",
        accepts=(_text, _count, _count),
        result=_VARCHAR,
        sql="substring({0}, {1}, {2})",
        domain=ASCII,
        values="ASCII; constants from 1 on",
        compared={DUCKDB: "substring(s, 2, 3), left(s, 3)", SPARK: "substring(s, 2, 3), left(s, 3)"},
    ),
    Function(
        name="join",
        accepts=(lambda each: is_string(each.type), lambda each: is_string(each.type)),
        result=_VARCHAR,
        sql="({0} || {1})",
        domain=ANYWHERE,
        values="text",
        compared={DUCKDB: "a || b", SPARK: "a || b", TRINO: "a || b"},
    ),
    Function(
        name="text",
        accepts=(_column_integer,),
        result=_VARCHAR,
        sql="({0}::VARCHAR)",
        domain=ANYWHERE,
        values="integers",
        compared={DUCKDB: "a::VARCHAR", SPARK: "string(a)"},
    ),
    Function(
        name="double",
        accepts=(_integer,),
        result=_DOUBLE,
        sql="({0}::DOUBLE)",
        domain=ANYWHERE,
        values="integers",
        compared={DUCKDB: "a::DOUBLE", SPARK: "double(a)"},
    ),
    *_arithmetic("add", "+"),
    *_arithmetic("subtract", "-"),
    *_arithmetic("multiply", "*"),
    Function(
        name="modulo",
        accepts=(_column_integer, _count),
        result=_BIGINT,
        sql="({0} % {1})::BIGINT",
        domain=ANYWHERE,
        values="integers; a constant from 1 on",
        compared={DUCKDB: "a % 8", SPARK: "a % 8", TRINO: "a % 8"},
    ),
    Function(
        name="negate",
        accepts=(_column_integer,),
        result=_BIGINT,
        sql="(-{0}::HUGEINT)::BIGINT",
        wide="(-{0}::HUGEINT)",
        domain=FITTING,
        values=f"integers; {_FITS}",
        compared={DUCKDB: "-a", SPARK: "-a", TRINO: "-a"},
    ),
    Function(
        name="abs",
        accepts=(_column_integer,),
        result=_BIGINT,
        sql="abs({0}::HUGEINT)::BIGINT",
        wide="abs({0}::HUGEINT)",
        domain=FITTING,
        values=f"integers; {_FITS}",
        compared={DUCKDB: "abs(a)", SPARK: "abs(a)", TRINO: "abs(a)"},
    ),
)

FUNCTIONS: Final[Mapping[str, tuple[Function, ...]]] = {
    name: tuple(row for row in _ALL if row.name == name) for name in dict.fromkeys(row.name for row in _ALL)
}
"""Every function by its name in the canonical form; several where it is evaluated by the types of its arguments."""


def row_for(name: str, arguments: Sequence[Argument]) -> Function | None:
    """The row of a function for arguments of these types; None where there is none."""
    for row in FUNCTIONS.get(name, ()):
        if len(row.accepts) == len(arguments) and all(
            accepts(argument) for accepts, argument in zip(row.accepts, arguments, strict=True)
        ):
            return row
    return None
