"""Catalyst's predicate of a scan as the common expression form.

The expression comes as JSON in one call (`TreeNode.toJSON`, the nodes in pre-order), and the few things that the
JSON does not have are fetched from the nodes. It never passes through SQL text, which is not read alike by the
versions of Spark. What is not understood is `Opaque`; nothing that happens here fails a query.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, cast

from pruner.expr.nodes import Column, Expr, Opaque, conjunction
from pruner_spark.catalyst.nodes import Nodes
from pruner_spark.catalyst.source import (
    JavaObject,
    JsonNode,
    Source,
    Told,
    UndecodableError,
    column_metadata,
    names_collation,
    told_of,
)

if TYPE_CHECKING:
    from pruner.schema import TableSchema
    from pruner_spark.session import SessionState

_AND = "org.apache.spark.sql.catalyst.expressions.And"
_CONJUNCTS = 64
_COLUMNS_NAMED = 8
_TEXT = 200
_EXPRESSION_ID = re.compile(r"#\d+L?")


def decode(
    expression: JavaObject,
    session: SessionState,
    schema: TableSchema | None = None,
    told: Told | None = None,
) -> Expr:
    """Decode one Catalyst expression of type boolean.

    Args:
        expression: `org.apache.spark.sql.catalyst.expressions.Expression`, as py4j has it.
        session: the rules of the session that runs the query.
        schema: the table's columns. A column that Spark reads as another type is a cast of what files hold; without
            a schema every column is one, and IS NULL, which a cast can bring about, is not decided.
        told: what Java told of the expression already.

    Returns:
        The same predicate; each part that is not understood is an `Opaque` with the reason. Never raises.
    """
    try:
        return _decode(expression, session, schema, told)
    except Exception as error:  # whatever it is, the query runs on without pruning by this predicate
        reason = f"{type(error).__name__} while decoding it: {error}"
        return Opaque((), "the predicate", reason[:_TEXT])


def _decode(
    expression: JavaObject, session: SessionState, schema: TableSchema | None, told: Told | None
) -> Expr:
    """Decode the whole at once, or its conjuncts where one of them is better left alone."""
    pending = [expression]
    decoded: list[Expr] = []
    splits = _CONJUNCTS
    while pending:
        part = pending.pop()
        try:
            whole = told if part is expression else None
            decoded.append(_decoded(part, session, schema, whole or told_of(part, session.list_threshold)))
        except UndecodableError as reason:
            if splits > 0 and part.getClass().getName() == _AND:
                splits -= 1
                pending += (part.right(), part.left())
            else:
                decoded.append(_opaque(part, str(reason)))
    return conjunction(tuple(decoded))


def _decoded(expression: JavaObject, session: SessionState, schema: TableSchema | None, told: Told) -> Expr:
    nodes = json.loads(told.expression)
    collated = session.collates and names_collation(expression)
    metadata = column_metadata(told.columns)
    builder = Nodes(Source(expression), session, schema, metadata, collated=collated)
    return builder.build(cast("list[JsonNode]", nodes))


def _opaque(expression: JavaObject, reason: str) -> Opaque:
    columns = expression.references().toSeq()
    named = [str(columns.apply(place).name()) for place in range(min(int(columns.size()), _COLUMNS_NAMED))]
    text = _EXPRESSION_ID.sub("", str(expression.toString()))
    shown = text if len(text) <= _TEXT else text[:_TEXT] + "…"
    return Opaque(tuple(Column((name,)) for name in named), shown, reason)
