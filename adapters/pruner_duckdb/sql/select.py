"""A SELECT parsed far enough to replace its tables, functions and parameters by other text.

DuckDB's own parser reports the positions (`json_serialize_sql`, offsets in bytes). Names of CTEs are distinguished from
names of tables by the scoping that DuckDB applies: a CTE sees those before it, and itself only if it is truly
recursive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from pruner_duckdb.sql.extents import add_lengths, has_lengths
from pruner_duckdb.sql.functions import SESSION_VALUES
from pruner_duckdb.sql.literals import AnyOfList, take_any_lists
from pruner_duckdb.sql.queries import (
    NO_LOCATION,
    READ,
    Node,
    is_of_any_row,
    names_of_lambda,
    nodes_below,
    path_of_call,
    scope_of_child,
    shows_table,
    tables_in_scope,
)

# How a statement spells the name of a table.

_IDENTIFIER = r'(?:"(?:[^"]|"")*"|[^\s."(),;]+)'
_GAP = r"(?:\s|/\*.*?\*/|--[^\n]*\n)*"
_ALIAS_IN_FRONT = rf'(?:"(?:[^"]|"")*"|[^\s."(),;:]+){_GAP}:{_GAP}'


def where_spelled(text: str, path: Sequence[str]) -> tuple[int, int] | None:
    """The position of a table's name in a reference to it, possibly after an alias, in bytes.

    Args:
        text: the reference, from its beginning on.
        path: the parts of the name.

    Returns:
        None unless the text spells exactly this name.
    """
    further = rf"{_GAP}\.{_GAP}{_IDENTIFIER}" * (len(path) - 1)
    pattern = rf"({_ALIAS_IN_FRONT})?({_IDENTIFIER}{further})"
    match = re.match(pattern, text, re.DOTALL)
    if match is None or _unquoted(match.group(2)) != [part.lower() for part in path]:
        return None
    start = len(text[: match.start(2)].encode())
    return start, start + len(match.group(2).encode())


def _unquoted(name: str) -> list[str]:
    bare = re.sub(_GAP, "", name, flags=re.DOTALL) if '"' not in name else name
    parts = re.findall(_IDENTIFIER, bare)
    return [part[1:-1].replace('""', '"').lower() if part.startswith('"') else part.lower() for part in parts]


_Part: TypeAlias = "tuple[Any, frozenset[str], bool, Node | None]"


class NotSelect(Exception):  # noqa: N818 - never reaches a user
    """The text is not one SELECT statement; `syntax` means that it is no statement at all."""

    def __init__(self, message: str, *, syntax: bool) -> None:
        super().__init__(message)
        self.syntax = syntax


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the text, in bytes."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class TableReference:
    """A table, view or table function where a statement reads it.

    `path` is the name as written, in parts. `name` is the span of the name alone, `whole` that of the reference with
    its alias; both are None where the parser kept no location. `alias` is None if the reference has none.
    """

    path: tuple[str, ...]
    name: Span | None
    whole: Span | None
    alias: str | None
    function: bool = False
    time_travel: bool = False
    columns: tuple[str, ...] = ()
    """Names given to its first columns."""

    def shown(self, columns: Iterable[tuple[str, str]]) -> frozenset[str]:
        """Names of its columns in lower case, as far as the table's own columns are known."""
        own = [name for name, _ in columns]
        return frozenset(name.lower() for name in (*self.columns, *own[len(self.columns) :]))

    @property
    def shown_as(self) -> str:
        """The name by which the rest of the statement refers to it."""
        return self.alias or self.path[-1]


@dataclass(frozen=True, slots=True)
class FunctionUse:
    """A function call, an operator, or a session value like `current_date`; `span` is None without a location."""

    name: str
    span: Span | None
    instead_of: frozenset[TableReference] = frozenset()
    """For a bare name: the tables that make it a column instead if they have a column of that name."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter marker with the name or number that DuckDB gave it."""

    identifier: str
    span: Span


_IN = re.compile(rb"\bin\b", re.IGNORECASE)
_NULL = re.compile(rb"\bnull\b", re.IGNORECASE)
_FEW_ROWS = re.compile(
    rb"\border\s+by\b.*\blimit\b|\b(qualify|sample|tablesample)\b", re.IGNORECASE | re.DOTALL
)
_BY_PLACE = re.compile(rb"\b(limit|offset|fetch)\b", re.IGNORECASE)
_ORDERED = re.compile(rb"\border\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT statement."""

    text: bytes
    references: tuple[TableReference, ...]
    functions: tuple[FunctionUse, ...]
    parameters: tuple[Parameter, ...]
    qualified: tuple[tuple[tuple[str, ...], Span], ...]
    """Column references of more than two parts, with their spans."""
    any_lists: tuple[AnyOfList, ...]
    columns: frozenset[str]
    """Every part of every column reference, in lower case."""
    ctes: frozenset[str]
    """Names of all CTEs, in lower case."""
    every_column: bool
    """Whether some `*` or NATURAL JOIN may read columns that are not named."""
    named_by_text: bool
    """Whether some column may be named by the text of an expression that contains a table."""
    plain: bool
    """Whether it has no casts, functions and dotted names: nothing that a session's macros or types could redefine."""

    def with_columns(self, columns: Mapping[TableReference, Iterable[tuple[str, str]]]) -> Select:
        """The same without the names taken for functions that turn out to be columns of a table.

        Args:
            columns: names and types of the columns of those tables that are known by now.
        """

        def is_column(use: FunctionUse) -> bool:
            return any(
                use.name in reference.shown(columns.get(reference, ())) for reference in use.instead_of
            )

        if not any(use.instead_of for use in self.functions):
            return self
        return replace(self, functions=tuple(use for use in self.functions if not is_column(use)))

    def may_read(self, column: str) -> bool:
        """Tell whether the statement may read a column of this name."""
        return self.every_column or column.lower() in self.columns

    def may_list_null(self) -> bool:
        """Tell whether the statement may contain an IN with a NULL, including one from a parameter."""
        return bool(_IN.search(self.text)) and (bool(self.parameters) or bool(_NULL.search(self.text)))

    @property
    def uses_ranges(self) -> bool:
        """Whether DuckDB may use what it knows about the values in columns for a join or a count."""
        return len(self.references) > 1 or any(use.name == "count" for use in self.functions)

    @property
    def shows_few_rows(self) -> bool:
        """Whether it seems to return few rows: the first ones in some order, or a sample.

        DuckDB finds them by few columns and reads the rest of them afterwards, but only in one scan: several under
        UNION ALL took 1.5 times as long for the first rows, and 12 times as long for a sample (measured, 1.5 and 2.0).
        """
        return _FEW_ROWS.search(self.text) is not None

    @property
    def shows_rows_by_place(self) -> bool:
        """Whether it seems to return some rows by their place, which no order determines."""
        return _BY_PLACE.search(self.text) is not None and _ORDERED.search(self.text) is None

    def spliced(self, replacements: Iterable[tuple[Span, str]]) -> str:
        """Return the text with some spans, which do not overlap, replaced."""
        return splice(self.text, replacements)


def splice(text: bytes, replacements: Iterable[tuple[Span, str]]) -> str:
    """Return a text with some spans, which do not overlap, replaced."""
    parts: list[bytes] = []
    position = 0
    for span, replacement in sorted(replacements, key=lambda each: each[0].start):
        parts += (text[position : span.start], replacement.encode())
        position = span.stop
    parts.append(text[position:])
    return b"".join(parts).decode()


def parse_select(text: str, serialized: str) -> Select:
    """Parse a statement.

    Args:
        text: the SQL.
        serialized: the result of DuckDB's `json_serialize_sql` for it.

    Raises:
        NotSelect: it is something else, several statements, or nested too deeply to be examined.
    """
    try:
        tree = json.loads(serialized)
    except RecursionError:
        raise NotSelect("the statement is nested too deeply", syntax=False) from None
    if tree.get("error"):
        raise NotSelect(str(tree.get("error_message")), syntax=tree.get("error_type") == "parser")
    if len(tree["statements"]) != 1:
        raise NotSelect("several statements", syntax=False)
    root = tree["statements"][0]["node"]
    if not has_lengths(serialized):
        add_lengths(root, text.encode())
    any_lists = take_any_lists(root, text.encode())
    return _Walk(text.encode()).select(root, any_lists)


class _Walk:
    def __init__(self, text: bytes) -> None:
        self._text = text
        self._references: list[TableReference] = []
        self._functions: list[FunctionUse] = []
        self._parameters: list[Parameter] = []
        self._qualified: list[tuple[tuple[str, ...], Span]] = []
        self._bare: list[tuple[str, Span | None, Node | None]] = []
        self._tables: dict[int, TableReference] = {}  # by the identity of their nodes
        self._of_lambdas: set[int] = set()  # identities of column references that are parameters of lambdas
        self._columns: set[str] = set()
        self._last_names: set[str] = set()
        self._ctes: set[str] = set()
        self._queries: dict[str, Node] = {}  # of CTEs whose names are given once
        self._every_column = False
        self._named_by_text = False
        self._plain = True

    def select(self, root: Node, any_lists: tuple[AnyOfList, ...]) -> Select:
        # Each part is paired with the CTEs that it sees, whether `*` in it stands for columns of tables, and the query
        # whose columns a bare name in it refers to.
        pending: list[_Part] = [(root, frozenset(), True, None)]
        while pending:
            node, visible, stars, scope = pending.pop()
            if isinstance(node, list):
                pending.extend((child, visible, stars, scope) for child in cast("list[Any]", node))
            elif isinstance(node, dict):
                inner = cast("Node", node)
                self._visit(inner, visible, scope)
                self._every_column |= stars and inner.get("type") == "STAR"
                if inner.get("cte_map"):
                    visible = self._enter_ctes(inner["cte_map"]["map"], visible, pending)
                if inner.get("type") == "SELECT_NODE":
                    stars = shows_table(inner["from_table"], visible)
                pending.extend((part, visible, stars, within) for part, within in _parts(inner, scope))
        # The name of a table, as a column, means all of its columns.
        whole_row = any(reference.shown_as.lower() in self._last_names for reference in self._references)
        return Select(
            text=self._text,
            references=tuple(sorted(self._references, key=_position)),
            functions=(*self._functions, *self._session_values()),
            parameters=tuple(sorted(self._parameters, key=lambda each: each.span.start)),
            qualified=tuple(self._qualified),
            any_lists=any_lists,
            columns=frozenset(self._columns),
            ctes=frozenset(self._ctes),
            every_column=self._every_column or whole_row,
            named_by_text=self._named_by_text,
            plain=self._plain,
        )

    def _enter_ctes(self, ctes: list[Node], visible: frozenset[str], pending: list[_Part]) -> frozenset[str]:
        for cte in ctes:
            name = cte["key"].lower()
            self._ctes.add(name)
            query = cte["value"].get("query_node") or cte["value"].get("query", {}).get("node", {})
            recursive = query.get("type") == "RECURSIVE_CTE_NODE"
            self._queries[name] = {} if name in self._queries or cte["value"]["aliases"] else query
            pending.append((cte["value"], visible | {name} if recursive else visible, True, None))
            visible |= {name}
        return visible

    def _visit(self, node: Node, visible: frozenset[str], scope: Node | None) -> None:
        match node.get("type"):
            case "BASE_TABLE":
                self._base_table(node, visible)
            case "TABLE_FUNCTION":
                whole = self._span(node)
                path = path_of_call(node["function"])
                self._plain = False
                self._references.append(
                    TableReference(path, whole, whole, node.get("alias") or None, function=True)
                )
            case "SELECT_NODE":
                self._named_by_text |= any(
                    not item["alias"] and any(str(part.get("type")) in READ for part in nodes_below(item))
                    for item in node["select_list"]
                )
            case "SHOW_REF" if node.get("table_name"):
                self._references.append(TableReference(_path(node), None, None, None))
            case "FUNCTION":
                self._function(node)
            case "LAMBDA" | "COLUMN_REF":
                self._name(node, scope)
            case "VALUE_PARAMETER":
                span = self._span(node)
                if span is not None:
                    self._parameters.append(Parameter(str(node["identifier"]), span))
            case "OPERATOR_CAST":
                self._plain = False
            case "PIVOT" | "POSITIONAL_REFERENCE":
                self._every_column = True
            case "JOIN":
                self._every_column |= node.get("ref_type") == "NATURAL"
                self._columns.update(str(name).lower() for name in node.get("using_columns", ()))
            case _:
                pass

    def _base_table(self, node: Node, visible: frozenset[str]) -> None:
        path = _path(node)
        if len(path) == 1 and path[0].lower() in visible:
            return
        self._every_column |= bool(node.get("column_name_alias"))
        whole = self._span(node)
        name = None if whole is None else self._name_span(whole, path)
        reference = TableReference(
            path,
            name,
            whole,
            node.get("alias") or None,
            time_travel=node.get("at_clause") is not None,
            columns=tuple(map(str, node.get("column_name_alias") or ())),
        )
        self._references.append(reference)
        self._tables[id(node)] = reference

    def _session_values(self) -> Iterator[FunctionUse]:
        for name, span, scope in self._bare:
            values = [] if scope is None else [*tables_in_scope(scope, name, self._tables, self._queries)]
            if None not in values:
                yield FunctionUse(name, span, frozenset(self._tables[id(node)] for node in values))

    def _column(self, node: Node, scope: Node | None) -> None:
        names: list[str] = node["column_names"]
        span = self._span(node)
        self._plain = self._plain and len(names) == 1
        self._columns.update(name.lower() for name in names)
        self._last_names.add(names[-1].lower())
        if len(names) == 1 and names[0].lower() in SESSION_VALUES and id(node) not in self._of_lambdas:
            self._bare.append((names[0].lower(), span, scope))
        elif len(names) > 2 and span is not None:
            self._qualified.append((tuple(names), span))

    def _function(self, node: Node) -> None:
        self._plain = False
        # `xs.list_sum()` is written like a function of the schema `xs`.
        parts = (node.get(key) for key in ("catalog", "schema"))
        self._columns.update(str(part).lower() for part in parts if part)
        self._functions.append(FunctionUse(str(node["function_name"]).lower(), self._span(node)))

    def _name(self, node: Node, scope: Node | None) -> None:
        if node["type"] == "LAMBDA":
            self._of_lambdas.update(map(id, names_of_lambda(node)))
        else:
            self._column(node, scope)

    def _span(self, node: Node) -> Span | None:
        start, length = node.get("query_location"), node.get("query_location_length", 0)
        if (
            not isinstance(start, int)
            or start >= NO_LOCATION
            or not length
            or start + length > len(self._text)
        ):
            return None
        return Span(start, start + length)

    def _name_span(self, whole: Span, path: tuple[str, ...]) -> Span | None:
        """The span of the name alone; None unless the text there spells exactly this path."""
        text = self._text[whole.start : whole.stop].decode(errors="replace")
        span = where_spelled(text, path)
        return None if span is None else Span(whole.start + span[0], whole.start + span[1])


def _parts(node: Node, scope: Node | None) -> Iterator[tuple[Any, Node | None]]:
    """Yield the parts below a node, each with the query whose columns a bare name in it refers to."""
    kind = str(node.get("type"))
    if kind == "SELECT_NODE":
        for key, child in node.items():
            if key != "cte_map":
                yield child, scope_of_child(node, key, child)
        return
    outside = kind.endswith("_NODE") or kind.startswith("LIMIT")
    for child in _children(node):
        yield child, None if outside else scope


def _children(node: Node) -> Iterable[Any]:
    """Lists and objects below a node, except for CTEs; a table function's own call is part of the reference, but its
    arguments are not, and the `*` of an EXISTS stands for nothing.
    """
    for key, child in node.items():
        if key == "subquery" and is_of_any_row(node):
            yield {**child, "node": {**child["node"], "select_list": []}}
        elif key == "function" and node.get("type") == "TABLE_FUNCTION":
            yield child.get("arguments") or child.get("children")
        elif key != "cte_map" and isinstance(child, dict | list):
            yield child


def _position(reference: TableReference) -> int:
    return NO_LOCATION if reference.whole is None else reference.whole.start


def _path(node: Node) -> tuple[str, ...]:
    parts = (node.get("catalog_name"), node.get("schema_name"), node.get("table_name"))
    return tuple(str(part) for part in parts if part)


def outermost(uses: Iterable[tuple[Span, str]]) -> list[tuple[Span, str]]:
    """Keep the replacements that are not contained in another one."""
    kept: list[tuple[Span, str]] = []
    for span, text in sorted(uses, key=lambda each: (each[0].start, -each[0].stop)):
        if not kept or span.start >= kept[-1][0].stop:
            kept.append((span, text))
    return kept
