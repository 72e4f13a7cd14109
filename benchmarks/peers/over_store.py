"""`python -m benchmarks head-to-head-store`: the same lake and questions in an S3-compatible store.

What is counted are requests and bytes, by a proxy between the readers and the server: they tell what a question takes
of a distant store, where each request waits, whatever machine asks. Times would be those of the server here.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
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
from benchmarks.peers.head_to_head import INDEXES, WITH_STATISTICS, Truth
from benchmarks.peers.questions import WORKLOADS
from benchmarks.peers.results import PATIENCE, Contender, Counted
from benchmarks.peers.running import Asked, reader_of, version
from pruner.storage.opening import open_store
from referee.run import Reader
from tests.support.stores.object_store import SETTLED_SECONDS, python_of_the_store, store_server
from tests.support.stores.proxy import StoreProxy, proxied
from tools.cache import cache_dir, say

FILES: Final = 200
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
    Contender("PyIceberg", "iceberg", "pyiceberg"),
)


def run(console: Console) -> None:
    """Count, print the table, and write it to the page; BENCH_FILES is another number of files, printed alone."""
    files = int(os.environ.get("BENCH_FILES", str(FILES)))
    found = measure(files)
    table = page.requests(found, files, ROWS_PER_FILE)
    console.print(table, soft_wrap=True)
    if files == FILES:
        page.write_requests(table)


def measure(
    files: int,
    *,
    rows: int = ROWS_PER_FILE,
    contenders: tuple[Contender, ...] = CONTENDERS,
) -> list[Counted]:
    """Write the lake to a store, and ask all readers the same questions twice; the second time counts."""
    found: list[Counted] = []
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        direct = running.enter_context(store_server(BUCKET))
        lake = StoredLake(Lake(folder, Events(files, rows)), direct)
        say(f"Writing {files:,} files in each format to a store")
        lake.write()
        truth = Truth(lake.local.events)
        options, proxy = running.enter_context(proxied(direct))
        for each in contenders:
            say(f"{each.kind}: {each.title}")
            with _started(each, lake, options) as reader:
                found.append(_count(each, reader, lake.locations[each.kind], truth, proxy))
    return sorted(found, key=lambda each: WITHOUT_SPARK.index(each.contender.kind))


class StoredLake:
    """A lake in a store: the files of a local one, with an Iceberg table of its own, since its paths are absolute."""

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
        """Make the table over the files that are there; the location of its metadata."""
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


def _count(each: Contender, reader: Asked, location: str, truth: Truth, proxy: StoreProxy) -> Counted:
    known = WITH_HTTPFS.title.rpartition(" ")[2] if each.reader == "duckdb" else version(each)
    counted = Counted(each, known)
    proxy.forget()
    opened = reader.open(location)
    if "error" in opened:
        raise SystemExit(f"{each.title} does not read {location}: {opened['error']}")
    for again in (False, True):
        for workload in sorted(WORKLOADS, key=lambda name: name != "window"):
            values = truth.values(workload, int(again))
            answer = reader.ask(workload, values)
            if "error" in answer:
                say(f"{each.title} does not answer {workload}: {answer['error']}")
            elif answer["rows"] is not None:
                truth.check(workload, values, answer["rows"], each.title)
                if again or not counted.taken:
                    what = workload if again else "cold"
                    counted.taken[what] = len(proxy.requests), proxy.sent
            proxy.forget()
    return counted
