"""Hudi tables listed in full: equal to hudi-rs's listing, over random timelines of all versions, without using it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import hudi
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pruner.errors import StorageError, TableError
from pruner.storage.opening import open_store
from pruner.tables.hudi import full
from pruner.tables.hudi.full import list_table
from pruner.tables.hudi.listing import HudiSlice, Listing
from pruner.tables.hudi.slice_columns import HudiColumns
from pruner.tables.hudi.timeline import read_timeline
from tests.support.hudi.made_up.files import SyntheticTable
from tests.support.hudi.made_up.timelines import ENDS, KINDS, RandomTimeline
from tests.support.running import profiles


def slices_of(columns: HudiColumns) -> list[HudiSlice]:
    """The slices of columns, one by one."""
    partitions: Any = columns.columns.column("partition").to_pylist()
    file_ids: Any = columns.columns.column("file_id").to_pylist()
    groups = [
        (columns.paths[partition], file_id) for partition, file_id in zip(partitions, file_ids, strict=True)
    ]
    return [entry for group in groups if (entry := columns.slice_of(group)) is not None]


def unordered(slices: list[HudiSlice]) -> list[tuple[Any, ...]]:
    """The slices with sorted log files: hudi-rs puts those of archived writes last."""
    return [
        (
            *(each.partition, each.file_id, each.instant, each.base, each.base_size),
            sorted(zip(each.logs, each.log_sizes, strict=True)),
        )
        for each in slices
    ]


def listed(root: Path, as_of: str | None = None, *, alone: bool = False) -> HudiColumns:
    """The slices of a snapshot; `alone` disables the fallback to hudi-rs."""
    store = open_store(str(root), {})
    return list_table(store, {}, read_timeline(store), as_of, None if alone else hudi.HudiTable(str(root)))


def listed_by_hudi_rs(root: Path, as_of: str | None, monkeypatch: pytest.MonkeyPatch) -> HudiColumns:
    def give_up(*_: Any, **__: Any) -> Any:
        raise TableError("asked for")

    with monkeypatch.context() as patched:
        patched.setattr(full, "slices_among", give_up)
        return listed(root, as_of)


@given(
    version=st.sampled_from([6, 8, 9]),
    merge_on_read=st.booleans(),
    writes=st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(ENDS)), max_size=12),
    finished=st.booleans(),
    saved_archived=st.tuples(st.sampled_from([0, 0, 1, 2]), st.sampled_from([0, 0, 3, 6])),
    number=st.integers(0, 10**6),
)
@settings(
    max_examples=profiles.examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_random_timelines_are_listed_as_hudi_rs_lists_them(
    version: int,
    merge_on_read: bool,
    writes: list[tuple[str, str]],
    finished: bool,
    saved_archived: tuple[int, int],
    number: int,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = tmp_path_factory.mktemp("timeline") / "table"
    table = RandomTimeline(root, version, merge_on_read, random.Random(number))
    for kind, end in writes:
        table.act(kind, end)
    if finished:
        table.finish()
    saves, archived = saved_archived
    for _ in range(saves):
        table.save()
    table.archive(archived)
    failed = archived and any(end == "left behind" for _, end in writes)
    for instant in (None, *table.readable()):
        ours, theirs = listed(root, instant), listed_by_hudi_rs(root, instant, monkeypatch)
        assert unordered(slices_of(ours)) == unordered(slices_of(theirs))
        assert ours.unsettled == theirs.unsettled
        if not failed:
            assert listed(root, instant, alone=True).keys.equals(ours.keys), "hudi-rs was not asked"


def saved(table: SyntheticTable, instant: str) -> None:
    for state in ("savepoint.inflight", "savepoint"):
        (table.root / ".hoodie" / f"{instant}.{state}").write_bytes(b"Obj\x01")


def test_what_a_saved_write_replaced_is_gone(tmp_path: Path) -> None:
    """A savepoint has the instant of the write that it saves."""
    table = SyntheticTable(tmp_path / "t")
    table.insert(["city=a", "city=b"])
    table.replace(sorted(table.groups), ["city=a"])
    before = slices_of(listed(table.root))
    assert [(each.partition, each.file_id) for each in before] == list(table.groups)
    saved(table, before[0].instant)
    assert slices_of(listed(table.root, alone=True)) == before


def test_a_saved_write_with_all_before_it_archived_hides_nothing(tmp_path: Path) -> None:
    """As a restore to it leaves the timeline: all writes after it are gone."""
    table = SyntheticTable(tmp_path / "t")
    table.insert(["city=a", "city=b"])
    table.insert(["city=c"])
    before = slices_of(listed(table.root))
    assert len(before) == 3
    for path in (table.root / ".hoodie").glob(f"{min(each.instant for each in before)}.*"):
        path.unlink()
    saved(table, max(each.instant for each in before))
    assert slices_of(listed(table.root, alone=True)) == before


@pytest.mark.parametrize("version", [6, 8, 9])
def test_log_files_of_a_saved_write_stay_in_their_slice(version: int, tmp_path: Path) -> None:
    """A savepoint is made later than the write, and than a compaction of it."""
    table = RandomTimeline(tmp_path / "t", version, True, random.Random(5))
    for number in range(3):
        table.write(("city=a", "g-0"), log=number == 1)
    before = slices_of(listed(table.root, alone=True))
    for instant in table.readable()[1:3]:
        table.save(instant)
    assert slices_of(listed(table.root, alone=True)) == before


@pytest.mark.parametrize("version", [6, 8, 9])
def test_log_files_that_were_alone_are_listed_as_of_then(version: int, tmp_path: Path) -> None:
    """A compaction created the first base file of the group later."""
    table = RandomTimeline(tmp_path / "t", version, True, random.Random(5))
    group = "city=a", "g-0"
    for number in range(3):
        table.write(group, log=number < 2)
    *before, compaction = table.readable()[1:]
    (newest,) = [each for each in slices_of(listed(table.root, alone=True)) if each.file_id == "g-0"]
    assert (newest.instant, newest.logs) == (compaction, ())
    for instant in before:
        found = [each for each in slices_of(listed(table.root, instant, alone=True)) if each.file_id == "g-0"]
        assert [(each.instant, each.base, len(each.logs)) for each in found] == [(before[0], "", 2)]


def test_columns_of_a_few_slices_at_a_time_are_those_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = SyntheticTable(tmp_path / "t", merge_on_read=True)
    table.insert(["city=b", "city=a", "city=c/x=1", "city=a", "city=a", "city=b"])
    table.log(sorted(table.groups)[2:5])
    whole = listed(table.root)
    assert [entry.partition for entry in slices_of(whole)] == sorted(group[0] for group in table.groups)
    for at_once in (1, 2, 3):
        monkeypatch.setattr("pruner.tables.hudi.slice_columns._AT_ONCE", at_once)
        monkeypatch.setattr("pruner.tables.hudi.listing._AT_ONCE", at_once)
        parts = listed(table.root)
        assert parts.paths == whole.paths
        assert parts.columns.equals(whole.columns)
        assert parts.keys.equals(whole.keys)
        assert parts.log_sizes.equals(whole.log_sizes)
        assert slices_of(parts) == slices_of(whole)


@pytest.mark.parametrize("name", ["notes.orc", ".g-0_20260101000000001.log.1_0-1-1.cdc"])
def test_hudi_rs_decides_about_files_that_are_called_like_data(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it did when it listed every table."""
    table = SyntheticTable(tmp_path / "t")
    table.insert(["city=a", "city=b"])
    (table.root / "city=a" / name).write_bytes(b"x")
    theirs = listed_by_hudi_rs(table.root, None, monkeypatch)
    assert slices_of(listed(table.root)) == slices_of(theirs)


def test_what_hudi_rs_says_of_a_file_that_hudi_did_not_write_is_said(tmp_path: Path) -> None:
    table = SyntheticTable(tmp_path / "t")
    table.insert(["city=a", "city=b"])
    (table.root / "city=a" / "part-0.parquet").write_bytes(b"x")
    with pytest.raises(TableError, match=r"'part-0\.parquet'.*move it out of the table"):
        listed(table.root)


def test_a_folder_without_hudis_mark_is_listed_by_hudi_rs(tmp_path: Path) -> None:
    table = SyntheticTable(tmp_path / "t")
    table.insert(["city=a", "city=b"])
    before = slices_of(listed(table.root))
    (table.root / "city=a" / ".hoodie_partition_metadata").unlink()
    assert slices_of(listed(table.root)) == before
    with pytest.raises(TableError, match="'city=a' holds data files"):
        listed(table.root, alone=True)


def test_a_file_of_a_write_that_failed_long_ago_is_listed_as_hudi_rs_lists_it(tmp_path: Path) -> None:
    """Hudi treats every write that is older than its timeline as archived, and reads the file."""
    table = SyntheticTable(tmp_path / "t")
    table.insert(["city=a"])
    before = slices_of(listed(table.root))
    (commit,) = (table.root / ".hoodie").glob("*.commit")
    (group,) = table.groups.values()
    left = (
        table.root
        / "city=a"
        / group.base.replace(group.instant, "20250101000000005").replace(group.file_id, "g-0")
    )
    left.write_bytes(b"x")
    assert len(slices_of(listed(table.root))) == 2, "archived, for all that is known"
    (table.root / ".hoodie" / "20250101000000001.commit.requested").write_bytes(b"")
    assert slices_of(listed(table.root)) == before
    assert commit.is_file()


def test_links_that_lead_back_do_not_go_on_for_ever(tmp_path: Path) -> None:
    table = SyntheticTable(tmp_path / "t")
    table.insert(["city=a"])
    (table.root / "city=a" / "back").symlink_to(table.root)
    with pytest.raises(StorageError, match="leads into a folder above it"):
        listed(table.root, alone=True)


def test_files_of_a_folder_that_comes_in_parts_are_those_of_one_folder() -> None:
    names = [(f"g{number}-0_0-1-1_20260101000000001.parquet", number) for number in range(4)]
    whole = Listing([("a", names), ("b", names)], marked=False)
    parts = Listing([("b", names[:1]), ("a", names[2:]), ("b", names[1:]), ("a", names[:2])], marked=False)
    assert list(whole.groups()) == list(parts.groups())
    assert [group for group, _ in whole.groups()] == [(p, f"g{n}-0") for p in "ab" for n in range(4)]
    assert not list(Listing([]).groups())
