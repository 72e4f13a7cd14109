"""Rows of functions of dates and timestamps: see `pruner.expr.functions.function`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from pruner.expr.functions import rising
from pruner.expr.functions.function import (
    BIGINT,
    DATE,
    DOUBLE,
    DUCKDB,
    MOMENTS,
    SECOND_ARGUMENT_MOMENTS,
    SPARK,
    TRINO,
    VARCHAR,
    YEARS,
    Accepts,
    Argument,
    Function,
    Result,
    Rises,
    everywhere,
    is_constant_text,
    is_date,
    is_moment,
    is_stamp,
    of_type,
)
from pruner.expr.types import is_instant, timestamp


def _is_unit(argument: Argument) -> bool:
    return argument.constant in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def _is_step(argument: Argument) -> bool:
    return isinstance(argument.constant, int) and abs(argument.constant) <= 1_000_000


def _is_wall_clock(argument: Argument) -> bool:
    return is_stamp(argument) and not is_instant(argument.type)


def _same_clock(arguments: Sequence[Argument]) -> pa.DataType:
    return timestamp("us", instant=is_instant(arguments[1].type))


_FROM_1970: Final = "{0} BETWEEN TIMESTAMP '1970-01-01' AND {last}"
_SINCE: Final = "years 1970 to 9999"


def _since_1970(
    name: str,
    sql: str,
    *,
    of: Accepts = is_stamp,
    result: Result = BIGINT,
    domain: str = _FROM_1970,
    values: str = _SINCE,
    **compared: str,
) -> Function:
    """What passed since 1970, which no clock shows."""
    return Function(
        name=name,
        accepts=(of,),
        result=result,
        sql=sql,
        domain=domain,
        values=values,
        compared=compared,
    )


def _is_period(argument: Argument) -> bool:
    return argument.constant in ("year", "quarter", "month", "week")


def _part(name: str, sql: str, *, rises: Rises | None = None, **compared: str) -> Function:
    """A part of a moment, which is a whole number."""
    return Function(
        name=name,
        accepts=(is_moment,),
        result=BIGINT,
        sql=sql,
        domain=MOMENTS,
        values=YEARS,
        compared=compared,
        reads_clock=True,
        rises=rises,
        in_order="" if rises is None else "always",
    )


MOMENT_ROWS: Final = (
    Function(
        name="format",
        accepts=(is_moment, is_constant_text),
        result=VARCHAR,
        sql="strftime({0}, {1})",
        domain=MOMENTS,
        values=f"{YEARS}; year, month, day, hour, minute, second and day of the year as padded numbers",
        compared={
            DUCKDB: "strftime(ts, '%H')",
            SPARK: "date_format(ts, 'HH')",
            TRINO: "date_format(ts, '%H')",
        },
        reads_clock=True,
        rises=rising.written,
        in_order="year first, the others in order",
    ),
    _part("year", "year({0})", duckdb="year(ts)", spark="year(ts)", trino="year(ts)", rises=rising.year),
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
    _part(
        "year of week",
        "isoyear({0})",
        duckdb="isoyear(ts)",
        spark="extract(YEAROFWEEK FROM ts)",
        trino="year_of_week(ts)",
        rises=rising.year_of_week,
    ),
    Function(
        name="last day",
        accepts=(is_moment,),
        result=of_type(pa.date32()),
        sql="last_day({0})",
        domain=MOMENTS,
        values=YEARS,
        compared={DUCKDB: "last_day(ts)", SPARK: "last_day(ts)", TRINO: "last_day_of_month(ts)"},
        reads_clock=True,
        rises=rising.last_day,
        in_order="always",
    ),
    Function(
        name="date",
        accepts=(is_moment,),
        result=of_type(pa.date32()),
        sql="({0}::DATE)",
        domain=MOMENTS,
        values=YEARS,
        compared={DUCKDB: "ts::DATE", SPARK: "date(ts)", TRINO: "date(ts)"},
        reads_clock=True,
        rises=rising.date,
        in_order="always",
    ),
    _part("microsecond of minute", "microsecond({0})", duckdb="microsecond(ts)"),
    _part("millisecond of minute", "millisecond({0})", duckdb="millisecond(ts)"),
    _part("millisecond of second", "millisecond({0}) % 1000", trino="millisecond(ts)"),
    _since_1970(
        "epoch",
        "epoch({0})",
        # Of an instant DuckDB adds up seconds and their fraction, which may be the next double.
        of=_is_wall_clock,
        result=DOUBLE,
        values=f"timestamps without a zone, {_SINCE}",
        duckdb="epoch(ts)",
        trino="to_unixtime(ts)",
    ),
    _since_1970("epoch seconds", "epoch_us({0}) // 1000000", spark="unix_seconds(ts), bigint(ts)"),
    _since_1970(
        "epoch milliseconds",
        "epoch_ms({0})",
        # DuckDB rounds, Spark cuts.
        domain=f"{_FROM_1970} AND epoch_us({{0}}) % 1000 = 0",
        values=f"{_SINCE}, whole milliseconds",
        duckdb="epoch_ms(ts)",
        spark="unix_millis(ts)",
    ),
    _since_1970(
        "epoch microseconds",
        "epoch_us({0})",
        domain=MOMENTS,
        values=YEARS,
        duckdb="epoch_us(ts)",
        spark="unix_micros(ts)",
    ),
    Function(
        name="days between",
        accepts=(is_date, is_date),
        result=BIGINT,
        sql="date_diff('day', {1}, {0})",
        domain=f"{MOMENTS} AND {SECOND_ARGUMENT_MOMENTS}",
        values=YEARS,
        compared={
            DUCKDB: "date_diff('day', d, e), e - d",
            SPARK: "datediff(e, d)",
            TRINO: "date_diff('day', d, e)",
        },
    ),
    Function(
        name="days later",
        accepts=(is_date, _is_step),
        result=DATE,
        sql="({0} + {1}::INTEGER)",
        written="({0} + {1})",
        domain=f"{MOMENTS} AND {{0}} + {{1}}::INTEGER BETWEEN {{first}} AND {{last}}",
        values=f"{YEARS}, before and after",
        compared={DUCKDB: "d + 7", SPARK: "date_add(d, 7)", TRINO: "date_add('day', 7, d)"},
        rises=rising.later,
        in_order="always",
    ),
    Function(
        name="first day",
        accepts=(_is_period, is_date),
        result=DATE,
        sql="date_trunc({0}, {1})::DATE",
        written="date_trunc({0}, {1})",
        domain=SECOND_ARGUMENT_MOMENTS,
        values=f"dates, {YEARS}",
        compared={
            SPARK: "trunc(d, 'month')",
            TRINO: "date_trunc('month', d)",
        },
    ),
    Function(
        name="date_trunc",
        accepts=(_is_unit, is_stamp),
        result=_same_clock,
        sql="date_trunc({0}, {1})",
        domain=SECOND_ARGUMENT_MOMENTS,
        values=YEARS,
        compared=everywhere("date_trunc('hour', ts)"),
        reads_clock=True,
        rises=rising.truncated,
        in_order="always",
    ),
)
