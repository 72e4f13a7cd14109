"""The fields of a Hudi table: its Avro schema, what fills in for absent columns, the history of names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa

from pruner.errors import TableError
from pruner.schema import Field, TableSchema, flatten
from pruner.tables.file_schemas import plain_schema
from pruner.tables.hudi_properties import HudiProperties

Path = tuple[str, ...]

_WIDENED = {("int", "long")}
"""Changes of a type that keep every stored value and its order, by Hudi's names (old, new)."""

_MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class _Version:
    """One version of the schema in its history: id and type by path."""

    fields: dict[Path, tuple[int, str]]

    def path_of(self, id_: int) -> Path | None:
        """Return the path that the id had."""
        return next((path for path, (own, _) in self.fields.items() if own == id_), None)


def table_schema(
    arrow: pa.Schema, avro: str, history: bytes | None, properties: HudiProperties, where: str
) -> TableSchema:
    """Return the fields of a Hudi table, its meta columns included.

    Args:
        arrow: the table's schema with meta fields.
        avro: the same in Avro, for the defaults.
        history: the newest record of schema-on-read evolution, if there is one.
        properties: which columns are partition columns and whether files hold them.
        where: the table, for error messages.

    Raises:
        TableError: a part of the schema cannot be understood.
    """
    defaulted = set(_defaulted(_parse(avro, where), ()))
    changed = _changed(history, where) if history else {}
    partition = {name.lower() for name in properties.partition_fields}
    fields: list[Field] = []
    for path, entry in flatten(plain_schema(arrow)):
        is_partition = len(path) == 1 and path[0].lower() in partition
        fields.append(
            Field(
                path,
                entry.type,
                partition=is_partition,
                in_file=not (is_partition and properties.drops_partition_columns),
                absent_is_null=path not in defaulted,
                conflict=next(
                    (changed[path[:n]] for n in range(1, len(path) + 1) if path[:n] in changed), None
                ),
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
    today, before = dict(_typed(_parse(now, where), ())), dict(_typed(_parse(then, where), ()))
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
    if len(parent) > _MAX_DEPTH:
        return
    for entry in _entries(record):
        path = (*parent, str(entry.get("name")))
        inner = _record_of(entry.get("type"))
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
    """Put fields whose paths differ in case alone in conflict: engines do not agree which one is meant."""
    seen: dict[Path, int] = {}
    for field in fields:
        lower = tuple(part.lower() for part in field.path)
        seen[lower] = seen.get(lower, 0) + 1
    for field in fields:
        if seen[tuple(part.lower() for part in field.path)] > 1:
            yield replace(field, conflict="another column differs from it in case alone")
        else:
            yield field


def _parse(text: str | bytes, where: str) -> Mapping[str, Any]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise TableError(f"the schema of the Hudi table {where} is not understood: it is no JSON object")
    return cast("Mapping[str, Any]", parsed)


def _defaulted(record: Mapping[str, Any], parent: Path, *, within: bool = False) -> Iterator[Path]:
    """Yield the fields of an Avro record with a default: a file without them does not read as NULL.

    The default of a record gives all fields inside it a value (`within`).
    """
    if len(parent) > _MAX_DEPTH:
        return
    for entry in _entries(record):
        path = (*parent, str(entry.get("name")))
        filled = within or entry.get("default") is not None
        if filled:
            yield path
        inner = _record_of(entry.get("type"))
        if inner is not None:
            yield from _defaulted(inner, path, within=filled)


def _record_of(type_: object) -> Mapping[str, Any] | None:
    """Return the record that an Avro type or a union with one is, or None."""
    options = cast("list[object]", type_) if isinstance(type_, list) else [type_]
    for option in options:
        if isinstance(option, dict):
            record = cast("Mapping[str, Any]", option)
            if record.get("type") == "record":
                return record
    return None


def _entries(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    entries = record.get("fields")
    found = cast("list[object]", entries) if isinstance(entries, list) else []
    return [cast("Mapping[str, Any]", entry) for entry in found if isinstance(entry, dict)]


def _changed(history: bytes, where: str) -> dict[Path, str]:
    """Return why a field cannot serve pruning, for each whose name, id and type did not stay (trap T2)."""
    schemas = _parse(history, where).get("schemas")
    records = cast("list[object]", schemas) if isinstance(schemas, list) else []
    versions = [
        _Version(dict(_versioned(cast("Mapping[str, Any]", record), ())))
        for record in sorted(records, key=_version_id, reverse=True)
        if isinstance(record, dict)
    ]
    found: dict[Path, str] = {}
    for path, (id_, type_) in versions[0].fields.items() if versions else ():
        for older in versions[1:]:
            reason = _difference(path, id_, type_, older)
            if reason is not None:
                found.setdefault(path, reason)
    return found


def _version_id(record: object) -> int:
    value = cast("Mapping[str, Any]", record).get("version_id") if isinstance(record, dict) else None
    return value if isinstance(value, int) else -1


def _difference(path: Path, id_: int, type_: str, older: _Version) -> str | None:
    name = ".".join(path)
    before = older.path_of(id_)
    if before is not None and before != path:
        return f"it was renamed from {'.'.join(before)!r}, the name that older files have"
    if path not in older.fields:
        return None
    old_id, old_type = older.fields[path]
    if old_id != id_:
        return f"an earlier column {name!r} was dropped, and older files hold that one"
    if old_type != type_ and (old_type, type_) not in _WIDENED:
        return f"its type was changed from {old_type} to {type_}"
    return None


def _versioned(record: Mapping[str, Any], parent: Path) -> Iterator[tuple[Path, tuple[int, str]]]:
    """Yield path, id and type of the fields of one version, in Hudi's own form of a schema."""
    if len(parent) > _MAX_DEPTH:
        return
    for entry in _entries(record):
        path = (*parent, str(entry.get("name")))
        type_ = entry.get("type")
        inner = _record_of(type_)
        kind = "record" if inner is not None else json.dumps(type_, sort_keys=True).strip('"')
        yield path, (int(entry.get("id", -1)), kind)
        if inner is not None:
            yield from _versioned(inner, path)
