"""Random histories of made-up Hudi tables: following equals listing, and damaged histories are listed."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pruner.tables.hudi.source import HudiSource
from tests.support.hudi.made_up.files import SyntheticTable
from tests.support.running import profiles
from tests.support.snapshots import assert_same

ACTIONS = ("insert", "update", "log", "compact", "replace", "drop partition", "look", "restart")
PARTITIONS = ("city=b", "city=a", "city=a b", "city=ä", "city=c/x=1")


@given(
    merge_on_read=st.booleans(),
    actions=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=12),
    number=st.integers(0, 10**6),
)
@settings(
    max_examples=profiles.examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_random_histories_are_followed_exactly(
    merge_on_read: bool, actions: list[str], number: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = random.Random(number)
    table = SyntheticTable(tmp_path_factory.mktemp("history") / "table", merge_on_read)
    table.insert(rng.choices(PARTITIONS, k=3))
    source = HudiSource(str(table.root))
    source.snapshot()
    for action in actions:
        if action == "look":
            assert_same(source.snapshot(), HudiSource(str(table.root)).snapshot())
        elif action == "restart":
            source.snapshot()
            saved = source.saved()
            assert saved is not None
            source = HudiSource(str(table.root))
            source.resume(saved)
        else:
            table.act(action, rng, PARTITIONS, most=3)
    listed = HudiSource(str(table.root)).snapshot()
    assert_same(source.snapshot(), listed)
    assert {(entry.partition_path, entry.file_id) for entry in listed.slices} == set(table.groups)


def newest(table: SyntheticTable) -> Path:
    return sorted(file for file in (table.root / ".hoodie").iterdir() if file.suffix.endswith("commit"))[-1]


def edit(change: Callable[[dict[str, object]], None]) -> Callable[[SyntheticTable], None]:
    def harm(table: SyntheticTable) -> None:
        file = newest(table)
        content = json.loads(file.read_text())
        change(content)
        file.write_text(json.dumps(content))

    return harm


def every_stat(**values: object) -> Callable[[SyntheticTable], None]:
    def change(content: dict[str, object]) -> None:
        stats = content["partitionToWriteStats"]
        assert isinstance(stats, dict)
        for each in (stat for group in stats.values() for stat in group):
            each.update(values)

    return edit(change)


def make_late(table: SyntheticTable) -> None:
    """Make the newest instant one that was requested before all others."""
    instant = newest(table).name[:17]
    for file in list((table.root / ".hoodie").glob(f"{instant}*")):
        file.rename(file.with_name(file.name.replace(instant, "20250101000000001")))


def archive(table: SyntheticTable) -> None:
    oldest = sorted(file.name for file in (table.root / ".hoodie").glob("2*"))[0][:17]
    for file in (table.root / ".hoodie").glob(f"{oldest}*"):
        file.unlink()


def touch(name: str) -> Callable[[SyntheticTable], None]:
    def harm(table: SyntheticTable) -> None:
        (table.root / ".hoodie" / name).write_bytes(b"")

    return harm


def say(text: str) -> Callable[[SyntheticTable], None]:
    def harm(table: SyntheticTable) -> None:
        with (table.root / ".hoodie" / "hoodie.properties").open("a") as file:
            file.write(text)

    return harm


REFUSED: dict[str, tuple[Callable[[SyntheticTable], None], str]] = {
    "another size": (every_stat(fileSizeInBytes=1), "not of the size"),
    "another slice before": (every_stat(prevCommit="20250101000000001"), "on top of another file slice"),
    "another group": (every_stat(fileId="f-0"), "another file group"),
    "no path": (every_stat(path=None), "neither a base file nor a log file"),
    "changes for CDC": (every_stat(cdcStats={"a": 1}), "neither a base file nor a log file"),
    "an operation": (edit(lambda content: content.update(operationType="BOOTSTRAP")), "BOOTSTRAP"),
    "a shape": (edit(lambda content: content.update(partitionToWriteStats=[1])), "is not understood"),
    "a replacement": (
        edit(lambda content: content.update(partitionToReplaceFileIds={"city=a": ["f-0"]})),
        "without being a replace commit",
    ),
    "archived instants": (archive, "gone from the timeline"),
    "a pending write": (touch("20270101000000001.commit.requested"), "pending"),
    "a pending clean": (touch("20270101000000001.clean.requested"), "pending"),
    "a rollback": (touch("20270101000000001.rollback"), "a rollback completed"),
    "a savepoint": (touch("20270101000000001.savepoint"), "a savepoint completed"),
    "a clean in no form": (touch("20270101000000001.clean"), "is not understood"),
    "properties": (say("hoodie.table.cdc.enabled=false\n"), "properties changed"),
    "a late instant": (make_late, "overlapped"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_known_is_listed(what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After each of these changes the table is listed, with the reason in the log."""
    harm, reason = REFUSED[what]
    table = SyntheticTable(tmp_path / "table")
    table.insert(["city=a", "city=b", "city=b"])
    source = HudiSource(str(table.root))
    source.snapshot()
    table.update(list(table.groups)[:2])
    harm(table)
    caplog.set_level(logging.DEBUG, "pruner")
    found = source.snapshot()
    (record,) = [each for each in caplog.records if "listed in full" in each.message]
    assert reason in record.message
    assert_same(found, HudiSource(str(table.root)).snapshot())


def test_a_clean_of_a_newest_slice_is_listed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The table is damaged then: the existing files decide, not the commits."""
    table = SyntheticTable(tmp_path / "table")
    table.insert(["city=a", "city=a"])
    source = HudiSource(str(table.root))
    source.snapshot()
    group = next(iter(table.groups.values()))
    (table.root / group.partition / group.base).unlink()
    cleaned = {"partitionMetadata": {group.partition: {"successDeleteFiles": [group.base]}}}
    (table.root / ".hoodie" / "20270101000000001.clean").write_text(json.dumps(cleaned))
    caplog.set_level(logging.DEBUG, "pruner")
    found = source.snapshot()
    assert "a cleaner deleted" in caplog.text
    assert len(found) == 1
    assert_same(found, HudiSource(str(table.root)).snapshot())
