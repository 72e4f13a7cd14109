"""Reads as of an instant that lost rows after the table's history changed its form (traps T19 and T20).

Real tables, row by row against Spark: `tests/engines/hudi/tables/test_hudi_versions.py`.
"""

from __future__ import annotations

import io
import random
import re
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pruner.errors import TableError
from pruner.storage.opening import open_store
from pruner.tables.hudi.listing import HudiSlice, base_name, log_name
from pruner.tables.hudi.slices import list_slices
from pruner.tables.hudi.source import HudiSource
from pruner.tables.hudi.timeline import Timeline, read_timeline
from tests.support.hudi.made_up.timelines import RandomTimeline
from tests.support.running import profiles

_TEXTS: Any = ["null", {"type": "array", "items": "string"}]
_OPERATION: Any = {
    "type": "record",
    "name": "HoodieCompactionOperation",
    "fields": [
        {"name": "partitionPath", "type": ["null", "string"]},
        {"name": "fileId", "type": ["null", "string"]},
        {"name": "deltaFilePaths", "type": _TEXTS},
    ],
}
_PLAN: Any = {
    "type": "record",
    "name": "HoodieCompactionPlan",
    "fields": [{"name": "operations", "type": ["null", {"type": "array", "items": _OPERATION}]}],
}
_CLEANED: Any = {
    "type": "record",
    "name": "HoodieCleanPartitionMetadata",
    "fields": [{"name": "successDeleteFiles", "type": _TEXTS}],
}
_CLEAN: Any = {
    "type": "record",
    "name": "HoodieCleanMetadata",
    "fields": [
        {"name": "earliestCommitToRetain", "type": ["null", "string"]},
        {"name": "partitionMetadata", "type": {"type": "map", "values": _CLEANED}},
    ],
}


def avro(schema: Any, record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), [record])
    return out.getvalue()


def slices(root: Path, as_of: str | None = None) -> list[HudiSlice]:
    store = open_store(str(root), {})
    found = list_slices(store, read_timeline(store), as_of)
    return sorted(found, key=lambda entry: (entry.partition, entry.file_id))


def downgrade(root: Path) -> None:
    """Turn a table of version 8 into one of version 6 as Hudi does: data files and compaction plans stay."""
    timeline = read_timeline(open_store(str(root), {}))
    for instant in timeline.finished.values():
        if instant.action == "commit":
            plan = root / ".hoodie" / "timeline" / f"{instant.requested}.compaction.requested"
            plan.write_bytes(avro(_PLAN, {"operations": planned(root, instant.requested, timeline)}))
    for file in (root / ".hoodie" / "timeline").iterdir():
        if file.is_file():
            file.rename(root / ".hoodie" / re.sub(r"_\d+", "", file.name))
    properties = root / ".hoodie" / "hoodie.properties"
    text = properties.read_text().replace("table.version=8", "table.version=6")
    properties.write_text(text.replace("layout.version=2", "layout.version=1"))


def planned(root: Path, instant: str, timeline: Timeline) -> list[dict[str, Any]]:
    """The operations of a compaction's plan, with the log files of writes that completed before it."""
    found: list[dict[str, Any]] = []
    for path in root.rglob(f"*_{instant}.parquet"):
        base = base_name(path.name)
        assert base is not None
        logs = [log for file in path.parent.glob(f".{base.file_id}_*") if (log := log_name(file.name))]
        done = [
            log.name
            for log in logs
            if log.instant in timeline.finished and timeline.finished[log.instant].completed < instant
        ]
        folder = str(path.parent.relative_to(root))
        found.append({"partitionPath": folder, "fileId": base.file_id, "deltaFilePaths": done})
    return found


KINDS = ("insert", "insert into logs", "log", "log", "log", "compact", "replace")
ENDS = ("done", "done", "done", "late", "rolled back")


@given(
    acts=st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(ENDS)), min_size=2, max_size=14),
    number=st.integers(0, 10**6),
)
@settings(max_examples=profiles.examples(40), deadline=None)
def test_t19_a_downgrade_changes_no_slice(
    acts: list[tuple[str, str]], number: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A read as of an earlier instant gave 2 of 8 rows: log files were taken for slices without a base file."""
    table = RandomTimeline(tmp_path_factory.mktemp("t") / "t", 8, True, random.Random(number))
    for kind, end in acts:
        table.act(kind, end)
    table.finish()
    times = [*table.readable(), None]
    before = [slices(table.root, instant) for instant in times]
    downgrade(table.root)
    for instant, expected in zip(times, before, strict=True):
        assert slices(table.root, instant) == expected, instant


def clean(
    table: RandomTimeline, kept_from: str | None, deleted: list[Path], at: str = "20290101000000000"
) -> None:
    """Delete files, and record it in the timeline as a cleaner does."""
    by_folder: dict[str, list[str]] = {}
    for path in deleted:
        by_folder.setdefault(str(path.parent.relative_to(table.root)), []).append(path.name)
        path.unlink()
    metadata = {folder: {"successDeleteFiles": names} for folder, names in by_folder.items()}
    record = {"earliestCommitToRetain": kept_from, "partitionMetadata": metadata}
    done = f"_{at}" if table.version >= 8 else ""
    (table.timeline / f"{at}{done}.clean").write_bytes(avro(_CLEAN, record))


@pytest.mark.parametrize("says_from", [True, False])
@pytest.mark.parametrize("whole_group", [True, False])
def test_t20_an_instant_whose_files_are_gone_is_refused(
    tmp_path: Path, says_from: bool, whole_group: bool
) -> None:
    """The remaining groups were returned as if they were the table."""
    table = RandomTimeline(tmp_path / "t", 6, False, random.Random(1))
    table.act("insert", "done")
    first = table.readable()[-1]
    table.act("insert", "done")
    (group, *_) = [key for key, instant in table.bases.items() if instant == first]
    (old,) = (table.root / group[0]).glob(f"{group[1]}_*_{first}.parquet")
    if whole_group:
        table.act("insert", "done")
        write = table.readable()[-1]
    else:
        table.write(group, log=False)
        write = table.readable()[-1]
    source = HudiSource(str(table.root))
    whole = {(entry.partition_path, entry.file_id) for entry in source.snapshot_at(first).slices}
    assert group in whole
    newest = slices(table.root)
    clean(table, write if says_from else None, [old])
    said = (
        f"keeps what was written from {write} on" if says_from else f"deleted files of {first} in partition"
    )
    with pytest.raises(TableError, match=rf"cannot be read as of {first}: Hudi's cleaner {said}"):
        source.snapshot_at(first)
    if not whole_group:
        assert slices(table.root, write) == slices(table.root) == newest


@pytest.mark.sampled(2)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("left", [True, False])
def test_t20_log_files_without_a_base_file_are_missed_as_well(
    tmp_path: Path, version: int, left: bool
) -> None:
    """Flink writes them: the rows of a slice of log files alone were silently missing."""
    table = RandomTimeline(tmp_path / "t", version, True, random.Random(1))
    table.act("insert into logs", "done")
    first = table.readable()[-1]
    (old,) = table.root.rglob(f".*_{first}.log.*")
    group = (str(old.parent.relative_to(table.root)), old.name[1:].partition("_")[0])
    if left:
        table.write(group, log=False)
    else:
        table.act("insert", "done")
    write, newest = table.readable()[-1], slices(table.root)
    source = HudiSource(str(table.root))
    assert group in {(entry.partition_path, entry.file_id) for entry in source.snapshot_at(first).slices}
    clean(table, None, [old])
    with pytest.raises(TableError, match=rf"cleaner deleted files of {first} in partition"):
        source.snapshot_at(first)
    if left:
        assert slices(table.root, write) == slices(table.root) == newest


@given(
    acts=st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(ENDS)), min_size=2, max_size=14),
    version=st.sampled_from([6, 8, 9]),
    number=st.integers(0, 10**6),
)
@settings(max_examples=profiles.examples(40), deadline=None)
def test_t20_each_instant_is_read_whole_or_refused(
    acts: list[tuple[str, str]], version: int, number: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A cleaner that keeps each group's newest slice leaves the newest snapshot whole; no lost file goes unnoticed."""
    table = RandomTimeline(tmp_path_factory.mktemp("t") / "t", version, True, random.Random(number))
    for kind, end in acts:
        table.act(kind, end)
    table.finish()
    before = {instant: slices(table.root, instant) for instant in table.readable()}
    newest = slices(table.root)
    kept = {name for entry in newest for name in (entry.base, *entry.logs)}
    read = [
        (entry.partition, entry.file_id, name)
        for found in before.values()
        for entry in found
        for name in _files(entry)
    ]
    old = sorted({each for each in read if each[2] not in kept})
    chosen = {each[1] for each in old if table.rng.random() < 0.3}
    gone = {name: table.root / partition / name for partition, file_id, name in old if file_id in chosen}
    clean(table, None, list(gone.values()))
    assert slices(table.root) == newest
    for instant, expected in before.items():
        if any(name in gone for entry in expected for name in _files(entry)):
            with pytest.raises(TableError, match="cleaner deleted files"):
                slices(table.root, instant)
        else:
            assert slices(table.root, instant) == expected, instant


@pytest.mark.sampled(2)
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("says_from", [True, False])
def test_t20_groups_replaced_by_an_archived_write_are_not_missed(
    tmp_path: Path, version: int, says_from: bool
) -> None:
    """A clustering is archived before the clean of the files it replaced, and each read as of an instant failed."""
    table = RandomTimeline(tmp_path / "t", version, False, random.Random(2))
    table.act("insert", "done")
    there = set(table.bases)
    table.act("replace", "done")
    replace = table.readable()[-1]
    table.act("insert", "done")
    kept_from = table.readable()[-1]
    old = [
        path for folder, name in there - set(table.bases) for path in (table.root / folder).glob(f"{name}_*")
    ]
    assert old
    if says_from:  # every file that is needed from there on still exists
        table.act("insert", "done")
    at = table.now()
    clean(table, kept_from if says_from else None, old, at)
    for _ in range(4):
        table.act("insert", "done")
    whole = [instant for instant in table.readable() if instant >= (kept_from if says_from else at)]
    assert len(whole) >= 4
    expected = {instant: slices(table.root, instant) for instant in whole}
    table.archive(3)
    assert replace not in table.readable()
    for instant in whole:
        assert slices(table.root, instant) == expected[instant]


@pytest.mark.parametrize("version", [8, 9])
def test_t20_what_an_archived_clean_deleted_is_missed_and_nothing_else(tmp_path: Path, version: int) -> None:
    """Commits kept by a savepoint are older than an archived clean; a write that replaced groups is archived, too."""
    table = RandomTimeline(tmp_path / "t", version, False, random.Random(2))
    table.act("insert", "done")
    there = set(table.bases)
    table.act("replace", "done")
    old = [
        path for folder, name in there - set(table.bases) for path in (table.root / folder).glob(f"{name}_*")
    ]
    assert old
    archived = table.readable()
    table.write(min(table.bases), log=False)
    first, seen = table.readable()[-1], slices(table.root)
    for group in sorted(table.bases):
        table.write(group, log=False)
    second, newest = table.readable()[-1], slices(table.root)
    kept = {name for entry in newest for name in _files(entry)}
    old += [table.root / each.partition / name for each in seen for name in _files(each) if name not in kept]
    clean(table, None, old, table.now())
    assert slices(table.root, second) == newest
    for instant in set(table.readable()) - set(archived):
        table.save(instant)
    for _ in range(4):
        table.act("insert", "done")
    table.archive(len(archived) + 1)
    assert not list(table.timeline.glob("*.clean"))
    assert not set(archived) & set(table.readable())
    assert slices(table.root, second) == newest
    with pytest.raises(TableError, match=rf"cannot be read as of {first}: Hudi's cleaner deleted files of"):
        slices(table.root, first)
    for file in (table.timeline / "history").glob("*.parquet"):
        file.write_bytes(b"PAR1")
    with pytest.raises(TableError, match="the archived timeline, by .*manifest_1, is not understood"):
        slices(table.root, first)
    assert len(slices(table.root)) > len(newest)


def _files(entry: HudiSlice) -> list[str]:
    return [name for name in (entry.base, *entry.logs) if name]
