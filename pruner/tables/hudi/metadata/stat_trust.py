"""What of Hudi's statistics is not believed, each for a fault that is known (docs/traps.md)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pruner.tables.hudi.metadata.stat_values import Bounds

NAN: Final = "their range holds 0.0, which Hudi also records where NaN hides the true bounds (hudi#18754)"
ALL_NULL: Final = (
    "Hudi counts every value as NULL, as it also does where a file has no statistics (hudi#18755)"
)
TEXT_AND_NULL: Final = (
    "text with NULLs, among which Hudi may have counted text too long for statistics (hudi#18755)"
)
UTF16: Final = "text that Java orders differently from UTF-8"
COUNTS: Final = "the numbers of values and of NULLs are missing or contradict each other"
OLD: Final = "dates or timestamps from before a change of calendars"
UNTYPED: Final = "their bounds are missing or of a type that is not used"

_NO_STATISTICS_FROM = 2048
"""Bytes from which on a text may be too long for Parquet's statistics (`ParquetMetadataConverter`: 4,096 for both)."""

_FIRST_GREGORIAN_DAY = -141_427
_FIRST_COMMON_SECOND = -2_208_988_800
_UNITS = {"timestamp[ms": 10**3, "timestamp[us": 10**6}


def doubt(stats: dict[str, Any], bounds: Bounds) -> str | None:
    """Say why the statistics of one file are not believed; None where they are."""
    values, nulls = stats["valueCount"], stats["nullCount"]
    if values is None or nulls is None or not 0 <= nulls <= values:
        return COUNTS
    if nulls == values:
        return ALL_NULL
    if bounds.type is None:
        return UNTYPED
    if bounds.type in ("float", "double"):
        return _of_floats(bounds)
    if bounds.type == "string":
        return _of_text(stats, bounds, nulls)
    if bounds.type.startswith(("date", "timestamp")) and _is_old(bounds):
        return OLD
    return None


def _of_floats(bounds: Bounds) -> str | None:
    """Hide no NaN.

    Parquet's writer takes NaN for the greatest value and its reader then gives 0.0 for both bounds, so with NaN in any
    row group a bound is NaN or the range holds 0.0.
    """
    low, high = bounds.low, bounds.high
    assert isinstance(low, float)
    assert isinstance(high, float)
    certain = not math.isnan(low) and not math.isnan(high) and (low > 0 or high < 0)
    return None if certain else NAN


def _of_text(stats: dict[str, Any], bounds: Bounds, nulls: int) -> str | None:
    high = bounds.high
    assert isinstance(high, bytes)
    # In UTF-16 a surrogate, with which characters beyond U+FFFF begin, comes before U+E000 to U+FFFF.
    if _has_late_character(high):
        return UTF16
    size = stats["totalUncompressedSize"]
    counted = size == 0 and str(stats["fileName"]).startswith(".")  # a log file, whose rows were looked at
    if nulls and not counted and not (size is not None and 0 < size < _NO_STATISTICS_FROM):
        return TEXT_AND_NULL
    return None


def _has_late_character(text: bytes) -> bool:
    """Tell whether a text has a character of U+E000 to U+FFFF; those begin with the bytes EE and EF."""
    return b"\xee" in text or b"\xef" in text


def _is_old(bounds: Bounds) -> bool:
    low = bounds.low
    assert isinstance(low, int)
    assert bounds.type is not None
    if bounds.type.startswith("date"):
        return low < _FIRST_GREGORIAN_DAY
    return low < _FIRST_COMMON_SECOND * _UNITS[bounds.type[: len("timestamp[ms")]]
