"""PyIceberg and stock Spark read Delta tables through the catalog as Spark reads their logs, or are told why not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import pruner
from tests.support.delta.tables import BUILDERS, delta_states
from tests.support.iceberg.rest import attach_catalog
from tests.support.service.planner import running_service
from tools.spark_sessions import iceberg_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.delta.writer import DeltaState
    from tests.support.kept.tables import AllTables

pytestmark = pytest.mark.spark


def _refusal(state: DeltaState) -> str | None:
    """The feature of a version that clients cannot read, as reported by Spark; None if they can read it."""
    told = state.told()
    if any(each.get("deletionVector") for each in state.files().values()):
        return "deleted rows"
    if told["metadata"]["configuration"].get("delta.columnMapping.mode", "none") != "none":
        return "column mapping"
    return "type widening" if "delta.typeChanges" in repr(told["schema"]) else None


@pytest.fixture(scope="module")
def url(delta_tables: AllTables, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    config = tmp_path_factory.mktemp("served") / "pruner.toml"
    config.write_text(
        "".join(
            f'[tables."web.{name}"]\nuri = "{delta_states(delta_tables, name)[-1].root}"\n\n'
            for name in BUILDERS
        ),
        encoding="utf-8",
    )
    with running_service(config) as url:
        yield f"{url}/iceberg"


@pytest.fixture(scope="module")
def catalog(url: str) -> Any:
    return load_catalog("lake", type="rest", uri=url)


@pytest.mark.parametrize("name", BUILDERS)
def test_rows_are_those_that_spark_reads(catalog: Any, delta_tables: AllTables, name: str) -> None:
    state = delta_states(delta_tables, name)[-1]
    refusal = _refusal(state)
    if refusal is not None:
        with pytest.raises(Exception, match=refusal):
            catalog.load_table(f"web.{name}")
        return
    expected = state.rows()
    served = catalog.load_table(f"web.{name}")
    columns = [each.name for each in served.schema().fields]
    left_out = {
        each.removeprefix("pruner.left-out.")
        for each in served.properties
        if each.startswith("pruner.left-out.")
    }
    assert {*columns, *left_out} == set(expected.column_names) - {"__file"}
    assert columns
    assert _rows(served.scan().to_arrow(), columns) == _rows(expected, columns)


def _rows(table: pa.Table, columns: list[str]) -> list[str]:
    return sorted(repr([row[name] for name in columns]) for row in table.select(columns).to_pylist())


@pytest.fixture(scope="module")
def stock(spark: SparkSession, url: str, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """A session that knows the catalog only by its URL."""
    session = iceberg_session(spark, tmp_path_factory.mktemp("warehouse"))
    attach_catalog(session, url)
    return session


def _by_arrow(value: Any) -> Any:
    """A value from Spark in the form that Arrow returns."""
    if isinstance(value, tuple) and hasattr(value, "asDict"):
        row: Any = value
        return {name: _by_arrow(row[name]) for name in row.__fields__}
    if isinstance(value, dict):
        items: Any = value
        return [(_by_arrow(key), _by_arrow(each)) for key, each in items.items()]
    if isinstance(value, list):
        several: Any = value
        return [_by_arrow(each) for each in several]
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.parametrize("name", BUILDERS)
def test_stock_spark_reads_the_same(stock: SparkSession, delta_tables: AllTables, name: str) -> None:
    state = delta_states(delta_tables, name)[-1]
    refusal = _refusal(state)
    if refusal is not None:
        with pytest.raises(Exception, match=refusal):
            stock.table(f"lake.web.{name}")
        return
    found = stock.table(f"lake.web.{name}")
    columns = found.columns
    assert columns
    assert sorted(repr([_by_arrow(each[name]) for name in columns]) for each in found.collect()) == _rows(
        state.rows(), columns
    )


def test_files_that_the_log_rules_out_are_not_planned(catalog: Any, delta_tables: AllTables) -> None:
    root = delta_states(delta_tables, "append")[-1].root
    opened = pruner.open_table(root)
    values: list[Any] = delta_states(delta_tables, "append")[-1].rows().column("id").to_pylist()
    least = min(values)
    planned = list(catalog.load_table("web.append").scan(row_filter=f"id = {least}").plan_files())
    assert len(planned) == len(opened.plan(f"id = {least}").files) < len(opened.plan("1 = 1").files)
