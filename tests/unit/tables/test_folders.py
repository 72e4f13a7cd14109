"""Trees whose files never change in place: a listing checks only folders, and misses no addition or removal."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pruner
from pruner.errors import TableError
from pruner.tables.listing import folders
from pruner.tables.listing.files import CLOCK_TICK_NS, Fact, LocalLister
from pruner.tables.listing.folders import FolderLister, _Folders
from tests.support.foreign_tables import FOREIGN_TABLES
from tests.support.parquet.tables import write_file, write_tree
from tests.support.running.profiles import examples

TICK = 1.5 * CLOCK_TICK_NS / 1e9


def paths(lister: LocalLister) -> set[str]:
    return {str(fact[0]) for fact in lister.facts()}


def settled(root: Path) -> FolderLister:
    """A lister that has seen every folder for longer than the clock's granularity."""
    lister = FolderLister(str(root))
    lister.facts()
    time.sleep(TICK)
    lister.facts()
    return lister


def folders_read(lister: FolderLister) -> list[str]:
    read: list[str] = []
    plain = LocalLister._read_folder

    def noted(self: LocalLister, prefix: str, *rest: object) -> bool:
        read.append(prefix)
        return plain(self, prefix, *rest)  # type: ignore[arg-type]

    with patch.object(LocalLister, "_read_folder", noted):
        lister.facts()
    return sorted(read)


def test_a_quiet_tree_is_not_listed_again(tmp_path: Path) -> None:
    lister = settled(write_tree(tmp_path, "a.parquet", "k=1/b.parquet", "k=1/l=2/c.parquet"))
    assert folders_read(lister) == []
    assert lister.facts() is lister.facts()


def test_only_the_folder_that_changed_is_listed(tmp_path: Path) -> None:
    lister = settled(write_tree(tmp_path, "k=1/b.parquet", "k=2/c.parquet"))
    write_file(tmp_path / "k=2" / "d.parquet")
    assert folders_read(lister) == ["k=2/"]
    assert paths(lister) == {"k=1/b.parquet", "k=2/c.parquet", "k=2/d.parquet"}


def test_a_folder_is_listed_until_its_stamp_is_older_than_the_clock_is_fine(tmp_path: Path) -> None:
    lister = FolderLister(str(write_tree(tmp_path, "k=1/b.parquet")))
    lister.facts()
    assert folders_read(lister) == ["", "k=1/"]
    time.sleep(TICK)
    assert folders_read(lister) == ["", "k=1/"]
    assert folders_read(lister) == []


def test_a_folder_whose_listing_began_a_tick_after_the_look_is_not_listed_once_more(tmp_path: Path) -> None:
    """Of many changed folders, only those that were listed right away are listed again."""
    lister = settled(write_tree(tmp_path, "k=1/b.parquet", "k=2/c.parquet"))
    for folder in ("k=1", "k=2"):
        write_file(tmp_path / folder / "d.parquet")
    with patch.object(LocalLister, "_read_folder", _slowly(lambda: None)):
        lister.facts()
    assert len(folders_read(lister)) == 1


def test_a_look_before_a_build_waits_where_many_files_would_be_listed_twice(tmp_path: Path) -> None:
    lister = settled(write_tree(tmp_path, "k=1/b.parquet", "k=2/c.parquet"))
    for waits in (False, True):
        for folder in ("k=1", "k=2"):
            write_file(tmp_path / folder / f"{waits}.parquet")
        with patch.object(folders, "_WAITED_FOR", 4):
            lister.expect_another_look()
            lister.facts()
        # The first time the changed folders had only two files.
        assert folders_read(lister) == ([] if waits else ["k=1/", "k=2/"])
        assert paths(lister) == paths(LocalLister(str(tmp_path)))
        time.sleep(TICK)
        lister.facts()


def test_r4_a_folder_that_changes_while_a_look_waits_is_listed_once_more(tmp_path: Path) -> None:
    lister = settled(write_tree(tmp_path, "k=1/b.parquet", "k=2/c.parquet"))
    write_file(tmp_path / "k=1" / "d.parquet")
    plain = time.sleep

    def late(seconds: float) -> None:
        plain(seconds)
        write_file(tmp_path / "k=1" / "e.parquet")

    lister.expect_another_look()
    with patch.object(folders, "_WAITED_FOR", 1), patch.object(folders.time, "sleep", late):
        lister.facts()
    assert folders_read(lister) == ["k=1/"]


def test_r4_a_folder_that_changes_while_another_is_listed_is_listed_once_more(tmp_path: Path) -> None:
    """Its state from the start of the listing is older than the change."""
    lister = settled(write_tree(tmp_path, "k=1/b.parquet", "k=2/c.parquet"))
    for folder in ("k=1", "k=2"):
        write_file(tmp_path / folder / "d.parquet")

    def change() -> None:
        for folder in ("k=1", "k=2"):
            write_file(tmp_path / folder / "e.parquet")

    with patch.object(LocalLister, "_read_folder", _slowly(change)):
        lister.facts()
    assert folders_read(lister) == ["k=1/", "k=2/"]


def test_r4_a_folder_that_changes_while_all_are_asked_is_listed_once_more(tmp_path: Path) -> None:
    lister = settled(write_tree(tmp_path, "k=1/b.parquet"))
    plain = _Folders.stamps_now

    def late(self: _Folders, root: str) -> list[Any]:
        time.sleep(TICK)
        write_file(tmp_path / "k=1" / "d.parquet")
        return plain(self, root)

    with patch.object(_Folders, "stamps_now", late):
        lister.facts()
    assert folders_read(lister) == ["k=1/"]


def _slowly(then: Callable[[], None]) -> Callable[..., bool]:
    """Reads a folder as usual, takes longer than the clock's granularity, and runs `then` after the first one."""
    plain, read = LocalLister._read_folder, list[str]()

    def slow(self: LocalLister, prefix: str, *rest: Any) -> bool:
        found = plain(self, prefix, *rest)
        time.sleep(TICK)
        if not read:
            then()
        read.append(prefix)
        return found

    return slow


@pytest.mark.parametrize(
    "change", ["add", "delete", "rename", "replace", "rewrite", "new folder", "remove folder", "relink"]
)
def test_what_comes_and_goes_is_seen_at_once(tmp_path: Path, change: str) -> None:
    root = write_tree(tmp_path / "t", "k=1/a.parquet", "k=1/b.parquet", "k=2/c.parquet")
    write_tree(tmp_path / "else", "d.parquet")
    write_tree(tmp_path / "other", "e.parquet")
    (root / "k=3").symlink_to(tmp_path / "else")
    lister = settled(root)
    match change:
        case "add":
            write_file(root / "k=1" / "x.parquet")
        case "delete":
            (root / "k=1" / "a.parquet").unlink()
        case "rename":
            (root / "k=1" / "a.parquet").rename(root / "k=2" / "a.parquet")
        case "replace":
            write_file(tmp_path / "new.parquet")
            before = {fact[0]: fact for fact in lister.facts()}["k=1/a.parquet"]
            (tmp_path / "new.parquet").replace(root / "k=1" / "a.parquet")
            assert {fact[0]: fact for fact in lister.facts()}["k=1/a.parquet"] != before
        case "rewrite":
            # Many file systems give the new file the inode of the old one: neither inode nor name shows the change.
            file = root / "k=1" / "a.parquet"
            content = file.read_bytes()
            before = {fact[0]: fact for fact in lister.facts()}["k=1/a.parquet"]
            file.unlink()
            file.write_bytes(content)
            assert {fact[0]: fact for fact in lister.facts()}["k=1/a.parquet"] != before
        case "new folder":
            write_file(root / "k=9" / "l=1" / "x.parquet")
        case "remove folder":
            shutil.rmtree(root / "k=1")
        case _:
            (root / "k=3").unlink()
            (root / "k=3").symlink_to(tmp_path / "other")
    assert paths(lister) == paths(LocalLister(str(root)))


def test_folders_that_a_walk_finds_in_another_order_keep_their_files(tmp_path: Path) -> None:
    """A later change goes to the position of its folder among all files, which that walk moved."""
    root = write_tree(tmp_path, "k=1/a.parquet", "k=2/b.parquet", "k=3/c.parquet")
    lister = settled(root)
    plain = LocalLister._read_folder

    def turned(self: LocalLister, prefix: str, found: list[Fact], pending: list[str]) -> bool:
        inside: list[str] = []
        has_links = plain(self, prefix, found, inside)
        pending += reversed(inside)
        return has_links

    write_file(root / "passing")
    (root / "passing").unlink()
    with patch.object(LocalLister, "_read_folder", turned):
        lister.facts()
        time.sleep(TICK)
        lister.facts()
        write_file(root / "k=1" / "x.parquet")
        write_file(root / "k=3" / "y.parquet")
        (root / "k=3" / "c.parquet").unlink()
        assert paths(lister) == {"k=1/a.parquet", "k=1/x.parquet", "k=2/b.parquet", "k=3/y.parquet"}
        assert len(lister.facts()) == len(list(lister.facts())) == 4


def test_a_check_that_fails_half_way_loses_no_change(tmp_path: Path) -> None:
    root = write_tree(tmp_path, "k=1/a.parquet", "k=2/b.parquet")
    lister = settled(root)
    write_file(root / "k=1" / "x.parquet")
    write_file(root / "k=2" / "y.parquet")
    plain = LocalLister._read_folder

    def failing(self: LocalLister, prefix: str, *rest: Any) -> bool:
        if prefix == "k=2/":
            raise TableError("not now")
        return plain(self, prefix, *rest)

    with patch.object(LocalLister, "_read_folder", failing), pytest.raises(TableError, match="not now"):
        lister.facts()
    assert paths(lister) == paths(LocalLister(str(root)))


def test_a_folder_with_a_linked_file_is_listed_at_every_check(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", "k=1/a.parquet")
    write_file(tmp_path / "target.parquet")
    (root / "k=1" / "l.parquet").symlink_to(tmp_path / "target.parquet")
    lister = settled(root)
    (tmp_path / "target.parquet").write_bytes(b"something of another size")
    assert lister.facts() == lister.facts()
    assert {fact[0]: fact[1] for fact in lister.facts()}["k=1/l.parquet"] == 25


@pytest.mark.parametrize("kind", ["iceberg", "paimon"])
def test_r8_signs_that_come_into_old_folders_are_noticed(tmp_path: Path, kind: str) -> None:
    """The folder above them has no new entry."""
    table = FOREIGN_TABLES[kind]
    root = write_tree(
        tmp_path / "t", *table.data, *(f"{path.partition('/')[0]}/x.parquet" for path in table.beside)
    )
    lister = settled(root)
    for path, text in table.beside.items():
        (root / path).write_text(text)
    with pytest.raises(TableError, match=table.what):
        lister.facts()


def test_a_tree_that_cannot_be_listed_wholly_is_an_error(tmp_path: Path) -> None:
    lister = settled(write_tree(tmp_path / "t", "a.parquet"))
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(TableError, match="cannot list .* completely"):
        lister.facts()


def parquet(file: Path, values: list[int]) -> bytes:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"a": values}), file)
    return file.read_bytes()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("written_first", [0, 4, 100], ids=["nothing", "the magic", "a part"])
def test_a_file_that_is_still_being_written_is_read_when_it_is_done(
    tmp_path: Path, written_first: int
) -> None:
    """DuckDB's partitioned COPY writes under the final name: the folder does not change when a file is done."""
    parquet(tmp_path / "t" / "a.parquet", [1, 2])
    whole = parquet(tmp_path / "whole", [7])
    late = tmp_path / "t" / "late.parquet"
    late.write_bytes(whole[:written_first])
    table = pruner.open_table(tmp_path / "t", files="immutable")
    table.create_index("stats", on="a")
    for _ in range(3):
        assert table.plan("a = 7").kept == (1 if written_first else 0)
        time.sleep(TICK)
    with late.open("r+b") as file:
        file.write(whole)
    assert table.plan("a = 7").files == [str(late)]
    assert table.refresh().indexed == 1
    time.sleep(TICK)
    assert (table.plan("a = 7").kept, table.plan("a = 8").kept) == (1, 0)


def test_without_the_promise_a_file_that_changes_in_place_is_seen(tmp_path: Path) -> None:
    """The meaning of the promise: kept as the difference between both ways of listing."""
    file = tmp_path / "t" / "a.parquet"
    parquet(file, [1])
    plain, promised = pruner.open_table(tmp_path / "t"), pruner.open_table(tmp_path / "t", files="immutable")
    plain.create_index("stats", on="a")
    for _ in range(3):
        assert (plain.plan("a = 2").kept, promised.plan("a = 2").kept) == (0, 0)
        time.sleep(TICK)
    content = parquet(tmp_path / "other", [2])
    with file.open("r+b") as opened:
        opened.write(content)
        opened.truncate()
    assert plain.plan("a = 2").kept == 1
    assert promised.plan("a = 2").kept == 0, "the promise was broken, and nobody looked"
    assert pruner.open_table(tmp_path / "t", files="immutable").plan("a = 2").kept == 1


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "delete", "move", "folder", "drop folder", "wait", "look"]),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=25,
)


@settings(max_examples=examples(60))
@given(operations=OPERATIONS)
def test_looks_find_what_a_whole_listing_finds(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int, int]]
) -> None:
    root = tmp_path_factory.mktemp("t")
    lister = FolderLister(str(root))
    for operation, one, two in operations:
        folder = root / f"k={one}"
        files = sorted(folder.glob("*.parquet"))
        match operation:
            case "add":
                write_file(folder / f"{two}.parquet")
            case "delete" if files:
                files[two % len(files)].unlink()
            case "move" if files and (root / f"k={two}").is_dir():
                os.replace(files[0], root / f"k={two}" / files[0].name)  # noqa: PTH105
            case "folder":
                (folder / f"l={two}").mkdir(parents=True, exist_ok=True)
                write_file(folder / f"l={two}" / "x.parquet")
            case "drop folder":
                shutil.rmtree(folder, ignore_errors=True)
            case "wait":
                time.sleep(TICK)
            case _:
                lister.facts()
        assert paths(lister) == paths(LocalLister(str(root)))


def test_verify_names_the_files_that_changed_in_place(tmp_path: Path) -> None:
    root = tmp_path / "t"
    for name in ("a", "b", "c"):
        parquet(root / "k=1" / f"{name}.parquet", [1])
    table = pruner.open_table(root, files="immutable")
    table.create_index("stats", on="a")
    assert table.verify(files=True) == []
    parquet(tmp_path / "new.parquet", [2])
    shutil.copyfile(tmp_path / "new.parquet", root / "k=1" / "b.parquet")
    assert table.verify() == []
    [sentence] = table.verify(files=True)
    assert sentence.startswith(
        f"{root}/k=1/b.parquet is not the file that was indexed under this name: run pruner ref"
    )
    assert "restart the processes that plan over the table" in sentence
    opened_anew = pruner.open_table(root)
    opened_anew.refresh()
    assert opened_anew.verify(files=True) == []
