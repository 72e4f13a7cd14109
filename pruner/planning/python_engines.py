"""A plan's files handed to a Python engine, by the adapter of that engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from pruner.plugins import Group, load_plugin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.planning.plan import Plan


class FileScanner(Protocol):
    """An adapter whose engine reads files in this process, when its user asks for the result."""

    def scan(
        self, plan: Plan, columns: Sequence[str] | None, storage_options: Mapping[str, str], into: Any = None
    ) -> Any:
        """Give all rows of the files to read, lazily, with the names and types of the table.

        Args:
            plan: what is to be read.
            columns: names of top-level columns; all unless given.
            storage_options: options of the store.
            into: what of the engine's own is to hold the result; a new one unless given.

        Raises:
            SchemaError: a column cannot be read as the table has it; with the reason.
            TableError: a slice to read has log files, so that its base file alone is not the table's content.
        """
        ...


def scan_with(
    engine: str,
    plan: Plan,
    columns: Sequence[str] | None,
    storage_options: Mapping[str, str] | None,
    into: Any = None,
) -> Any:
    """The files of a plan as a Python engine reads them: see `FileScanner.scan`.

    Raises:
        BrokenPluginError: the engine is not installed; with what to install.
        SchemaError, TableError: as `FileScanner.scan`.
    """
    scanner = cast("FileScanner", load_plugin(Group.ADAPTERS, engine))
    return scanner.scan(plan, columns, storage_options or {}, into)
