"""Catalyst's predicate of a scan in the common expression form.

The expression arrives as JSON in one call (`TreeNode.toJSON`, the nodes in pre-order), and the few things that the
JSON lacks are fetched from the nodes. It never passes through SQL text, which the versions of Spark read differently.
What is not understood is `Opaque`; nothing that happens here fails a query.

Each of Catalyst's expression classes has a fixed counterpart in the expression form. The list is closed: a class that
is not in the table, or has another shape, is `Opaque` with the columns below it. Nodes come in pre-order and are built
from the last to the first, without recursion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import pyarrow as pa

from pruner.errors import SchemaError
from pruner.expr.exact.casts import undo_cast
from pruner.expr.nodes import (
    FALSE,
    And,
    Call,
    Column,
    Constant,
    Expr,
    Like,
    Literal,
    Opaque,
    Operator,
    Or,
    conjunction,
)
from pruner.expr.show import show
from pruner.expr.types import is_naive_timestamp, is_string
from pruner.expr.walk import columns_of
from pruner_spark.catalyst import conditions
from pruner_spark.catalyst.functions import MAKERS, Make, cast_function
from pruner_spark.catalyst.literals import interval, literal, set_literals
from pruner_spark.catalyst.part import BOOLEAN, DEEPEST, DecodedNode, Junction, closed, join, opaque
from pruner_spark.catalyst.source import (
    INSTANT,
    ExpressionJson,
    ExpressionTree,
    JavaObject,
    JsonNode,
    UntranslatableError,
    arrow_type,
    column_metadata,
    is_read_as,
    names_collation,
    told_of,
)
from pruner_spark.catalyst.values import cast_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.schema import TableSchema
    from pruner_spark.session import SessionState

Handler: TypeAlias = "Callable[[Nodes, JsonNode, int, list[DecodedNode]], DecodedNode]"
"""Builds a part from a node, its position in the pre-order and its children."""

_CLASSES = "org.apache.spark.sql.catalyst.expressions."
_METADATA_COLUMN = "__metadata_col"
_FILE_METADATA = "__file_source_metadata_col"
_HUDIS = "_hoodie_"
_FIELD_ID = "parquet.field.id"
_COLLATIONS = "__COLLATIONS"


class Nodes:
    """Builds one expression from its nodes.

    `metadata` is that of the columns, by name; with `collated`, text in the expression may be compared under a
    collation instead of by its bytes.
    """

    def __init__(
        self,
        source: ExpressionTree,
        session: SessionState,
        schema: TableSchema | None,
        metadata: Mapping[str, Mapping[str, Any]],
        *,
        collated: bool = False,
    ) -> None:
        self._source = source
        self._metadata = metadata
        self._collated = collated
        self._session = session
        self._schema = schema
        self._semantics = session.semantics()

    def build(self, nodes: Sequence[JsonNode]) -> Expr:
        """Build the expression that a pre-order list of nodes describes.

        Raises:
            UntranslatableError: it is not such a list.
        """
        built: list[DecodedNode | Junction] = []
        for place in range(len(nodes) - 1, -1, -1):
            node = nodes[place]
            count = int(node["num-children"])
            if count > len(built):
                raise UntranslatableError("Catalyst's JSON has another shape than was known")
            children = [built.pop() for _ in range(count)]
            built.append(self._part(node, place, children))
        if len(built) != 1:
            raise UntranslatableError("Catalyst's JSON has another shape than was known")
        return closed(built[0]).predicate

    def _part(
        self, node: JsonNode, place: int, children: list[DecodedNode | Junction]
    ) -> DecodedNode | Junction:
        class_ = str(node.get("class", ""))
        name = class_.removeprefix(_CLASSES)
        known = name != class_
        try:
            part: DecodedNode | Junction
            if known and name in _JUNCTIONS:
                part = join(_JUNCTIONS[name], *children)
            elif known and name in _HANDLERS:
                part = _HANDLERS[name](self, node, place, [closed(child) for child in children])
            else:
                raise UntranslatableError(f"Catalyst's {name.rpartition('.')[2]} is not understood")
            if part.depth > DEEPEST:
                raise UntranslatableError("it is nested too deeply")
            return part
        except UntranslatableError as reason:
            return opaque(node, children, str(reason))

    # Values

    def attribute(self, node: JsonNode, _: int, __: list[DecodedNode]) -> DecodedNode:
        """A column of the relation."""
        name = str(node["name"])
        metadata = self._metadata[name]
        if _METADATA_COLUMN in metadata and not self._is_held(name, metadata):
            raise UntranslatableError("it is not a column of the table")
        self._require_by_name(metadata)
        return self._column((name,), node["dataType"])

    def field(self, node: JsonNode, _: int, children: list[DecodedNode]) -> DecodedNode:
        """A field of a struct, by its position among the fields of the child."""
        [parent] = children
        if not parent.path or not parent.fields:
            raise UntranslatableError("a field of something that is not a column")
        field = parent.fields[int(node["ordinal"])]
        self._require_by_name(field.get("metadata") or {})
        return self._column((*parent.path, str(field["name"])), field["type"])

    def _is_held(self, name: str, metadata: Mapping[str, Any]) -> bool:
        """Tell whether files hold a column that is marked as metadata: Hudi marks its meta columns, Spark the columns
        that it derives from a file's name, size and time.
        """
        if _FILE_METADATA in metadata or not name.startswith(_HUDIS) or self._schema is None:
            return False
        return any(field.path == (name,) for field in self._schema)

    def _require_by_name(self, metadata: Mapping[str, Any]) -> None:
        """Refuse a column or field that, by its metadata, is not what its name denotes in files."""
        if self._session.by_field_id and _FIELD_ID in metadata:
            raise UntranslatableError("the column is looked up by its field id")
        if _COLLATIONS in metadata:
            raise UntranslatableError("text is compared by a collation")

    def _column(self, path: tuple[str, ...], described: Any) -> DecodedNode:
        column = Column(path)
        if isinstance(described, dict):
            fields = tuple(described.get("fields") or ())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType, reportUnknownVariableType]
            return DecodedNode(self._nested(column), None, path=path, fields=fields)
        data_type = self._type(described, f"columns of type {described} are not supported")
        value: Expr = column if self._reads(column, data_type) else Call("cast", (column,), data_type)
        return DecodedNode(value, data_type, path=path)

    def _type(self, described: Any, otherwise: str) -> pa.DataType:
        data_type = arrow_type(described)
        if data_type is None:
            raise UntranslatableError(otherwise)
        if self._collated and is_string(data_type):
            raise UntranslatableError("text may be compared by a collation")
        return data_type

    def _nested(self, column: Column) -> Expr:
        """A struct or list, for which nothing but IS NULL could be decided."""
        return Opaque((column,), str(column), "structs, lists and maps are not supported")

    def _reads(self, column: Column, data_type: pa.DataType) -> bool:
        """Tell whether Spark reads the column as the table's schema has it."""
        if self._schema is None:
            return False
        try:
            field = self._schema.find(column.path, case_sensitive=self._session.case_sensitive)
        except SchemaError:
            return True  # binding reports it
        return is_read_as(field.type, data_type)

    def literal(self, node: JsonNode, place: int, _: list[DecodedNode]) -> DecodedNode:
        """A constant."""
        if str(node["dataType"]).startswith("interval "):
            return DecodedNode(interval(node, place, self._source), null=FALSE)
        data_type = self._type(node["dataType"], "a literal of a type that is not supported")
        made = literal(node, place, data_type, self._source)
        return DecodedNode(made, data_type, null=Constant(made.value is None))

    def cast(self, node: JsonNode, place: int, children: list[DecodedNode]) -> DecodedNode:
        """A cast: one that can be undone, one to an instant, one with a rule in the registry, or one that may fail."""
        [operand] = children
        target = self._type(node["dataType"], "a cast to a type that is not supported")
        if operand.type is None:
            raise UntranslatableError("a cast of something that is not understood")
        made = Call("cast", (operand.expr,), target)
        if undo_cast(operand.type, target, self._semantics) is not None:
            return DecodedNode(made, target, null=operand.is_null).over(children)
        if target == INSTANT and (pa.types.is_date(operand.type) or is_naive_timestamp(operand.type)):
            if isinstance(operand.expr, Literal):
                self._require_zone(node)
            return self._instant(node, made, operand).over(children)
        if pa.types.is_date(operand.type) and is_string(target):
            return DecodedNode(made, target, null=operand.is_null, day=operand).over(children)
        function = cast_function(operand.type, target)
        if function is not None:
            self._require_zone(node)
            made = Call(function, (operand.expr,), target)
            whole = not pa.types.is_integer(target)
            return DecodedNode(made, target, null=operand.is_null if whole else None).over(children)
        mode = self._source.cast_mode(place)
        of_value = cast_name(operand.type, target, mode)
        if of_value is not None:
            return DecodedNode(Call(of_value, (operand.expr,), target), target).over(children)
        if mode == "TRY":
            made = Call("try_cast", (operand.expr,), target)
        elif mode != "ANSI":
            raise UntranslatableError(f"a cast to {target} without ANSI mode may wrap, cut or become NULL")
        return DecodedNode(made, target).over(children)

    def _instant(self, node: JsonNode, made: Expr, operand: DecodedNode) -> DecodedNode:
        """A cast to an instant: opaque, except for its operand, if its zone is not the session's."""
        zone = self._session.zone if node.get("timeZoneId") == self._session.zone else None
        if zone is None:
            reason = f"it follows the zone {node.get('timeZoneId')}, not the session's"
            made = Opaque(columns_of(made), show(made), reason)
        return DecodedNode(made, INSTANT, null=operand.is_null, moment=operand, zone=zone)

    def same(self, _: JsonNode, __: int, children: list[DecodedNode]) -> DecodedNode:
        """A node that leaves the value unchanged; -0.0 and 0.0, and all NaN, are equal anyway."""
        [child] = children
        return child

    def function(self, make: Make, node: JsonNode, children: list[DecodedNode]) -> DecodedNode:
        """A function of the registry; one that depends on a zone only if it is the session's."""
        self._require_zone(node)
        made, data_type = make(children)
        return DecodedNode(made, data_type).over(children)

    def _require_zone(self, node: JsonNode) -> None:
        """Refuse a node that was resolved under another zone, earlier or in another session."""
        zone = node.get("timeZoneId")
        if zone is not None and zone != self._session.zone:
            raise UntranslatableError(f"it follows the zone {zone}, not the session's")

    # Truth values whose JSON is incomplete

    def in_set(self, _: JsonNode, place: int, children: list[DecodedNode]) -> DecodedNode:
        """IN over a set of values, which the JSON lacks."""
        [operand] = children
        if operand.type is None:
            raise UntranslatableError("a list of values of a type that is not supported")
        literals = set_literals(place, operand.type, self._source)
        return conditions.member(*conditions.by_clocks(operand, literals), children)

    def like(self, _: JsonNode, place: int, children: list[DecodedNode]) -> DecodedNode:
        """LIKE, whose escape character the JSON lacks."""
        operand, pattern = conditions.texts(children)
        made = Like(operand.expr, pattern, self._source.like_escape(place))
        return DecodedNode(made, BOOLEAN, null=operand.is_null).over(children)


def _of(make: Callable[[list[DecodedNode]], DecodedNode]) -> Handler:
    return lambda _, __, ___, children: make(children)


def _comparison(operator: Operator) -> Handler:
    return lambda _, __, ___, children: conditions.compare(operator, children)


def _affix(before: str, after: str) -> Handler:
    return lambda _, __, ___, children: conditions.affix(before, after, children)


def _function(make: Make) -> Handler:
    return lambda nodes, node, _, children: nodes.function(make, node, children)


_JUNCTIONS: Final[dict[str, type[And] | type[Or]]] = {"And": And, "Or": Or}
_HANDLERS: Final[dict[str, Handler]] = {
    "AttributeReference": Nodes.attribute,
    "GetStructField": Nodes.field,
    "Literal": Nodes.literal,
    "Cast": Nodes.cast,
    "PromotePrecision": Nodes.same,
    "KnownFloatingPointNormalized": Nodes.same,
    "NormalizeNaNAndZero": Nodes.same,
    "KnownNotNull": Nodes.same,
    "Coalesce": _of(conditions.coalesce),
    "Not": _of(conditions.negation),
    "EqualTo": _comparison(Operator.EQ),
    "LessThan": _comparison(Operator.LT),
    "LessThanOrEqual": _comparison(Operator.LE),
    "GreaterThan": _comparison(Operator.GT),
    "GreaterThanOrEqual": _comparison(Operator.GE),
    "EqualNullSafe": _of(conditions.null_safe),
    "In": _of(conditions.in_list),
    "InSet": Nodes.in_set,
    "IsNull": _of(conditions.is_null),
    "IsNotNull": _of(conditions.is_not_null),
    "IsNaN": _of(conditions.is_nan),
    "Like": Nodes.like,
    "StartsWith": _affix("", "%"),
    "EndsWith": _affix("%", ""),
    "Contains": _affix("%", "%"),
    "RLike": _of(conditions.matches),
    "If": _of(conditions.case),
    "CaseWhen": _of(conditions.case),
    **{class_: _function(make) for class_, make in MAKERS.items()},
}


_AND = "org.apache.spark.sql.catalyst.expressions.And"
_CONJUNCTS = 64
_COLUMNS_NAMED = 8
_TEXT = 200
_EXPRESSION_ID = re.compile(r"#\d+L?")


def decode(
    expression: JavaObject,
    session: SessionState,
    schema: TableSchema | None = None,
    told: ExpressionJson | None = None,
) -> Expr:
    """Decode one Catalyst expression of type boolean.

    Args:
        expression: `org.apache.spark.sql.catalyst.expressions.Expression`, as py4j has it.
        session: the rules of the session that runs the query.
        schema: the table's columns. A column that Spark reads as another type is a cast of what files hold; without
            a schema, every column is a cast, and IS NULL, which a cast can cause, is not decided.
        told: what Java has already reported about the expression.

    Returns:
        The same predicate; each part that is not understood is an `Opaque` with the reason. Never raises.
    """
    try:
        return _decode(expression, session, schema, told)
    except Exception as error:  # whatever it is, the query runs without pruning by this predicate
        reason = f"{type(error).__name__} while decoding it: {error}"
        return Opaque((), "the predicate", reason[:_TEXT])


def _decode(
    expression: JavaObject, session: SessionState, schema: TableSchema | None, told: ExpressionJson | None
) -> Expr:
    """Decode the whole at once, or its conjuncts where one of them cannot be decoded."""
    pending = [expression]
    decoded: list[Expr] = []
    splits = _CONJUNCTS
    while pending:
        part = pending.pop()
        try:
            whole = told if part is expression else None
            decoded.append(_decoded(part, session, schema, whole or told_of(part, session.list_threshold)))
        except UntranslatableError as reason:
            if splits > 0 and part.getClass().getName() == _AND:
                splits -= 1
                pending += (part.right(), part.left())
            else:
                decoded.append(_opaque(part, str(reason)))
    return conjunction(tuple(decoded))


def _decoded(
    expression: JavaObject, session: SessionState, schema: TableSchema | None, told: ExpressionJson
) -> Expr:
    nodes = json.loads(told.expression)
    collated = session.collates and names_collation(expression)
    metadata = column_metadata(told.columns)
    builder = Nodes(ExpressionTree(expression), session, schema, metadata, collated=collated)
    return builder.build(cast("list[JsonNode]", nodes))


def _opaque(expression: JavaObject, reason: str) -> Opaque:
    columns = expression.references().toSeq()
    named = [str(columns.apply(place).name()) for place in range(min(int(columns.size()), _COLUMNS_NAMED))]
    text = _EXPRESSION_ID.sub("", str(expression.toString()))
    shown = text if len(text) <= _TEXT else text[:_TEXT] + "…"
    return Opaque(tuple(Column((name,)) for name in named), shown, reason)
