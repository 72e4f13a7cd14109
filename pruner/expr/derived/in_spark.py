"""Expressions of indexes in Spark's SQL, to order rows by: where an index has no value, the order has none.

Instants are read by the session's clock. The index is in UTC, so that the order is another one than that of its
values; but rows of one value lie together here, too, but for the hours at which a clock changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pruner.expr.derived.canonical import parsed, shown
from pruner.expr.functions.formats import in_letters
from pruner.expr.nodes import Call, Column, Expr, Literal

if TYPE_CHECKING:
    from pruner.schema import Field

_SAME: Final = (
    "year",
    "quarter",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "date",
    "upper",
    "lower",
    "length",
)
_SAME_OF_TEXT: Final = ("trim", "ltrim", "rtrim", "reverse", "md5", "hex", "ascii", "chr")
_SAME_OF_TWO: Final = ("coalesce", "nullif", "greatest", "least", "right", "levenshtein", "repeat")
_SAME_OF_THREE: Final = ("substring", "replace", "translate", "split_part", "lpad", "rpad")
SPELLED: Final = {
    **{name: f"{name}({{0}})" for name in (*_SAME, *_SAME_OF_TEXT, "abs", "double", "sqrt")},
    **{name: f"{name}({{0}}, {{1}})" for name in _SAME_OF_TWO},
    **{name: f"{name}({{0}}, {{1}}, {{2}})" for name in _SAME_OF_THREE},
    "format": "date_format({0}, {1})",
    "day of year": "dayofyear({0})",
    "day of week, Sunday 0": "(dayofweek({0}) - 1)",
    "day of week, Sunday 1": "dayofweek({0})",
    "day of week, Monday 0": "weekday({0})",
    "day of week, Monday 1": "(weekday({0}) + 1)",
    "week": "weekofyear({0})",
    "date_trunc": "date_trunc({0}, {1})",
    "last day": "last_day({0})",
    "year of week": "extract(YEAROFWEEK FROM {0})",
    "position": "instr({0}, {1})",
    "sha256": "sha2({0}, 256)",
    "bytes": "octet_length({0})",
    "bits": "bit_length({0})",
    "integer": "try_cast({0} AS BIGINT)",
    "join": "({0} || {1})",
    "text": "string({0})",
    # In ANSI mode the others fail where a result does not fit.
    "add": "try_add({0}, {1})",
    "subtract": "try_subtract({0}, {1})",
    "multiply": "try_multiply({0}, {1})",
    "modulo": "({0} % {1})",
    "negate": "try_subtract(0, {0})",
    "quotient": "({0} / {1})",
    "whole quotient": "({0} div {1})",
    "whole": "try_cast({0} AS BIGINT)",
    "bit and": "({0} & {1})",
    "bit or": "({0} | {1})",
    "bit xor": "({0} ^ {1})",
    "bit count": "bit_count({0})",
    "moment of seconds": "timestamp_seconds({0})",
    "date of text": "try_cast({0} AS DATE)",
    "epoch seconds": "unix_seconds({0})",
    "epoch milliseconds": "unix_millis({0})",
    "epoch microseconds": "unix_micros({0})",
    "days between": "datediff({0}, {1})",
    "days later": "date_add({0}, {1})",
    "first day": "trunc({1}, {0})",
    "is equal": "({0} = {1})",
    "is less": "({0} < {1})",
    "is at most": "({0} <= {1})",
    "is null": "({0} IS NULL)",
    "not": "(NOT {0})",
    "both": "({0} AND {1})",
    "either": "({0} OR {1})",
}


class NotInSpark(Exception):  # noqa: N818 - callers make a sentence of it
    """A function that Spark has no spelling for here; `str()` says which."""


def in_spark(field: Field) -> str:
    """The expression of an index.

    Raises:
        NotInSpark: it has a function that is not known there.
    """
    return _written(parsed(field.expression or ""))


def _written(node: Expr) -> str:
    match node:
        case Column(path):
            return ".".join("`" + part.replace("`", "``") + "`" for part in path)
        case Literal(str() as value):
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case Literal(float() as value):
            return f"double('{value!r}')"
        case Literal(value):
            return f"({value})"
        case Call("format", (moment, Literal(str() as pattern))):
            letters = in_letters(pattern)
            quote = '"' if "'" in letters else "'"
            return SPELLED["format"].format(_written(moment), f"{quote}{letters}{quote}")
        case Call("whole", (Call("floor" | "ceil" as name, (operand,)),)):
            return f"{name}({_written(operand)})"
        case Call("json field", (operand, Literal(str() as field))):
            return f"get_json_object({_written(operand)}, '$.{field}')"
        case Call("round", arguments):
            return f"round({', '.join(map(_written, arguments))})"
        case Call("if", (condition, value, *others)):
            last = "".join(f" ELSE {_written(each)}" for each in others)
            return f"(CASE WHEN {_written(condition)} THEN {_written(value)}{last} END)"
        case Call(name, arguments) if name in SPELLED:
            return SPELLED[name].format(*map(_written, arguments))
        case _:
            raise NotInSpark(f"{shown(node)} has no spelling in Spark here")
