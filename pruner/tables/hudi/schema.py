"""The fields of a Hudi table, and the history of names, ids and types that schema-on-read evolution keeps (trap T2).

Hudi reads each file by the schema of its write: the one that its commit holds or, where it holds none, that of
the history at its instant (`InternalSchemaCache` of 1.2). Engines that do not know the history read it by name.
Both yield the same in files whose write had the name, the id and the type that the table has now.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from pruner.errors import StorageError, TableError
from pruner.schema import Field, Since, TableSchema, flatten
from pruner.tables.footers.file_schemas import plain_schema
from pruner.tables.hudi.properties import HudiProperties
from pruner.tables.hudi.timeline import COMMIT_BYTES, UnreadCommitError, read_commit

if TYPE_CHECKING:
    from pruner.storage.store import Store
    from pruner.tables.hudi.timeline import Timeline

Path = tuple[str, ...]

MAX_DEPTH = 64
"""Depth below which fields of records are ignored."""

_WIDENED = {("int", "long")}
"""Type changes that keep every stored value and its order, by Hudi's names (old, new)."""

_OF_WRITE = "latest_schema"
"""The key of a write's schema in its commit."""

_INSTANT_DIGITS = 17


@dataclass(frozen=True, slots=True)
class _Version:
    """One version of the schema in its history: id and type by path."""

    number: int
    fields: dict[Path, tuple[int, str]]

    def path_of(self, id_: int) -> Path | None:
        """Return the path that the id had."""
        return next((path for path, (own, _) in self.fields.items() if own == id_), None)

    def has(self, path: Path, id_: int, type_: str) -> bool:
        """Tell whether the path already was that column, with a type that holds the same values."""
        old_id, old_type = self.fields.get(path, (None, ""))
        return old_id == id_ and (old_type == type_ or (old_type, type_) in _WIDENED)


class SchemaHistory:
    """What the newest record of the history says.

    Attributes:
        changes: since when a path has been the column of that name and type, for each that was not always.
    """

    def __init__(self, record: bytes, where: str) -> None:
        """Read a record.

        Raises:
            TableError: it cannot be understood.
        """
        schemas = parsed(record, where).get("schemas")
        records = cast("list[object]", schemas) if isinstance(schemas, list) else []
        versions = [
            _version(cast("Mapping[str, Any]", record)) for record in records if isinstance(record, dict)
        ]
        versions.sort(key=lambda each: each.number, reverse=True)
        self._now = versions[0].fields if versions else {}
        self.changes = {
            path: since
            for path in self._now
            if (since := _named_since(path, *self._now[path], versions)) is not None
        }

    def change_of(self, path: Path) -> Since | None:
        """The last change of a path, or of a struct that contains it."""
        changes = [self.changes[path[:n]] for n in range(1, len(path) + 1) if path[:n] in self.changes]
        return max(changes, key=lambda each: each.instant, default=None)

    def without(self, schema: TableSchema, instant: str, written_by: str) -> TableSchema:
        """Mark fields as conflicting that a write has differently although it came after their change.

        Args:
            schema: the table's fields.
            instant: of the write.
            written_by: the schema of the write, as its commit holds it.
        """
        try:
            had = _version(parsed(written_by, instant))
        except TableError:
            had = _Version(-1, {})
        fields = [
            replace(field, conflict=f"{field.since.reason}, and the write of {instant} came in between")
            if field.since is not None and instant > field.since.instant and not self._same(field, had)
            else field
            for field in schema.fields
        ]
        return TableSchema(tuple(fields))

    def _same(self, field: Field, had: _Version) -> bool:
        parts = [field.path[:n] for n in range(1, len(field.path) + 1)]
        return all(had.has(path, *self._now[path]) for path in parts if path in self.changes)


def checked_by_writes(
    schema: TableSchema, history: SchemaHistory, store: Store, timeline: Timeline, instants: Iterable[str]
) -> TableSchema:
    """Mark fields as conflicting where the writes of some instants contradict the history.

    Archived commits are not checked: for these Hudi uses the history, too.
    """
    changed = [field.since.instant for field in schema.fields if field.since is not None]
    for instant in instants:
        finished = timeline.finished.get(instant)
        if finished is not None and changed and instant > min(changed):
            path = f"{timeline.properties.timeline_path}/{finished.name}"
            try:
                written_by = (read_commit(store.get(path, COMMIT_BYTES)).extra_metadata or {}).get(_OF_WRITE)
            except (UnreadCommitError, StorageError):
                written_by = "unknown"
            if written_by:
                schema = history.without(schema, instant, written_by)
    return schema


def _named_since(path: Path, id_: int, type_: str, versions: list[_Version]) -> Since | None:
    """The oldest of the newest versions that all have a column unchanged, where an older one differs."""
    before = next(
        (n for n, version in enumerate(versions) if not version.has(path, id_, type_)), len(versions)
    )
    reasons = (_difference(path, id_, type_, version) for version in versions[before:])
    reason = next((reason for reason in reasons if reason is not None), None)
    if reason is None:
        return None
    return Since(str(versions[before - 1].number).ljust(_INSTANT_DIGITS, "9"), reason)


def _difference(path: Path, id_: int, type_: str, older: _Version) -> str | None:
    name = ".".join(path)
    before = older.path_of(id_)
    if before is not None and before != path:
        return f"it was renamed from {'.'.join(before)!r}, the name that older files have"
    if path not in older.fields or older.has(path, id_, type_):
        return None
    old_id, old_type = older.fields[path]
    if old_id != id_:
        return f"an earlier column {name!r} was dropped, and older files hold that one"
    return f"its type was changed from {old_type} to {type_}"


def _version(record: Mapping[str, Any]) -> _Version:
    number = record.get("version_id")
    return _Version(number if isinstance(number, int) else -1, dict(_versioned(record, ())))


def _versioned(record: Mapping[str, Any], parent: Path) -> Iterator[tuple[Path, tuple[int, str]]]:
    """Yield path, id and type of the fields of one version, in Hudi's own form of a schema."""
    if len(parent) > MAX_DEPTH:
        return
    for entry in entries_of(record):
        path = (*parent, str(entry.get("name")))
        type_ = entry.get("type")
        inner = record_of(type_)
        kind = "record" if inner is not None else json.dumps(type_, sort_keys=True).strip('"')
        yield path, (int(entry.get("id", -1)), kind)
        if inner is not None:
            yield from _versioned(inner, path)


def parsed(text: str | bytes, where: str) -> Mapping[str, Any]:
    """Parse a schema in JSON.

    Raises:
        TableError: it is not one.
    """
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError):
        decoded = None
    if not isinstance(decoded, dict):
        raise TableError(f"the schema of the Hudi table {where} is not understood: it is not a JSON object")
    return cast("Mapping[str, Any]", decoded)


def record_of(type_: object) -> Mapping[str, Any] | None:
    """Return the record that an Avro type or a union with one is, or None."""
    options = cast("list[object]", type_) if isinstance(type_, list) else [type_]
    for option in options:
        if isinstance(option, dict):
            record = cast("Mapping[str, Any]", option)
            if record.get("type") == "record":
                return record
    return None


def entries_of(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the fields of a record."""
    entries = record.get("fields")
    listed = cast("list[object]", entries) if isinstance(entries, list) else []
    return [cast("Mapping[str, Any]", entry) for entry in listed if isinstance(entry, dict)]


def table_schema(
    arrow: pa.Schema, avro: str, history: SchemaHistory | None, properties: HudiProperties, where: str
) -> TableSchema:
    """Return the fields of a Hudi table, its meta columns included.

    Args:
        arrow: the table's schema with meta fields.
        avro: the same in Avro, for the defaults.
        history: that of schema-on-read evolution, if there is any.
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
    """Mark fields as conflicting that did not exist, or had another type, when a snapshot was taken.

    Spark reads a table as of an instant by the schema of that instant, so such a field must not prune there.

    Args:
        schema: the current fields.
        now: the table's current Avro schema, without meta fields.
        then: the same as of the instant; None when it is unknown.
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
    """Yield path and type of the fields of an Avro record, in a spelling that does not depend on type names."""
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
    """Put fields whose paths differ only in case in conflict: engines disagree on which is meant."""
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
