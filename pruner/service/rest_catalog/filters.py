"""Filters of Iceberg clients: as expressions of the planner, and their exact meaning over partition values.

Iceberg's logic is two-valued, and clients differ in the result of a comparison with NULL, NaN or -0.0. The expression
of a filter is true for each row that any client may consider a match (docs/rest-catalog.md): a plan keeps more, never
less. A filter over partition columns alone is decided here, because clients do not apply it again.

Source: schemas `Expression` of the REST catalog's OpenAPI description; class `Evaluator` of Iceberg's Java library.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import numpy as np
import pyarrow as pa

from pruner.errors import PredicateError
from pruner.expr.nodes import (
    FALSE,
    TRUE,
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
    disjunction,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.schema import Field, TableSchema

DEEPEST: Final = 300
"""Most levels of a filter; a chain of one AND or OR is one level."""

MOST_PARTS: Final = 20_000
"""Most operands of one AND or OR."""

_NEGATIONS: Final = {
    "is-null": "not-null",
    "is-nan": "not-nan",
    "eq": "not-eq",
    "lt": "gt-eq",
    "gt": "lt-eq",
    "in": "not-in",
    "starts-with": "not-starts-with",
}
_NEGATED: Final = {**_NEGATIONS, **{negative: positive for positive, negative in _NEGATIONS.items()}}
_OPERATORS: Final = {
    "eq": Operator.EQ,
    "not-eq": Operator.NE,
    "lt": Operator.LT,
    "lt-eq": Operator.LE,
    "gt": Operator.GT,
    "gt-eq": Operator.GE,
}
_MET_BY_NULL: Final = frozenset({"not-eq", "not-in", "not-nan", "not-starts-with"})
"""Comparisons that some client considers true for NULL."""

Partitions = Sequence[Mapping[str, Any]]
"""Partitions, each as the values of its columns by name."""

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


class Filter:
    """A filter as a client sends it.

    Attributes:
        content: the JSON value.
        case_sensitive: whether column names are case-sensitive.
        snapshot_schema: whether names are those of the snapshot's own schema instead of the table's.
    """

    def __init__(
        self,
        content: Any,
        schema: TableSchema,
        *,
        case_sensitive: bool,
        snapshot_schema: bool = False,
        named: Callable[[str], Field | None] | None = None,
    ) -> None:
        """Read a filter on the columns of a schema.

        Args:
            content: the JSON value.
            schema: the schema of the snapshot that is read.
            case_sensitive: whether column names are case-sensitive.
            snapshot_schema: whether they are those of the snapshot's own schema instead of the table's.
            named: looks up a column by name instead of the schema; gives None if the name is ambiguous, or if the
                snapshot lacks the column.

        Raises:
            PredicateError: it is not a filter, or is nested too deep.
        """
        self.content = content
        self.case_sensitive = case_sensitive
        self.snapshot_schema = snapshot_schema
        self._columns = _Columns(schema, case_sensitive=case_sensitive, named=named)
        self._tree = _pushed(content, 0, negated=False)

    @cached_property
    def encoded(self) -> bytes:
        """The JSON of its content."""
        return msgspec.json.encode(self.content)

    def expression(self) -> Expr:
        """An expression that is true for each row that a client may consider a match.

        Raises:
            PredicateError: it names a column that does not exist.
        """
        return self._expression(self._tree)

    def on_partitions(self, names: frozenset[str]) -> Callable[[Partitions], NDArray[np.bool_]] | None:
        """A function that tells which partitions match, by their column values; None if there is nothing to decide.

        Parts of the filter under its top-level AND that name only these columns are decided; clients apply the rest.

        Raises:
            PredicateError: such a part has a form that is not understood.
        """
        operands = self._tree["operands"] if self._tree["type"] == "and" else [self._tree]
        decided = [operand for operand in operands if self._names(operand) and self._names(operand) <= names]
        if not decided:
            return None
        tree = {"type": "and", "operands": decided}
        return lambda partitions: _held(tree, len(partitions), partial(self._on_partitions, partitions))

    def names(self) -> frozenset[str]:
        """The names of the columns in the filter."""
        names = (_reference(node.get("term")) for node in self._nodes())
        return frozenset(name for name in names if name is not None)

    def columns(self) -> frozenset[str]:
        """The columns in the filter, by their top-level names in the schema; "" for a transform or an unknown column.

        Raises:
            PredicateError: it names a column that does not exist.
        """
        return self._names(self._tree)

    def constants(self) -> Iterator[Any]:
        """The values that it compares columns with."""
        for node in self._nodes():
            yield from node.get("values", ())

    def _nodes(self) -> Iterator[dict[str, Any]]:
        pending = [self._tree]
        while pending:
            node = pending.pop()
            pending.extend(node.get("operands", ()))
            yield node

    def held(
        self, count: int, leaf: Callable[[str, str | None, list[Any]], NDArray[np.bool_]]
    ) -> NDArray[np.bool_]:
        """Which of `count` items the filter holds for.

        Args:
            count: the number of items.
            leaf: decides a comparison for all items, given its type, column (None for a transform) and values.
        """
        return _held(self._tree, count, leaf)

    def _names(self, node: Mapping[str, Any]) -> frozenset[str]:
        if node["type"] in ("and", "or"):
            return frozenset[str]().union(*(self._names(operand) for operand in node["operands"]))
        if node["type"] == "constant":
            return frozenset()
        field = self._columns.find(node["term"])
        return frozenset({field.path[0]}) if field is not None else frozenset({""})

    def _expression(self, node: Mapping[str, Any], filled: frozenset[str | None] = frozenset()) -> Expr:
        """`filled` are the columns that another condition requires to be not NULL wherever this node matters."""
        match node["type"]:
            case "constant":
                return TRUE if node["value"] else FALSE
            case "and":
                told = (each for each in node["operands"] if each["type"] == "not-null")
                filled |= frozenset(_reference(operand["term"]) for operand in told)
                return conjunction(tuple(self._expression(operand, filled) for operand in node["operands"]))
            case "or":
                return disjunction(tuple(self._expression(operand, filled) for operand in node["operands"]))
            case _:
                return self._leaf(node, filled)

    def _leaf(self, node: Mapping[str, Any], filled: frozenset[str | None]) -> Expr:
        about = self._columns.find(node["term"])
        if about is None:
            return Opaque((), "a transform of a column", "transforms of filters are not followed")
        column = Column(about.path)
        made = _made(node, column, about)
        if made is None:
            return Opaque((column,), f"{node['type']} of {column}", "a value of another form")
        if (node["type"] not in _MET_BY_NULL and not node["negated"]) or node["type"] == "not-null":
            return made
        # A comparison under a NOT is true for NULL and NaN if a client negates its result, not the comparison.
        also: list[Expr] = [] if _reference(node["term"]) in filled else [IsNull(column)]
        if node["negated"] and pa.types.is_floating(about.type):
            also.append(Compare(Operator.EQ, column, Literal(float("nan"), about.type)))
        return disjunction((made, *also))

    def _on_partitions(
        self, partitions: Partitions, kind: str, term: str | None, given: list[Any]
    ) -> NDArray[np.bool_]:
        about = self._columns.find(term)
        assert about is not None
        column, meets = about.path[0], _meets(kind, given, about)
        return np.fromiter((meets(values[column]) for values in partitions), np.bool_, len(partitions))


def _held(
    node: Mapping[str, Any],
    count: int,
    leaf: Callable[[str, str | None, list[Any]], NDArray[np.bool_]],
) -> NDArray[np.bool_]:
    match node["type"]:
        case "constant":
            return np.full(count, node["value"], np.bool_)
        case "and":
            held = np.ones(count, np.bool_)
            for operand in node["operands"]:
                held &= _held(operand, count, leaf)
            return held
        case "or":
            held = np.zeros(count, np.bool_)
            for operand in node["operands"]:
                held |= _held(operand, count, leaf)
            return held
        case kind:
            return leaf(kind, _reference(node["term"]), node["values"])


class _Columns:
    """Finds the columns that terms name; nested ones by dotted names."""

    def __init__(
        self, schema: TableSchema, *, case_sensitive: bool, named: Callable[[str], Field | None] | None
    ) -> None:
        self._named = named
        self._fold: Callable[[str], str] = str if case_sensitive else str.lower
        self._found: dict[str, list[Field]] = {}
        for field in schema.fields:
            self._found.setdefault(self._fold(".".join(field.path)), []).append(field)

    def find(self, term: Any) -> Field | None:
        """The column of a term; None for a transform of a column, and if `named` gives None."""
        if isinstance(term, dict) and _members(term).get("type") != "reference":
            return None
        name = _reference(term)
        if self._named is not None and name is not None:
            try:
                return self._named(name)
            except KeyError:
                name = None
        fields = [] if name is None else self._found.get(self._fold(name), [])
        if len(fields) != 1:
            shown = str(cast("Any", term))[:200]
            reason = "several columns have that name" if fields else "the table has no such column"
            raise PredicateError(f"the filter names {shown!r}: {reason}")
        return fields[0]


def _reference(term: Any) -> str | None:
    """The name of the column in a term; None for a transform of a column."""
    if isinstance(term, dict):
        reference = _members(term)
        term = reference.get("term") if reference.get("type") == "reference" else None
    return term if isinstance(term, str) else None


def _pushed(content: Any, depth: int, *, negated: bool) -> dict[str, Any]:
    """A filter as a tree without NOT; chains of one AND or OR become one node with all operands."""
    if depth > DEEPEST:
        raise PredicateError(f"the filter is nested more than {DEEPEST} levels deep")
    if isinstance(content, bool):
        return {"type": "constant", "value": content != negated}
    members = _members(content)
    kind: Any = members.get("type")
    if not isinstance(kind, str):
        raise PredicateError("the filter has an expression without a type")
    if kind in ("true", "false"):
        return {"type": "constant", "value": (kind == "true") != negated}
    if kind == "not":
        return _pushed(members.get("child"), depth + 1, negated=not negated)
    if kind in ("and", "or"):
        parts = list(islice(_chain(content, kind), MOST_PARTS + 1))
        if len(parts) > MOST_PARTS:
            raise PredicateError(f"the filter has more than {MOST_PARTS:,} parts under one {kind.upper()}")
        operands = [_pushed(part, depth + 1, negated=negated) for part in parts]
        turned = {"and": "or", "or": "and"}[kind] if negated else kind
        flat = [
            inner
            for operand in operands
            for inner in (operand["operands"] if operand["type"] == turned else [operand])
        ]
        return {"type": turned, "operands": flat}
    if kind not in _NEGATED:
        raise PredicateError(f"the filter has an expression of the type {kind[:100]!r}, which is not known")
    values: Any = members.get("values") if kind in ("in", "not-in") else [members.get("value")]
    if not isinstance(values, list):
        raise PredicateError(f"an expression of the type {kind!r} has no list of values")
    term = members.get("term")
    if not isinstance(term, str) and not isinstance(_members(term).get("type"), str):
        raise PredicateError(f"an expression of the type {kind!r} has no term")
    return {
        "type": _NEGATED[kind] if negated else kind,
        "term": term,
        "values": values,
        "negated": negated,
    }


def _members(content: Any) -> Mapping[str, Any]:
    """The members of a JSON object; empty for anything else."""
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def _chain(content: Any, kind: str) -> Iterator[Any]:
    """The operands of one AND or OR, however its pairs are nested."""
    pending: list[Any] = [content]
    while pending:
        one = pending.pop()
        pair = _members(one)
        if pair.get("type") == kind:
            pending += [pair.get("right"), pair.get("left")]
        else:
            yield one


def _made(node: Mapping[str, Any], column: Column, about: Field) -> Expr | None:
    """The expression of a leaf for values that are not NULL; None if a constant has another form."""
    kind = node["type"]
    if kind in ("is-null", "not-null"):
        return IsNull(column) if kind == "is-null" else Not(IsNull(column))
    if kind in ("is-nan", "not-nan"):
        if not pa.types.is_floating(about.type):
            return None
        nan = Literal(float("nan"), about.type)
        return Compare(Operator.EQ if kind == "is-nan" else Operator.NE, column, nan)
    if kind in ("starts-with", "not-starts-with"):
        prefix = node["values"][0]
        if not isinstance(prefix, str) or not pa.types.is_string(about.type):
            return None
        escaped = "".join(f"\\{part}" if part in "\\%_" else part for part in prefix)
        pattern = Like(column, f"{escaped}%", "\\")
        return pattern if kind == "starts-with" else Not(pattern)
    literals = [_literal(value, about.type) for value in node["values"]]
    if not literals or any(literal is None for literal in literals):
        return None
    known = tuple(literal for literal in literals if literal is not None)
    if kind == "in":
        return In(column, _with_both_zeros(known))
    if kind == "not-in":
        others = tuple(literal for literal in known if not _is_zero(literal))
        return Not(In(column, others)) if others else Not(IsNull(column))
    return _compared(_OPERATORS[kind], column, known[0])


def _is_zero(literal: Literal) -> bool:
    """Whether a value is 0.0 or -0.0, which are equal by IEEE 754, but not in Java's total order."""
    return isinstance(literal.value, float) and literal.value == 0.0


def _compared(wanted: Operator, column: Column, literal: Literal) -> Expr:
    """A comparison that is true if it is by IEEE 754 or by Java's total order, in which -0.0 is less than 0.0."""
    if _is_zero(literal):
        wanted = {Operator.LT: Operator.LE, Operator.GT: Operator.GE}.get(wanted, wanted)
        if wanted is Operator.NE:
            return Not(IsNull(column))
    return Compare(wanted, column, literal)


def _with_both_zeros(literals: tuple[Literal, ...]) -> tuple[Literal, ...]:
    zero = next(filter(_is_zero, literals), None)
    if zero is None:
        return literals
    return (*literals, Literal(0.0, zero.type), Literal(-0.0, zero.type))


def _literal(value: Any, type_: Any) -> Literal | None:
    """A literal of a column's type from JSON, as clients write it before they know the type; None for another form."""
    literal = plain_value(value, type_)
    return None if literal is None else Literal(literal, type_)


def plain_value(value: Any, type_: Any) -> Any:
    """A value of a column's type from JSON; None for another form."""
    types = pa.types
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if types.is_boolean(type_):
        return value if isinstance(value, bool) else None
    if types.is_integer(type_):
        return int(value) if number and math.isfinite(value) and value == int(value) else None
    if types.is_floating(type_):
        if not number or math.isnan(value):
            return None
        # Clients write a 32-bit number with the fewest digits that identify it.
        return float(np.float32(value)) if types.is_float32(type_) else float(value)
    if types.is_decimal(type_):
        return _decimal(value) if number or isinstance(value, str) else None
    if types.is_string(type_):
        return value if isinstance(value, str) else None
    if types.is_date(type_):
        return _day(value)
    if types.is_timestamp(type_) and type_.unit == "us":
        return _moment(value, is_instant=type_.tz is not None)
    return None


def _decimal(value: Any) -> Decimal | None:
    try:
        decimal = Decimal(str(value))
    except InvalidOperation:
        return None
    return decimal if decimal.is_finite() else None


def _day(value: Any) -> Any:
    """A date from ISO text or from days since 1970-01-01; beyond Python's dates, the number of days."""
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return datetime.date(1970, 1, 1) + datetime.timedelta(days=value)
        except OverflowError:
            return value if abs(value) < 1 << 31 else None
    try:
        return datetime.date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _moment(value: Any, *, is_instant: bool) -> int | None:
    """Microseconds since 1970-01-01T00:00:00, in UTC or on the wall clock."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.datetime.fromisoformat(value)
    except ValueError:
        return None
    if (moment.tzinfo is not None) != is_instant or len(value.partition(".")[2]) > len("123456+00:00"):
        return None
    return (moment.replace(tzinfo=moment.tzinfo or datetime.UTC) - _EPOCH) // _MICROSECOND


_ORDERED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "lt": operator.lt,
    "lt-eq": operator.le,
    "gt": operator.gt,
    "gt-eq": operator.ge,
}


def _meets(kind: str, given: list[Any], about: Field) -> Callable[[Any], bool]:
    """A function that tells whether a partition value meets a comparison, as Iceberg's own evaluator does."""
    if kind in ("is-null", "not-null"):
        return lambda value: (value is None) == (kind == "is-null")
    if kind in ("is-nan", "not-nan"):
        return lambda _: kind == "not-nan"
    if kind in ("starts-with", "not-starts-with"):
        prefix = given[0]
        if not isinstance(prefix, str) or not pa.types.is_string(about.type):
            raise PredicateError(f"the filter compares {about.name} with a value of another type")
        return lambda value: (value is not None and str(value).startswith(prefix)) == (kind == "starts-with")
    known = [plain_value(item, about.type) for item in given]
    if any(literal is None for literal in known):
        raise PredicateError(f"the filter compares {about.name} with a value of another type")
    if kind in ("eq", "in", "not-eq", "not-in"):
        values = frozenset(known)
        return lambda value: (value in values) == (kind in ("eq", "in"))
    compare, first = _ORDERED[kind], _by_bytes(known[0])
    return lambda value: value is not None and compare(_by_bytes(value), first)


def _by_bytes(value: Any) -> Any:
    """A sort key that orders texts by their bytes, as Iceberg does."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
