"""A real Trino with the plugin, over the tables of the statements, and the service that it asks.

The server's catalogs come in pairs over one file metastore: `hive` and `pruned_hive`, `hudi` and `pruned_hudi`. Each
variant of the tables is a schema. Between Trino and the service stands a gate, so that a test can make the service
fail while the server keeps its settings.
"""

from __future__ import annotations

import json
import os
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import trino.dbapi
import uvicorn
from trino.exceptions import TrinoQueryError

import pruner
from pruner.catalog import Catalog
from pruner.config import load
from pruner.service import Settings, create_app
from tests.support.gate import Gate
from tests.support.statement_tables import DEFINITIONS, TABLES
from tools.trino_plugin import plugin_jar
from tools.trino_server import TrinoServer, local_catalog, start_trino

Rows = list[tuple[Any, ...]]

HIVE_SETTINGS = {
    "hive.timestamp-precision": "MICROSECONDS",
    "hive.security": "allow-all",
    "hive.non-managed-table-writes-enabled": "true",
}
STATIC = {"enable_dynamic_filtering": "false"}
"""Session in which scans read what their plans say, whatever the other side of a join finds meanwhile."""
MILLISECONDS = {**HIVE_SETTINGS, "hive.timestamp-precision": "MILLISECONDS"}
"""Trino's own default: it rounds what it reads."""
_HOODIE_FORMAT = {
    "serde": "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    "inputFormat": "org.apache.hudi.hadoop.HoodieParquetInputFormat",
    "outputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
}
HIVE_TYPES: Mapping[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamp",
}


def hive_type(arrow: pa.DataType) -> str:
    """Return what the Hive metastore calls a type."""
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    return HIVE_TYPES[arrow]


@dataclass(frozen=True)
class Metastore:
    """Trino's metastore of files. It is written by hand: Hudi tables have no CREATE TABLE in Trino."""

    folder: Path

    def add_schema(self, name: str) -> None:
        """Make a schema; its tables lie wherever they are registered."""
        (self.folder / name).mkdir(parents=True)
        content = {"writerVersion": "483", "ownerName": "tests", "ownerType": "USER", "parameters": {}}
        _write_json(self.folder / f".{name}.trinoSchema", content)

    def ensure_schema(self, name: str) -> None:
        """Make a schema unless it is there."""
        if not (self.folder / name).is_dir():
            self.add_schema(name)

    def add_table(
        self,
        schema: str,
        name: str,
        root: Path,
        columns: Mapping[str, str],
        *,
        partition_by: str = "",
        hudi: bool = False,
    ) -> None:
        """Register a table with all partitions that its folder has; a partition that is not registered has no rows."""
        location = f"local://{root}"
        folder = self.folder / schema / name
        folder.mkdir()
        data = [_column(key, kind) for key, kind in columns.items() if key != partition_by]
        form = {"originalStorageFormat": _HOODIE_FORMAT} if hudi else {"storageFormat": "PARQUET"}
        common = {"parameters": {"EXTERNAL": "TRUE"}, **form, "serdeParameters": {}, "columnStatistics": {}}
        table = {
            "writerVersion": "483",
            "owner": "tests",
            "tableType": "EXTERNAL_TABLE",
            "dataColumns": data,
            "partitionColumns": [_column(partition_by, columns[partition_by])] if partition_by else [],
            "externalLocation": location,
            **common,
        }
        _write_json(folder / ".trinoSchema", table)
        for place in sorted(root.glob(f"{partition_by}=*")) if partition_by else ():
            partition = folder / place.name
            partition.mkdir()
            content = {"columns": data, "externalLocation": f"{location}/{place.name}", **common}
            _write_json(partition / ".trinoSchema", content)


def _column(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "properties": {}}


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def register_statement_tables(metastore: Metastore, schema: str, root: Path, *, hudi: bool) -> None:
    """Make a schema of the three tables below a folder."""
    metastore.add_schema(schema)
    for name in TABLES:
        definition = DEFINITIONS[name]
        columns = {field.name: hive_type(field.type) for field in definition.schema}
        metastore.add_table(
            schema, name, root / name, columns, partition_by=definition.partition_by, hudi=hudi
        )


@contextmanager
def running_service(config: Path) -> Generator[str]:
    """Run the service for a `pruner.toml` in a thread; gives its URL."""
    tables = load(config)
    server = uvicorn.Config(
        create_app(tables, Catalog(config=tables), Settings()), log_level="warning", port=0
    )
    listening = server.bind_socket()
    serving = uvicorn.Server(server)
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not serving.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        serving.should_exit = True
        thread.join()


@dataclass(frozen=True)
class Result:
    """Rows of a query, and what the server says that it did."""

    rows: Rows
    query_id: str
    stats: Mapping[str, Any]


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

    NO_NODE: ClassVar[str] = "NO_NODES_AVAILABLE"

    def run(self, sql: str, *, catalog: str, schema: str, session: Mapping[str, str] | None = None) -> Result:
        """Run a statement in UTC and return all of its rows."""
        connection = trino.dbapi.connect(
            host="127.0.0.1",
            port=self.server.port,
            user="tests",
            catalog=catalog,
            schema=schema,
            timezone="UTC",
            session_properties=dict(session or {}),
        )
        deadline = time.monotonic() + 60
        while True:
            cursor = connection.cursor()
            try:
                cursor.execute(sql)
                rows = [tuple(row) for row in cursor.fetchall()]
                return Result(rows, str(cursor.query_id), cursor.stats or {})
            except TrinoQueryError as error:
                # For a few seconds after the start the node is not known to itself.
                if error.error_name != self.NO_NODE or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def details(self, query_id: str) -> Any:
        """Return what the server knows of a query."""
        url = f"http://127.0.0.1:{self.server.port}/v1/query/{query_id}"
        request = urllib.request.Request(url, headers={"X-Trino-User": "tests"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def splits_by_scan(self, query_id: str) -> Counter[str]:
        """Return how many splits each scan of a query has read, by its id in the plan."""
        found: Counter[str] = Counter()
        for operator in self.details(query_id)["queryStats"]["operatorSummaries"]:
            if operator["operatorType"] in SCANS:
                found[operator["planNodeId"]] += operator["totalDrivers"]
        return found


SCANS = ("TableScanOperator", "ScanFilterAndProjectOperator")


def start(folder: Path, *, others: Mapping[str, Mapping[str, str]] | None = None) -> Trino:
    """Start a server with both pairs of catalogs in an empty folder."""
    metastore = Metastore(folder / "metastore")
    metastore.folder.mkdir(parents=True)
    gate = Gate()
    asking = {"pruner.url": gate.url}
    catalogs = {
        "hive": local_catalog("hive", metastore.folder, **HIVE_SETTINGS),
        "pruned_hive": local_catalog("pruned_hive", metastore.folder, **HIVE_SETTINGS, **asking),
        "pruned_hasty": local_catalog(
            "pruned_hive", metastore.folder, **HIVE_SETTINGS, **asking, **{"pruner.timeout": "400ms"}
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
        **(others or {}),
    }
    server = start_trino(folder / "server", catalogs, plugin_jars=[plugin_jar()])
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
