"""Ways in which files can hold the same content, as whole numbers: by families, with literals for each."""

from __future__ import annotations

import datetime
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from pruner.expr.types import Unit
from tests.support.duckdb import plain as plain_duckdb
from tests.support.parquet.types import converted, converted_only, int96, logical, logical_only, plain, times

Writer: TypeAlias = "Callable[[Path, pa.Array[Any], str], Path]"


@dataclass(frozen=True)
class Way:
    """How a file holds numbers: the array that represents them, and how it is written.

    A file that is kept, not written, holds the numbers `kept`; its column is not in a struct.
    """

    name: str
    values: Callable[[list[int]], pa.Array[Any]]
    write: Writer
    kept: tuple[int, ...] = ()


@dataclass(frozen=True)
class Family:
    """Ways that one table may mix. `draw` gives a number for a file, `literals` write one in SQL."""

    name: str
    ways: tuple[Way, ...]
    draw: Callable[[random.Random, int], int]
    literals: tuple[Callable[[int], str], ...]


def _plain(path: Path, values: pa.Array[Any], column: str) -> Path:
    return plain(path, values)


def _int96(path: Path, values: pa.Array[Any], column: str) -> Path:
    return int96(path, values)


def _as(name: str, write: Callable[[Path, pa.Array[Any], str, str], Path]) -> Writer:
    return lambda path, values, column: write(path, values, name, column)


_HOUR = 3600
_PER_SECOND: dict[Unit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_WRITERS: tuple[tuple[str, Writer], ...] = (
    ("both", _plain),
    ("converted", converted_only),
    ("logical", logical_only),
)


def _moments(unit: Unit, zone: str | None) -> Callable[[list[int]], pa.Array[Any]]:
    scale = _PER_SECOND[unit]
    type_ = pa.timestamp(unit, zone) if zone else pa.timestamp(unit)
    # One nanosecond, which microseconds cannot represent.
    extra = 1 if unit == "ns" else 0
    return lambda seconds: pa.array([each * scale + extra * (each % 2) for each in seconds], pa.int64()).cast(
        type_
    )


def _far(seconds: list[int]) -> pa.Array[Any]:
    """Some in years beyond the range of nanoseconds."""
    far = 253_370_764_800  # 9999-01-01
    return pa.array(
        [(each if each % 3 else far + each % 1000) * 10**6 for each in seconds], pa.timestamp("us")
    )


def as_moment(number: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=number)


_MOMENTS = Family(
    "moments",
    (
        *(
            Way(f"{unit} {zone or 'naive'} {how}", _moments(unit, zone), write)
            for unit in ("ms", "us")
            for zone in ("UTC", None)
            for how, write in _WRITERS
        ),
        Way("ns naive", _moments("ns", None), _plain),
        Way("ns UTC", _moments("ns", "UTC"), _plain),
        Way("int96", _moments("us", None), _int96),
        Way("int96 far", _far, _int96),
    ),
    lambda rng, number: 1_704_067_200 + number * rng.choice([1, 24]) * _HOUR + rng.randrange(4) * _HOUR,
    (
        lambda n: f"'{as_moment(n)}'",
        lambda n: f"TIMESTAMP '{as_moment(n)}'",
        lambda n: f"TIMESTAMPTZ '{as_moment(n)}+00'",
        lambda n: f"DATE '{as_moment(n).date()}'",
        lambda n: f"TIMESTAMP '9999-01-01 00:{n // 60 % 17:02}:{n % 60:02}'",
    ),
)


def as_word(number: int) -> str:
    return f"{chr(97 + number % 26)}{number}"


def _words(numbers: list[int]) -> pa.Array[Any]:
    return pa.array([as_word(n) for n in numbers])


def _bytes(numbers: list[int]) -> pa.Array[Any]:
    return pa.array([as_word(n).encode() for n in numbers])


_TEXTS = Family(
    "texts",
    (
        *(Way(f"text {how}", _words, write) for how, write in _WRITERS),
        Way("bytes", _bytes, _plain),
        Way("ENUM", _bytes, _as("ENUM", converted)),
        Way("ENUM logical", _bytes, _as("Enum", logical)),
        Way("JSON", lambda numbers: pa.array([str(n).encode() for n in numbers]), _as("JSON", converted)),
    ),
    lambda rng, number: number * 7 + rng.randrange(9),
    (
        lambda n: f"'{as_word(n)}'",
        lambda n: f"'{n}'",
        lambda n: f"'{as_word(n)}'::BLOB",
        lambda n: rf"'\x{ord(as_word(n)[0]):x}{n}'",
    ),
)


def _stored(numbers: list[int]) -> pa.Array[Any]:
    return pa.array(numbers, pa.int32())


def _integers(type_: pa.DataType) -> Callable[[list[int]], pa.Array[Any]]:
    bits = type_.bit_width
    if str(type_).startswith("u"):
        return lambda numbers: pa.array([n % 2**bits for n in numbers], type_)
    return lambda numbers: pa.array(
        [(n + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for n in numbers], type_
    )


_INTEGERS = Family(
    "integers",
    (
        *(
            Way(f"{type_} {how}", _integers(type_), write)
            for type_ in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.uint32(), pa.int64())
            for how, write in _WRITERS
        ),
        *(
            Way(f"misfit {name}", _stored, _as(name, converted))
            for name in ("INT_8", "INT_16", "UINT_8", "UINT_16", "UINT_32")
        ),
        Way("int32", _stored, _plain),
    ),
    lambda rng, number: (
        rng.choice([0, 0, 0, 250, 65_530, -1]) + number * rng.choice([3, 20]) + rng.randrange(3)
    ),
    (str, lambda n: f"{n}.5", lambda n: f"'{n}'", lambda n: f"{n % 256}"),
)


def as_day(number: int) -> datetime.date:
    return datetime.date(1970, 1, 1) + datetime.timedelta(days=number)


_DAYS = Family(
    "days",
    (
        *(
            Way(f"date {how}", lambda numbers: pa.array(numbers, pa.int32()).view(pa.date32()), write)
            for how, write in _WRITERS
        ),
        Way("int32", _stored, _plain),
    ),
    lambda rng, number: 19_000 + number * 5 + rng.randrange(6),
    (
        lambda n: f"DATE '{as_day(n)}'",
        lambda n: f"'{as_day(n)}'",
        str,
        lambda n: f"TIMESTAMP '{as_day(n)} 01:00:00'",
    ),
)

_DECIMALS = Family(
    "decimals",
    tuple(
        Way(
            f"decimal({precision}, {scale}) {how}",
            lambda numbers, p=precision, s=scale: pa.array(
                [Decimal(n).scaleb(-2).quantize(Decimal(1).scaleb(-s)) for n in numbers], pa.decimal128(p, s)
            ),
            write,
        )
        for precision, scale in ((9, 2), (12, 3), (30, 2))
        for how, write in _WRITERS
    ),
    lambda rng, number: number * 150 + rng.randrange(200),
    (lambda n: str(Decimal(n).scaleb(-2)), lambda n: str(n // 100), lambda n: f"'{Decimal(n).scaleb(-2)}'"),
)


def _sixteen(numbers: list[int]) -> pa.Array[Any]:
    return pa.array([f"{n:016}".encode() for n in numbers], pa.binary(16))


def _uuid(number: int) -> str:
    digits = f"{number:016}".encode().hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


_FIXED = Family(
    "sixteen bytes",
    (Way("bytes", _sixteen, _plain), Way("UUID", _sixteen, _as("UUID", logical))),
    lambda rng, number: number * 5 + rng.randrange(7),
    (lambda n: f"'{n:016}'", lambda n: f"'{_uuid(n)}'", lambda n: f"'{_uuid(n)}'::UUID"),
)

FAMILIES = (_MOMENTS, _MOMENTS, _TEXTS, _INTEGERS, _DAYS, _DECIMALS, _FIXED)


_MICROSECONDS_OF_A_DAY = 86_400_000_000


def _clock(number: int) -> datetime.time:
    return (datetime.datetime.min + datetime.timedelta(microseconds=number % _MICROSECONDS_OF_A_DAY)).time()


def _times(unit: Unit) -> Callable[[list[int]], pa.Array[Any]]:
    arrow: Any = pa  # its stubs know only literal units
    type_ = arrow.time32(unit) if unit == "ms" else arrow.time64(unit)
    stored = pa.int32() if unit == "ms" else pa.int64()

    def values(numbers: list[int]) -> pa.Array[Any]:
        scaled = [n % _MICROSECONDS_OF_A_DAY * _PER_SECOND[unit] // 10**6 for n in numbers]
        return pa.array([n + n % 2 if unit == "ns" else n for n in scaled], stored).view(type_)

    return values


_TIMES = Family(
    "times of day",
    (
        *(Way(f"{unit} plain", _times(unit), _plain) for unit in ("ms", "us", "ns")),
        *(Way(f"{unit} adjusted", _times(unit), times) for unit in ("ms", "us")),
        Way("ms converted", _times("ms"), _as("TIME_MILLIS", converted)),
        Way("us converted", _times("us"), _as("TIME_MICROS", converted)),
        # Numbers that are not times of day.
        Way(
            "misfit",
            lambda numbers: pa.array([n * 10**6 - 5 for n in numbers], pa.int64()),
            _as("TIME_MICROS", converted),
        ),
    ),
    lambda rng, number: (
        (number * 4 * _HOUR + rng.randrange(3) * 60) * 10**6 + rng.choice([0, 0, 1, 500, 999_999])
    ),
    (
        lambda n: f"'{_clock(n)}'",
        lambda n: f"TIME '{_clock(n)}'",
        lambda n: f"TIME_NS '{_clock(n)}'",
        lambda n: f"TIMETZ '{_clock(n)}+00'",
        lambda n: f"TIMETZ '{_clock(n)}+05:30'",
        lambda n: f"'{_clock(n)}'::TIME::TIMETZ",
        lambda _: "'24:00:00'",
    ),
)


def _halves(numbers: list[int]) -> pa.Array[Any]:
    special = {0: np.nan, 1: -0.0, 2: np.inf}
    return pa.array(np.array([special.get(n % 13, n / 8) for n in numbers], np.float16), from_pandas=False)


_HALVES = Family(
    "half-precision floats",
    (
        Way("half", _halves, _plain),
        Way("single", lambda numbers: _halves(numbers).cast(pa.float32()), _plain),
    ),
    lambda rng, number: number * 40 + rng.randrange(50),
    (
        lambda n: str(n / 8),
        lambda n: f"{n / 8 + 0.01}",
        lambda n: f"{n / 8}::FLOAT",
        lambda n: f"{n / 8 + 0.01}::DOUBLE",
        lambda n: str(n // 8),
        lambda _: "'NaN'::FLOAT",
        lambda _: "-0.0",
    ),
)

_UNSIGNED = 1 << 127


def _spread(numbers: list[int]) -> list[bytes]:
    """UUIDs on both sides of those with the highest bit set."""
    return [(_UNSIGNED - (50 << 116) + (n << 116)).to_bytes(16, "big") for n in numbers]


def _spread_text(number: int) -> str:
    return str(uuid.UUID(bytes=_spread([number])[0]))


def _uuids_of_duckdb(path: Path, values: pa.Array[Any], column: str) -> Path:
    """A file written by DuckDB, with bounds in DuckDB's own order."""
    with plain_duckdb.session() as connection:
        connection.from_arrow(pa.table({"x": values})).write_parquet(str(path))
    return path


_UUIDS = Family(
    "UUIDs",
    (
        Way("UUID of pyarrow", lambda numbers: pa.array(_spread(numbers), pa.uuid()), _plain),
        Way("UUID of DuckDB", lambda numbers: pa.array(_spread(numbers), pa.uuid()), _uuids_of_duckdb),
        Way("UUID", lambda numbers: pa.array(_spread(numbers), pa.binary(16)), _as("UUID", logical)),
    ),
    lambda rng, number: number * 20 + rng.randrange(25),
    (
        lambda n: f"'{_spread_text(n)}'",
        lambda n: f"'{_spread_text(n)}'::UUID",
        lambda n: f"UUID '{_spread_text(n).upper()}'",
        lambda n: f"'{{{_spread_text(n)}}}'",
    ),
)

DUCKDB_FAMILIES = (*FAMILIES, _TIMES, _HALVES, _UUIDS)
"""With types that DuckDB alone of the SQL engines reads without being told."""
