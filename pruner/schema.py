"""The schema of a table in its snapshot: fields by path, with what the formats know about each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, cast

import pyarrow as pa

from pruner.errors import SchemaError
from pruner.parquet_type import ParquetType


def type_name(data_type: pa.DataType) -> str:
    """A type for display: Arrow's own name of the type, except for UUID, whose name is long."""
    return "UUID" if isinstance(data_type, pa.UuidType) else str(data_type)


_BY_ID: Final = "\0"


def path_of_id(field_id: int) -> tuple[str, ...]:
    """The path that finds a column in files by its field id, whatever it and its parents are called there."""
    return (_BY_ID, str(field_id))


def id_of_path(path: tuple[str, ...]) -> int | None:
    """The field id that a path encodes; None for a path of names."""
    return int(path[1]) if path[0] == _BY_ID else None


@dataclass(frozen=True, slots=True)
class Since:
    """The schema change that gave a column its name or type; `reason` describes it.

    Files of writes up to its `instant` hold another column under that name, or this one under another.
    """

    instant: str
    reason: str


@dataclass(frozen=True, slots=True)
class Field:
    """One leaf or struct of the schema.

    `type` is the type in the table (after promotion over files). `field_id` is the Parquet field id where files have
    them. A `partition` field takes its value from the path; `in_file` tells whether files hold it as well (both can be
    true). `conflict`, if set, says how files disagree about the field in a way that no promotion resolves: such a field
    never serves pruning. With `since` set, it serves pruning only in the files of later writes.
    `stored` is the path under which files hold it if that differs (column mapping): it is never reused for a second
    column, so records belong to it and not to the name; it can be a path by field id (`path_of_id`). `stored_type` is
    the type of a top-level column with the names that files give the fields of structs, if those differ.
    `mapped` are the paths under which files without any field ids may hold it, by a name mapping; None without one.
    `absent_is_null` tells whether an engine reads NULL from a file without it; `default` is what it reads instead, as
    an Arrow scalar, if that is the same for all files.
    `parquet` are the Parquet types with which files hold it, None if no footer was read; `pruner.expr.parquet_reading`
    defines how an engine reads them.

    A field for the values of an `expression` over the columns `sources` is in no schema (`pruner.expr.derived`); its
    path begins with an empty name.
    """

    path: tuple[str, ...]
    type: pa.DataType
    field_id: int | None = None
    partition: bool = False
    in_file: bool = True
    absent_is_null: bool = True
    conflict: str | None = None
    since: Since | None = None
    parquet: frozenset[ParquetType] | None = None
    expression: str | None = None
    sources: tuple[Field, ...] = ()
    stored: tuple[str, ...] | None = None
    stored_type: pa.DataType | None = None
    mapped: tuple[tuple[str, ...], ...] | None = None
    default: Any = None

    def __hash__(self) -> int:
        return hash(self.path)  # every plan looks up fields, and few have the same path

    @property
    def name(self) -> str:
        """The dotted path, or the expression; for display, not unique when names hold dots."""
        return ".".join(self.path) if self.expression is None else self.path[-1]

    @property
    def recorded(self) -> tuple[str, ...]:
        """The path under which records of the field are kept: they follow a column that is renamed."""
        if self.expression is None:
            return self.stored or self.path
        if all(source.stored is None for source in self.sources):
            return self.path
        return (*self.path, *(".".join(source.recorded) for source in self.sources))

    def in_files(self) -> Field:
        """The field as files hold it, for readers of the files."""
        return self if self.stored is None else replace(self, path=self.stored, stored=None)

    @property
    def dispute(self) -> str | None:
        """Why some file may hold another column under the name; None if each file holds this one or none."""
        return self.conflict or (None if self.since is None else self.since.reason)

    @property
    def type_name(self) -> str:
        """The type for display. A UUID, which Arrow has as 16 bytes, is recognized by the type in the files."""
        of_uuids = bool(self.parquet) and all(type_.meaning == "UUID" for type_ in self.parquet)
        return "UUID" if of_uuids else type_name(self.type)


@dataclass(frozen=True)
class TableSchema:
    """The fields of a table in order: each top-level column is followed by the nested fields of its structs.

    Fields of lists and maps are not listed: no predicate can name one row's value by such a path.
    """

    fields: tuple[Field, ...]
    extra: dict[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def _by_lower(self) -> dict[tuple[str, ...], list[Field]]:
        index: dict[tuple[str, ...], list[Field]] = {}
        for entry in self.fields:
            index.setdefault(tuple(part.lower() for part in entry.path), []).append(entry)
        return index

    def find(self, path: tuple[str, ...], *, case_sensitive: bool = False) -> Field:
        """Return the field at `path`: the exact spelling, else the only one that differs in case.

        Raises:
            SchemaError: there is no such field, or several differ from `path` only in case.
        """
        candidates = self._by_lower.get(tuple(part.lower() for part in path), [])
        exact = [candidate for candidate in candidates if candidate.path == path]
        if exact and (case_sensitive or len(candidates) == 1):
            return exact[0]
        if case_sensitive or not candidates:
            raise SchemaError(f"no column {'.'.join(path)!r}: the table has {self._names()}")
        if len(candidates) > 1:
            spellings = ", ".join(repr(candidate.name) for candidate in candidates)
            raise SchemaError(f"column {'.'.join(path)!r} is ambiguous: {spellings} differ only in case")
        return candidates[0]

    @cached_property
    def _by_recorded(self) -> dict[tuple[str, ...], Field]:
        return {entry.recorded: entry for entry in reversed(self.fields)}

    def of_records(self, path: tuple[str, ...]) -> Field:
        """Return the field whose records are kept under a path: see `Field.recorded`.

        Raises:
            SchemaError: the table no longer has it.
        """
        own_field = self._by_recorded.get(path)
        if own_field is None:
            raise SchemaError(f"no column {'.'.join(path)!r}: the table has {self._names()}")
        return own_field

    def has_records_of(self, path: tuple[str, ...]) -> bool:
        """Whether the table has a field whose records are kept under a path."""
        return path in self._by_recorded

    def shown(self, recorded: tuple[str, ...], otherwise: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """The path of the field whose records are kept under `recorded`; `otherwise` or `recorded` if it is gone."""
        own_field = self._by_recorded.get(recorded)
        return own_field.path if own_field is not None else otherwise or recorded

    def _names(self, limit: int = 20) -> str:
        names = [entry.name for entry in self.fields if len(entry.path) == 1]
        shown = ", ".join(names[:limit])
        return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")

    @property
    def columns(self) -> tuple[Field, ...]:
        """The top-level fields."""
        return tuple(entry for entry in self.fields if len(entry.path) == 1)

    def filled_in(self, columns: Collection[str]) -> TableSchema:
        """The schema for an engine that reads its own default, not NULL, from files without these columns.

        Args:
            columns: names of top-level columns in lower case.
        """
        fields = (
            replace(entry, absent_is_null=False) if entry.path[0].lower() in columns else entry
            for entry in self.fields
        )
        return replace(self, fields=tuple(fields))

    def to_arrow(self) -> pa.Schema:
        """The top-level fields as an Arrow schema, every field nullable."""
        return pa.schema([pa.field(entry.path[0], entry.type) for entry in self.columns])

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)


def flatten(schema: pa.Schema) -> Iterator[tuple[tuple[str, ...], pa.Field[Any]]]:
    """Yield the path and Arrow field of every top-level column and of every nested struct field, parents first."""
    for top in cast("Iterable[pa.Field[Any]]", schema):
        yield from _flatten_field((top.name,), top)


def _flatten_field(
    path: tuple[str, ...], entry: pa.Field[Any]
) -> Iterator[tuple[tuple[str, ...], pa.Field[Any]]]:
    yield path, entry
    if pa.types.is_struct(entry.type):
        for child in cast("Iterable[pa.Field[Any]]", entry.type):
            yield from _flatten_field((*path, child.name), child)
