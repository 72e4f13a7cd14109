"""Listings: what counts as data, what makes a listing incomplete, and files too young to be told apart."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pruner.errors import TableError
from pruner.storage.opening import open_store
from pruner.tables.listing.files import CLOCK_TICK_NS, LocalLister, StoreLister, settle
from tests.support.parquet.tables import write_file, write_tree

DATA = (
    "a.parquet",
    "k=1/b.parquet",
    "_k=1/c.parquet",
    "plain/d.parquet",
    "x=a.pruner/e.parquet",
    "x#1.parquet",
)
HIDDEN = (
    "_SUCCESS",
    ".a.parquet.crc",
    "_metadata",
    "_temporary/0/a.parquet",
    ".tmp/a.parquet",
    "k=1/.hidden.parquet",
    "part.parquet._COPYING_",
    "t.pruner/column_stats/s.pidx",
    "s.pidx",
)


def listed(root: Path) -> set[str]:
    return {str(fact[0]) for fact in LocalLister(str(root)).facts()}


def test_hidden_files_and_metadata_tables_are_not_data(tmp_path: Path):
    assert listed(write_tree(tmp_path, *DATA, *HIDDEN)) == set(DATA)


def test_a_store_lists_what_the_disk_lists(tmp_path: Path):
    store = open_store(f"memory://{tmp_path.name}/table")
    for path in (*DATA, *HIDDEN):
        store.put_new(path, b"1")
    assert {str(fact[0]) for fact in StoreLister(store).facts()} == set(DATA)


def test_an_empty_name_of_a_folder_with_other_characters_is_listed(tmp_path: Path):
    paths = {"k=a b/é 東京.parquet", "k=%252F/x.parquet", "k=x=y/x.parquet"}
    assert listed(write_tree(tmp_path, *paths)) == paths


@pytest.mark.parametrize(
    ("marker", "what"),
    [
        ("_delta_log/0.json", "a Delta table"),
        ("_spark_metadata/0", "the output of a Spark streaming query"),
        ("metadata/v1.metadata.json", "an Iceberg table"),
        (".hoodie/hoodie.properties", "a Hudi table"),
        (".hoodie_partition_metadata", "a partition of a Hudi table"),
    ],
)
@pytest.mark.parametrize("folder", ["", "k=1/"])
def test_foreign_tables_are_refused_wherever_they_are(tmp_path: Path, marker: str, what: str, folder: str):
    write_tree(tmp_path, "a.parquet", "k=1/b.parquet")
    file = tmp_path / folder / marker
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}")
    with pytest.raises(TableError, match=what):
        LocalLister(str(tmp_path)).facts()
    store = open_store(f"memory://{tmp_path.name}/table")
    store.put_new(folder + marker, b"{}")
    with pytest.raises(TableError, match=what):
        StoreLister(store).facts()


def test_a_folder_called_metadata_is_data_without_icebergs_files(tmp_path: Path):
    assert listed(write_tree(tmp_path, "metadata/a.parquet")) == {"metadata/a.parquet"}


def test_links_are_followed(tmp_path: Path):
    write_tree(tmp_path / "elsewhere", "b.parquet")
    write_file(tmp_path / "table" / "a.parquet")
    (tmp_path / "table" / "link").symlink_to(tmp_path / "elsewhere")
    assert listed(tmp_path / "table") == {"a.parquet", "link/b.parquet"}


def test_a_link_to_a_folder_above_is_refused(tmp_path: Path):
    write_file(tmp_path / "a" / "a.parquet")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    with pytest.raises(TableError, match="leads back to a folder above it"):
        LocalLister(str(tmp_path)).facts()


def test_a_listing_that_is_not_complete_fails(tmp_path: Path):
    write_file(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").symlink_to(tmp_path / "nowhere")
    with pytest.raises(TableError, match="cannot list .* completely: No such file"):
        LocalLister(str(tmp_path)).facts()
    with pytest.raises(TableError, match="cannot list .* completely: No such file"):
        LocalLister(str(tmp_path / "gone")).facts()


def test_a_young_file_is_waited_for(tmp_path: Path):
    write_file(tmp_path / "a.parquet")
    lister = LocalLister(str(tmp_path))
    facts, too_young = settle(lister, lister.facts())
    assert time.time_ns() - (tmp_path / "a.parquet").stat().st_ctime_ns >= CLOCK_TICK_NS
    assert not too_young
    assert facts == lister.facts()


def test_a_file_from_the_future_stays_too_young_to_be_indexed():
    future = time.time_ns() + 3600 * 10**9
    lister = LocalLister("/")
    assert lister.young(("a.parquet", 1, 0, future, 1), time.time_ns()) > 0


def test_stores_without_tags_have_seconds_only():
    lister = StoreLister(open_store("memory://young/table"))
    now = time.time_ns()
    assert lister.young(("a.parquet", 1, now - 10**9), now) > 0
    assert lister.young(("a.parquet", 1, now - 3 * 10**9), now) == 0
    assert lister.young(("a.parquet", 1, "tag"), now) == 0


@pytest.mark.slow
def test_a_walk_of_many_files_is_fast(tmp_path: Path):
    source = write_file(tmp_path / "k=0" / "0.parquet")
    for position in range(1, 5000):
        os.link(source, tmp_path / "k=0" / f"{position}.parquet")
    lister = LocalLister(str(tmp_path))
    walks: list[float] = []
    scans: list[float] = []
    for _ in range(5):
        walks.append(seconds(lambda: len(lister.facts()) == 5000))
        scans.append(seconds(lambda: len([entry.stat() for entry in os.scandir(tmp_path / "k=0")]) == 5000))
    assert min(walks) < 4 * min(scans), "usually as long as the system's own walk"


def seconds(succeeds: Callable[[], bool]) -> float:
    start = time.process_time()
    assert succeeds()
    return time.process_time() - start
