"""`python -m benchmarks head-to-head-store`: the same lake and queries in an S3-compatible store.

A proxy between the readers and the server counts requests and bytes: on any machine, they tell what a query costs in
a distant store, where each request has latency. Times would be those of the local server.

Each kind of query runs in its own process, which opens the table first, and once more in that process with other
constants: otherwise, readers that cache file metadata would answer all other kinds from what one of them loaded.
BENCH_FILES=100 counts another number of files; BENCH_READERS="DuckDB,Polars" queries readers whose titles contain one
of these parts, and updates their rows. Another number of files is not written to the page.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console

import pruner
from benchmarks.lakes.events import (
    WITHOUT_SPARK,
    Events,
    FileFormat,
    Lake,
    append_iceberg,
    iceberg_schema,
)
from benchmarks.peers import page
from benchmarks.peers.head_to_head import INDEXES, WITH_STATISTICS, Truth, with_titles
from benchmarks.peers.questions import WORKLOADS
from benchmarks.peers.results import NO_WAY, PATIENCE, Contender, Counted
from benchmarks.peers.running import Asked, reader_of, version
from pruner.storage.opening import open_store
from referee.run import Reader
from tests.support.stores.object_store import SETTLED_SECONDS, python_of_the_store, store_server
from tests.support.stores.proxy import StoreProxy, proxied
from tools.cache import cache_dir, say

FILES: Final = 1_000
ROWS_PER_FILE: Final = 2_000
BUCKET: Final = "lake"
_EXTENSIONS: Final = tuple(
    f"duckdb-extension-{name}==1.5.5" for name in ("httpfs", "avro", "delta", "iceberg")
)
WITH_HTTPFS: Final = Reader("duckdb-store", "duckdb==1.5.5", WITHOUT_SPARK, _EXTENSIONS)
"""DuckDB in the newest version for which its extensions are in the Python package index."""

CONTENDERS: Final = (
    *(Contender("pruner in DuckDB", kind, "pruner") for kind in WITHOUT_SPARK),
    *(Contender("DuckDB", kind, "duckdb", {"kind": kind}) for kind in WITHOUT_SPARK),
    *(Contender("Polars", kind, "polars", {"kind": kind}) for kind in WITHOUT_SPARK),
    Contender("DataFusion", "parquet", "datafusion"),
    Contender("delta-rs", "delta", "deltalake"),
)
"""Without PyIceberg, whose four requests for each file take as long as all other readers together."""


def run(console: Console) -> None:
    """Count, print the table, and write it to the page if that is for this number of files."""
    files, parts = int(os.environ.get("BENCH_FILES", str(FILES))), os.environ.get("BENCH_READERS")
    found = measure(files, contenders=with_titles(CONTENDERS, parts.split(",")) if parts else CONTENDERS)
    table = page.requests(found, files, ROWS_PER_FILE)
    console.print(table, soft_wrap=True)
    if files == FILES:
        (page.renew_requests if parts else page.write_requests)(table)


def measure(
    files: int,
    *,
    rows: int = ROWS_PER_FILE,
    contenders: Sequence[Contender] = CONTENDERS,
    workloads: Sequence[str] = tuple(WORKLOADS),
) -> list[Counted]:
    """Write the lake to a store, and run the same queries in all readers."""
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        direct = running.enter_context(store_server(BUCKET))
        lake = StoredLake(Lake(folder, Events(files, rows)), direct)
        say(f"Writing {files:,} files in each format to a store")
        lake.write()
        truth = Truth(lake.local.events)
        options, proxy = running.enter_context(proxied(direct))
        found: list[Counted] = []
        for each in contenders:
            known = WITH_HTTPFS.title.rpartition(" ")[2] if each.reader == "duckdb" else version(each)
            found.append(Counted(each, known))
            for workload in workloads:
                say(f"{each.kind}: {each.title}: {WORKLOADS[workload].title}")
                with _started(each, lake, options) as reader:
                    _count(found[-1], workload, reader, lake.locations[each.kind], truth, proxy)
    return sorted(found, key=lambda each: WITHOUT_SPARK.index(each.contender.kind))


class StoredLake:
    """A lake in a store: the files of a local one, with its own Iceberg table, since Iceberg's paths are absolute."""

    def __init__(self, local: Lake, options: dict[str, str]) -> None:
        self.local = local
        self.locations: dict[FileFormat, str] = {kind: f"s3://{BUCKET}/{kind}" for kind in WITHOUT_SPARK}
        self._options = options

    def write(self) -> None:
        """Write the files, the tables' own metadata, and pruner's indexes beside them."""
        self.local.write()
        for kind in WITHOUT_SPARK:
            store, root = open_store(self.locations[kind], self._options), self.local.folder / kind
            for file in sorted(root.rglob("*")):
                if file.is_file() and (kind != "iceberg" or file.suffix == ".parquet"):
                    store.put_new(str(file.relative_to(root)), file.read_bytes())
        self.locations["iceberg"] = self._iceberg()
        time.sleep(SETTLED_SECONDS)
        for kind, location in self.locations.items():
            table = pruner.open_table(location, storage_options=self._options, index_uri=index_of(kind))
            for name, (using, on) in INDEXES.items():
                if name != "statistics" or kind in WITH_STATISTICS:
                    table.create_index(name, on=on, using=using)

    def _iceberg(self) -> str:
        """Make the table over the existing files; return the location of its metadata."""
        from pyiceberg.catalog.sql import SqlCatalog

        root = self.locations["iceberg"]
        keys = {"access-key-id": "aws_access_key_id", "secret-access-key": "aws_secret_access_key"}
        named = {"endpoint": "endpoint", "region": "region", **keys}
        reached = {f"s3.{name}": self._options[given] for name, given in named.items()}
        catalog = SqlCatalog(
            "store", uri=f"sqlite:///{self.local.folder}/store.db", warehouse=root, **reached
        )
        catalog.create_namespace("lake")
        table = catalog.create_table("lake.events", schema=iceberg_schema(), location=root)
        names = sorted(file.name for file in self.local.data("iceberg").iterdir())
        append_iceberg(table, f"{root}/data", names)
        return catalog.load_table("lake.events").metadata_location


def index_of(kind: FileFormat) -> str:
    """Where pruner's indexes of a format are: beside the table, as they are by default for most."""
    return f"s3://{BUCKET}/{kind}.index"


@contextmanager
def _started(each: Contender, lake: StoredLake, options: dict[str, str]) -> Iterator[Asked]:
    told: dict[str, Any] = {"store": options}
    python: Path | None = None
    if each.reader == "pruner":
        told["index"] = index_of(each.kind)
        python = python_of_the_store()
    elif each.reader == "duckdb":
        python = WITH_HTTPFS.python(cache_dir() / "head-to-head")
    with reader_of(each, told, patience=PATIENCE, python=python) as asked:
        yield asked


def _count(
    counted: Counted, workload: str, reader: Asked, location: str, truth: Truth, proxy: StoreProxy
) -> None:
    """Open the table in a new process, and run one kind of query twice."""
    proxy.forget()
    answer = reader.open(location)
    for number in range(2):
        values = truth.values(workload, number)
        if "error" not in answer:
            answer = reader.ask(workload, values)
        if "error" in answer or answer["rows"] is None:
            counted.refused[workload] = answer.get("error", NO_WAY)
            return
        truth.check(workload, values, answer["rows"], f"{reader.title} of {counted.contender.kind}")
        counted.taken.setdefault(workload, []).append((len(proxy.requests), proxy.sent))
        proxy.forget()
