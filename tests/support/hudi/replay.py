"""Puts a real Hudi table back to the states that it went through, without Spark: as it stood after each commit.

What a later commit wrote is hidden with its instant. What a later cleaner deleted cannot come back.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pruner.tables.hudi.timeline import read_commit
from tests.support.hudi.timeline import Instant, completed, timeline

WRITES = ("commit", "deltacommit", "replacecommit")


class Replay:
    """One table at `path`, which `at` puts into the state after its first commits."""

    def __init__(self, original: Path, folder: Path) -> None:
        self._original = original
        self.path = folder / original.name
        self.instants: list[Instant] = sorted(
            completed(original), key=lambda each: each.completed or each.requested
        )

    def at(self, count: int) -> Path:
        """Show the table as it stood after its first `count` completed instants."""
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(self._original, self.path)
        shutil.rmtree(self.path / ".hoodie" / "metadata", ignore_errors=True)  # it knows the later files
        later = self.instants[count:]
        for instant in later:
            for path in _written(instant):
                (self.path / path).unlink(missing_ok=True)
        hidden = {instant.requested for instant in later}
        for each in timeline(self.path):
            if each.requested in hidden:
                each.file.unlink()
        return self.path


def _written(instant: Instant) -> list[str]:
    if instant.action not in WRITES:
        return []
    commit = read_commit(instant.file.read_bytes())
    stats = [stat for each in (commit.partition_to_write_stats or {}).values() for stat in each]
    return [stat.path for stat in stats if stat.path]
