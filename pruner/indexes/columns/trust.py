"""Which footers, calendars and equalities are trusted: the writers' histories, in one place.

A footer that is not trusted costs time (the data is read), never rows.

For indexes that keep single values: where equality of values in a file implies equality of values in the table.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from pruner.errors import IndexDefinitionError
from pruner.indexes.columns.kinds import INT96, BoundsKind, Conversion, conversion, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pruner.indexes.base import LeafColumn, SliceReader
    from pruner.schema import Field

    Version = tuple[int, int, int]


_WRITER = re.compile(r"(?P<name>.*?)(?: version)? v?(?P<version>\d+(?:\.\d+){0,2})")

_TRUSTED: dict[str, tuple[int, int, int]] = {
    # min_value/max_value with unsigned byte order since 1.10 (PARQUET-1025, PARQUET-686); binary minima before 1.8
    # were plainly wrong (PARQUET-251).
    "parquet-mr": (1, 10, 0),
    # Null counts of nested columns were wrong before 6 (PARQUET-2067).
    "parquet-cpp-arrow": (6, 0, 0),
    # Null counts present in the file for every column, and byte order of decimals.
    "parquet-rs": (53, 0, 0),
    "duckdb": (1, 1, 0),
}
"""The first version of each writer whose minima, maxima and null counts are trusted, except for floating point."""

_TRUSTED_FILTERS: dict[str, tuple[int, int, int]] = {
    "parquet-mr": (1, 12, 0),
    "parquet-cpp-arrow": (26, 0, 0),
    "parquet-rs": (53, 0, 0),
    "duckdb": (1, 2, 0),
}
"""The first version of each writer whose Bloom filters are trusted: what `tests/engines/test_file_filters.py` reads,
back to the first release that writes them. Those of 8-bit and 16-bit columns never are (datafusion#9779)."""

_NEVER_SHORTENS = {"parquet-cpp-arrow"}
"""Writers that omit a long string bound instead of truncating it."""


@lru_cache(maxsize=64)
def writer(created_by: str) -> tuple[str, Version] | None:
    """Return the lower-case name and the version of a writer; None if the text does not contain both."""
    match = _WRITER.match(created_by)
    if match is None:
        return None
    parts = [int(part) for part in match["version"].split(".")]
    major, minor, patch = (*parts, 0, 0)[:3]
    return match["name"].strip().lower(), (major, minor, patch)


def least_trusted(writers: Iterable[str]) -> str:
    """Return the writer among these that is trusted least: the oldest version of one writer, "" where names differ."""
    distinct = set(writers)
    if len(distinct) == 1:
        return distinct.pop()
    known = [(version, text) for text in distinct if (version := writer(text)) is not None]
    alike = len(known) == len(distinct) and len({name for (name, _), _ in known}) == 1
    return min(known)[1] if alike else ""


def footer_is_believed(created_by: str, leaf: LeafColumn) -> bool:
    """Tell whether minima, maxima and null counts of a column may be taken from the footer.

    Never for floating point: writers treat NaN and signed zeros differently (traps S1, S6; parquet-format#514). Never
    for INT96, which has no order there (trap S10).
    """
    written_by = writer(created_by)
    if written_by is None or leaf.int96 or leaf.type is None or pa.types.is_null(leaf.type):
        return False
    name, version = written_by
    if leaf.parquet is not None and leaf.parquet.logical == "UUID" and name in _DOUBTED_UUIDS:
        return False
    return name in _TRUSTED and version >= _TRUSTED[name] and kind_of(leaf.type) is not BoundsKind.FLOAT


_DOUBTED_UUIDS = {"duckdb"}
"""Writers that keep UUIDs as signed numbers in memory; some version may have ordered bounds that way (trap S15)."""


def filters_are_believed(created_by: str) -> bool:
    """Tell whether the Bloom filters of a file may be used."""
    written_by = writer(created_by)
    return (
        written_by is not None
        and written_by[0] in _TRUSTED_FILTERS
        and written_by[1] >= _TRUSTED_FILTERS[written_by[0]]
    )


def never_shortens(created_by: str) -> bool:
    """Tell whether a string bound in a footer is always a value of the column, never a prefix of one."""
    written_by = writer(created_by)
    return written_by is not None and written_by[0] in _NEVER_SHORTENS


class Calendar(Enum):
    """The calendar of a file's old dates and timestamps."""

    PROLEPTIC = "proleptic"
    """The proleptic Gregorian one, which every engine reads unchanged."""
    LEGACY = "legacy"
    """The hybrid one of Spark before 3.0: Spark shifts old values by days, other engines do not (trap S17)."""
    OPEN = "open"
    """The file does not say: a setting of the Spark session decides, other engines read values unchanged."""


SPARK_VERSION = b"org.apache.spark.version"
_LEGACY_DATETIME = b"org.apache.spark.legacyDateTime"
_LEGACY_INT96 = b"org.apache.spark.legacyINT96"
_FIRST_PROLEPTIC = {_LEGACY_DATETIME: (3, 0, 0), _LEGACY_INT96: (3, 1, 0)}
"""The first Spark version that marks files in the legacy calendar; earlier versions write no others."""

FIRST_GREGORIAN_DAY = -141_427
"""1582-10-15 in days since 1970: from this day on the calendars agree."""

FIRST_COMMON_SECOND = -2_208_988_800
"""1900-01-01T00:00:00Z: from here on Spark changes no timestamp, in any zone (RebaseDateTime)."""


def calendar(key_values: Mapping[bytes, bytes], leaf: LeafColumn) -> Calendar:
    """Return the calendar of a date or timestamp column (Spark's DataSourceUtils, datetimeRebaseSpec)."""
    if (_LEGACY_INT96 if leaf.int96 else _LEGACY_DATETIME) in legacy_marks(key_values):
        return Calendar.LEGACY
    return Calendar.PROLEPTIC if SPARK_VERSION in key_values else Calendar.OPEN


def legacy_marks(key_values: Mapping[bytes, bytes]) -> set[bytes]:
    """Return the marks of the legacy calendar that a file has, or would have if its Spark had known them."""
    marks = _FIRST_PROLEPTIC.keys() & key_values.keys()
    version = key_values.get(SPARK_VERSION)
    if version is not None:
        written_by = writer("spark " + version.decode("utf-8", "replace"))
        marks |= {
            mark for mark, first in _FIRST_PROLEPTIC.items() if written_by is None or written_by[1] < first
        }
    return marks


def calendars_agree_from(type_: pa.DataType) -> int | None:
    """Return the value of a date or timestamp type from which on all calendars agree; None for other types."""
    if pa.types.is_date(type_):
        return FIRST_GREGORIAN_DAY
    if pa.types.is_timestamp(type_):
        return FIRST_COMMON_SECOND * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[type_.unit]
    return None


def zone_is_open(created_by: str, leaf: LeafColumn) -> bool:
    """Tell whether a setting of the Spark session decides how INT96 is read: it does for writers other than Spark's.

    With `spark.sql.parquet.int96TimestampConversion` their values are shifted by the session's zone
    (ParquetFileFormat).
    """
    return leaf.int96 and not created_by.startswith("parquet-mr")


def require_in_files(field: Field) -> None:
    """Reject a field whose values no file holds, or about which files disagree.

    Raises:
        IndexDefinitionError: it is such a field.
    """
    if not field.in_file:
        raise IndexDefinitionError(
            f"column {field.name!r} is a partition column that no file holds: its values in the paths prune "
            "without an index"
        )
    if field.conflict is not None:
        raise IndexDefinitionError(f"column {field.name!r} cannot be indexed: {field.conflict}")


def why_not_equal(leaf: LeafColumn | None, field: Field) -> str | None:
    """Why equal values in the file may differ in the table, or different values be equal; None if neither (R7)."""
    if leaf is None:
        return None
    how = conversion(leaf.type_text, field.type)
    if leaf.type_text == INT96:
        return "INT96 timestamps are other values in each engine"
    if how is None or how != Conversion(factor=how.factor):
        return f"values of type {leaf.type_text} are rounded to become values of type {field.type}"
    return None


def unknown_calendar(
    reader: SliceReader, leaf: LeafColumn, oldest: int | None, factor: int = 1
) -> tuple[str | None, bool]:
    """Why old dates cannot be indexed, and whether a setting of the Spark session decides how they are read (S17).

    Args:
        reader: reader of the slice.
        leaf: the column.
        oldest: its minimum, for dates and timestamps; None if there is none.
        factor: the factor by which values of the file were multiplied to yield `oldest`.
    """
    first_common = calendars_agree_from(leaf.type) if leaf.type is not None else None
    if first_common is None or oldest is None or oldest >= first_common * factor:
        return None, False
    written_in = calendar(reader.footer.key_values, leaf)
    if written_in is Calendar.LEGACY:
        return "written in the legacy calendar, in which the oldest values are other days", False
    return None, written_in is Calendar.OPEN
