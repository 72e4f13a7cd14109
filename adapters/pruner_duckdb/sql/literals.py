"""Python values of query parameters as typed SQL literals, for the shadow's copy of a statement only."""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Final, cast

from pruner_duckdb.types import quote_text

_TO_ESCAPE: Final = re.compile(r'["\\\0]')
"""What a text inside of the text of a list would have to escape."""

MOST_LISTED: Final = 16_384
"""Of more values, planning takes longer than most scans."""


class NoLiteral(Exception):  # noqa: N818 - never reaches a user
    """A parameter that has no SQL literal of the very type that DuckDB gives it."""


def sql_literal(value: object) -> str:
    """Return a literal that binds like the parameter does.

    DuckDB treats a string parameter as an untyped string literal and gives every other value its type.

    Raises:
        NoLiteral: the value's type is not known here, or it is NaN or infinite.
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int():
            return f"(({value})::{_integer_type(value)})"
        case float() if math.isfinite(value):
            return f"({value!r}::DOUBLE)"
        case str() if "\0" not in value:
            return quote_text(value)
        case bytes():
            return "('" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB)"
        case Decimal() if value.is_finite():
            return _decimal(value)
        case datetime.date() | datetime.time():
            return _moment(value)
        case uuid.UUID():
            return f"('{value}'::UUID)"
        case list() | tuple() if value:
            return _list(cast("Sequence[object]", value))
        case _:
            raise NoLiteral(f"a parameter of type {type(value).__name__}")


def _list(values: Sequence[object]) -> str:
    """A list of integers, dates or texts as a cast of one text.

    DuckDB takes twenty times as long to read an expression for each value.
    """
    if len(values) > MOST_LISTED:
        raise NoLiteral(f"a list of more than {MOST_LISTED:,} values")
    kinds = {type(each) for each in values}
    if kinds == {int} and all(-(2**63) <= each < 2**63 for each in cast("Sequence[int]", values)):
        type_ = (
            "BIGINT"
            if any(_integer_type(each) == "BIGINT" for each in cast("Sequence[int]", values))
            else "INTEGER"
        )
    elif kinds == {str} and not any(_TO_ESCAPE.search(each) for each in cast("Sequence[str]", values)):
        values, type_ = [f'"{each}"' for each in values], "VARCHAR"
    elif kinds == {datetime.date}:
        type_ = "DATE"
    else:
        raise NoLiteral(
            "a list of other values than integers, dates, or texts without quotes and backslashes"
        )
    # No brackets around it: `x IN (list)` compares with the list itself.
    return f"CAST({quote_text('[' + ', '.join(map(str, values)) + ']')} AS {type_}[])"


def _moment(value: datetime.date | datetime.time) -> str:
    match value:
        case datetime.datetime() if value.tzinfo is None:
            return f"('{value.isoformat(' ')}'::TIMESTAMP)"
        case datetime.datetime():
            return f"('{_in_utc(value).isoformat(' ')}'::TIMESTAMPTZ)"
        case datetime.date():
            return f"('{value.isoformat()}'::DATE)"
        case _ if value.tzinfo is None:
            return f"('{value.isoformat()}'::TIME)"
        case _:
            raise NoLiteral("a parameter of a time of day with an offset")


def _in_utc(value: datetime.datetime) -> datetime.datetime:
    try:
        return value.astimezone(datetime.UTC)
    except OverflowError:
        raise NoLiteral("a moment before the year 1 or after the year 9999") from None


def _integer_type(value: int) -> str:
    if -(2**31) <= value < 2**31:
        return "INTEGER"
    if -(2**63) <= value < 2**63:
        return "BIGINT"
    if 0 <= value < 2**64:
        return "UBIGINT"
    if -(2**127) <= value < 2**127:
        return "HUGEINT"
    raise NoLiteral("an integer parameter of more than 128 bits")


def _decimal(value: Decimal) -> str:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    width = max(len(digits) + max(0, int(exponent)), scale + 1)
    if width > 38:
        raise NoLiteral("a decimal parameter of more than 38 digits")
    return f"('{value:f}'::DECIMAL({width}, {scale}))"
