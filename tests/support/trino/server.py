"""A real Trino with the plugin, over the tables of the statements, and the service that it asks.

The server's catalogs come in pairs over one file metastore: `hive` and `pruned_hive`, `hudi` and `pruned_hudi`; over
another one there are `iceberg` and `pruned_iceberg`. Each variant of the tables is a schema. Between Trino and the
service stands a gate, so that a test can make the service fail while the server keeps its settings.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pruner
from tests.support.cases.statement_tables import DEFINITIONS, TABLES
from tests.support.running.patience import PATIENCE
from tests.support.service.gate import Gate
from tools.trino.client import Result, TrinoClient
from tools.trino.distribution import OLDEST
from tools.trino.metastore import Metastore, hive_type
from tools.trino.plugin import plugin_jar
from tools.trino.server import TrinoServer, iceberg_catalog, local_catalog, start_trino

HIVE_SETTINGS = {
    "hive.timestamp-precision": "MICROSECONDS",
    "hive.security": "allow-all",
    "hive.non-managed-table-writes-enabled": "true",
}
WAITS = {"pruner.timeout": f"{PATIENCE:g}s"}
"""Scans wait long for their plans: a busy machine must not make tests read what they would not."""
STATIC = {"enable_dynamic_filtering": "false"}
"""Session in which scans read what their plans say, whatever the other side of a join finds meanwhile."""
MILLISECONDS = {**HIVE_SETTINGS, "hive.timestamp-precision": "MILLISECONDS"}
"""Trino's own default: it rounds what it reads."""


def register_statement_tables(metastore: Metastore, schema: str, root: Path, *, hudi: bool) -> None:
    """Make a schema of the three tables below a folder."""
    metastore.add_schema(schema)
    for name in TABLES:
        definition = DEFINITIONS[name]
        columns = {field.name: hive_type(field.type) for field in definition.schema}
        metastore.add_table(
            schema, name, root / name, columns, partition_by=definition.partition_by, hudi=hudi
        )


def statement_configuration(root: Path, schema: str, *, hudi: bool) -> Path:
    """Write a `pruner.toml` for the three tables: Hive tables go by the names of the catalog, Hudi tables by place."""
    lines: list[str] = []
    for name in TABLES:
        lines += [f"[tables.{name}]", f'uri = "{root / name}"']
        lines += [] if hudi else [f'aliases = ["pruned_hive.{schema}.{name}"]']
    path = root / "pruner.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Trino:
    """A running server with the plugin."""

    server: TrinoServer
    metastore: Metastore
    gate: Gate

    def stop(self) -> None:
        """End the server and the gate."""
        self.server.stop()
        self.gate.close()

    @property
    def client(self) -> TrinoClient:
        """Talks to the server."""
        return TrinoClient(self.server.port)

    def run(self, sql: str, *, catalog: str, schema: str, session: Mapping[str, str] | None = None) -> Result:
        """Run a statement in UTC and return all of its rows."""
        return self.client.run(sql, catalog=catalog, schema=schema, session=session)

    def counts(self) -> Counter[str]:
        """Return what the plugin has counted, in all catalogs together: `lakepruner:*` in JMX."""
        found: Counter[str] = Counter()
        for line in self.client.metrics().splitlines():
            if line.startswith("JMX_lakepruner_"):
                name, _, value = line.rpartition(" ")
                found[name.partition("_ATTRIBUTE_")[2]] += int(float(value))
        return found

    def splits_by_scan(self, query_id: str) -> Counter[str]:
        """Return how many splits each scan of a query has read, by its id in the plan."""
        return self.client.splits_by_scan(query_id)


def start_oldest(folder: Path) -> Trino:
    """Start the oldest server that the plugin serves; it has the Hive connector alone."""
    metastore = Metastore(folder / "metastore")
    metastore.folder.mkdir(parents=True)
    gate = Gate()
    # The files of the metastore say that a newer version wrote them.
    common = {**HIVE_SETTINGS, "hive.metastore.version-compatibility": "UNSAFE_ASSUME_COMPATIBILITY"}
    catalogs = {
        "hive": local_catalog("hive", metastore.folder, **common),
        "pruned_hive": local_catalog(
            "pruned_hive", metastore.folder, **common, **{"pruner.url": gate.url}, **WAITS
        ),
    }
    server = start_trino(folder / "server", catalogs, plugin_jars=[plugin_jar()], version=OLDEST)
    return Trino(server, metastore, gate)


PAUSE = 6
"""Seconds for which the catalog `pruned_pausing` does not ask a service that took too long."""


def start(folder: Path, *, others: Mapping[str, Mapping[str, str]] | None = None) -> Trino:
    """Start a server with all pairs of catalogs in an empty folder."""
    metastore = Metastore(folder / "metastore")
    metastore.folder.mkdir(parents=True)
    iceberg = folder / "iceberg"
    iceberg.mkdir()
    gate = Gate()
    asking = {"pruner.url": gate.url, **WAITS}
    hasty = {**asking, "pruner.timeout": "400ms"}
    catalogs = {
        "hive": local_catalog("hive", metastore.folder, **HIVE_SETTINGS),
        "pruned_hive": local_catalog("pruned_hive", metastore.folder, **HIVE_SETTINGS, **asking),
        "pruned_hasty": local_catalog(
            "pruned_hive", metastore.folder, **HIVE_SETTINGS, **hasty, **{"pruner.pause": "0s"}
        ),
        "pruned_failing": local_catalog(
            "pruned_hive", metastore.folder, **HIVE_SETTINGS, **asking, **{"pruner.pause": "0s"}
        ),
        "pruned_pausing": local_catalog(
            "pruned_hive", metastore.folder, **HIVE_SETTINGS, **hasty, **{"pruner.pause": f"{PAUSE}s"}
        ),
        "pruned_alone": local_catalog(
            "pruned_hive", metastore.folder, **HIVE_SETTINGS, **{"pruner.url": "http://127.0.0.1:1"}
        ),
        "pruned_waiting": local_catalog(
            "pruned_hive",
            metastore.folder,
            **HIVE_SETTINGS,
            **asking,
            **{"pruner.dynamic-filter-wait": "10s"},
        ),
        "hive_millis": local_catalog("hive", metastore.folder, **MILLISECONDS),
        "pruned_millis": local_catalog("pruned_hive", metastore.folder, **MILLISECONDS, **asking),
        "hudi": local_catalog("hudi", metastore.folder),
        "pruned_hudi": local_catalog("pruned_hudi", metastore.folder, **asking),
        "iceberg": iceberg_catalog("iceberg", iceberg),
        "pruned_iceberg": iceberg_catalog(
            "pruned_iceberg", iceberg, **asking, **{"pruner.answer-min-files": "0"}
        ),
        "pruned_iceberg_waiting": iceberg_catalog(
            "pruned_iceberg", iceberg, **asking, **{"pruner.dynamic-filter-wait": "10s"}
        ),
        "pruned_iceberg_failing": iceberg_catalog(
            "pruned_iceberg", iceberg, **asking, **{"pruner.pause": "0s", "pruner.answer-min-files": "0"}
        ),
        **(others or {}),
    }
    server = start_trino(folder / "server", catalogs, plugin_jars=[plugin_jar()], iceberg=True)
    return Trino(server, metastore, gate)


def aged(root: Path) -> Path:
    """Date all files below a folder back by an hour: the plugin reads files that are seconds old in any case."""
    before = time.time() - 3600
    for path in root.rglob("*.parquet"):
        os.utime(path, (before, before))
    return root


def index_all(root: Path, tables: Sequence[str] = TABLES) -> None:
    """Index every column of tables below a folder."""
    for name in tables:
        pruner.open_table(root / name).create_index("stats", on="*")
