"""Which Python value represents a literal of each Arrow type.

| Arrow type | Python value |
|---|---|
| null | None |
| boolean | bool |
| int8 to int64, uint8 to uint64 | int (any size: a literal may exceed its column's type) |
| float, double | float |
| decimal | decimal.Decimal |
| string, large_string | str |
| binary, large_binary, fixed_size_binary | bytes |
| date32, date64 | datetime.date, or int days since 1970-01-01 for years outside Python's range |
| timestamp(unit) without a zone | int, in `unit` since 1970-01-01T00:00:00 of the wall clock |
| timestamp(unit, zone) | int, in `unit` since 1970-01-01T00:00:00Z |
| time32(unit), time64(unit) | int, in `unit` since midnight |
| uuid | bytes, 16 of them |
| month_day_nano_interval | Interval |
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

_DAY: Final = 86_400_000_000_000
"""Nanoseconds."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A calendar interval between two moments: months, days and a fraction of a day, each with its sign."""

    months: int = 0
    days: int = 0
    nanoseconds: int = 0

    def __neg__(self) -> Interval:
        return Interval(-self.months, -self.days, -self.nanoseconds)

    def with_whole_days(self) -> Interval:
        """The interval with every 24 hours as a day; the remainder has the sign of the hours."""
        days, part = divmod(abs(self.nanoseconds), _DAY)
        sign = 1 if self.nanoseconds >= 0 else -1
        return Interval(self.months, self.days + sign * days, sign * part)


_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)


def parse_uuid(text: str) -> bytes | None:
    """Read a UUID as RFC 9562 writes it; None for anything else, including other forms that some engines accept."""
    return bytes.fromhex(text.replace("-", "")) if _UUID.fullmatch(text) else None


LiteralValue: TypeAlias = bool | int | float | Decimal | str | bytes | datetime.date | Interval | None
