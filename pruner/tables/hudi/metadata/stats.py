"""Hudi's column statistics of one column as Arrow columns, and the bounds in them as values.

What an HFile says of a column is decoded once and cached, because an HFile never changes: the next snapshot decodes
only new log files.

The bounds in Hudi's statistics have a type, and are values of a column's storage domain.

From index version 2 on a record names the type; before, only the wrapper around the value tells it, and a
timestamp of either unit is wrapped as a plain long.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, compute
from pruner.errors import FormatError
from pruner.tables.hudi.metadata.listing import file_id
from pruner.tables.hudi.metadata.payloads import (
    Record,
    decoder,
    decoder_of_statistics,
    merged_stats,
    statistics,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from pruner.tables.hudi.hfile.reader import HFile

_BY_ORDINAL = {
    2: "bool",
    3: "int32",
    4: "int64",
    5: "float",
    6: "double",
    7: "string",
    12: "date32[day]",
    15: "timestamp[ms, tz=UTC]",
    16: "timestamp[us, tz=UTC]",
    18: "timestamp[ms]",
    19: "timestamp[us]",
}
"""Arrow's type names by Hudi's ordinals (`ValueType`); types that are not listed here are not used."""

_DECIMAL_ORDINAL = 10
_BY_WRAPPER = {
    "BooleanWrapper": "bool",
    "IntWrapper": "int32",
    "LongWrapper": "int64",
    "FloatWrapper": "float",
    "DoubleWrapper": "double",
    "StringWrapper": "string",
    "DateWrapper": "date32[day]",
}
_WRAPPED_SCALE = 15
"""Decimals in their own wrapper have this scale, whatever the column's scale is (`DecimalWrapper`)."""

_LARGEST_DECIMAL = 38
WRAPPED_DECIMAL = f"decimal128({_LARGEST_DECIMAL}, {_WRAPPED_SCALE})"
"""The type of such a decimal."""


class ColumnStatBounds(NamedTuple):
    """Both bounds in the storage domain of a type, which has Arrow's name; None where unknown."""

    type: str | None
    low: int | float | bytes | None
    high: int | float | bytes | None


NO_BOUNDS = ColumnStatBounds(None, None, None)


def bounds_of(stats: dict[str, Any]) -> ColumnStatBounds:
    """Return the bounds of a record of statistics."""
    low, high = stats["minValue"], stats["maxValue"]
    if low is None or high is None or low[0] != high[0]:
        return NO_BOUNDS
    wrapper = low[0].rpartition(".")[2]
    type_ = _type(wrapper, stats.get("valueType"))
    if type_ is None:
        return NO_BOUNDS
    first, last = _value(type_, low[1]["value"]), _value(type_, high[1]["value"])
    if isinstance(first, bytes):
        first = _ascii_beginning(first)
    return NO_BOUNDS if first is None or last is None else ColumnStatBounds(type_, first, last)


def _type(wrapper: str, named: Any) -> str | None:
    info: dict[str, Any] = {} if named is None else named[1]
    ordinal: int = info.get("typeOrdinal", 0)
    if ordinal == _DECIMAL_ORDINAL and wrapper == "BytesWrapper":
        return _decimal(info.get("additionalInfo"))
    if ordinal > 0:
        return _BY_ORDINAL.get(ordinal)
    return WRAPPED_DECIMAL if wrapper == "DecimalWrapper" else _BY_WRAPPER.get(wrapper)


def _decimal(described: str | None) -> str | None:
    precision, _, scale = (described or "").partition(",")
    if not (precision.isdecimal() and scale.isdecimal()):
        return None
    fits = int(scale) <= int(precision) <= _LARGEST_DECIMAL
    return f"decimal128({int(precision)}, {int(scale)})" if fits else None


def _value(type_: str, value: Any) -> int | float | bytes | None:
    """The stored value; None where it is not of the type that the record names."""
    if type_ in ("float", "double"):
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    if type_ == "string":
        return _encoded(value) if isinstance(value, str) else None
    if type_.startswith("decimal"):
        unscaled = int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else None
        return unscaled if unscaled is not None and abs(unscaled) < 10**_LARGEST_DECIMAL else None
    if isinstance(value, bool):
        return int(value) if type_ == "bool" else None
    return value if isinstance(value, int) and type_ != "bool" else None


def _encoded(text: str) -> bytes | None:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


def _ascii_beginning(low: bytes) -> bytes:
    """A lower bound of all texts in the order of their bytes, where `low` is one in Java's order.

    In Java a character beyond U+FFFF comes before U+E000, and bytes that are not UTF-8 are U+FFFD. No text that is
    greater there is below the ASCII that `low` begins with.
    """
    return next((low[:place] for place, byte in enumerate(low) if byte > 0x7F), low)


# Which of Hudi's statistics are not trusted, each for a known fault (docs/traps.md).

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
"""Bytes from which a text may be too long for Parquet's statistics (`ParquetMetadataConverter`: 4,096 for both)."""

_FIRST_GREGORIAN_DAY = -141_427
_FIRST_COMMON_SECOND = -2_208_988_800
_UNITS = {"timestamp[ms": 10**3, "timestamp[us": 10**6}


def doubt(stats: dict[str, Any], bounds: ColumnStatBounds) -> str | None:
    """Say why the statistics of one file are not trusted; None where they are."""
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


def _of_floats(bounds: ColumnStatBounds) -> str | None:
    """Doubt bounds that may hide NaN.

    Parquet's writer takes NaN for the greatest value and its reader then returns 0.0 for both bounds, so with NaN in
    any row group a bound is NaN or the range contains 0.0.
    """
    low, high = bounds.low, bounds.high
    assert isinstance(low, float)
    assert isinstance(high, float)
    certain = not math.isnan(low) and not math.isnan(high) and (low > 0 or high < 0)
    return None if certain else NAN


def _of_text(stats: dict[str, Any], bounds: ColumnStatBounds, nulls: int) -> str | None:
    high = bounds.high
    assert isinstance(high, bytes)
    # In UTF-16 a surrogate, with which characters beyond U+FFFF begin, comes before U+E000 to U+FFFF.
    if _has_late_character(high):
        return UTF16
    size = stats["totalUncompressedSize"]
    counted = size == 0 and str(stats["fileName"]).startswith(".")  # a log file, whose rows were read
    if nulls and not counted and not (size is not None and 0 < size < _NO_STATISTICS_FROM):
        return TEXT_AND_NULL
    return None


def _has_late_character(text: bytes) -> bool:
    """Tell whether a text has a character from U+E000 to U+FFFF; those begin with the bytes EE and EF."""
    return b"\xee" in text or b"\xef" in text


def _is_old(bounds: ColumnStatBounds) -> bool:
    low = bounds.low
    assert isinstance(low, int)
    assert bounds.type is not None
    if bounds.type.startswith("date"):
        return low < _FIRST_GREGORIAN_DAY
    return low < _FIRST_COMMON_SECOND * _UNITS[bounds.type[: len("timestamp[ms")]]


STAT_SCHEMA = pa.schema(
    [
        pa.field("file", pa.string()),  # the id of its partition (`listing.partition_id`), then its name
        pa.field("deleted", pa.bool_()),
        pa.field("tight", pa.bool_()),
        pa.field("doubt", pa.dictionary(pa.int32(), pa.string())),  # `doubt`
        pa.field("type", pa.dictionary(pa.int32(), pa.string())),  # `bounds_of`
        pa.field("rows", pa.int64()),
        pa.field("nulls", pa.int64()),
        *(
            pa.field(f"{end}_{kind}", type_)
            for kind, type_ in (
                ("integer", pa.int64()),
                ("decimal", pa.decimal128(38, 0)),
                ("float", pa.float64()),
                ("bytes", pa.binary()),
            )
            for end in ("min", "max")
        ),
    ]
)
"""Columns of the statistics of one column; bounds are in the columns of their kind."""

_KEY_PART = 12
"""Length of the id of a column or partition in a key."""

_AT_ONCE = 4096
"""Records that are decoded together. Their Python objects are freed before Python's collector has scanned many."""

_DELETED_BETWEEN: Final = "some that would have to be merged were deleted between them"


def rows_of(hfile: HFile, column: bytes, partitions: Sequence[bytes] = (b"",)) -> pa.Table:
    """What an HFile says of a column (`listing.column_id`) as Arrow columns, in key order.

    Args:
        hfile: the file.
        column: the column.
        partitions: limits the result to files in these partitions (`listing.partition_id`); all, unless given.

    Raises:
        FormatError: it is damaged, or a field has a value of another type than Hudi gives it.
        StorageError: it cannot be read.
    """
    if not partitions:
        return STAT_SCHEMA.empty_table()
    cells = hfile.scan(*(column + partition for partition in partitions))
    decode = decoder_of_statistics(hfile)
    tables: list[pa.Table] = []
    while some := list(islice(cells, _AT_ONCE)):
        rows = zip((key for key, _ in some), decode([value for _, value in some]), strict=True)
        tables.append(stat_rows((key, stats) for key, stats in rows if stats is not None))
    return pa.concat_tables(tables).unify_dictionaries() if tables else STAT_SCHEMA.empty_table()


def of_partitions(rows: pa.Table, partitions: Collection[bytes]) -> pa.Table:
    """Return the statistics of the files in some partitions (`listing.partition_id`)."""
    if not rows.num_rows:
        return rows
    ids: Any = compute.utf8_slice_codeunits(rows.column("file"), start=0, stop=_KEY_PART)
    wanted = pa.array([partition.decode() for partition in partitions], pa.string())
    return rows.filter(compute.is_in(ids, value_set=wanted))


def stat_rows(records: Iterable[tuple[bytes, Record]]) -> pa.Table:
    """Return statistics with their keys as Arrow columns, one row for each in their order.

    Raises:
        FormatError: a field has a value of another type than Hudi gives it.
    """
    try:
        return _table(records)
    except (TypeError, ValueError, AttributeError, IndexError, KeyError, pa.ArrowException) as error:
        raise FormatError(f"statistics in the metadata table are not understood: {error!r}") from None


def _table(records: Iterable[tuple[bytes, Record]]) -> pa.Table:
    rows: list[tuple[Any, ...]] = []
    for key, stats in records:
        partition = key[_KEY_PART : 2 * _KEY_PART].decode("ascii", "replace")
        bounds = bounds_of(stats)
        kinds: list[Any] = [None] * 8
        if bounds.type is not None:
            at = _kind(bounds.type)
            kinds[at : at + 2] = (bounds.low, bounds.high)
        rows.append(
            (
                f"{partition}{stats['fileName']}",
                stats["isDeleted"],
                stats["isTightBound"],
                doubt(stats, bounds),
                bounds.type,
                stats["valueCount"],
                stats["nullCount"],
                *kinds,
            )
        )
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(STAT_SCHEMA)
    fields: list[Any] = list(STAT_SCHEMA)
    arrays = [_array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    return pa.table(arrays, schema=STAT_SCHEMA)


def _array(values: Any, type_: pa.DataType) -> Any:
    if pa.types.is_dictionary(type_):
        return arrow.array(values, pa.string()).dictionary_encode()
    return arrow.array(values, type_)


def _kind(type_: str) -> int:
    """The position of a type's bounds among those of all kinds."""
    if type_ == "string":
        return 6
    if type_ in ("float", "double"):
        return 4
    return 2 if type_.startswith("decimal") else 0


def without(rows: pa.Table, column: bytes, deleted: frozenset[bytes]) -> pa.Table:
    """Return statistics of a column without those whose keys were deleted after them."""
    gone = {key for key in deleted if key.startswith(column)}
    if not gone:
        return rows
    names: list[Any] = rows.column("file").to_pylist()
    return rows.filter(pa.array([_key(column, name) not in gone for name in names], pa.bool_()))


def newest(parts: list[tuple[pa.Table, HFile]], column: bytes, deleted: frozenset[bytes]) -> pa.Table:
    """The statistics of each file that all HFiles of a file group yield together, without those deleted.

    Args:
        parts: the HFiles, oldest first, each with its `rows_of`, `without` what was deleted after it.
        column: the column.
        deleted: every key that was ever deleted.

    Raises:
        FormatError: an HFile is damaged, or records would have to be merged of which some were deleted.
        StorageError: one cannot be read.
    """
    tables = [table for table, _ in parts if table.num_rows]
    if not tables:
        return STAT_SCHEMA.empty_table()
    together = pa.concat_tables(tables).unify_dictionaries()
    final, repeated = _last_of_each(together)
    gone, tight = (np.asarray(together.column(name)) for name in ("deleted", "tight"))
    settled = gone | tight
    kept = together.filter(pa.array(final & ~gone & (settled | ~repeated)))
    open_names: list[Any] = together.column("file").filter(pa.array(final & repeated & ~settled)).to_pylist()
    if not open_names:
        return kept
    keys = [_key(column, name) for name in open_names]
    if not deleted.isdisjoint(keys):
        raise FormatError(f"statistics in the metadata table are not understood: {_DELETED_BETWEEN}")
    merged = stat_rows(_merged([hfile for _, hfile in parts], keys))
    return pa.concat_tables([kept, merged]).unify_dictionaries()


def _last_of_each(together: pa.Table) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows are the last of their file, and which are of a file with several."""
    names: Any = together.column("file").combine_chunks()
    codes = names.dictionary_encode().indices.to_numpy()
    last = np.zeros(codes.max() + 1, np.int64)
    last[codes] = np.arange(len(codes))
    return last[codes] == np.arange(len(codes)), (np.bincount(codes) > 1)[codes]


def _key(column: bytes, name: str) -> bytes:
    return column + name[:_KEY_PART].encode() + file_id(name[_KEY_PART:])


def _merged(hfiles: list[HFile], keys: list[bytes]) -> list[tuple[bytes, Record]]:
    """The statistics of some keys, merged as Hudi merges them."""
    records: dict[bytes, Record] = {}
    for hfile in hfiles:
        decode = decoder(hfile)
        for key, value in hfile.look_up(keys).items():
            stats = statistics(decode(value))
            if stats is not None:
                records[key] = merged_stats(records[key], stats) if key in records else stats
    return list(records.items())
