"""The four statements as values: what was asked for, before any table is looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

DEFAULT_TYPE = "column_stats"
"""Type of an index whose statement does not name one."""

ALL_COLUMNS = "*"
"""What stands in place of the columns for an index on every column of a supported type."""


@dataclass(frozen=True, slots=True)
class IndexedItem:
    """One entry of the column list.

    `text` is a column path, quoted where a part is no plain identifier, or the text of an expression. With
    `before` in front of it, it stands in the line and column in which the statement has it.
    """

    text: str
    is_expression: bool
    before: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """CREATE INDEX. `items` is empty for `*`; `where` is SQL text; `options` are pairs of key and value."""

    name: str
    table: str
    using: str
    items: tuple[IndexedItem, ...]
    where: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex:
    """DROP INDEX. `table` is None where the statement leaves it to be found."""

    name: str
    table: str | None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RefreshIndex:
    """REFRESH INDEX."""

    name: str
    table: str


@dataclass(frozen=True, slots=True)
class ShowIndexes:
    """SHOW INDEXES."""

    table: str


Statement: TypeAlias = CreateIndex | DropIndex | RefreshIndex | ShowIndexes
