"""Trino's types by their display names, and Arrow's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pruner.expr.types import Unit, timestamp


@dataclass(frozen=True, slots=True)
class TrinoType:
    """A type that predicates are decided on.

    `arrow` is the type of its literals; a timestamp's has the precision of Trino's or the next coarser unit. `length`
    is the most characters of a `varchar(n)` or `char(n)`, None for text without a limit and for other types.
    """

    name: str
    arrow: pa.DataType
    length: int | None = None

    @property
    def is_text(self) -> bool:
        """Whether values are text."""
        return self.name in ("varchar", "char")

    @property
    def has_nan(self) -> bool:
        """Whether values may be NaN."""
        return self.name in ("real", "double")


BOOLEAN: Final = TrinoType("boolean", pa.bool_())
BIGINT: Final = TrinoType("bigint", pa.int64())

_PLAIN: Final = {
    kind.name: kind
    for kind in (
        BOOLEAN,
        TrinoType("tinyint", pa.int8()),
        TrinoType("smallint", pa.int16()),
        TrinoType("integer", pa.int32()),
        BIGINT,
        TrinoType("real", pa.float32()),
        TrinoType("double", pa.float64()),
        TrinoType("varbinary", pa.binary()),
        TrinoType("date", pa.date32()),
        TrinoType("varchar", pa.string()),
        TrinoType("interval day to second", pa.month_day_nano_interval()),
        TrinoType("interval year to month", pa.month_day_nano_interval()),
    )
}
_NAME = re.compile(r"([a-z]+)\((\d{1,10})(?:, ?(\d{1,10}))?\)( with time zone)?", re.ASCII)
_FINEST_DIGITS = 12


def trino_type(display_name: str) -> TrinoType | None:
    """Return the type of that display name; None for one that predicates are never decided on."""
    plain = _PLAIN.get(display_name)
    if plain is not None:
        return plain
    match = _NAME.fullmatch(display_name)
    if match is None:
        return None
    name, first, zoned = match[1], int(match[2]), match[4] is not None
    second = None if match[3] is None else int(match[3])
    if name == "decimal" and second is not None and not zoned:
        valid = 1 <= first <= 38 and second <= first
        return TrinoType("decimal", pa.decimal128(first, second)) if valid else None
    if second is not None or (zoned and name != "timestamp"):
        return None
    match name:
        case "varchar" | "char":
            return TrinoType(name, pa.string(), first)
        case "timestamp" if first <= _FINEST_DIGITS:
            return TrinoType("timestamp", timestamp(_unit(first), instant=zoned))
        case _:
            return None


def _unit(digits: int) -> Unit:
    """The finest unit that a timestamp with so many digits of a second has for certain."""
    return "s" if digits < 3 else "ms" if digits < 6 else "us" if digits < 9 else "ns"
