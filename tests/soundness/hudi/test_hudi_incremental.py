"""Every kind of commit on real Hudi tables: plans stay sound before a refresh, and a refresh reads only what is new.

The oracle is Spark's snapshot read with Hudi's own data skipping off. After each action, with the index still older
than the table, plans must keep every row that Spark reads and report how many slices no record covers; then one
refresh indexes exactly the new slices, and the plans equal those of an index built from scratch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner
from tests.support.hudi.actions import LiveTable
from tests.support.hudi.timeline import timeline
from tests.support.snapshots import assert_same
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from tests.support.hudi.writer import TableType, TableVersion

pytestmark = pytest.mark.spark

SPARK = pruner.Semantics(engine="spark", zone="UTC")
BOTH = ("insert", "upsert", "delete", "insert_overwrite", "cluster", "clean", "roll_back", "restore")
ACTIONS = {
    "COPY_ON_WRITE": (*BOTH, "drop_partition"),
    "MERGE_ON_READ": (*BOTH, "compact", "log_compact", "drop_partition"),
}


class Checked:
    """A table with an index, and the checks after each change of the table."""

    def __init__(
        self, live: LiveTable, index_uri: Path, scratch: Callable[[], Path], using: str = "column_stats"
    ) -> None:
        self.live = live
        self.using = using
        self._scratch = scratch
        self._read: tuple[tuple[str, bool], list[Row]] | None = None
        self.table = pruner.open_table(str(live.path), index_uri=str(index_uri))
        self.own = pruner.open_table(str(live.path), index_uri=str(index_uri), hudi_indexes=False)
        """The same without Hudi's own statistics, which may cover slices that ours do not."""

    def create_index(self) -> None:
        """Index all columns unless they are indexed."""
        self.table.create_index("stats", on="*", using=self.using, if_not_exists=True)

    def plans_are_sound(self, what: str, as_of: str | None = None, *, read_optimized: bool = False) -> None:
        """Plans keep every row that Spark reads, of base files alone where that is asked."""
        pinned = self.table.snapshot(as_of=as_of)
        if self._read is None or self._read[0] != (pinned.id, read_optimized):
            frame = spark_snapshot(
                self.live.spark, self.live.path, as_of=as_of, read_optimized=read_optimized
            )
            self._read = ((pinned.id, read_optimized), frame.collect())
        rows = self._read[1]
        semantics = replace(SPARK, scan_mode="read_optimized") if read_optimized else SPARK
        for row in rows:
            group = row["_hoodie_file_name"].split("_", maxsplit=1)[0]
            texts = [f"id = {row['id']}", f"seats >= {row['seats']} AND ts = {row['ts']}"]
            texts.append("fare IS NULL" if row["fare"] is None else f"fare = {row['fare']}D")
            for text in texts:
                kept = {entry.file_id for entry in pinned.plan(text, semantics=semantics).slices}
                assert group in kept, f"LOST {group} for {text} after {what} (as of {as_of})"

    def uncovered(self) -> set[bytes]:
        """The coverable slices that are not covered."""
        pinned = self.own.snapshot()
        plan = pinned.plan("id > 1000000", semantics=SPARK)
        # No row has such an id, so every covered slice is dropped.
        coverable = pinned.data.coverable
        kept = {pinned.data.keys[int(i)].as_py() for i in plan.ordinals if coverable[int(i)]}
        (step,) = plan.steps
        assert step.uncovered == plan.kept, "a plan says what no record covers"
        return kept

    def refresh_reads_only_what_is_new(self, what: str) -> int:
        """One refresh covers what was uncovered, a second one finds nothing, and plans are those of a new index."""
        missing = self.uncovered()
        assert self.table.refresh(dry_run=True).files == len(missing)
        result = self.table.refresh()
        left_out = {failure.slice for failure in result.failures}
        assert result.indexed == len(missing) - len(left_out), what
        assert len(self.uncovered()) == len(left_out)
        if not left_out:
            assert self.table.refresh().indexed == 0
        self.plans_are_those_of_a_new_index(what)
        return result.indexed

    def plans_are_those_of_a_new_index(self, what: str) -> None:
        """As selective as an index built from scratch."""
        fresh = pruner.open_table(str(self.live.path), index_uri=str(self._scratch()))
        fresh.create_index("stats", on="*", using=self.using)
        texts = [f"id = {id_}" for id_ in range(0, self.live.next_id, 2)]
        texts += ["fare > 1000", "fare IS NULL", "ts > 3 AND seats = 1", f"fare < {10 * self.live.ts}"]
        mine, other = self.table.snapshot(), fresh.snapshot()
        # One snapshot followed the commits, the other listed the table.
        assert_same(mine.data, other.data)
        for text in texts:
            ours, theirs = mine.plan(text, semantics=SPARK), other.plan(text, semantics=SPARK)
            assert ours.ordinals.tolist() == theirs.ordinals.tolist(), f"{text} after {what}"


VARIANTS = (
    ("COPY_ON_WRITE", 6),
    ("COPY_ON_WRITE", 9),
    ("MERGE_ON_READ", 6),
    ("MERGE_ON_READ", 8),
    ("MERGE_ON_READ", 9),
)
"""Versions 8 and 9 share one timeline and one listing, and merge-on-read tables take all actions."""


@pytest.mark.parametrize(("table_type", "version"), VARIANTS)
def test_refresh_follows_every_action(
    table_type: TableType,
    version: TableVersion,
    spark: SparkSession,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    live = LiveTable(spark, tmp_path / f"live_v{version}", version, table_type)
    live.insert(9)
    numbers = iter(range(1000))
    checked = Checked(live, tmp_path / "index", lambda: tmp_path / f"fresh{next(numbers)}")
    checked.create_index()
    counts: list[str] = []
    for action in ACTIONS[table_type]:
        before = {instant.file.name for instant in timeline(live.path)}
        getattr(live, action)()
        done = {instant.action for instant in timeline(live.path) if instant.file.name not in before}
        assert not LEAVES.get(action) or LEAVES[action] & done, f"{action} did nothing: {done}"
        checked.plans_are_sound(action)
        new = checked.refresh_reads_only_what_is_new(action)
        after = len(checked.table.snapshot().slices)
        assert new <= EXPECTED_NEW.get(action, 1), f"{action}: {new} slices of {after} were read"
        counts.append(f"{action} {new} of {after}")
        checked.plans_are_sound(f"{action} and refresh")
    record_property("figure", f"slices read by a refresh, {table_type} v{version}: {', '.join(counts)}")


EXPECTED_NEW = {"insert": 3, "cluster": 3, "insert_overwrite": 1, "compact": 3, "roll_back": 2}
"""The most new slices after an action; one where not given."""

LEAVES = {
    "insert_overwrite": {"replacecommit"},
    "cluster": {"replacecommit", "clustering"},
    "clean": {"clean"},
    "roll_back": {"rollback"},
    "restore": {"restore"},
    "compact": {"compaction"},
    "log_compact": {"logcompaction"},
    "drop_partition": {"replacecommit"},
}
"""What an action leaves in the timeline: one of these."""
