"""Index definitions."""

from __future__ import annotations

import re
import uuid as uuids
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec

from pruner.errors import IndexDefinitionError

if TYPE_CHECKING:
    from collections.abc import Mapping


NAME_CHARACTERS = 128
"""Longest name of an index."""

Uuid = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
"""A UUID as 32 lower-case hexadecimal digits."""


def now() -> str:
    """The current time as records state it: ISO 8601, UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class FieldBinding(msgspec.Struct, frozen=True):
    """A field as it was when the index was defined; `type` is its Arrow type as text, `stored` is `Field.stored`."""

    path: tuple[str, ...]
    type: str
    field_id: int | None = None
    stored: tuple[str, ...] | None = None

    @property
    def recorded(self) -> tuple[str, ...]:
        """The path under which its records are kept: see `pruner.schema.Field.recorded`."""
        return self.stored or self.path


class Over(NamedTuple):
    """What a definition stores of its expression: text and dialect, and its form with the registry and evaluator."""

    text: str
    dialect: str
    form: str
    registry: int
    evaluator: str


class IndexDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One index.

    Records belong to a definition by `uuid` and never by name, so an index that is dropped and created again
    starts empty. `using` names the index type and `record_version` is the version of the records that it
    writes. `all_columns` represents `on="*"`: fields that the table gains are indexed as well. `where` and
    `expression` are SQL text, or None. An expression is in the `dialect` of an engine; `form` is its canonical form by
    the function `registry` of that version (`pruner.expr.derived.canonical`), evaluated by the `evaluator`.
    """

    uuid: Uuid
    name: str
    using: str
    fields: tuple[FieldBinding, ...]
    all_columns: bool = False
    options: dict[str, str] = {}
    where: str | None = None
    expression: str | None = None
    dialect: str | None = None
    form: str | None = None
    registry: int | None = None
    evaluator: str | None = None
    record_version: Annotated[int, msgspec.Meta(ge=1)] = 1
    created_at: str = ""

    def folder(self, partition: str) -> str:
        """The partition of the metadata table for its records: that of its type unless it is over an expression."""
        if self.form is None:
            return partition
        # Records belong to a definition by its UUID, so two names that map to one folder do no harm.
        return "func_index_" + re.sub("[^a-z0-9_]", "_", self.name.lower())

    def why_unusable(self, versions: Mapping[str, int]) -> str | None:
        """Return why this version of pruner cannot use the index, or None if it can.

        An unusable definition stays in the metadata table unchanged, and plans do without it.

        Args:
            versions: name and record version of every index type that is known here.
        """
        known = versions.get(self.using)
        if known is None:
            return f"index {self.name!r} has the type {self.using!r}, which is not installed"
        if self.record_version > known:
            return (
                f"index {self.name!r} has {self.using} records of version {self.record_version}; "
                f"this pruner reads up to {known}"
            )
        return None


def define(
    name: str,
    using: str,
    fields: tuple[FieldBinding, ...],
    *,
    all_columns: bool = False,
    options: Mapping[str, str] | None = None,
    where: str | None = None,
    over: Over | None = None,
    record_version: int = 1,
) -> IndexDefinition:
    """Create a new definition with a UUID and the current time.

    Raises:
        IndexDefinitionError: the name is empty, too long or holds unprintable characters, or there is nothing to
            index.
    """
    check_name(name)
    if not fields and not all_columns:
        raise IndexDefinitionError(f"index {name!r} names no column: give a column or an expression")
    return IndexDefinition(
        uuid=uuids.uuid4().hex,
        name=name,
        using=using,
        fields=fields,
        all_columns=all_columns,
        options=dict(options or {}),
        where=where,
        expression=None if over is None else over.text,
        dialect=None if over is None else over.dialect,
        form=None if over is None else over.form,
        registry=None if over is None else over.registry,
        evaluator=None if over is None else over.evaluator,
        record_version=record_version,
        created_at=now(),
    )


def check_name(name: str) -> None:
    """Refuse a name that no index can have.

    Raises:
        IndexDefinitionError: the name is empty, longer than `NAME_CHARACTERS`, or holds unprintable characters.
    """
    if not name.strip():
        raise IndexDefinitionError("an index needs a name that is not empty")
    if len(name) > NAME_CHARACTERS:
        raise IndexDefinitionError(
            f"the index name {name[:20]!r}… has {len(name)} characters: at most {NAME_CHARACTERS} are allowed"
        )
    if not name.isprintable():
        raise IndexDefinitionError(f"the index name {name!r} holds unprintable characters: remove them")
