"""Functions that indexes may be over, as each engine writes them, over values at the edges of their domains.

`ts` is an instant for Spark and a wall clock for Trino, both read in UTC.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pruner.expr.derived.canonical import canonical
from pruner.expr.nodes import Column
from pruner.expr.semantics import Semantics
from pruner.expr.sql import parse_predicate
from pruner.pipeline.evaluation import evaluate
from pruner.schema import Field

_UTC = datetime.UTC


def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=_UTC)


MOMENTS = [
    _moment(text)
    for text in (
        "1900-01-01",
        "1900-02-28 23:59:59.999999",
        "1969-12-31 23:59:59.999999",
        "1970-01-01",
        "1972-06-30 23:59:59",
        "2000-02-29 12:00",
        "2004-12-31 23:30",
        "2005-01-01 00:00:01",
        "2015-12-31",
        "2016-01-03 05:06:07.000001",
        "2020-12-31 11:11:11.999999",
        "2021-01-01",
        "2022-03-27 01:30",
        "2022-10-30 02:30",
        "2024-02-29 09:08:07",
        "9999-12-31 23:59:59.999999",
    )
]
NUMBERS = [0, 1, -1, 7, -7, 8, 127, -128, 255, 1000, -1000, 32767, 99_999, -99_999, 1_000_000, 5]
DOUBLES = [
    0.0,
    -0.0,
    1.5,
    -1.5,
    0.1,
    1e300,
    -1e300,
    5e-324,
    1e308,
    3.0,
    2.0**53,
    0.2,
    0.3,
    -7.0,
    math.inf,
    math.nan,
]
TEXTS = [
    "",
    "a",
    "A",
    "aB",
    " a ",
    "a.b",
    "z" * 40,
    "0",
    "~",
    "\x7f",
    "a'b",
    'a"b',
    "\t",
    "tEXT",
    "Mixed Case",
    "%_",
]


PLAIN = [*TEXTS[:8], *TEXTS[10:12], "  a b  ", *TEXTS[13:], "abcba", "a,b"]
"""Without control characters."""
UNICODE = [
    "",
    "ß",
    "İ",
    "e\u0301",
    "😀",
    "straße",
    "ǆ",
    "ﬁ",
    "Σς",
    "\u200b",
    "\u212a",
    "ı",
    "a",
    "ab",
    "日本語",
]
UNICODE += ["\ufeff"]
DIGITS = ["0", "1", "-1", "7", "42", "-42", "100", "999999999999999999", "-999999999999999999", "2147483648"]
DIGITS += ["-2147483649", "5", "6", "8", "9", "10"]
LISTS = [
    "a,b",
    ",",
    ",,",
    "a,,c",
    "a,b,c,d",
    " , ",
    "x,yz",
    "1,2",
    ",b",
    "a,",
    "a, b",
    "--,--",
    "a,b,",
    "~,~",
]
LISTS += ["A,B", "0,1"]
ROOTS = [abs(each) for each in DOUBLES]


@dataclass(frozen=True)
class Form:
    """One function in the spellings of the engines, and the row of the registry that it stands for."""

    row: str
    duckdb: str | None
    spark: str | None = None
    trino: str | None = None
    of_null: bool = True
    """Whether NULL lies in its domain."""


def _same(row: str, text: str) -> Form:
    return Form(row, text, text, text)


FORMS = (
    Form(
        "format",
        "strftime(ts, '%Y-%m-%d %H:%M:%S')",
        "date_format(ts, 'yyyy-MM-dd HH:mm:ss')",
        "date_format(ts, '%Y-%m-%d %H:%i:%s')",
    ),
    Form(
        "format", "strftime(ts, '%m/%d/%Y')", "date_format(ts, 'MM/dd/yyyy')", "date_format(ts, '%m/%d/%Y')"
    ),
    Form("format", "strftime(ts, '%H')", "date_format(ts, 'HH')", "date_format(ts, '%H')"),
    Form("format", "strftime(ts, '%j')", "date_format(ts, 'DDD')", "date_format(ts, '%j')"),
    *(_same(part, f"{part}(ts)") for part in ("year", "quarter", "month", "day", "hour", "minute", "second")),
    Form("day of year", "dayofyear(ts)", "dayofyear(ts)", "day_of_year(ts)"),
    Form("day of week, Monday 1", "isodow(ts)", None, "day_of_week(ts)"),
    Form("day of week, Sunday 0", "dayofweek(ts)"),
    Form("day of week, Sunday 1", None, "dayofweek(ts)"),
    Form("day of week, Monday 0", None, "weekday(ts)"),
    Form("week", "week(ts)", "weekofyear(ts)", "week(ts)"),
    _same("date", "CAST(ts AS DATE)"),
    *(
        _same("date_trunc", f"date_trunc('{unit}', ts)")
        for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
    ),
    _same("upper", "upper(s)"),
    _same("lower", "lower(s)"),
    _same("length", "length(s)"),
    _same("substring", "substring(s, 2, 3)"),
    Form("substring", "left(s, 2)", "left(s, 2)", "substr(s, 1, 2)"),
    _same("join", "s || '-x'"),
    _same("join", "s || '-' || s"),
    Form("text", "CAST(n AS VARCHAR)", "CAST(n AS STRING)", "CAST(n AS VARCHAR)"),
    _same("double", "CAST(n AS DOUBLE)"),
    _same("add", "n + 3"),
    _same("add", "x + x"),
    _same("subtract", "n - m"),
    _same("subtract", "x - n"),
    _same("multiply", "n * 3"),
    _same("multiply", "x * x"),
    _same("modulo", "n % 8"),
    _same("negate", "-n"),
    _same("abs", "abs(n)"),
    Form("year of week", "isoyear(ts)", "extract(YEAROFWEEK FROM ts)", "year_of_week(ts)"),
    Form("last day", "last_day(ts)", "last_day(ts)", "last_day_of_month(ts)"),
    Form(
        "format",
        "CAST(CAST(ts AS DATE) AS VARCHAR)",
        "CAST(CAST(ts AS DATE) AS STRING)",
        "CAST(CAST(ts AS DATE) AS VARCHAR)",
    ),
    _same("trim", "trim(p)"),
    _same("ltrim", "ltrim(p)"),
    _same("rtrim", "rtrim(p)"),
    _same("reverse", "reverse(p)"),
    _same("replace", "replace(u, 'ß', 'ss')"),
    _same("replace", "replace(s, 'a', '')"),
    _same("translate", "translate(s, 'aTb.', 'xy')"),
    _same("split_part", "split_part(c, ',', 2)"),
    Form("right", "right(s, 3)", "right(s, 3)"),
    _same("lpad", "lpad(s, 5, 'xy')"),
    _same("rpad", "rpad(s, 5, 'xy')"),
    Form("md5", "md5(u)", "md5(u)"),
    Form("sha256", "sha256(u)", "sha2(u, 256)"),
    Form("hex", "hex(u)", "hex(u)"),
    Form("position", "instr(s, 'a')", "instr(s, 'a')", "strpos(s, 'a')"),
    Form("position", "strpos(s, '.b')", "locate('.b', s)", "strpos(s, '.b')"),
    Form("ascii", "ascii(s)", "ascii(s)"),
    Form("bytes", "strlen(u)", "octet_length(u)"),
    Form("bits", "bit_length(u)", "bit_length(u)"),
    Form("integer", "CAST(g AS BIGINT)", "CAST(g AS BIGINT)", "CAST(g AS BIGINT)"),
    _same("coalesce", "coalesce(u, '-')"),
    _same("coalesce", "coalesce(n, 0)"),
    _same("nullif", "nullif(u, 'ß')"),
    _same("nullif", "nullif(n, 7)"),
    Form("greatest", *3 * ("greatest(n, m)",), of_null=False),
    Form("least", *3 * ("least(n, 5)",), of_null=False),
    Form("sign", "sign(m)", None, "sign(m)"),
    Form("floor", "floor(x)", None, "floor(x)"),
    Form("ceil", "ceil(x)", None, "ceil(x)"),
    Form("trunc", "trunc(x)", None, "truncate(x)"),
    _same("sqrt", "sqrt(r)"),
)


def rows(zone: str | None) -> pa.Table:
    """The values, those of a row having nothing to do with each other; the last row is NULL but for its number."""
    columns: dict[str, tuple[list[Any], pa.DataType]] = {
        "ts": (MOMENTS, pa.timestamp("us", "UTC") if zone else pa.timestamp("us")),
        "n": (NUMBERS, pa.int32()),
        "m": (NUMBERS[::-1], pa.int64()),
        "x": (DOUBLES, pa.float64()),
        "s": (TEXTS, pa.string()),
        "p": (PLAIN, pa.string()),
        "u": (UNICODE, pa.string()),
        "g": (DIGITS, pa.string()),
        "c": (LISTS, pa.string()),
        "r": (ROOTS, pa.float64()),
    }
    found: dict[str, Any] = {"k": pa.array(range(len(MOMENTS) + 1), pa.int32())}
    for name, (values, type_) in columns.items():
        plain = [each.replace(tzinfo=None) if name == "ts" and not zone else each for each in values]
        found[name] = pa.array([*plain, None], type_)
    return pa.table(found)


def evaluated(form: Form, dialect: str, table: pa.Table) -> list[Any]:
    """What the kernel makes of a form in the SQL of an engine, in UTC.

    The last row, of NULLs, is left out where NULL lies outside its domain.
    """
    text = str(getattr(form, dialect))
    table = table if form.of_null else table.slice(0, len(table) - 1)

    def find(column: Column) -> Field:
        return Field(column.path, table.schema.field(column.path[0]).type)

    found = canonical(parse_predicate(text, Semantics(engine=dialect, zone="UTC")), find, dialect)
    values = evaluate(found.expression, {path: table.column(path[0]) for path in found.columns}).values
    assert values is not None, text
    return values.to_pylist()


def comparable(value: Any) -> Any:
    """A value that equals itself, however an engine's client gives it."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else value.hex()
        case datetime.datetime():
            return value.replace(tzinfo=None).isoformat(timespec="microseconds")
        case _:
            return value
