"""Which worker runs which tests: all files with Spark tests go to one, so that one Java machine starts.

`--dist loadgroup` was made for this, but xdist 3.8 marks groups in node ids, which pytest 9.2 no longer lets it change.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parent.parent.parent


class SparkInOneWorker(LoadScopeScheduling):
    """Hands out whole files; those that name the mark `spark` count as one."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return "spark" if needs_spark(file) else file


@cache
def needs_spark(file: str) -> bool:
    """Tell whether a test file, relative to the root, holds Spark tests."""
    return "pytest.mark.spark" in (ROOT / file).read_text()
