"""Iceberg tables by their names in a catalog: PyIceberg's SQL and REST catalogs, configured as for PyIceberg."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError
from typer.testing import CliRunner

import pruner
import pruner_duckdb
import pruner_spark
from pruner.catalog.config import load
from pruner.catalog.names import Catalog
from pruner.cli.app import app
from pruner.errors import StorageError, TableError
from pruner.opening import defines_indexes
from pruner.storage.opening import open_store
from pruner.tables.iceberg.catalogs import store_options
from tests.support.iceberg.tables import ROWS, IcebergLake, rows
from tests.support.service.planner import running_service
from tools.spark_sessions import iceberg_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Rest(BaseHTTPRequestHandler):
    """The part of the REST protocol that reads tables: each table as a SQL catalog has it."""

    lake: IcebergLake
    lent: dict[str, str]

    def do_GET(self) -> None:
        path = unquote(self.path.partition("?")[0]).split("/")
        if path[-1] == "config":
            self._answer(200, {"defaults": {}, "overrides": {}})
            return
        try:
            table = self.lake.catalog.load_table((*path[-3].split("\x1f"), path[-1]))
        except NoSuchTableError as error:
            self._answer(404, {"error": {"message": str(error), "type": "NoSuchTableException", "code": 404}})
            return
        metadata = json.loads(table.metadata.model_dump_json())
        self._answer(
            200, {"metadata-location": table.metadata_location, "metadata": metadata, "config": self.lent}
        )

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, status: int, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the library
        pass


@contextmanager
def _rest(lake: IcebergLake, lent: dict[str, str]) -> Iterator[str]:
    handler = type("Rest", (_Rest,), {"lake": lake, "lent": lent})
    server = ThreadingHTTPServer(("127.0.0.1", 0), cast("Any", handler))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


EACH_KIND = pytest.mark.parametrize("uri", ["sql", "rest"], indirect=True)


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    (tmp_path / "lake").mkdir()
    return IcebergLake(tmp_path / "lake")


@pytest.fixture
def uri(lake: IcebergLake, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The prefix of a table's name, with a catalog that the environment names: SQL unless the test says otherwise."""
    kind = getattr(request, "param", "sql")
    with _rest(lake, {}) as url:
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", kind)
        monkeypatch.setenv(
            "PYICEBERG_CATALOG__LAKE__URI",
            url if kind == "rest" else f"sqlite:///{lake.folder}/catalog.db",
        )
        yield "iceberg://lake"


def _ids(con: pruner_duckdb.Connection, condition: str) -> list[int]:
    found = con.sql(f"SELECT id FROM t WHERE {condition} ORDER BY id").fetchall()
    return [int(each[0]) for each in found]


def _kept(con: pruner_duckdb.Connection) -> tuple[int, int]:
    plan = con.last_plans[-1].plan
    assert plan is not None
    return plan.kept, plan.total


@pytest.mark.sampled(2)
@EACH_KIND
def test_each_commit_in_the_catalog_is_seen(lake: IcebergLake, uri: str) -> None:
    made = lake.create("t")
    made.append(rows(made, range(ROWS)))
    opened = pruner.open_table(f"{uri}/ns/t")
    assert (opened.format, opened.uri) == ("iceberg", f"{lake.folder}/ns/t")
    opened.create_index("numbers", "number", "bloom_filter")
    assert opened.index_uri == f"{lake.folder}/ns/t.pruner"
    with pruner_duckdb.connect({"t": f"{uri}/ns/t"}) as con:
        assert _ids(con, "number = 3") == [9]
        first = opened.snapshot().id
        assert opened.snapshot().id == first
        made.append(rows(made, range(ROWS, 2 * ROWS)))
        made.append(rows(made, range(2 * ROWS, 3 * ROWS)))
        # n * 7 - 60, where n is no multiple of 5
        assert _ids(con, "number = 178") == [34]
        assert _kept(con) == (1, 3)  # by metrics
        absent = [n * 7 - 59 for n in (3, 28, 53)]
        assert [len(opened.plan(f"number = {each}").files) for each in absent] == [0, 1, 1]
        assert opened.refresh().indexed == 2
        assert [len(opened.plan(f"number = {each}").files) for each in absent] == [0, 0, 0]
        made.delete("id >= 24")
        assert _ids(con, "number = 178") == []
        assert _ids(con, "true") == list(range(24))
        with made.update_schema() as schema:
            schema.rename_column("number", "count")
        assert _ids(con, "count = 3") == [9]
        assert len(opened.plan(f"count = {absent[0]}").files) == 0  # by the index from before


@pytest.mark.slow
def test_a_table_that_is_made_anew_is_another_one(lake: IcebergLake, uri: str) -> None:
    made = lake.create("t")
    made.append(rows(made, range(ROWS)))
    opened = pruner.open_table(f"{uri}/ns/t")
    opened.create_index("numbers", "number", "bloom_filter")
    lake.catalog.drop_table("ns.t")
    with pytest.raises(TableError, match=r"the Iceberg catalog '\w+' has no table ns\.t"):
        opened.plan("number = 3")
    made = lake.create("t")
    made.append(rows(made, range(ROWS, 2 * ROWS)))
    with pruner_duckdb.connect({"t": f"{uri}/ns/t"}) as con:
        assert _ids(con, "number = 178") == [34]
        assert _ids(con, "number = 3") == []


@pytest.mark.slow
def test_snapshots_branches_tags_and_moments(lake: IcebergLake, uri: str) -> None:
    made = lake.create("t")
    made.append(rows(made, range(ROWS)))
    first = made.current_snapshot()
    assert first is not None
    made.manage_snapshots().create_tag(first.snapshot_id, "old").create_branch(
        first.snapshot_id, "side"
    ).commit()
    made.append(rows(made, range(ROWS, 2 * ROWS)))
    made.append(rows(made, range(2 * ROWS, 3 * ROWS)), branch="side")
    opened = pruner.open_table(f"{uri}/ns/t")
    assert opened.count("id >= 0") == 2 * ROWS
    assert opened.count("id >= 0", as_of=str(first.snapshot_id)) == ROWS
    assert opened.count("id >= 0", as_of="old") == ROWS
    assert opened.count("id >= 48", as_of="side") == ROWS
    assert opened.count("id >= 48") == 0
    with pytest.raises(TableError, match="no snapshot id, branch or tag"):
        opened.snapshot(as_of="none")


@pytest.mark.sampled(2)
@EACH_KIND
def test_namespaces_in_namespaces(lake: IcebergLake, uri: str) -> None:
    lake.catalog.create_namespace("ns.inner")
    made = lake.catalog.create_table("ns.inner.t", pa.schema([("id", pa.int64())]))
    made.append(pa.table({"id": [1, 2]}))
    assert pruner.open_table(f"{uri}/ns/inner/t").count("id = 1") == 1


@pytest.mark.slow
def test_the_configuration_names_a_table_of_a_catalog(
    lake: IcebergLake, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = lake.create("t")
    made.append(rows(made, range(ROWS)))
    path = tmp_path / "pruner.toml"
    path.write_text(f'[tables."web.events"]\nuri = "{uri}/ns/t"\nindex_uri = "beside"\n', encoding="utf-8")
    config = load(path)
    assert Catalog({}, config).open("web.events").index_uri == f"{tmp_path}/beside"
    # The location itself is opened as the configuration says.
    assert Catalog({}, config).open(f"{uri}/ns/t").index_uri == f"{tmp_path}/beside"
    with running_service(path) as url:
        monkeypatch.setenv("PYICEBERG_CATALOG__OURS__TYPE", "rest")
        monkeypatch.setenv("PYICEBERG_CATALOG__OURS__URI", f"{url}/iceberg")
        # The service is itself a catalog, which plans over that table.
        served = load_catalog("ours", type="rest", uri=f"{url}/iceberg").load_table("web.events")
        assert served.scan(row_filter="id < 3").to_arrow().column("id").to_pylist() == [0, 1, 2]
        made.append(rows(made, range(ROWS, 2 * ROWS)))
        served = load_catalog("ours", type="rest", uri=f"{url}/iceberg").load_table("web.events")
        assert served.scan(row_filter="id > 45").to_arrow().column("id").to_pylist() == [46, 47]
        with pytest.raises(TableError, match="names no metadata file of iceberg://ours/web/events"):
            pruner.open_table("iceberg://ours/web/events")


@pytest.mark.slow
def test_the_command_line_takes_the_name(lake: IcebergLake, uri: str) -> None:
    made = lake.create("t")
    for start in range(0, 3 * ROWS, ROWS):
        made.append(rows(made, range(start, start + ROWS)))

    def said(*arguments: str) -> str:
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    said("sql", f"CREATE INDEX by_number ON '{uri}/ns/t' USING bloom_filter (number)")
    plan = json.loads(said("plan", f"{uri}/ns/t", "--where", "number = 178", "--output", "json"))
    assert (plan["kept"], plan["total"]) == (1, 3)
    assert "34" in said("query", "SELECT id FROM t WHERE number = 178", "--table", f"t={uri}/ns/t")
    made.append(rows(made, range(3 * ROWS, 4 * ROWS)))
    assert "1 file indexed, 3 were covered" in said("refresh", f"{uri}/ns/t")
    assert f"{lake.folder}/ns/t" in said("status", f"{uri}/ns/t")


@pytest.mark.spark
def test_spark_reads_the_newest_state_by_the_name(lake: IcebergLake, uri: str, spark: SparkSession) -> None:
    session = iceberg_session(spark, lake.folder)
    made = lake.catalog.create_table("ns.t", pa.schema([("id", pa.int64()), ("number", pa.int64())]))
    for start in (0, 10, 20):
        ids = range(start, start + 10)
        made.append(pa.table({"id": ids, "number": [each * 10 for each in ids]}))
        assert pruner_spark.read(session, f"{uri}/ns/t").count() == start + 10
    # No row has 155, but metrics would keep a file for it.
    pruner.open_table(f"{uri}/ns/t").create_index("numbers", "number", "bloom_filter")
    for number, expected, kept in ((150, [15], 1), (155, [], 0)):
        found = pruner_spark.read(session, f"{uri}/ns/t").where(f"number = {number}").select("id").collect()
        assert [row.id for row in found] == expected
        plan = pruner_spark.last_plans(session)[-1]
        assert (plan.kept, plan.plan is not None) == (kept, True)


@pytest.mark.slow
def test_whether_there_are_indexes_over_a_table_of_a_catalog(lake: IcebergLake, uri: str) -> None:
    made = lake.create("t")
    made.append(rows(made, range(ROWS)))
    assert not defines_indexes(f"{uri}/ns/t")
    pruner.open_table(f"{uri}/ns/t").create_index("numbers", "number", "bloom_filter")
    assert defines_indexes(f"{uri}/ns/t")
    # The same indexes, however the table is opened.
    by_file = pruner.open_table(lake.catalog.load_table("ns.t").metadata_location)
    assert [each.name for each in by_file.indexes()] == ["numbers"]


@EACH_KIND
def test_what_cannot_be_opened_is_said_in_one_sentence(
    lake: IcebergLake, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TableError, match=r"has no table ns\.none: check the names"):
        pruner.open_table(f"{uri}/ns/none")
    with pytest.raises(TableError, match=r"has no table none\.t"):
        pruner.open_table(f"{uri}/none/t")
    with pytest.raises(TableError, match="names no table: write iceberg://catalog/namespace/table"):
        pruner.open_table(f"{uri}/ns")
    with pytest.raises(
        TableError, match=r"configuration has no catalog 'none'.*PYICEBERG_CATALOG__NONE__URI"
    ):
        pruner.open_table("iceberg://none/ns/t")
    with pytest.raises(StorageError, match="names a table of an Iceberg catalog"):
        pruner.open_table(lake.folder, index_uri=f"{uri}/ns/t")
    monkeypatch.setenv("PYICEBERG_CATALOG__GONE__URI", "http://127.0.0.1:1")
    with pytest.raises(StorageError, match="the Iceberg catalog 'gone' cannot be asked"):
        pruner.open_table("iceberg://gone/ns/t")
    made = lake.create("t")
    with pytest.raises(TableError, match="has one root"):
        pruner.open_table([f"{uri}/ns/t", str(made.location())])


_STORES: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "s3": (
        "s3://b/t",
        {
            "client.region": "eu-west-1",
            "s3.region": "eu-north-1",
            "s3.access-key-id": "key",
            "s3.secret-access-key": "secret",
            "s3.session-token": "token",
            "s3.endpoint": "http://store:9000",
            "s3.force-virtual-addressing": "False",
            "uri": "http://catalog",
        },
        {
            "aws_region": "eu-north-1",
            "aws_access_key_id": "key",
            "aws_secret_access_key": "secret",
            "aws_session_token": "token",
            "aws_endpoint": "http://store:9000",
            "aws_virtual_hosted_style_request": "False",
            "allow_http": "true",
        },
    ),
    "s3 as of the cloud": ("s3://b/t", {"client.region": "eu-west-1"}, {"aws_region": "eu-west-1"}),
    "gs": ("gs://b/t", {"gcs.oauth2.token": "token", "s3.region": "eu"}, {"bearer_token": "token"}),
    "azure": (
        "abfss://c@one.dfs.core.windows.net/t",
        {
            "adls.account-name": "one",
            "adls.sas-token.one.dfs.core.windows.net": "sv=1&sig=mine",
            "adls.sas-token.two.dfs.core.windows.net": "sv=1&sig=other",
        },
        {"account_name": "one", "azure_storage_sas_token": "sv=1&sig=mine"},
    ),
    "local": ("/lake/t", {"s3.region": "eu"}, {}),
}


@pytest.mark.parametrize("kind", _STORES)
def test_properties_of_a_catalog_lead_to_the_store(kind: str) -> None:
    root, properties, expected = _STORES[kind]
    found = store_options(root, properties)
    assert found == expected
    open_store(root, found)  # which knows all of these options


@pytest.mark.parametrize("name", ["s3.role-arn", "client.profile-name", "s3.proxy-uri"])
def test_what_a_catalog_says_and_no_option_does_is_refused(name: str) -> None:
    with pytest.raises(TableError, match=f"{name}, which is not supported"):
        store_options("s3://b/t", {name: "x"})
    assert store_options("gs://b/t", {name: "x"}) == {}
