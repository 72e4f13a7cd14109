"""Plans from a made-up metadata table of Hudi's: which records count, which are trusted, and the effects of damage."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pruner
from pruner.tables.hudi.hfile.reader import Stored
from tests.support.hudi.made_up.files import SyntheticTable
from tests.support.hudi.made_up.groups import FourGroups
from tests.support.hudi.made_up.keys import deletions
from tests.support.hudi.made_up.metadata import (
    INITIAL,
    OLD_SCHEMA_TEXT,
    SCHEMA_TEXT,
    Stat,
    SyntheticMetadata,
    log_block,
)
from tests.support.running.profiles import examples
from tests.unit.tables.hudi.test_hfile import MUTATIONS, mutated

LATER, PENDING = "20260101000000002", "20260101000000003"
"""The instants of a second commit, and of a running one."""


class Made(FourGroups):
    """Such a table with its statistics."""

    def __init__(self, root: Path, **how: Any) -> None:
        super().__init__(root)
        self.metadata = SyntheticMetadata(root, **how)

    def stat(self, number: int, low: Any = None, high: Any = None, **more: Any) -> Stat:
        group = self.groups[number]
        column = more.pop("column", "id")
        first, last = (number * 10, number * 10 + 9) if low is None else (low, high)
        return Stat(group.partition, group.base, column, first, last, **{"values": 10, **more})


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A table with complete statistics."""
    found = Made(tmp_path / "table")
    found.metadata.create([found.stat(number) for number in range(4)])
    return found


@pytest.mark.slow
def test_statistics_prune_with_nothing_beside_the_table(made: Made) -> None:
    assert made.kept("id = 15") == [1]
    assert made.kept("id >= 18 AND id < 31") == [1, 2, 3]
    assert made.kept("id IS NULL") == []
    assert made.kept("NOT id < 25") == [2, 3]
    assert "hudi.column_stats: id = 15" in made.open().plan("id = 15").explain()
    assert not Path(f"{made.table.root}.pruner").exists()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ["duckdb", "spark", "trino"])
@pytest.mark.parametrize("scan_mode", ["snapshot", "read_optimized"])
def test_they_serve_every_engine(engine: str, scan_mode: Any, made: Made) -> None:
    semantics = pruner.Semantics(engine=engine, scan_mode=scan_mode)
    assert made.open().plan("id = 15", semantics=semantics).kept == 1


def test_they_can_be_left_alone(made: Made) -> None:
    assert made.kept("id = 15", hudi_indexes=False) == [0, 1, 2, 3]
    assert made.open(hudi_indexes=False).status().hudi_indexes["column_stats"].startswith("switched off")
    assert made.open().status().hudi_indexes["column_stats"] == "used"


@pytest.mark.parametrize(("partitions", "inflight"), [("files", ""), ("files,column_stats", "column_stats")])
def test_partitions_that_are_not_complete_do_not_count(
    partitions: str, inflight: str, tmp_path: Path
) -> None:
    made = Made(tmp_path / "table", partitions=partitions, inflight=inflight)
    made.metadata.create([made.stat(number) for number in range(4)])
    assert made.kept("id = 15") == [0, 1, 2, 3]


def test_blocks_of_completed_instants_alone_count(made: Made) -> None:
    made.metadata.append(INITIAL, [made.stat(0, 500, 599)])
    assert made.kept("id = 555") == [0]
    made.metadata.append(LATER, [made.stat(1, 600, 699)])
    assert made.kept("id = 655") == []
    made.metadata.complete(LATER)
    assert made.kept("id = 655") == [1]


def test_blocks_of_instants_that_run_in_the_table_do_not_count(made: Made) -> None:
    """The metadata table is written first: an instant may be complete only there."""
    made.metadata.append(PENDING, [made.stat(1, 600, 699)])
    made.metadata.complete(PENDING)
    assert made.kept("id = 655") == [1]
    (made.table.root / ".hoodie" / f"{PENDING}.commit.requested").write_bytes(b"")
    assert made.kept("id = 655") == []


def test_what_was_rolled_back_does_not_count(made: Made) -> None:
    made.metadata.append(LATER, [made.stat(0, 600, 699)])
    made.metadata.complete(LATER)
    made.metadata.append_block(log_block(0, {0: LATER, 1: LATER, 3: "0"}))
    assert made.kept("id = 655") == []


def test_a_later_record_widens_replaces_or_deletes(made: Made) -> None:
    even = [made.stat(0, 100, 109), made.stat(2, 100, 109, tight=True)]
    made.metadata.append(INITIAL, even, group=0)
    made.metadata.append(INITIAL, [made.stat(3, deleted=True)], group=1)
    assert made.kept("id = 105") == [0, 2, 3]
    assert made.kept("id = 5") == [0, 3]
    assert made.kept("id = 25") == [0, 3]


def test_statistics_that_were_deleted_do_not_count(made: Made) -> None:
    """A cleaner removes the statistics of the files that it deletes. Later statistics of such a file count."""
    gone = deletions([made.stat(2).key.decode(), made.stat(3).key.decode()])
    made.metadata.append_block(log_block(1, {0: INITIAL}, gone))
    assert made.kept("id = 15") == [1, 2], "those of the file 3 stand in the other file group"
    made.metadata.append(INITIAL, [made.stat(2, 500, 509)])
    assert [made.kept(f"id = {id_}") for id_ in (15, 25, 505)] == [[1], [], [2]]
    made.metadata.append(INITIAL, [made.stat(2, 600, 609)])
    assert made.kept("id = 15") == [0, 1, 2, 3], "two to be merged, and a third below that was deleted"
    assert "were deleted between them" in made.notes("id = 15")


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("low", "high", "more", "reason"),
    [
        (1.0, 9.0, {}, None),
        (-9.0, -1.0, {}, None),
        (0.0, 0.0, {}, "hudi#18754"),
        (-1.0, 5.0, {}, "hudi#18754"),
        (0.0, 5.0, {}, "hudi#18754"),
        (-5.0, -0.0, {}, "hudi#18754"),
        (1.0, math.nan, {}, "hudi#18754"),
        (math.nan, math.nan, {}, "hudi#18754"),
        ("a", "b", {}, None),
        ("a", "b", {"nulls": 3}, None),
        ("a", "b", {"nulls": 3, "size": 4000}, "hudi#18755"),
        ("a", "b", {"nulls": 3, "size": 0}, "hudi#18755"),
        ("a", "b", {"nulls": 10}, "hudi#18755"),
        ("a", "\ue000", {}, "differently from UTF-8"),
        ("a", "x\uffffx", {}, "differently from UTF-8"),
        ("a", "\U0001f600", {}, None),
        ("a", "b", {"nulls": 11}, "contradict"),
        ("a", "b", {"nulls": -1}, "contradict"),
        ("a", "b", {"values": None}, "contradict"),
        ("a", 5, {}, "not used"),
        (None, "b", {}, "not used"),
    ],
)
def test_what_could_hide_values_is_not_believed(
    low: Any, high: Any, more: dict[str, Any], reason: str | None, tmp_path: Path
) -> None:
    schema: dict[str, Any] = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "fare", "type": ["null", "double"], "default": None},
            {"name": "name", "type": ["null", "string"], "default": None},
            {"name": "city", "type": ["null", "string"], "default": None},
        ],
    }
    table = SyntheticTable(tmp_path / "table", schema=schema)
    table.insert(["city=a"])
    (group,) = table.groups.values()
    column, far = ("fare", "fare > 1000") if isinstance(low, float) else ("name", "name < '!'")
    stat = Stat(group.partition, group.base, column, low, high, **{"values": 10, **more})
    SyntheticMetadata(table.root, groups=1).create([stat])
    plan = pruner.open_table(str(table.root)).plan(far)
    fallbacks = " ".join(json.loads(plan.to_json())["fallbacks"])
    assert plan.kept == (0 if reason is None else 1)
    assert (reason is None and not fallbacks) or (reason is not None and reason in fallbacks)


def test_values_of_another_type_are_not_compared(made: Made, tmp_path: Path) -> None:
    other = Made(tmp_path / "other")
    other.metadata.create(
        [other.stat(0, "0", "9"), other.stat(1, 10, 19), other.stat(2, 20.0, 29.0), other.stat(3)]
    )
    assert other.kept("id = 15") == [0, 1, 2]
    assert other.kept("id = 100") == [0, 2]


def test_records_of_old_writers_have_fewer_fields(tmp_path: Path) -> None:
    made = Made(tmp_path / "table", how={"schema": OLD_SCHEMA_TEXT})
    made.metadata.create([made.stat(number) for number in range(4)])
    made.metadata.append(INITIAL, [made.stat(0, 100, 109)])
    assert made.kept("id = 15") == [0, 1]
    assert made.kept("id = 50") == [0]


def test_fields_of_another_type_cost_only_the_index(tmp_path: Path) -> None:
    schema = SCHEMA_TEXT.replace(
        '"valueCount", "type": ["null", "long"]', '"valueCount", "type": ["null", "string"]'
    )
    made = Made(tmp_path / "table", how={"schema": schema})
    made.metadata.create([made.stat(number, values="many") for number in range(4)])
    assert made.kept("id = 15") == [0, 1, 2, 3]
    assert "not understood" in made.notes("id = 15")


def test_an_index_of_our_own_makes_them_needless(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """The made-up files all hold the id 1, which Hudi's statistics exclude for three."""
    table = made.open()
    table.create_index("stats", on="id")
    monkeypatch.setattr(Stored, "read", lambda *_: pytest.fail("an HFile was read"))
    assert table.plan("id = 1").kept == 4
    assert table.plan("id = 15").kept == 0


def test_refresh_builds_nothing_of_what_hudi_keeps(made: Made) -> None:
    table = made.open()
    table.refresh()
    assert not table.indexes()
    assert not list(Path(f"{made.table.root}.pruner").rglob("*.parquet"))
    assert made.kept("id = 15") == [1]


def test_a_contradiction_keeps_the_file_and_is_reported(made: Made) -> None:
    """Where our index covers a part, both are used; the files hold 1 alone, which Hudi's statistics deny for three."""
    made.open().create_index("stats", on="id")
    made.table.insert(["city=a"])
    made.groups = list(made.table.groups.values())
    assert made.kept("id = 1") == [0, 1, 2, 3, 4]
    assert "contradict each other" in made.notes("id = 1")


def test_nothing_is_read_for_tables_without_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = SyntheticTable(tmp_path / "table")
    table.insert(["city=a"])
    monkeypatch.setattr(Stored, "read", lambda *_: pytest.fail("an HFile was read"))
    opened = pruner.open_table(str(table.root))
    assert opened.plan("id = 1").kept == 1
    assert opened.status().hudi_indexes == {}


def test_a_file_is_decoded_once_for_all_snapshots(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made.open()
    assert table.plan("id = 15").kept == 1
    made.table.insert(["city=c"])
    added = list(made.table.groups.values())[-1]
    made.metadata.append(LATER, [Stat(added.partition, added.base, "id", 100, 109, values=10)])
    made.metadata.complete(LATER)
    scanned: list[str] = []
    from pruner.tables.hudi.metadata import indexes

    plain = indexes.rows_of
    monkeypatch.setattr(
        indexes, "rows_of", lambda hfile, column: scanned.append(str(hfile)) or plain(hfile, column)
    )
    assert table.plan("id = 105").kept == 1
    assert table.plan("id = 15").kept == 1
    assert len(scanned) == 1


def test_a_metadata_table_that_is_gone_or_damaged_costs_only_itself(made: Made) -> None:
    (base,) = made.metadata.root.glob("column_stats/col-stats-0001*.hfile")
    base.write_bytes(base.read_bytes()[:-5000])
    assert made.kept("id = 15") == [0, 1, 2, 3]
    assert "hudi.column_stats" in made.notes("id = 15")
    shutil.rmtree(made.metadata.root)
    assert made.kept("id = 15") == [0, 1, 2, 3]
    assert "there is no metadata table" in made.notes("id = 15")


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 2), mutations=MUTATIONS)
def test_no_damage_stops_a_plan(
    place: int, mutations: Sequence[tuple[str, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A damaged file costs only its own records: gzip has a checksum, so nothing else in it is trusted."""
    made = Made(tmp_path_factory.mktemp("damaged") / "table", groups=1)
    made.metadata.create([made.stat(number) for number in range(4)])
    log = made.metadata.append(INITIAL, [made.stat(0, 500, 599)])
    (base,) = made.metadata.root.glob("column_stats/col-stats-0000*.hfile")
    target = (base, log, made.metadata.root / ".hoodie" / "hoodie.properties")[place]
    target.write_bytes(mutated(target.read_bytes(), mutations))
    assert {1} <= set(made.kept("id = 15")) or place == 1
