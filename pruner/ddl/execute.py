"""Runs statements: the one place where they meet tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from pruner.ddl.parser import (
    ALL_COLUMNS,
    CreateIndex,
    DropIndex,
    RefreshIndex,
    ShowIndexes,
    Statement,
)
from pruner.errors import IndexDefinitionError, PrunerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pruner.maintenance.build import RefreshResult
    from pruner.maintenance.status import TableStatus
    from pruner.pipeline.requests import Progress
    from pruner.table import Table


class Tables(Protocol):
    """Where a statement finds its table: see `pruner.catalog.names.Catalog`."""

    def names(self) -> Sequence[str]:
        """The names of all known tables."""
        ...

    def open(self, name: str) -> Table:
        """Open a table by name or location."""
        ...


@dataclass(frozen=True, slots=True)
class SqlResult:
    """The result of a statement.

    `changed` is False where IF [NOT] EXISTS left nothing to do, where REFRESH indexed nothing, for SHOW, and for a dry
    run. `refresh` says what CREATE and REFRESH built, or would build. `status` holds the indexes that SHOW found.
    """

    statement: str
    table: str
    index: str | None = None
    changed: bool = False
    refresh: RefreshResult | None = None
    status: TableStatus | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """SHOW: the fields of `pruner.IndexStatus`, one row for each index. Empty for other statements."""
        return [asdict(entry) for entry in self.status.indexes] if self.status else []


def execute(
    statement: Statement,
    tables: Tables,
    progress: Progress | None = None,
    *,
    dialect: str | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> SqlResult:
    """Execute a statement.

    Args:
        statement: the parsed statement.
        tables: finds the tables.
        progress: called with the progress while an index is built.
        dialect: CREATE: engine in whose SQL expressions are written; duckdb unless given.
        force: CREATE: create the index however large it will be.
        dry_run: CREATE and REFRESH: only estimate the cost.

    Raises:
        PrunerError: it cannot be executed; the message says why.

    """
    match statement:
        case CreateIndex():
            table = tables.open(statement.table)
            return _create(statement, table, progress, dialect=dialect, force=force, dry_run=dry_run)
        case DropIndex():
            return _drop(statement, tables)
        case RefreshIndex():
            table = tables.open(statement.table)
            result = table.refresh(index=statement.name, progress=progress, dry_run=dry_run)
            changed = result.indexed > 0 and not dry_run
            return SqlResult("refresh", table.uri, statement.name, changed, refresh=result)
        case ShowIndexes():
            table = tables.open(statement.table)
            return SqlResult("show", table.uri, status=table.status())
        case _:
            assert_never(statement)


def _create(
    statement: CreateIndex,
    table: Table,
    progress: Progress | None,
    *,
    dialect: str | None,
    force: bool,
    dry_run: bool,
) -> SqlResult:
    result = table.create_index(
        statement.name,
        [item.before + item.text for item in statement.items] or ALL_COLUMNS,
        statement.using,
        options=dict(statement.options),
        where=statement.where,
        dialect=dialect,
        if_not_exists=statement.if_not_exists,
        force=force,
        dry_run=dry_run,
        progress=progress,
    )
    changed = result is not None and not dry_run
    return SqlResult("create", table.uri, statement.name, changed, refresh=result)


def _drop(statement: DropIndex, tables: Tables) -> SqlResult:
    table = tables.open(statement.table) if statement.table is not None else _owner(statement, tables)
    if table is None:
        return SqlResult("drop", "", statement.name)
    dropped = table.drop_index(statement.name, if_exists=statement.if_exists)
    return SqlResult("drop", table.uri, statement.name, dropped)


def _owner(statement: DropIndex, tables: Tables) -> Table | None:
    """The only known table with an index of that name; None if there is none and IF EXISTS allows that.

    Every known table must be checked: one that cannot be opened might have such an index, too.
    """
    say_on = f"write DROP INDEX {statement.name} ON <table>"
    wanted = statement.name.casefold()
    owners: dict[str, Table] = {}
    for name in tables.names():
        try:
            table = tables.open(name)
            has_it = any(known.name.casefold() == wanted for known in table.indexes())
        except PrunerError as error:
            raise IndexDefinitionError(
                f"cannot look for index {statement.name!r} in {name}: {error}; {say_on}"
            ) from error
        if has_it:
            owners[table.index_uri] = table
    if len(owners) > 1:
        uris = ", ".join(table.uri for table in owners.values())
        raise IndexDefinitionError(f"several tables have an index {statement.name!r}: {uris}; {say_on}")
    if not owners and not statement.if_exists:
        raise IndexDefinitionError(f"none of the known tables has an index {statement.name!r}; {say_on}")
    return next(iter(owners.values()), None)
