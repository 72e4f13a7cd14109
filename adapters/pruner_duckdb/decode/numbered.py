"""Pushes conditions that DuckDB leaves above a numbering of rows down to the scans below it.

`FROM t, unnest(xs) AS u(x) WHERE id = 5` is a join in which the right side depends on each row of the left one. DuckDB
distinguishes these rows by the values that the right side uses, and if these are lists, by a number that it assigns to
each row. It pushes no condition below a window function, so `id = 5` stays above this one. But the number only
identifies rows: removing the rows for which the condition is not true leaves all others unchanged.

DuckDB 2.0 reads the rows of the left side twice, through a WITH of its own: for the join, and to find the values for
which the right side is needed. A condition on the rows of the join applies to both, since no other row of the right
side finds one to join.

The keys of a join are pushed down in the same way (`join_keys.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from pruner_duckdb.sql.queries import Node, nodes_below

Position: TypeAlias = "int | None"

_NUMBERS = ("limit_rownum", "delim_index")
_COPIED = "__duckdb_delim_"
"""DuckDB's names for the number, by version, and for the numbered rows, where it reads them more than once."""

_LEFT = frozenset(["INNER", "LEFT", "SEMI", "ANTI", "MARK", "SINGLE"])
_RIGHT = frozenset(["INNER", "RIGHT"])
"""Joins in which removing a row of that side only removes the result rows made from it."""


class PlanColumn(NamedTuple):
    """A column of a scan: the table's name in the plan, the column's name, and the name of its type.

    With an `aggregate` (`min` or `max`), it is that aggregate over all rows that the scan needs.
    """

    table: str
    column: str
    data_type: str
    aggregate: str = ""


@dataclass(frozen=True)
class Conditions:
    """Expressions of a filter, and what their references mean further down the plan."""

    expressions: Sequence[Node]
    position: Callable[[int], Position] = field(default=lambda index: index)
    """Maps the number in a reference to the column's position in the current operator; None if that operator does not
    have it.
    """
    join_columns: tuple[int, ...] = ()
    """The numbers of all references if these are a join's keys, which the statement also states elsewhere."""
    unread: frozenset[PlanColumn] = frozenset()
    """The columns of other scans whose values are represented by placeholders in them."""

    def below(self, step: Callable[[int], Position]) -> Conditions:
        """The same for the operator below."""

        def position(index: int) -> Position:
            here = self.position(index)
            return None if here is None else step(here)

        return replace(self, position=position)

    def mentions(self, place: int) -> bool:
        """Tell whether they refer to a column."""
        return any(self.position(index) == place for index in references(list(self.expressions)))

    def is_about_one(self) -> bool:
        """Tell whether the current operator has all columns of a join's condition."""
        return all(self.position(index) is not None for index in self.join_columns)


def references(expression: Node | list[Node]) -> Iterator[int]:
    """Yield the number of each reference in some expressions."""
    for part in nodes_below(expression):
        if part.get("expression_class") in ("BOUND_REF", "BOUND_COLUMN_REF"):
            yield int(part.get("index", -1))


def takes_names(text: str) -> bool:
    """Tell whether a statement may itself use one of the names that identify the numbering."""
    lowered = text.lower()
    return any(name in lowered for name in (*_NUMBERS, _COPIED))


def numbers_rows(node: Node) -> bool:
    """Tell whether an operator gives each row a number that only identifies it.

    Of the windows that DuckDB creates itself, it is the one without partitions: for a LIMIT, it numbers the rows of
    each partition.
    """
    if node.get("type") != "LOGICAL_WINDOW" or len(node["expressions"]) != 1:
        return False
    number: Node = node["expressions"][0]
    return (
        number.get("type") == "WINDOW_ROW_NUMBER"
        and number.get("alias") in _NUMBERS
        and not any(number.get(key) for key in ("children", "partitions", "orders", "filters", "arg_orders"))
    )


class ConditionPushdown:
    """Pushes conditions down to scans: never below an operator where an additional row would change others."""

    def __init__(self, plans: Sequence[Node], width_of_scan: Callable[[Node], int | None]) -> None:
        self._width_of_scan = width_of_scan
        self._joined: dict[int, Node] = {}  # by the identity of the node that reads numbered rows for a join
        for node in operators(plans):
            if _is_of_numbered(node) and (reader := _reader_for_join(node)) is not None:
                self._joined[id(reader)] = node["children"][0]

    def starts_at(self, node: Node) -> bool:
        """Tell whether DuckDB leaves conditions above an operator that may go further down."""
        return numbers_rows(node) or _is_of_numbered(node) or id(node) in self._joined

    def into(self, node: Node, conditions: Conditions) -> Iterator[tuple[Node, Conditions]]:
        """Yield the scans below an operator with the conditions above it: each row that matters meets them."""
        children: list[Node] = node.get("children", [])
        step = step_below(node)
        if step is not None:
            yield from self.into(children[0], conditions.below(step))
            return
        match node["type"]:
            case "LOGICAL_GET":
                yield node, conditions
            case "LOGICAL_UNION":
                for child in children:
                    yield from self.into(child, conditions)
            case "LOGICAL_UNNEST":
                yield from self._side(children[0], conditions, 0, [])
            case "LOGICAL_WINDOW" if numbers_rows(node):
                yield from self._below_number(node, conditions)
            case "LOGICAL_CROSS_PRODUCT":
                yield from self._sides(node, conditions, "INNER")
            case "LOGICAL_COMPARISON_JOIN" | "LOGICAL_DELIM_JOIN":
                yield from self._sides(node, conditions, str(node["join_type"]))
            case "LOGICAL_MATERIALIZED_CTE" if _is_of_numbered(node):
                yield from self.into(children[1], conditions)
            case "LOGICAL_CTE_REF" if id(node) in self._joined:
                yield from self.into(self._joined[id(node)], conditions)
            case _:
                pass

    def _below_number(self, window: Node, conditions: Conditions) -> Iterator[tuple[Node, Conditions]]:
        child: Node = window["children"][0]
        width = self.width(child)
        # A condition on the number itself needs all rows to be counted.
        if width is not None and not conditions.mentions(width):
            yield from self.into(child, conditions.below(lambda index: index if index < width else None))

    def _sides(self, join: Node, conditions: Conditions, kind: str) -> Iterator[tuple[Node, Conditions]]:
        left, right = join["children"]
        kept: list[int] = join.get("left_projection_map") or []
        width = len(kept) or self.width(left)
        if join.get("delim_flipped") or width is None:
            return
        if kind in _LEFT:
            yield from self._side(left, conditions, 0, kept)
        if kind in _RIGHT:
            yield from self._side(right, conditions, width, join.get("right_projection_map") or [])

    def _side(
        self, side: Node, conditions: Conditions, first: int, kept: list[int]
    ) -> Iterator[tuple[Node, Conditions]]:
        """The conditions for a child operator whose columns begin at position `first`: all columns, or those kept."""
        width = len(kept) or self.width(side)
        if width is not None:
            below = chosen(kept)
            yield from self.into(
                side,
                conditions.below(
                    lambda index: below(index - first) if first <= index < first + width else None
                ),
            )

    def width(self, node: Node) -> int | None:
        """How many columns an operator has; None if unknown."""
        children: list[Node] = node.get("children", [])
        match node["type"]:
            case "LOGICAL_GET":
                return self._width_of_scan(node)
            case "LOGICAL_PROJECTION":
                return len(node["expressions"])
            case "LOGICAL_FILTER":
                return len(node["projection_map"]) or self.width(children[0])
            case "LOGICAL_UNNEST" | "LOGICAL_WINDOW":
                below = self.width(children[0])
                return None if below is None else below + len(node["expressions"])
            case "LOGICAL_MATERIALIZED_CTE":
                return self.width(children[1])
            case "LOGICAL_AGGREGATE_AND_GROUP_BY":
                return sum(len(node[key]) for key in ("groups", "expressions", "grouping_functions"))
            case "LOGICAL_DISTINCT" | "LOGICAL_UNION":
                return self.width(children[0])
            case "LOGICAL_CTE_REF":
                return len(node["chunk_types"])
            case "LOGICAL_CROSS_PRODUCT":
                return _sum(self.width(children[0]), self.width(children[1]))
            case "LOGICAL_COMPARISON_JOIN" | "LOGICAL_DELIM_JOIN":
                return self._width_of_join(node)
            case _:
                return None

    def _width_of_join(self, join: Node) -> int | None:
        left, right = (
            len(join[key]) or self.width(child)
            for key, child in zip(
                ("left_projection_map", "right_projection_map"), join["children"], strict=True
            )
        )
        match join["join_type"]:
            case "SEMI" | "ANTI":
                return left
            case "MARK":
                return _sum(left, 1)
            case _:
                return _sum(left, right)


def operators(plans: Sequence[Node]) -> Iterator[Node]:
    """Every operator of some plans. Expressions are not visited: a list of constants has thousands of parts."""
    pending = [*plans]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(node.get("children", ()))


def step_below(node: Node) -> Callable[[int], Position] | None:
    """Map the columns of an operator to those below it, if a condition on its rows can be checked below it as well;
    None for other operators.

    A condition on values that the rows of a group share holds for all of them or for none.
    """
    match node["type"]:
        case "LOGICAL_FILTER":
            return chosen(node["projection_map"])
        case "LOGICAL_PROJECTION":
            return _projected(node["expressions"])
        case "LOGICAL_AGGREGATE_AND_GROUP_BY" if has_groups_in_each_row(node):
            return _projected(node["groups"])
        case "LOGICAL_DISTINCT" if node["distinct_type"] == "DISTINCT":
            return lambda index: index
        case _:
            return None


def has_groups_in_each_row(node: Node) -> bool:
    """Tell whether each row of an aggregation has all of the columns that it groups by, and there is at least one."""
    every = set(range(len(node["groups"])))
    return bool(every) and all(set(one) == every for one in node["grouping_sets"])


def _is_of_numbered(node: Node) -> bool:
    """Tell whether an operator is DuckDB's own WITH of the rows of a left side."""
    return node.get("type") == "LOGICAL_MATERIALIZED_CTE" and str(node["ctename"]).startswith(_COPIED)


def _reader_for_join(with_: Node) -> Node | None:
    """The node that reads the rows of such a WITH for the join; None unless all others are certain to read only their
    distinct values.
    """
    place: Node = with_["children"][1]
    while place["type"] != "LOGICAL_CTE_REF":
        match place["type"]:
            case "LOGICAL_PROJECTION" | "LOGICAL_FILTER" | "LOGICAL_UNNEST":
                place = place["children"][0]
            case "LOGICAL_MATERIALIZED_CTE" if _is_of_numbered(place):
                place = place["children"][1]
            case "LOGICAL_COMPARISON_JOIN" if place["join_type"] in _LEFT and not place.get("delim_flipped"):
                place = place["children"][0]
            case _:
                return None
    others = [node for node in _readers(with_["children"][1], with_["table_index"]) if node is not place]
    return place if place["cte_index"] == with_["table_index"] and not others else None


def _readers(node: Node, index: int) -> Iterator[Node]:
    """Yield the nodes that read a WITH, except for those that only need its distinct values."""
    if node["type"] == "LOGICAL_CTE_REF" and node["cte_index"] == index:
        yield node
    elif node["type"] != "LOGICAL_AGGREGATE_AND_GROUP_BY" or node["expressions"]:
        for child in node.get("children", ()):
            yield from _readers(child, index)


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def chosen(kept: Sequence[int]) -> Callable[[int], Position]:
    """Map positions among the columns that an operator keeps to those of the operator below."""

    def step(index: int) -> Position:
        if not kept:
            return index
        return kept[index] if index < len(kept) else None

    return step


def _projected(expressions: Sequence[Mapping[str, object]]) -> Callable[[int], Position]:
    """Map the columns of a projection to those columns of the operator below that it passes on unchanged."""

    def step(index: int) -> Position:
        if not 0 <= index < len(expressions):
            return None
        expression = expressions[index]
        place = expression.get("index")
        return place if expression.get("expression_class") == "BOUND_REF" and isinstance(place, int) else None

    return step
