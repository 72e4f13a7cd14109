"""Tables of versions 8 and 9 are listed from the file list in their metadata table, if it matches the timeline."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from hudi import HudiTable

from pruner.formats.detect import open_table_source
from pruner.storage.opening import open_store
from pruner.tables.hudi import full
from pruner.tables.hudi.metadata.listing import METADATA_PATH
from pruner.tables.hudi.metadata.whole import list_of_files
from pruner.tables.hudi.slices import list_slices
from pruner.tables.hudi.timeline import read_timeline
from tests.support.hudi.indexed import BUILDERS, tables
from tests.support.kept.tables import KeptTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Listed = set[tuple[str, str, str | None, tuple[str, ...]]]
"""Partition path, file id, base file and log files of each slice."""


@pytest.fixture(scope="module")
def indexed(start_session: Callable[[], SparkSession]) -> KeptTables:
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


def _lost(path: Path, slices: int) -> bool:
    """Tell whether hudi-rs alone lists fewer slices."""
    try:
        return len(HudiTable(str(path)).get_file_slices()) < slices
    except Exception:
        return False


def test_a_list_of_files_that_is_behind_the_timeline_is_not_believed(
    indexed: KeptTables, tmp_path: Path
) -> None:
    """As in a copy made while the table was being written. hudi-rs uses the list all the same, and loses slices."""
    path = indexed.copy("cow_v9", tmp_path)
    expected = _listed(path)
    newest = max((path / ".hoodie/metadata/.hoodie/timeline").glob("*_*.deltacommit"))
    newest.unlink()
    assert len(HudiTable(str(path)).get_file_slices()) < len(expected)
    assert _listed(path) == expected


def test_a_list_of_files_that_was_never_compacted_is_believed(hudi_tables: KeptTables) -> None:
    """It begins with an empty log file without a commit."""
    path = hudi_tables.path("cow_v9")
    timeline = read_timeline(open_store(str(path), {}))
    assert list_of_files(open_store(f"{path}/{METADATA_PATH}", {}), timeline)


def test_a_list_of_files_that_is_gone_is_not_believed(indexed: KeptTables, tmp_path: Path) -> None:
    path = indexed.copy("cow_v9", tmp_path)
    expected = _listed(path)
    shutil.rmtree(path / ".hoodie/metadata/files")
    assert not HudiTable(str(path)).get_file_slices()
    assert _listed(path) == expected


def test_a_list_of_files_that_lacks_bytes_is_not_believed(indexed: KeptTables, tmp_path: Path) -> None:
    """hudi-rs skips log files that are missing, truncated, or corrupt in a block header, and loses slices."""
    path = indexed.copy("mor_v8", tmp_path)
    expected = _listed(path)
    lost = 0
    for file in sorted((path / ".hoodie/metadata/files").iterdir()):
        if file.suffix == ".crc" or file.name == ".hoodie_partition_metadata":
            continue
        whole = file.read_bytes()
        # hudi-rs refuses a base file with a wrong byte.
        wrong = whole[:7] + b"\xff" + whole[8:] if file.suffix != ".hfile" else None
        for left in (None, b"", whole[: len(whole) // 2], whole[:-7], wrong):
            file.unlink()
            if left is not None:
                file.write_bytes(left)
            assert _listed(path) == expected
            lost += _lost(path, len(expected))
            file.write_bytes(whole)
    assert lost >= 4, "or nothing here is worth a check"


@pytest.mark.parametrize("left", [1, 3])
def test_a_list_of_files_whose_base_file_has_no_commit_is_not_believed(
    left: int, indexed: KeptTables, tmp_path: Path
) -> None:
    """hudi-rs skips a base file without a commit in the timeline; here one of three, or all, have none."""
    path = indexed.copy("cow_v9", tmp_path)
    expected = _listed(path)
    timeline = path / ".hoodie/metadata/.hoodie/timeline"
    bases = sorted(
        base.stem.rpartition("_")[2] for base in (path / ".hoodie/metadata/files").glob("files-*.hfile")
    )
    for instant in bases[-left:]:
        (commit,) = timeline.glob(f"{instant}_*")
        commit.unlink()
    assert _listed(path) == expected


@pytest.mark.parametrize("name", [name for name in BUILDERS if not name.endswith("v6")])
def test_hudis_list_of_files_is_that_of_the_folders(
    name: str, indexed: KeptTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables of versions 8 and 9 with a metadata table: hudi-rs lists by it, and it matches the timeline."""
    path = indexed.path(name)
    store = open_store(str(path), {})
    timeline = read_timeline(store)
    assert list_of_files(open_store(f"{path}/{METADATA_PATH}", {}), timeline)
    by_folders = {
        (entry.partition, entry.file_id, entry.base or None, tuple(sorted(entry.logs)))
        for entry in list_slices(store, timeline, None)
    }

    def no_folders(*_: object) -> NoReturn:
        raise AssertionError("an object store would list every object")

    monkeypatch.setattr(full, "folders_of", no_folders)
    assert _listed(path) == by_folders
