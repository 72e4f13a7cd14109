"""Which worker runs which tests: those with Trino go to one, those with Spark to one but for a last part.

Each engine is a Java machine, and to start one more costs more than it saves. But the tests of Spark alone are half of
all: who has run the others would wait for them, and takes the last part of them instead, with a Spark of its own.

`--dist loadgroup` was made for this, but xdist 3.8 marks groups in node ids, which pytest 9.2 no longer lets it change.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).parent.parent.parent
MARKS = ("spark", "trino")

LAST = "the last of spark"
LAST_OF_SPARK = ("tests/known_wrong/", "tests/soundness/", "tests/unit/")
"""Where the tests are with which Spark's part ends: a quarter of its time."""

LONGEST = (
    *MARKS,
    "tests/soundness/test_bitmaps.py",
    "tests/engines/test_duckdb_random.py",
    "tests/soundness/test_parquet_tables.py",
    "tests/soundness/test_blooms.py",
    "tests/soundness/test_expressions.py",
    "tests/engines/test_duckdb_sqlancer.py",
    "tests/crash/test_builds.py",
)
"""What takes longest, longest first. xdist hands out files by their number of tests, so those that hold one test of two
minutes would come last, and the other worker would wait for them.
"""


class OneWorkerForEachEngine(LoadScopeScheduling):
    """Hands out whole files, the longest first; those that name the same mark of an engine count as one."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid.split("::", 1)[0])

    def _assign_work_unit(self, node: WorkerController) -> None:
        longest = next((scope for scope in LONGEST if scope in self.workqueue), None)
        if longest is not None:
            self.workqueue.move_to_end(longest, last=False)
        elif LAST in self.workqueue:
            self.workqueue.move_to_end(LAST)
        super()._assign_work_unit(node)


def scope_of(file: str) -> str:
    """Return what a file, relative to the root, is handed out with."""
    engine = engine_of(file)
    if engine == "spark" and file.startswith(LAST_OF_SPARK):
        return LAST
    return engine or file


@cache
def engine_of(file: str) -> str | None:
    """Return the mark of the engine whose tests a file, relative to the root, holds."""
    text = (ROOT / file).read_text()
    return next((mark for mark in MARKS if f"pytest.mark.{mark}" in text), None)
