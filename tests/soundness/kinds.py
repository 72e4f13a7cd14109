"""The column types that random tables are made of: how values are drawn, written as SQL literals and ordered.

Each kind keeps its values in a domain of plain Python values (int, float, Decimal, str, bytes, bool), the one in which
the oracle compares; Arrow and SQL forms are derived. Nothing here uses pruner's own coercion.
"""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

EPOCH = datetime.datetime(1970, 1, 1)
Value = Any


@dataclass(frozen=True)
class Kind:
    """One column type.

    `draw(random, center)` gives a value near `center` in [0, 1], so that files with different centers differ.
    `sql` writes a literal of exactly that type, `neighbours` gives literals around a value (not all of the
    column's type).
    """

    name: str
    type: pa.DataType
    draw: Callable[[random.Random, float], Value]
    sql: Callable[[Value], str]
    neighbours: Callable[[random.Random, Value], Value]
    to_arrow: Callable[[Value], Value] = lambda value: value
    ordered: bool = True
    prefixes: bool = False


def _integer(name: str, type_: pa.DataType, low: int, high: int) -> Kind:
    def draw(rng: random.Random, center: float) -> int:
        if rng.random() < 0.03:
            return rng.choice([low, high, 0, low + 1, high - 1])
        spread = (high - low) // 40 + 1
        middle = low + int((high - low) * (0.1 + 0.8 * center))
        return max(low, min(high, middle + rng.randint(-spread, spread)))

    def neighbours(rng: random.Random, value: int) -> Value:
        roll = rng.random()
        if roll < 0.6:
            return value
        if roll < 0.85:
            return max(low, min(high, value + rng.choice([-1, 1, -7, 7])))
        if roll < 0.95 and abs(value) < 10**15:
            return Decimal(value) + Decimal("0.5")
        return rng.choice([low, high])

    return Kind(name, type_, draw, lambda value: str(value) if value >= 0 else f"({value})", neighbours)


def _float(name: str, type_: pa.DataType, sql_type: str) -> Kind:
    def single(value: float) -> float:
        return pa.array([value], type_)[0].as_py()

    def draw(rng: random.Random, center: float) -> float:
        roll = rng.random()
        if roll < 0.02:
            return math.nan
        if roll < 0.05:
            return rng.choice([0.0, -0.0, math.inf, -math.inf])
        return single((center - 0.5) * 1000 + rng.uniform(-15, 15))

    def neighbours(rng: random.Random, value: float) -> float:
        if math.isnan(value):
            return 0.0
        return value if rng.random() < 0.7 else single(value + rng.choice([-0.5, 0.5, 10.0, -10.0]))

    def sql(value: float) -> str:
        if math.isinf(value):
            return f"CAST('{'-' if value < 0 else ''}Infinity' AS {sql_type})"
        return f"CAST('{value!r}' AS {sql_type})"

    return Kind(name, type_, draw, sql, neighbours)


def _decimal(precision: int, scale: int) -> Kind:
    unit = Decimal(1).scaleb(-scale)
    reach = 10 ** min(precision, 12)

    def draw(rng: random.Random, center: float) -> Decimal:
        middle = int((center - 0.5) * reach)
        return (middle + rng.randint(-reach // 40, reach // 40)) * unit

    def neighbours(rng: random.Random, value: Decimal) -> Decimal:
        return value if rng.random() < 0.7 else value + rng.choice([-1, 1, 100]) * unit

    def sql(value: Decimal) -> str:
        return f"CAST('{value:f}' AS DECIMAL({precision},{scale}))"

    return Kind(f"decimal({precision},{scale})", pa.decimal128(precision, scale), draw, sql, neighbours)


WORDS = [
    "ant",
    "anteater",
    "bat",
    "bätch",
    "crab",
    "Crab",
    "crab%",
    "cr_b",
    "dog",
    "éclair",
    "fox",
    "",
    "zebra",
    "鯨",
    "\U0001f40b",
]


def _string_draw(rng: random.Random, center: float) -> str:
    if rng.random() < 0.05:
        return rng.choice(WORDS)
    return chr(ord("a") + int(center * 25)) + "".join(rng.choice("abyz") for _ in range(rng.randint(0, 3)))


def _string_neighbour(rng: random.Random, value: str) -> str:
    roll = rng.random()
    if roll < 0.7:
        return value
    return value[:1] if roll < 0.8 else value + "a" if roll < 0.9 else rng.choice(WORDS)


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _day_draw(rng: random.Random, center: float) -> int:
    return (
        rng.choice([-719162, 0, -1, 2932896])
        if rng.random() < 0.02
        else int((center - 0.3) * 30000) + rng.randint(-400, 400)
    )


def _day(days: int) -> datetime.date:
    return datetime.date(1970, 1, 1) + datetime.timedelta(days=days)


def _instant_draw(rng: random.Random, center: float) -> int:
    return int((center - 0.3) * 2.5e15) + rng.randint(-(10**13), 10**13)


def _micros(value: int) -> str:
    return (EPOCH + datetime.timedelta(microseconds=value)).isoformat(sep=" ")


KINDS = (
    Kind(
        "boolean",
        pa.bool_(),
        lambda rng, center: (
            rng.random() < (center < 0.5) * 0.9 + 0.05 if rng.random() < 0.2 else center < 0.5
        ),
        lambda value: str(value).upper(),
        lambda rng, value: value if rng.random() < 0.5 else not value,
    ),
    _integer("int8", pa.int8(), -128, 127),
    _integer("int16", pa.int16(), -(2**15), 2**15 - 1),
    _integer("int32", pa.int32(), -(2**31), 2**31 - 1),
    _integer("int64", pa.int64(), -(2**63), 2**63 - 1),
    _float("float", pa.float32(), "FLOAT"),
    _float("double", pa.float64(), "DOUBLE"),
    _decimal(9, 2),
    _decimal(18, 0),
    _decimal(30, 6),
    Kind("string", pa.string(), _string_draw, _quoted, _string_neighbour, prefixes=True),
    Kind(
        "binary",
        pa.binary(),
        lambda rng, center: bytes([int(center * 255)]) + rng.randbytes(rng.randint(0, 3)),
        lambda value: "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB",
        lambda rng, value: value if rng.random() < 0.7 else value[:1],
    ),
    Kind(
        "date",
        pa.date32(),
        _day_draw,
        lambda value: f"DATE '{_day(value).isoformat()}'",
        lambda rng, value: (
            value if rng.random() < 0.7 else max(-719162, min(2932896, value + rng.choice([-1, 1, 365])))
        ),
        to_arrow=_day,
    ),
    Kind(
        "timestamp",
        pa.timestamp("us"),
        _instant_draw,
        lambda value: f"TIMESTAMP '{_micros(value)}'",
        lambda rng, value: value if rng.random() < 0.7 else value + rng.choice([-1, 1, 10**9]),
        to_arrow=lambda value: EPOCH + datetime.timedelta(microseconds=value),
    ),
    Kind(
        "timestamptz",
        pa.timestamp("us", "UTC"),
        _instant_draw,
        lambda value: f"TIMESTAMPTZ '{_micros(value)}+00'",
        lambda rng, value: value if rng.random() < 0.7 else value + rng.choice([-1, 1, 10**9]),
        to_arrow=lambda value: (EPOCH + datetime.timedelta(microseconds=value)).replace(tzinfo=datetime.UTC),
    ),
)
