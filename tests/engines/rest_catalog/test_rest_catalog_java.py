"""Iceberg's Java library queries the catalog with its own REST client, without an engine: every read-only call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from py4j.protocol import Py4JJavaError

import pruner
from pruner.service.rest_catalog import tasks
from tests.support.iceberg.tables import IcebergLake, rows
from tests.support.running.patience import PATIENCE
from tests.support.service.planner import running_service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FILES = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Parquet tree and an Iceberg table of several snapshots."""
    root = tmp_path_factory.mktemp("lake")
    (root / "tree").mkdir()
    for at in range(FILES):
        pq.write_table(
            pa.table({"id": list(range(at * 10, at * 10 + 10)), "s": [f"s{at}"] * 10}),
            root / "tree" / f"{at}.parquet",
        )
    pruner.open_table(root / "tree").create_index("all", "*")
    own = IcebergLake(root).create("grown", "months")
    for start in (0, 12, 24):
        own.append(rows(own, range(start, start + 12)))
    (root / "pruner.toml").write_text(
        f'[tables."web.tree"]\nuri = "{root}/tree"\n\n[tables."web.grown"]\nuri = "{own.metadata_location}"\n',
        encoding="utf-8",
    )
    return root


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with running_service(folder / "pruner.toml") as served:
        yield served


@pytest.fixture(scope="module")
def java(spark: SparkSession) -> Any:
    """The packages of Iceberg's library in Spark's JVM, which has its jar."""
    context: Any = spark.sparkContext
    return context._jvm


@pytest.fixture(scope="module")
def client(spark: SparkSession, java: Any, url: str) -> Iterator[Any]:
    """The library's REST client."""
    made = java.org.apache.iceberg.rest.RESTCatalog()
    context: Any = spark.sparkContext
    made.setConf(context._jsc.hadoopConfiguration())
    made.initialize("lake", {"uri": f"{url}/iceberg"})
    yield made
    made.close()


def _identifier(java: Any, name: str) -> Any:
    return java.org.apache.iceberg.catalog.TableIdentifier.parse(name)


def _scanned(scan: Any) -> list[str]:
    """The files of a scan's tasks."""
    found: list[str] = []
    tasks_ = scan.planFiles()
    each = tasks_.iterator()
    while each.hasNext():
        found.append(Path(each.next().file().location()).name)
    tasks_.close()
    return found


def test_tables_are_listed_and_loaded(java: Any, client: Any) -> None:
    namespace = java.org.apache.iceberg.catalog.Namespace.of(_texts(java, "web"))
    other = java.org.apache.iceberg.catalog.Namespace.of(_texts(java, "other"))
    assert [each.toString() for each in client.listNamespaces()] == ["web"]
    assert sorted(each.toString() for each in client.listTables(namespace)) == ["web.grown", "web.tree"]
    assert client.namespaceExists(namespace)
    assert not client.namespaceExists(other)
    assert client.tableExists(_identifier(java, "web.tree"))
    assert not client.tableExists(_identifier(java, "web.nothing"))
    table = client.loadTable(_identifier(java, "web.tree"))
    assert [each.name() for each in table.schema().columns()] == ["id", "s"]
    with pytest.raises(Py4JJavaError, match="NoSuchTableException"):
        client.loadTable(_identifier(java, "web.nothing"))


def _texts(java: Any, *values: str) -> Any:
    from pyspark import SparkContext

    made: Any = SparkContext._gateway.new_array(java.java.lang.String, len(values))  # pyright: ignore
    for at, each in enumerate(values):
        made[at] = each
    return made


def test_scans_are_planned_page_by_page(
    java: Any, client: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the client of `plan` and `tasks`: each file once, those that indexes keep, and the residual filter."""
    monkeypatch.setattr(tasks, "PAGE", 3)
    expressions = java.org.apache.iceberg.expressions.Expressions
    table = client.loadTable(_identifier(java, "web.tree"))
    assert table.getClass().getSimpleName() == "RESTTable"
    assert sorted(_scanned(table.newScan())) == [f"{at}.parquet" for at in range(FILES)]
    assert _scanned(table.newScan().filter(expressions.equal("id", 34))) == ["3.parquet"]
    both = expressions.greaterThanOrEqual("id", 60)
    assert sorted(_scanned(table.newScan().filter(both))) == ["6.parquet", "7.parquet"]
    asked = [json.loads(line) for line in requests.get(f"{url}/v1/asked", timeout=PATIENCE).text.splitlines()]
    assert {"columns": ["id"], "times": 1, "files_read": 1, "files": FILES}.items() <= next(
        each.items() for each in asked if each["expression"]["node"] == "compare"
    )


def test_states_are_travelled_to(java: Any, client: Any) -> None:
    """By snapshot id; an unknown id is refused."""
    table = client.loadTable(_identifier(java, "web.grown"))
    snapshots = [each.snapshotId() for each in table.snapshots()]
    counts = [len(_scanned(table.newScan().useSnapshot(each))) for each in snapshots]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] == len(_scanned(table.newScan()))
    with pytest.raises(Exception, match="Cannot find snapshot"):
        table.newScan().useSnapshot(5)


def test_a_table_that_changed_is_refreshed(java: Any, client: Any, folder: Path) -> None:
    table = client.loadTable(_identifier(java, "web.tree"))
    before = table.currentSnapshot().snapshotId()
    table.refresh()
    assert table.currentSnapshot().snapshotId() == before
    more = folder / "tree" / "more.parquet"
    pq.write_table(pa.table({"id": [1000], "s": ["more"]}), more)
    try:
        table.refresh()
        assert table.currentSnapshot().snapshotId() != before
        assert "more.parquet" in _scanned(table.newScan())
    finally:
        more.unlink()


def test_the_place_of_a_metadata_file_is_that_of_the_table_s_newest(url: str, folder: Path) -> None:
    """The file exists, so that snapshots can be shown."""
    place = f"{url}/iceberg/v1/namespaces/web/tables/grown"
    told = requests.get(place, headers={"User-Agent": "iceberg-java"}, timeout=PATIENCE).json()
    file = Path(told["metadata-location"].removeprefix("file://").removeprefix("file:"))
    assert file.is_relative_to(folder)
    assert json.loads(file.read_text(encoding="utf-8"))["snapshots"] == told["metadata"]["snapshots"]
    python = requests.get(place, headers={"User-Agent": "PyIceberg/0.12.0"}, timeout=PATIENCE).json()
    assert "metadata-location" not in python


def test_plans_that_are_left_early_are_forgotten(
    java: Any, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that stops midway may cancel; either way the next plan is complete."""
    monkeypatch.setattr(tasks, "PAGE", 1)
    table = client.loadTable(_identifier(java, "web.tree"))
    begun = table.newScan().planFiles()
    begun.iterator().next()
    begun.close()
    assert len(_scanned(table.newScan())) == FILES


def _committed(update: Any, change: Callable[[Any], Any]) -> None:
    change(update)
    update.commit()


def test_nothing_is_written(java: Any, client: Any, folder: Path) -> None:
    """Every call that would change something fails with the catalog's message, and the folder is unchanged."""
    before = {each: each.stat().st_mtime_ns for each in folder.rglob("*")}
    table = client.loadTable(_identifier(java, "web.tree"))
    name, newest = _identifier(java, "web.tree"), table.currentSnapshot().snapshotId()
    calls = {
        "dropTable": lambda: client.dropTable(name, True),
        "renameTable": lambda: client.renameTable(name, _identifier(java, "web.other")),
        "createTable": lambda: client.createTable(_identifier(java, "web.new"), table.schema()),
        "properties": lambda: _committed(table.updateProperties(), lambda each: each.set("a", "b")),
        "schema": lambda: _committed(table.updateSchema(), lambda each: each.deleteColumn("s")),
        "tag": lambda: _committed(table.manageSnapshots(), lambda each: each.createTag("t", newest)),
        "delete": lambda: _committed(table.newDelete(), lambda each: each.deleteFile("/x")),
        "namespace": lambda: client.createNamespace(
            java.org.apache.iceberg.catalog.Namespace.of(_texts(java, "more"))
        ),
    }
    for run in calls.values():
        with pytest.raises(Exception, match=r"read-only|does not support endpoint|/dev/null"):
            run()
    assert {each: each.stat().st_mtime_ns for each in folder.rglob("*")} == before
