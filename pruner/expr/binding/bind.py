"""Binding: from the expression form to leaves that are each about one column in that column's storage domain.

Names are resolved, literals coerced, casts undone where that loses nothing. Whatever cannot be decided from
one column's values becomes `Unknown` with the reason; AND, OR and NOT are kept, so that nothing is ever
widened below a NOT.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ParamSpec, TypeAlias, assert_never

import pyarrow as pa

from pruner.errors import PredicateError
from pruner.expr.binding.by_functions import with_functions
from pruner.expr.binding.resolve import Resolver, unknown, unknown_function
from pruner.expr.binding.subjects import ColumnValue, FunctionValue
from pruner.expr.bound.combine import all_of, any_of, flat, negation, null_test, same
from pruner.expr.bound.predicates import (
    AlwaysNull,
    BoundAnd,
    BoundExpr,
    CompareLeaf,
    InLeaf,
    IsNullLeaf,
    NotComparable,
    NotNullLeaf,
    Point,
    PrefixLeaf,
    Unknown,
)
from pruner.expr.derived.indexed import NO_EXPRESSION_INDEXES, ExpressionIndexes
from pruner.expr.exact.coerce import coerce_constant
from pruner.expr.exact.patterns import split_pattern
from pruner.expr.functions.inverse import NotInvertible
from pruner.expr.functions.now import coerce_moving, is_moving
from pruner.expr.nodes import (
    NULL,
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
    Or,
)
from pruner.expr.semantics import BINARY_COLLATION, NanOrder, Semantics
from pruner.expr.show import show, shown_function
from pruner.expr.text.literals import in_one_type
from pruner.expr.truth import compared_coalesce, compared_with_truth, is_predicate, may_cast_to_null
from pruner.expr.types import is_string
from pruner.limits import PREDICATE_DEPTH, PREDICATE_NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pruner.expr.binding.subjects import Subject
    from pruner.expr.exact.patterns import Pattern
    from pruner.schema import Field, TableSchema

_Asked = ParamSpec("_Asked")


def bind(
    expression: Expr,
    schema: TableSchema,
    semantics: Semantics,
    *,
    strict: bool = True,
    indexed: ExpressionIndexes = NO_EXPRESSION_INDEXES,
) -> BoundExpr:
    """Bind a predicate to the columns of a table.

    Args:
        expression: the predicate, in the expression form.
        schema: the table's columns.
        semantics: whose rules the predicate follows.
        strict: refuse unknown columns and comparisons that the engine would refuse. Without it they become
            `Unknown`: for adapters, whose engine has checked the predicate.
        indexed: the expressions that some index is over.

    Returns:
        The bound predicate; nested ANDs and ORs are flattened, their constants removed.

    Raises:
        SchemaError: strict, and a column does not exist or is ambiguous.
        PredicateError: strict, and the engine would refuse a comparison; or the predicate exceeds the limits
            in `pruner.limits`.

    """
    bound = _Binder(schema, semantics, strict, indexed).predicate(expression)
    return with_functions(bound, indexed, semantics) if indexed.names else bound


_Test: TypeAlias = Compare | In | IsNull | Like | Column | Literal | Call | Opaque


class _Binder:
    def __init__(
        self, schema: TableSchema, semantics: Semantics, strict: bool, indexed: ExpressionIndexes
    ) -> None:
        self._semantics = semantics
        self._resolver = Resolver(schema, semantics, strict=strict, indexed=indexed)
        self._indexed = indexed
        self._strict = strict
        self._depth = 0
        self._nodes = 0

    def predicate(self, node: Expr) -> BoundExpr:
        self._count(1)
        self._depth += 1
        if self._depth > PREDICATE_DEPTH:
            raise PredicateError(f"the predicate is nested more than {PREDICATE_DEPTH} deep: simplify it")
        try:
            return self._predicate(node)
        finally:
            self._depth -= 1

    def _predicate(self, node: Expr) -> BoundExpr:
        match node:
            case And():
                return all_of([self.predicate(operand) for operand in flat(node, And)])
            case Or():
                return any_of([self.predicate(operand) for operand in flat(node, Or)])
            case Not(operand):
                return negation(self.predicate(operand))
            case Constant():
                return node
            case _:
                return self._test(node)

    def _test(self, node: _Test) -> BoundExpr:
        asked = _function_in(node) if self._indexed.names else None
        plain = self._tested(node)
        if asked is None:
            return plain
        value = self._resolver.over(asked, node)
        if value is None:
            return plain
        if isinstance(value, Unknown):
            return value if isinstance(plain, Unknown) else plain
        return same([self._about(value, node), plain])

    def _about(self, target: ColumnValue, node: _Test) -> BoundExpr:
        """A condition on an expression, bound to the values that an index over it recorded."""
        match node:
            case Compare():
                return self._compared(target, node)
            case In():
                return self._listed(target, node)
            case IsNull():
                return target.is_null()
            case Like():
                return self._matched(target, node)
            case _:
                return unknown(node, "not asked of an index over an expression")

    def _tested(self, node: _Test) -> BoundExpr:
        match node:
            case Compare():
                return self._compare(node)
            case In():
                return self._in(node)
            case IsNull():
                return self._is_null(node)
            case Like():
                return self._like(node)
            case Column():
                return self._compare(Compare(Operator.EQ, node, Literal(True, pa.bool_())))
            case Literal(None | bool() as value):
                return Constant(value)
            case Literal():
                return unknown(node, "it is not a predicate")
            case Call():
                return unknown_function(
                    node, f"the function {shown_function(node.function)} is not known to any index"
                )
            case Opaque(_, text, reason):
                return Unknown(text, reason)
            case _:
                assert_never(node)

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > PREDICATE_NODES:
            raise PredicateError(f"the predicate has more than {PREDICATE_NODES:,} parts: split it")

    def _compare(self, node: Compare) -> BoundExpr:
        if not isinstance(node.left, Column):
            texts = self._semantics.collation == BINARY_COLLATION
            as_predicate = compared_with_truth(node) or compared_coalesce(node, texts=texts)
            if as_predicate is not None:
                return self.predicate(as_predicate)
        subject, constant = node.left, node.right
        if _is_constant(subject) and not _is_constant(constant):
            subject, constant = constant, subject
        if not _is_constant(constant) or not isinstance(constant, Literal | Call):
            self._resolver.require_columns(subject, constant)
            return unknown(node, "it does not compare a column with a constant")
        target = self._resolver.subject(subject, node)
        return target if isinstance(target, Unknown) else self._compared(target, node)

    def _compared(self, target: Subject, node: Compare) -> BoundExpr:
        """A comparison of a subject with a constant on either side."""
        operator, constant = node.operator, node.right
        if not _is_constant(constant):
            operator, constant = operator.mirrored, node.left
        assert isinstance(constant, Literal | Call)
        point = self._point(target, constant, node)
        match point:
            case AlwaysNull():
                return NULL
            case Unknown():
                return point
            case Point():
                return _known(target.compare, node, operator, point)
            case _:
                assert_never(point)

    def _in(self, node: In) -> BoundExpr:
        self._count(len(node.options))
        target = self._resolver.subject(node.operand, node)
        return target if isinstance(target, Unknown) else self._listed(target, node)

    def _listed(self, target: Subject, node: In) -> BoundExpr:
        """A subject in a list of constants."""
        if not node.options and isinstance(target, ColumnValue):
            # No value is in an empty list; whether NULL is depends on the engine and its settings.
            return BoundAnd((NotNullLeaf(target.field, False), unknown(node, "an empty list")))
        options = in_one_type(node.options) if node.options else None
        if options is None:
            return unknown(node, "the values of the list are of different types")
        points = self._points(target, options, node)
        if isinstance(points, Unknown):
            return points
        if self._lists_text(target, options):
            points = [replace(point, exact=False) for point in points]
        if self._semantics.nan_order is NanOrder.UNORDERED and any(point.nan for point in points):
            return unknown(node, "a list with NaN, which equals nothing")
        has_null = any(option.value is None for option in options)
        leaf = _known(target.member, node, points, has_null=has_null)
        if self._semantics.traits.lists_follow_sql:
            return leaf
        return self._in_of_values(leaf, target.field, has_null, node)

    def _in_of_values(self, leaf: BoundExpr, field: Field, has_null: bool, node: In) -> BoundExpr:
        """A list in an engine that may treat NULL as a value: the result for NULL is unknown."""
        if has_null:
            return unknown(node, "a list with NULL, which the engine may compare like a value")
        of_null = any_of([negation(IsNullLeaf(field)), unknown(node, "whether NULL is in a list")])
        return all_of([leaf, of_null])

    def _lists_text(self, target: Subject, options: Sequence[Literal]) -> bool:
        """Tell whether the engine converts the column to text to find it in a list of texts.

        Equal texts mean equal values, but an equal value may have a different text ('1.00').
        """
        texts = any(isinstance(option.value, str) for option in options)
        return texts and self._semantics.traits.writes_columns_as_text_in_lists and not is_string(target.type)

    def _points(self, target: Subject, options: Sequence[Literal], node: In) -> list[Point] | Unknown:
        if _all_plain_integers(target, options):
            return [Point(option.value, option.value) for option in options if isinstance(option.value, int)]
        points: list[Point] = []
        for option in options:
            point = self._point(target, option, node)
            if isinstance(point, Unknown):
                return point
            if isinstance(point, Point):
                points.append(point)
        return points

    def _is_null(self, node: IsNull) -> BoundExpr:
        if isinstance(node.operand, Literal):
            return Constant(node.operand.value is None)
        operand = node.operand
        if isinstance(operand, Call):
            target = self._resolver.subject(operand, node)
            return target if isinstance(target, Unknown) else _known(target.is_null, node)
        if is_predicate(operand):
            if self._semantics.traits.casts_constants_to_null and may_cast_to_null(operand):
                return unknown(node, "a constant may become NULL in a cast")
            return null_test(self.predicate(operand))
        if not isinstance(operand, Column):
            self._resolver.require_columns(operand)
            return unknown(node, "whether an expression is null is not known")
        field = self._resolver.field(operand, node)
        if isinstance(field, Unknown):
            return field
        if pa.types.is_nested(field.type):
            return unknown(node, f"columns of type {field.type} are not supported")
        return IsNullLeaf(field)

    def _like(self, node: Like) -> BoundExpr:
        target = self._resolver.subject(node.operand, node)
        if isinstance(target, Unknown):
            return target
        return self._matched(target, node)

    def _matched(self, target: Subject, node: Like) -> BoundExpr:
        """A text that is matched against a pattern."""
        if not is_string(target.type) or (
            isinstance(target, ColumnValue) and not is_string(target.field.type)
        ):
            return unknown(node, "LIKE on a column that is not text")
        if self._semantics.collation != BINARY_COLLATION:
            return unknown(node, f"text is compared by the collation {self._semantics.collation}")
        pattern = split_pattern(node.pattern, node.escape)
        try:
            prefix = None if pattern is None else pattern.prefix.encode()
        except UnicodeEncodeError:
            prefix = None
        if pattern is None or prefix is None:
            return unknown(node, "engines differ about the pattern")
        if isinstance(target, FunctionValue):
            return self._function_matched(target, pattern, prefix, node)
        if pattern.is_text:
            return CompareLeaf(target.field, Operator.EQ, Point(prefix, prefix))
        if prefix:
            return PrefixLeaf(target.field, prefix, pattern.is_whole)
        if pattern.is_whole:
            return NotNullLeaf(target.field, True)
        return unknown(node, "the pattern starts with a wildcard")

    def _function_matched(
        self, target: FunctionValue, pattern: Pattern, prefix: bytes, node: Like
    ) -> BoundExpr:
        if pattern.is_text:
            return _known(target.compare, node, Operator.EQ, Point(prefix, prefix))
        if not prefix:
            return unknown(node, "the pattern starts with a wildcard")
        begins = _known(target.starts_with, node, prefix)
        return begins if pattern.is_whole else all_of([begins, unknown(node, "the rest of the pattern")])

    def _point(self, target: Subject, constant: Literal | Call, node: Expr) -> Point | AlwaysNull | Unknown:
        moves = isinstance(constant, Call) and is_moving(constant)
        coerce = coerce_moving if moves else coerce_constant
        point = coerce(target.type, constant, self._semantics)
        if isinstance(point, NotComparable):
            if point.mismatch and self._strict and isinstance(target, ColumnValue):
                raise PredicateError(
                    f"column {target.field.name!r} of type {target.field.type_name} cannot be compared with "
                    f"{show(constant)}: {point.reason}"
                )
            return unknown(node, point.reason)
        return point


def _known(
    ask: Callable[_Asked, BoundExpr], node: Expr, *asked: _Asked.args, **more: _Asked.kwargs
) -> BoundExpr:
    """What a condition implies for the column; unknown where it implies nothing."""
    try:
        known = ask(*asked, **more)
    except NotInvertible as reason:
        return unknown_function(node, str(reason))
    if isinstance(known, InLeaf) and any(point.low != point.high for point in known.points):
        return replace(known, text=show(node))
    return known


def _function_in(node: _Test) -> Call | None:
    """The function whose value a condition is about; None where it is about a column."""
    match node:
        case Compare(_, Call() as call, other) if not _is_constant(call):
            return call if _is_constant(other) and isinstance(other, Literal | Call) else None
        case Compare(_, other, Call() as call) if not _is_constant(call):
            return call if _is_constant(other) and isinstance(other, Literal | Call) else None
        case In(Call() as call) | IsNull(Call() as call) | Like(Call() as call):
            return call
        case _:
            return None


def _is_constant(expression: Expr) -> bool:
    if not isinstance(expression, Call):
        return isinstance(expression, Literal)
    match expression:
        case Call("cast" | "try_cast", (Literal(),)):
            return True
        case _:
            return is_moving(expression)


def _all_plain_integers(target: Subject, options: Sequence[Literal]) -> bool:
    """Tell whether the fast path for long lists applies: plain integers against an integer column."""
    return (
        isinstance(target, ColumnValue)
        and target.undo is None
        and pa.types.is_signed_integer(target.type)
        and len({id(option.type) for option in options}) == 1
        and pa.types.is_integer(options[0].type)
    )
