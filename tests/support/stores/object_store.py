"""A table in an S3-compatible server on this machine, behind a proxy that counts.

The server is moto's, in an environment of its own, or MinIO where `PRUNER_TEST_STORE=minio` asks for it. Engines of
every kind ask it the same questions, and the answers are known here.
"""

from __future__ import annotations

import atexit
import io
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import pruner
from pruner.storage.opening import open_store
from tests.support.running.patience import PATIENCE
from tests.support.stores.proxy import StoreProxy, proxied
from tools.matrix import ROOT, python_with
from tools.minio import minio

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "s3://lake/flights"
FILES = 8
ROWS = 100
"""Of each file."""

SETTLED_SECONDS = 3.0
"""Age from which on a file of a store is believed to stay as it is (rule R4)."""

QUESTIONS: Mapping[str, tuple[list[int], set[int]]] = {
    "id BETWEEN 310 AND 312": ([310, 311, 312], {3}),
    "city = 'c5' AND id < 502": ([500, 501], {5}),
    "city = 'nowhere'": ([], set()),
    "id IN (7, 707)": ([7, 707], {0, 7}),
}
"""Predicates with the ids of their rows, and the files that hold them."""

ON_MINIO = os.environ.get("PRUNER_TEST_STORE") == "minio"
"""Whether the server is MinIO."""

KINDS = ["local", "memory", "s3", *(["minio"] if ON_MINIO else [])]
"""Stores over which the contracts of stores and of commits are tested."""

_NOTHING = subprocess.DEVNULL
_POLL_SECONDS = 0.1


def python_of_the_store() -> Path:
    """The Python that has the server, and a DuckDB that reads from it."""
    return python_with(ROOT / "requirements-store.lock")


@dataclass(frozen=True)
class ObjectStore:
    """The running server.

    Attributes:
        options: storage options that lead to it, through the proxy.
        proxy: counts what is asked.
    """

    options: dict[str, str]
    proxy: StoreProxy

    def write(self) -> None:
        """Write the files, and wait until they are old enough to be believed."""
        store = open_store(TABLE, self.options)
        for number in range(FILES):
            ids = range(number * ROWS, (number + 1) * ROWS)
            columns = pa.table({"id": pa.array(ids, pa.int64()), "city": [f"c{number}"] * ROWS})
            sink = io.BytesIO()
            pq.write_table(columns, sink)
            store.put_new(f"{number}.parquet", sink.getvalue())
        time.sleep(SETTLED_SECONDS)

    def open(self, index_uri: str | None = None) -> pruner.Table:
        """The table as a new process opens it."""
        return pruner.open_table(TABLE, storage_options=self.options, index_uri=index_uri)

    def files_read(self) -> set[int]:
        """The files of the table of which something was read since the last time."""
        prefix = f"/{TABLE.removeprefix('s3://')}/"
        keys = {request.key for request in self.proxy.requests if request.kind == "GET"}
        self.proxy.forget()
        return {int(key.removeprefix(prefix)[0]) for key in keys if key.endswith(".parquet")}

    def counted(self) -> Counter[str]:
        """Requests since the last time, by kind and by what they are about."""
        found = Counter(
            f"{request.kind} {'index' if '.pruner/' in request.key else 'table'}"
            for request in self.proxy.requests
        )
        self.proxy.forget()
        return found


def let_spark_reach(spark: SparkSession, options: Mapping[str, str]) -> None:
    """Tell a session how `s3a` reaches the server that storage options lead to."""
    context: Any = spark.sparkContext
    settings = context._jsc.hadoopConfiguration()
    for key, value in {
        "endpoint": options["endpoint"],
        "endpoint.region": options["region"],
        "access.key": options["aws_access_key_id"],
        "secret.key": options["aws_secret_access_key"],
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "impl.disable.cache": "true",
    }.items():
        settings.set(f"fs.s3a.{key}", value)


def trino_settings(options: Mapping[str, str]) -> dict[str, str]:
    """What a catalog of Trino's says to reach the server that storage options lead to."""
    return {
        "fs.native-s3.enabled": "true",
        "s3.endpoint": options["endpoint"],
        "s3.region": options["region"],
        "s3.path-style-access": "true",
        "s3.aws-access-key": options["aws_access_key_id"],
        "s3.aws-secret-key": options["aws_secret_access_key"],
    }


def figure(who: str, counts: Counter[str]) -> tuple[str, str]:
    """Counts as a property of a test that is printed at the end of a run."""
    text = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    return "figure", f"S3 requests of {who}: {text}"


@contextmanager
def object_store(environment: Mapping[str, str] | None = None) -> Iterator[ObjectStore]:
    """Run a server with an empty bucket `lake`, which accepts one access key.

    Args:
        environment: settings of MinIO's.
    """
    with store_server("lake", environment) as options, proxied(options) as (through, proxy):
        proxy.accepted = options["aws_access_key_id"]
        yield ObjectStore(through, proxy)


@contextmanager
def store_server(bucket: str, environment: Mapping[str, str] | None = None) -> Iterator[dict[str, str]]:
    """Run a server with an empty bucket; gives the storage options that lead to it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {
        "endpoint": f"http://127.0.0.1:{port}",
        "allow_http": "true",
        "region": "us-east-1",
        "aws_access_key_id": "AKIATESTTEST",
        "aws_secret_access_key": "very-secret-key",
    }
    with tempfile.TemporaryDirectory() as folder:
        process = _minio(port, options, folder, bucket, environment or {}) if ON_MINIO else _moto(port)
        try:
            if ON_MINIO:
                _wait_for(process, f"{options['endpoint']}/minio/health/ready", "GET")
            else:
                _wait_for(process, f"{options['endpoint']}/{bucket}", "PUT")
            yield options
        finally:
            process.kill()
            process.wait()


def _moto(port: int) -> subprocess.Popen[bytes]:
    command = [python_of_the_store(), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    return subprocess.Popen(command, stdin=_NOTHING, stdout=_NOTHING, stderr=_NOTHING)


def _minio(
    port: int, options: dict[str, str], folder: str, bucket: str, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """MinIO over a folder, where a bucket is a folder as well."""
    (Path(folder) / bucket).mkdir()
    known = {
        "MINIO_ROOT_USER": options["aws_access_key_id"],
        "MINIO_ROOT_PASSWORD": options["aws_secret_access_key"],
    }
    return subprocess.Popen(
        [minio(), "server", "--quiet", "--address", f"127.0.0.1:{port}", folder],
        env={**os.environ, **environment, **known},
        stdin=_NOTHING,
        stdout=_NOTHING,
        stderr=_NOTHING,
    )


def _wait_for(process: subprocess.Popen[bytes], place: str, method: str) -> None:
    """Ask until the server answers; moto makes a bucket by that."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(place, method=method)):
                return
        except urllib.error.URLError:
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(_POLL_SECONDS)


@lru_cache
def shared_server() -> dict[str, str]:
    """Storage options of one server for all tests of this process, with an empty bucket `lake`."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(store_server("lake"))
