"""Parts of a statement that metadata may answer: a SELECT over one table that aggregates it or needs its first rows.

Anything written in a form that is not recognized here is no such part, and runs like any other statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pruner_duckdb.read.native import folded
from pruner_duckdb.sql.functions import ROWWISE_FUNCTIONS
from pruner_duckdb.sql.queries import Node, nodes_below
from pruner_duckdb.sql.result_names import without_places
from pruner_duckdb.sql.select import Select, Span, TableReference
from pruner_duckdb.sql.tokens import CLOSING, OPENING, Token, tokens

_BEHIND_FROM = frozenset(
    [
        *("group", "having", "window", "qualify", "order", "limit", "offset", "fetch"),
        *("union", "intersect", "except", "using", "for"),
    ]
)
"""Words that may follow the table, or the condition, of a SELECT."""

_EXPRESSIONS = frozenset(
    [
        *("COLUMN_REF", "CONSTANT", "FUNCTION", "OPERATOR", "CAST", "COMPARISON", "CONJUNCTION"),
        *("BETWEEN", "CASE", "COLLATE", "TYPE"),
    ]
)
"""Classes of expressions that depend only on the row, or the group, for which they are evaluated."""

_COUNT = re.compile(rb"count\s*\(\s*\*\s*\)", re.IGNORECASE)
_EXTREMES = frozenset(["min", "max"])
_AT_EXTREMES = {
    **dict.fromkeys(["arg_max", "argmax", "max_by"], "max"),
    **dict.fromkeys(["arg_min", "argmin", "min_by"], "min"),
}
"""Aggregates that return the value in the row in which another column is least or greatest."""
_OF_TRUTH = {"bool_and": "min", "bool_or": "max"}
"""Aggregates of booleans that return their least or greatest value."""
_RANKS = frozenset(["row_number", "rank", "dense_rank"])
_RANKED = {"COMPARE_LESSTHANOREQUALTO": 0, "COMPARE_LESSTHAN": 1, "COMPARE_EQUAL": 0}
"""Comparisons of a rank with a number that hold only among the first rows, with how many fewer than the number."""
_READS_BY_NAME = frozenset(["TABLE_FUNCTION", "SHOW_REF", "PIVOT"])
"""References that may read tables by names that are not references themselves."""
_PLAIN_STAR = ("replace_list", "rename_list", "columns", "expr", "relation_name")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the rows of the table: its span and its parse tree."""

    span: Span
    node: Node


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """A call of count, min or max: `kind` is count, distinct, min or max; `column` is None for `count(*)`. If it
    returns a column's value in the row of an extreme, `by` is the column that is least or greatest there. With
    `of_truth` it is DuckDB's function of that name, over a boolean column. `only` is the condition of its FILTER.
    """

    kind: str
    column: str | None
    span: Span
    by: str | None = None
    of_truth: str | None = None
    only: Condition | None = None


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Aggregates over all rows of a table or by columns; `aggregates` is empty if only the groups are needed."""

    aggregates: tuple[AggregateCall, ...]
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopN:
    """The first `rows` rows of a table, including those that OFFSET skips, in the order of a column or in any order.

    `descending` and `nulls_first` are None if a setting decides. With columns in `within`, it means the first rows for
    each combination of their values. With `of_values`, it means the rows with the first `rows` values. With `of_any`,
    any rows will do.
    """

    rows: int
    column: str | None = None
    descending: bool | None = None
    nulls_first: bool | None = None
    within: tuple[str, ...] = ()
    of_values: bool = False
    of_any: bool = False


@dataclass(frozen=True, slots=True)
class Extremes:
    """Values in the rows in which a column is least or greatest, over all rows or by columns; some may be that least or
    greatest value itself.
    """

    aggregates: tuple[AggregateCall, ...]
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SelectBlock:
    """A SELECT over one table: `clause` is the table with its condition, `where` only the condition."""

    reference: TableReference
    clause: Span
    where: Span | None
    condition: Node | None
    asks: Aggregation | Extremes | TopN


_WORDS = (b"count", b"min", b"max", b"bool_", b"limit", b"row_number", b"rank", b"distinct", b"exists")

Columns = Mapping[TableReference, Sequence[str]]
"""Names of the columns of tables."""


def may_have_blocks(text: bytes) -> bool:
    """Tell cheaply whether a statement may have such parts."""
    lower = text.lower()
    return any(word in lower for word in _WORDS)


def blocks(
    select: Select, root: Node, columns: Columns, aggregates: frozenset[str], numbers: Mapping[str, object]
) -> Iterator[SelectBlock]:
    """The parts of a statement that metadata may answer.

    Args:
        select: the statement.
        root: its parse tree.
        columns: names of the columns of the tables that may be answered from metadata.
        aggregates: names of aggregate functions.
        numbers: the values of its parameters by identifier.
    """
    by_place = {column.whole.start: column for column in columns if column.whole is not None}
    ranked = dict(_bounded_ranks(root))
    asked = {
        id(node["subquery"]["node"])
        for node in nodes_below(root)
        if node.get("class") == "SUBQUERY" and node.get("subquery_type") == "EXISTS"
    }
    for node in nodes_below(root):
        table = node.get("from_table") if node.get("type") == "SELECT_NODE" else None
        if not table or table.get("type") != "BASE_TABLE":
            continue
        reference = by_place.get(table.get("query_location", -1))
        if reference is not None and not reference.columns and not reference.time_travel:
            reading = _Reading(select, node, reference, columns[reference], aggregates, numbers)
            block = reading.block(ranked.get(id(node), ()), only_whether=id(node) in asked)
            if block is not None:
                yield block


class _Reading:
    """Reads one SELECT."""

    def __init__(
        self,
        select: Select,
        node: Node,
        reference: TableReference,
        columns: Sequence[str],
        aggregates: frozenset[str],
        numbers: Mapping[str, object],
    ) -> None:
        self._text = select.text
        self._node = node
        self._reference = reference
        self._columns = {folded(name): name for name in columns}
        self._aggregates = aggregates
        self._numbers = numbers
        self._items: list[Node] = node["select_list"]
        self._aliases = {folded(item["alias"]): item for item in self._items if item.get("alias")}

    def block(self, bounds: Sequence[Node], *, only_whether: bool) -> SelectBlock | None:
        """The SELECT, if it is such a part; `bounds` are comparisons that a SELECT around it requires of its rows.

        With `only_whether` it only matters whether it has a row.
        """
        node = self._node
        if node.get("sample") or node["from_table"].get("sample"):
            return None
        condition = node.get("where_clause")
        if condition is not None and not self._is_about_rows(condition):
            return None
        spans = self._spans(has_condition=condition is not None)
        if node.get("qualify"):
            asks = self._ranked([node["qualify"]])
        elif only_whether:
            asks = self._any_row()
        else:
            asks = self._aggregation() or self._first_rows() or self._ranked(bounds)
        if spans is None or asks is None:
            return None
        clause, where = spans
        return SelectBlock(self._reference, clause, where, condition, asks)

    def _is_about_rows(self, part: Any) -> bool:
        """Tell whether an expression depends only on columns of the table, one row at a time."""
        for node in nodes_below(part):
            kind = node.get("class")
            if kind == "COLUMN_REF" and self._column(node) is None:
                return False
            if kind == "FUNCTION" and not _is_scalar(node):
                return False
            if kind is not None and kind not in _EXPRESSIONS and kind != "PARAMETER":
                return False
        return True

    def _column(self, node: Node) -> str | None:
        """The column of the table that a name means; None unless it is certain to be one."""
        names: list[str] = node["column_names"]
        if len(names) == 2 and names[0].lower() != self._reference.shown_as.lower():
            return None
        return self._columns.get(folded(names[-1])) if len(names) <= 2 else None

    def _spans(self, *, has_condition: bool) -> tuple[Span, Span | None] | None:
        whole = self._reference.whole
        if whole is None:
            return None
        behind = [token for token in tokens(self._text) if token.start >= whole.stop]
        if not has_condition:
            return None if behind and behind[0].text.lower() == "where" else (whole, None)
        if len(behind) < 2 or behind[0].text.lower() != "where":
            return None
        stop = _end(behind[1:])
        where = Span(behind[1].start, stop)
        return Span(whole.start, stop), where

    def _aggregation(self) -> Aggregation | Extremes | None:
        node = self._node
        if node.get("aggregate_handling") != "STANDARD_HANDLING":
            return None
        sets: list[Any] = node.get("group_sets") or []
        keys: list[Node] = node.get("group_expressions") or []
        if len(sets) > 1:
            return None
        distinct = not keys and _is_distinct(node)
        named = [self._group(key) for key in keys] if keys else self._only_columns() if distinct else []
        if None in named or (distinct and not named):
            return None
        groups = tuple(dict.fromkeys(each for each in named if each is not None))
        calls: dict[tuple[int, int], AggregateCall] = {}
        for part in (self._items, node.get("having"), node.get("modifiers")):
            if not self._take(part, groups, calls):
                return None
        aggregates = tuple(calls.values())
        if distinct and (aggregates or node.get("having")):
            return None
        if not aggregates and not groups:
            return None
        # A group exists even if a FILTER leaves none of its rows.
        if groups and any(
            aggregate.kind == "distinct" or aggregate.only is not None for aggregate in aggregates
        ):
            return None
        if any(aggregate.by is not None for aggregate in aggregates):
            alone = all(aggregate.kind in _EXTREMES and aggregate.only is None for aggregate in aggregates)
            return Extremes(aggregates, groups) if alone else None
        return Aggregation(aggregates, groups)

    def _only_columns(self) -> list[str | None]:
        """The columns in the items: one that all items depend on, or several that are items themselves."""
        named = [node for node in nodes_below(self._items) if node.get("class") == "COLUMN_REF"]
        columns = list(dict.fromkeys(self._column(node) for node in named))
        plain = all(item.get("class") == "COLUMN_REF" for item in self._items)
        return columns if len(columns) == 1 or plain else []

    def _group(self, key: Node) -> str | None:
        """The column by which rows are grouped; None if it is no column."""
        if key.get("class") == "CONSTANT":
            number = _integer(key)
            if number is None or not 1 <= number <= len(self._items):
                return None
            key = self._items[number - 1]
        if key.get("class") != "COLUMN_REF":
            return None
        column = self._column(key)
        if column is None and len(key["column_names"]) == 1:
            item = self._aliases.get(folded(key["column_names"][0]))
            column = self._column(item) if item is not None and item.get("class") == "COLUMN_REF" else None
        return column

    def _take(
        self, part: Any, groups: tuple[str, ...], aggregates: dict[tuple[int, int], AggregateCall]
    ) -> bool:
        """Collect the aggregates of a part; False if something else in it needs rows."""
        if isinstance(part, list):
            return all(self._take(child, groups, aggregates) for child in cast("list[Any]", part))
        if not isinstance(part, dict):
            return True
        node = cast("Node", part)
        kind = node.get("class")
        if kind == "FUNCTION" and _name(node) in self._aggregates:
            aggregate = self._aggregate(node)
            if aggregate is None:
                return False
            aggregates[aggregate.span.start, aggregate.span.stop] = aggregate
            return True
        if kind == "COLUMN_REF" and not self._is_known(node, groups):
            return False
        of_group = kind is None or kind in _EXPRESSIONS or kind == "PARAMETER"
        if not of_group or (kind == "FUNCTION" and not _is_scalar(node)):
            return False
        return all(self._take(child, groups, aggregates) for child in node.values())

    def _is_known(self, node: Node, groups: tuple[str, ...]) -> bool:
        """Tell whether a name outside of aggregates is that of a grouping column, or of an item of the list."""
        column = self._column(node)
        if column is not None:
            return column in groups
        return len(node["column_names"]) == 1 and folded(node["column_names"][0]) in self._aliases

    def _aggregate(self, node: Node) -> AggregateCall | None:
        start, length = node.get("query_location", -1), node.get("query_location_length", 0)
        name, arguments = _name(node), _arguments(node)
        orders: Node = node.get("order_bys") or {}
        modified: Any = orders.get("orders") or node.get("export_state")
        if modified or node.get("schema") or node.get("catalog") or start < 0:
            return None
        distinct = bool(node.get("distinct"))
        only = self._only(node, Span(start, start + length)) if node.get("filter") else None
        if node.get("filter") and only is None:
            return None
        if name == "count_star" and not arguments and not distinct:
            # DuckDB 1.5 does not know its length. `count()` contains nothing after which an alias could be placed.
            written = _COUNT.match(self._text, start)
            stop = start + length if only is not None else 0 if written is None else written.end()
            return None if written is None else AggregateCall("count", None, Span(start, stop), only=only)
        if not length:
            return None
        span = Span(start, start + length)
        if name in _AT_EXTREMES:
            named = [
                self._column(argument) if argument.get("class") == "COLUMN_REF" else None
                for argument in arguments
            ]
            if len(named) != 2 or None in named or distinct:
                return None
            return AggregateCall(_AT_EXTREMES[name], named[0], span, named[1], only=only)
        column = arguments[0] if len(arguments) == 1 else None
        of = self._column(column) if column is not None and column.get("class") == "COLUMN_REF" else None
        if of is None or not self._text[start : span.stop].endswith(b")"):
            return None
        if name == "count":
            return AggregateCall("distinct" if distinct else "count", of, span, only=only)
        if distinct:
            return None
        if name in _OF_TRUTH:
            return AggregateCall(_OF_TRUTH[name], of, span, of_truth=name, only=only)
        return AggregateCall(name, of, span, only=only) if name in _EXTREMES else None

    def _only(self, node: Node, span: Span) -> Condition | None:
        """The condition of the FILTER of a call; None if its position cannot be determined."""
        if span.start == span.stop or not self._is_about_rows(node["filter"]):
            return None
        inside = [token for token in tokens(self._text) if span.start <= token.start < span.stop]
        depth = 0
        for number, token in enumerate(inside):
            sign = token.text.encode()[0] if token.kind == "sign" else 0
            depth += (sign in OPENING) - (sign in CLOSING)
            if depth == 0 and sign in CLOSING:
                behind = inside[number + 1 :]
                break
        else:
            return None
        words = [each.text.lower() for each in behind[:3]]
        first = 3 if words == ["filter", "(", "where"] else 2
        if words[:2] != ["filter", "("] or len(behind) < first + 2 or behind[-1].stop != span.stop:
            return None
        return Condition(Span(behind[first].start, behind[-2].stop), node["filter"])

    def _first_rows(self) -> TopN | None:
        node = self._node
        if node.get("group_expressions") or node.get("having") or node.get("group_sets"):
            return None
        if node.get("aggregate_handling") != "STANDARD_HANDLING" or not self._shows_rows():
            return None
        order, limit = _order_and_limit(node)
        if limit is None or limit.get("limit_type", "ROW_COUNT") != "ROW_COUNT":
            return None
        rows, skipped = (self._number(limit.get(key)) for key in ("limit", "offset"))
        rows = None if limit.get("limit") is None else rows
        if rows is None or skipped is None or rows < 1:
            return None
        if order is None:
            return TopN(rows + skipped)
        return self._ordered(order["orders"], rows + skipped)

    def _any_row(self) -> TopN | None:
        """Any one row, if the query only asks whether there are rows."""
        node = self._node
        if node.get("group_expressions") or node.get("having") or node.get("group_sets"):
            return None
        plain = node.get("aggregate_handling") == "STANDARD_HANDLING" and not node.get("modifiers")
        return TopN(1, of_any=True) if plain and self._shows_rows() else None

    def _ranked(self, bounds: Sequence[Node]) -> TopN | None:
        """The first rows by row_number, rank or dense_rank, if one of `bounds` compares that with a number."""
        node = self._node
        if node.get("group_expressions") or node.get("having") or node.get("group_sets"):
            return None
        if node.get("aggregate_handling") != "STANDARD_HANDLING":
            return None
        for bound in bounds:
            window, number = self._window(bound["left"]), self._number(bound["right"])
            if window is None or number is None or str(bound.get("type")) not in _RANKED:
                continue
            rows = number - _RANKED[str(bound["type"])]
            if rows >= 1 and self._shows_rows(window) and self._is_ordered_by_row(node.get("modifiers")):
                return self._first_of(window, rows)
        return None

    def _window(self, compared: Node) -> Node | None:
        """The call of a ranking function that is compared, directly or by its alias."""
        if compared.get("class") == "COLUMN_REF":
            names: list[str] = compared["column_names"]
            named = [item for item in self._items if folded(item.get("alias") or "") == folded(names[-1])]
            if len(named) != 1 or folded(names[-1]) in self._columns:
                return None
            compared = named[0]
        if compared.get("class") != "WINDOW" or str(compared.get("function_name")).lower() not in _RANKS:
            return None
        ends = compared.get("start"), compared.get("end"), compared.get("exclude_clause", "NO_OTHER")
        framed = ends != ("UNBOUNDED_PRECEDING", "CURRENT_ROW_RANGE", "NO_OTHER")
        keys = ("filter_expr", "arg_orders", "distinct", "ignore_nulls", "schema", "catalog")
        return None if framed or any(compared.get(key) for key in keys) or _arguments(compared) else compared

    def _first_of(self, window: Node, rows: int) -> TopN | None:
        """The first rows of a window. Its names mean columns; none of them may also be the alias of an item."""
        partitions: list[Node] = window.get("partitions") or []
        parts: list[Node] = [*(order["expression"] for order in window["orders"]), *partitions]
        named = (node for node in nodes_below(parts) if node.get("class") == "COLUMN_REF")
        if any(folded(node["column_names"][-1]) in self._aliases for node in named):
            return None
        if not window["orders"] or parts[0].get("class") != "COLUMN_REF" or not self._is_about_rows(parts):
            return None
        first_rows = self._ordered(window["orders"], rows)
        if first_rows is None:
            return None
        columns = [
            self._column(partition) if partition.get("class") == "COLUMN_REF" else None
            for partition in partitions
        ]
        within = tuple(dict.fromkeys(column for column in columns if column is not None))
        of_values = str(window["function_name"]).lower() == "dense_rank"
        if None in columns or (of_values and within):
            return None
        return replace(first_rows, within=within, of_values=of_values)

    def _shows_rows(self, window: Node | None = None) -> bool:
        """Tell whether each row of the table that meets the condition is one row of the result.

        A `window` that is an item itself has the same values in the first rows whatever rows follow them.
        """
        wanted = None if window is None else _as_written(window)
        for item in self._items:
            if wanted is not None and _as_written(item) == wanted:
                continue
            if item.get("class") == "STAR":
                if any(item.get(key) for key in _PLAIN_STAR):
                    return False
            elif not self._is_about_rows(item):
                return False
        return True

    def _number(self, node: Node | None) -> int | None:
        if node is None:
            return 0
        if node.get("class") == "PARAMETER":
            value = self._numbers.get(str(node.get("identifier")))
            return value if type(value) is int and value >= 0 else None
        return _integer(node)

    def _ordered(self, orders: list[Node], rows: int) -> TopN | None:
        if not orders:
            return TopN(rows)
        if any(not self._is_ordered_by_row(order["expression"]) for order in orders):
            return None
        first = orders[0]
        column = self._order_column(first["expression"])
        if column is None:
            return None
        descending = {"ASCENDING": False, "DESCENDING": True}.get(str(first["type"]))
        nulls_first = {"NULLS FIRST": True, "NULLS LAST": False}.get(str(first["null_order"]))
        return TopN(rows, column, descending, nulls_first)

    def _is_ordered_by_row(self, expression: Any) -> bool:
        return all(
            node.get("class") is None
            or (node["class"] in _EXPRESSIONS and (node["class"] != "FUNCTION" or _is_scalar(node)))
            for node in nodes_below(expression)
        )

    def _order_column(self, expression: Node) -> str | None:
        """The column by which rows are ordered; an alias of an item takes precedence over a column's name."""
        if expression.get("class") == "CONSTANT":
            number = _integer(expression)
            starless = not any(item.get("class") == "STAR" for item in self._items)
            if number is None or not starless or not 1 <= number <= len(self._items):
                return None
            expression = self._items[number - 1]
        elif expression.get("class") == "COLUMN_REF" and len(expression["column_names"]) == 1:
            expression = self._aliases.get(folded(expression["column_names"][0]), expression)
        return self._column(expression) if expression.get("class") == "COLUMN_REF" else None


def _bounded_ranks(root: Node) -> Iterator[tuple[int, list[Node]]]:
    """SELECTs in parentheses, or in a WITH, by their ids, with the comparisons that the only SELECT from each requires
    of its rows.

    There may be nothing else between them: the rows of one are those of the other.
    """
    named = _used_once(root)
    for node in nodes_below(root):
        table = node.get("from_table") if node.get("type") == "SELECT_NODE" else None
        if not table or table.get("sample") or table.get("column_name_alias"):
            continue
        inner: Node | None = None
        if table.get("type") == "SUBQUERY":
            inner = table["subquery"]["node"]
        elif table.get("type") == "BASE_TABLE":
            inner = named.get(id(table))
        if inner is None or inner.get("type") != "SELECT_NODE":
            continue
        condition: Node | None = node.get("where_clause")
        if inner.get("modifiers") or inner.get("qualify") or condition is None:
            continue
        demanded: list[Node] = (
            condition["children"] if condition["type"] == "CONJUNCTION_AND" else [condition]
        )
        alias = table["alias"] or table.get("table_name", "")
        bounds = [node for node in demanded if node.get("class") == "COMPARISON" and _names(node, alias)]
        if bounds:
            yield id(inner), bounds


def _used_once(root: Node) -> dict[int, Node]:
    """The queries of WITH whose names occur once in a statement, by the id of the node where they occur.

    Table functions can read by names that do not occur in the text, so a statement with one has no such queries. So can
    macros of the session, but a statement with those is not planned, and never gets here.
    """
    queries: list[tuple[str, Node]] = []
    tables: list[tuple[str, Node]] = []
    for node in nodes_below(root):
        if str(node.get("type")) in _READS_BY_NAME:
            return {}
        if node.get("type") == "BASE_TABLE":
            tables.append((folded(node["table_name"]), node))
        named: Node = node.get("cte_map") or {}
        entries: list[Node] = named.get("map") or []
        queries += [(folded(entry["key"]), entry["value"]) for entry in entries]
    scanned: dict[int, Node] = {}
    for name, value in queries:
        places = [node for table, node in tables if table == name]
        if len(places) > 1 or [query for query, _ in queries].count(name) > 1:
            continue
        wrapped: Node = value.get("query") or {}
        query: Node | None = value.get("query_node") or wrapped.get("node")
        if query is None or value.get("aliases") or value.get("key_targets"):
            continue
        scanned.update({id(place): query for place in places if not place.get("schema_name")})
    return scanned


def _names(bound: Node, alias: str) -> bool:
    """Tell whether a comparison is about a column of the SELECT in parentheses that has this alias."""
    left: Node = bound["left"]
    if left.get("class") != "COLUMN_REF":
        return False
    names: list[str] = left["column_names"]
    return len(names) == 1 or (len(names) == 2 and bool(alias) and folded(names[0]) == folded(alias))


def _as_written(node: Node) -> Node:
    """An expression without its position and its alias."""
    return {**without_places(node), "alias": ""}


def _end(behind: Sequence[Token]) -> int:
    """Where the condition that begins with the first of the tokens ends."""
    depth, last = 0, behind[0].start
    for token in behind:
        sign = token.text.encode()[0] if token.kind == "sign" else 0
        depth += (sign in OPENING) - (sign in CLOSING)
        if depth < 0 or (depth == 0 and (token.text == ";" or token.text.lower() in _BEHIND_FROM)):
            return last
        last = token.stop
    return last


def _order_and_limit(node: Node) -> tuple[Node | None, Node | None]:
    """The order of a SELECT's rows, and the limit applied after it; no limit if there are other modifiers.

    With parentheses, rows can be limited first and then ordered: `(FROM t LIMIT 5) ORDER BY x`.
    """
    modifiers: list[Node] = node.get("modifiers") or []
    kinds = [str(modifier["type"]) for modifier in modifiers]
    if kinds == ["LIMIT_MODIFIER"]:
        return None, modifiers[0]
    if kinds == ["ORDER_MODIFIER", "LIMIT_MODIFIER"]:
        return modifiers[0], modifiers[1]
    return None, None


def _is_distinct(node: Node) -> bool:
    """Tell whether a SELECT returns distinct rows, comparing all of its items."""
    found: list[Node] = node.get("modifiers") or []
    return any(node["type"] == "DISTINCT_MODIFIER" and not node.get("distinct_on_targets") for node in found)


def _is_scalar(node: Node) -> bool:
    """Tell whether a call is of a scalar function of DuckDB's own.

    Any other can be an aggregate or produce rows, whatever its name: macros can, including those built into DuckDB.
    """
    return not node.get("schema") and not node.get("catalog") and _name(node) in ROWWISE_FUNCTIONS


def _name(node: Node) -> str:
    return str(node.get("function_name", "")).lower()


def _arguments(node: Node) -> list[Node]:
    """The arguments of a call, whichever version of DuckDB wrote it."""
    if "arguments" in node:
        return [argument["expression"] for argument in node["arguments"]]
    return node.get("children") or []


def _integer(node: Node) -> int | None:
    """The value of a non-negative integer literal; None for anything else."""
    literal = node.get("literal")
    if literal is not None:
        text = str(literal.get("text"))
        return int(text) if literal.get("kind") == "INTEGER" and text.isdecimal() else None
    held: Node = node.get("value") or {}
    value = held.get("value")
    return value if type(value) is int and value >= 0 else None
