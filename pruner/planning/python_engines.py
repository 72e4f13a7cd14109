"""A plan's files handed to a Python engine, by the adapter of that engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pruner.plugins import Group, load_plugin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def scan_with(
    engine: str,
    plan: object,
    columns: Sequence[str] | None,
    storage_options: Mapping[str, str],
    into: Any = None,
) -> Any:
    """The files of a plan (`pruner.Plan`) as a Python engine reads them: see `pruner.adapters.FileScanner.scan`.

    Raises:
        BrokenPluginError: the engine is not installed; with what to install.
        SchemaError, TableError: as `FileScanner.scan` does.
    """
    scanner: Any = load_plugin(Group.ADAPTERS, engine)
    return scanner.scan(plan, columns, storage_options, into)
