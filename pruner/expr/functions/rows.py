"""The functions of a column that statistics of the column serve: one row for each.

A row names the engines by which it was proved, each with its spelling. Tests run these engines over values at the edges
of every type, and compare what comes out with the rule. For an engine that a row does not name the function is unknown,
and so keeps every file. Decoders translate what engines call a function to the row's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pruner.expr.engines import SqlEngine
from pruner.expr.functions import cycles, decimals, moments, numbers, periods, texts, written

if TYPE_CHECKING:
    from pruner.expr.functions.inverse import Inverse, Use

DUCKDB, SPARK, TRINO = SqlEngine.DUCKDB, SqlEngine.SPARK, SqlEngine.TRINO

_INTEGERS: Final = "signed integers; results that fit the column's type"
_DECIMALS: Final = "decimals, and integers with a decimal; results that fit the type of the result"
_WALL: Final = "dates, timestamps, instants by the session's zone; years 1 to 9999"
_MOMENT: Final = "dates, timestamps, instants; years 1 to 9999"
_CLOCK: Final = (
    "timestamps; instants by the session's zone, which is fixed, or Area/City and the years 1970 to 2037"
)
_WEEK: Final = f"dates, {_CLOCK}"
_NOT_YET: Final = "not compared yet"
_PERIOD: Final = "dates, timestamps, instants by the session's zone; years 1900 to 2199"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function with its rule, and the engines that were compared with it."""

    name: str
    """Its name in the expression form."""
    rule: Callable[[Use], Inverse]
    domain: str
    """Of which values the rule was proved, for people."""
    operators: str = "all"
    """Comparisons that it serves, for people."""
    written: Mapping[str, str]
    """The engines by which it was proved, and how each spells it."""
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why other engines are not among them, for people."""


_ALL: Final = (
    Function(
        name="add",
        rule=numbers.added,
        domain=_INTEGERS,
        written={DUCKDB: "x + 1", SPARK: "x + 1", TRINO: "x + 1"},
    ),
    Function(
        name="subtract",
        rule=numbers.subtracted,
        domain=_INTEGERS,
        written={DUCKDB: "x - 1, 1 - x", SPARK: "x - 1, 1 - x", TRINO: "x - 1, 1 - x"},
    ),
    Function(
        name="multiply",
        rule=numbers.multiplied,
        domain=_INTEGERS,
        written={DUCKDB: "x * 2", SPARK: "x * 2", TRINO: "x * 2"},
    ),
    Function(
        name="negate",
        rule=numbers.negated,
        domain=_INTEGERS,
        written={DUCKDB: "-x", SPARK: "-x", TRINO: "-x"},
    ),
    Function(
        name="abs",
        rule=numbers.absolute,
        domain=_INTEGERS,
        written={DUCKDB: "abs(x)", SPARK: "abs(x)", TRINO: "abs(x)"},
    ),
    *(
        Function(
            name=f"{name} decimals",
            rule=rule,
            domain=_DECIMALS,
            written={DUCKDB: written, TRINO: written},
            missing={SPARK: "rounds to fewer digits"},
        )
        for name, rule, written in (
            ("add", decimals.added, "x + 0.5"),
            ("subtract", decimals.subtracted, "x - 0.5, 0.5 - x"),
            ("multiply", decimals.multiplied, "x * 1.19"),
            ("negate", decimals.negated, "-x"),
        )
    ),
    Function(
        name="modulo",
        rule=cycles.remainder,
        domain="signed integers; divisors from 1",
        written={DUCKDB: "x % 8, mod(x, 8)", SPARK: "x % 8, mod(x, 8)", TRINO: "x % 8, mod(x, 8)"},
    ),
    Function(
        name="cast to text",
        rule=numbers.text_of_integer,
        domain="integers",
        operators="=, <>, IN",
        written={DUCKDB: "x::VARCHAR", SPARK: "CAST(x AS STRING)", TRINO: "CAST(x AS varchar)"},
    ),
    Function(
        name="cast date to text",
        rule=written.date_as_text,
        domain="dates; years 1000 to 9999",
        written={DUCKDB: "x::VARCHAR"},
        missing={SPARK: _NOT_YET, TRINO: _NOT_YET},
    ),
    Function(
        name="strftime",
        rule=written.by_pattern,
        domain="dates, timestamps, instants by the session's zone; years 1000 to 9999",
        written={
            DUCKDB: "strftime(x, '%Y-%m-%d'), and so on in that order",
            TRINO: "date_format(x, '%Y-%m-%d')",
        },
        missing={SPARK: _NOT_YET},
    ),
    Function(
        name="cast to an integer",
        rule=numbers.widened,
        domain="integers that fit",
        written={DUCKDB: "x::BIGINT", SPARK: "CAST(x AS BIGINT)", TRINO: "CAST(x AS bigint)"},
    ),
    Function(
        name="cast to date",
        rule=moments.date,
        domain=_WALL,
        written={DUCKDB: "x::DATE", SPARK: "CAST(x AS DATE), to_date(x)", TRINO: "CAST(x AS date), date(x)"},
    ),
    Function(
        name="cast to instant",
        rule=moments.instant,
        domain="dates, timestamps; years 1 to 9999",
        written={DUCKDB: "x::TIMESTAMPTZ", SPARK: "CAST(x AS TIMESTAMP)"},
        missing={TRINO: "instants are shown as UTC's clock"},
    ),
    Function(
        name="cast to wall clock",
        rule=moments.wall_clock,
        domain="instants by the session's zone; years 1 to 9999",
        written={DUCKDB: "x::TIMESTAMP", SPARK: "CAST(x AS TIMESTAMP_NTZ)"},
        missing={TRINO: "instants are shown as UTC's clock"},
    ),
    Function(
        name="timezone",
        rule=moments.at_zone,
        domain="timestamps and instants, zones of the form Area/City and UTC; years 1 to 9999",
        written={DUCKDB: "x AT TIME ZONE 'Europe/Berlin', timezone('Europe/Berlin', x)"},
        missing={SPARK: "no such function", TRINO: "an instant stays one"},
    ),
    Function(
        name="later",
        rule=moments.later,
        domain="dates, timestamps, instants; results in the years 1 to 9999",
        written={
            DUCKDB: "x + INTERVAL 1 DAY, x + 7",
            SPARK: "x + INTERVAL 1 DAY, date_add(x, 7), add_months(x, 1)",
            TRINO: "x + INTERVAL '1' DAY, date_add('day', 7, x)",
        },
    ),
    Function(
        name="earlier",
        rule=moments.earlier,
        domain="dates, timestamps, instants; results in the years 1 to 9999",
        written={
            DUCKDB: "x - INTERVAL 1 DAY, x - 7",
            SPARK: "x - INTERVAL 1 DAY, date_sub(x, 7)",
            TRINO: "x - INTERVAL '1' DAY",
        },
    ),
    Function(
        name="year",
        rule=moments.year,
        domain=_WALL,
        written={DUCKDB: "year(x)", SPARK: "year(x)", TRINO: "year(x)"},
    ),
    Function(
        name="quarter",
        rule=periods.quarter,
        domain=_PERIOD,
        written={DUCKDB: "quarter(x)", SPARK: "quarter(x)", TRINO: "quarter(x)"},
    ),
    Function(
        name="month",
        rule=periods.month,
        domain=_PERIOD,
        written={DUCKDB: "month(x)", SPARK: "month(x)", TRINO: "month(x)"},
    ),
    Function(
        name="day",
        rule=periods.day,
        domain="dates, timestamps, instants by the session's zone; years 1970 to 2069",
        written={
            DUCKDB: "day(x), extract(day FROM x)",
            SPARK: "day(x), extract(day FROM x)",
            TRINO: "day(x), extract(day FROM x)",
        },
    ),
    Function(
        name="hour",
        rule=cycles.hour,
        domain=_CLOCK,
        written={
            DUCKDB: "hour(x), extract(hour FROM x)",
            SPARK: "hour(x), extract(hour FROM x)",
            TRINO: "hour(x), extract(hour FROM x)",
        },
    ),
    Function(
        name="minute",
        rule=cycles.minute,
        domain=_CLOCK,
        written={DUCKDB: "minute(x)", SPARK: "minute(x)", TRINO: "minute(x)"},
    ),
    Function(
        name="second",
        rule=cycles.second,
        domain=_CLOCK,
        written={DUCKDB: "second(x)", SPARK: "second(x)", TRINO: "second(x)"},
    ),
    Function(
        name="day of week, Sunday 0",
        rule=cycles.weekday_from_sunday,
        domain=_WEEK,
        written={DUCKDB: "dayofweek(x), weekday(x)"},
        missing={SPARK: _NOT_YET, TRINO: _NOT_YET},
    ),
    Function(
        name="day of week, Monday 1",
        rule=cycles.weekday_from_monday,
        domain=_WEEK,
        written={DUCKDB: "isodow(x)", TRINO: "day_of_week(x)"},
        missing={SPARK: _NOT_YET},
    ),
    Function(
        name="date_trunc",
        rule=moments.truncated,
        domain=_WALL,
        written={
            DUCKDB: "date_trunc('day', x)",
            SPARK: "date_trunc('day', x), trunc(x, 'month')",
            TRINO: "date_trunc('day', x)",
        },
    ),
    Function(
        name="days between",
        rule=moments.days_between,
        domain="dates; years 1 to 9999",
        written={
            DUCKDB: "date_diff('day', x, DATE '2024-05-01')",
            TRINO: "date_diff('day', x, DATE '2024-05-01')",
        },
        missing={SPARK: _NOT_YET},
    ),
    Function(
        name="epoch_s",
        rule=moments.epoch_seconds,
        domain=_MOMENT,
        written={SPARK: "unix_seconds(x), CAST(x AS BIGINT)"},
        missing={DUCKDB: "`epoch(x)` is floating-point", TRINO: "`to_unixtime(x)` is floating-point"},
    ),
    Function(
        name="epoch_ms",
        rule=moments.epoch_milliseconds,
        domain=_MOMENT,
        written={DUCKDB: "epoch_ms(x)", SPARK: "unix_millis(x)"},
        missing={TRINO: "no such function"},
    ),
    Function(
        name="epoch_us",
        rule=moments.epoch_microseconds,
        domain=_MOMENT,
        written={DUCKDB: "epoch_us(x)", SPARK: "unix_micros(x)"},
        missing={TRINO: "no such function"},
    ),
    Function(
        name="left",
        rule=texts.beginning,
        domain="text",
        written={
            DUCKDB: "left(x, 3), substr(x, 1, 3)",
            SPARK: "left(x, 3), substr(x, 1, 3)",
            TRINO: "substr(x, 1, 3)",
        },
    ),
    Function(
        name="lower",
        rule=texts.lowered,
        domain="text, compared with ASCII",
        operators="=, <>, IN",
        written={DUCKDB: "lower(x)", SPARK: "lower(x)", TRINO: "lower(x)"},
    ),
    Function(
        name="upper",
        rule=texts.raised,
        domain="text, compared with ASCII",
        operators="=, <>, IN",
        written={DUCKDB: "upper(x)", SPARK: "upper(x)", TRINO: "upper(x)"},
    ),
)

READ_FROM_CLOCK: Final = frozenset(
    {"hour", "minute", "second", "day of week, Sunday 0", "day of week, Monday 1"}
)
"""Functions of a column alone: of what the clocks of another zone show they are not taken apart."""

FUNCTIONS: Final = {function.name: function for function in _ALL}
"""Every function by its name in the expression form."""
