"""Tables of version 8 and 9 are listed by the files of their metadata table, where it is in step with the timeline."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hudi import HudiTable

from pruner.storage.opening import open_store
from pruner.tables.detect import open_table_source
from pruner.tables.hudi_metadata.listing import METADATA_PATH, lists_all_files
from pruner.tables.hudi_slices import list_slices
from pruner.tables.hudi_timeline import read_timeline
from tests.support.hudi_indexed import BUILDERS, tables
from tests.support.hudi_tables import HudiTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Listed = set[tuple[str, str, str | None, tuple[str, ...]]]
"""Partition path, file id, base file and log files of each slice."""


@pytest.fixture(scope="module")
def indexed(start_session: Callable[[], SparkSession]) -> HudiTables:
    """The tables with every index of Hudi's; read-only."""
    return tables(start_session)


def _listed(path: Path) -> Listed:
    return {
        (
            entry.partition_path,
            entry.file_id,
            Path(entry.base_file).name if entry.base_file else None,
            tuple(sorted(Path(log).name for log in entry.log_files)),
        )
        for entry in open_table_source([str(path)]).snapshot().slices
    }


def test_a_list_of_files_that_is_behind_the_timeline_is_not_believed(
    indexed: HudiTables, tmp_path: Path
) -> None:
    """As in a copy that was made while a table was written. hudi-rs lists by it all the same, and loses slices."""
    path = indexed.copy("cow_v9", tmp_path)
    expected = _listed(path)
    newest = max((path / ".hoodie/metadata/.hoodie/timeline").glob("*_*.deltacommit"))
    newest.unlink()
    assert len(HudiTable(str(path)).get_file_slices()) < len(expected)
    assert _listed(path) == expected


def test_a_list_of_files_that_is_gone_is_not_believed(indexed: HudiTables, tmp_path: Path) -> None:
    path = indexed.copy("cow_v9", tmp_path)
    expected = _listed(path)
    shutil.rmtree(path / ".hoodie/metadata/files")
    assert not HudiTable(str(path)).get_file_slices()
    assert _listed(path) == expected


@pytest.mark.parametrize("name", [name for name in BUILDERS if not name.endswith("v6")])
def test_hudis_list_of_files_is_that_of_the_folders(name: str, indexed: HudiTables) -> None:
    """Tables of version 8 and 9 with a metadata table: hudi-rs lists by it, and it is in step with the timeline."""
    path = indexed.path(name)
    store = open_store(str(path), {})
    timeline = read_timeline(store)
    assert lists_all_files(open_store(f"{path}/{METADATA_PATH}", {}), timeline)
    by_folders = {
        (entry.partition, entry.file_id, entry.base or None, tuple(sorted(entry.logs)))
        for entry in list_slices(store, timeline, None)
    }
    assert _listed(path) == by_folders
