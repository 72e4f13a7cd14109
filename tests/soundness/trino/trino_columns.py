"""Columns as Trino reads them: how values are sent on the wire, read out of files, and ordered.

Written only from docs/trino-predicates.md and Trino's types; nothing here uses pruner's own rules.
"""

from __future__ import annotations

import base64
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.soundness.kinds import KINDS, Kind, Value

_BY_NAME = {kind.name: kind for kind in KINDS}
_HIGHEST = "\U0010ffff" * 8


@dataclass(frozen=True)
class TrinoColumn:
    """A column of a random table.

    `read` is what Trino makes of a stored value. `order` is the key that orders its values. Unless `exact`, `slack`
    gives the stored values between which the comparison with a constant need not be certain. `certain` tells for which
    constants anything is known of the order.
    """

    name: str
    kind: Kind
    type: str
    sent: Callable[[Value], Any]
    read: Callable[[Value], Value] = lambda value: value
    order: Callable[[Value], Any] = lambda value: value
    slack: Callable[[Value], tuple[Any, Any]] = lambda value: (value, value)
    certain: Callable[[Value], bool] = lambda _: True
    exact: bool = True

    def near(self, rng: random.Random, stored: Value) -> Value:
        """A value of the column's type in Trino, at or near a stored one."""
        value = self.read(self.kind.neighbours(rng, stored))
        own = type(self.read(stored))
        return value if type(value) is own and not is_nan(value) else self.read(stored)


def is_nan(value: Value) -> bool:
    """Tell whether a value is NaN."""
    return isinstance(value, float) and math.isnan(value)


def _floating(value: float) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _single(value: float) -> str:
    return str(pa.scalar(value, pa.float32()).cast(pa.string())) if math.isfinite(value) else _floating(value)


def _plain(value: Decimal) -> str:
    return f"{value:f}"


def _micros(value: int) -> dict[str, int]:
    return {"micros": value, "picos": 0}


def _of(
    name: str, type_: str, sent: Callable[[Value], Any], kind: str | None = None, **more: Any
) -> TrinoColumn:
    return TrinoColumn(name, _BY_NAME[kind or name], type_, sent, **more)


def _texts(rng: random.Random, center: float) -> str:
    """Text that is cut, padded, or holds characters below the space."""
    first = chr(ord("a") + int(center * 25))
    return first + "".join(rng.choice("ab  \x1f%_é") for _ in range(rng.randint(0, 4)))


def _other_text(rng: random.Random, value: str) -> str:
    return rng.choice([value, value, value.rstrip(), value[:1], value[:2], value + "b", value[:2] + " "])


_TEXT = Kind("cut text", pa.string(), _texts, repr, _other_text)


def _cut(length: int) -> TrinoColumn:
    return TrinoColumn(
        f"varchar({length})",
        _TEXT,
        f"varchar({length})",
        lambda value: value,
        read=lambda value: value[:length],
        slack=lambda value: (value, value + _HIGHEST if len(value) == length else value),
        exact=False,
    )


def _char(length: int) -> TrinoColumn:
    return TrinoColumn(
        f"char({length})",
        _TEXT,
        f"char({length})",
        lambda value: value,
        read=lambda value: value[:length].rstrip(" "),
        order=lambda value: value.ljust(length),
        slack=lambda value: (value, value + _HIGHEST),
        exact=False,
        certain=lambda value: all(character >= " " for character in value),
    )


COLUMNS = (
    _of("boolean", "boolean", lambda value: value),
    _of("int8", "tinyint", lambda value: value),
    _of("int16", "smallint", lambda value: value),
    _of("int32", "integer", lambda value: value),
    _of("int64", "bigint", lambda value: value),
    _of("wider", "bigint", lambda value: value, "int16"),
    _of("float", "real", _single),
    _of("double", "double", _floating),
    _of("doubled", "double", _floating, "float"),
    _of("decimal(9,2)", "decimal(9,2)", _plain),
    _of("decimal(18,0)", "decimal(18,0)", _plain),
    _of("decimal(30,6)", "decimal(30,6)", _plain),
    _of("rescaled", "decimal(14,4)", lambda value: f"{value:.4f}", "decimal(9,2)"),
    _of("string", "varchar", lambda value: value),
    _cut(2),
    _char(3),
    _of("binary", "varbinary", lambda value: base64.b64encode(value).decode()),
    _of("date", "date", lambda value: value),
    _of("timestamp", "timestamp(6)", _micros),
    _of(
        "rounded",
        "timestamp(3)",
        _micros,
        "timestamp",
        read=lambda value: (value + 500) // 1000 * 1000,
        slack=lambda value: (value - 1000, value + 1000),
        exact=False,
    ),
    _of("utc clock", "timestamp(6)", _micros, "timestamptz"),
    _of("timestamptz", "timestamp(6) with time zone", _micros),
)
"""Every type that tables can have, and readings that change values: cut, padded, widened, rounded, shown in UTC."""
