"""Which worker runs which tests: those with Spark go to one, those with Trino to one; one Java machine of each starts.

`--dist loadgroup` was made for this, but xdist 3.8 marks groups in node ids, which pytest 9.2 no longer lets it change.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parent.parent.parent


MARKS = ("spark", "trino")


class OneWorkerForEachEngine(LoadScopeScheduling):
    """Hands out whole files; those that name the same mark of an engine count as one."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return engine_of(file) or file


@cache
def engine_of(file: str) -> str | None:
    """Return the mark of the engine whose tests a file, relative to the root, holds."""
    text = (ROOT / file).read_text()
    return next((mark for mark in MARKS if f"pytest.mark.{mark}" in text), None)
