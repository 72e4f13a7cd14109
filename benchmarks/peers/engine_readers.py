"""Spark and Trino over the event lake, alone and with pruner: `python -m benchmarks.peers.engine_readers NAME OPTIONS`.

They run in pruner's own environment, each in its own JVM, which answers a statement before it is measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import pruner_spark
from benchmarks.peers.questions import Reader, Rows, listed, serve, statement
from tools.jars import delta_jars, iceberg_jar
from tools.java import AS_SERVERS
from tools.planner_service import planner_service
from tools.spark import hudi_session
from tools.trino.client import TrinoClient
from tools.trino.metastore import Metastore
from tools.trino.plugin import plugin_jar
from tools.trino.server import iceberg_catalog, local_catalog, start_trino

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SKIPPING: Final[Mapping[str, Mapping[str, str]]] = {
    "hudi": {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
}
"""Options that turn on a format's own skipping: in the others it is on by default."""

SCHEMA: Final = "lake"
CONNECTORS: Final = {"parquet": "hive", "hudi": "hudi", "iceberg": "iceberg"}
COLUMNS: Final = {
    "event_id": "bigint",
    "key": "bigint",
    "created_at": "timestamp",
    "type": "string",
    "actor_id": "bigint",
    "repo": "string",
    "zone": "int",
    "distance": "double",
    "fare_cents": "bigint",
    "tip_cents": "bigint",
    "message": "string",
    "payload": "struct<size:int,action:string>",
}
"""The columns of the lake as the Hive metastore writes them."""


class Spark:
    """Spark's own reader of a format, or that reader with pruner."""

    def __init__(self, session: SparkSession, kind: str, index: str | None = None) -> None:
        self._session, self._kind, self._index = session, kind, index

    def open(self, location: str) -> None:
        if self._index is not None:
            pruner_spark.register(self._session, "events", location, index_uri=self._index)
            return
        reader = self._session.read.format(self._kind).options(**SKIPPING.get(self._kind, {}))
        reader.load(location).createOrReplaceTempView("events")

    def ask(self, workload: str, values: dict[str, Any]) -> Rows | None:
        return listed(self._session.sql(statement(workload, values, "events", "TIMESTAMP '{}'")).collect())


class Trino:
    """Trino's own connector of a format, or that connector with pruner.

    Hive and Hudi tables are registered once: each statement lists their folder. For Iceberg, the catalog names the
    newest metadata, so the table is registered again after a commit.
    """

    def __init__(
        self,
        client: TrinoClient,
        metastore: Metastore,
        kind: str,
        plans: Callable[[str], None] | None = None,
        schema: str = SCHEMA,
    ) -> None:
        self._client, self._metastore, self._kind, self._schema = client, metastore, kind, schema
        self._plans = plans
        """Registers the table at a location with pruner's service; None for Trino alone."""
        self._catalog = f"{'pruned_' if plans else ''}{CONNECTORS[kind]}"
        self._opened = False

    def open(self, location: str) -> None:
        if self._kind == "iceberg":
            self._register(Path(location))
        elif not self._opened:
            self._metastore.ensure_schema(self._schema)
            hudi = self._kind == "hudi"
            self._metastore.add_table(self._schema, "events", Path(location), COLUMNS, hudi=hudi)
        if self._plans is not None and not self._opened:
            self._plans(location)
        self._opened = True

    def ask(self, workload: str, values: dict[str, Any]) -> Rows | None:
        # The Hive metastore knows only timestamps without a zone.
        instant = "TIMESTAMP '{} UTC'" if self._kind == "iceberg" else "TIMESTAMP '{}'"
        return listed(self._run(statement(workload, values, "events", instant)))

    def _register(self, metadata: Path) -> None:
        if self._opened:
            self._run(f"CALL {self._catalog}.system.unregister_table('{self._schema}', 'events')")
        else:
            self._run(f"CREATE SCHEMA IF NOT EXISTS {self._schema}")
        place = f"file://{metadata.parent.parent}"
        self._run(
            f"CALL {self._catalog}.system.register_table("
            f"'{self._schema}', 'events', '{place}', '{metadata.name}')"
        )

    def _run(self, sql: str) -> Any:
        return self._client.run(sql, catalog=self._catalog, schema=self._schema).rows


def known_to_service(kind: str, location: str, index: str, schema: str = SCHEMA) -> str:
    """The lines of a `pruner.toml` for the table at a location."""
    alias = f"pruned_{CONNECTORS[kind]}.{schema}.events"
    return f'[tables.events]\nuri = "{location}"\nindex_uri = "{index}"\naliases = ["{alias}"]\n'


def _spark(running: ExitStack, kind: str, index: str | None = None) -> Spark:
    """Start Spark as the documentation of the format says."""
    extra: dict[str, str] = {}
    if kind == "delta":
        extra = {
            "spark.jars": ",".join(map(str, delta_jars())),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # As many tasks as everything else here, instead of 50 for each log.
            "spark.databricks.delta.snapshotPartitions": "2",
        }
    elif kind == "iceberg":
        extra = {
            "spark.jars": str(iceberg_jar()),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.spark_catalog": "org.apache.iceberg.spark.SparkSessionCatalog",
            "spark.sql.catalog.spark_catalog.type": "hadoop",
            "spark.sql.catalog.spark_catalog.warehouse": str(_scratch(running)),
        }
    if kind in ("delta", "iceberg"):
        # Hudi's, without its jar.
        extra["spark.kryo.registrator"] = ""
    session = hudi_session(_scratch(running), extra=extra, java_options=AS_SERVERS)
    running.callback(session.stop)
    session.sql("SELECT 1").collect()
    return Spark(session, kind, index)


def _trino(running: ExitStack, kind: str, index: str | None = None) -> Trino:
    """Start Trino, and pruner's service for it where there are indexes."""
    folder = _scratch(running)
    metastore = Metastore(folder / "metastore")
    metastore.folder.mkdir()
    settings, connector, plans = {}, CONNECTORS[kind], None
    if index is not None:
        settings = {"pruner.url": _service(running, folder / "service"), "pruner.timeout": "30s"}
        plans = partial(_make_known, folder / "service", kind, index)
        connector = f"pruned_{connector}"
    if kind == "iceberg":
        catalog = iceberg_catalog(connector, metastore.folder, **settings)
    else:
        precise = {"hive.timestamp-precision": "MICROSECONDS"} if kind == "parquet" else {}
        catalog = local_catalog(connector, metastore.folder, **precise, **settings)
    server = start_trino(
        folder / "server",
        {connector: catalog},
        plugin_jars=[plugin_jar()],
        iceberg=kind == "iceberg",
        java_options=AS_SERVERS,
    )
    running.callback(server.stop)
    client = TrinoClient(server.port)
    client.run("SELECT 1", catalog=connector, schema=SCHEMA)
    return Trino(client, metastore, kind, plans)


def _service(running: ExitStack, folder: Path) -> str:
    """Start pruner's service, which needs an initial table; return its URL."""
    first = folder / "first"
    first.mkdir(parents=True)
    pq.write_table(pa.table({"n": [1]}), first / "part.parquet")
    (folder / "pruner.toml").write_text(f'[tables.first]\nuri = "{first}"\n', encoding="utf-8")
    url = running.enter_context(planner_service(folder))
    _wait_for(folder, "first")
    return url


def _make_known(folder: Path, kind: str, index: str, location: str) -> None:
    """Add the table to the configuration of the service, which checks it every two seconds."""
    written = folder / "pruner.toml.new"
    written.write_text(known_to_service(kind, location, index), encoding="utf-8")
    written.replace(folder / "pruner.toml")
    _wait_for(folder, "events")


def _wait_for(folder: Path, table: str) -> None:
    """Wait until the log of the service says that a table can be planned on."""
    log = folder / "service.log"
    while f"table {table} is ready" not in (said := log.read_text(encoding="utf-8")):
        if f"table {table} cannot be read" in said:
            raise SystemExit(f"pruner's service does not read the table: {said}")
        time.sleep(0.01)


def _scratch(running: ExitStack) -> Path:
    return Path(running.enter_context(TemporaryDirectory(ignore_cleanup_errors=True)))


def processor() -> float:
    """CPU seconds of this process and of its descendants that ran at the first call."""
    return time.process_time() + sum(map(_of_process, _below()))


@cache
def _below() -> frozenset[int]:
    """This process's descendants, cached: finding them takes milliseconds."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended
                text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                parents[int(entry.name)] = int(text.rpartition(")")[2].split()[1])
    found = {os.getpid()}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return frozenset(found - {os.getpid()})


_SCHEDULED: Final = 2


def _of_process(process: int) -> float:
    """CPU seconds of one process, all threads together, to the nanosecond: `clock_getcpuclockid` of the libc."""
    return time.clock_gettime((~process << 3) | _SCHEDULED)


ENGINES: Final[Mapping[str, Callable[..., Reader]]] = {
    "spark": _spark,
    "pruned-spark": _spark,
    "trino": _trino,
    "pruned-trino": _trino,
}


if __name__ == "__main__":
    with ExitStack() as ending:
        serve(lambda name, options: ENGINES[name](ending, **options), processor)
