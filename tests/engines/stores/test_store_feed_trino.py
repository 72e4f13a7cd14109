"""Trino over a table in MinIO with a change feed that MinIO itself fills: see `test_store_feed.py`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.service.planner import running_service
from tests.support.stores.notifying import STEPS, NotifyingStore, notifying_store
from tests.support.stores.object_store import TABLE, trino_settings
from tests.support.trino.server import HIVE_SETTINGS, WAITS
from tools.trino.client import TrinoClient
from tools.trino.distribution import store_jars
from tools.trino.metastore import Metastore
from tools.trino.plugin import plugin_jar
from tools.trino.server import local_catalog, start_trino

pytestmark = pytest.mark.trino


@pytest.fixture(scope="module")
def told() -> Iterator[NotifyingStore]:
    with notifying_store() as running:
        running.open().create_index("i", on=["id", "city"])
        yield running


@pytest.fixture(scope="module")
def client(told: NotifyingStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrinoClient]:
    folder = tmp_path_factory.mktemp("trino-feed")
    metastore = Metastore(folder / "metastore")
    metastore.add_schema("stores")
    metastore.add_table("stores", "flights", TABLE, {"id": "bigint", "city": "string"})
    options = told.store.options
    config = folder / "pruner.toml"
    with pytest.MonkeyPatch.context() as environment:
        told.configure(config, environment)
        with running_service(config) as url:
            settings = {**HIVE_SETTINGS, **trino_settings(options)}
            asking = {"pruner.url": url, **WAITS}
            catalogs = {
                "pruned_hive": local_catalog("pruned_hive", metastore.folder, **settings, **asking),
            }
            server = start_trino(folder / "server", catalogs, plugin_jars=[plugin_jar(), *store_jars()])
            try:
                yield TrinoClient(server.port)
            finally:
                server.stop()


def test_what_the_server_tells_is_read_by_the_next_statement(
    client: TrinoClient, told: NotifyingStore
) -> None:
    """Trino lists the files itself: one listing per statement, and none by the service."""

    def scan(question: str) -> list[int]:
        sql = f"SELECT id FROM flights WHERE {question} ORDER BY id"
        return [row[0] for row in client.run(sql, catalog="pruned_hive", schema="stores").rows]

    assert scan("id BETWEEN 310 AND 312") == [310, 311, 312]
    told.listings()
    for what, change, question, expected in STEPS:
        change(told)
        assert len(scan(question)) == expected, what
    assert told.listings() == len(STEPS)
    told.open().refresh()
    told.store.proxy.forget()
    assert scan("id BETWEEN 9010 AND 9012") == [9010, 9011, 9012]
    assert told.store.files_read() == {3}, "what a refresh covered is pruned"
