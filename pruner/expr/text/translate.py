"""From sqlglot's tree to the expression form.

What is not understood becomes `Opaque`, or a `Call` whose arguments are translated; both are unknown to every
index until somebody vouches for the function. Deep left chains, as the parser makes them of `a OR b OR c …`,
are walked in a loop.

Arrow types of the SQL types that predicates name, as each engine means them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pruner.errors import PredicateError
from pruner.expr.engines import Traits
from pruner.expr.exact.patterns import literal_pattern
from pruner.expr.nodes import (
    FALSE,
    NULL,
    TRUE,
    And,
    Call,
    Column,
    Compare,
    Expr,
    IsNull,
    Like,
    Literal,
    Not,
    Opaque,
    Operator,
    Or,
    conjunction,
    disjunction,
)
from pruner.expr.semantics import Semantics
from pruner.expr.text.dialects import as_written, dialect_of, function_name
from pruner.expr.text.literals import NULL_LITERAL, STRING, fold_cast, in_one_type, negated, number
from pruner.expr.text.plain import TEXT_IN_SINGLE_QUOTES
from pruner.expr.text.translate_calls import Calls, like_each
from pruner.expr.truth import (
    as_predicate,
    compare_alike,
    is_false,
    is_predicate,
    is_true,
    of_one_type,
    same_truth,
)
from pruner.expr.types import Unit, timestamp
from pruner.limits import PREDICATE_DEPTH

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


def arrow_type(node: exp.DataType, traits: Traits) -> pa.DataType | None:
    """The Arrow type of a SQL type; None for one that is not known here, or whose length would cut values."""
    kind = node.this
    parameters = type_parameters(node)
    if parameters is None:
        return None
    if kind in _NAIVE or kind in _ZONED:
        unit = _UNITS.get(fraction_digits(node, traits))
        return timestamp(unit, instant=kind in _ZONED) if unit else None
    if kind is _Kind.DECIMAL:
        precision, scale = (*parameters, 0)[:2] if parameters else traits.bare_decimal or (0, 0)
        return pa.decimal128(precision, scale) if 1 <= precision <= 38 and 0 <= scale <= precision else None
    return _PLAIN.get(kind) if not parameters else None


def fraction_digits(node: exp.DataType, traits: Traits) -> int:
    """Digits of a second that a timestamp type keeps: as written, else the engine's default."""
    parameters = type_parameters(node)
    return parameters[0] if parameters else traits.bare_timestamp_digits


def type_parameters(node: exp.DataType) -> tuple[int, ...] | None:
    """The numbers in parentheses behind a type's name; None where something else stands there."""
    numbers: list[int] = []
    for parameter in node.expressions:
        value = parameter.this if isinstance(parameter, exp.DataTypeParam) else parameter
        if not isinstance(value, exp.Literal) or value.is_string or not str(value.this).isdecimal():
            return None
        numbers.append(int(value.this))
    return tuple(numbers)


Node: TypeAlias = Any
"""A node of sqlglot's tree, which is not typed closely enough to be checked."""

_OPERATORS: dict[type[Any], Operator] = {
    exp.EQ: Operator.EQ,
    exp.NEQ: Operator.NE,
    exp.LT: Operator.LT,
    exp.LTE: Operator.LE,
    exp.GT: Operator.GT,
    exp.GTE: Operator.GE,
}
_TEXT_LIMIT = 200
_TEXT_NODES = 500
"""Most nodes of a part whose text is written out for reports."""


class Translator:
    """Translates one tree; `lists` maps the names of IN lists that were taken out of the text to their
    literals.
    """

    def __init__(self, semantics: Semantics, lists: Mapping[str, tuple[Literal, ...]]) -> None:
        self._semantics = semantics
        self._traits = semantics.traits
        self._dialect = dialect_of(semantics)
        self._lists = lists
        self._depth = 0
        self._calls = Calls(semantics, lambda node: self._nested(node, node), self.predicate, self._opaque)
        self.lists_used = 0
        self._by_type: dict[type[Any], Callable[[Node], Expr]] = {
            exp.Paren: lambda node: self.predicate(node.this),
            exp.And: self._and,
            exp.Or: self._or,
            exp.Not: lambda node: Not(self.predicate(node.this)),
            exp.In: self._in,
            exp.Between: self._between,
            exp.Is: self._is,
            **dict.fromkeys((exp.Like, exp.StartsWith), lambda node: self._like(node, None)),
            exp.Escape: self._escape,
            exp.NullSafeEQ: lambda node: self._null_safe(node, equal=True),
            exp.NullSafeNEQ: lambda node: self._null_safe(node, equal=False),
            exp.Boolean: lambda node: TRUE if node.this else FALSE,
            exp.Null: lambda _: NULL,
        }

    def predicate(self, node: Node) -> Expr:
        """Translate what stands where a truth value is wanted.

        Raises:
            PredicateError: it holds a subquery or a parameter, or is nested too deeply.
        """
        self._depth += 1
        if self._depth > PREDICATE_DEPTH:
            raise PredicateError(f"the predicate is nested more than {PREDICATE_DEPTH} deep: simplify it")
        try:
            kind = cast("type[Any]", type(node))
            operator = _OPERATORS.get(kind)
            if operator is not None:
                return self._compare(operator, node)
            translate = self._by_type.get(kind)
            if translate is not None:
                return translate(node)
            value = self._value(node)
            # A boolean column by itself; of any other type, binding finds that the two do not compare.
            return (
                Compare(Operator.EQ, value, Literal(True, pa.bool_())) if isinstance(value, Column) else value
            )
        finally:
            self._depth -= 1

    def _and(self, node: Node) -> Expr:
        return conjunction(tuple([self.predicate(part) for part in _chain(node, "and")]))

    def _or(self, node: Node) -> Expr:
        return disjunction(tuple([self.predicate(part) for part in _chain(node, "or")]))

    def _compare(self, operator: Operator, node: Node) -> Expr:
        whole = self._calls.rows(operator, node.this, node.expression) or self._calls.any_of_list(
            operator, node
        )
        if whole is not None:
            return whole
        left, right = self._value(node.this), self._value(node.expression)
        if isinstance(left, Literal) and isinstance(right, Literal):
            decided = compare_alike(operator, left, right)
            return decided or self._opaque(node, "a comparison of constants")
        return Compare(operator, left, right)

    def _in(self, node: Node) -> Expr:
        if node.args.get("query") is not None:
            raise _subquery()
        if node.args.get("field") is not None or node.args.get("unnest") is not None:
            return self._opaque(node, "IN over something that is not a list")
        rows = self._calls.row_in(node)
        if rows is not None:
            return rows
        operand = self._value(node.this)
        taken = self._taken_list(node.expressions)
        if taken is not None:
            return self._calls.listed(operand, taken, node)
        options = [self._value(option) for option in node.expressions]
        literals = tuple([option for option in options if isinstance(option, Literal)])
        if len(literals) == len(options) and options:
            return self._calls.listed(operand, literals, node)
        if options and of_one_type(options):
            return disjunction(tuple([Compare(Operator.EQ, operand, option) for option in options]))
        return self._opaque(
            node, "IN over something that is not a list of constants" + _text_as_name(node.expressions)
        )

    def _taken_list(self, options: list[Node]) -> tuple[Literal, ...] | None:
        if len(options) != 1 or not isinstance(options[0], exp.Column):
            return None
        literals = self._lists.get(options[0].name)
        self.lists_used += literals is not None
        return literals

    def _between(self, node: Node) -> Expr:
        if node.args.get("symmetric"):
            return self._opaque(node, "BETWEEN SYMMETRIC")
        operand = self._value(node.this)
        low, high = self._value(node.args["low"]), self._value(node.args["high"])
        if isinstance(low, Literal) and isinstance(high, Literal):
            # DuckDB and Trino compare all three in one type.
            both = in_one_type((low, high))
            if both is None:
                return self._opaque(node, "BETWEEN bounds of different types")
            low, high = both
        elif not isinstance(operand, Column) or type(low) is not type(high):
            return self._opaque(node, "BETWEEN bounds that are not constants")
        return And((Compare(Operator.GE, operand, low), Compare(Operator.LE, operand, high)))

    def _is(self, node: Node) -> Expr:
        match node.expression:
            case exp.Null():
                return IsNull(self._value(node.this))
            case exp.Boolean(this=wanted):
                tested = self.predicate(node.this)
                # Two-valued: null counts as neither true nor false.
                column = self._value(node.this) if isinstance(node.this, exp.Column) else None
                if not isinstance(column, Column):
                    return is_true(tested) if wanted else is_false(tested)
                return And((tested if wanted else Not(tested), self._present(column, node)))
            case _:
                return self._opaque(node, "IS with something else than NULL, TRUE or FALSE")

    def _escape(self, node: Node) -> Expr:
        like, escape = node.this, node.expression
        if not isinstance(like, exp.Like) or not isinstance(escape, exp.Literal) or not escape.is_string:
            return self._opaque(node, "ESCAPE with something else than text")
        return self._like(like, str(escape.this))

    def _like(self, node: Node, escape: str | None) -> Expr:
        """LIKE; without ESCAPE the engine's own escape holds, where it has one."""
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            listed = self._traits.like_takes_lists and escape is None
            each = like_each(node, lambda one: self._like(one, None)) if listed else None
            return each or self._opaque(node, "LIKE with something else than text" + _text_as_name([pattern]))
        if isinstance(node, exp.StartsWith):
            text, escape = literal_pattern(str(pattern.this))
            return Like(self._value(node.this), f"{text}%", escape)
        if escape is None:
            escape = self._traits.like_escape
        like = Like(self._value(node.this), str(pattern.this), escape or None)
        return Not(like) if node.args.get("negate") else like

    def _null_safe(self, node: Node, *, equal: bool) -> Expr:
        """`<=>` and IS [NOT] DISTINCT FROM: never null."""
        left, right = self._value(node.this), self._value(node.expression)
        if isinstance(left, Literal):
            left, right = right, left
        other = as_predicate(right)
        if is_predicate(left) and other is not None:
            return same_truth(left, other) if equal else Not(same_truth(left, other))
        if not isinstance(right, Literal) or isinstance(left, Literal):
            return self._opaque(node, "null-safe comparison of two columns")
        if right.value is None:
            same: Expr = IsNull(left)
        else:
            same = And((self._present(left, node), Compare(Operator.EQ, left, right)))
        return same if equal else Not(same)

    def _present(self, value: Expr, node: Node) -> Expr:
        """`value` is not NULL, as far as `node`, which compares it null-safely with a constant, tells that."""
        present = Not(IsNull(value))
        if not self._traits.casts_constants_to_null:
            return present
        # Cast to the column's type the constant may become NULL there ('1e0' beside an integer), and NULL equals it.
        return Or((present, self._opaque(node, "the constant may become NULL in the cast")))

    def _value(self, node: Node) -> Expr:
        """Translate what stands where a value is wanted."""
        match node:
            case exp.Paren():
                return self._nested(node.this, node)
            case exp.Column() | exp.Dot():
                return self._column(node)
            case exp.Literal():
                return self._literal(node)
            case exp.Null():
                return NULL_LITERAL
            case exp.Boolean():
                return Literal(bool(node.this), pa.bool_())
            case exp.RawString():
                return Literal(str(node.this), STRING)
            case exp.HexString():
                return self._hex(node)
            case exp.Neg():
                return self._negative(node)
            case exp.Cast():
                return self._cast(node)
            case _ if type(node) in self._by_type or type(node) in _OPERATORS:
                return self.predicate(node)
            case _:
                known = self._calls.translate(node)
                return known or (self._call(node) if isinstance(node, exp.Func) else self._opaque(node))

    def _nested(self, inner: Node, outer: Node) -> Expr:
        self._depth += 1
        try:
            return (
                self._value(inner)
                if self._depth <= PREDICATE_DEPTH
                else self._opaque(outer, "nested too deeply")
            )
        finally:
            self._depth -= 1

    def _column(self, node: Node) -> Expr:
        parts: list[str] = []
        while isinstance(node, exp.Dot):
            if not isinstance(node.expression, exp.Identifier):
                return self._opaque(node)
            parts.append(str(node.expression.this))
            node = node.this
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return self._opaque(node)
        path = [str(part.this) for part in node.parts]
        return Column((*path, *reversed(parts)))

    def _literal(self, node: Node) -> Expr:
        if node.is_string:
            return Literal(str(node.this), STRING)
        return number(str(node.this), self._traits) or self._opaque(node, "a number that is too long")

    def _hex(self, node: Node) -> Expr:
        try:
            return Literal(bytes.fromhex(str(node.this)), pa.binary())
        except ValueError:
            return self._opaque(node, "no whole bytes")

    def _negative(self, node: Node) -> Expr:
        inner = node.this
        if isinstance(inner, exp.Cast) and isinstance(inner.this, exp.Literal) and not inner.this.is_string:
            # -128Y: the sign goes first, because 128Y by itself does not fit.
            positive = number(str(inner.this.this), self._traits)
            operand = self._cast_of(inner, (positive and negated(positive)) or self._literal(inner.this))
            if isinstance(operand, Literal):
                return operand
        else:
            operand = self._nested(inner, node)
        return (negated(operand) if isinstance(operand, Literal) else None) or Call("negate", (operand,))

    def _cast(self, node: Node) -> Expr:
        return self._cast_of(node, self._nested(node.this, node))

    def _cast_of(self, node: Node, operand: Expr) -> Expr:
        if node.args.get("format") is not None or node.args.get("default") is not None:
            return self._opaque(node, "a cast by a format")
        target = self._cast_type(node, operand)
        if isinstance(operand, Literal) and target is not None:
            folded = fold_cast(operand, target, self._semantics)
            if folded is not None:
                return folded
        # Spark's CAST comes as TRY_CAST, because its ANSI mode is not known to the parser.
        tries = isinstance(node, exp.TryCast) and bool(node.args.get("safe"))
        return Call("try_cast" if tries else "cast", (operand,), target)

    def _cast_type(self, node: Node, operand: Expr) -> pa.DataType | None:
        """The type that is cast to; a timestamp that keeps fewer digits than its text has is none."""
        traits = self._traits
        target = arrow_type(node.to, traits)
        if not isinstance(operand, Literal) or not isinstance(operand.value, str):
            return target
        temporal = node.to.is_type(*exp.DataType.TEMPORAL_TYPES) and target != pa.date32()
        if not traits.timestamp_literals_keep_digits or not temporal:
            return target
        fraction = operand.value.partition(".")[2]
        written = len(fraction) - len(fraction.lstrip("0123456789"))
        if node.to.this is exp.DataType.Type.TIME or written > min(9, fraction_digits(node.to, traits)):
            return None
        instant = node.to.this is exp.DataType.Type.TIMESTAMPTZ
        return timestamp("us" if written <= 6 else "ns", instant=instant)

    def _call(self, node: Node) -> Expr:
        arguments: list[Expr] = []
        for argument in node.args.values():
            several = cast("list[Node]", argument) if isinstance(argument, list) else [argument]
            for each in several:
                if isinstance(each, exp.Query | exp.Subquery):
                    raise _subquery()
                if isinstance(each, exp.Expr):
                    arguments.append(self._nested(each, node))
                elif each is not None and not isinstance(each, bool | str):
                    return self._opaque(node)
        return Call(function_name(node).lower(), tuple(arguments))

    def _opaque(self, node: Node, reason: str = "not understood") -> Opaque:
        columns: dict[tuple[str, ...], Column] = {}
        count = 0
        for part in node.walk():
            count += 1
            if isinstance(part, exp.Query | exp.Subquery):
                raise _subquery()
            if isinstance(part, exp.Placeholder | exp.Parameter):
                raise PredicateError("the predicate has a parameter: replace it with its value")
            if isinstance(part, exp.Column):
                path = tuple(str(name.this) for name in part.parts)
                columns.setdefault(path, Column(path))
        return Opaque(tuple(columns.values()), self._text(node) if count <= _TEXT_NODES else node.key, reason)

    def _text(self, node: Node) -> str:
        with contextlib.suppress(SqlglotError, RecursionError, ValueError, TypeError, AttributeError):
            text = as_written(node.sql(self._dialect.parser, comments=False))
            return text if len(text) <= _TEXT_LIMIT else text[:_TEXT_LIMIT] + "…"
        return node.key


def _chain(node: Node, kind: str) -> list[Node]:
    """The operands of a left-deep chain of AND or OR, in order; parentheses around a part of it do not
    matter.
    """
    operands: list[Node] = []
    pending: list[Node] = [node]
    while pending:
        part = pending.pop()
        inner = part
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if inner.key == kind:
            pending += (inner.expression, inner.this)
        else:
            operands.append(part)
    return operands


def _text_as_name(values: list[Node]) -> str:
    """What to add to a reason where names stand in double quotes and texts were probably meant."""
    quoted = any(isinstance(each, exp.Column) and each.this.args.get("quoted") for each in values)
    return f"; {TEXT_IN_SINGLE_QUOTES}" if quoted else ""


def _subquery() -> PredicateError:
    return PredicateError("the predicate has a subquery, which cannot be planned: replace it with its result")
