"""Random histories of real Hudi tables: after any actions in any order, a plan holds every row that Spark reads.

After a refresh the plans are those of an index built from scratch. Short in `make test`; `make fuzz` and `make soak`
run more and longer histories (`PRUNER_FUZZ_N`). A failure prints the history and the command that repeats it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.soundness.hudi.test_hudi_incremental import Checked
from tests.support.hudi.actions import LiveTable
from tests.support.hudi.timeline import completed
from tests.support.running import profiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.hudi.writer import TableType, TableVersion

pytestmark = pytest.mark.spark

STEPS = 8
USUAL_HISTORIES = 3
FUZZ_EXAMPLES_A_HISTORY = 100
"""Histories take seconds where examples of other properties take milliseconds: fuzzing runs fewer of them."""


VERSIONS: st.SearchStrategy[TableVersion] = st.sampled_from((6, 8, 9))
KINDS: st.SearchStrategy[TableType] = st.sampled_from(("MERGE_ON_READ", "COPY_ON_WRITE"))


def histories() -> int:
    """Return how many histories this run tries."""
    return max(USUAL_HISTORIES, profiles.examples(USUAL_HISTORIES) // FUZZ_EXAMPLES_A_HISTORY)


class Histories(RuleBasedStateMachine):
    """One table with one index, changed by rules; checked after each. A subclass sets the folder and the session."""

    spark: SparkSession
    scratch: Path
    numbers: Iterator[int]

    @initialize(version=VERSIONS, kind=KINDS, using=st.sampled_from(("column_stats", "bitmap")))
    def make(self, version: TableVersion, kind: TableType, using: str) -> None:
        root = self.scratch / f"h{next(self.numbers)}"
        root.mkdir()
        self.live = LiveTable(self.spark, root / "table", version, kind)
        self.live.insert(6)
        self.checked = Checked(
            self.live, root / "index", lambda: self.scratch / f"fresh{next(self.numbers)}", using
        )
        self.checked.create_index()
        self.checked.plans_are_sound("the first insert")

    def _after(self, what: str) -> None:
        self.checked.plans_are_sound(what)

    @rule()
    def insert(self) -> None:
        self.live.insert(3)
        self._after("insert")

    @precondition(lambda self: self.live.ids)
    @rule(number=st.integers(0, 99), most=st.integers(1, 3))
    def upsert(self, number: int, most: int) -> None:
        self.live.upsert(self.live.some_ids(random.Random(number), most))
        self._after("upsert")

    @precondition(lambda self: len(self.live.ids) > 2)
    @rule(number=st.integers(0, 99))
    def delete(self, number: int) -> None:
        self.live.delete(self.live.some_ids(random.Random(number), 1))
        self._after("delete")

    @precondition(lambda self: self.live.ids and self.live.merge_on_read)
    @rule(planned=st.booleans())
    def compact(self, planned: bool) -> None:
        if planned:
            self.live.plan_compaction()
        else:
            self.live.compact()
        self._after("compact")

    @precondition(lambda self: not self.live.is_waiting)
    @rule()
    def cluster(self) -> None:
        self.live.cluster()
        self._after("cluster")

    @precondition(lambda self: self.live.ids)
    @rule()
    def clean(self) -> None:
        self.live.clean()
        self._after("clean")

    @precondition(lambda self: len(self.live.ids) > 1 and not self.live.is_waiting)
    @rule(again=st.booleans())
    def roll_back(self, again: bool) -> None:
        self.live.die()
        self._after("a writer's death")
        if again:
            self.live.upsert(self.live.ids[1:2])
            self._after("rollback")

    @precondition(lambda self: self.live.ids and not self.live.is_waiting)
    @rule(
        service=st.sampled_from(("log_compact", "restore", "insert_overwrite", "drop_partition")),
    )
    def serve(self, service: str) -> None:
        if service != "log_compact" or self.live.merge_on_read:
            getattr(self.live, service)()
            self._after(service)

    @rule(version=VERSIONS)
    def make_table_anew(self, version: TableVersion) -> None:
        """The table keeps its identity (name, type and key), so the index continues; all slices are new."""
        self.live.make_anew(version)
        self._after("a table made anew")

    @rule()
    def read_base_files_alone(self) -> None:
        self.checked.plans_are_sound("read_optimized", read_optimized=True)

    @rule()
    def refresh(self) -> None:
        if self.checked.table.indexes():
            self.checked.refresh_reads_only_what_is_new("refresh")
        self._after("refresh")

    @rule()
    def drop_index(self) -> None:
        self.checked.table.drop_index("stats", if_exists=True)
        self._after("drop index")

    @rule()
    def create_index(self) -> None:
        self.checked.create_index()
        self._after("create index")

    @rule(number=st.integers(0, 99))
    def travel(self, number: int) -> None:
        instants = completed(self.live.path, "commit", "deltacommit", "replacecommit")
        chosen = instants[-1 - number % min(3, len(instants))].requested
        if not completed(self.live.path, "clean"):
            self.checked.plans_are_sound("time travel", as_of=chosen)


def test_no_history_loses_a_row(spark: SparkSession, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    made = type("TheseHistories", (Histories,), {"spark": spark, "scratch": tmp_path, "numbers": count()})
    chosen = seed(int(pytestconfig.option.hypothesis_seed))(made)
    run_state_machine_as_test(
        chosen,
        settings=settings(
            max_examples=histories(),
            stateful_step_count=STEPS if profiles.NAME == "default" else 2 * STEPS,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
