"""From sqlglot's tree to the expression form.

What is not understood becomes `Opaque`, or a `Call` whose arguments are translated; both are unknown to every
index until the registry vouches for the function. Deep left chains, which the parser builds from `a OR b OR c …`,
are walked in a loop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, cast

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pruner.errors import PredicateError
from pruner.expr.build import any_of
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
    In,
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
from pruner.expr.semantics import NanOrder, Semantics
from pruner.expr.text.constants import Constants
from pruner.expr.text.dialects import Node, as_written, dialect_of, function_name
from pruner.expr.text.literals import TEXT_IN_SINGLE_QUOTES, in_one_type
from pruner.expr.text.translate_calls import Calls
from pruner.expr.truth import (
    as_predicate,
    compare_alike,
    is_false,
    is_predicate,
    is_true,
    of_one_type,
    same_truth,
)
from pruner.limits import PREDICATE_DEPTH

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
"""Most nodes of a part whose text is generated for reports."""


class Translator:
    """Translates one tree; `lists` maps the names of IN lists that were extracted from the text to their literals."""

    def __init__(self, semantics: Semantics, lists: Mapping[str, tuple[Literal, ...]]) -> None:
        self._semantics = semantics
        self._traits = semantics.traits
        self._dialect = dialect_of(semantics)
        self._lists = lists
        self._depth = 0
        self._constants = Constants(semantics, self._nested, self._opaque)
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
        """Translate a node where a truth value is expected.

        Raises:
            PredicateError: it has a subquery or a parameter, or is nested too deeply.
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
            # A boolean column by itself; for any other type, binding finds that the two are not comparable.
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
        whole = self._rows(operator, node.this, node.expression) or self._any_of_list(operator, node)
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
        rows = self._row_in(node)
        if rows is not None:
            return rows
        operand = self._value(node.this)
        taken = self._taken_list(node.expressions)
        if taken is not None:
            return self._listed(operand, taken, node)
        options = [self._value(option) for option in node.expressions]
        literals = tuple([option for option in options if isinstance(option, Literal)])
        if len(literals) == len(options) and options:
            return self._listed(operand, literals, node)
        if options and of_one_type(options):
            return disjunction(tuple([Compare(Operator.EQ, operand, option) for option in options]))
        return self._opaque(
            node, "IN over something that is not a list of constants" + _text_as_name(node.expressions)
        )

    def _rows(self, operator: Operator, left: Node, right: Node) -> Expr | None:
        """A comparison of rows, as far as its columns decide it: where it is true, the result is not false.

        None where no rows are compared. NULL inside a row makes the comparison NULL, or is a value like others.
        """
        if not isinstance(left, exp.Tuple) or not isinstance(right, exp.Tuple):
            return None
        pairs = [
            (self._value(a), self._value(b))
            for a, b in zip(left.expressions, right.expressions, strict=False)
        ]
        rest = self._opaque(left, "rows are compared column by column")
        if len(left.expressions) != len(right.expressions) or not pairs:
            return rest
        certain = [(a, b) for a, b in pairs if isinstance(b, Literal) and b.value is not None]
        match operator:
            case Operator.EQ:
                return conjunction((*(Compare(Operator.EQ, a, b) for a, b in certain), rest))
            case Operator.NE:
                return rest
            case _ if certain and certain[0] == pairs[0]:
                outer = Operator.LE if operator in (Operator.LT, Operator.LE) else Operator.GE
                first, limit = pairs[0]
                return conjunction((disjunction((Compare(outer, first, limit), IsNull(first))), rest))
            case _:
                return rest

    def _listed(self, operand: Expr, options: tuple[Literal, ...], node: Node) -> Expr:
        """IN over constants; with NULL among several, the engine may evaluate it to true where the operand is NULL."""
        known = tuple(option for option in options if option.value is not None)
        if self._semantics.traits.null_in_lists_is_null or len(known) in (0, 1, len(options)):
            return In(operand, options)
        is_listed = In(operand, known)
        rest = self._opaque(node, "NULL in a list, of which the engine makes a range")
        return conjunction((disjunction((is_listed, IsNull(operand), NULL)), disjunction((is_listed, rest))))

    def _row_in(self, node: Node) -> Expr | None:
        """IN over rows; None where no rows are listed."""
        listed = [self._rows(Operator.EQ, node.this, option) for option in node.expressions]
        found = tuple(each for each in listed if each is not None)
        return any_of(found) if found and len(found) == len(listed) else None

    def _any_of_list(self, operator: Operator, node: Node) -> Expr | None:
        """`value = ANY (list)`, which is IN; None for anything else."""
        if operator is not Operator.EQ or not isinstance(node.expression, exp.Any):
            return None
        listed = node.expression.this
        while isinstance(listed, exp.Paren):
            listed = listed.this
        if not isinstance(listed, exp.Array):
            return None
        options = [self._value(option) for option in listed.expressions]
        literals = tuple(option for option in options if isinstance(option, Literal))
        if not literals or len(literals) < len(options) or not of_one_type(options):
            return None
        return In(self._value(node.this), literals)

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
        """LIKE; without ESCAPE the engine's own escape applies, where it has one."""
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            listed = self._traits.like_takes_lists and escape is None
            each = _like_each(node, lambda one: self._like(one, None)) if listed else None
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
        if self._semantics.nan_order is NanOrder.UNORDERED and right.value != right.value:
            return self._opaque(node, "NaN equals NaN here, and in no other comparison")
        if right.value is None:
            same: Expr = IsNull(left)
        else:
            same = And((self._present(left, node), Compare(Operator.EQ, left, right)))
        return same if equal else Not(same)

    def _present(self, value: Expr, node: Node) -> Expr:
        """`value` is not NULL, as far as `node`, its null-safe comparison with a constant, implies that."""
        present = Not(IsNull(value))
        if not self._traits.casts_constants_to_null:
            return present
        # Cast to the column's type, the constant may become NULL ('1e0' against an integer), and NULL equals it.
        return Or((present, self._opaque(node, "the constant may become NULL in the cast")))

    def _value(self, node: Node) -> Expr:
        """Translate a node where a value is expected."""
        match node:
            case exp.Paren():
                return self._nested(node.this, node)
            case exp.Column() | exp.Dot():
                return self._column(node)
            case _:
                constant = self._constants.typed(node)
                if constant is not None:
                    return constant
                if type(node) in self._by_type or type(node) in _OPERATORS:
                    return self.predicate(node)
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
    """The operands of a left-deep chain of AND or OR, in order; parentheses around parts of it are ignored."""
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


def _like_each(node: Node, like: Callable[[Node], Expr]) -> Expr | None:
    """`LIKE ANY (…)` and `LIKE ALL (…)` as in Spark; None for any other LIKE.

    `NOT LIKE ANY` is true where one pattern does not match, and `NOT LIKE ALL` where none does.

    Args:
        node: the LIKE.
        like: translates a LIKE with a single pattern.
    """
    patterns = node.expression
    if not isinstance(patterns, exp.Any | exp.All):
        return None
    listed: list[Node] = (
        patterns.this.expressions if isinstance(patterns.this, exp.Tuple) else [patterns.this.this]
    )
    if not isinstance(patterns.this, exp.Tuple | exp.Paren) or not all(
        isinstance(each, exp.Literal) and each.is_string for each in listed
    ):
        return None
    negate = node.args.get("negate")
    parts = tuple(like(exp.Like(this=node.this, expression=each, negate=negate)) for each in listed)
    return disjunction(parts) if isinstance(patterns, exp.Any) else conjunction(parts)


def _text_as_name(values: list[Node]) -> str:
    """A hint to append to a reason where names are in double quotes and texts were probably meant."""
    quoted = any(isinstance(value, exp.Column) and value.this.args.get("quoted") for value in values)
    return f"; {TEXT_IN_SINGLE_QUOTES}" if quoted else ""


def _subquery() -> PredicateError:
    return PredicateError("the predicate has a subquery, which cannot be planned: replace it with its result")
