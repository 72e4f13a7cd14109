"""PyIceberg reads Delta tables through the catalog as Spark reads them, or is told by name why it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import pruner
from tests.support.delta_tables import BUILDERS, delta_states
from tests.support.service import running_service

if TYPE_CHECKING:
    from tests.support.delta_writer import DeltaState
    from tests.support.hudi_tables import AllTables

pytestmark = pytest.mark.spark


def _refusal(state: DeltaState) -> str | None:
    """What of a version clients cannot read, by what Spark says of it; None where they can."""
    told = state.told()
    if any(each.get("deletionVector") for each in state.files().values()):
        return "deleted rows"
    if told["metadata"]["configuration"].get("delta.columnMapping.mode", "none") != "none":
        return "column mapping"
    return "type widening" if "delta.typeChanges" in repr(told["schema"]) else None


@pytest.fixture(scope="module")
def catalog(delta_tables: AllTables, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    config = tmp_path_factory.mktemp("served") / "pruner.toml"
    config.write_text(
        "".join(
            f'[tables."web.{name}"]\nuri = "{delta_states(delta_tables, name)[-1].root}"\n\n'
            for name in BUILDERS
        ),
        encoding="utf-8",
    )
    with running_service(config) as url:
        yield load_catalog("lake", type="rest", uri=f"{url}/iceberg")


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


def test_files_that_the_log_rules_out_are_not_planned(catalog: Any, delta_tables: AllTables) -> None:
    root = delta_states(delta_tables, "append")[-1].root
    opened = pruner.open_table(root)
    values: list[Any] = delta_states(delta_tables, "append")[-1].rows().column("id").to_pylist()
    least = min(values)
    planned = list(catalog.load_table("web.append").scan(row_filter=f"id = {least}").plan_files())
    assert len(planned) == len(opened.plan(f"id = {least}").files) < len(opened.plan("1 = 1").files)
