"""Casts of a file's column to the table's type that may fail.

`read_parquet` casts while it reads: `x IS NULL` is answered of the file's own values, and an error names the file. A
cast above a native scan fails before that, so such files are better read under the table's types (rule R12).
"""

from __future__ import annotations

import re
from functools import cache

_DIGITS = {
    "BOOLEAN": 1,
    "TINYINT": 3,
    "SMALLINT": 5,
    "INTEGER": 10,
    "BIGINT": 19,
    "HUGEINT": 39,
    "UTINYINT": 3,
    "USMALLINT": 5,
    "UINTEGER": 10,
    "UBIGINT": 20,
    "UHUGEINT": 39,
    "FLOAT": 99,
    "DOUBLE": 99,
}
_DECIMAL = re.compile(r"DECIMAL\(([0-9]+),([0-9]+)\)")


@cache
def may_fail(held: str, wanted: str) -> bool:
    """Tell whether a value of the one type may have no image in the other, as DuckDB writes them.

    Nested types of one kind, and dates and times, count as safe: what fails there lies far beyond what is written, and
    a native scan is worth more.
    """
    if wanted in (held, "VARCHAR"):
        return False
    numbers = _integer_digits(held), _integer_digits(wanted)
    if numbers[0] is not None and numbers[1] is not None:
        return numbers[0] > numbers[1]
    return _family(held) != _family(wanted)


def _integer_digits(data_type: str) -> int | None:
    """Digits before the point that a type of numbers holds; None for other types."""
    decimal = _DECIMAL.fullmatch(data_type)
    if decimal is not None:
        return int(decimal.group(1)) - int(decimal.group(2))
    return _DIGITS.get(data_type)


def _family(data_type: str) -> str:
    """What types have in common whose values are each other's images, as far as is known."""
    if data_type.endswith("]"):
        return "list"
    if data_type.startswith(("DATE", "TIMESTAMP")):
        return "moment"
    return data_type.partition("(")[0]
