"""Which worker runs which tests: those with Trino go to one; those with Spark to one, until others have nothing else.

Each engine is a Java machine, and to start one more costs more than it saves. But the tests of Spark are more than half
of all: who has run the others would wait for them, and takes files of them as well then, with a Spark of its own.

`--dist loadgroup` was made for this, but xdist 3.8 marks groups in node ids, which pytest 9.2 no longer lets it change.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).parents[3]
MARKS = ("spark", "trino")

LONGEST = (
    # With an empty cache, what other tests of Spark read is built here.
    "tests/engines/delta/test_delta_states.py",
    "tests/soundness/hudi/test_hudi_incremental.py",
    "tests/engines/delta/test_spark_delta.py",
    "tests/engines/hudi/test_spark_hudi.py",
    "tests/engines/hudi/tables/test_hudi_pending.py",
    "tests/engines/iceberg/test_iceberg_spark.py",
    "tests/engines/spark/scans/test_spark_changes.py",
    "tests/engines/spark/scans/test_spark_statements.py",
    "tests/engines/rest_catalog/test_rest_catalog_statements.py",
    "tests/engines/spark/conditions/test_functions_spark.py",
    "tests/engines/rest_catalog/test_rest_catalog_iceberg.py",
    "tests/engines/hudi/test_duckdb_statements_hudi.py",
    "tests/engines/spark/scans/test_spark_answers.py",
    "tests/faults/test_faults.py",
    "tests/engines/delta/test_duckdb_delta_rows.py",
    "tests/crash/test_faults_on_the_way.py",
    "tests/engines/hudi/test_spark_meta_columns.py",
    "tests/soundness/indexes/test_bitmaps.py",
    "tests/engines/hudi/test_duckdb_merged.py",
    "tests/engines/iceberg/test_spark_iceberg.py",
    "tests/engines/spark/building/test_spark_build.py",
    "tests/engines/hudi/tables/test_hudi_metadata_scans.py",
    "tests/crash/test_builds.py",
    "tests/engines/spark/scans/test_spark_partitions.py",
    "tests/engines/spark/scans/test_spark_merging.py",
    "tests/protocol/test_model.py",
    "tests/engines/hudi/test_hudi_keys.py",
    "tests/soundness/spark/test_spark_types.py",
    "tests/engines/iceberg/test_trino_iceberg_spark.py",
    "tests/unit/advice/test_advisor.py",
    "tests/engines/spark/conditions/test_spark_catalyst.py",
    "tests/engines/duckdb/statements/test_duckdb_from_metadata.py",
    "tests/crash/test_killed_commands.py",
    "tests/soundness/test_function_predicates.py",
    "tests/engines/duckdb/random/test_duckdb_random.py",
    "tests/engines/iceberg/test_duckdb_iceberg.py",
    "tests/engines/duckdb/conditions/test_functions_duckdb.py",
    "tests/crash/test_interrupted.py",
    "tests/engines/stores/test_store_duckdb.py",
    "tests/engines/delta/test_spark_delta_random.py",
    "tests/soundness/spark/test_answers_spark.py",
    "tests/protocol/test_schedules.py",
    "tests/soundness/hudi/test_hudi_machine.py",
    "tests/engines/iceberg/test_iceberg_imported.py",
    "tests/engines/spark/conditions/test_spark_wall_clocks.py",
    "tests/engines/test_head_to_head.py",
    "tests/engines/duckdb/files/test_duckdb_changes.py",
    "tests/engines/duckdb/random/test_duckdb_sqlancer.py",
    "tests/engines/iceberg/test_iceberg_procedures.py",
    "tests/engines/spark/conditions/test_spark_ranges.py",
    "tests/engines/hudi/test_spark_unread_tables.py",
)
"""What takes more than half a minute, longest first. xdist hands out files by their number of tests, so those that hold
one test of two minutes would come last, and the other worker would wait for them.
"""


class OneWorkerForEachEngine(LoadScopeScheduling):
    """Hands out whole files, the longest first; those of Trino count as one, those of Spark are one worker's first."""

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        super().__init__(config, log)  # pyright: ignore[reportArgumentType]
        self._spark: WorkerController | None = None

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid.split("::", 1)[0])

    def _assign_work_unit(self, node: WorkerController) -> None:
        scope = next_scope(self.workqueue, has_spark=node is self._spark, is_taken=self._spark in self.nodes)
        if self._spark not in self.nodes and is_of_spark(scope):
            self._spark = node
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


def next_scope(queue: Iterable[str], *, has_spark: bool, is_taken: bool) -> str:
    """Return which of the waiting scopes a worker gets: it `has_spark`, or that `is_taken` by another, or neither.

    Files of Spark that need Trino as well are for the other worker, which has a Trino, should it come to them.
    """
    wants_spark = has_spark or not is_taken

    def rank(scope: str) -> tuple[bool, bool, bool, int]:
        place = LONGEST.index(scope) if scope in LONGEST else len(LONGEST)
        return is_of_spark(scope) != wants_spark, scope != "trino", names_trino(scope) == wants_spark, place

    return min(queue, key=rank)


def is_of_spark(scope: str) -> bool:
    """Whether a scope is a file of Spark's tests."""
    return scope != "trino" and engine_of(scope) == "spark"


def names_trino(scope: str) -> bool:
    """Whether tests of a scope need Trino."""
    return scope == "trino" or "trino" in engines_of(scope)


def scope_of(file: str) -> str:
    """Return what a file, relative to the root, is handed out with."""
    return "trino" if engine_of(file) == "trino" else file


def engine_of(file: str) -> str | None:
    """Return the mark of the engine whose tests a file, relative to the root, holds; Spark's where it has both."""
    return next(iter(engines_of(file)), None)


@cache
def engines_of(file: str) -> tuple[str, ...]:
    """Return the marks of engines that a file names."""
    text = (ROOT / file).read_text()
    return tuple(mark for mark in MARKS if f"pytest.mark.{mark}" in text)
