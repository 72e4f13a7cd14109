"""A table in MinIO, which tells a change feed by its webhook what changes: nobody calls `pruner notify`.

Between server and feed stands `examples/feed_webhook`. The feed lies in the same bucket, beside the table: the server
tells of the table's folder alone.
"""

from __future__ import annotations

import importlib.util
import io
import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.storage.opening import open_store
from tests.support.running.patience import until
from tests.support.stores.object_store import ROWS, TABLE, ObjectStore, object_store, python_of_the_store
from tools.matrix import ROOT

FEED = "s3://lake/events"
CONFIRM_AFTER = 3600.0
"""Seconds between whole listings: none falls into a test."""

TOKEN = "told-by-the-store"

_SWITCH_ON = """
import json, sys
import boto3
options, bucket, prefix, target = json.loads(sys.stdin.read())
client = boto3.client(
    "s3", endpoint_url=options["endpoint"], region_name=options["region"],
    aws_access_key_id=options["aws_access_key_id"], aws_secret_access_key=options["aws_secret_access_key"],
)
told = {
    "QueueArn": target,
    "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"],
    "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": prefix}]}},
}
client.put_bucket_notification_configuration(
    Bucket=bucket, NotificationConfiguration={"QueueConfigurations": [told]}
)
"""


_CONFIG = """
[tables.flights]
uri = "{uri}"
feed = "{feed}"
confirm_after = {confirm_after}
aliases = ["pruned_hive.stores.flights"]

[tables.flights.storage_options]
endpoint = "{endpoint}"
allow_http = "true"
region = "{region}"
aws_access_key_id = "${{LAKE_KEY}}"
aws_secret_access_key = "${{LAKE_SECRET}}"
"""


@cache
def webhook() -> ModuleType:
    """The example's module."""
    place = ROOT / "examples" / "feed_webhook" / "feed_webhook.py"
    spec = importlib.util.spec_from_file_location(place.stem, place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class NotifyingStore:
    """The running server with the table and its feed.

    Attributes:
        store: the server, the table's files in it, and what counts requests.
        told: names of files about which events have come to the feed, as often as they came.
    """

    store: ObjectStore
    told: list[str] = field(default_factory=list[str])

    def open(self) -> pruner.Table:
        """The table with its feed."""
        return pruner.open_table(
            TABLE, storage_options=self.store.options, feed=FEED, confirm_after=CONFIRM_AFTER
        )

    def configure(self, path: Path, environment: pytest.MonkeyPatch, uri: str = TABLE) -> None:
        """Write a `pruner.toml` with the table, and set what it takes from the environment."""
        options = self.store.options
        text = _CONFIG.format(uri=uri, feed=FEED, confirm_after=CONFIRM_AFTER, **options)
        path.write_text(text, encoding="utf-8")
        environment.setenv("LAKE_KEY", options["aws_access_key_id"])
        environment.setenv("LAKE_SECRET", options["aws_secret_access_key"])

    def put(self, name: str, ids: range, city: str) -> None:
        """Write a file, over one that is there, and wait until the feed tells of it."""
        sink = io.BytesIO()
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "city": [city] * len(ids)}), sink)
        self._change(name, lambda: obstore.put(self._native(), name, sink.getvalue()))

    def delete(self, name: str) -> None:
        """Take a file away, and wait until the feed tells of it."""
        self._change(name, lambda: obstore.delete(self._native(), name))

    def listings(self) -> int:
        """How often the table was listed since the last time."""
        prefix = TABLE.removeprefix("s3://lake/")
        found = [each for each in self.store.proxy.requests if each.lists and each.key.rstrip("/") == prefix]
        self.store.proxy.forget()
        return len(found)

    def _change(self, name: str, change: Any) -> None:
        before = self.told.count(name)
        change()
        self.await_events(name, before + 1)

    def await_events(self, name: str, count: int) -> None:
        """Wait until so many events about a file have come."""
        until(lambda: self.told.count(name) >= count, lambda: f"an event about {name} beside {self.told}")

    def _native(self) -> Any:
        """A client of its own, as another writer has it: pruner's stores never overwrite."""
        options = self.store.options
        return obstore.store.S3Store(
            "lake",
            prefix=TABLE.removeprefix("s3://lake/"),
            endpoint=options["endpoint"],
            region=options["region"],
            access_key_id=options["aws_access_key_id"],
            secret_access_key=options["aws_secret_access_key"],
            client_options={"allow_http": True},
        )


@contextmanager
def notifying_store() -> Iterator[NotifyingStore]:
    """Run MinIO with the table of `ObjectStore`, the notifications about it, and its feed."""
    module = webhook()
    received: list[bytes] = []
    running: list[NotifyingStore] = []

    class Receiver(module.Receiver):
        def write(self, events: bytes) -> int:
            status: int = super().write(events)
            if status == 204:
                received.append(events)
                running[0].told.extend(_names(events))
            return status

    receiver = Receiver(("127.0.0.1", 0), TABLE, TOKEN)
    thread = threading.Thread(target=receiver.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    target = {
        "MINIO_NOTIFY_WEBHOOK_ENABLE_FEED": "on",
        "MINIO_NOTIFY_WEBHOOK_ENDPOINT_FEED": f"http://127.0.0.1:{receiver.server_address[1]}/",
        "MINIO_NOTIFY_WEBHOOK_AUTH_TOKEN_FEED": TOKEN,
    }
    try:
        with object_store(target) as store:
            receiver.options = {"feed": FEED, "storage_options": store.options}
            running.append(NotifyingStore(store))
            _switch_on(store.options)
            store.write()
            for name in {info.path for info in open_store(TABLE, store.options).list("")}:
                running[0].await_events(name, 1)
            yield running[0]
    finally:
        receiver.shutdown()
        receiver.server_close()
        thread.join()


def _names(events: bytes) -> list[str]:
    """The files that MinIO's events name, below the table."""
    prefix = TABLE.removeprefix("s3://lake/") + "%2F"
    return [record["s3"]["object"]["key"].removeprefix(prefix) for record in json.loads(events)["Records"]]


def _switch_on(options: Mapping[str, str]) -> None:
    """Let the server tell of the table's files: the one setting that is not a variable of its environment."""
    prefix = TABLE.removeprefix("s3://lake/") + "/"
    subprocess.run(
        [python_of_the_store(), "-c", _SWITCH_ON],
        input=json.dumps([dict(options), "lake", prefix, "arn:minio:sqs:us-east-1:FEED:webhook"]),
        check=True,
        text=True,
    )


STEPS = (
    (
        "a file that came",
        lambda it: it.put("8.parquet", range(8 * ROWS, 9 * ROWS), "c8"),
        "city = 'c8'",
        ROWS,
    ),
    (
        "one that was written over",
        lambda it: it.put("3.parquet", range(9000, 9050), "new"),
        "city = 'new'",
        50,
    ),
    ("what that one held", lambda _: None, "id BETWEEN 310 AND 312", 0),
    ("one that went", lambda it: it.delete("5.parquet"), "city = 'c5'", 0),
    ("all that is left", lambda _: None, "id >= 0", 7 * ROWS + 50),
)
