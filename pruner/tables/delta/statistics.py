"""The statistics in Delta's log as bounds that hold: what writers cut, round or leave out is put back first.

They are parsed for one column at a time, when somebody asks for it. A row that is not understood says nothing.
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
_MICROSECOND: Final = timedelta(microseconds=1)
_CUT: Final = 999
"""Microseconds that a writer cut off who keeps milliseconds (delta-kernel-rs#1003)."""

_OFFSET_CUT: Final = 60_000_000
"""Microseconds by which a moment may be off whose offset was cut to minutes: old ones had seconds (delta#5568)."""

_FIRST_GREGORIAN_DAY: Final = -141_427
_FIRST_COMMON_MOMENT: Final = -2_208_988_800_000_000
"""1582-10-15 and 1900-01-01: what comes before, a writer may have counted in another calendar."""

_LONG: Final = 32
"""Characters from which on a text may have been cut."""

_TIES: Final = ("\x7f", "\ufffd", "\U0010ffff")
"""What writers put behind a text that they cut, so that nothing with its beginning is greater. The second is not
enough: characters beyond U+FFFF come after it.
"""

_HALF: Final = "?"
"""What Java writes for the half of a surrogate pair that a cut leaves of a character beyond U+FFFF."""

_MOMENT: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(Z|[+-]\d{2}(?::?\d{2})?)?)?"
)


_ESCAPED: Final = re.compile(r'["\\\x00-\x1f]')
"""Names of columns that are escaped in JSON."""
_EXACT: Final = Context(prec=100)
_HELD_BY_DOUBLES: Final = 10**15
"""Numbers of fewer digits come through a double as they were; delta-rs writes decimals by way of one."""

_DOUBLE_DIGITS: Final = 17
"""Digits of a double's text at most."""

_LEAST_LONG: Final = -(2**63)
_GREATEST_LONG: Final = 2**63 - 1
"""What delta-rs writes for decimals without a scale that are beyond it."""

_ROUNDED: Final = 2**50
"""The share of a number by which it may be off that came through a double, and was divided as one: 8 times as much."""


class Found(NamedTuple):
    """What the log says of one column in each file; None where it does not."""

    rows: list[Any]
    nulls: list[Any]
    low: list[Any]
    high: list[Any]


class FileBounds(NamedTuple):
    """Least and greatest values in the storage domain of the column's type; None where nothing bounds them."""

    low: list[Any]
    high: list[Any]


class _Nothing(msgspec.Struct):
    """What a file without statistics says."""

    numRecords: None = None  # noqa: N815 - as the log has it
    nullCount: None = None  # noqa: N815
    minValues: None = None  # noqa: N815
    maxValues: None = None  # noqa: N815


class _Rows(msgspec.Struct, gc=False):
    """The number of rows alone."""

    numRecords: Any = None  # noqa: N815 - as the log has it


def found_of(tables: Iterable[pa.Table], about: Field) -> Found:
    """Return what statistics say of a column.

    Args:
        tables: the columns `stats` and `stats_parsed` of files, as far as there are any; of few files each, for all of
            the statistics of one are in memory at once.
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
    """Yield what statistics say of the number of rows of each file; takes what `found_of` does."""
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
    """Decodes of a JSON text what is about one column, and skips the rest."""
    if any(_ESCAPED.search(name) for name in about.recorded):
        return _reader_of_all(about.recorded)
    any_value = _decoder(about, Any)
    if not pa.types.is_floating(about.type):
        return any_value
    # Doubles are made of digits here in a fifth of the time in which Python makes them of a text.
    numbers = _decoder(about, float | str | None)

    def read(text: str) -> Any:
        try:
            return numbers(text)
        except msgspec.MsgspecError:
            return any_value(text)

    return read


def _decoder(about: Field, value: Any) -> Callable[[str], Any]:
    """Decodes what is about one column, its bounds being of some type."""

    def holder(type_: Any) -> Any:
        # What Python's collector need not look at takes a third of the time.
        made = msgspec.defstruct("Value", [("v", type_, None)], rename={"v": about.recorded[-1]}, gc=False)
        for name in reversed(about.recorded[:-1]):
            made = msgspec.defstruct("Values", [("v", made | None, None)], rename={"v": name}, gc=False)
        return made | None

    bounds = holder(value)
    types = {"numRecords": Any, "minValues": bounds, "maxValues": bounds, "nullCount": holder(Any)}
    fields: list[Any] = [(name, type_, None) for name, type_ in types.items()]
    return msgspec.json.Decoder(msgspec.defstruct("Statistics", fields, gc=False), float_hook=_Text).decode


def _reader_of_all(path: Sequence[str]) -> Callable[[str], Any]:
    """The same for a column with a name that JSON escapes, which no structure can have as that of a field."""
    decode = msgspec.json.Decoder(dict[str, Any], float_hook=_Text).decode

    def read(text: str) -> Any:
        told = decode(text)
        values = {name: _within(told.get(name), path) for name in ("minValues", "maxValues", "nullCount")}
        return SimpleNamespace(numRecords=told.get("numRecords"), **values)

    return read


def _within(value: Any, path: Sequence[str]) -> Any:
    """What stands at a path, in as many holders as the path has names."""
    for name in path:
        value = cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None
    for _ in path:
        value = SimpleNamespace(v=value)
    return value


class _Text(str):
    """A number as it is written: a double would not hold every decimal."""

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
    """What each text says; one that is not understood says nothing."""
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
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).view(pa.int64())
    values: list[Any] = column.to_pylist()
    return [value if is_there else None for value, is_there in zip(values, valid.to_pylist(), strict=True)]


def bounds_of(statistics: Found, type_: pa.DataType, *, was_float: bool) -> FileBounds:
    """Return bounds that hold for every value of the column but NULL and NaN.

    Args:
        statistics: what the log says.
        type_: of the column as it is now.
        was_float: whether some files may have its values as 32-bit floats.
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
    """Tell whether all values that there are have a type."""
    return all(set(map(type, values)) <= {type_, NoneType} for values in columns)


def _all_converted(convert: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    if convert is _integer and _are(int, values):
        return values  # most columns of ids: nothing is to be done
    if convert in (_low_text, _high_text) and _are(str, values):
        with suppress(UnicodeEncodeError):
            return _plain_texts(values, high=convert is _high_text)
    return [_converted(convert, value) for value in values]


def _plain_texts(texts: list[str | None], *, high: bool) -> list[Any]:
    """The same of texts alone, of which few were cut."""
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
    if type(value) is not int:  # a boolean is none
        raise TypeError
    return value


def _float(value: Any, *, narrow: bool, high: bool) -> float | None:
    """A double; NaN bounds nothing. The shortest text of a 32-bit float is another number as a double."""
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
    """Unscaled. A number that a double need not hold is taken to be off as far as one can be."""
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
    """Whether nobody makes such a number of a double, neither by its shortest text nor by all of its digits."""
    if isinstance(value, Decimal):  # of a checkpoint's typed column, which may be made of one
        return False
    number = Decimal(value)
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    return len(digits) > _DOUBLE_DIGITS and all(each != Decimal(float(each)) for each in (number, unscaled))


def _days(value: Any) -> int:
    day = value if isinstance(value, date) else date.fromisoformat(str(value))
    return (day - _DAY).days


def _moment(value: Any, type_: Any, *, high: bool) -> int:
    """Microseconds since 1970. What a writer cut off is added to a greatest value.

    A date is what a column had that became a timestamp without a zone.
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
        if (zone is None) == (type_.tz is not None):  # whose clock it was nobody says
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
    """A text that nothing in the file comes after; None where there is none.

    One that may have been cut stands for all that begins as it does, but for half a character at its end.
    """
    if not isinstance(value, str) or isinstance(value, _Text):
        raise TypeError
    if value.endswith(_TIES):
        return _behind(value[:-1].removesuffix(_HALF).encode())
    return _behind(value[:_LONG].removesuffix(_HALF).encode()) if len(value) >= _LONG else value.encode()


def _behind(beginning: bytes) -> bytes | None:
    kept = beginning.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
