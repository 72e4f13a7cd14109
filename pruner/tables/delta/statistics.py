"""The statistics in Delta's log as valid bounds: what writers truncate, round or omit is corrected first.

They are parsed one column at a time, on demand. A row that cannot be parsed counts as having no statistics.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from operator import attrgetter
from types import NoneType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec
import numpy as np
import pyarrow as pa

from pruner.arrow import compute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pruner.schema import Field

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = date(1970, 1, 1)
_FIRST_DAY: Final = (date.min - _DAY).days
_LAST_DAY: Final = (date.max - _DAY).days
_MICROSECOND: Final = timedelta(microseconds=1)
_CUT: Final = 999
"""Microseconds lost to a writer that truncates to milliseconds (delta-kernel-rs#1003)."""

_OFFSET_CUT: Final = 60_000_000
"""Microseconds by which a timestamp may be off whose offset was cut to minutes: old ones had seconds (delta#5568)."""

_FIRST_GREGORIAN_DAY: Final = -141_427
_FIRST_COMMON_MOMENT: Final = -2_208_988_800_000_000
"""1582-10-15 and 1900-01-01: a writer may have encoded earlier values in another calendar."""

_LONG: Final = 32
"""Length in characters from which a string may have been truncated."""

_TIES: Final = ("\x7f", "\ufffd", "\U0010ffff")
"""What writers append to a truncated string so that nothing with its prefix is greater. The second does not suffice:
characters beyond U+FFFF sort after it.
"""

_HALF: Final = "?"
"""What Java writes for the half surrogate pair that truncation leaves of a character beyond U+FFFF."""

_MOMENT: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(Z|[+-]\d{2}(?::?\d{2})?)?)?"
)


_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')
"""Matches column names that JSON escapes."""
_EXACT: Final = Context(prec=100)
_HELD_BY_DOUBLES: Final = 10**15
"""Numbers with fewer digits survive conversion to a double; delta-rs writes decimals by way of one."""

_DOUBLE_DIGITS: Final = 17
"""Maximum number of digits in a double's text."""

_LEAST_LONG: Final = -(2**63)
_GREATEST_LONG: Final = 2**63 - 1
"""What delta-rs writes for decimals of scale 0 beyond this range."""

_ROUNDED: Final = 2**50
"""Reciprocal of the assumed relative error of a number that was converted to a double and divided as one: 8 times that
of a double.
"""


class Found(NamedTuple):
    """The log's statistics of one column for each file; None where there are none."""

    rows: list[Any]
    nulls: list[Any]
    low: list[Any]
    high: list[Any]


class FileBounds(NamedTuple):
    """Lower and upper bounds in the storage domain of the column's type; None where there is no bound."""

    low: list[Any]
    high: list[Any]


class _Nothing(msgspec.Struct):
    """The statistics of a file that has none."""

    numRecords: None = None  # noqa: N815 - as the log has it
    nullCount: None = None  # noqa: N815
    minValues: None = None  # noqa: N815
    maxValues: None = None  # noqa: N815


class _Rows(msgspec.Struct, gc=False):
    """Only the number of rows."""

    numRecords: Any = None  # noqa: N815 - as the log has it


def found_of(tables: Iterable[pa.Table], about: Field) -> Found:
    """Return the statistics of a column.

    Args:
        tables: the columns `stats` and `stats_parsed` of files, where present; of few files each, since all statistics
            of one table are in memory at once.
        about: a column, or a field of a struct.
    """
    read, found = _reader(about), Found([], [], [], [])
    for table in tables:
        for values, more in zip(found, _of_table(table, about, read), strict=True):
            values.extend(more)
    return found


def _of_table(table: pa.Table, about: Field, read: Callable[[str], Any]) -> Found:
    texts = _texts(table)
    statistics = _of_texts(texts, len(about.recorded), read)
    if "stats_parsed" not in table.column_names or None not in texts:
        return statistics
    parsed = _of_columns(table.column("stats_parsed").combine_chunks(), about)
    return Found(
        *(
            [one if text is not None else other for text, one, other in zip(texts, *both, strict=True)]
            for both in zip(statistics, parsed, strict=True)
        )
    )


def rows_of(tables: Iterable[pa.Table]) -> Iterator[Any]:
    """Yield the number of rows of each file according to its statistics; takes the same tables as `found_of`."""
    read = msgspec.json.Decoder(_Rows, float_hook=_Text).decode
    for table in tables:
        texts = _texts(table)
        rows = [told.numRecords for told in _told(texts, read)]
        if "stats_parsed" in table.column_names and None in texts:
            parsed = _inside(table.column("stats_parsed").combine_chunks(), ("numRecords",))
            pairs = zip(texts, rows, parsed, strict=True)
            rows = [one if text is not None else other for text, one, other in pairs]
        yield from rows


def _texts(table: pa.Table) -> list[Any]:
    nothing: list[Any] = [None] * table.num_rows
    return table.column("stats").to_pylist() if "stats" in table.column_names else nothing


def _reader(about: Field) -> Callable[[str], Any]:
    """A function that decodes the statistics of one column from JSON and skips the rest."""
    if any(_ESCAPED.search(name) for name in about.recorded):
        return _reader_of_all(about.recorded)
    any_value = _decoder(about, Any)
    if not pa.types.is_floating(about.type):
        return any_value
    # Decoding doubles directly takes a fifth of the time that Python takes to convert strings.
    numbers = _decoder(about, float | str | None)

    def read(text: str) -> Any:
        try:
            return numbers(text)
        except msgspec.MsgspecError:
            return any_value(text)

    return read


def _decoder(about: Field, value: Any) -> Callable[[str], Any]:
    """A function that decodes the statistics of one column, with bounds of the type `value`."""

    def holder(type_: Any) -> Any:
        # Objects that Python's garbage collector does not track take a third of the time.
        made = msgspec.defstruct("Value", [("v", type_, None)], rename={"v": about.recorded[-1]}, gc=False)
        for name in reversed(about.recorded[:-1]):
            made = msgspec.defstruct("Values", [("v", made | None, None)], rename={"v": name}, gc=False)
        return made | None

    bounds = holder(value)
    types = {"numRecords": Any, "minValues": bounds, "maxValues": bounds, "nullCount": holder(Any)}
    fields: list[Any] = [(name, type_, None) for name, type_ in types.items()]
    return msgspec.json.Decoder(msgspec.defstruct("Statistics", fields, gc=False), float_hook=_Text).decode


def _reader_of_all(path: Sequence[str]) -> Callable[[str], Any]:
    """The same for a column whose name JSON escapes, which cannot be the name of a msgspec field."""
    decode = msgspec.json.Decoder(dict[str, Any], float_hook=_Text).decode

    def read(text: str) -> Any:
        told = decode(text)
        values = {name: _within(told.get(name), path) for name in ("minValues", "maxValues", "nullCount")}
        return SimpleNamespace(numRecords=told.get("numRecords"), **values)

    return read


def _within(value: Any, path: Sequence[str]) -> Any:
    """The value at a path, wrapped in one holder for each name of the path."""
    for name in path:
        value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    for _ in path:
        value = SimpleNamespace(v=value)
    return value


class _Text(str):
    """A number as written: a double cannot represent every decimal."""

    __slots__ = ()


def _of_texts(texts: Sequence[Any], depth: int, read: Callable[[str], Any]) -> Found:
    told = list(_told(texts, read))
    rows = [item.numRecords for item in told]
    inner: list[list[Any]] = []
    for get in (attrgetter("nullCount"), attrgetter("minValues"), attrgetter("maxValues")):
        values = list(map(get, told))
        for _ in range(depth):
            values = [None if value is None else value.v for value in values]
        inner.append(values)
    return Found(rows, *inner)


def _told(texts: Sequence[Any], read: Callable[[str], Any]) -> Iterator[Any]:
    """The statistics in each string; empty ones where it cannot be parsed."""
    nothing: Any = _Nothing()
    for text in texts:
        try:
            yield nothing if text is None else read(text)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            yield nothing


def _of_columns(parsed: Any, about: Field) -> Found:
    """The same from the typed columns of a checkpoint."""
    rows = _inside(parsed, ("numRecords",))
    values = [_inside(parsed, (name, *about.recorded)) for name in ("nullCount", "minValues", "maxValues")]
    return Found(rows, *values)


def _inside(column: Any, path: tuple[str, ...]) -> list[Any]:
    valid = column.is_valid()
    for name in path:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            return [None] * len(column)
        column = column.field(name)
        valid = compute.and_(valid, column.is_valid())
    values: list[Any] = _readable(column).to_pylist()
    return [value if is_there else None for value, is_there in zip(values, valid.to_pylist(), strict=True)]


def _readable(column: Any) -> Any:
    """Timestamps as microseconds; NULL for what neither they nor Python's dates can represent."""
    if pa.types.is_timestamp(column.type):
        try:
            return column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64())
        except pa.ArrowInvalid:
            return pa.nulls(len(column), pa.int64())
    if pa.types.is_date32(column.type):
        days = column.view(pa.int32())
        inside = compute.and_(compute.greater_equal(days, _FIRST_DAY), compute.less_equal(days, _LAST_DAY))
        return compute.if_else(inside, column, None)
    return column


def bounds_of(statistics: Found, type_: pa.DataType, *, was_float: bool) -> FileBounds:
    """Return bounds that hold for every value of the column except NULL and NaN.

    Args:
        statistics: from the log.
        type_: the column's current type.
        was_float: whether some files may store its values as 32-bit floats.
    """
    low_of, high_of = _converters(type_, was_float=was_float)
    if pa.types.is_float64(type_) and not was_float and _are(float, statistics.low, statistics.high):
        return FileBounds(_without_nan(statistics.low), _without_nan(statistics.high))
    low, high = _all_converted(low_of, statistics.low), _all_converted(high_of, statistics.high)
    first = _FIRST_GREGORIAN_DAY if pa.types.is_date(type_) else _FIRST_COMMON_MOMENT
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        for at, value in enumerate(low):
            if value is not None and value < first:
                low[at] = high[at] = None
    return FileBounds(low, high)


def _without_nan(numbers: list[Any]) -> list[Any]:
    return [None if number is None or math.isnan(number) else number for number in numbers]


def _are(type_: type, *columns: list[Any]) -> bool:
    """Tell whether all values other than None have a type."""
    return all(set(map(type, values)) <= {type_, NoneType} for values in columns)


def _all_converted(convert: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    if convert is _integer and _are(int, values):
        return values  # most id columns: nothing to convert
    if convert in (_low_text, _high_text) and _are(str, values):
        with suppress(UnicodeEncodeError):
            return _plain_texts(values, high=convert is _high_text)
    return [_converted(convert, value) for value in values]


def _plain_texts(texts: list[str | None], *, high: bool) -> list[Any]:
    """The same for strings only, few of which were truncated."""
    if not high:
        return [None if text is None else text.encode() for text in texts]
    return [
        None
        if text is None
        else text.encode()
        if len(text) < _LONG and not text.endswith(_TIES)
        else _high_text(text)
        for text in texts
    ]


def _converted(convert: Callable[[Any], Any], value: Any) -> Any:
    if value is None:
        return None
    try:
        return convert(value)
    except (ValueError, TypeError, ArithmeticError, InvalidOperation):
        return None


def _converters(type_: Any, *, was_float: bool) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    types = pa.types
    if types.is_boolean(type_):
        return _truth, _truth
    if types.is_integer(type_):
        return _integer, _integer
    if types.is_floating(type_):
        narrow = was_float or types.is_float32(type_)
        return (lambda value: _float(value, narrow=narrow, high=False)), (
            lambda value: _float(value, narrow=narrow, high=True)
        )
    if types.is_decimal(type_):
        return (
            (lambda value: _decimal(value, type_.scale, high=False)),
            (lambda value: _decimal(value, type_.scale, high=True)),
        )
    if types.is_date(type_):
        return _days, _days
    if types.is_timestamp(type_):
        return (lambda value: _moment(value, type_, high=False)), (
            lambda value: _moment(value, type_, high=True)
        )
    if types.is_string(type_):
        return _low_text, _high_text
    return _unknown, _unknown


def _unknown(_: Any) -> None:
    return None


def _truth(value: Any) -> int:
    if not isinstance(value, bool):
        raise TypeError
    return int(value)


def _integer(value: Any) -> int:
    if type(value) is not int:  # a boolean is not an integer
        raise TypeError
    return value


def _float(value: Any, *, narrow: bool, high: bool) -> float | None:
    """A double; NaN bounds nothing. The shortest text of a 32-bit float parses as a different double."""
    if isinstance(value, bool):
        raise TypeError
    number = float(value)
    if math.isnan(number):
        return None
    if narrow and math.isfinite(number):
        with np.errstate(over="ignore"):
            other = float(np.float32(number))
        number = max(number, other) if high else min(number, other)
    return number


def _decimal(value: Any, scale: int, *, high: bool) -> int:
    """The unscaled value. A number that a double may have rounded is widened by the maximum error."""
    if isinstance(value, bool | float) or not isinstance(value, int | str | Decimal):
        raise TypeError
    if Decimal(value) == (_GREATEST_LONG if high else _LEAST_LONG):
        raise ValueError
    number = Decimal(value).scaleb(scale, _EXACT)
    if abs(number) < _HELD_BY_DOUBLES or _is_no_double(value, number):
        if number != number.to_integral_value():
            raise ValueError
        return int(number)
    slack = abs(number) / _ROUNDED + 1
    return int(number + slack if high else number - slack)


def _is_no_double(value: Any, unscaled: Decimal) -> bool:
    """Whether no writer derives such a number from a double, by its shortest text or by all of its digits."""
    if isinstance(value, Decimal):  # from a checkpoint's typed column, which may be made from a double
        return False
    number = Decimal(value)
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    return len(digits) > _DOUBLE_DIGITS and all(each != Decimal(float(each)) for each in (number, unscaled))


def _days(value: Any) -> int:
    day = value if isinstance(value, date) else date.fromisoformat(str(value))
    return (day - _DAY).days


def _moment(value: Any, type_: Any, *, high: bool) -> int:
    """Microseconds since 1970. What a writer may have truncated is added to an upper bound.

    A date is from a column that was widened to a timestamp without a zone.
    """
    if isinstance(value, int):
        return _uncut(value, high=high)
    if isinstance(value, date):
        value = value.isoformat()
    match = _MOMENT.fullmatch(str(value))
    if match is None:
        raise ValueError
    *fields, fraction, zone = match.groups()
    parts = [int(field or 0) for field in fields]
    digits = (fraction or "")[:6].ljust(6, "0")
    moment = datetime(parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], int(digits), tzinfo=UTC)
    micros = (moment - _EPOCH) // _MICROSECOND
    if zone is None or type_.tz is None:
        if (zone is None) == (type_.tz is not None):  # the zone is unknown
            raise ValueError
        return _uncut(micros, high=high)
    if zone != "Z":
        sign = -1 if zone[0] == "-" else 1
        minutes = int(zone[1:3]) * 60 + int(zone[-2:] if len(zone) > 3 else 0)
        micros += -sign * minutes * 60_000_000 + (_OFFSET_CUT if high else -_OFFSET_CUT)
    return _uncut(micros, high=high)


def _uncut(micros: int, *, high: bool) -> int:
    return micros + _CUT if high and micros % 1000 == 0 else micros


def _low_text(value: Any) -> bytes:
    if not isinstance(value, str) or isinstance(value, _Text):
        raise TypeError
    return value.encode()


def _high_text(value: Any) -> bytes | None:
    """An upper bound of the file's strings; None where there is none.

    A string that may have been truncated stands for all strings with its prefix, less half a character at its end.
    """
    if not isinstance(value, str) or isinstance(value, _Text):
        raise TypeError
    if value.endswith(_TIES):
        return _behind(value[:-1].removesuffix(_HALF).encode())
    return _behind(value[:_LONG].removesuffix(_HALF).encode()) if len(value) >= _LONG else value.encode()


def _behind(beginning: bytes) -> bytes | None:
    kept = beginning.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
