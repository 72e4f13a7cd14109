"""Which columns of a table an index is on: the named ones, or with "*" every column that its type can index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.errors import IndexDefinitionError, SchemaError
from pruner.expr.identifier import parse_column_path, render_column_path
from pruner.indexes.registry import require_expressions
from pruner.maintenance.expressions import field_of, is_expression, understood, why_outdated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pruner.indexes.base import IndexType
    from pruner.metadata.definitions import IndexDefinition, Over
    from pruner.metadata.state import SegmentEntry
    from pruner.schema import Field, TableSchema

ALL_COLUMNS = "*"


def chosen(
    schema: TableSchema,
    on: str | Sequence[str],
    kind: IndexType,
    options: dict[str, str],
    dialect: str | None,
) -> tuple[list[Field], Over | None]:
    """Return what a new index will be on: fields of the table, or the field of an expression and the expression.

    Raises:
        IndexDefinitionError: it cannot be indexed, or a column is named twice.
        SchemaError: there is no such column.
    """
    texts = [on] if isinstance(on, str) else list(on)
    expressions = [text for text in texts if text != ALL_COLUMNS and is_expression(text)]
    if not expressions:
        return chosen_fields(schema, on, kind, options), None
    if len(texts) > 1:
        raise IndexDefinitionError(
            f"an index is over one expression, and {expressions[0]!r} stands beside others: create one for each"
        )
    require_expressions(kind)
    derived, over = understood(expressions[0], dialect, schema)
    kind.check(derived, options)
    return [derived], over


def chosen_fields(
    schema: TableSchema, on: str | Sequence[str], kind: IndexType, options: dict[str, str]
) -> list[Field]:
    """Return the fields that a new index will be on.

    Raises:
        IndexDefinitionError: a named field cannot be indexed, or is named twice.
        SchemaError: there is no such column.
    """
    if on == ALL_COLUMNS:
        return _supported(schema, kind, options)
    fields = [schema.find(parse_column_path(text)) for text in ([on] if isinstance(on, str) else on)]
    for chosen in fields:
        if chosen.conflict:
            raise IndexDefinitionError(f"column {chosen.name!r} cannot be indexed: {chosen.conflict}")
        kind.check(chosen, options)
    if len({chosen.path for chosen in fields}) != len(fields):
        raise IndexDefinitionError("a column is named twice in one index: name it once")
    return fields


def fields_of(definition: IndexDefinition, schema: TableSchema, kind: IndexType) -> list[Field]:
    """Return the fields of the current table that a definition covers; those that are gone are omitted."""
    if definition.all_columns:
        return _supported(schema, kind, definition.options)
    if definition.form is not None:
        derived = field_of(definition, schema)
        return [] if derived is None else [derived]
    fields: list[Field] = []
    for binding in definition.fields:
        try:
            about = schema.of_records(binding.recorded)
        except SchemaError:
            continue
        if about.conflict is None:
            fields.append(about)
    return fields


def gained(
    definition: IndexDefinition, entries: Iterable[SegmentEntry], fields: Iterable[Field]
) -> tuple[str, ...]:
    """Return the columns that the table has gained since an index on all columns was built: it has no record of them.

    Args:
        definition: the index.
        entries: its segments.
        fields: what it covers in the current table.
    """
    recorded = {entry.field for entry in entries}
    if not definition.all_columns or not recorded:
        return ()
    return tuple(render_column_path(field.path) for field in fields if field.recorded not in recorded)


def gone(
    definition: IndexDefinition, entries: Iterable[SegmentEntry], schema: TableSchema
) -> tuple[tuple[str, ...], ...]:
    """Return the columns of an index that the table no longer has, by the path of their records.

    Args:
        definition: the index.
        entries: its segments.
        schema: the current schema of the table.
    """
    named = [binding.recorded for binding in definition.fields]
    fields = dict.fromkeys([*named, *(entry.field for entry in entries if entry.field)])
    if definition.form is not None:
        return () if field_of(definition, schema) is not None or why_outdated(definition) else tuple(fields)
    return tuple(path for path in fields if not schema.has_records_of(path))


def recorded_field(definition: IndexDefinition, path: tuple[str, ...], schema: TableSchema) -> Field:
    """Return the field that records of a definition describe, by the path under which they are kept.

    Raises:
        SchemaError: the table no longer has it, or a column of its expression.
    """
    if definition.form is None:
        return schema.of_records(path)
    derived = field_of(definition, schema)
    if derived is None:
        raise SchemaError(
            f"index {definition.name!r} is over {definition.expression}, and the table lacks a column of it"
        )
    return derived


def left_out(schema: TableSchema, kind: IndexType, options: Mapping[str, str]) -> dict[tuple[str, ...], str]:
    """Return why columns are not in an index on all columns: one sentence for each, by path.

    Columns that are only in paths need no index, and a struct does not count as a column besides its fields.
    """
    parents = {field.path[:depth] for field in schema for depth in range(1, len(field.path))}
    reasons: dict[tuple[str, ...], str] = {}
    for candidate in schema:
        if candidate.in_file and candidate.path not in parents:
            reason = _why_not(candidate, kind, options)
            if reason is not None:
                reasons[candidate.path] = reason
    return reasons


def _supported(schema: TableSchema, kind: IndexType, options: Mapping[str, str]) -> list[Field]:
    return [field for field in schema if field.in_file and _why_not(field, kind, options) is None]


def _why_not(field: Field, kind: IndexType, options: Mapping[str, str]) -> str | None:
    if field.conflict:
        return f"column {field.name!r} cannot be indexed: {field.conflict}"
    try:
        kind.check(field, options)
    except IndexDefinitionError as error:
        return str(error)
    return None
