"""Spark's executors each list a part of a large Hudi table; plans are those over a listing by one process."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

import pruner
from pruner.maintenance import shared_listing
from pruner.metadata import MetadataTable
from pruner.storage.opening import open_store
from pruner.tables.hudi import blocks, full
from pruner.tables.hudi import source as hudi_source
from pruner.tables.hudi.blocks import StoredSlices
from pruner.tables.hudi.source import HudiSource
from tests.support.hudi.archived import all_tables
from tests.support.kept.tables import AllTables
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full, "LIST_BYTES", 0)
    monkeypatch.setattr(full, "FOLDERS_FROM", 0)
    monkeypatch.setattr(full, "_is_seen_by_all", lambda _: True)  # the executors are on this machine
    monkeypatch.setattr(blocks, "BLOCKS_FROM", 1)


@pytest.fixture(scope="module")
def listed_tables(start_session: Callable[[], SparkSession]) -> AllTables:
    """Tables with Hudi's metadata table; read-only."""
    return all_tables(start_session)


@pytest.mark.parametrize(
    "name", ["cow_two_partition_columns_v9", "mor_compacted_v9", "mor_v6", "cow_archived_v9"]
)
def test_executors_list_what_one_process_lists(
    name: str,
    spark: SparkSession,
    hudi_table: Callable[[str], Path],
    listed_tables: AllTables,
    tmp_path: Path,
) -> None:
    """The last of these has a list of its files, which the executors use."""
    root = listed_tables.path(name) if name == "cow_archived_v9" else hudi_table(name)
    local = pruner.open_table(str(root), index_uri=str(tmp_path / "local"))
    local.create_index("stats", on="*")
    here = mock.Mock(side_effect=hudi_source.list_table)
    with mock.patch.object(hudi_source, "list_table", here):
        distributed = pruner.open_table(str(root), index_uri=str(tmp_path / "spark"))
        built = distributed.create_index("stats", on="*", run=spark)
    assert here.call_count == 0
    assert built is not None
    assert built.failures == ()
    saved = MetadataTable(open_store(str(tmp_path / "spark"))).state().last_snapshot
    assert saved is not None
    assert len(saved.parts) > 1
    reader = pruner.open_table(str(root), index_uri=str(tmp_path / "spark"))
    assert isinstance(reader.snapshot().data.columns, StoredSlices)
    expected = HudiSource(str(root)).snapshot()
    assert reader.snapshot().data.keys.equals(expected.keys)
    for row in spark_snapshot(spark, root).limit(3).collect():
        kept, as_local = (
            {entry.file_id for entry in table.plan(f"id = {row['id']}", dialect="spark").slices}
            for table in (reader, local)
        )
        assert kept == as_local
        assert any(row["_hoodie_file_name"].startswith(file_id) for file_id in kept)


def test_a_table_that_executors_do_not_see_is_listed_here(
    spark: SparkSession, hudi_table: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = hudi_table("cow_v9")
    table = pruner.open_table(str(root), index_uri=str(tmp_path / "index"))
    share = hudi_source.parts_of

    def of_another_place(*args: Any) -> object:
        """The executors find nothing where the table was a moment ago."""
        found = share(*args)
        shutil.move(root, root.with_name("elsewhere"))
        return found

    monkeypatch.setattr(hudi_source, "parts_of", of_another_place)
    listing = mock.Mock(side_effect=lambda *args: shutil.move(root.with_name("elsewhere"), root))
    listed = shared_listing._listed
    monkeypatch.setattr(shared_listing, "_listed", lambda *args: (listed(*args), listing())[0])
    built = table.create_index("stats", on="id", run=spark)
    assert built is not None
    assert built.failures == ()
    assert built.indexed == len(HudiSource(str(root)).snapshot())
    assert listing.call_count == 1
    saved = MetadataTable(open_store(str(tmp_path / "index"))).state().last_snapshot
    assert saved is not None
    assert saved.parts == ()
