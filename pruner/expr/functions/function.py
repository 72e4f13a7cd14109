"""What a row of the registry says of a function that an index may be over, and the arguments that rows take.

A row says how DuckDB evaluates the function (every column a wall clock, number, text or date by itself), and for each
engine on which values it was compared with that. A value outside keeps its file in a plan for that engine. Nested
calls are checked node by node. An engine that a row does not name was not compared, and is never answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from pruner.expr.engines import SqlEngine
from pruner.expr.types import is_string, is_temporal
from pruner.expr.values import LiteralValue

DUCKDB, SPARK, TRINO = SqlEngine.DUCKDB, SqlEngine.SPARK, SqlEngine.TRINO


class Argument(NamedTuple):
    """An argument as a row judges it: its type, and its value where it is a constant."""

    type: pa.DataType
    constant: LiteralValue = None

    @property
    def is_constant(self) -> bool:
        """Whether it is a constant (NULL is refused before)."""
        return self.constant is not None


Accepts: TypeAlias = Callable[[Argument], bool]
Result: TypeAlias = Callable[[Sequence[Argument]], pa.DataType]
Evaluate: TypeAlias = Callable[[Any], Any]
"""A function of a value of the reference (`rising`); ValueError where that lies outside the calendar."""
Rises: TypeAlias = Callable[[Sequence[Argument]], Evaluate | None]
"""Gives the function of its one argument that is no constant, where that never falls; None where it may."""

ANYWHERE: Final = "true"
MOMENTS: Final = "{0} BETWEEN {first} AND {last}"
"""From 1900, where all calendars agree (trap S17), to 9999. `{first}` and `{last}` are of the argument's type."""
SECOND_ARGUMENT_MOMENTS: Final = "{1} BETWEEN {first} AND {last}"
ASCII: Final = "strlen({0}) = length({0})"
PRINTABLE: Final = f"{ASCII} AND NOT regexp_matches({{0}}, '[\\x00-\\x1f\\x7f]')"
"""Engines differ about which control characters are space, and about the two that end a line."""
BOTH_KNOWN: Final = "{0} IS NOT NULL AND {1} IS NOT NULL"
FITTING: Final = "{wide} BETWEEN {least} AND {greatest}"
"""The result fits the narrowest type that an engine may give it."""

YEARS: Final = "years 1900 to 9999"
FITS: Final = "results that fit the narrowest column's type"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function with its evaluation."""

    name: str
    """Its name in the canonical form."""
    accepts: tuple[Accepts, ...]
    result: Result
    sql: str
    """Its evaluation by DuckDB; `{0}` is the first argument."""
    written: str = ""
    """As people write it for DuckDB, where that is not its evaluation."""
    wide: str = ""
    """The result of integers before it is cut to 64 bits."""
    domain: str
    """Condition on the arguments by which `compared` holds."""
    values: str
    """The same, for people."""
    compared: Mapping[str, str]
    """The engines that were compared with the evaluation, and how each spells it."""
    of_null: bool = False
    """Whether it can come to a value where every column in it is NULL."""
    reads_clock: bool = False
    """Whether an instant becomes a wall clock, by the session's zone."""
    rises: Rises | None = None
    """Of which arguments it never falls, so that a range of the column is one of its values (`rising`)."""
    in_order: str = ""
    """The same, for people."""
    changed: int = 1
    """Registry version since which it means what it means now."""


def everywhere(spelled: str) -> dict[str, str]:
    """The same spelling in every engine, each of which was compared."""
    return {DUCKDB: spelled, SPARK: spelled, TRINO: spelled}


def of_type(type_: pa.DataType) -> Result:
    """A result of one type, whatever the arguments."""
    return lambda _: type_


BIGINT: Final = of_type(pa.int64())
DOUBLE: Final = of_type(pa.float64())
VARCHAR: Final = of_type(pa.string())
BOOLEAN: Final = of_type(pa.bool_())
DATE: Final = of_type(pa.date32())


def is_moment(argument: Argument) -> bool:
    """A date or timestamp that is no constant."""
    return not argument.is_constant and is_temporal(argument.type)


def is_stamp(argument: Argument) -> bool:
    """A timestamp that is no constant."""
    return not argument.is_constant and pa.types.is_timestamp(argument.type)


def is_text(argument: Argument) -> bool:
    """Text that is no constant."""
    return not argument.is_constant and is_string(argument.type)


def is_any_text(argument: Argument) -> bool:
    """Text, a constant or not."""
    return is_string(argument.type)


def is_constant_text(argument: Argument) -> bool:
    """Text that is a constant."""
    return isinstance(argument.constant, str)


def is_integer(argument: Argument) -> bool:
    """An integer, a constant or not."""
    return pa.types.is_signed_integer(argument.type)


def is_column_integer(argument: Argument) -> bool:
    """An integer that is no constant."""
    return not argument.is_constant and is_integer(argument)


def is_double(argument: Argument) -> bool:
    """A double, a constant or not."""
    return pa.types.is_float64(argument.type)


def is_full_text(argument: Argument) -> bool:
    """Text that is a constant and not empty."""
    return isinstance(argument.constant, str) and argument.constant != ""


def is_field_name(argument: Argument) -> bool:
    """Text that is a constant and a name, so that it needs no quotes in a path."""
    value = argument.constant
    return isinstance(value, str) and value.isascii() and value.isidentifier()


def is_set_of_letters(argument: Argument) -> bool:
    """Text that is a constant, of ASCII and without a letter twice."""
    value = argument.constant
    return isinstance(value, str) and value.isascii() and 0 < len(value) == len(set(value))


def is_constant_integer(argument: Argument) -> bool:
    """An integer that is a constant."""
    return argument.is_constant and is_integer(argument)


def is_column_double(argument: Argument) -> bool:
    """A double that is no constant."""
    return not argument.is_constant and is_double(argument)


def is_divisor(argument: Argument) -> bool:
    """A constant that is a double and not zero."""
    return isinstance(argument.constant, float) and argument.constant != 0.0


def is_few(argument: Argument) -> bool:
    """A constant from 1 to 6."""
    return is_count(argument) and argument.constant in range(1, 7)


def is_date(argument: Argument) -> bool:
    """A date that is no constant."""
    return not argument.is_constant and pa.types.is_date(argument.type)


def is_condition(argument: Argument) -> bool:
    """A truth value."""
    return not argument.is_constant and pa.types.is_boolean(argument.type)


def is_count(argument: Argument) -> bool:
    """A constant from 1 on."""
    value = argument.constant
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31
