"""Trino's connector expressions as predicates of the expression form.

The list of functions is closed. Anything that is not in it, or has another shape, becomes `Opaque` with the columns
below it: nothing is guessed and nothing inside an OR or a NOT is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from pruner.expr.build import any_of, predicate
from pruner.expr.exact.patterns import literal_beginning, literal_pattern
from pruner.expr.nodes import (
    NULL,
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
    conjunction,
)
from pruner_trino import functions
from pruner_trino.comparing import TypedExpr, compare, equals_any, text_like
from pruner_trino.messages import (
    ScanColumn,
    TrinoCall,
    TrinoColumn,
    TrinoConstant,
    TrinoField,
    TrinoNode,
    TrinoOpaque,
    survey,
)
from pruner_trino.values import BIGINT, BOOLEAN, NotUnderstood, TrinoType, literal, trino_type

DEEPEST = 100
"""Most levels of an expression; deeper parts are opaque."""

LARGEST = 100_000
"""Most nodes of an expression; one with more is opaque."""

_COLUMNS_NAMED = 8
_TEXT = 200

_OPERATORS: Final = {
    "$equal": Operator.EQ,
    "$not_equal": Operator.NE,
    "$less_than": Operator.LT,
    "$less_than_or_equal": Operator.LE,
    "$greater_than": Operator.GT,
    "$greater_than_or_equal": Operator.GE,
}
_WHOLE_NUMBERS: Final = frozenset({"tinyint", "smallint", "integer", "bigint"})


class Expressions:
    """Decodes the expressions and columns of one scan."""

    def __init__(self, columns: Mapping[str, ScanColumn]) -> None:
        self._columns = columns

    def predicate(self, node: TrinoNode) -> Expr:
        """Return a truth value of Trino's as a predicate; parts that are not understood are `Opaque`."""
        columns, count = survey(node)
        if count > LARGEST:
            return self.opaque(columns, "the expression", f"it has more than {LARGEST:,} parts")
        try:
            return _predicate(self._part(node, 0))
        except NotUnderstood as reason:
            return self.opaque(columns, _summary(node, self._columns), str(reason))

    def column(self, name: str) -> TypedExpr:
        """Return the column with this id.

        Raises:
            NotUnderstood: it is not a column of the table, or its type is not supported.
        """
        column = self._columns[name]
        if column.kind == "hidden":
            raise NotUnderstood(f"{column.path[0]} is not a column of the table")
        if column.kind == "displaced":
            raise NotUnderstood(
                f"the catalog has values of {column.path[0]} that are not where its files are"
            )
        return self._stored(
            Column(tuple(column.path)), trino_type(column.type), partition=column.kind == "partition"
        )

    def name(self, column: str) -> str:
        """The name of a column, for reports."""
        return ".".join(self._columns[column].path)

    def opaque(self, columns: Sequence[str], text: str, reason: str) -> Opaque:
        """Return the `Opaque` for something over these columns."""
        named = tuple(Column(tuple(self._columns[name].path)) for name in columns[:_COLUMNS_NAMED])
        return Opaque(named, text if len(text) <= _TEXT else text[:_TEXT] + "…", reason)

    def _stored(self, column: Column, kind: TrinoType | None, *, partition: bool = False) -> TypedExpr:
        """A column as the connector reads it; for an unknown type, only IS NULL can be decided, and for structs, lists
        and maps not even that.
        """
        if kind is None:
            return TypedExpr(column, None, stored=True)
        # A number in a path has the value of its digits, whatever integer type it is read as.
        read = BIGINT if partition and kind.name in ("tinyint", "smallint", "integer") else kind
        return TypedExpr(Call("read_as", (column,), read.arrow), kind, stored=True)

    def _part(self, node: TrinoNode, depth: int) -> TypedExpr:
        try:
            if depth > DEEPEST:
                raise NotUnderstood(f"it is nested more than {DEEPEST} deep")
            return self._understand(node, depth)
        except NotUnderstood as reason:
            kind = trino_type(node.type)
            return TypedExpr(self.opaque(survey(node)[0], _summary(node, self._columns), str(reason)), kind)

    def _understand(self, node: TrinoNode, depth: int) -> TypedExpr:
        match node:
            case TrinoColumn(name):
                return self.column(name)
            case TrinoConstant(type_name, value):
                kind = trino_type(type_name)
                if kind is None:
                    raise NotUnderstood(f"a constant of type {type_name[:60]}")
                return TypedExpr(literal(value, kind), kind)
            case TrinoField(target, _, name, type_name):
                parent = self._part(target, depth + 1)
                if not isinstance(parent.expr, Column) or not name:
                    raise NotUnderstood("a field without a name, or of something that is not a column")
                return self._stored(Column((*parent.expr.path, name)), trino_type(type_name))
            case TrinoCall(schema=str()):
                raise NotUnderstood(f"the function {node.function[:60]} is not built in")
            case TrinoCall():
                return self._call(node, depth)
            case TrinoOpaque():
                raise NotUnderstood("the plugin has no form for it")

    def _call(self, node: TrinoCall, depth: int) -> TypedExpr:
        name = node.function
        if name in ("$in", "contains"):
            return TypedExpr(self._one_of(node, depth), BOOLEAN)
        parts = [self._part(argument, depth + 1) for argument in node.arguments]
        match name, parts:
            case "$and", [_, _, *_]:
                return TypedExpr(conjunction(tuple(_predicate(part) for part in parts)), BOOLEAN)
            case "$or", [_, _, *_]:
                return TypedExpr(any_of(tuple(_predicate(part) for part in parts)), BOOLEAN)
            case "$not", [operand]:
                return TypedExpr(Not(_predicate(operand)), BOOLEAN)
            case "$is_null", [operand]:
                return TypedExpr(IsNull(_known(operand)), BOOLEAN)
            case "$between", [value, low, high]:
                ends = (_compare(Operator.GE, value, low), _compare(Operator.LE, value, high))
                return TypedExpr(conjunction(ends), BOOLEAN)
            case "$identical", [left, right]:
                return TypedExpr(_identical(left, right), BOOLEAN)
            case "$like" | "regexp_like", [value, *patterns]:
                understood = _like if name == "$like" else _matches
                return TypedExpr(understood(value, patterns), BOOLEAN)
            case "$cast" | "$try_cast", [operand]:
                return _cast(name.removeprefix("$"), operand, trino_type(node.type))
            case _, [left, right] if name in _OPERATORS:
                return TypedExpr(_compare(_OPERATORS[name], left, right), BOOLEAN)
            case _ if name in functions.NAMES:
                return functions.function(name, parts, trino_type(node.type))
            case _:
                raise NotUnderstood(f"{name[:60]} of {len(parts)} arguments is not understood")

    def _one_of(self, node: TrinoCall, depth: int) -> Expr:
        """IN, and the equivalent `contains` of an array: NULL for NULL, and NULL where nothing is equal and a NULL is
        listed.
        """
        match node.function, node.arguments:
            case "$in", [operand, TrinoCall(function="$array", arguments=[_, *_] as listed, schema=None)]:
                pass
            case "contains", [
                TrinoCall(function="$array", arguments=[_, *_] as listed, schema=None),
                operand,
            ]:
                pass
            case _:
                raise NotUnderstood(f"{node.function} without a list")
        value = self._part(operand, depth + 1)
        options = [self._part(option, depth + 1) for option in listed]
        literals = [option.expr for option in options if isinstance(option.expr, Literal)]
        if len(literals) == len(options) and all(_one_kind(value, option) for option in options):
            return (
                equals_any(value, literals) if len(literals) > 1 else _compare(Operator.EQ, value, options[0])
            )
        return any_of(tuple(_compare(Operator.EQ, value, option) for option in options))


def _known(part: TypedExpr) -> Expr:
    """The value of a part whose type is known; an opaque part, which has its own reason, is returned as well."""
    if not isinstance(part.expr, Opaque):
        _ = part.known
    return part.expr


def _predicate(part: TypedExpr) -> Expr:
    if isinstance(part.expr, Column) or part.type not in (None, BOOLEAN):
        raise NotUnderstood("something that is not a boolean")
    if isinstance(part.expr, Call) and part.expr.function == "read_as":
        return Compare(Operator.EQ, part.expr, Literal(True, BOOLEAN.arrow))
    return predicate(part.expr)


def _compare(operator: Operator, left: TypedExpr, right: TypedExpr) -> Expr:
    if isinstance(left.expr, Literal) and not isinstance(right.expr, Literal):
        left, right, operator = right, left, operator.mirrored
    if not isinstance(right.expr, Literal):
        return Compare(operator, left.expr, right.expr)
    if right.expr.value is None:
        return NULL
    if not _one_kind(left, right):
        raise NotUnderstood("a comparison of values of different types")
    return compare(operator, left, right.expr)


def _one_kind(left: TypedExpr, right: TypedExpr) -> bool:
    """Tell whether two values have one type; the engine compares no others, so anything else was misunderstood."""
    return left.type is not None and right.type is not None and left.type.name == right.type.name


def _identical(left: TypedExpr, right: TypedExpr) -> Expr:
    """IS NOT DISTINCT FROM a constant: never NULL, and NaN equals NaN."""
    if isinstance(left.expr, Literal):
        left, right = right, left
    if not isinstance(right.expr, Literal):
        raise NotUnderstood("IS DISTINCT FROM between two columns")
    value = right.expr.value
    if value is None:
        return IsNull(_known(left))
    if isinstance(value, float) and math.isnan(value):
        raise NotUnderstood("IS DISTINCT FROM NaN")
    return conjunction((_compare(Operator.EQ, left, right), Not(IsNull(_known(left)))))


def _like(value: TypedExpr, patterns: Sequence[TypedExpr]) -> Expr:
    texts = [part.expr.value for part in patterns if isinstance(part.expr, Literal)]
    match texts:
        case [str() as pattern] if len(patterns) == 1:
            escape = None
        case [str() as pattern, str() as escape] if len(patterns) == 2:
            pass
        case _:
            raise NotUnderstood("a pattern that is not constant")
    if value.known.name == "varchar" and not value.stored and isinstance(value.expr, Call):
        return Like(value.expr, pattern, escape)
    if not value.known.is_text or not value.stored:
        raise NotUnderstood("LIKE on something that is not a text column")
    return text_like(value.expr, value.known, pattern, escape)


def _matches(value: TypedExpr, patterns: Sequence[TypedExpr]) -> Expr:
    """`regexp_like`, as far as its pattern fixes the beginning of a text.

    In both of Trino's libraries, `^` matches the beginning of the text, and of a line only with a leading flag.
    """
    match [part.expr for part in patterns]:
        case [Literal(str() as pattern)]:
            beginning = literal_beginning(pattern, anchored=False)
        case _:
            beginning = ""
    if not beginning:
        raise NotUnderstood("a regular expression that does not say how a text begins")
    escaped, escape = literal_pattern(beginning)
    like = [f"{escaped}%", *([] if escape is None else [escape])]
    starts = _like(value, [TypedExpr(Literal(text, pa.string()), None) for text in like])
    rest = Opaque((), "regexp_like", "only the beginning of a regular expression is used")
    return conjunction((starts, rest))


def _cast(function: str, operand: TypedExpr, target: TrinoType | None) -> TypedExpr:
    source = operand.known
    if target is None:
        raise NotUnderstood("a cast to a type that is not supported")
    if isinstance(operand.expr, Literal):
        raise NotUnderstood("a cast of a constant")
    if source.name == "varchar" and source.length is None and target.name in ("date", "bigint"):
        return TypedExpr(Call(function, (operand.expr,), target.arrow), target)
    if source.name in _WHOLE_NUMBERS and target.name == "varchar" and target.length is None:
        return TypedExpr(Call(function, (operand.expr,), target.arrow), target)
    if source.is_text or target.is_text:
        if source.name != "varchar" or target.name != "varchar" or not operand.stored:
            raise NotUnderstood("a cast between text and another type")
        lengths = [length for length in (source.length, target.length) if length is not None]
        # Truncating to one length and then to another is truncating to the shorter one.
        return TypedExpr(
            operand.expr, TrinoType("varchar", target.arrow, min(lengths, default=None)), stored=True
        )
    return TypedExpr(Call(function, (operand.expr,), target.arrow), target)


def _summary(node: TrinoNode, columns: Mapping[str, ScanColumn]) -> str:
    """A short text for an expression, for reports."""
    match node:
        case TrinoColumn(name):
            return ".".join(columns[name].path)
        case TrinoConstant(type_, _):
            return f"a {type_}"
        case TrinoField(_, index, name, _):
            return f"field {name or index}"
        case TrinoOpaque(_, text, _):
            return text
        case TrinoCall(function):
            below = ", ".join(".".join(columns[name].path) for name in survey(node)[0][:_COLUMNS_NAMED])
            return f"{function}({below})"
