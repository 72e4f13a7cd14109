"""Rows of the registry of functions, and predicates on the arguments that rows take.

A row has each engine's names for the function, and up to two things with which engines were compared:

- its `evaluations`: how DuckDB evaluates it for an index over it (every column a wall clock, number, text or date by
  itself), and for each engine on which values that was compared. A value outside keeps its file in a plan for that
  engine. Nested calls are checked node by node;
- its `preimages`: what a condition on it implies for its argument, so that statistics of a column serve it.

An engine that is not named there was not compared, and never gets an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from pruner.expr.engines import SqlEngine
from pruner.expr.types import is_string, is_temporal
from pruner.expr.values import LiteralValue

if TYPE_CHECKING:
    from pruner.expr.functions.inverse import Inverse, Use
    from pruner.expr.nodes import Call

DUCKDB, SPARK, TRINO = SqlEngine.DUCKDB, SqlEngine.SPARK, SqlEngine.TRINO


class Argument(NamedTuple):
    """An argument as a row checks it: its type, and its value where it is a constant."""

    type: pa.DataType
    constant: LiteralValue = None

    @property
    def is_constant(self) -> bool:
        """Whether it is a constant (NULL is refused earlier)."""
        return self.constant is not None


Accepts: TypeAlias = Callable[[Argument], bool]
Result: TypeAlias = Callable[[Sequence[Argument]], pa.DataType]
Evaluate: TypeAlias = Callable[[Any], Any]
"""A function of a value of the reference (`rising`); ValueError where that is outside the calendar."""
Rises: TypeAlias = Callable[[Sequence[Argument]], Evaluate | None]
"""Returns the function of the one argument that is not constant, where that never falls; None where it may."""
OfType: TypeAlias = Callable[[pa.DataType], bool]
Shape: TypeAlias = "Callable[[Call, str], Call | str]"
"""Converts an engine's call to the canonical form; one sentence where it may not be the function."""

ANYWHERE: Final = "true"
MOMENTS: Final = "{0} BETWEEN {first} AND {last}"
"""From 1900, where all calendars agree (trap S17), to 9999. `{first}` and `{last}` are of the argument's type."""
SECOND_ARGUMENT_MOMENTS: Final = "{1} BETWEEN {first} AND {last}"
ASCII: Final = "strlen({0}) = length({0})"
PRINTABLE: Final = f"{ASCII} AND NOT regexp_matches({{0}}, '[\\x00-\\x1f\\x7f]')"
"""Engines differ about which control characters are whitespace, and about the two that end a line."""
BOTH_KNOWN: Final = "{0} IS NOT NULL AND {1} IS NOT NULL"
FITTING: Final = "{wide} BETWEEN {least} AND {greatest}"
"""The result fits the narrowest type that an engine may give it."""

YEARS: Final = "years 1900 to 9999"
FITS: Final = "results that fit the narrowest column's type"
NOT_YET: Final = "not compared yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """How values of a function are computed for arguments of some types."""

    accepts: tuple[Accepts, ...]
    result: Result
    sql: str
    """The evaluation by DuckDB; `{0}` is the first argument."""
    template: str = ""
    """Its usual spelling in DuckDB, where that is not its evaluation."""
    wide: str = ""
    """The result for integers before it is cast to 64 bits."""
    domain: str
    """Condition on the arguments under which `compared` holds."""
    values: str
    """The same, for display."""
    compared: Mapping[str, str]
    """The engines that were compared with the evaluation, each with a spelling for display."""
    of_null: bool = False
    """Whether it can yield a value where every column in it is NULL."""
    reads_clock: bool = False
    """Whether an instant becomes a wall clock, by the session's zone."""
    rises: Rises | None = None
    """For which arguments it never falls, so that a range of the column is a range of its values (`rising`)."""
    in_order: str = ""
    """The same, for display."""
    changed: int = 1
    """Registry version since which it has its present meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preimage:
    """What a condition on a function implies for its one argument that is not constant."""

    rule: Callable[[Use], Inverse]
    of: Callable[[Sequence[pa.DataType]], bool] = lambda _: True
    """Whether it applies to these types: of the argument, then of the constants."""
    title: str = ""
    """Its display name, where that is not the function's own."""
    domain: str
    """The values for which the rule was proved, for display."""
    operators: str = "all"
    """The comparisons that it serves, for display."""
    compared: Mapping[str, str]
    """The engines for which it was proved, each with a spelling for display."""
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why other engines are not among them, for display."""
    reads_clock: bool = False
    """Whether it works on a column only: a zone in the argument then replaces the session's."""


class Cast(NamedTuple):
    """A cast that is a function."""

    source: OfType
    target: OfType
    of_column: bool = False
    """Whether that holds only in conditions on a column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function, whatever engine calls it."""

    name: str
    """Its name in the canonical form and so in indexes' records: it never changes."""
    form: str = ""
    """Every decoder's name for it in the expression form; empty where they keep the engine's name."""
    called: tuple[str, ...] = ()
    """Further names that any decoder may use: an engine's name that means nothing else elsewhere, or sqlglot's."""
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """One engine's names for it; in that engine they mean this function before any other."""
    shape: Shape | None = None
    """Converts a call by one of these names to the canonical form, where that depends on its arguments."""
    casts: tuple[Cast, ...] = ()
    """The casts that it represents."""
    evaluations: tuple[Evaluation, ...] = ()
    """By the types of its arguments; the first that accepts them applies. Empty: no index can be over it."""
    preimages: tuple[Preimage, ...] = ()
    """By the type of its argument; the first that is `of` it applies. Empty: statistics of a column do not serve it."""
    in_spark: str = ""
    """Its spelling in Spark's SQL; empty where it has none there, or one that depends on its arguments (`in_spark`)."""

    def evaluation_of(self, arguments: Sequence[Argument]) -> Evaluation | None:
        """The evaluation for arguments of these types; None where there is none."""
        for evaluation in self.evaluations:
            if len(evaluation.accepts) == len(arguments) and all(
                accepts(argument) for accepts, argument in zip(evaluation.accepts, arguments, strict=True)
            ):
                return evaluation
        return None

    def preimage_of(self, types: Sequence[pa.DataType]) -> Preimage | None:
        """The rule for the types of the argument and of the constants after it; None where there is none."""
        return next((preimage for preimage in self.preimages if preimage.of(types)), None)


def own(*, duckdb: str = "", spark: str = "", trino: str = "") -> dict[str, tuple[str, ...]]:
    """Names by engine, from texts separated by spaces."""
    return {DUCKDB: tuple(duckdb.split()), SPARK: tuple(spark.split()), TRINO: tuple(trino.split())}


def spelled(**by_engine: str) -> dict[str, str]:
    """A spelling for each engine that was compared, by the engine's name."""
    return by_engine


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
    """A date or timestamp that is not constant."""
    return not argument.is_constant and is_temporal(argument.type)


def is_stamp(argument: Argument) -> bool:
    """A timestamp that is not constant."""
    return not argument.is_constant and pa.types.is_timestamp(argument.type)


def is_text(argument: Argument) -> bool:
    """Text that is not constant."""
    return not argument.is_constant and is_string(argument.type)


def is_any_text(argument: Argument) -> bool:
    """Text, constant or not."""
    return is_string(argument.type)


def is_constant_text(argument: Argument) -> bool:
    """Text that is a constant."""
    return isinstance(argument.constant, str)


def is_integer(argument: Argument) -> bool:
    """An integer, constant or not."""
    return pa.types.is_signed_integer(argument.type)


def is_column_integer(argument: Argument) -> bool:
    """An integer that is not constant."""
    return not argument.is_constant and is_integer(argument)


def is_double(argument: Argument) -> bool:
    """A double, constant or not."""
    return pa.types.is_float64(argument.type)


def is_full_text(argument: Argument) -> bool:
    """Text that is a constant and not empty."""
    return isinstance(argument.constant, str) and argument.constant != ""


def is_field_name(argument: Argument) -> bool:
    """Text that is a constant and an identifier, so that it needs no quotes in a path."""
    value = argument.constant
    return isinstance(value, str) and value.isascii() and value.isidentifier()


def is_set_of_letters(argument: Argument) -> bool:
    """Text that is a constant, nonempty ASCII, and has no letter twice."""
    value = argument.constant
    return isinstance(value, str) and value.isascii() and 0 < len(value) == len(set(value))


def is_constant_integer(argument: Argument) -> bool:
    """An integer that is a constant."""
    return argument.is_constant and is_integer(argument)


def is_column_double(argument: Argument) -> bool:
    """A double that is not constant."""
    return not argument.is_constant and is_double(argument)


def is_divisor(argument: Argument) -> bool:
    """A constant that is a double and not zero."""
    return isinstance(argument.constant, float) and argument.constant != 0.0


def is_digit_count(argument: Argument) -> bool:
    """A constant number of digits, from 1 to 6."""
    return is_count(argument) and argument.constant in range(1, 7)


def is_date(argument: Argument) -> bool:
    """A date that is not constant."""
    return not argument.is_constant and pa.types.is_date(argument.type)


def is_condition(argument: Argument) -> bool:
    """A truth value."""
    return not argument.is_constant and pa.types.is_boolean(argument.type)


def is_count(argument: Argument) -> bool:
    """A constant from 1 on, in 32 bits."""
    value = argument.constant
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31
