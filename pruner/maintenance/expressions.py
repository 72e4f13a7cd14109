"""What an index is defined over: expressions, and the WHERE of a partial index.

The WHERE is a predicate on partition columns that determines which slices a partial index takes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from pruner.errors import IndexDefinitionError, PredicateError, PrunerError, SchemaError
from pruner.evidence.snapshot import SnapshotEvidence
from pruner.expr.binding.bind import bind
from pruner.expr.bound.fields import leaves, unknowns
from pruner.expr.derived.canonical import FindColumn, NotCanonical, canonical, last_change, parsed
from pruner.expr.derived.indexed import derived_field
from pruner.expr.engines import REFERENCE_ENGINE
from pruner.expr.functions.registry import REGISTRY_VERSION
from pruner.expr.identifier import parse_column_path
from pruner.expr.nodes import Column
from pruner.expr.parquet_reading import as_read
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.metadata.definitions import Over
from pruner.pipeline.evaluation import evaluator
from pruner.planning.planner import Planner

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import BoundExpr
    from pruner.metadata.definitions import IndexDefinition
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.schema import Field, TableSchema
    from pruner.tables.snapshot import Snapshot

_ZONE = "UTC"
"""Time zone of the evaluation: an index over an instant is over its wall clock there."""


def is_expression(text: str) -> bool:
    """Tell whether a text is not a column path."""
    try:
        parse_column_path(text)
    except IndexDefinitionError:
        return True
    return False


def understood(text: str, dialect: str | None, schema: TableSchema) -> tuple[Field, Over]:
    """The field and the definition of an expression for a new index.

    Raises:
        IndexDefinitionError: it cannot be parsed, or has a part that is not in the function registry.
        PrunerError: its evaluator is not installed.
    """
    engine, shown = dialect or REFERENCE_ENGINE, text.strip()
    try:
        semantics = Semantics(engine=engine, zone=_ZONE)
        finder = _finder(schema, semantics)
        form = canonical(parse_predicate(text, semantics), finder, engine)
        # Plans know the index only by this form, in which an instant is no longer a UTC wall clock.
        canonical(form.expression, finder, None)
    except PredicateError as error:
        about = str(error).replace("the predicate", "the expression", 1)
        raise IndexDefinitionError(f"an index cannot be over {shown!r}: {about}") from error
    except NotCanonical as reason:
        raise IndexDefinitionError(
            f"an index cannot be over {shown!r}: {reason}{_place(text, reason.name)} "
            "(docs/index-functions.md lists the functions)"
        ) from None
    return derived_field(form), Over(shown, engine, form.text, REGISTRY_VERSION, evaluator())


def _place(text: str, name: str) -> str:
    """The position of a function or column in a text; empty if its name is not found there."""
    match = re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE) if name else None
    if match is None:
        return ""
    line = text.count("\n", 0, match.start()) + 1
    column = match.start() - (text.rfind("\n", 0, match.start()) + 1) + 1
    return f", at line {line}, column {column}"


def field_of(definition: IndexDefinition, schema: TableSchema) -> Field | None:
    """The field of a definition's expression in the current table; None if a column is gone or has changed."""
    if definition.form is None:
        return None
    semantics = Semantics(engine=definition.dialect or REFERENCE_ENGINE, zone=_ZONE)
    try:
        return derived_field(canonical(parsed(definition.form), _finder(schema, semantics), None))
    except (NotCanonical, PrunerError, msgspec.DecodeError, msgspec.ValidationError):
        return None


def fields_by_name(
    definitions: Iterable[IndexDefinition], schema: TableSchema
) -> Iterator[tuple[str, Field]]:
    """The case-folded names of indexes over expressions, with the fields of their expressions."""
    for definition in definitions:
        field = field_of(definition, schema)
        if field is not None:
            yield definition.name.casefold(), field


def why_outdated(definition: IndexDefinition) -> str | None:
    """Return why records written now would not be those that the definition promises (rule R10); None if they are."""
    if definition.form is None:
        return None
    try:
        needed = last_change(definition.form)
    except (PrunerError, msgspec.DecodeError, msgspec.ValidationError):
        needed = REGISTRY_VERSION + 1
    if needed <= (definition.registry or 0) <= REGISTRY_VERSION:
        return None
    return (
        f"index {definition.name!r} is over functions of version {definition.registry} of the registry, and this "
        f"pruner has version {REGISTRY_VERSION}, in which they differ: drop it and create it anew"
    )


def _finder(schema: TableSchema, semantics: Semantics) -> FindColumn:
    def find(column: Column) -> Field | str:
        try:
            field = as_read(schema.find(column.path), semantics)
        except SchemaError as error:
            return str(error)
        return field if field.conflict is None else f"column {field.name!r}: {field.conflict}"

    return find


_SEMANTICS = Semantics.of(REFERENCE_ENGINE)
"""The text is stored, so it is always parsed by the same rules. It decides what is recorded, never what is pruned."""


def check_where(text: str, schema: TableSchema) -> None:
    """Refuse a predicate that names anything but partition columns.

    Raises:
        IndexDefinitionError: it names another column, or cannot be understood.
    """
    _bound(text, schema)


def slices_where(text: str, snapshot: Snapshot, segments: SegmentCache) -> NDArray[np.bool_]:
    """Tell for each slice whether its partition can satisfy the predicate.

    Raises:
        IndexDefinitionError: the table no longer has the columns that the predicate names.
    """
    planner = Planner(snapshot, SnapshotEvidence(snapshot, None, segments))
    return planner.plan(_bound(text, snapshot.schema), text, _SEMANTICS).kept_mask


def _bound(text: str, schema: TableSchema) -> BoundExpr:
    try:
        bound = bind(parse_predicate(text, _SEMANTICS), schema, _SEMANTICS)
    except (PredicateError, SchemaError) as error:
        raise IndexDefinitionError(f"WHERE of an index: {error}") from error
    for unknown in unknowns(bound):
        raise IndexDefinitionError(f"WHERE of an index cannot hold {unknown.text}: {unknown.reason}")
    for leaf in leaves(bound):
        if not leaf.field.partition:
            raise IndexDefinitionError(
                f"WHERE of an index names column {leaf.field.name!r}, which is not a partition column: "
                "an index covers whole files"
            )
    return bound
