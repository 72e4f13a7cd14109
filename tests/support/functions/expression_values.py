"""Values at the edges of the domains of functions that indexes may be over, as the columns of one table.

`ts` is an instant for Spark and a wall clock for Trino, both read in UTC.
"""

from __future__ import annotations

import datetime
import math
from typing import Any

import pyarrow as pa

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
SINCE = [max(each, MOMENTS[3]) for each in MOMENTS]
DATES = [each.date() for each in MOMENTS]
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
HALVES = [
    0.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    0.48,
    1e14 + 0.5,
    -1e14 - 0.5,
    1e15,
    0.75,
    -0.75,
    2.0**31,
    3.0,
    -7.25,
    0.1,
]
CENTS = [
    0.0,
    0.1,
    -0.1,
    1.25e8,
    1.004,
    -1.006,
    2.671,
    0.999,
    1e-7,
    12345.678,
    -12345.678,
    0.01,
    99.99,
    3.0,
    -3.0,
    7.777,
]
WHOLE = [math.floor(each) for each in HALVES]
OBJECTS = [
    '{"a": "x"}',
    '{"a":""}',
    '{"a":1}',
    '{"a":-17,"b":2}',
    '{"b":{"a":2}}',
    '{"b":{"a":2},"a":3}',
    '{"a":null}',
    '{"a": true}',
    '{"a": false , "c": [1, 2, {"a": 9}]}',
    "{}",
    ' {"A":1}',
    '{"a":"ß 日本 😀"}',
    '{"a":999999999999999999}',
    '{"a":" b "}',
    '{"a":"2024-01-05","b":1.50,"c":1e9}',
    '{"a":0,"b":"a"}',
]
WRITTEN_DATES = [
    "1900-01-01",
    "1969-12-31",
    "1970-01-01",
    "2000-02-29",
    "2024-02-29",
    "9999-12-31",
    "1900-02-28",
    "2023-10-29",
    "2016-12-31",
    "1999-12-31",
    "2001-09-09",
    "2038-01-19",
    "1918-11-11",
    "2100-02-28",
    "2024-06-30",
    "2024-07-01",
]
SIGNS = [32, 33, 39, 48, 57, 64, 65, 90, 92, 96, 97, 122, 123, 124, 125, 126]
SECONDS = [
    0,
    1,
    -1,
    86_399,
    -86_401,
    2**31 - 1,
    2**31,
    -(2**31),
    -2_208_988_800,
    253_402_300_799,
    5,
    951_782_400,
]
SECONDS += [1_709_164_800, 1_711_846_799, 1_711_846_800, 1_729_994_400]


def rows(zone: str | None) -> pa.Table:
    """The values, those of a row having nothing to do with each other; the last row is NULL but for its number."""
    stamp = pa.timestamp("us", "UTC") if zone else pa.timestamp("us")
    columns: dict[str, tuple[list[Any], pa.DataType]] = {
        "ts": (MOMENTS, stamp),
        "n": (NUMBERS, pa.int32()),
        "m": (NUMBERS[::-1], pa.int64()),
        "x": (DOUBLES, pa.float64()),
        "s": (TEXTS, pa.string()),
        "p": (PLAIN, pa.string()),
        "u": (UNICODE, pa.string()),
        "g": (DIGITS, pa.string()),
        "c": (LISTS, pa.string()),
        "r": (ROOTS, pa.float64()),
        "h": (HALVES, pa.float64()),
        "q": (CENTS, pa.float64()),
        "w": ([float(each) for each in WHOLE], pa.float64()),
        "b": (SIGNS, pa.int32()),
        "t": (SECONDS, pa.int64()),
        "j": (OBJECTS, pa.string()),
        "y": (WRITTEN_DATES, pa.string()),
        "d": (DATES, pa.date32()),
        "e": (DATES[::-1], pa.date32()),
        "f": ([each.replace(year=min(max(each.year, 1901), 9998)) for each in DATES], pa.date32()),
        "ms": ([each.replace(microsecond=each.microsecond // 1000 * 1000) for each in SINCE], stamp),
        "since": (SINCE, stamp),
    }
    found: dict[str, Any] = {"k": pa.array(range(len(MOMENTS) + 1), pa.int32())}
    for name, (values, type_) in columns.items():
        plain = [each.replace(tzinfo=None) if type_ == stamp and not zone else each for each in values]
        found[name] = pa.array([*plain, None], type_)
    return pa.table(found)
