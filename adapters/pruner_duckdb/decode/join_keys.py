"""Keys of joins that are known before they run.

DuckDB keeps `FROM t JOIN (VALUES (1), (2)) AS v(x) ON id = x` and `WHERE id IN (SELECT unnest(?))` as joins, and learns
their keys when they run. But the keys are in the plan, and a row of `t` with any other `id` is not in the result:
`id IN (1, 2)` is a condition on the scan like those that DuckDB pushes down.

The keys of another scan are constants, too, once they have been read (`rewrite/small_sides.py`). Until then a
placeholder represents them, and the condition names the scans whose keys it would need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

import pyarrow as pa

from pruner.expr.functions.walls import DAY, shifted
from pruner.expr.nodes import Call, Compare, Expr, In, Literal, Opaque
from pruner.expr.values import Interval
from pruner.expr.walk import nodes_of
from pruner_duckdb.decode.calls import function_name
from pruner_duckdb.decode.numbered import (
    Conditions,
    PlanColumn,
    chosen,
    has_groups_in_each_row,
    operators,
    references,
    step_below,
)
from pruner_duckdb.sql.queries import Node

MOST_KEYS: Final = 16_384
"""Most keys of one join; if there are more, no condition is derived."""

_MOST_SEARCHED: Final = 128
"""Most keys that are compared with a number cast to double: for each it takes half a millisecond to find the numbers
that become it. With more, planning would take longer than it saves.
"""

_LEFT_MATCHES: Final = frozenset(["INNER", "SEMI", "RIGHT"])
_RIGHT_MATCHES: Final = frozenset(["INNER", "SEMI", "ANTI", "LEFT", "SINGLE"])
"""Joins in which a row of that side matters only if it matches one of the other side."""

_SAME: Final = "COMPARE_NOT_DISTINCT_FROM"
_EQUALITIES: Final = frozenset(["COMPARE_EQUAL", _SAME])
_MIRRORED: Final = {
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
    "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO",
}
"""Range comparisons: what is greater than any one of several keys is greater than the least of them."""

_PICKING: Final = {
    **dict.fromkeys(["min", "max", "first", "last", "any_value", "arbitrary", "mode"], 1),
    **dict.fromkeys(["arg_min", "arg_max", "min_by", "max_by"], 2),
}
"""Aggregates that return one of the values of their first operand, with their number of operands."""

_SIGNS: Final = {"+": 1, "-": -1}
_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
_MOST_DAYS: Final = 700_000
"""Days around 1970 that Python's dates can represent, too: the years from 54 on."""

_EXTREMES: Final = frozenset(["min", "max"])

_FIRST_CHILD: Final = frozenset(["LOGICAL_DISTINCT", "LOGICAL_LIMIT", "LOGICAL_EXCEPT", "LOGICAL_INTERSECT"])
"""Operators whose rows are all among those of their first child."""


_INSTANT: Final = "TIMESTAMP WITH TIME ZONE"

_PLACEHOLDERS: Final[Mapping[str, Any]] = {
    "BOOLEAN": False,
    **dict.fromkeys([*_BITS, *(f"U{name}" for name in _BITS), "DATE", "TIMESTAMP", _INSTANT], 0),
    "VARCHAR": "",
}
"""Types of columns whose values can be keys, each with a placeholder value as plans write it."""

_LEFT_MISSES: Final = frozenset(["RIGHT", "OUTER"])
_RIGHT_MISSES: Final = frozenset(["LEFT", "OUTER", "SINGLE"])
"""Joins whose result may have NULLs in the columns of that side."""
_BOTH_SIDES: Final = frozenset(["INNER", "LEFT", "RIGHT", "OUTER", "SINGLE"])
_LEFT_SIDE: Final = frozenset(["SEMI", "ANTI", "MARK"])
"""Joins by the sides whose columns their result has."""


KnownKeys: TypeAlias = Mapping[PlanColumn, Sequence[Any]]
"""All distinct values of columns among the rows that matter, including NULL, as plans write values; None for NULL."""


class JoinKeys:
    """Finds the conditions that joins impose on a side if the keys of the other side are known, or can be read."""

    def __init__(
        self,
        plans: Sequence[Node],
        column_of: Callable[[Node, int], PlanColumn | None],
        width: Callable[[Node], int | None],
        keys: KnownKeys,
    ) -> None:
        """`column_of` returns the column at a position of a scan, `width` how many columns an operator has."""
        self._plans = plans
        self._column_of = column_of
        self._width = width
        self._keys = keys
        self._known: dict[tuple[int, int], list[Node] | None] = {}
        """Values by the identity of an operator and the position of a column."""

    @cached_property
    def _withs(self) -> dict[int, Node]:
        """The queries of WITH by their numbers; most statements have no join that needs them."""
        return {
            node["table_index"]: node["children"][0]
            for node in operators(self._plans)
            if node["type"] == "LOGICAL_MATERIALIZED_CTE"
        }

    def conditions(self, node: Node) -> Iterator[tuple[Node, Conditions]]:
        """Yield each side of a join with a condition that holds for all of its rows that matter."""
        if node["type"] != "LOGICAL_COMPARISON_JOIN":
            return
        left, right = node["children"]
        of_left, of_right = node["join_type"] in _LEFT_MATCHES, _matter_by_match(node)
        for condition in node["conditions"]:
            comparison = str(condition.get("comparison"))
            if comparison not in _EQUALITIES and comparison not in _MIRRORED:
                continue
            if of_left:
                yield from self._of_side(left, condition["left"], right, condition["right"], comparison)
            if of_right:
                mirrored = _MIRRORED.get(comparison, comparison)
                yield from self._of_side(right, condition["right"], left, condition["left"], mirrored)

    def _of_side(
        self, side: Node, compared: Node, other: Node, key: Node, comparison: str
    ) -> Iterator[tuple[Node, Conditions]]:
        values = self._evaluated(key, lambda place: self._values(other, place)) or []
        keys = [value for value in values if not _is_null(value)]
        columns = tuple(references(compared))
        if not keys or not columns or (comparison == _SAME and len(keys) < len(values)):
            return
        if comparison in _EQUALITIES and any(_SLACK in value for value in keys):
            return
        if comparison in _EQUALITIES:
            among = {
                "expression_class": "BOUND_OPERATOR",
                "type": "COMPARE_IN",
                "children": [compared, *keys],
            }
        elif (last := _last(keys, least=comparison.startswith("COMPARE_GREATER"))) is not None:
            among = {
                "expression_class": "BOUND_COMPARISON",
                "type": comparison,
                "left": compared,
                "right": last,
            }
        else:
            return
        unread = frozenset(column for column in map(_unread, keys) if column is not None)
        yield side, Conditions([among], join_columns=columns, unread=unread)

    def _values(self, node: Node, place: int) -> list[Node] | None:
        """A superset of the values that a column of an operator can have; None if they are unknown.

        Each is computed once: a WITH that reads another one twice, and so on, has more paths than operators.
        """
        key = id(node), place
        if key not in self._known:
            self._known[key] = self._values_of(node, place)
        return self._known[key]

    def _values_of(self, node: Node, place: int) -> list[Node] | None:
        children: list[Node] = node.get("children", [])
        match node["type"]:
            case "LOGICAL_EXPRESSION_GET":
                return _constants([row[place] for row in node["expressions"]])
            case "LOGICAL_GET":
                return self._of_scan(node, place)
            case "LOGICAL_COMPARISON_JOIN" | "LOGICAL_CROSS_PRODUCT":
                return self._of_join(node, place)
            case "LOGICAL_PROJECTION":
                return self._of_expressions(node["expressions"], children[0], place)
            case "LOGICAL_AGGREGATE_AND_GROUP_BY":
                return self._of_groups(node, children[0], place)
            case "LOGICAL_FILTER" | "LOGICAL_ORDER_BY":
                kept: list[int] = node["projection_map" if "projection_map" in node else "projections"]
                below = chosen(kept)(place)
                return None if below is None else self._values(children[0], below)
            case "LOGICAL_UNNEST" if children[0]["type"] == "LOGICAL_DUMMY_SCAN":
                # The row of a dummy scan has one column, which nothing refers to.
                return _elements(node["expressions"], place - 1)
            case "LOGICAL_UNION":
                return _joined([self._values(child, place) for child in children])
            case "LOGICAL_CTE_REF" if node["cte_index"] in self._withs:
                return self._values(self._withs[node["cte_index"]], place)
            case kind if kind in _FIRST_CHILD:
                return self._values(children[0], place)
            case _:
                return None

    def _of_scan(self, scan: Node, place: int) -> list[Node] | None:
        column = self._column_of(scan, place)
        return None if column is None else self._of_column(column)

    def _of_column(self, column: PlanColumn) -> list[Node] | None:
        if column.data_type not in _PLACEHOLDERS:
            return None
        data_type = {"id": column.data_type, "type_info": None}
        if column not in self._keys:
            return [{**_constant(data_type, _PLACEHOLDERS[column.data_type]), _UNREAD: column}]
        values = self._keys[column]
        return [_NULL if value is None else _constant(data_type, value) for value in values]

    def _of_join(self, join: Node, place: int) -> list[Node] | None:
        left, right = join["children"]
        kind = str(join.get("join_type", "INNER"))
        kept: list[int] = join.get("left_projection_map") or []
        width = len(kept) or self._width(left)
        if width is None or join.get("delim_flipped") or kind not in _BOTH_SIDES | _LEFT_SIDE:
            return None
        if place < width:
            below, side, misses = chosen(kept)(place), left, kind in _LEFT_MISSES
        elif kind in _BOTH_SIDES:
            kept = join.get("right_projection_map") or []
            below, side, misses = chosen(kept)(place - width), right, kind in _RIGHT_MISSES
        else:
            return None
        values = None if below is None else self._values(side, below)
        return values if values is None or not misses else [*values, _NULL]

    def _of_expressions(self, expressions: Sequence[Node], child: Node, place: int) -> list[Node] | None:
        if not 0 <= place < len(expressions):
            return None
        return self._evaluated(expressions[place], lambda below: self._values(child, below))

    def _of_groups(self, node: Node, child: Node, place: int) -> list[Node] | None:
        number = place - len(node["groups"])
        if 0 <= number < len(node["expressions"]):
            return self._of_aggregate(node, node["expressions"][number], child)
        values = self._of_expressions(node["groups"], child, place)
        if values is None or has_groups_in_each_row(node):
            return values
        return [*values, _NULL]  # NULL of totals, which exist even without rows

    def _of_aggregate(self, node: Node, aggregate: Node, child: Node) -> list[Node] | None:
        """The values of an aggregate that returns one of its input values, or NULL if there is none."""
        operands: list[Node] = aggregate["children"]
        name = function_name(aggregate)
        if len(operands) != _PICKING.get(name):
            return None
        column = None
        if name in _EXTREMES and not node["groups"] and aggregate["filter"] is None:
            column = self._evaluated_column(operands[0], child)
        if column is not None:
            return self._of_column(column._replace(aggregate=name))
        values = self._evaluated(operands[0], lambda below: self._values(child, below))
        return None if values is None else [*values, _NULL]

    def _evaluated_column(self, expression: Node, node: Node) -> PlanColumn | None:
        """The column of a scan to which an expression refers, if there are only conditions between them."""
        place: int | None = expression["index"] if expression["expression_class"] == "BOUND_REF" else None
        while place is not None and node["type"] in ("LOGICAL_FILTER", "LOGICAL_PROJECTION"):
            step = step_below(node)
            place = None if step is None else step(place)
            node = node["children"][0]
        return self._column_of(node, place) if place is not None and node["type"] == "LOGICAL_GET" else None

    def _of_checked(self, case: Node, values: Callable[[int], list[Node] | None]) -> list[Node] | None:
        """The values of a scalar subquery, which fails if it has more than one row. Another CASE may represent a
        function of the session, whose value differs here.
        """
        checks: list[Node] = case["case_checks"]
        if len(checks) != 1 or function_name(checks[0]["then_expr"]) != "error":
            return None
        return self._evaluated(case["else_expr"], values)

    def _of_sum(self, expression: Node, values: Callable[[int], list[Node] | None]) -> list[Node] | None:
        """A column plus or minus a constant: a number of days, an interval, an integer."""
        sign, operands = _SIGNS[function_name(expression)], list(expression["children"])
        if sign > 0 and operands[0]["expression_class"] == "BOUND_CONSTANT":
            operands.reverse()
        if len(operands) != 2 or operands[1]["expression_class"] != "BOUND_CONSTANT":
            return None
        below = self._evaluated(operands[0], values)
        if below is None:
            return None
        sums = [_sum(value, operands[1], sign, expression["return_type"]) for value in below]
        known = [value for value in sums if value is not None]
        return known if len(known) == len(sums) else None

    def _evaluated(self, expression: Node, values: Callable[[int], list[Node] | None]) -> list[Node] | None:
        """An expression evaluated for each value of the column that it refers to: it is that column itself, a cast of
        it, a sum, or the check of a scalar subquery.
        """
        match expression["expression_class"], expression["type"]:
            case "BOUND_CONSTANT", _:
                return _constants([expression])
            case "BOUND_REF", _:
                return values(expression["index"])
            case "BOUND_CASE", _:
                return self._of_checked(expression, values)
            case "BOUND_FUNCTION", _ if function_name(expression) in _SIGNS:
                return self._of_sum(expression, values)
            case "BOUND_FUNCTION", "OPERATOR_CAST":
                below = self._evaluated(expression["children"][0], values)
            case "BOUND_CAST", _:
                below = self._evaluated(expression["child"], values)
            case _:
                below = None
        if below is None or any(_SLACK in value for value in below):
            return None
        return [_cast(expression, value) for value in below]


def is_of_known_keys(expression: Expr) -> bool:
    """Tell whether each key of a decoded condition is a value.

    A value that DuckDB has yet to compute may be NULL, which a comparison may ask for.
    """
    match expression:
        case In(operand, options):
            pass
        case Compare(_, operand, Literal() as option):
            options = (option,)
        case _:
            return False
    nodes = list(nodes_of(operand))
    if any(option.value is None for option in options) or any(isinstance(node, Opaque) for node in nodes):
        return False
    return len(options) <= _MOST_SEARCHED or not any(map(_makes_a_double, nodes))


def _makes_a_double(node: Expr) -> bool:
    return isinstance(node, Call) and node.type is not None and pa.types.is_floating(node.type)


_SLACK: Final = "pruner_slack"
"""The entry in a key that is not known exactly: by how many microseconds at most it may be off."""

_UNREAD: Final = "pruner_unread"
"""The entry in a placeholder: the column whose values it represents."""


def _unread(key: Node) -> PlanColumn | None:
    """The column whose values a key, possibly within casts, represents; None for a constant."""
    while "value" not in key:
        key = key["child"] if "child" in key else key["children"][0]
    return key.get(_UNREAD)


def _constant(data_type: Node, value: Any) -> Node:
    return {
        "expression_class": "BOUND_CONSTANT",
        "type": "VALUE_CONSTANT",
        "value": {"type": data_type, "is_null": False, "value": value},
    }


_NULL: Final[Node] = {
    "expression_class": "BOUND_CONSTANT",
    "type": "VALUE_CONSTANT",
    "value": {"is_null": True},
}


def _is_null(value: Node) -> bool:
    return value["expression_class"] == "BOUND_CONSTANT" and bool(value["value"].get("is_null"))


def _cast(cast: Node, value: Node) -> Node:
    """A cast, as either version of DuckDB writes it, applied to one value of its operand; NULL stays NULL."""
    if _is_null(value):
        return value
    return {**cast, "child": value} if "child" in cast else {**cast, "children": [value]}


def _matter_by_match(join: Node) -> bool:
    """Tell whether a row of the right side matters only if it matches one of the left.

    In a MARK join its mere presence matters, too (`x NOT IN (SELECT …)`), except for EXISTS, which treats NULL as a
    value.
    """
    if join["join_type"] == "MARK":
        return all(condition.get("comparison") == _SAME for condition in join["conditions"])
    return join["join_type"] in _RIGHT_MATCHES


def _sum(value: Node, constant: Node, sign: int, data_type: Node) -> Node | None:
    """One of the keys plus or minus a constant; None if DuckDB's result is not known."""
    if _is_null(value) or _is_null(constant):
        return _NULL
    if "value" not in value:
        return None
    of, by, result = value["value"]["type"]["id"], constant["value"]["type"]["id"], data_type["id"]
    raw, added = value["value"]["value"], constant["value"]["value"]
    match (of in _BITS or of, by in _BITS or by, result):
        case ("DATE", True, "DATE"):
            known = raw + sign * added
            is_known = abs(known) < _MOST_DAYS
        case (True, True, kind) if kind in _BITS:
            known = raw + sign * added
            is_known = -(1 << _BITS[kind] - 1) <= known < 1 << _BITS[kind] - 1
        case ("DATE" | "TIMESTAMP", "INTERVAL", "TIMESTAMP") | (
            "TIMESTAMP WITH TIME ZONE",
            "INTERVAL",
            "TIMESTAMP WITH TIME ZONE",
        ):
            interval = Interval(added["months"], added["days"], added["micros"] * 1000)
            try:
                known = shifted(raw * DAY if of == "DATE" else raw, interval, sign)
            except (ValueError, OverflowError):
                return None
            is_known = abs(known) < _MOST_DAYS * DAY
        case _:
            return None
    if not is_known:
        return None
    moved = {**value, "value": {"type": data_type, "is_null": False, "value": known}}
    if of == _INSTANT and (added["months"] or added["days"]):
        # The session's time zone determines the calendar: there another day may be the last of a month.
        moved[_SLACK] = value.get(_SLACK, 0) + (5 if added["months"] else 2) * DAY
    return moved


def _last(keys: Sequence[Node], *, least: bool) -> Node | None:
    """The least or the greatest value that any of the keys can have; None if their order is not known."""
    if len(keys) == 1 and _SLACK not in keys[0]:
        return keys[0]
    kinds = {str(key["value"]["type"]["id"]) if "value" in key else "" for key in keys}
    if len(kinds) != 1 or not kinds <= _PLACEHOLDERS.keys():
        return None
    last = (min if least else max)(keys, key=lambda key: key["value"]["value"])
    slack = max(key.get(_SLACK, 0) for key in keys)
    if not slack:
        return last
    value: Node = last["value"]
    return {**last, "value": {**value, "value": value["value"] + (-slack if least else slack)}}


def _constants(expressions: Sequence[Node]) -> list[Node] | None:
    if len(expressions) > MOST_KEYS:
        return None
    known = all(each["expression_class"] == "BOUND_CONSTANT" for each in expressions)
    return list(expressions) if known else None


def _elements(unnested: Sequence[Node], number: int) -> list[Node] | None:
    """The elements of a list of constants; NULLs follow if another list is longer."""
    if not 0 <= number < len(unnested) or unnested[number]["expression_class"] != "BOUND_UNNEST":
        return None
    constant: Node = unnested[number]["child"]
    if constant["expression_class"] != "BOUND_CONSTANT" or constant["value"]["type"]["id"] != "LIST":
        return None
    padding = [_NULL] if len(unnested) > 1 else []
    if _is_null(constant):
        return padding
    data_type = constant["value"]["type"]["type_info"]["child_type"]
    values: list[Node] = constant["value"]["value"]["children"]
    return _constants([*({**constant, "value": {**value, "type": data_type}} for value in values), *padding])


def _joined(parts: Sequence[list[Node] | None]) -> list[Node] | None:
    """The values of several operators, each part once: a UNION of a WITH with itself adds none."""
    known = {id(part): part for part in parts if part is not None}
    together = [value for part in known.values() for value in part]
    return together if None not in parts and len(together) <= MOST_KEYS else None
