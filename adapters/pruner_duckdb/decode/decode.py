"""Converts the bound expressions and table filters of DuckDB's plan JSON to the common expression form.

Whatever is not known to have an exact equivalent in `pruner.expr` becomes `Opaque`: nothing is guessed and nothing
inside an OR or a NOT is left out. DuckDB 2.0 writes comparisons, casts and LIKE as functions; 1.5 has dedicated node
classes for some of them, and the tables below cover both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import pyarrow as pa

from pruner.expr.build import any_of, predicate
from pruner.expr.exact.patterns import literal_pattern
from pruner.expr.nodes import (
    TRUE,
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
    conjunction,
)
from pruner.expr.truth import chosen, is_false, is_predicate, is_true, same_truth
from pruner_duckdb.decode import calls
from pruner_duckdb.decode.calls import UndecodablePart, cast_literal, constant, function_name, summary
from pruner_duckdb.sql.functions import ALLOWED_FUNCTIONS
from pruner_duckdb.sql.queries import Node, nodes_below
from pruner_duckdb.types import arrow_type

ColumnOf: TypeAlias = Callable[[Node], "Column | None"]
"""Resolves a BOUND_REF to the column of the scanned table; None if it is none."""

_COMPARISONS = {
    "COMPARE_EQUAL": Operator.EQ,
    "COMPARE_NOTEQUAL": Operator.NE,
    "COMPARE_LESSTHAN": Operator.LT,
    "COMPARE_LESSTHANOREQUALTO": Operator.LE,
    "COMPARE_GREATERTHAN": Operator.GT,
    "COMPARE_GREATERTHANOREQUALTO": Operator.GE,
}
_BETWEEN = ("input", "lower", "upper")
_MOST_CASES = 6
"""Most branches of a CASE: each repeats its condition."""

_DISTINCT = {"COMPARE_DISTINCT_FROM": True, "COMPARE_NOT_DISTINCT_FROM": False}


def decode_expression(node: Node, column_of: ColumnOf) -> Expr:
    """Decode one bound expression.

    Args:
        node: an expression of the plan JSON.
        column_of: maps a reference to a column of the scanned table.

    Returns:
        The same predicate or value; every part that is not understood is an `Opaque`.
    """
    return predicate(_Decoder(column_of).decode(node))


def decode_value(node: Node, column_of: ColumnOf) -> Expr:
    """Decode one bound expression that is compared with others, as a value."""
    return _Decoder(column_of).decode(node)


def decode_table_filter(node: Node, column: Column) -> Expr:
    """Decode one entry of a scan's `table_filters`, which applies to `column`.

    Optional and dynamic filters are hints that follow from the rest of the predicate: they add no condition.
    """
    return _Decoder(lambda _: column).table_filter(node, column)


class _Decoder:
    def __init__(self, column_of: ColumnOf) -> None:
        self._column_of = column_of

    def decode(self, node: Node) -> Expr:
        try:
            return self._understand(node)
        except UndecodablePart as reason:
            return Opaque(self._columns(node), summary(node), str(reason))

    def _understand(self, node: Node) -> Expr:
        kind = str(node.get("type"))
        match node.get("expression_class"):
            case "BOUND_CONSTANT":
                return constant(node["value"])
            case "BOUND_REF" | "BOUND_COLUMN_REF":
                return self._reference(node)
            case "BOUND_CONJUNCTION":
                return self._junction(kind, _flattened(node))
            case "BOUND_OPERATOR":
                return self._operator(kind, node)
            case "BOUND_BETWEEN":
                return self._between([node[part] for part in _BETWEEN], node)
            case "BOUND_COMPARISON":
                return self._comparison(kind, [node["left"], node["right"]])
            case "BOUND_CAST":
                return self._cast(node, node["child"], bool(node.get("try_cast")))
            case "BOUND_FUNCTION":
                return self._function(kind, node)
            case "BOUND_CASE":
                return self._case(node)
            case other:
                raise UndecodablePart(f"{other} is not understood")

    def _reference(self, node: Node) -> Expr:
        column = self._column_of(node)
        if column is None:
            raise UndecodablePart("not a column of the table")
        return column

    def _junction(self, kind: str, children: Sequence[Node]) -> Expr:
        operands = tuple(predicate(self.decode(child)) for child in children)
        match kind:
            case "CONJUNCTION_AND":
                return conjunction(operands)
            case "CONJUNCTION_OR":
                return any_of(operands)
            case _:
                raise UndecodablePart(f"{kind} is not understood")

    def _operator(self, kind: str, node: Node) -> Expr:
        children: list[Node] = node["children"]
        match kind:
            case "OPERATOR_NOT":
                return Not(predicate(self.decode(children[0])))
            case "OPERATOR_IS_NULL":
                return IsNull(self.decode(children[0]))
            case "OPERATOR_IS_NOT_NULL":
                return Not(IsNull(self.decode(children[0])))
            case "COMPARE_IN":
                return self._in(children)
            case "COMPARE_NOT_IN":
                return Not(self._in(children))
            case "OPERATOR_COALESCE":
                return calls.coalesced(tuple(self.decode(child) for child in children), _result_type(node))
            case _:
                raise UndecodablePart(f"{kind} is not understood")

    def _case(self, node: Node) -> Expr:
        """A moment that the shadow does not know, a boolean CASE as logic, or a CASE of other values."""
        moment = calls.moment(node)
        if moment is not None:
            return moment
        checks: list[Node] = node["case_checks"]
        if len(checks) > _MOST_CASES:
            raise UndecodablePart(f"a CASE of more than {_MOST_CASES} branches")
        if _result_type(node) != pa.bool_():
            pairs = [
                (predicate(self.decode(check["when_expr"])), self.decode(check["then_expr"]))
                for check in checks
            ]
            return calls.choice(pairs, self.decode(node["else_expr"]), _result_type(node))
        result = predicate(self.decode(node["else_expr"]))
        for check in reversed(checks):
            condition = predicate(self.decode(check["when_expr"]))
            result = chosen(condition, predicate(self.decode(check["then_expr"])), result)
        return result

    def _rows(self, operator: Operator, children: Sequence[Node]) -> Expr | None:
        """A comparison of rows with one of constants; None for any other."""
        left, right = children[0], children[1]
        values = calls.row_values(right)
        if values is None and calls.row_values(left) is not None:
            return self._rows(operator.mirrored, [right, left])
        columns = None if values is None else calls.row_parts(left)
        if values is None or columns is None:
            return None
        parts = [self._cast(to, child, lenient=False) if to else self.decode(child) for child, to in columns]
        return calls.row_comparison(operator, parts, values, summary(left))

    def _in(self, children: Sequence[Node]) -> Expr:
        rows = [self._rows(Operator.EQ, [children[0], option]) for option in children[1:]]
        if rows and all(row is not None for row in rows):
            return any_of(tuple(row for row in rows if row is not None))
        operand = self.decode(children[0])
        options = [self.decode(child) for child in children[1:]]
        literals = tuple(option for option in options if isinstance(option, Literal))
        if len(literals) < len(options):
            return any_of(tuple(Compare(Operator.EQ, operand, option) for option in options))
        return In(operand, literals)

    def _between(self, parts: Sequence[Node], ends: Node) -> Expr:
        operand, low, high = (self.decode(part) for part in parts)
        lower = Operator.GE if ends["lower_inclusive"] else Operator.GT
        upper = Operator.LE if ends["upper_inclusive"] else Operator.LT
        return conjunction((Compare(lower, operand, low), Compare(upper, operand, high)))

    def _comparison(self, kind: str, children: Sequence[Node]) -> Expr:
        if len(children) != 2:
            raise UndecodablePart(f"{kind} of {len(children)} operands is not understood")
        rows = self._rows(_COMPARISONS[kind], children) if kind in _COMPARISONS else None
        if rows is not None:
            return rows
        left, right = self.decode(children[0]), self.decode(children[1])
        if kind in _COMPARISONS:
            return Compare(_COMPARISONS[kind], left, right)
        if kind in _DISTINCT:
            return distinct(left, right, negated=not _DISTINCT[kind])
        raise UndecodablePart(f"{kind} is not understood")

    def _cast(self, node: Node, operand: Node, lenient: bool) -> Expr:
        target = _result_type(node)
        if target is None:
            raise UndecodablePart(f"a cast to {node.get('return_type', {}).get('id')} is not understood")
        value = self.decode(operand)
        folded = cast_literal(value, target) if isinstance(value, Literal) else None
        if folded is not None:
            return folded
        return Call("try_cast" if lenient else "cast", (value,), target)

    def _function(self, kind: str, node: Node) -> Expr:
        children: list[Node] = node["children"]
        if kind in _COMPARISONS or kind in _DISTINCT:
            return self._comparison(kind, children)
        if kind in ("COMPARE_BETWEEN", "OPERATOR_CAST"):
            data: Node = node["function_data"]
            if kind == "COMPARE_BETWEEN":
                return self._between(children, data)
            return self._cast(node, children[0], bool(data["try_cast"]))
        return self._named(function_name(node), node, children)

    def _named(self, name: str, node: Node, children: list[Node]) -> Expr:
        match name:
            case "struct_extract":
                return self._struct_field(children)
            case "array_extract" if children[0]["return_type"].get("id") == "STRUCT":
                return self._struct_field(children)
            case "regexp_matches" | "regexp_full_match" if len(children) == 2:
                pattern = _text(self.decode(children[1]))
                return calls.beginning(
                    self._string_operand(children[0]),
                    pattern,
                    anchored=name == "regexp_full_match",
                    shown=summary(node),
                )
            case "~~" | "!~~" | "like_escape" | "not_like_escape":
                return self._like(name, children)
            case "~~*":
                return self._ilike(node, children)
            case "list_contains" | "list_has" | "array_contains" | "array_has":
                return calls.contained([self.decode(child) for child in children[1:]], children[0])
            case "prefix" | "starts_with" | "^@":
                return self._affix(children, lambda text: f"{text}%")
            case "suffix" | "ends_with":
                return self._affix(children, lambda text: f"%{text}")
            case "contains" if calls.is_list(children[0]):  # DuckDB 1.5's form of `x IN list`
                return calls.contained([self.decode(child) for child in children[1:]], children[0])
            case "contains":
                return self._affix(children, lambda text: f"%{text}%")
            case _ if name in ALLOWED_FUNCTIONS:
                return calls.function(
                    name, tuple(self.decode(child) for child in children), _result_type(node)
                )
            case _:
                raise UndecodablePart(f"function {name} is not understood")

    def _struct_field(self, children: Sequence[Node]) -> Expr:
        parent, name = self.decode(children[0]), self.decode(children[1])
        if not isinstance(parent, Column) or not isinstance(name, Literal) or not isinstance(name.value, str):
            raise UndecodablePart("a struct field that is not named by a constant")
        return Column((*parent.path, name.value))

    def _like(self, name: str, children: Sequence[Node]) -> Expr:
        texts = [_text(self.decode(child)) for child in children[1:]]
        # DuckDB's plain LIKE has no escape; an empty one also means none.
        escape = texts[1] if len(texts) > 1 and texts[1] else None
        matched = Like(self._string_operand(children[0]), texts[0], escape)
        return Not(matched) if name in ("!~~", "not_like_escape") else matched

    def _ilike(self, node: Node, children: Sequence[Node]) -> Expr:
        """ILIKE with the range of its prefix, which DuckDB 2.0 also pushes down and 1.5 does not."""
        operands = tuple(self.decode(child) for child in children)
        matched = Call("~~*", operands, _result_type(node))
        return conjunction((*calls.prefix_range(operands), matched))

    def _affix(self, children: Sequence[Node], pattern: Callable[[str], str]) -> Expr:
        """prefix(), suffix() and contains(), which take their text literally."""
        if len(children) != 2:
            raise UndecodablePart("an affix test of another shape")
        text = _text(self.decode(children[1]))
        escaped, escape = literal_pattern(text)
        return Like(self._string_operand(children[0]), pattern(escaped), escape)

    def _string_operand(self, node: Node) -> Expr:
        # `contains` and others also take lists and blobs.
        if node.get("expression_class") != "BOUND_REF" and _result_type(node) != pa.string():
            raise UndecodablePart("a LIKE over something that is not a string")
        if node.get("expression_class") == "BOUND_REF" and node["return_type"].get("id") != "VARCHAR":
            raise UndecodablePart("a LIKE over something that is not a string")
        return self.decode(node)

    def _columns(self, node: Node) -> tuple[Column, ...]:
        """The columns below a node that was not understood, for reports."""
        references = (
            self._column_of(below)
            for below in nodes_below(node)
            if below.get("expression_class") in ("BOUND_REF", "BOUND_COLUMN_REF")
        )
        return tuple(dict.fromkeys(column for column in references if column is not None))

    def table_filter(self, node: Node, column: Column) -> Expr:
        kind = str(node.get("filter_type")).removeprefix("LEGACY_")
        try:
            return self._understand_filter(kind, node, column)
        except UndecodablePart as reason:
            return Opaque((column,), f"{kind} on {column}", str(reason))

    def _understand_filter(self, kind: str, node: Node, column: Column) -> Expr:
        match kind:
            case "CONSTANT_COMPARISON":
                operator = _COMPARISONS.get(node["comparison_type"])
                if operator is None:
                    raise UndecodablePart(f"{node['comparison_type']} is not understood")
                return Compare(operator, column, constant(node["constant"]))
            case "IS_NULL":
                return IsNull(column)
            case "IS_NOT_NULL":
                return Not(IsNull(column))
            case "CONJUNCTION_AND":
                return all_of(self.table_filter(child, column) for child in node["child_filters"])
            case "CONJUNCTION_OR":
                return any_of(tuple(self.table_filter(child, column) for child in node["child_filters"]))
            case "IN_FILTER":
                return In(column, tuple(constant(value) for value in node["values"]))
            case "STRUCT_EXTRACT":
                return self.table_filter(node["child_filter"], Column((*column.path, node["child_name"])))
            case "EXPRESSION_FILTER":
                if len(column.path) > 1:
                    raise UndecodablePart("an expression over a struct's field")
                # The expression's only reference is the filter's own column.
                return decode_expression(node["expr"], lambda _: column)
            case "OPTIONAL_FILTER" | "DYNAMIC_FILTER" | "BLOOM_FILTER":
                # Only AND and OR are above a table filter, so TRUE claims nothing.
                return TRUE
            case _:
                raise UndecodablePart(f"filter {kind} is not understood")


def all_of(operands: Iterable[Expr]) -> Expr:
    """AND of any number of operands, without those that are TRUE."""
    return conjunction(tuple(operand for operand in operands if operand != TRUE))


def distinct(left: Expr, right: Expr, *, negated: bool) -> Expr:
    """`left IS [NOT] DISTINCT FROM right`, which is never NULL itself; `negated` stands for the NOT."""
    match left, right:
        case _ if is_predicate(left) and is_predicate(right):
            same: Expr = same_truth(left, right)
        case (_, Literal(bool() as value)) if is_predicate(left):
            same = is_true(left) if value else is_false(left)
        case (Literal(bool() as value), _) if is_predicate(right):
            same = is_true(right) if value else is_false(right)
        case (_, Literal(None)):
            same = IsNull(left)
        case (Literal(None), _):
            same = IsNull(right)
        case (_, Literal()):
            same = conjunction((Compare(Operator.EQ, left, right), Not(IsNull(left))))
        case (Literal(), _):
            same = conjunction((Compare(Operator.EQ, left, right), Not(IsNull(right))))
        case _:
            raise UndecodablePart("IS DISTINCT FROM between two columns")
    return same if negated else Not(same)


def _flattened(junction: Node) -> list[Node]:
    """Operands of a conjunction or disjunction in order, including those of nested ones of the same kind: DuckDB 1.5
    nests them in pairs, as deep as there are operands.
    """
    flat: list[Node] = []
    pending: list[Node] = [junction]
    while pending:
        node = pending.pop()
        if node.get("expression_class") == "BOUND_CONJUNCTION" and node.get("type") == junction.get("type"):
            pending.extend(reversed(node["children"]))
        else:
            flat.append(node)
    return flat


def _text(expression: Expr) -> str:
    if not isinstance(expression, Literal) or not isinstance(expression.value, str):
        raise UndecodablePart("a pattern that is not a constant")
    return expression.value


def _result_type(node: Node) -> pa.DataType | None:
    return arrow_type(node["return_type"]) if isinstance(node.get("return_type"), dict) else None
