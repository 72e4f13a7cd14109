"""Functions as each engine writes them, and values at the edges of every type, to hold rules against engines.

`c` is the column. A form stands for several functions of the registry at once where one spelling covers them.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pruner.expr.functions.registry import named
from pruner.expr.nodes import Call, IsNull
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate

_EPOCH = datetime.date(1970, 1, 1)
SECOND = 1_000_000
DAY = 86_400 * SECOND


@dataclass(frozen=True)
class Form:
    """A function of a column, with its spelling by engine, and the types of columns that it takes.

    `result` is what its results are written as: number, date, wall (a timestamp), instant or text.
    """

    written: dict[str, str]
    types: tuple[str, ...]
    result: str

    def __str__(self) -> str:
        return next(iter(self.written.values()))


def _same(text: str, types: tuple[str, ...], result: str, engines: str = "duckdb spark trino") -> Form:
    return Form(dict.fromkeys(engines.split(), text), types, result)


_INTEGERS = ("int16", "int32", "int64")
_WALLS = ("date", "wall")
_MOMENTS = ("date", "wall", "instant")

FORMS: tuple[Form, ...] = (
    _same("c + 1", _INTEGERS, "number"),
    _same("1 + c", ("int64",), "number"),
    _same("c - 7", _INTEGERS, "number"),
    _same("7 - c", _INTEGERS, "number"),
    _same("c * 3", _INTEGERS, "number"),
    _same("c * -2", ("int64", "int32"), "number"),
    _same("-c", _INTEGERS, "number"),
    _same("abs(c)", _INTEGERS, "number"),
    _same("abs(c + 1)", ("int32",), "number"),
    _same("2 * (5 - c)", ("int64",), "number"),
    _same("CAST(c AS SMALLINT)", ("int64", "int32"), "number"),
    _same("CAST(c AS BIGINT)", ("int16", "int32"), "number"),
    Form(
        {"duckdb": "CAST(c AS VARCHAR)", "spark": "CAST(c AS STRING)", "trino": "CAST(c AS VARCHAR)"},
        _INTEGERS,
        "text",
    ),
    *(
        _same(text, ("decimal",), "number", "duckdb trino")
        for text in (
            "c + 1",
            "0.125 + c",
            "c - 0.5",
            "7.25 - c",
            "c * 1.19",
            "c * -2",
            "-c",
            "2 * (c + 0.5)",
            "c * 1000000000000000",
        )
    ),
    _same("c * 1.19", _INTEGERS, "number", "duckdb trino"),
    _same("c - 0.5", _INTEGERS, "number", "duckdb trino"),
    _same("c % 8", _INTEGERS, "number"),
    _same("mod(c, 7)", ("int64",), "number", "duckdb trino"),
    _same("c % 1", ("int32",), "number"),
    _same("c % 3000000000", ("int64",), "number"),
    _same("hour(c)", ("wall", "instant"), "number"),
    _same("extract(hour FROM c)", ("wall",), "number"),
    _same("minute(c)", ("wall", "instant"), "number"),
    _same("second(c)", ("wall", "instant"), "number"),
    _same("day(c)", _MOMENTS, "number"),
    _same("dayofweek(c)", _MOMENTS, "number", "duckdb"),
    _same("weekday(c)", ("date",), "number", "duckdb"),
    _same("isodow(c)", _MOMENTS, "number", "duckdb"),
    _same("day_of_week(c)", _WALLS, "number", "trino"),
    _same("extract(dow FROM c)", ("wall",), "number", "trino"),
    _same("date_format(c, '%Y-%m-%d')", _WALLS, "text", "trino"),
    _same("date_format(c, '%Y-%m')", ("wall",), "text", "trino"),
    _same("date_format(c, '%Y%m%d%H')", ("wall",), "text", "trino"),
    _same("date_format(c, '%Y/%m/%d %H:%i:%s')", ("wall",), "text", "trino"),
    _same("date_diff('day', c, DATE '2024-02-29')", ("date",), "number", "duckdb trino"),
    _same("date_diff('day', DATE '1969-12-31', c)", ("date",), "number", "duckdb trino"),
    _same("c AT TIME ZONE 'Europe/Berlin'", ("wall",), "instant", "duckdb"),
    _same("c AT TIME ZONE 'America/New_York'", ("instant",), "wall", "duckdb"),
    _same("timezone('Asia/Kolkata', c)", ("instant",), "wall", "duckdb"),
    _same("CAST(c AT TIME ZONE 'Pacific/Apia' AS DATE)", ("instant",), "date", "duckdb"),
    _same("hour(c AT TIME ZONE 'Europe/Berlin')", ("instant",), "number", "duckdb"),
    _same("isodow(c AT TIME ZONE 'UTC')", ("instant",), "number", "duckdb"),
    _same("strftime(c, '%Y-%m-%d')", _MOMENTS, "text", "duckdb"),
    _same("strftime(c, '%Y-%m')", _MOMENTS, "text", "duckdb"),
    _same("strftime(c, '%Y%m%d%H')", ("wall",), "text", "duckdb"),
    _same("strftime(c, '%Y/%m/%d %H:%M:%S')", ("wall", "instant"), "text", "duckdb"),
    _same("CAST(c AS VARCHAR)", ("date",), "text", "duckdb"),
    _same("year(c)", _MOMENTS, "number"),
    _same("quarter(c)", _MOMENTS, "number"),
    _same("month(c)", _MOMENTS, "number"),
    _same("CAST(c AS DATE)", ("wall", "instant"), "date"),
    _same("year(CAST(c AS DATE))", ("wall", "instant"), "number"),
    *(
        _same(f"date_trunc('{unit}', c)", types, result, engines)
        for unit, types, result, engines in (
            ("year", ("date",), "date", "duckdb trino"),
            ("month", ("date",), "date", "duckdb trino"),
            ("week", ("date",), "date", "duckdb trino"),
            ("day", ("wall",), "wall", "duckdb trino"),
            ("hour", ("wall",), "wall", "duckdb trino"),
            ("quarter", ("wall",), "wall", "duckdb trino"),
            ("week", ("wall",), "wall", "duckdb trino"),
            ("second", ("wall",), "wall", "duckdb trino"),
            ("day", ("instant",), "instant", "duckdb spark"),
            ("month", ("instant",), "instant", "duckdb spark"),
            ("hour", ("instant",), "instant", "duckdb spark"),
            ("mm", ("instant",), "instant", "spark"),
            ("week", ("instant",), "instant", "spark"),
            ("minute", ("instant",), "instant", "spark"),
            # Spark makes an instant of a value without a zone before it cuts it off.
            *((unit, _WALLS, "instant", "spark") for unit in ("year", "quarter", "month", "week", "day")),
            *((unit, ("wall",), "instant", "spark") for unit in ("hour", "minute", "second", "millisecond")),
        )
    ),
    *(_same(f"trunc(c, '{unit}')", ("date",), "date", "spark") for unit in ("year", "MM", "quarter", "week")),
    _same("c + INTERVAL '1' DAY", ("wall",), "wall"),
    _same("c - INTERVAL '36' HOUR", ("wall",), "wall"),
    _same("c + INTERVAL '1' MONTH", ("wall",), "wall"),
    _same("c - INTERVAL '13' MONTH", ("wall",), "wall"),
    _same("c + INTERVAL '1' DAY", ("instant",), "instant", "duckdb spark"),
    _same("c - INTERVAL '5' HOUR", ("instant",), "instant", "duckdb spark"),
    _same("c - INTERVAL '36' HOUR", ("instant",), "instant", "duckdb spark"),
    _same("c + INTERVAL '1' MONTH", ("date",), "wall", "duckdb"),
    _same("c + INTERVAL '1' MONTH", ("date",), "date", "spark trino"),
    _same("c - INTERVAL '13' MONTH", ("date",), "date", "spark trino"),
    _same("add_months(c, -3)", ("date",), "date", "spark"),
    _same("c - INTERVAL '10' DAY", ("date",), "wall", "duckdb"),
    _same("c - INTERVAL '10' DAY", ("date",), "date", "spark trino"),
    Form({"duckdb": "c + 7", "spark": "date_add(c, 7)", "trino": "date_add('day', 7, c)"}, ("date",), "date"),
    Form({"duckdb": "c - 7", "spark": "date_sub(c, 7)"}, ("date",), "date"),
    _same("date_add(c, -400)", ("date",), "date", "spark"),
    _same("epoch_ms(c)", _MOMENTS, "number", "duckdb"),
    _same("epoch_us(c)", _MOMENTS, "number", "duckdb"),
    _same("unix_seconds(c)", ("instant",), "number", "spark"),
    _same("unix_millis(c)", ("instant",), "number", "spark"),
    _same("unix_micros(c)", ("instant",), "number", "spark"),
    _same("CAST(c AS BIGINT)", ("instant",), "number", "spark"),
    Form({"duckdb": "CAST(c AS TIMESTAMPTZ)", "spark": "CAST(c AS TIMESTAMP)"}, _WALLS, "instant"),
    _same("unix_micros(CAST(c AS TIMESTAMP))", ("wall",), "number", "spark"),
    _same("year(CAST(c AS TIMESTAMP))", ("wall",), "number", "spark"),
    Form({"duckdb": "CAST(c AS TIMESTAMP)", "spark": "CAST(c AS TIMESTAMP_NTZ)"}, ("instant",), "wall"),
    _same("to_date(c)", ("wall", "instant"), "date", "spark"),
    _same("extract(year FROM c)", _MOMENTS, "number"),
    _same("extract(month FROM c)", _MOMENTS, "number"),
    _same("date_part('quarter', c)", _MOMENTS, "number", "duckdb spark"),
    _same("year(c) + 1", _MOMENTS, "number"),
    _same("substr(c, 1, 2)", ("text",), "text"),
    _same("substring(c, 1, 3)", ("text",), "text"),
    Form({"duckdb": "left(c, 1)", "spark": "left(c, 1)"}, ("text",), "text"),
    _same("lower(c)", ("text",), "text"),
    _same("upper(c)", ("text",), "text"),
    _same("lower(substr(c, 1, 2))", ("text",), "text"),
)

ARROW_TYPES = {
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "date": pa.date32(),
    "wall": pa.timestamp("us"),
    "instant": pa.timestamp("us", "UTC"),
    "decimal": pa.decimal128(18, 2),
    "text": pa.string(),
}


def _decimals() -> list[int]:
    """Decimals of two digits behind the point, as whole numbers."""
    top = 10**18 - 1
    near = [
        top,
        top - 1,
        top - 49,
        top - 100,
        top // 2,
        84033613445378151,
        84033613445378152,
        10**16,
        10**5,
        12345,
    ]
    return sorted({*near, *(-each for each in near), *range(-60, 61, 10), *range(-3, 4), 8403, 8404})


def _integers(bits: int) -> list[int]:
    top = 2 ** (bits - 1)
    near = [-top, -top + 1, -top + 7, -top // 3, top // 3, top - 8, top - 7, top - 2, top - 1]
    wanted = {*near, *range(-8, 9), 100, -100, 2**15 - 1, -(2**15)}
    return sorted(each for each in wanted if -top <= each < top)


_DATES = [
    datetime.date(*each)
    for each in (
        (1, 1, 1), (1, 1, 9), (1, 2, 1), (1000, 12, 31), (1582, 10, 4), (1582, 10, 5), (1582, 10, 15),
        (1582, 10, 16), (1883, 11, 18), (1893, 4, 1), (1899, 12, 31), (1900, 1, 1), (1900, 2, 28), (1900, 3, 1),
        (1969, 12, 31), (1970, 1, 1), (1970, 1, 4), (1972, 2, 29), (1996, 12, 30), (2000, 2, 29), (2000, 12, 31),
        (2019, 12, 30), (2020, 12, 31), (2021, 1, 3), (2023, 1, 29), (2023, 1, 31), (2023, 2, 28), (2023, 3, 31),
        (2024, 1, 31), (2024, 2, 29), (2024, 3, 30), (2024, 3, 31), (2024, 5, 31), (2024, 6, 30), (2024, 10, 27),
        (2024, 12, 31), (2037, 12, 31), (2199, 12, 31), (2200, 1, 1), (2255, 6, 5), (9998, 12, 1), (9999, 12, 31),
    )
]  # fmt: skip
_TIMES = [0, 1, 3600 * SECOND, 3600 * SECOND + 1, DAY // 2, DAY - SECOND, DAY - 1]


def _days() -> list[int]:
    days = [(each - _EPOCH).days for each in _DATES]
    return sorted({near for day in days for near in (day - 1, day, day + 1)} | {-1_000_000, 3_000_000})


def _moments() -> list[int]:
    days = [(each - _EPOCH).days for each in _DATES]
    return sorted(
        {day * DAY + time for day in days for time in _TIMES} | {-1_000_000 * DAY, 3_000_000 * DAY, -1}
    )


_TEXTS = [
    "", " ", "a", "A", "ab", "AB", "Ab", "abc", "ABC", "abd", "b", "B", "k", "K", "\u212a", "\u212ab", "ki", "KI",
    "\u212aI", "\u212a\u0130", "i", "I", "\u0130", "\u0131", "i\u0307", "ss", "SS", "Ss", "\u00df", "\u1e9e", "\u017f",
    "\u017fs", "s\u017f", "ff", "FF", "\ufb00", "\ufb01", "\ufb04", "st", "\ufb06", "ST", "\u00e9", "e\u0301", "E",
    "\U00010000", "\U00010400", "\U00010428", "\uffff", "\u07ff", "\u0800", "z", "Z", "~", "\x01", "1", "10", "-1",
    "\u00e5", "\u212b", "\u03c3", "\u03c2", "\u03a3", "\u01c5", "\u0149", "\u0390", "a\u0300b", "abcdef",
]  # fmt: skip


def values_of(kind: str) -> list[Any]:
    """Values of the storage domain of a type, NULL among them."""
    match kind:
        case "date":
            return [*_days(), None]
        case "wall" | "instant":
            return [*_moments(), None]
        case "decimal":
            return [*_decimals(), None]
        case "text":
            return [None, *(text.encode() for text in sorted(_TEXTS))]
        case _:
            return [*_integers(int(kind.removeprefix("int"))), None]


def column(values: list[Any], kind: str) -> pa.Array:
    """An Arrow array of values of the storage domain."""
    type_ = ARROW_TYPES[kind]
    if kind == "decimal":
        return pa.array([None if each is None else Decimal(each).scaleb(-2) for each in values], type_)
    if kind == "text":
        return pa.array([None if each is None else each.decode() for each in values], type_)
    width = pa.int32() if kind == "date" else pa.int64()
    if kind in ("date", "wall", "instant"):
        return pa.array(values, width).view(type_)
    return pa.array(values, type_)


def functions_in(engine: str) -> set[str]:
    """The rows of the registry that an engine's spellings of forms come to, by their texts."""
    semantics = replace(Semantics.of(engine), zone="UTC")
    found: set[str] = set()
    for form in FORMS:
        for kind in form.types if engine in form.written else ():
            found |= _functions(parse_predicate(f"{form.written[engine]} IS NULL", semantics), kind, engine)
    return found


def _functions(node: Any, kind: str, engine: str) -> set[str]:
    match node:
        case IsNull(operand):
            return _functions(operand, kind, engine)
        case Call("strftime" | "date_format", (operand, _)):
            return {"strftime"} | _functions(operand, kind, engine)
        case Call("cast", (operand,), target):
            return _casts(target, kind) | _functions(operand, kind, engine)
        case Call(name, arguments):
            spelled = named(Call(name, arguments), engine)
            known = {name} if isinstance(spelled, str) or name == "left" else {name, spelled.function}
            moments = {"add": "later", "subtract": "earlier"} if kind in ("date", "wall", "instant") else {}
            of_kind = {f"{each} decimals" if kind == "decimal" else moments.get(each, each) for each in known}
            return of_kind.union(*(_functions(each, kind, engine) for each in arguments))
        case _:
            return set()


def _casts(target: Any, kind: str) -> set[str]:
    types = pa.types
    names = {
        "cast to date": types.is_date(target),
        "cast to text": types.is_string(target) and kind.startswith("int"),
        "cast date to text": types.is_string(target) and kind == "date",
        "cast to an integer": types.is_integer(target) and kind.startswith("int"),
        "epoch_s": types.is_integer(target) and kind == "instant",
        "cast to instant": types.is_timestamp(target) and target.tz is not None and kind != "instant",
        "cast to wall clock": types.is_timestamp(target) and target.tz is None,
    }
    return {name for name, matches in names.items() if matches}
