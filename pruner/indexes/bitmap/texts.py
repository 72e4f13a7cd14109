"""Recorded values as text, for people."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from pruner.arrow import from_storage


def texts(values: pa.Array[Any], type_: pa.DataType) -> list[str]:
    """Write values of a stored type as those of a table type are usually written.

    Bytes of text that is not UTF-8 are written as escapes.
    """
    types = pa.types
    listed: list[Any] = values.to_pylist()
    if types.is_binary(values.type):
        return [value.decode("utf-8", "backslashreplace") for value in listed]
    if types.is_decimal(type_):
        sign_and_digits = (Decimal(value).as_tuple() for value in listed)
        return [f"{Decimal((sign, digits, -type_.scale)):f}" for sign, digits, _ in sign_and_digits]
    if types.is_boolean(type_):
        return ["true" if value else "false" for value in listed]
    moment = types.is_date(type_) or types.is_time(type_) or types.is_timestamp(type_)
    plain: Any = from_storage(values, type_) if moment else values
    return plain.cast(pa.string()).to_pylist()
