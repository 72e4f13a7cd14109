"""Single tables for tests of the Trino plugin, each with an index and a service that knows it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import pruner
from tests.support.service.planner import running_service
from tests.support.trino.server import Result, Trino, aged

SCHEMA = "singles"
CATALOGS = (
    "pruned_hive", "pruned_hasty", "pruned_failing", "pruned_pausing", "pruned_alone", "pruned_waiting", "pruned_millis"
)  # fmt: skip
"""Catalogs whose names for a table the service knows; Hudi tables it knows by their place."""


@dataclass(frozen=True)
class Registered:
    """A table that Trino and the service know."""

    trino: Trino
    name: str
    root: Path
    schema: str = SCHEMA

    def run(self, where: str, catalog: str = "pruned_hive", **session: str) -> Result:
        """Count the rows that a predicate holds for."""
        sql = f"SELECT count(*) FROM {self.name} WHERE {where}"
        return self.trino.run(sql, catalog=catalog, schema=SCHEMA, session=session)

    def splits(self, result: Result) -> int:
        """How many splits the query's only scan has read."""
        return sum(self.trino.splits_by_scan(result.query_id).values())


@dataclass(frozen=True)
class TrinoTables:
    """Registers tables for one test; the services that it starts end with `running`."""

    trino: Trino
    running: ExitStack

    def register(
        self,
        root: Path,
        columns: Mapping[str, str],
        *,
        partition_by: str = "",
        hudi: bool = False,
        indexed: bool = True,
    ) -> Registered:
        """Register the table below `root`, and point the gate at a service that knows it.

        Args:
            root: of the table; nothing but the index is written, beside it.
            columns: Hive's types by name.
            partition_by: the partition column, where there is one.
            hudi: whether it is a Hudi table.
            indexed: whether an index of pruner's is built first.
        """
        name = f"t{time.monotonic_ns()}"
        if indexed:
            pruner.open_table(aged(root)).create_index("stats", on="*")
        self.trino.metastore.ensure_schema(SCHEMA)
        self.trino.metastore.add_table(SCHEMA, name, root, columns, partition_by=partition_by, hudi=hudi)
        aliases = ", ".join(f'"{catalog}.{SCHEMA}.{name}"' for catalog in CATALOGS)
        config = root.with_name(f"{name}.toml")
        config.write_text(f'[tables.{name}]\nuri = "{root}"\naliases = [{aliases}]\n', encoding="utf-8")
        self.trino.gate.target = self.running.enter_context(running_service(config))
        self.trino.gate.forget()
        return Registered(self.trino, name, root)


def write_plain(path: Path, table: pa.Table) -> None:
    """Write a file whose size depends on the number and types of its values alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="none", use_dictionary=False)
