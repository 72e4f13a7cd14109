"""Recorded values as text, for people."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, cast

import pyarrow as pa


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
    plain: Any = values
    if types.is_date32(type_) or types.is_time32(type_):
        plain = cast("Any", values.cast(pa.int32())).view(type_)
    elif types.is_timestamp(type_) or types.is_time64(type_):
        plain = cast("Any", values).view(type_)
    return plain.cast(pa.string()).to_pylist()
