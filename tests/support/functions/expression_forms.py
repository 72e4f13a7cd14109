"""Functions that indexes may be over, as each engine writes them: see `expression_values` for the columns."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pruner.expr.derived.canonical import canonical
from pruner.expr.nodes import Column
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.pipeline.evaluation import evaluate
from pruner.schema import Field


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


_CONDITIONS = (
    ("is equal", "n = 7"),
    ("is equal", "s = 'a'"),
    ("is equal", "s <> 'A'"),
    ("is less", "n < 7"),
    ("is less", "s > 'a'"),
    ("is at most", "m <= 0"),
    ("is at most", "s <= 'Mixed'"),
    ("is null", "n IS NULL"),
    ("is null", "u IS NOT NULL"),
    ("not", "NOT (n > 0)"),
    ("both", "n > 0 AND s > 'a' AND m > -8"),
    ("either", "n = 0 OR s = 'aB' OR u = 'ß'"),
)
NEWER = (
    _same("round", "round(h)"),
    _same("round", "round(q, 2)"),
    Form("whole", "CAST(w AS BIGINT)", "CAST(w AS BIGINT)", "CAST(w AS BIGINT)"),
    Form("floor", "CAST(floor(h) AS BIGINT)", "floor(h)", "CAST(floor(h) AS BIGINT)"),
    Form("ceil", "CAST(ceil(h) AS BIGINT)", "ceil(h)", "CAST(ceil(h) AS BIGINT)"),
    Form("quotient", "x / 3", "x / 3", "x / 3e0"),
    Form("quotient", "m / 7", "m / 7", "CAST(m AS DOUBLE) / 7e0"),
    Form("whole quotient", "n // 8", "n DIV 8", "n / 8"),
    Form("bit and", "n & 12", "n & 12", "bitwise_and(n, 12)"),
    Form("bit or", "n | m", "n | m", "bitwise_or(n, m)"),
    Form("bit xor", "xor(m, 255)", "m ^ 255", "bitwise_xor(m, 255)"),
    Form("bit count", "bit_count(b)", "bit_count(b)", "bit_count(b, 64)"),
    _same("chr", "chr(b)"),
    Form("moment of seconds", "to_timestamp(t)", "timestamp_seconds(t)"),
    Form("json field", "j ->> '$.a'", "get_json_object(j, '$.a')", "json_extract_scalar(j, '$.a')"),
    Form("date of text", "CAST(y AS DATE)", "CAST(y AS DATE)", "CAST(y AS DATE)"),
    Form("levenshtein", "levenshtein(s, 'aBc')", "levenshtein(s, 'aBc')", "levenshtein_distance(s, 'aBc')"),
    Form("levenshtein", "levenshtein(s, p)", "levenshtein(s, p)", "levenshtein_distance(s, p)"),
    Form("repeat", "repeat(u, 3)", "repeat(u, 3)"),
    Form("microsecond of minute", "microsecond(ts)"),
    Form("millisecond of minute", "millisecond(ts)"),
    Form("millisecond of second", None, None, "millisecond(ts)"),
    Form("epoch", "epoch(since::TIMESTAMP)", None, "to_unixtime(since)"),
    Form("epoch seconds", None, "unix_seconds(since)"),
    Form("epoch milliseconds", "epoch_ms(ms)", "unix_millis(ms)"),
    Form("epoch microseconds", "epoch_us(ts)", "unix_micros(ts)"),
    Form("days between", "date_diff('day', d, e)", "datediff(e, d)", "date_diff('day', d, e)"),
    Form("days between", "e - d", "date_diff(e, d)"),
    Form("days later", "f + 7", "date_add(f, 7)", "date_add('day', 7, f)"),
    Form("days later", "f - 1", "f - INTERVAL '1' DAY", "f - INTERVAL '1' DAY"),
    Form("first day", None, "trunc(d, 'MM')", "date_trunc('month', d)"),
    Form("first day", None, "trunc(d, 'week')", "date_trunc('week', d)"),
    Form("md5", "md5(u)", "md5(u)", "lower(to_hex(md5(to_utf8(u))))"),
    Form("md5", "upper(md5(u))", "upper(md5(u))", "to_hex(md5(to_utf8(u)))"),
    Form("sha256", "sha256(u)", "sha2(u, 256)", "lower(to_hex(sha256(to_utf8(u))))"),
    Form("hex", "hex(u)", "hex(u)", "to_hex(to_utf8(u))"),
    Form("bytes", "strlen(u)", "octet_length(u)", "length(to_utf8(u))"),
    *(_same(row, f"CASE WHEN {text} THEN 'x' ELSE 'y' END") for row, text in _CONDITIONS),
    _same("if", "CASE WHEN n > 0 THEN s WHEN m > 0 THEN 'm' ELSE 'o' END"),
    _same("if", "CASE WHEN n > 0 THEN s WHEN m > 0 THEN 'm' END"),
    _same("if", "CASE n WHEN 1 THEN 10 WHEN 7 THEN 70 ELSE 0 END"),
    _same("if", "if(n > 5, 1, 2)"),
    _same("if", "CASE WHEN s = 'a' THEN 1 END"),
    _same("if", "CASE WHEN n > 0 THEN x ELSE 0e0 END"),
    _same("if", "CASE WHEN n > 0 THEN 1e0 END"),
)
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
    *NEWER,
)


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
