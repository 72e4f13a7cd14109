"""Trino, with its own S3 file system, over a table in an S3-compatible server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from trino.exceptions import TrinoQueryError

from tests.support.service.planner import running_service
from tests.support.stores.object_store import (
    FILES,
    QUESTIONS,
    TABLE,
    ObjectStore,
    figure,
    object_store,
    trino_settings,
)
from tests.support.trino.server import HIVE_SETTINGS, WAITS
from tools.trino.client import TrinoClient
from tools.trino.distribution import store_jars
from tools.trino.metastore import Metastore
from tools.trino.plugin import plugin_jar
from tools.trino.server import local_catalog, start_trino

pytestmark = pytest.mark.trino

_CONFIG = """
[tables.flights]
uri = "{uri}"
aliases = ["pruned_hive.stores.flights"]

[tables.flights.storage_options]
endpoint = "{endpoint}"
allow_http = "true"
region = "{region}"
aws_access_key_id = "${{LAKE_KEY}}"
aws_secret_access_key = "${{LAKE_SECRET}}"
"""


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as running:
        running.write()
        running.open().create_index("i", on=["id", "city"])
        yield running


@pytest.fixture(scope="module")
def client(store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrinoClient]:
    folder = tmp_path_factory.mktemp("trino-s3")
    metastore = Metastore(folder / "metastore")
    metastore.add_schema("stores")
    metastore.add_table("stores", "flights", TABLE, {"id": "bigint", "city": "string"})
    options = store.options
    reading = trino_settings(options)
    config = folder / "pruner.toml"
    config.write_text(_CONFIG.format(uri=TABLE, **options), encoding="utf-8")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("LAKE_KEY", options["aws_access_key_id"])
        environment.setenv("LAKE_SECRET", options["aws_secret_access_key"])
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "another")  # the service's configuration takes precedence
        with running_service(config) as url:
            asking = {"pruner.url": url, **WAITS}
            other = {"s3.aws-access-key": "another"}
            catalogs = {
                "hive": local_catalog("hive", metastore.folder, **HIVE_SETTINGS, **reading),
                "pruned_hive": local_catalog(
                    "pruned_hive", metastore.folder, **HIVE_SETTINGS, **reading, **asking
                ),
                "another": local_catalog("hive", metastore.folder, **HIVE_SETTINGS, **(reading | other)),
            }
            server = start_trino(folder / "server", catalogs, plugin_jars=[plugin_jar(), *store_jars()])
            try:
                yield TrinoClient(server.port)
            finally:
                server.stop()


def test_scans_read_the_files_of_their_rows(
    client: TrinoClient, store: ObjectStore, record_property: Callable[[str, object], None]
) -> None:
    for question, (ids, files) in QUESTIONS.items():
        for catalog, expected in (("pruned_hive", files), ("hive", set(range(FILES)))):
            store.proxy.forget()
            sql = f"SELECT id FROM flights WHERE {question} ORDER BY id"
            found = client.run(sql, catalog=catalog, schema="stores")
            assert [row[0] for row in found.rows] == ids
            assert store.files_read() == expected, catalog
    for catalog in ("hive", "pruned_hive"):
        store.proxy.forget()
        client.run("SELECT id FROM flights WHERE id BETWEEN 310 AND 312", catalog=catalog, schema="stores")
        record_property(*figure(f"Trino's catalog {catalog} for one file of {FILES}", store.counted()))


def test_trino_reads_with_the_credentials_of_its_catalog(client: TrinoClient) -> None:
    with pytest.raises(TrinoQueryError, match="Failed to list directory"):
        client.run("SELECT count(id) FROM flights WHERE id > 0", catalog="another", schema="stores")
