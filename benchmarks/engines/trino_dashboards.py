"""Everyday statements over Trino's own catalogs and over pruned ones of the same server."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

import pruner
from benchmarks.engines.engine_dashboards import Asked, Rows, chosen_lakes, files, report
from benchmarks.lakes.dashboard_lakes import HUDI_FIELDS, Lake, lakes
from tools.java import AS_SERVERS
from tools.planner_service import planner_process
from tools.trino.client import TrinoClient
from tools.trino.metastore import Metastore
from tools.trino.plugin import plugin_jar
from tools.trino.server import local_catalog, start_trino

SCHEMA = "lake"
COLUMNS = {
    "id": "bigint",
    "uid": "int",
    "cat": "string",
    "amount": "double",
    "ts": "timestamp",
    "txt": "string",
}


def run(console: Console) -> None:
    """Measure every statement over every table."""
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as running:
        folder = Path(scratch)
        users = folder / "users" / "users.parquet"
        tables = list(lakes(folder, users, files=files()))
        metastore = Metastore(folder / "metastore")
        metastore.add_schema(SCHEMA)
        metastore.add_table(SCHEMA, "users", users.parent, {"uid": "int", "seg": "bigint"})
        lines: list[str] = []
        for lake in tables:
            _register(metastore, lake)
            lines += [f"[tables.{lake.name}]", f'uri = "{lake.root}"']
            lines += [f'aliases = ["pruned_hive.{SCHEMA}.{lake.name}"]']
        (folder / "pruner.toml").write_text("\n".join(lines), encoding="utf-8")
        url, service = running.enter_context(planner_process(folder))
        micros = {"hive.timestamp-precision": "MICROSECONDS"}
        ours = {"pruner.url": url, "pruner.timeout": "30s"}
        catalogs = {
            "hive": local_catalog("hive", metastore.folder, **micros),
            "pruned_hive": local_catalog("pruned_hive", metastore.folder, **micros, **ours),
            "hudi": local_catalog("hudi", metastore.folder),
            "pruned_hudi": local_catalog("pruned_hudi", metastore.folder, **ours),
        }
        server = start_trino(folder / "trino", catalogs, plugin_jars=[plugin_jar()], java_options=AS_SERVERS)
        running.callback(server.stop)
        report(console, "Trino", _asked(TrinoClient(server.port), tables, [server.process.pid, service]))


def _register(metastore: Metastore, lake: Lake) -> None:
    pruner.open_table(lake.root).create_index("columns", on="*", if_not_exists=True)
    before = time.time() - 3600
    for path in lake.root.rglob("*.parquet"):
        os.utime(path, (before, before))
    pruner.open_table(lake.root).refresh()
    hudi = lake.name == "hudi"
    partition = {"hive": "part", "hudi": "city"}.get(lake.name, "")
    columns = COLUMNS | ({partition: "int" if lake.name == "hive" else "string"} if partition else {})
    assert not hudi or list(columns) == [*HUDI_FIELDS, "city"]
    metastore.add_table(SCHEMA, lake.name, lake.root, columns, partition_by=partition, hudi=hudi)


def _asked(client: TrinoClient, tables: list[Lake], processes: list[int]) -> Iterator[Asked]:
    for lake in tables:
        if lake.name in chosen_lakes():
            catalog = "hudi" if lake.name == "hudi" else "hive"
            last = [""]
            plain = _asker(client, catalog, lake.name, "", [""])
            pruned = _asker(client, catalog, lake.name, "pruned_", last)
            yield Asked(lake.name, plain, pruned, lambda last=last: _read(client, last[0]), processes)


def _asker(
    client: TrinoClient, catalog: str, table: str, kind: str, last: list[str]
) -> Callable[[str], Rows]:
    def ask(statement: str) -> Rows:
        sql = statement.format(t=table, users=f"{kind}hive.{SCHEMA}.users")
        found = client.run(sql, catalog=f"{kind}{catalog}", schema=SCHEMA)
        last[0] = found.query_id
        return found.rows

    return ask


def _read(client: TrinoClient, query: str) -> str:
    return f"{sum(client.splits_by_scan(query).values())} splits"
