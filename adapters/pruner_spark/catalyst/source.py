"""Calls to a Catalyst expression in the JVM: few, counted and bounded."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from weakref import WeakKeyDictionary

import pyarrow as pa

from pruner.expr.types import decimal_digits, is_binary, is_instant, is_string, unit_of

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

JavaObject: TypeAlias = Any
"""An object of the JVM; py4j does not type them."""

JsonNode: TypeAlias = "dict[str, Any]"
"""One node of `TreeNode.toJSON`; `class` is its Java class, `num-children` the number of subtrees that follow it."""


NODES_ASKED: Final = 1_000
"""Most nodes of one expression that are fetched for what their JSON does not contain; about 0.2 ms each."""

SET_VALUES: Final = 1_000_000
"""Most values of one `InSet`."""

JSON_CHARACTERS: Final = 64 * 1024 * 1024
"""Longest JSON of an expression."""

CASES: Final = 6
"""Most nested CASE expressions: each level doubles the JSON (it repeats the branches)."""

LISTED_OPTIONS: Final = 1_000
"""Most options of an IN that is not an `InSet`: the cost of `toJSON` is quadratic in their number."""

_ASKING_TIMES = 3
_PATTERNS = "org.apache.spark.sql.catalyst.trees.TreePattern"
_TYPE_UTILITIES = "org.apache.spark.sql.catalyst.types.DataTypeUtils"
_by_machine: MutableMapping[Any, dict[str, JavaObject]] = WeakKeyDictionary()


class UntranslatableError(Exception):
    """A part of the expression has no exact counterpart in the expression form; the message says why."""


class Later:
    """An object of the JVM that is fetched on first use."""

    def __init__(self, fetch: Callable[[], JavaObject]) -> None:
        self._fetch = fetch

    @cached_property
    def _object(self) -> JavaObject:
        return self._fetch()

    def __getattr__(self, name: str) -> Any:
        """The object's attribute of that name, usually a method."""
        return getattr(self._object, name)


class ExpressionTree:
    """One expression and its nodes, by their positions in the pre-order that `toJSON` and `apply` share."""

    def __init__(self, expression: JavaObject) -> None:
        self._expression = expression
        self._asked = 0

    def node(self, place: int) -> JavaObject:
        """Return a node itself.

        Raises:
            UntranslatableError: too many nodes were fetched already.
        """
        self._asked += 1
        if self._asked > NODES_ASKED:
            raise UntranslatableError(f"more than {NODES_ASKED} values that have to be asked for one by one")
        return self._expression.apply(place)

    def literal_value(self, place: int) -> Any:
        """Return the value of a Literal: days of a date, microseconds of a timestamp, bytes of a binary."""
        return self.node(place).value()

    def text_bytes(self, place: int) -> bytes:
        """Return the bytes of a string Literal, which need not be UTF-8."""
        return bytes(self.literal_value(place).getBytes())

    def cast_mode(self, place: int) -> str:
        """Return the mode of a Cast: ANSI, LEGACY or TRY."""
        return str(self.node(place).evalMode().toString())

    def like_escape(self, place: int) -> str:
        """Return the escape character of a Like."""
        return str(self.node(place).escapeChar())

    def set_values(self, place: int) -> tuple[list[str], bool]:
        """Return the values of an InSet as Java prints them, and whether there is a NULL among them.

        Raises:
            UntranslatableError: the set is too large, or its texts contain every separator that was tried.
        """
        values = self.node(place).hset()
        size = int(values.size())
        if size > SET_VALUES:
            raise UntranslatableError(f"a list of more than {SET_VALUES:,} values")
        has_null = bool(values.contains(None))
        if has_null:
            values, size = getattr(values, "$minus")(None), size - 1
        if size == 0:
            return [], has_null
        for _ in range(_ASKING_TIMES):
            separator = f"\u001f{secrets.token_hex(8)}\u001f"
            texts = str(values.mkString(separator)).split(separator)
            if len(texts) == size:
                return texts, has_null
        raise UntranslatableError("the values of the list could not be told apart")

    def set_sql(self, place: int) -> str:
        """Return the SQL of an InSet, which has the bytes of binary values."""
        node = self.node(place)
        if int(node.hset().size()) > SET_VALUES:
            raise UntranslatableError(f"a list of more than {SET_VALUES:,} values")
        return str(node.sql())


def expression_json(expression: JavaObject, list_threshold: int) -> str:
    """Return the JSON of an expression, unless it would be too large.

    Raises:
        UntranslatableError: it holds a subquery, too many nested cases, or too long a list of expressions.
    """
    patterns = _java(expression)
    if expression.containsAnyPattern(patterns["heavy"]):
        if expression.containsPattern(patterns["PLAN_EXPRESSION"]):
            raise UntranslatableError("it depends on a subquery")
        if str(expression.toString()).count("CASE") > CASES:
            raise UntranslatableError(f"more than {CASES} cases")
    if list_threshold > LISTED_OPTIONS and expression.containsPattern(patterns["IN"]):
        raise UntranslatableError("spark.sql.optimizer.inSetConversionThreshold lets lists come too long")
    text = str(expression.toJSON())
    if len(text) > JSON_CHARACTERS:
        raise UntranslatableError("it is too large")
    return text


def names_collation(expression: JavaObject) -> bool:
    """Tell whether text in the expression may be compared under a collation, which the JSON of Spark 4.0 hides.

    Spark gives both sides of a comparison the same collation, and the SQL of a literal names it.
    """
    return "collat" in str(expression.sql()).lower()


@dataclass(frozen=True, slots=True)
class ExpressionJson:
    """An expression as Java reported it with its scan: its JSON, and the schema of its columns as JSON."""

    expression: str
    columns: str


def told_of(expression: JavaObject, list_threshold: int) -> ExpressionJson:
    """Fetch the JSON of an expression and the schema of its columns.

    Raises:
        UntranslatableError: its JSON would be too large.
    """
    told = expression_json(expression, list_threshold)
    struct = _java(expression)["fromAttributes"](expression.references().toSeq())
    return ExpressionJson(told, str(struct.json()))


def column_metadata(columns: str) -> dict[str, dict[str, Any]]:
    """Return the metadata of the columns of an expression by name, from their schema; `toJSON` writes `{}` for it."""
    metadata: dict[str, dict[str, Any]] = {}
    for field in json.loads(columns)["fields"]:
        metadata.setdefault(str(field["name"]), {}).update(field["metadata"])
    return metadata


def _java(expression: JavaObject) -> dict[str, JavaObject]:
    """Return the members of Spark's classes that are needed, looked up once for each JVM.

    These are the tree patterns of an expression, and the function from columns to a schema.
    """
    from py4j.java_gateway import JavaClass  # pyright: ignore[reportMissingTypeStubs]

    client = expression._gateway_client
    known = _by_machine.get(client)
    if known is None:
        patterns = cast("Any", JavaClass(_PATTERNS, client))
        known = {name: getattr(patterns, name)() for name in ("PLAN_EXPRESSION", "CASE_WHEN", "IN")}
        utilities = cast("Any", JavaClass("org.apache.spark.api.python.PythonUtils", client))
        known["heavy"] = utilities.toSeq([known["PLAN_EXPRESSION"], known["CASE_WHEN"]])
        known["fromAttributes"] = cast("Any", JavaClass(_TYPE_UTILITIES, client)).fromAttributes
        _by_machine[client] = known
    return known


# Catalyst's types, as `DataType.json` writes them, and their Arrow types.

INSTANT: Final = pa.timestamp("us", "UTC")
NAIVE: Final = pa.timestamp("us")

_PLAIN: Final[dict[str, pa.DataType]] = {
    "void": pa.null(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": INSTANT,
    "timestamp_ntz": NAIVE,
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)", re.ASCII)
_UNSIGNED: Final[dict[pa.DataType, pa.DataType]] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


def arrow_type(described: Any) -> pa.DataType | None:
    """Return the Arrow type of a Catalyst type; None for a type on which predicates are never decided.

    A name with more than the type's name (a collation, a length) is not the plain type and gives None.
    """
    if not isinstance(described, str):
        return None  # structs, arrays, maps, user-defined types
    plain = _PLAIN.get(described)
    if plain is not None:
        return plain
    match = _DECIMAL.fullmatch(described)
    if match is None:
        return None
    precision, scale = int(match[1]), int(match[2])
    return pa.decimal128(precision, scale) if 1 <= precision <= 38 and 0 <= scale <= precision else None


def is_read_as(stored: pa.DataType, read: pa.DataType) -> bool:
    """Tell whether Spark, asked for `read`, reads unchanged a column that the table's schema has as `stored`.

    Timestamps match whatever their unit and zone: `pruner.expr` handles how instants relate to wall clocks.
    """
    if pa.types.is_timestamp(stored):
        # Only INT96 is finer than microseconds, and Spark always reads it as an instant.
        return pa.types.is_timestamp(read) and (unit_of(stored) != "ns" or is_instant(read))
    if is_string(stored):
        return is_string(read)
    if is_binary(stored):
        return is_binary(read)
    if pa.types.is_decimal(stored):
        return pa.types.is_decimal(read) and decimal_digits(stored) == decimal_digits(read)
    return _UNSIGNED.get(stored, stored) == read
