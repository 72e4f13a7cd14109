"""Trino with the plugin against the same Trino without, and the service that it asks, under load.

The added latency is what a query takes longer when nothing can be left out. Clients of the service are threads of this
process on the same machine, so at many clients they and the service share the processors.
"""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

import pruner
from benchmarks.lake import index_with, link_tree, made_up_bounds
from benchmarks.records import ROWS_PER_FILE
from benchmarks.timing import medians
from tools.planner_service import planner_service
from tools.trino_client import TrinoClient
from tools.trino_metastore import Metastore
from tools.trino_plugin import plugin_jar
from tools.trino_server import local_catalog, start_trino

SCHEMA = "lake"
RUNS_BY_FILES = {20: 25, 2_000: 5}
KEPT = 3
SLICES = 10_000
CLIENTS = (1, 8, 32)
REQUESTS = 320
AIM = "aim: less than 20 ms added to a query when nothing can be left out"


def run(console: Console) -> None:
    """Measure and print."""
    console.print(_trino())
    console.print(AIM)
    console.print(_load())


def _trino() -> Grid:
    """End to end: tables of real files, read whole and pruned."""
    grid = Grid(title=f"Trino over files of {ROWS_PER_FILE:,} rows, medians of runs in turn")
    headings = (
        "files",
        "splits",
        "3 kept",
        "plain, ms",
        "pruned, ms",
        "ratio",
        "all: plain, ms",
        "pruned, ms",
        "added, ms",
    )
    for heading in headings:
        grid.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as running:
        folder = Path(scratch)
        metastore = Metastore(folder / "metastore")
        metastore.add_schema(SCHEMA)
        lines: list[str] = []
        for count in RUNS_BY_FILES:
            name = f"t{count}"
            _write(folder / name, count)
            pruner.open_table(folder / name).create_index("statistics", on="*")
            metastore.add_table(SCHEMA, name, folder / name, {"event": "bigint"})
            lines += [
                f"[tables.{name}]",
                f'uri = "{folder / name}"',
                f'aliases = ["pruned_hive.{SCHEMA}.{name}"]',
            ]
        (folder / "pruner.toml").write_text("\n".join(lines), encoding="utf-8")
        url = running.enter_context(planner_service(folder))
        catalogs = {
            "hive": local_catalog("hive", metastore.folder),
            "pruned_hive": local_catalog(
                "pruned_hive", metastore.folder, **{"pruner.url": url, "pruner.timeout": "30s"}
            ),
        }
        server = start_trino(folder / "trino", catalogs, plugin_jars=[plugin_jar()])
        running.callback(server.stop)
        for count, runs in RUNS_BY_FILES.items():
            grid.add_row(*_compared(TrinoClient(server.port), count, runs))
    return grid


def _write(root: Path, count: int) -> None:
    root.mkdir()
    for number in range(count):
        rows = pa.array(range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE), pa.int64())
        pq.write_table(pa.table({"event": rows}), root / f"part-{number:05}.parquet")


def _compared(client: TrinoClient, count: int, runs: int) -> tuple[str, ...]:
    few, every = f"event < {KEPT * ROWS_PER_FILE}", "event >= 0"

    def asking(catalog: str, where: str, rows: int, splits: int) -> None:
        found = client.run(f"SELECT count(*) FROM t{count} WHERE {where}", catalog=catalog, schema=SCHEMA)
        assert found.rows == [(rows,)]
        assert found.stats["completedSplits"] >= splits

    for catalog, splits in (("hive", count), ("pruned_hive", KEPT)):
        found = client.run(f"SELECT count(*) FROM t{count} WHERE {few}", catalog=catalog, schema=SCHEMA)
        read = sum(client.splits_by_scan(found.query_id).values())
        assert read == splits, f"{catalog} read {read} splits of {count} files"
    contenders = {
        f"{catalog} {shown}": lambda catalog=catalog, where=where, rows=rows, splits=splits: asking(
            catalog, where, rows, splits
        )
        for catalog in ("hive", "pruned_hive")
        for shown, where, rows, splits in (
            ("few", few, KEPT * ROWS_PER_FILE, KEPT),
            ("every", every, count * ROWS_PER_FILE, count),
        )
    }
    times = {name: seconds * 1e3 for name, seconds in medians(contenders, runs, warmups=3).items()}
    return (
        f"{count:,}",
        f"{count:,}",
        f"{KEPT}",
        f"{times['hive few']:.0f}",
        f"{times['pruned_hive few']:.0f}",
        f"{times['hive few'] / times['pruned_hive few']:.1f}",
        f"{times['hive every']:.0f}",
        f"{times['pruned_hive every']:.0f}",
        f"{times['pruned_hive every'] - times['hive every']:.1f}",
    )


def _load() -> Grid:
    """The service alone: what one answer takes, and how many it gives."""
    grid = Grid(
        title=f"`pruner serve`, a table of {SLICES:,} slices, {REQUESTS:,} requests, keys known to the client"
    )
    for heading in ("clients", "p50, ms", "p99, ms", "requests/s", "refused"):
        grid.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        link_tree(folder / "lake", SLICES)
        index_with(pruner.open_table(folder / "lake"), made_up_bounds(SLICES))
        (folder / "pruner.toml").write_text(f'[tables.lake]\nuri = "{folder / "lake"}"\n', encoding="utf-8")
        with planner_service(folder) as url:
            address = url.removeprefix("http://")
            snapshot = _ask(http.client.HTTPConnection(address), 0, None)["snapshot_id"]
            for clients in CLIENTS:
                seconds, whole, refused = _loaded(address, snapshot, clients)
                p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
                grid.add_row(
                    f"{clients}", f"{p50:.1f}", f"{p99:.1f}", f"{len(seconds) / whole:,.0f}", f"{refused}"
                )
    return grid


def _loaded(address: str, snapshot: str, clients: int) -> tuple[list[float], float, int]:
    """Seconds of each request that was answered, of all together, and how many were refused.

    The service serves so many requests at once and refuses others; the plugin reads the table whole then, and so no
    client here asks again.
    """

    def client(number: int) -> list[float | None]:
        connection = http.client.HTTPConnection(address)
        taken: list[float | None] = []
        for request in range(number, REQUESTS, clients):
            started = time.perf_counter()
            answer = _ask(connection, request, snapshot)
            taken.append(None if answer is None else time.perf_counter() - started)
            assert answer is None or (answer["kept"], answer["total"]) == (1, SLICES)
        return taken

    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        found = [seconds for each in pool.map(client, range(clients)) for seconds in each]
    whole = time.perf_counter() - started
    answered = [seconds for seconds in found if seconds is not None]
    return answered, whole, len(found) - len(answered)


def _ask(connection: http.client.HTTPConnection, number: int, snapshot: str | None) -> Any:
    """The service's answer; None when it has too much to do."""
    event = number % SLICES * ROWS_PER_FILE
    request = {
        "table": "lake",
        "session": {"engine": "trino"},
        "predicate": {"form": "sql", "text": f"event = {event}"},
        "known_snapshot": snapshot,
    }
    connection.request("POST", "/v1/plan", json.dumps(request), {"Content-Type": "application/json"})
    response = connection.getresponse()
    body = response.read()
    if response.status == http.HTTPStatus.TOO_MANY_REQUESTS:
        return None
    assert response.status == http.HTTPStatus.OK, body
    return json.loads(body)
