"""Services that are planned, or that a writer left running, over merge-on-read tables that an index covers.

Each state is produced on a real table whose index was complete. Plans keep every row of Spark's snapshot read and of
its read of base files alone; slices without a record are counted, and after a refresh those that cannot be covered are
named with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner
from pruner.showing.words import counted
from pruner.tables.hudi.listing import RUNNING_WRITE, UNFINISHED
from tests.support.hudi.actions import LOG_COMPACT, LiveTable
from tests.support.hudi.timeline import completed, make_inflight, timeline
from tests.support.hudi.writer import CLEAN, COMPACT, TableVersion
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SPARK = pruner.Semantics(engine="spark", zone="UTC")


def plan_compaction(live: LiveTable) -> None:
    live.plan_compaction()
    live.upsert(live.ids[:2])


def plan_log_compaction(live: LiveTable) -> None:
    live.upsert(also=LOG_COMPACT)
    make_inflight(live.path, completed(live.path, "deltacommit", "logcompaction")[-1])


def run_compaction(live: LiveTable) -> None:
    live.upsert(also=dict(COMPACT))
    make_inflight(live.path, completed(live.path, "commit")[-1])


def run_clustering(live: LiveTable) -> None:
    live.cluster()
    make_inflight(live.path, completed(live.path, "replacecommit", "clustering")[-1])


def run_clean(live: LiveTable) -> None:
    live.compact()
    live.upsert(also=dict(CLEAN))
    make_inflight(live.path, completed(live.path, "clean")[-1])


def run_rollback(live: LiveTable) -> None:
    live.roll_back()
    make_inflight(live.path, completed(live.path, "rollback")[-1])


def run_savepoint(live: LiveTable) -> None:
    live.save()
    live.upsert()
    make_inflight(live.path, completed(live.path, "savepoint")[-1])


def run_restore(live: LiveTable) -> None:
    live.restore()
    make_inflight(live.path, completed(live.path, "restore")[-1])


SERVICES: dict[str, tuple[Callable[[LiveTable], None], set[str]]] = {
    "compaction planned": (plan_compaction, {"compaction"}),
    "compaction running": (run_compaction, {"compaction"}),
    "log compaction running": (plan_log_compaction, {"logcompaction"}),
    "clustering planned": (LiveTable.plan_clustering, {"replacecommit", "clustering"}),
    "clustering running": (run_clustering, {"replacecommit", "clustering"}),
    "clean running": (run_clean, {"clean"}),
    "rollback running": (run_rollback, {"rollback"}),
    "savepoint running": (run_savepoint, {"savepoint"}),
    "restore running": (run_restore, {"restore"}),
}


@pytest.mark.parametrize(
    ("service", "version"),
    [
        *((service, version) for service in SERVICES for version in (6, 9)),
        ("compaction running", 8),
        ("clustering planned", 8),
    ],
)
def test_plans_while_a_service_is_pending(
    service: str, version: TableVersion, spark: SparkSession, tmp_path: Path
) -> None:
    bring_about, actions = SERVICES[service]
    live = LiveTable(spark, tmp_path / "table", version, "MERGE_ON_READ")
    live.insert(6)
    live.upsert()
    index_uri = str(tmp_path / "index")
    table = pruner.open_table(str(live.path), index_uri=index_uri)
    # Hudi's own statistics may cover slices that ours do not.
    own = pruner.open_table(str(live.path), index_uri=index_uri, hudi_indexes=False)
    table.create_index("stats", on="*")
    assert own.plan("id > 1000000", semantics=SPARK).kept == 0
    bring_about(live)
    assert unfinished(live.path, actions), f"{service}: {[i.file.name for i in completed(live.path)]}"
    before = own.plan("id > 1000000", semantics=SPARK)
    assert before.steps[0].uncovered == before.kept, "whatever no record covers is kept, and counted"
    no_row_is_lost(live, table)
    refreshed = table.refresh()
    no_row_is_lost(live, table)
    after = own.plan("id > 1000000", semantics=SPARK)
    reasons = table.status().uncoverable
    assert after.kept == sum(reasons.values()) + len({failure.slice for failure in refreshed.failures})
    assert set(reasons) <= {RUNNING_WRITE, UNFINISHED}
    for reason, count in reasons.items():
        assert f"{reason}: {counted(count, 'file group')} kept" in after.fallbacks
    if version > 6:
        # In these versions a log file's name says which slice it belongs to, so no service hides what the others hold.
        assert after.kept == 0


def unfinished(path: Path, actions: set[str]) -> set[str]:
    """Instants of these actions that have not completed; a savepoint has the instant of the commit that it saves."""
    done = actions if "savepoint" in actions else {*actions, "commit", "deltacommit"}
    found = {instant.requested for instant in timeline(path) if instant.action in actions}
    return found - {instant.requested for instant in completed(path, *done)}


def no_row_is_lost(live: LiveTable, table: pruner.Table) -> None:
    for read_optimized in (False, True):
        semantics = replace(SPARK, scan_mode="read_optimized") if read_optimized else SPARK
        rows = spark_snapshot(live.spark, live.path, read_optimized=read_optimized).collect()
        assert rows
        for row in rows:
            group = row["_hoodie_file_name"].split("_", maxsplit=1)[0]
            fare = "fare IS NULL" if row["fare"] is None else f"fare = {row['fare']}D"
            for text in (f"id = {row['id']} AND {fare}", f"seats = {row['seats']} AND ts >= {row['ts']}"):
                kept = {entry.file_id for entry in table.plan(text, semantics=semantics).slices}
                assert group in kept, f"LOST {group} for {text} (read_optimized: {read_optimized})"
