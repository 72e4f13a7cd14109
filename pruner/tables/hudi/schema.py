"""The fields of a Hudi table: its Avro schema, what fills in for absent columns, since when names are theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa

from pruner.schema import Field, TableSchema, flatten
from pruner.tables.footers.file_schemas import plain_schema
from pruner.tables.hudi.properties import HudiProperties
from pruner.tables.hudi.schema_history import MAX_DEPTH, Path, SchemaHistory, entries_of, parsed, record_of


def table_schema(
    arrow: pa.Schema, avro: str, history: SchemaHistory | None, properties: HudiProperties, where: str
) -> TableSchema:
    """Return the fields of a Hudi table, its meta columns included.

    Args:
        arrow: the table's schema with meta fields.
        avro: the same in Avro, for the defaults.
        history: that of schema-on-read evolution, if there is one.
        properties: which columns are partition columns and whether files hold them.
        where: the table, for error messages.

    Raises:
        TableError: a part of the schema cannot be understood.
    """
    defaulted = set(_defaulted(parsed(avro, where), ()))
    partition = {name.lower() for name in properties.partition_fields}
    fields: list[Field] = []
    for path, entry in flatten(plain_schema(arrow)):
        is_partition = len(path) == 1 and path[0].lower() in partition
        since = None if history is None else history.change_of(path)
        fields.append(
            Field(
                path,
                entry.type,
                partition=is_partition,
                in_file=not (is_partition and properties.drops_partition_columns),
                # A file without it may have it under another name.
                absent_is_null=path not in defaulted and since is None,
                conflict=None if since is None or not is_partition else since.reason,
                since=since,
            )
        )
    return TableSchema(tuple(_without_collisions(fields)))


def as_it_was(schema: TableSchema, now: str, then: str | None, where: str) -> TableSchema:
    """Put the fields in conflict that were not there, or had another type, when a snapshot was taken.

    Spark reads a table as of an instant by the schema of that instant, so such a field must not prune there.

    Args:
        schema: the fields as they are now.
        now: the table's Avro schema as it is now, without meta fields.
        then: the same as of the instant; None when it is not known.
        where: the table, for error messages.

    Raises:
        TableError: a schema cannot be understood.
    """
    if then is None:
        reason = "the schema of the table at that instant is not known"
        return TableSchema(
            tuple(replace(field, conflict=field.conflict or reason) for field in schema.fields)
        )
    today, before = dict(_typed(parsed(now, where), ())), dict(_typed(parsed(then, where), ()))
    fields = [
        replace(field, conflict=field.conflict or _since(today[field.path], before.get(field.path)))
        if field.path in today
        else field
        for field in schema.fields
    ]
    return TableSchema(tuple(fields))


def _since(now: str, then: str | None) -> str | None:
    if then is None:
        return "the table did not have it at that instant"
    return None if now == then else f"its type was {then} at that instant and is {now} now"


def _typed(record: Mapping[str, Any], parent: Path) -> Iterator[tuple[Path, str]]:
    """Yield path and type of the fields of an Avro record, in a spelling that names of types do not change."""
    if len(parent) > MAX_DEPTH:
        return
    for entry in entries_of(record):
        path = (*parent, str(entry.get("name")))
        inner = record_of(entry.get("type"))
        yield (
            path,
            "record" if inner is not None else json.dumps(_nameless(entry.get("type")), sort_keys=True),
        )
        if inner is not None:
            yield from _typed(inner, path)


def _nameless(type_: object) -> object:
    if isinstance(type_, list):
        options = [_nameless(option) for option in cast("list[object]", type_)]
        return sorted((option for option in options if option != "null"), key=str)
    if isinstance(type_, dict):
        entries = cast("dict[str, object]", type_)
        return {key: _nameless(value) for key, value in entries.items() if key not in _NAMING}
    return type_


_NAMING = frozenset({"name", "namespace", "doc", "aliases", "default"})


def _without_collisions(fields: list[Field]) -> Iterator[Field]:
    """Put fields whose paths differ only in case in conflict: engines do not agree which one is meant."""
    seen: dict[Path, int] = {}
    for field in fields:
        lower = tuple(part.lower() for part in field.path)
        seen[lower] = seen.get(lower, 0) + 1
    for field in fields:
        if seen[tuple(part.lower() for part in field.path)] > 1:
            yield replace(field, conflict="another column differs from it only in case")
        else:
            yield field


def _defaulted(record: Mapping[str, Any], parent: Path, *, within: bool = False) -> Iterator[Path]:
    """Yield the fields of an Avro record with a default: a file without them does not read as NULL.

    The default of a record gives all fields inside it a value (`within`).
    """
    if len(parent) > MAX_DEPTH:
        return
    for entry in entries_of(record):
        path = (*parent, str(entry.get("name")))
        filled = within or entry.get("default") is not None
        if filled:
            yield path
        inner = record_of(entry.get("type"))
        if inner is not None:
            yield from _defaulted(inner, path, within=filled)
