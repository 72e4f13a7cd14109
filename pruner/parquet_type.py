"""The type of a Parquet column as its footer states it, which engines follow, each in its own way (rule R11).

A footer names a physical type, and in addition a converted type (the old way), a logical type (the new one) or both.
Arrow maps many of these to one type, so a column of a table also has the type defined here
(parquet-format, LogicalTypes.md and parquet.thrift).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import pyarrow as pa

MAGIC = b"PAR1"
"""The first and the last four bytes of a Parquet file."""

_NONE = "-"
_FIXED = "FIXED_LEN_BYTE_ARRAY"
_LARGEST_DECIMAL = 38

_MEANING = {
    "UTF8": "String",
    "ENUM": "Enum",
    "JSON": "JSON",
    "BSON": "BSON",
    "DATE": "Date",
    "TIME_MILLIS": "Time(ms,utc)",
    "TIME_MICROS": "Time(us,utc)",
    "TIMESTAMP_MILLIS": "Timestamp(ms,utc)",
    "TIMESTAMP_MICROS": "Timestamp(us,utc)",
    "INTERVAL": "Interval",
    **{f"INT_{bits}": f"Integer({bits},signed)" for bits in (8, 16, 32, 64)},
    **{f"UINT_{bits}": f"Integer({bits},unsigned)" for bits in (8, 16, 32, 64)},
}
"""The logical type that corresponds to each converted type; decimals have parameters of their own."""

_PLAIN = {
    "BOOLEAN": pa.bool_(),
    "INT32": pa.int32(),
    "INT64": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BYTE_ARRAY": pa.binary(),
}


@dataclass(frozen=True, slots=True)
class ParquetType:
    """One type: `INT64`, `TIMESTAMP_MICROS`, `Timestamp(us,utc)`; "" where a footer names none.

    A logical type is followed by its parameters (`Decimal(9,2)`, `Integer(8,unsigned)`), as is the converted type
    DECIMAL; `FIXED_LEN_BYTE_ARRAY(16)` is followed by its length.
    """

    physical: str
    converted: str = ""
    logical: str = ""

    @property
    def text(self) -> str:
        """Three words that `parse_parquet_type` parses back into the type."""
        return f"{self.physical or _NONE} {self.converted or _NONE} {self.logical or _NONE}"

    @property
    def meaning(self) -> str:
        """The logical type, or the one that corresponds to the converted type; "" for a plain physical type."""
        if self.logical:
            return self.logical
        if self.converted.startswith("DECIMAL"):
            return self.converted.replace("DECIMAL", "Decimal")
        return _MEANING.get(self.converted, self.converted)

    @property
    def arrow(self) -> pa.DataType | None:
        """The Arrow type of the values by the specification; None, as for INT96, if no index supports it."""
        return _arrow_type(self.physical, self.meaning)

    @property
    def without_logical(self) -> ParquetType:
        """The type for a reader that does not know logical types."""
        return ParquetType(self.physical, self.converted)

    def __str__(self) -> str:
        return " ".join(word for word in (self.physical, self.converted, self.logical) if word)


@lru_cache(maxsize=4096)
def parse_parquet_type(text: str) -> ParquetType | None:
    """Return the type whose `text` this is; None for any other text."""
    words = text.split(" ")
    if len(words) != 3 or "" in words or words[0] == _NONE:
        return None
    return ParquetType(*("" if word == _NONE else word for word in words))


def parameters(annotation: str) -> tuple[str, tuple[str, ...]]:
    """Name and parameters of a logical type: `Decimal(9,2)` is ("Decimal", ("9", "2"))."""
    name, _, rest = annotation.partition("(")
    return name, tuple(rest.removesuffix(")").split(",")) if rest else ()


@lru_cache(maxsize=4096)
def _arrow_type(physical: str, meaning: str) -> pa.DataType | None:
    fixed, lengths = parameters(physical)
    arrow: Any = pa  # its stubs require literal units and widths
    match parameters(meaning):
        case ("", ()):
            length = int(lengths[0]) if fixed == _FIXED and lengths else None
            return _PLAIN.get(physical) if length is None else pa.binary(length)
        case ("Null", ()):
            return pa.null()
        case ("String" | "JSON" | "Enum", ()) if physical == "BYTE_ARRAY":
            return pa.string()
        case ("Date", ()) if physical == "INT32":
            return pa.date32()
        case ("Time", ("ms", *_)) if physical == "INT32":
            return pa.time32("ms")
        case ("Time", ("us" | "ns" as unit, *_)) if physical == "INT64":
            return pa.time64(unit)
        case ("UUID", ()) if (fixed, lengths) == (_FIXED, ("16",)):
            return pa.binary(16)
        case ("Float16", ()) if (fixed, lengths) == (_FIXED, ("2",)):
            return pa.float16()
        case ("Integer", (bits, sign)) if bits in ("8", "16", "32", "64"):
            return cast("pa.DataType", getattr(arrow, f"{'u' * (sign == 'unsigned')}int{bits}")())
        case ("Decimal", (precision, scale)) if 0 < int(precision) <= _LARGEST_DECIMAL:
            return pa.decimal128(int(precision), int(scale))
        case ("Timestamp", (unit, *zone)) if physical == "INT64":
            return cast("pa.DataType", arrow.timestamp(unit, "UTC" if zone else None))
        case _:
            return None
