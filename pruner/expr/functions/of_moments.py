"""Rows of functions of dates and timestamps: see `pruner.expr.functions.function`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pruner.expr.functions import cycles, moments, rising, shapes
from pruner.expr.functions.function import (
    BIGINT,
    DATE,
    DOUBLE,
    DUCKDB,
    MOMENTS,
    NOT_YET,
    SECOND_ARGUMENT_MOMENTS,
    SPARK,
    TRINO,
    VARCHAR,
    YEARS,
    Accepts,
    Argument,
    Cast,
    Evaluation,
    Function,
    Preimage,
    Result,
    Rises,
    everywhere,
    is_constant_text,
    is_date,
    is_moment,
    is_stamp,
    own,
    spelled,
)
from pruner.expr.types import is_instant, is_naive_timestamp, is_string, is_temporal, timestamp, unit_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pruner.expr.functions.inverse import Inverse, Use


def _is_unit(argument: Argument) -> bool:
    return argument.constant in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def _is_step(argument: Argument) -> bool:
    return isinstance(argument.constant, int) and abs(argument.constant) <= 1_000_000


def _is_wall_clock(argument: Argument) -> bool:
    return is_stamp(argument) and not is_instant(argument.type)


def _same_clock(arguments: Sequence[Argument]) -> pa.DataType:
    return timestamp("us", instant=is_instant(arguments[1].type))


def _is_period(argument: Argument) -> bool:
    return argument.constant in ("year", "quarter", "month", "week")


def _is_without_zone(type_: pa.DataType) -> bool:
    return pa.types.is_date(type_) or is_naive_timestamp(type_)


def _is_instant_in_us(type_: pa.DataType) -> bool:
    return is_instant(type_) and unit_of(type_) == "us"


def _is_wall_in_us(type_: pa.DataType) -> bool:
    return is_naive_timestamp(type_) and unit_of(type_) == "us"


_CHANGED: Final = 2
"""Registry version since which Trino rounds moments to milliseconds."""
_FROM_1970: Final = "{0} BETWEEN TIMESTAMP '1970-01-01' AND {last}"
_SINCE: Final = "years 1970 to 9999"

_WALL: Final = "dates, timestamps, instants by the session's zone; years 1 to 9999"
_MOMENT: Final = "dates, timestamps, instants; years 1 to 9999"
_CLOCK: Final = (
    "timestamps; instants by the session's zone, which is fixed, or Area/City and the years 1970 to 2037"
)
_WEEK: Final = f"dates, {_CLOCK}"
_PERIOD: Final = "dates, timestamps, instants by the session's zone; years 1900 to 2199"
_SHIFTED: Final = "dates, timestamps, instants; results in the years 1 to 9999"
_UTC_CLOCK: Final = "instants are shown as UTC's clock"


def _since_1970(
    sql: str,
    *,
    of: Accepts = is_stamp,
    result: Result = BIGINT,
    domain: str = _FROM_1970,
    values: str = _SINCE,
    compared: Mapping[str, str],
) -> Evaluation:
    """Time since 1970, independent of wall clocks."""
    return Evaluation(
        accepts=(of,),
        result=result,
        sql=sql,
        domain=domain,
        values=values,
        compared=compared,
    )


def _by_clock(
    sql: str, *, result: Result = BIGINT, rises: Rises | None = None, compared: Mapping[str, str]
) -> tuple[Evaluation]:
    """A part of a moment on the wall clock: a whole number, or a date."""
    shown = Evaluation(
        accepts=(is_moment,),
        result=result,
        sql=sql,
        domain=MOMENTS,
        values=YEARS,
        compared=compared,
        reads_clock=True,
        rises=rises,
        in_order="" if rises is None else "always",
        changed=_CHANGED,
    )
    return (shown,)


def _of_clock(
    rule: Callable[[Use], Inverse],
    domain: str = _CLOCK,
    *,
    missing: Mapping[str, str] | None = None,
    compared: Mapping[str, str],
) -> tuple[Preimage]:
    """A part of a moment that recurs every day or week."""
    return (Preimage(rule=rule, domain=domain, compared=compared, missing=missing or {}, reads_clock=True),)


_PARTS: Final = (
    Function(
        name="year",
        form="year",
        own=own(duckdb="year", trino="year"),
        evaluations=_by_clock("year({0})", compared=everywhere("year(ts)"), rises=rising.year),
        preimages=(Preimage(rule=moments.year, domain=_WALL, compared=everywhere("year(x)")),),
        in_spark="year({0})",
    ),
    Function(
        name="quarter",
        form="quarter",
        own=own(duckdb="quarter", trino="quarter"),
        evaluations=_by_clock("quarter({0})", compared=everywhere("quarter(ts)")),
        preimages=(Preimage(rule=cycles.quarter, domain=_PERIOD, compared=everywhere("quarter(x)")),),
        in_spark="quarter({0})",
    ),
    Function(
        name="month",
        form="month",
        own=own(duckdb="month", trino="month"),
        evaluations=_by_clock("month({0})", compared=everywhere("month(ts)")),
        preimages=(Preimage(rule=cycles.month, domain=_PERIOD, compared=everywhere("month(x)")),),
        in_spark="month({0})",
    ),
    Function(
        name="day",
        form="day",
        called=(
            "day_of_month",
            "dayofmonth",
        ),
        own=own(trino="day day_of_month"),
        evaluations=_by_clock("day({0})", compared=everywhere("day(ts)")),
        preimages=(
            Preimage(
                rule=cycles.day,
                domain="dates, timestamps, instants by the session's zone; years 1970 to 2069",
                compared=everywhere("day(x), extract(day FROM x)"),
            ),
        ),
        in_spark="day({0})",
    ),
    Function(
        name="hour",
        form="hour",
        own=own(trino="hour"),
        evaluations=_by_clock("hour({0})", compared=everywhere("hour(ts)")),
        preimages=_of_clock(cycles.hour, compared=everywhere("hour(x), extract(hour FROM x)")),
        in_spark="hour({0})",
    ),
    Function(
        name="minute",
        form="minute",
        own=own(trino="minute"),
        evaluations=_by_clock("minute({0})", compared=everywhere("minute(ts)")),
        preimages=_of_clock(cycles.minute, compared=everywhere("minute(x)")),
        in_spark="minute({0})",
    ),
    Function(
        name="second",
        form="second",
        own=own(trino="second"),
        evaluations=_by_clock("second({0})", compared=everywhere("second(ts)")),
        preimages=_of_clock(cycles.second, compared=everywhere("second(x)")),
        in_spark="second({0})",
    ),
    Function(
        name="microsecond of minute",
        own=own(duckdb="microsecond"),
        evaluations=_by_clock("microsecond({0})", compared=spelled(duckdb="microsecond(ts)")),
    ),
    Function(
        name="millisecond of minute",
        own=own(duckdb="millisecond"),
        evaluations=_by_clock("millisecond({0})", compared=spelled(duckdb="millisecond(ts)")),
    ),
    Function(
        name="millisecond of second",
        own=own(trino="millisecond"),
        evaluations=_by_clock("millisecond({0}) % 1000", compared=spelled(trino="millisecond(ts)")),
    ),
    Function(
        name="day of year",
        form="day_of_year",
        called=(
            "dayofyear",
            "doy",
        ),
        own=own(trino="day_of_year doy"),
        evaluations=_by_clock(
            "dayofyear({0})",
            compared=spelled(duckdb="dayofyear(ts)", spark="dayofyear(ts)", trino="day_of_year(ts)"),
        ),
        in_spark="dayofyear({0})",
    ),
)

_WEEKS: Final = (
    Function(
        name="day of week, Monday 1",
        called=("dayofweek_iso",),
        own=own(duckdb="isodow", trino="day_of_week dow"),
        evaluations=_by_clock("isodow({0})", compared=spelled(duckdb="isodow(ts)", trino="day_of_week(ts)")),
        preimages=_of_clock(
            cycles.weekday_from_monday,
            _WEEK,
            compared=spelled(duckdb="isodow(x)", trino="day_of_week(x)"),
            missing={SPARK: NOT_YET},
        ),
        in_spark="(weekday({0}) + 1)",
    ),
    Function(
        name="day of week, Sunday 0",
        own=own(duckdb="day_of_week dayofweek weekday dow"),
        evaluations=_by_clock("dayofweek({0})", compared=spelled(duckdb="dayofweek(ts)")),
        preimages=_of_clock(
            cycles.weekday_from_sunday,
            _WEEK,
            compared=spelled(duckdb="dayofweek(x), weekday(x)"),
            missing={SPARK: NOT_YET, TRINO: NOT_YET},
        ),
        in_spark="(dayofweek({0}) - 1)",
    ),
    Function(
        name="day of week, Sunday 1",
        own=own(spark="day_of_week dayofweek"),
        evaluations=_by_clock("dayofweek({0}) + 1", compared=spelled(spark="dayofweek(ts)")),
        in_spark="dayofweek({0})",
    ),
    Function(
        name="day of week, Monday 0",
        own=own(spark="weekday"),
        evaluations=_by_clock("isodow({0}) - 1", compared=spelled(spark="weekday(ts)")),
        in_spark="weekday({0})",
    ),
    Function(
        name="week",
        form="week",
        called=(
            "week_of_year",
            "weekofyear",
        ),
        own=own(trino="week week_of_year"),
        evaluations=_by_clock(
            "week({0})", compared=spelled(duckdb="week(ts)", spark="weekofyear(ts)", trino="week(ts)")
        ),
        in_spark="weekofyear({0})",
    ),
    Function(
        name="year of week",
        own=own(duckdb="isoyear", spark="year_of_week", trino="year_of_week yow"),
        evaluations=_by_clock(
            "isoyear({0})",
            compared=spelled(
                duckdb="isoyear(ts)", spark="extract(YEAROFWEEK FROM ts)", trino="year_of_week(ts)"
            ),
            rises=rising.year_of_week,
        ),
        in_spark="extract(YEAROFWEEK FROM {0})",
    ),
)

_DATES: Final = (
    Function(
        name="date",
        casts=(Cast(pa.types.is_timestamp, pa.types.is_date),),
        evaluations=_by_clock(
            "({0}::DATE)",
            result=DATE,
            compared=spelled(duckdb="ts::DATE", spark="date(ts)", trino="date(ts)"),
            rises=rising.date,
        ),
        preimages=(
            Preimage(
                title="cast to date",
                rule=moments.date,
                domain=_WALL,
                compared={
                    DUCKDB: "x::DATE",
                    SPARK: "CAST(x AS DATE), to_date(x)",
                    TRINO: "CAST(x AS date), date(x)",
                },
            ),
        ),
        in_spark="date({0})",
    ),
    Function(
        name="last day",
        called=("last_day",),
        own=own(trino="last_day_of_month"),
        evaluations=_by_clock(
            "last_day({0})",
            result=DATE,
            compared=spelled(duckdb="last_day(ts)", spark="last_day(ts)", trino="last_day_of_month(ts)"),
            rises=rising.last_day,
        ),
        in_spark="last_day({0})",
    ),
    Function(
        name="first day",
        evaluations=(
            Evaluation(
                accepts=(_is_period, is_date),
                result=DATE,
                sql="date_trunc({0}, {1})::DATE",
                template="date_trunc({0}, {1})",
                domain=SECOND_ARGUMENT_MOMENTS,
                values=f"dates, {YEARS}",
                compared={SPARK: "trunc(d, 'month')", TRINO: "date_trunc('month', d)"},
            ),
        ),
        in_spark="trunc({1}, {0})",
    ),
    Function(
        name="date_trunc",
        form="date_trunc",
        own=own(duckdb="date_trunc datetrunc", trino="date_trunc"),
        shape=shapes.truncated,
        evaluations=(
            Evaluation(
                accepts=(_is_unit, is_stamp),
                result=_same_clock,
                sql="date_trunc({0}, {1})",
                domain=SECOND_ARGUMENT_MOMENTS,
                values=YEARS,
                compared=everywhere("date_trunc('hour', ts)"),
                reads_clock=True,
                rises=rising.truncated,
                in_order="always",
                changed=_CHANGED,
            ),
        ),
        preimages=(
            Preimage(
                rule=moments.truncated,
                domain=_WALL,
                compared={
                    DUCKDB: "date_trunc('day', x)",
                    SPARK: "date_trunc('day', x), trunc(x, 'month')",
                    TRINO: "date_trunc('day', x)",
                },
            ),
        ),
        in_spark="date_trunc({0}, {1})",
    ),
    Function(
        name="days between",
        called=("days_between",),
        own=own(duckdb="date_diff datediff", trino="date_diff datediff"),
        shape=shapes.days_between,
        evaluations=(
            Evaluation(
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
        ),
        preimages=(
            Preimage(
                rule=moments.days_between,
                domain="dates; years 1 to 9999",
                compared={
                    DUCKDB: "date_diff('day', x, DATE '2024-05-01')",
                    TRINO: "date_diff('day', x, DATE '2024-05-01')",
                },
                missing={SPARK: NOT_YET},
            ),
        ),
        in_spark="datediff({0}, {1})",
    ),
    Function(
        name="days later",
        evaluations=(
            Evaluation(
                accepts=(is_date, _is_step),
                result=DATE,
                sql="({0} + {1}::INTEGER)",
                template="({0} + {1})",
                domain=f"{MOMENTS} AND {{0}} + {{1}}::INTEGER BETWEEN {{first}} AND {{last}}",
                values=f"{YEARS}, before and after",
                compared={DUCKDB: "d + 7", SPARK: "date_add(d, 7)", TRINO: "date_add('day', 7, d)"},
                rises=rising.later,
                in_order="always",
            ),
        ),
        in_spark="date_add({0}, {1})",
    ),
)

_WRITTEN: Final = (
    Function(
        name="format",
        own=own(duckdb="strftime", spark="date_format", trino="date_format"),
        shape=shapes.pattern,
        evaluations=(
            Evaluation(
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
                changed=_CHANGED,
            ),
        ),
        preimages=(
            Preimage(
                title="strftime",
                rule=moments.by_pattern,
                domain="dates, timestamps, instants by the session's zone; years 1000 to 9999",
                compared={
                    DUCKDB: "strftime(x, '%Y-%m-%d'), and so on in that order",
                    TRINO: "date_format(x, '%Y-%m-%d')",
                },
                missing={SPARK: NOT_YET},
            ),
        ),
        in_spark="date_format({0}, {1})",
    ),
    Function(
        name="cast date to text",
        casts=(Cast(pa.types.is_date, is_string),),
        preimages=(
            Preimage(
                rule=moments.date_as_text,
                domain="dates; years 1000 to 9999",
                compared={DUCKDB: "x::VARCHAR"},
                missing={SPARK: NOT_YET, TRINO: NOT_YET},
            ),
        ),
    ),
)

_CLOCKS: Final = (
    Function(
        name="cast to instant",
        casts=(Cast(_is_without_zone, _is_instant_in_us),),
        preimages=(
            Preimage(
                rule=moments.instant,
                domain="dates, timestamps; years 1 to 9999",
                compared={DUCKDB: "x::TIMESTAMPTZ", SPARK: "CAST(x AS TIMESTAMP)"},
                missing={TRINO: _UTC_CLOCK},
            ),
        ),
    ),
    Function(
        name="cast to wall clock",
        casts=(Cast(is_instant, _is_wall_in_us),),
        preimages=(
            Preimage(
                rule=moments.wall_clock,
                domain="instants by the session's zone; years 1 to 9999",
                compared={DUCKDB: "x::TIMESTAMP", SPARK: "CAST(x AS TIMESTAMP_NTZ)"},
                missing={TRINO: _UTC_CLOCK},
            ),
        ),
    ),
    Function(
        name="timezone",
        called=("timezone",),
        preimages=(
            Preimage(
                rule=moments.at_zone,
                domain="timestamps and instants, zones of the form Area/City and UTC; years 1 to 9999",
                compared={DUCKDB: "x AT TIME ZONE 'Europe/Berlin', timezone('Europe/Berlin', x)"},
                missing={SPARK: "no such function", TRINO: "an instant stays one"},
            ),
        ),
    ),
)

LATER: Final = Preimage(
    title="later",
    rule=moments.later,
    of=lambda types: is_temporal(types[0]),
    domain=_SHIFTED,
    compared={
        DUCKDB: "x + INTERVAL 1 DAY, x + 7",
        SPARK: "x + INTERVAL 1 DAY, date_add(x, 7), add_months(x, 1)",
        TRINO: "x + INTERVAL '1' DAY, date_add('day', 7, x)",
    },
)
"""Additions to a moment; adding numbers has the same name."""
EARLIER: Final = replace(
    LATER,
    title="earlier",
    rule=moments.earlier,
    compared={
        DUCKDB: "x - INTERVAL 1 DAY, x - 7",
        SPARK: "x - INTERVAL 1 DAY, date_sub(x, 7)",
        TRINO: "x - INTERVAL '1' DAY",
    },
)

_COUNTED: Final = (
    Function(
        name="epoch",
        own=own(duckdb="epoch", trino="epoch to_unixtime"),
        evaluations=(
            _since_1970(
                "epoch({0})",
                # For an instant DuckDB adds seconds and their fraction, which may yield the adjacent double.
                of=_is_wall_clock,
                result=DOUBLE,
                values=f"timestamps without a zone, {_SINCE}",
                compared=spelled(duckdb="epoch(ts)", trino="to_unixtime(ts)"),
            ),
        ),
    ),
    Function(
        name="epoch seconds",
        own=own(spark="epoch_s"),
        casts=(Cast(is_instant, pa.types.is_int64, of_column=True),),
        evaluations=(
            _since_1970("epoch_us({0}) // 1000000", compared=spelled(spark="unix_seconds(ts), bigint(ts)")),
        ),
        preimages=(
            Preimage(
                title="epoch_s",
                rule=moments.epoch_seconds,
                domain=_MOMENT,
                compared={SPARK: "unix_seconds(x), CAST(x AS BIGINT)"},
                missing={
                    DUCKDB: "`epoch(x)` is floating-point",
                    TRINO: "`to_unixtime(x)` is floating-point",
                },
            ),
        ),
        in_spark="unix_seconds({0})",
    ),
    Function(
        name="epoch milliseconds",
        form="epoch_ms",
        evaluations=(
            _since_1970(
                "epoch_ms({0})",
                # DuckDB rounds, Spark truncates.
                domain=f"{_FROM_1970} AND epoch_us({{0}}) % 1000 = 0",
                values=f"{_SINCE}, whole milliseconds",
                compared=spelled(duckdb="epoch_ms(ts)", spark="unix_millis(ts)"),
            ),
        ),
        preimages=(
            Preimage(
                title="epoch_ms",
                rule=moments.epoch_milliseconds,
                domain=_MOMENT,
                compared={DUCKDB: "epoch_ms(x)", SPARK: "unix_millis(x)"},
                missing={TRINO: "no such function"},
            ),
        ),
        in_spark="unix_millis({0})",
    ),
    Function(
        name="epoch microseconds",
        form="epoch_us",
        evaluations=(
            _since_1970(
                "epoch_us({0})",
                domain=MOMENTS,
                values=YEARS,
                compared=spelled(duckdb="epoch_us(ts)", spark="unix_micros(ts)"),
            ),
        ),
        preimages=(
            Preimage(
                title="epoch_us",
                rule=moments.epoch_microseconds,
                domain=_MOMENT,
                compared={DUCKDB: "epoch_us(x)", SPARK: "unix_micros(x)"},
                missing={TRINO: "no such function"},
            ),
        ),
        in_spark="unix_micros({0})",
    ),
)

MOMENT_ROWS: Final = (*_WRITTEN, *_PARTS, *_WEEKS, *_DATES, *_CLOCKS, *_COUNTED)
