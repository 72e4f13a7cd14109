"""Converts DuckDB's functions to the expression form, along with constructs specific to DuckDB: rows, cases, patterns.

Typed constants of DuckDB's plan JSON become literals of the expression form.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from decimal import Context, Decimal
from typing import Any, Final, cast

import pyarrow as pa

from pruner.expr.engines import SqlEngine
from pruner.expr.exact.patterns import literal_beginning, literal_pattern
from pruner.expr.functions.now import CURRENT_DATE, CURRENT_WALL, NOW
from pruner.expr.functions.registry import form_name
from pruner.expr.functions.texts import BECOME_LOWER
from pruner.expr.nodes import (
    And,
    Call,
    Column,
    Compare,
    Constant,
    Expr,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Opaque,
    Operator,
    conjunction,
    disjunction,
)
from pruner.expr.types import is_instant, is_uuid
from pruner.expr.values import Interval, LiteralValue
from pruner.expr.walk import nodes_of
from pruner_duckdb.sql.queries import Node
from pruner_duckdb.types import arrow_type, is_json

_INFINITE_DATES = frozenset([2**31 - 1, 1 - 2**31])
_INFINITE_TIMESTAMPS = frozenset([2**63 - 1, 1 - 2**63])
"""The numbers that DuckDB stores for infinity: no point in time that a file of another engine could hold."""


class UndecodablePart(Exception):  # noqa: N818 - never reaches a user
    """A part that has no exact counterpart in the expression form; `str()` is the reason."""


def constant(value: dict[str, Any]) -> Literal:
    """Decode a typed constant.

    Raises:
        UndecodablePart: the type has no literal form, or the value is no finite point of its type (infinity).
    """
    if value.get("is_null"):
        return Literal(None, _literal_type(value["type"]))
    return constants(value["type"], [value.get("value")])[0]


def constants(type_: dict[str, Any], values: Sequence[Any]) -> list[Literal]:
    """Decode constants of one type, none of which is NULL.

    Raises:
        UndecodablePart: the type has no literal form, or a value is no finite point of its type (infinity).
    """
    data_type = _literal_type(type_)
    if any(_is_infinite(raw, data_type) for raw in values):
        raise UndecodablePart(f"an infinite {type_['id'].lower()}")
    if type_["id"] == "HUGEINT":
        return [Literal(_wide(raw), pa.int64()) for raw in values]
    return [Literal(_value(raw, data_type), data_type) for raw in values]


def _literal_type(type_: dict[str, Any]) -> pa.DataType:
    # A cast to JSON can fail, or be NULL if the text is no JSON: there it is not the same as text.
    data_type = pa.string() if is_json(type_) else arrow_type(type_)
    if data_type is None:
        raise UndecodablePart(f"a constant of type {type_.get('id')} is not understood")
    return data_type


def _is_infinite(raw: Any, data_type: pa.DataType) -> bool:
    if pa.types.is_date(data_type):
        return raw in _INFINITE_DATES
    return pa.types.is_timestamp(data_type) and raw in _INFINITE_TIMESTAMPS


def _value(raw: Any, data_type: pa.DataType) -> LiteralValue:
    if data_type == pa.month_day_nano_interval():
        return Interval(raw["months"], raw["days"], raw["micros"] * 1000)
    if pa.types.is_decimal(data_type):
        unscaled = _wide(raw)
        sign = 1 if unscaled < 0 else 0
        return Decimal((sign, tuple(int(digit) for digit in str(abs(unscaled))), -data_type.scale))
    if pa.types.is_binary(data_type):
        return _blob(raw)
    if is_uuid(data_type):
        # In memory, a UUID is a signed number with the same order as its bytes.
        return (_wide(raw) + (1 << 127)).to_bytes(16, "big")
    if pa.types.is_floating(data_type):
        return float(raw)
    expected = bool if pa.types.is_boolean(data_type) else str if pa.types.is_string(data_type) else int
    if not isinstance(raw, expected):
        raise UndecodablePart(f"a constant written as {type(raw).__name__}")
    return raw


_INTEGER_BITS: dict[pa.DataType, int] = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EXACT_IN_DOUBLE = 1 << 53
_EXACT_POWER_OF_TEN = 22
"""The largest power of ten that is a double."""


def cast_literal(literal: Literal, target: pa.DataType) -> Literal | None:
    """The value of a cast of a literal; None if only DuckDB knows it.

    Unrewritten plans contain such casts, and so do the keys of joins.
    """
    value = literal.value
    if isinstance(value, int) and literal.type in _INTEGER_BITS:
        return _cast_integer(value, target)  # also for a HUGEINT, which has no type of its own here
    if value is None or literal.type == target:
        return Literal(value, target)
    if isinstance(value, Decimal):
        return _cast_decimal(value, target)
    if isinstance(value, str) and pa.types.is_string(literal.type) and target == pa.date32():
        with suppress(ValueError):  # DuckDB fails, or accepts a form that is not handled here
            if _DATE.fullmatch(value):
                return Literal((date.fromisoformat(value) - date(1970, 1, 1)).days, target)
    return None


def _cast_integer(value: int, target: pa.DataType) -> Literal | None:
    bits = _INTEGER_BITS.get(target)
    if bits is not None:
        return Literal(value, target) if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None
    if target == pa.float64() and abs(value) <= _EXACT_IN_DOUBLE:
        return Literal(float(value), target)
    return _cast_decimal(Decimal(value), target) if pa.types.is_decimal(target) else None


def _cast_decimal(value: Decimal, target: pa.DataType) -> Literal | None:
    """A cast that keeps the number; for a double, DuckDB divides its digits by a power of ten, which is exact here."""
    digits, exponent = value.as_tuple()[1:]
    if not isinstance(exponent, int):
        return None
    if target == pa.float64():
        unscaled = int("".join(map(str, digits)))
        exact = unscaled <= _EXACT_IN_DOUBLE and -_EXACT_POWER_OF_TEN <= exponent <= 0
        return Literal(float(value), target) if exact else None
    if not pa.types.is_decimal(target) or len(digits) + exponent + target.scale > target.precision:
        return None
    if -exponent > target.scale:
        return None
    return Literal(value.quantize(Decimal(1).scaleb(-target.scale), context=_ALL_DIGITS), target)


_ALL_DIGITS = Context(prec=40)


def _wide(raw: Any) -> int:
    """An integer of up to 128 bits: a number, or two halves, the lower of which is unsigned."""
    if isinstance(raw, dict):
        halves = cast("dict[str, int]", raw)
        return (halves["upper"] << 64) + halves["lower"]
    if not isinstance(raw, int):
        raise UndecodablePart(f"a constant written as {type(raw).__name__}")
    return raw


def _blob(raw: str) -> bytes:
    r"""Bytes that DuckDB prints as ASCII, with `\xHH` for unprintable bytes and the backslash."""
    first, *rest = raw.split("\\x")
    try:
        return first.encode("ascii") + b"".join(
            bytes.fromhex(part[:2]) + part[2:].encode("ascii") for part in rest
        )
    except ValueError as error:
        raise UndecodablePart(f"a blob that cannot be read ({error})") from error


# Expressions of DuckDB's plan JSON as text for display.


def function_name(node: Node) -> str:
    """Unqualified name of a bound function."""
    path = node.get("qname", {}).get("path")
    return str(path[-1] if path else node.get("name", ""))


def summary(node: Node, limit: int = 200) -> str:
    """Return an expression for display, roughly as it would be written."""
    text = _shown(node)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _shown(node: Node, depth: int = 0) -> str:
    if depth > 8:
        return "…"
    below: list[Node] = node.get("children", [])
    children = [_shown(child, depth + 1) for child in below[:8]]
    match node.get("expression_class"):
        case "BOUND_CONSTANT":
            value = node.get("value", {})
            return "NULL" if value.get("is_null") else repr(value.get("value"))
        case "BOUND_REF" | "BOUND_COLUMN_REF":
            return str(node.get("alias"))
        case "BOUND_FUNCTION":
            name = function_name(node)
            if node.get("is_operator") and len(children) == 2:
                return f"{children[0]} {name} {children[1]}"
            return f"{name}({', '.join(children)})"
        case _:
            return f"{str(node.get('type')).lower()}({', '.join(children)})"


_PARTS: Final = frozenset({"year", "quarter", "month", "epoch"})

_ROWS: Final = frozenset({"row", "struct_pack"})

_PART_OR_EMPTY: Final = "split_part, or empty"

NEVER_FOLDED: Final = 2 + random.random()
"""The number that `random()` is compared with to keep the shadow from folding a moment. No statement of a user contains
this number, so what it guards is known to be one of the functions below, whatever constant the shadow makes of it.
"""

MOMENTS: Final = frozenset(
    {
        "now",
        "current_timestamp",
        "get_current_timestamp",
        "transaction_timestamp",
        "today",
        "current_date",
        "current_localtimestamp",
        "localtimestamp",
    }
)
"""Functions that return when the transaction began."""


def unfolded(call: str, *, moment: bool) -> str:
    """The call wrapped so that the shadow cannot evaluate it while planning, with the same type."""
    number = f"{NEVER_FOLDED!r}e0" if moment else "2"  # a DOUBLE, which needs no cast in any plan
    return f"(CASE WHEN random() < {number} THEN {call} END)"


def function(name: str, arguments: tuple[Expr, ...], result: pa.DataType | None) -> Expr:
    """A function by its name in the expression form."""
    match name, arguments:
        case "-", (operand,):
            return Call("negate", (operand,), result)
        case "substr" | "substring", (_, _, _):
            return Call("left", arguments, result)
        case (
            "substr" | "substring",
            _,
        ):  # with two arguments it extends to the end of the text, unlike `left`
            return Call(name, arguments, result)
        case "isnan", (operand,):
            return Compare(Operator.EQ, operand, Literal(float("nan"), pa.float64()))
        case "date_part" | "datepart", (Literal(value=str(part)), operand) if part.lower() in _PARTS:
            return Call(part.lower(), (operand,), result)
        case _:
            return Call(form_name(name, SqlEngine.DUCKDB), arguments, result)


def moment(node: Node) -> Expr | None:
    """The moment that a CASE of `unfolded` stands for; None for any other CASE."""
    checks: list[Any] = node["case_checks"]
    if len(checks) != 1 or not _is_never_folded(checks[0]["when_expr"]):
        return None
    type_ = _type_of_moment(checks[0]["then_expr"])
    if type_ is None:
        return None
    if pa.types.is_date(type_):
        return Call(CURRENT_DATE, (), type_)
    return Call(NOW if is_instant(type_) else CURRENT_WALL, (), type_)


def _type_of_moment(then: Node) -> pa.DataType | None:
    """The type of a moment, which is a constant in the optimized plan and the call of its function before."""
    match then.get("expression_class"):
        case "BOUND_CONSTANT":
            return constant(then["value"]).type
        case "BOUND_FUNCTION" if not then.get("children"):
            return arrow_type(then["return_type"])
        case _:
            return None


def _is_never_folded(condition: Node) -> bool:
    """Tell whether a condition is the one of `unfolded`: a comparison with its number."""
    children: list[Node] = condition.get("children") or [
        condition.get("left", {}),
        condition.get("right", {}),
    ]
    values: list[Any] = [
        child["value"].get("value") for child in children if child.get("expression_class") == "BOUND_CONSTANT"
    ]
    return values == [NEVER_FOLDED]


def coalesced(parts: tuple[Expr, ...], result: pa.DataType | None) -> Expr:
    """`coalesce`; with an element of a split text and '' as arguments, it is part of the macro `split_part`.

    That part alone yields '' for a NULL text, and so becomes a function of its own, which `choice` recognizes.
    """
    match parts:
        case (Call("array_extract", (Call("string_split", (text, by)), number)), Literal(value="")):
            return Call(_PART_OR_EMPTY, (text, by, number), result)
        case _:
            return Call("coalesce", parts, result)


def choice(pairs: Sequence[tuple[Expr, Expr]], otherwise: Expr, result: pa.DataType | None) -> Expr:
    """A CASE of conditions and values; `nullif` is one.

    Raises:
        UndecodablePart: a condition or value is not understood, such as one that must not be evaluated while planning.
    """
    parts = [*(part for pair in pairs for part in pair), otherwise]
    if any(isinstance(node, Opaque) for part in parts for node in nodes_of(part)):
        raise UndecodablePart("CASE, or a function that must not be evaluated while planning")
    match parts:
        case [present, Call(name, (text, *others)), Literal(value=None)] if (
            name == _PART_OR_EMPTY and _asks_for(present, text)
        ):
            return Call("split_part", (text, *others), result)
        case [Compare(Operator.EQ, left, right), Literal(value=None), other] if other == left:
            return Call("nullif", (left, right), result)
        case [*_, Literal(value=None)]:
            parts.pop()
        case _:
            pass
    return Call("choose", tuple(parts), result)


def _asks_for(condition: Expr, text: Expr) -> bool:
    """Whether a condition says only that a text is not NULL."""
    match condition:
        case And(operands):
            return all(_asks_for(operand, text) for operand in operands)
        case Constant(value):
            return value is True
        case Not(IsNull(operand)):
            return operand == text
        case _:
            return False


def beginning(operand: Expr, pattern: str, *, anchored: bool, shown: str) -> Expr:
    """A regular expression that a text matches only if it begins with the literal prefix of the pattern.

    Raises:
        UndecodablePart: the pattern has no literal prefix.
    """
    prefix = literal_beginning(pattern, anchored=anchored)
    if not prefix:
        raise UndecodablePart("a regular expression that does not say how a text begins")
    escaped, escape = literal_pattern(prefix)
    like = Like(operand, f"{escaped}%", escape)
    rest = Opaque((), shown, "only the beginning of a regular expression is used")
    return conjunction((like, rest))


def row_comparison(operator: Operator, left: Sequence[Expr], right: Sequence[Expr], shown: str) -> Expr:
    """A comparison of rows, as far as its columns decide it: where it is true, this is not false.

    For DuckDB, NULL inside a row is a value like others, and the greatest one.
    """
    rest = Opaque((), shown, "rows are compared column by column")
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if isinstance(a, Column | Call)]
    pairs = [(a, b) for a, b in pairs if isinstance(b, Literal) and b.value is not None]
    match operator:
        case Operator.EQ:
            return conjunction((*(Compare(Operator.EQ, a, b) for a, b in pairs), rest))
        case Operator.LT | Operator.LE | Operator.GT | Operator.GE:
            first, literal = left[0], right[0]
            if not pairs or pairs[0] != (first, literal):
                return rest
            outer = Operator.LE if operator in (Operator.LT, Operator.LE) else Operator.GE
            return conjunction((disjunction((Compare(outer, first, literal), IsNull(first))), rest))
        case _:
            return rest


def row_parts(node: Node) -> list[tuple[Node, Node | None]] | None:
    """The parts of a row, each with a node that has the type to which it is cast, or None; None if it is no row.

    DuckDB casts a row as a whole if one of its parts has another type than in the row that it is compared with.
    """
    if node.get("expression_class") != "BOUND_FUNCTION":
        return None
    if function_name(node) in _ROWS:
        return [(child, None) for child in node["children"]]
    if node.get("type") != "OPERATOR_CAST" or node["function_data"]["try_cast"]:
        return None
    inside, row = node["children"][0], node["return_type"]
    if function_name(inside) != "row" or row.get("id") != "TUPLE" or row_parts(inside) is None:
        return None
    types = [child["second"] for child in row["type_info"]["child_types"]]
    return [
        (child, None if child["return_type"] == type_ else {"return_type": type_})
        for child, type_ in zip(inside["children"], types, strict=True)
    ]


def row_values(node: Node) -> list[Literal] | None:
    """The values of a constant row; None if it is none."""
    value: Any = node.get("value") if node.get("expression_class") == "BOUND_CONSTANT" else None
    if value is None or value.get("is_null"):
        return None
    described: Any = value["type"]
    if described.get("id") not in ("TUPLE", "STRUCT"):
        return None
    types: list[Any] = described["type_info"]["child_types"]
    children: list[Any] = value["value"]["children"]
    return [
        constant({**child, "type": type_["second"]}) for child, type_ in zip(children, types, strict=True)
    ]


def is_list(node: Node) -> bool:
    """Tell whether a part of a plan is a constant list."""
    value: Any = node.get("value") if node.get("expression_class") == "BOUND_CONSTANT" else None
    return value is not None and not value.get("is_null") and value["type"].get("id") == "LIST"


def contained(operands: Sequence[Expr], listed: Node) -> Expr:
    """`list_contains(list, value)`: the same as IN if the list has no NULL.

    Raises:
        UndecodablePart: the list is not constant, is empty, or contains NULL.
    """
    if len(operands) != 1 or not is_list(listed):
        raise UndecodablePart("a list that is not constant")
    value: Any = listed["value"]
    child_type: Any = value["type"]["type_info"]["child_type"]
    options = tuple(constant({**child, "type": child_type}) for child in value["value"]["children"])
    if not options or any(option.value is None for option in options):
        raise UndecodablePart("an empty list, or one with NULL in it")
    return In(operands[0], options)


def prefix_range(operands: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The range of texts that `text ILIKE 'prefix…'` implies: empty without a prefix of ASCII."""
    match operands:
        case (Column() as column, Literal(value=str(pattern))):
            prefix = re.match(r"[\x01-\x24\x26-\x5e\x60-\x7e]*", pattern)
        case _:
            return ()
    if prefix is None or not prefix.group():
        return ()
    greatest = "".join(BECOME_LOWER.get(sign, sign) for sign in prefix.group().lower())
    above = greatest[:-1] + chr(ord(greatest[-1]) + 1)
    return (
        Compare(Operator.GE, column, Literal(prefix.group().upper(), pa.string())),
        Compare(Operator.LT, column, Literal(above, pa.string())),
    )
