"""Constants of predicates as typed literals: texts, numbers and bytes, their signs and their casts.

Only what every version of the dialect reads the same way is folded; nothing is derived from the rest. The types of
casts are Arrow's for the SQL types that predicates name, as each engine defines them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

import pyarrow as pa
from sqlglot import exp

from pruner.expr.engines import TextBytes, Traits
from pruner.expr.exact.clock import nanoseconds, parse_time
from pruner.expr.exact.numeric import Width, cast_to_floating, nearest
from pruner.expr.nodes import Call, Expr, Literal, Opaque
from pruner.expr.semantics import Semantics
from pruner.expr.text.dialects import Node
from pruner.expr.text.literals import MOST_DIGITS, NULL_LITERAL, STRING, moment, number
from pruner.expr.types import (
    Unit,
    decimal_digits,
    integer_range,
    is_number,
    is_time,
    is_uuid,
    timestamp,
    unit_of,
)
from pruner.expr.values import parse_uuid

_Kind = exp.DataType.Type

_PLAIN: Final = {
    _Kind.BOOLEAN: pa.bool_(),
    _Kind.TINYINT: pa.int8(),
    _Kind.SMALLINT: pa.int16(),
    _Kind.INT: pa.int32(),
    _Kind.BIGINT: pa.int64(),
    _Kind.UTINYINT: pa.uint8(),
    _Kind.USMALLINT: pa.uint16(),
    _Kind.UINT: pa.uint32(),
    _Kind.UBIGINT: pa.uint64(),
    _Kind.FLOAT: pa.float32(),
    _Kind.DOUBLE: pa.float64(),
    _Kind.VARCHAR: pa.string(),
    _Kind.TEXT: pa.string(),
    _Kind.VARBINARY: pa.binary(),
    _Kind.BINARY: pa.binary(),
    _Kind.BLOB: pa.binary(),
    _Kind.DATE: pa.date32(),
    _Kind.TIME: pa.time64("us"),
    _Kind.TIME_NS: pa.time64("ns"),
    _Kind.UUID: pa.uuid(),
    _Kind.TIMESTAMP_S: pa.timestamp("s"),
    _Kind.TIMESTAMP_MS: pa.timestamp("ms"),
    _Kind.TIMESTAMP_NS: pa.timestamp("ns"),
}
_NAIVE: Final = frozenset({_Kind.TIMESTAMP, _Kind.TIMESTAMPNTZ, _Kind.DATETIME})
_ZONED: Final = frozenset({_Kind.TIMESTAMPTZ, _Kind.TIMESTAMPLTZ})
_UNITS: Final[dict[int, Unit]] = {0: "s", 3: "ms", 6: "us", 9: "ns"}
_BINARY: Final = pa.binary()
_SIGNED_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_SIGNED_DECIMAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)", re.ASCII)
_NOT_FINITE: Final = frozenset({"nan", "inf", "-inf", "infinity", "-infinity"})
_BLOB: Final = re.compile(r"(?:\\x[0-9A-Fa-f]{2}|[ -\[\]-~])*")
_BLOB_PART: Final = re.compile(r"\\x([0-9A-Fa-f]{2})|(.)")


@dataclass(frozen=True, slots=True)
class Constants:
    """Translates constants, signs and casts with callbacks of the translator.

    `value` translates the first node, which is directly below the second; `opaque` turns a node into an unknown
    expression, with a reason.
    """

    semantics: Semantics
    value: Callable[[Node, Node], Expr]
    opaque: Callable[[Node, str], Opaque]

    def typed(self, node: Node) -> Expr | None:
        """A constant, a signed value or a cast of a value; None for anything else."""
        match node:
            case exp.Literal(is_string=True) | exp.RawString():
                return Literal(str(node.this), STRING)
            case exp.Literal():
                return self._number(node)
            case exp.Null():
                return NULL_LITERAL
            case exp.Boolean():
                return Literal(bool(node.this), pa.bool_())
            case exp.HexString():
                return self._hex(node)
            case exp.Neg():
                return self._negative(node)
            case exp.Cast():
                return self._cast(node, self.value(node.this, node))
            case _:
                return None

    def _number(self, node: Node, *, negative: bool = False) -> Expr:
        literal = number(str(node.this), self.semantics.traits, negative=negative)
        return literal or self.opaque(node, "a number that is too long")

    def _hex(self, node: Node) -> Expr:
        try:
            return Literal(bytes.fromhex(str(node.this)), _BINARY)
        except ValueError:
            return self.opaque(node, "no whole bytes")

    def _negative(self, node: Node) -> Expr:
        inner = node.this
        if isinstance(inner, exp.Cast) and isinstance(inner.this, exp.Literal) and not inner.this.is_string:
            # -128Y: the sign is applied first, because 128Y by itself does not fit.
            operand = self._cast(inner, self._number(inner.this, negative=True))
            if isinstance(operand, Literal):
                return operand
        else:
            operand = self.value(inner, node)
        return (_negated(operand) if isinstance(operand, Literal) else None) or Call("negate", (operand,))

    def _cast(self, node: Node, operand: Expr) -> Expr:
        if node.args.get("format") is not None or node.args.get("default") is not None:
            return self.opaque(node, "a cast by a format")
        target = self._cast_type(node, operand)
        if isinstance(operand, Literal) and target is not None:
            folded = _fold(operand, target, self.semantics)
            if folded is not None:
                return folded
        # The parser returns Spark's CAST as TRY_CAST, because it does not know the ANSI mode.
        tries = isinstance(node, exp.TryCast) and bool(node.args.get("safe"))
        return Call("try_cast" if tries else "cast", (operand,), target)

    def _cast_type(self, node: Node, operand: Expr) -> pa.DataType | None:
        """The target type of a cast; None for a timestamp that keeps fewer digits than its text has."""
        traits = self.semantics.traits
        target = _arrow_type(node.to, traits)
        if not isinstance(operand, Literal) or not isinstance(operand.value, str):
            return target
        temporal = node.to.is_type(*exp.DataType.TEMPORAL_TYPES) and target != pa.date32()
        if not traits.timestamp_literals_keep_digits or not temporal:
            return target
        fraction = operand.value.partition(".")[2]
        written = len(fraction) - len(fraction.lstrip("0123456789"))
        if node.to.this is exp.DataType.Type.TIME or written > min(9, _fraction_digits(node.to, traits)):
            return None
        instant = node.to.this is exp.DataType.Type.TIMESTAMPTZ
        return timestamp("us" if written <= 6 else "ns", instant=instant)


def _negated(literal: Literal) -> Literal | None:
    """The literal with the sign changed; None for what has no sign."""
    value = literal.value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return Literal(value.copy_negate() if isinstance(value, Decimal) else -value, literal.type)


def _fold(literal: Literal, target: pa.DataType, semantics: Semantics) -> Expr | None:
    """The value of `CAST(literal AS target)`, where it is certain; None elsewhere.

    The result is not a literal in two cases: an instant given as a wall clock of a session zone that matters (a
    cast of a naive timestamp), and a decimal whose nearest float the engine may miss (a cast of the decimal).
    """
    value = literal.value
    if value is None:
        return Literal(None, target)
    if isinstance(value, str):
        return _fold_text(value, target, semantics)
    if literal.type == target:
        return literal
    if isinstance(value, bool):
        return None
    if is_number(literal.type) and is_number(target):
        return _fold_number(literal, target)
    return None


def _fold_number(literal: Literal, target: pa.DataType) -> Expr | None:
    value = literal.value
    if pa.types.is_floating(target):
        width = Width.SINGLE if pa.types.is_float32(target) else Width.DOUBLE
        if isinstance(value, float):
            # The CPU rounds a double to a float the same way everywhere.
            finite = width is Width.SINGLE and math.isfinite(value)
            return _finite(nearest(Fraction(value), width), target) if finite else Literal(value, target)
        if isinstance(value, int | Decimal):
            exact = Fraction(value)
            scale = 0 if isinstance(value, int) else max(0, -int(value.as_tuple().exponent))
            rounded, certain = cast_to_floating(int(exact * 10**scale), scale, width)
            return _finite(rounded, target) if certain else Call("cast", (literal,), target)
    if isinstance(value, int | Decimal):
        return _fitting(Fraction(value), target)
    return None


def _fitting(value: Fraction, target: pa.DataType) -> Literal | None:
    """An integer or decimal of the target type with exactly this value, if there is one."""
    if pa.types.is_integer(target):
        smallest, largest = integer_range(target)
        fits = value.denominator == 1 and smallest <= value <= largest
        return Literal(int(value), target) if fits else None
    precision, scale = decimal_digits(target)
    unscaled = value * 10**scale
    if unscaled.denominator != 1 or abs(unscaled) >= 10**precision:
        return None
    digits = tuple([int(digit) for digit in str(abs(int(unscaled)))])
    return Literal(Decimal((int(unscaled < 0), digits, -scale)), target)


def _fold_text(text: str, target: pa.DataType, semantics: Semantics) -> Expr | None:
    if target == STRING:
        return Literal(text, STRING)
    if pa.types.is_date(target) or pa.types.is_timestamp(target):
        return moment(text, target, semantics)
    if pa.types.is_boolean(target):
        return Literal(text == "true", target) if text in ("true", "false") else None
    if is_time(target):
        time = parse_time(text, nanoseconds(unit_of(target)))
        return None if time is None else Literal(time, target)
    if is_uuid(target):
        value = parse_uuid(text)
        return None if value is None else Literal(value, target)
    if target == _BINARY:
        return _fold_blob(text, semantics.traits)
    if pa.types.is_floating(target):
        return _fold_floating_text(text, target)
    exact = pa.types.is_integer(target) or pa.types.is_decimal(target)
    if not exact or len(text) > MOST_DIGITS or not _SIGNED_DECIMAL.fullmatch(text):
        return None
    return _fitting(Fraction(text), target)


def _fold_floating_text(text: str, target: pa.DataType) -> Literal | None:
    if text.lower() in _NOT_FINITE:
        return Literal(float(text), target)
    if _SIGNED_NUMBER.fullmatch(text) is None or len(text) > MOST_DIGITS:
        return None
    width = Width.DOUBLE if pa.types.is_float64(target) else Width.SINGLE
    return _finite(nearest(Fraction(text), width), target)


def _finite(value: float, target: pa.DataType) -> Literal | None:
    """A literal unless the value overflowed, which some engines refuse."""
    return None if math.isinf(value) else Literal(value, target)


def _fold_blob(text: str, traits: Traits) -> Literal | None:
    if traits.text_bytes is not TextBytes.ESCAPED:
        plain = traits.text_bytes is TextBytes.ENCODED and text.isascii()
        return Literal(text.encode(), _BINARY) if plain else None
    if _BLOB.fullmatch(text) is None:
        return None
    parts = (
        bytes.fromhex(match[1]) if match[1] else match[2].encode() for match in _BLOB_PART.finditer(text)
    )
    return Literal(b"".join(parts), _BINARY)


def _arrow_type(node: exp.DataType, traits: Traits) -> pa.DataType | None:
    """The Arrow type of a SQL type; None for one that is unknown here, or whose length would truncate values."""
    kind = node.this
    parameters = _type_parameters(node)
    if parameters is None:
        return None
    if kind in _NAIVE or kind in _ZONED:
        unit = _UNITS.get(_fraction_digits(node, traits))
        return timestamp(unit, instant=kind in _ZONED) if unit else None
    if kind is _Kind.DECIMAL:
        precision, scale = (*parameters, 0)[:2] if parameters else traits.bare_decimal or (0, 0)
        return pa.decimal128(precision, scale) if 1 <= precision <= 38 and 0 <= scale <= precision else None
    return _PLAIN.get(kind) if not parameters else None


def _fraction_digits(node: exp.DataType, traits: Traits) -> int:
    """Digits of a second that a timestamp type keeps: as written, otherwise the engine's default."""
    parameters = _type_parameters(node)
    return parameters[0] if parameters else traits.bare_timestamp_digits


def _type_parameters(node: exp.DataType) -> tuple[int, ...] | None:
    """The numbers in parentheses after a type's name; None where there is something else."""
    numbers: list[int] = []
    for parameter in node.expressions:
        value = parameter.this if isinstance(parameter, exp.DataTypeParam) else parameter
        if not isinstance(value, exp.Literal) or value.is_string or not str(value.this).isdecimal():
            return None
        numbers.append(int(value.this))
    return tuple(numbers)
