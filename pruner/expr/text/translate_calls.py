"""sqlglot's functions, operators and rows in the expression form, by the names of `pruner.expr.functions.registry`.

sqlglot has one class for functions of several dialects. What it treats as alike may differ: binding checks whether a
rule was proved for the engine. Whatever has another form than those here is left to the caller.

An engine's operator precedence may differ from sqlglot's, which reads `&`, `^`, `|`, `<<` and `>>` from left to right,
as DuckDB does. In Spark `n | 4 & 1` is `n | (4 & 1)`.

Forms that only DuckDB's text has are at the end: constants that its functions make, zones, patterns.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import pyarrow as pa
from sqlglot import exp

from pruner.expr.engines import SqlEngine
from pruner.expr.exact.clock import PER_SECOND, day_number, instants_of_wall
from pruner.expr.exact.patterns import literal_beginning, literal_pattern
from pruner.expr.functions.now import CURRENT_DATE, CURRENT_WALL, NOW
from pruner.expr.functions.walls import DAY, FIRST, LAST, SECOND, shifted
from pruner.expr.nodes import (
    NULL,
    Call,
    Compare,
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
from pruner.expr.semantics import NanOrder, Semantics
from pruner.expr.text.dialects import Node
from pruner.expr.text.literals import in_one_type
from pruner.expr.truth import chosen, is_predicate, of_one_type
from pruner.expr.types import is_instant, is_naive_timestamp, timestamp, unit_of
from pruner.expr.values import Interval

_RANKS: Final[Mapping[str, Mapping[type[Any], int]]] = {
    SqlEngine.SPARK: {
        exp.BitwiseLeftShift: 4,
        exp.BitwiseRightShift: 4,
        exp.BitwiseAnd: 3,
        exp.BitwiseXor: 2,
        exp.BitwiseOr: 1,
    }
}
"""Precedence of an engine's operators; those of one rank associate from left to right."""


def binds_otherwise(node: Any, engine: str) -> bool:
    """Tell whether a node of sqlglot's tree has other operands than the engine would give it."""
    ranks = _RANKS.get(engine, {})
    rank = ranks.get(_type_of(node))
    if rank is None:
        return False
    left, right = (ranks.get(_type_of(side), rank + 1) for side in (node.this, node.expression))
    return left < rank or right <= rank


def _type_of(node: Any) -> type[Any]:
    return cast("type[Any]", type(node))


_MOST_CASES: Final = 6
_ARITHMETIC: Final[dict[type[Any], str]] = {exp.Add: "add", exp.Sub: "subtract", exp.Mul: "multiply"}
_OPERATORS: Final[dict[type[Any], str]] = {
    exp.Div: "quotient",
    exp.IntDiv: "whole_quotient",
    exp.BitwiseAnd: "bitwise_and",
    exp.BitwiseOr: "bitwise_or",
    exp.BitwiseXor: "bitwise_xor",
}
_MOMENTS: Final[dict[type[Any], str]] = {
    exp.CurrentTimestamp: NOW,
    exp.CurrentDate: CURRENT_DATE,
    exp.Localtimestamp: CURRENT_WALL,
}
_SINCE_1970: Final[dict[type[Any], str]] = {
    exp.UnixSeconds: "epoch_s",
    exp.UnixMillis: "epoch_ms",
    exp.UnixMicros: "epoch_us",
}
_MADE_FROM: Final = ("year", "month", "day", "hour", "min", "sec")
"""The arguments of `make_date` and `make_timestamp`, by sqlglot's names."""
_PARTS: Final = frozenset({"year", "quarter", "month"})
_UNITS: Final = {
    "year": Interval(months=12),
    "quarter": Interval(months=3),
    "month": Interval(months=1),
    "week": Interval(days=7),
    "day": Interval(days=1),
    "hour": Interval(nanoseconds=3_600_000_000_000),
    "minute": Interval(nanoseconds=60_000_000_000),
    "second": Interval(nanoseconds=1_000_000_000),
    "millisecond": Interval(nanoseconds=1_000_000),
    "microsecond": Interval(nanoseconds=1_000),
}
_TRIMMED: Final = {None: "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
_INTEGER_LIMIT: Final = 2**31


@dataclass(frozen=True, slots=True)
class Calls:
    """Translates nodes with callbacks of the translator: `value` and `predicate` translate the nodes below."""

    semantics: Semantics
    value: Callable[[Node], Expr]
    predicate: Callable[[Node], Expr]
    opaque: Callable[[Node, str], Opaque]

    def translate(self, node: Node) -> Expr | None:
        """A function or operator; None for one that is unknown here."""
        kind = cast("type[Any]", type(node))
        if binds_otherwise(node, self.semantics.traits.name):
            return self.opaque(
                node, "operators without parentheses, which the engine binds differently from the parser"
            )
        if kind in _ARITHMETIC:
            return self._arithmetic(_ARITHMETIC[kind], node)
        if kind in _OPERATORS:
            return Call(_OPERATORS[kind], (self.value(node.this), self.value(node.expression)))
        if kind in _MOMENTS and not any(node.args.values()):
            return Call(_MOMENTS[kind], ())
        own = _duckdb_form(node, self.value, self.opaque) if self._is_duckdb else None
        if own is not None:
            return own
        return self._of_moments(node) or self._shifted(node) or self._sided(node) or self._of_values(node)

    def _of_moments(self, node: Node) -> Expr | None:
        match node:
            case exp.Interval():
                return _interval_of(node.this, node.args.get("unit"), self.semantics)
            case exp.Extract(this=exp.Var() as part) if part.name.lower() in _PARTS:
                return Call(part.name.lower(), (self.value(node.expression),))
            case exp.Extract(this=exp.Var() as part):
                return Call(
                    "date_part", (Literal(part.name.lower(), pa.string()), self.value(node.expression))
                )
            case exp.TimestampTrunc(unit=exp.Var() as unit) if not node.args.get("zone"):
                return self._truncated(unit.name, self._moment(node.this))
            case exp.Date() | exp.TsOrDsToDate() if _given(node) - {"safe"} == {"this"}:
                return Call("cast", (self.value(node.this),), pa.date32())
            case exp.DateTrunc(unit=exp.Literal() as unit) if self._takes_instants:
                if unit.name.lower() in ("day", "dd"):
                    return self.opaque(node, "a date cut to a day, which is NULL")
                return self._truncated(unit.name, Call("cast", (self.value(node.this),), pa.date32()))
            case exp.UnixToTime() if str(node.args.get("scale")) == "3":
                return Call("epoch_ms", (self.value(node.this),))
            case exp.TimeToUnix():
                return Call("epoch", (self.value(node.this),))
            case _ if self._takes_instants and type(node) in _SINCE_1970:
                return Call(_SINCE_1970[type(node)], (self._moment(node.this),))
            case _:
                return None

    def _shifted(self, node: Node) -> Expr | None:
        """Functions that add something to a moment."""
        match node:
            case exp.DateAdd(unit=exp.Var() as unit, expression=exp.Literal() as count):
                interval = _interval_of(count, unit, self.semantics)
                return interval and Call("add", (self.value(node.this), interval))
            case exp.AddMonths():
                return self._months_added(node)
            case exp.DateDiff() if _is_days(node.args.get("unit")):
                return Call("days_between", (self.value(node.this), self.value(node.expression)))
            case exp.TsOrDsAdd(unit=exp.Var() as unit) if unit.name.lower() == "day":
                return Call("add", (self.value(node.this), self.value(node.expression)))
            case _:
                return None

    @property
    def _takes_instants(self) -> bool:
        return self.semantics.traits.moment_functions_take_instants

    def _moment(self, node: Node) -> Expr:
        """A moment as the engine passes it to functions of moments."""
        value = self.value(node)
        return Call("cast", (value,), timestamp("us", instant=True)) if self._takes_instants else value

    @staticmethod
    def _truncated(unit: str, moment: Expr) -> Expr:
        return Call("date_trunc", (Literal(unit.lower(), pa.string()), moment))

    def _months_added(self, node: Node) -> Expr | None:
        months = self.value(node.expression)
        if not isinstance(months, Literal) or not isinstance(months.value, int) or not self._takes_instants:
            return None
        interval = Literal(Interval(months=months.value), pa.month_day_nano_interval())
        return Call("add", (Call("cast", (self.value(node.this),), pa.date32()), interval))

    def _sided(self, node: Node) -> Expr | None:
        """Text that is trimmed or padded on one side or on both: sqlglot has one class for all of these."""
        match node:
            case exp.Trim() if _given(node) <= {"this", "position"} and node.args.get("position") in _TRIMMED:
                return Call(_TRIMMED[node.args.get("position")], (self.value(node.this),))
            case exp.Pad() if node.args.get("fill_pattern") is not None:
                name = "lpad" if node.args.get("is_left") else "rpad"
                padding = (node.this, node.expression, node.args["fill_pattern"])
                return Call(name, tuple(self.value(argument) for argument in padding))
            case exp.Trim() | exp.Pad():
                return self.opaque(node, "which side of a text is cut or filled is not certain")
            case _:
                return None

    def _of_values(self, node: Node) -> Expr | None:
        match node:
            case exp.Substring() if _given(node) == {"this", "start", "length"}:
                arguments = (node.this, node.args["start"], node.args["length"])
                return Call("left", tuple(self.value(argument) for argument in arguments))
            case exp.RegexpLike() if not node.args.get("flag"):
                return self._matches(node)
            case exp.IsNan() if self.semantics.nan_order is NanOrder.GREATEST:
                return self._is_nan(node)
            case exp.Case() | exp.If():
                return self._case(node)
            case exp.ArrayContains(this=exp.Array() as listed, expression=operand):
                return contained(self.value(operand), [self.value(option) for option in listed.expressions])
            case exp.Mod():
                return Call("modulo", (self.value(node.this), self.value(node.expression)))
            case exp.DPipe():
                return Call("join", (self.value(node.this), self.value(node.expression)))
            case exp.Bracket(expressions=[exp.Literal(is_string=True) as name]):
                return self.value(exp.Dot(this=node.this, expression=exp.to_identifier(str(name.this))))
            case exp.ByteString() if "\\" not in str(node.this):
                return Literal(str(node.this), pa.string())
            case exp.Anonymous():
                return self._anonymous(node)
            case _:
                return None

    def _arithmetic(self, name: str, node: Node) -> Expr:
        left, right = self.value(node.this), self.value(node.expression)
        if isinstance(left, Literal) and isinstance(right, Literal):
            return self._folded(name, left, right) or self.opaque(node, "arithmetic of constants")
        return Call(name, (left, right))

    def _folded(self, name: str, left: Literal, right: Literal) -> Literal | None:
        shifts = {"add": 1, "subtract": -1}
        if self._is_duckdb and name in shifts and isinstance(right.value, Interval):
            return _moved(left, right, shifts[name])
        return _folded(name, left, right)

    @property
    def _is_duckdb(self) -> bool:
        return self.semantics.traits.name == SqlEngine.DUCKDB

    def _matches(self, node: Node) -> Expr | None:
        pattern = self.value(node.expression)
        text = pattern.value if isinstance(pattern, Literal) else None
        prefix = literal_beginning(text, anchored=False) if isinstance(text, str) else ""
        if not prefix or not self.semantics.traits.caret_begins_text:
            return None
        escaped, escape = literal_pattern(prefix)
        like = Like(self.value(node.this), f"{escaped}%", escape)
        rest = self.opaque(node, "only the beginning of a regular expression is used")
        return conjunction((like, rest))

    def _is_nan(self, node: Node) -> Expr:
        operand = self.value(node.this)
        nan = Compare(Operator.EQ, operand, Literal(float("nan"), pa.float64()))
        # isnan(NULL) is NULL, or false.
        return conjunction((nan, disjunction((Not(IsNull(operand)), self.opaque(node, "NaN of NULL")))))

    def _case(self, node: Node) -> Expr | None:
        """CASE and IF: by their logic for truth values, by their parts for others."""
        branches = [node] if isinstance(node, exp.If) else list(node.args.get("ifs") or ())
        last = node.args.get("false") if isinstance(node, exp.If) else node.args.get("default")
        if len(branches) > _MOST_CASES:
            return None
        values = [*(branch.args["true"] for branch in branches), *([] if last is None else [last])]
        if any(_is_no_truth_value(value) for value in values):
            return self._choice(node, branches, values)
        if node.this is not None and not isinstance(node, exp.If):
            return None
        result: Expr = NULL if last is None else self.predicate(last)
        for branch in reversed(branches):
            then = self.predicate(branch.args["true"])
            if not is_predicate(then) or not is_predicate(result):
                return None
            result = chosen(self.predicate(branch.this), then, result)
        return result

    def _choice(self, node: Node, branches: list[Node], values: list[Node]) -> Expr:
        """Conditions and values alternating, and the value of ELSE."""
        parts: list[Expr] = []
        compared = None if isinstance(node, exp.If) or node.this is None else self.value(node.this)
        for branch, value in zip(branches, values, strict=False):
            if compared is None:
                parts.append(self.predicate(branch.this))
            else:
                parts.append(Compare(Operator.EQ, compared, self.value(branch.this)))
            parts.append(self.value(value))
        return Call("choose", (*parts, *map(self.value, values[len(branches) :])))

    def _anonymous(self, node: Node) -> Expr | None:
        name, arguments = node.name.lower(), list(node.expressions)
        match name, arguments:
            case "now", []:
                return Call(NOW, ())
            case "date_part", [exp.Literal(is_string=True) as part, operand] if part.name.lower() in _PARTS:
                return Call(part.name.lower(), (self.value(operand),))
            case _:
                return None


def _is_no_truth_value(node: Node) -> bool:
    """Tell whether a value of a CASE is a number or text, so that all of them are."""
    match node:
        case exp.Literal() | exp.Neg():
            return True
        case exp.Paren():
            return _is_no_truth_value(node.this)
        case exp.Cast(this=exp.Literal()):
            return not node.to.is_type(exp.DataType.Type.BOOLEAN)
        case exp.Case() | exp.If():
            return any(_is_no_truth_value(branch.args["true"]) for branch in node.args.get("ifs") or [node])
        case _:
            return False


def _is_days(unit: Node) -> bool:
    return unit is None or unit.name.lower() == "day"


def _given(node: Node) -> set[str]:
    """The arguments that a node has."""
    return {name for name, argument in node.args.items() if argument not in (None, [], False)}


def _interval_of(count: Node, unit: Node, semantics: Semantics) -> Literal | None:
    if not isinstance(unit, exp.Var) or not isinstance(count, exp.Literal):
        return None
    one = _UNITS.get(unit.name.lower().removesuffix("s"))
    text = str(count.this).strip()
    if one is None or not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 9:
        return None
    number = int(text)
    value = Interval(one.months * number, one.days * number, one.nanoseconds * number)
    if semantics.traits.hours_make_days:
        value = value.with_whole_days()
    return Literal(value, pa.month_day_nano_interval())


def _folded(name: str, left: Literal, right: Literal) -> Literal | None:
    """The result of arithmetic on small integers, where no engine changes the type or overflows."""
    both = in_one_type((left, right))
    if both is None or not all(
        pa.types.is_integer(literal.type) and isinstance(literal.value, int) for literal in both
    ):
        return None
    first, second = cast("int", left.value), cast("int", right.value)
    result = first + second if name == "add" else first - second if name == "subtract" else first * second
    small = max(abs(first), abs(second), abs(result)) < _INTEGER_LIMIT
    return Literal(result, left.type) if small and left.type == right.type else None


def contained(operand: Expr, options: Sequence[Expr]) -> In | None:
    """`list_contains([…], value)`: without NULL in the list it is IN."""
    literals = tuple(option for option in options if isinstance(option, Literal) and option.value is not None)
    if not literals or len(literals) < len(options) or not of_one_type(list(options)):
        return None
    return In(operand, literals)


def _duckdb_form(
    node: Node, value: Callable[[Node], Expr], opaque: Callable[[Node, str], Expr]
) -> Expr | None:
    """Translate a form that only DuckDB has; None for any other.

    Args:
        node: a node of sqlglot's tree.
        value: translates the nodes below.
        opaque: turns a node into an unknown expression, with a reason.
    """
    match node:
        case exp.AtTimeZone():
            return _at_zone(value(node.args["zone"]), value(node.this))
        case exp.Anonymous(this=str(name), expressions=[zone, operand]) if name.lower() == "timezone":
            return _at_zone(value(zone), value(operand))
        case exp.Anonymous(this=str(name), expressions=[operand, exp.Literal(is_string=True) as text]) if (
            name.lower() == "prefix"
        ):
            pattern, escape = literal_pattern(str(text.this))
            return Like(value(operand), f"{pattern}%", escape)
        case exp.JSONExtractScalar(expression=exp.JSONPath(expressions=[exp.JSONPathRoot(), key])) if (
            isinstance(key, exp.JSONPathKey) and isinstance(key.this, str)
        ):
            return Call("->>", (value(node.this), Literal(key.this, pa.string())))
        case exp.DateFromParts() | exp.TimestampFromParts():
            return _moment_of_parts(
                [value(node.args[part]) for part in _MADE_FROM if node.args.get(part) is not None]
            )
        case exp.SimilarTo() | exp.RegexpFullMatch() | exp.Glob():
            beginning = _beginning(node)
            if not beginning:
                return None
            pattern, escape = literal_pattern(beginning)
            rest = opaque(node, "only the beginning of a pattern is used")
            return conjunction((Like(value(node.this), f"{pattern}%", escape), rest))
        case _:
            return None


def _moved(moment: Literal, interval: Literal, sign: int) -> Literal | None:
    """A constant moment with an interval added or subtracted; None where the result is uncertain."""
    start, step = moment.value, interval.value
    if not isinstance(step, Interval) or step.nanoseconds % 1000:
        return None
    if isinstance(start, datetime.date):
        start, type_ = day_number(start) * DAY, timestamp("us", instant=False)
    elif isinstance(start, int) and pa.types.is_timestamp(moment.type) and unit_of(moment.type) == "us":
        type_ = moment.type
    else:
        return None
    if is_instant(type_) and (step.months or step.days):
        return None  # the length of a day depends on the session's zone
    try:
        shifted_moment = shifted(start, step, sign)
    except (ValueError, OverflowError):
        return None
    return (
        Literal(shifted_moment, type_)
        if min(start, shifted_moment) >= FIRST and max(start, shifted_moment) <= LAST
        else None
    )


def _at_zone(zone: Expr, operand: Expr) -> Expr:
    call = Call("timezone", (zone, operand))
    match zone, operand:
        case (Literal(value=str(name)), Literal(value=int(wall), type=type_)) if is_naive_timestamp(type_):
            nanoseconds = 10**9 // PER_SECOND[unit_of(type_)]
            low, high = instants_of_wall(wall * nanoseconds, name)
            if low != high:
                return call
            return Literal(low // nanoseconds, timestamp(unit_of(type_), instant=True))
        case _:
            return call


def _moment_of_parts(parts: Sequence[Expr]) -> Literal | None:
    """`make_date(year, month, day)` and `make_timestamp(…, hour, minute, second)` of constants."""
    numbers = [part.value for part in parts if isinstance(part, Literal) and pa.types.is_integer(part.type)]
    whole = [number for number in numbers if isinstance(number, int)]
    if len(whole) < len(parts) or len(parts) not in (3, 6):
        return None
    try:
        moment = datetime.datetime(*whole)  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        return None
    if len(parts) == 3:
        return Literal(moment.date(), pa.date32())
    seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
    return Literal(day_number(moment.date()) * DAY + seconds * SECOND, timestamp("us", instant=False))


def _beginning(node: Node) -> str:
    """The letters with which a text must begin to match as a whole; empty where they are unknown."""
    text = node.expression
    if (
        not isinstance(text, exp.Literal)
        or not text.is_string
        or any(node.args[key] for key in node.args.keys() - {"this", "expression"})
    ):
        return ""
    if isinstance(node, exp.Glob):
        return re.split(r"[*?\[\\]", str(text.this), maxsplit=1)[0]
    return literal_beginning(str(text.this), anchored=True)
