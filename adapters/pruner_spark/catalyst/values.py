"""Catalyst's functions that only indexes over expressions answer, by the names of `pruner.expr.functions.registry`.

The analyzer and the optimizer rewrite some of them: `right`, `split_part` and `nullif` arrive as their expansions.
Each is built for the types that the registry covers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from pruner.expr.nodes import Call, Compare, Expr, IsNull, Literal, Operator
from pruner.expr.types import is_string
from pruner_spark.catalyst.part import DecodedNode
from pruner_spark.catalyst.source import INSTANT, UntranslatableError

if TYPE_CHECKING:
    from collections.abc import Sequence

Make: TypeAlias = "Callable[[list[DecodedNode]], tuple[Expr, pa.DataType]]"
Kind: TypeAlias = "Callable[[pa.DataType], bool]"

_TO_THE_END: Final = 2**31 - 1
"""The length that `right` asks `substring` for."""
_INTEGERS: Final = frozenset({pa.int8(), pa.int16(), pa.int32(), pa.int64()})


def _is_integer(type_: pa.DataType) -> bool:
    return type_ in _INTEGERS


def _of(name: str, kind: Kind, count: int, result: pa.DataType | None = None) -> Make:
    """A function of `count` children, the first of a given kind; unless given, the result has the first one's type."""

    def make(children: list[DecodedNode]) -> tuple[Expr, pa.DataType]:
        first = children[0].type
        if len(children) != count or first is None or not kind(first):
            raise UntranslatableError(f"{name} of other arguments than were compared")
        type_ = result or first
        return Call(name, tuple(child.expr for child in children), type_), type_

    return make


def _of_bytes(name: str) -> Make:
    """A digest of the bytes of a text."""

    def make(children: list[DecodedNode]) -> tuple[Expr, pa.DataType]:
        match children[0].expr:
            case Call("to_utf8", (text,)):
                others = (child.expr for child in children[1:])
                return Call(name, (text, *others), pa.string()), pa.string()
            case _:
                raise UntranslatableError("a digest of something that is not text")

    return make


def _beginning(children: list[DecodedNode]) -> tuple[Expr, pa.DataType]:
    """`substring` of text, and `right`, which Spark expands to it; `substring` of bytes counts bytes."""
    if children[0].type is None or not is_string(children[0].type):
        raise UntranslatableError("a part of something that is not text")
    match [child.expr for child in children]:
        case [text, Literal(int() as start), Literal(value=int() as length)] if (
            start < 0 and length == _TO_THE_END
        ):
            return Call("right", (text, Literal(-start, pa.int32())), pa.string()), pa.string()
        case arguments:
            return Call("left", tuple(arguments), pa.string()), pa.string()


def _located(children: list[DecodedNode]) -> tuple[Expr, pa.DataType]:
    """`locate`, whose second argument is the text."""
    match [child.expr for child in children]:
        case [sought, text, Literal(value=1)]:
            return Call("instr", (text, sought), pa.int32()), pa.int32()
        case _:
            raise UntranslatableError("a search that starts at a position")


def _element(children: list[DecodedNode]) -> tuple[Expr, pa.DataType]:
    """`split_part`, which is an element of a split text."""
    match [child.expr for child in children]:
        case [Call("split_sql", (text, by)), number]:
            return Call("split_part", (text, by, number), pa.string()), pa.string()
        case _:
            raise UntranslatableError("an element of something else than a split text")


def _rounded(children: list[DecodedNode]) -> tuple[Expr, pa.DataType]:
    """`round`, to 0 digits unless it names some."""
    value, digits = children[0], children[1].expr
    if value.type != pa.float64() or not isinstance(digits, Literal):
        raise UntranslatableError("something else than a double is rounded")
    arguments = (value.expr,) if digits.value == 0 else (value.expr, digits)
    return Call("round", arguments, pa.float64()), pa.float64()


def choice(children: list[DecodedNode], types: Sequence[pa.DataType | None]) -> DecodedNode:
    """IF and CASE WHEN of values other than truth values: conditions and values alternate, then the else value.

    Raises:
        UntranslatableError: its values are of several types, or of types that are not supported.
    """
    known = {type_ for type_ in types if type_ not in (None, pa.null())}
    if len(known) != 1:
        raise UntranslatableError("a case of values of several types, or of types that are not supported")
    type_ = known.pop()
    parts = [
        child.expr if number % 2 or number == len(children) - 1 else child.predicate
        for number, child in enumerate(children)
    ]
    match parts:
        case [IsNull(operand), Literal(value=None), Call("right", (text, _)) as found] if operand == text:
            return DecodedNode(found, type_)
        case [Compare(Operator.EQ, left, right), Literal(value=None), other] if other == left:
            return DecodedNode(Call("nullif", (left, right), type_), type_)
        case _:
            return DecodedNode(Call("choose", tuple(parts), type_), type_)


_TEXT: Final = pa.string()
_DOUBLE: Final = pa.types.is_float64

MAKERS: Final[dict[str, Make]] = {
    "StringTrim": _of("trim", is_string, 1),
    "StringTrimLeft": _of("ltrim", is_string, 1),
    "StringTrimRight": _of("rtrim", is_string, 1),
    "Reverse": _of("reverse", is_string, 1),
    "StringReplace": _of("replace", is_string, 3),
    "StringTranslate": _of("translate", is_string, 3),
    "StringSplitSQL": _of("split_sql", is_string, 2),
    "ElementAt": _element,
    "StringLPad": _of("lpad", is_string, 3),
    "StringRPad": _of("rpad", is_string, 3),
    "StringRepeat": _of("repeat", is_string, 2),
    "Md5": _of_bytes("md5"),
    "Sha2": _of_bytes("sha2"),
    "Hex": _of("hex", is_string, 1),
    "StringInstr": _of("instr", is_string, 2, pa.int32()),
    "StringLocate": _located,
    "Ascii": _of("ascii", is_string, 1, pa.int32()),
    "OctetLength": _of("octet_length", is_string, 1, pa.int32()),
    "BitLength": _of("bit_length", is_string, 1, pa.int32()),
    "Levenshtein": _of("levenshtein", is_string, 2, pa.int32()),
    "GetJsonObject": _of("get_json_object", is_string, 2),
    "Substring": _beginning,
    "Chr": _of("chr", _is_integer, 1, _TEXT),
    "Greatest": _of("greatest", _is_integer, 2),
    "Least": _of("least", _is_integer, 2),
    "IntegralDivide": _of("whole_quotient", _is_integer, 2, pa.int64()),
    "Divide": _of("quotient", _DOUBLE, 2),
    "BitwiseAnd": _of("bitwise_and", _is_integer, 2),
    "BitwiseOr": _of("bitwise_or", _is_integer, 2),
    "BitwiseXor": _of("bitwise_xor", _is_integer, 2),
    "BitwiseCount": _of("bitwise_count", _is_integer, 1, pa.int32()),
    "SecondsToTimestamp": _of("timestamp_seconds", _is_integer, 1, INSTANT),
    "Floor": _of("floor", _DOUBLE, 1, pa.int64()),
    "Ceil": _of("ceil", _DOUBLE, 1, pa.int64()),
    "Sqrt": _of("sqrt", _DOUBLE, 1),
    "Round": _rounded,
    "LastDay": _of("last_day", pa.types.is_date, 1),
    "YearOfWeek": _of("year_of_week", pa.types.is_date, 1, pa.int32()),
    "DateDiff": _of("days_between", pa.types.is_date, 2, pa.int32()),
}
"""How each of Catalyst's classes of these functions is built."""


def cast_name(source: pa.DataType, target: pa.DataType, mode: str) -> str | None:
    """The function for a cast that an index may be over; None for any other cast.

    `lenient_cast` yields some value, or NULL, for text that is not a valid value. It is known only for the values in
    the domain of the registry's row.
    """
    if is_string(source) and pa.types.is_binary(target):
        return "to_utf8"
    of_text = is_string(source) and (pa.types.is_date(target) or pa.types.is_int64(target))
    if of_text or (pa.types.is_float64(source) and pa.types.is_int64(target)):
        return "lenient_cast" if mode == "LEGACY" else None
    return None
