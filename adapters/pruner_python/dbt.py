"""A plugin of dbt-duckdb: models that select from a source read it pruned.

In `profiles.yml`: `plugins: [{module: pruner_python.dbt, alias: pruner}]`. A table of a source has `plugin: pruner`,
and `uri` with the other keys of `pruner.toml`; without `uri`, its name is looked up there. See docs/dbt.md.
"""

# dbt is installed in an environment of its own.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from dbt.adapters.duckdb.plugins import BasePlugin

from pruner.catalog.names import open_given
from pruner.catalog.settings import TABLE_KEYS
from pruner_python.datasets import DatasetScan, PrunedDataset


class Plugin(BasePlugin):
    """The plugin that dbt-duckdb loads for `module: pruner_python.dbt`.

    With `scans: FILE` in its `config`, each scan appends the report of its plan to the file, one JSON object per line.
    """

    def initialize(self, plugin_config: dict[str, Any]) -> None:
        """Take the configuration of the profile."""
        scans = plugin_config.get("scans")
        self._scans = None if scans is None else Path(scans)
        self._lock = threading.Lock()

    def load(self, source_config: Any) -> PrunedDataset:
        """The rows of a source's table, over which dbt creates a view."""
        name = f"{source_config.schema}.{source_config.identifier}"
        options = {key: source_config.meta[key] for key in TABLE_KEYS if key in source_config.meta}
        table = open_given({"uri": source_config.identifier, **options}, f"source {name}")
        return PrunedDataset(table, name, None if self._scans is None else self._report)

    def default_materialization(self) -> str:
        """A view, so that the filters of each model reach the files."""
        return "view"

    def _report(self, scan: DatasetScan) -> None:
        assert self._scans is not None
        with self._lock, self._scans.open("a", encoding="utf-8") as file:
            file.write(scan.plan.to_json() + "\n")
