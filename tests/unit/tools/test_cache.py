"""Artifacts made once for a machine: processes that need one at the same time wait for the process that makes it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.kept.tables import KeptTables
from tests.support.running.patience import PATIENCE

NO_SPARK: Any = None


def test_a_table_that_two_want_at_once_is_built_once(tmp_path: Path) -> None:
    started, go_on = threading.Event(), threading.Event()
    built: list[str] = []

    def build(_: Any, path: Path) -> None:
        started.set()
        assert go_on.wait(PATIENCE)
        built.append(path.name)
        path.mkdir()

    tables = KeptTables(lambda: NO_SPARK, tmp_path / "kept", {"t": build})
    found: list[Path] = []
    both = [threading.Thread(target=lambda: found.append(tables.path("t"))) for _ in range(2)]
    both[0].start()
    assert started.wait(PATIENCE)
    both[1].start()
    both[1].join(0.2)
    assert both[1].is_alive()
    go_on.set()
    for each in both:
        each.join(PATIENCE)
    assert found == [tmp_path / "kept" / "t" / "t"] * 2
    assert built == ["t"]


def test_a_table_whose_building_failed_is_built_by_the_next(tmp_path: Path) -> None:
    failures = iter([OSError("disk full")])

    def build(_: Any, path: Path) -> None:
        for each in failures:
            raise each
        path.mkdir()

    tables = KeptTables(lambda: NO_SPARK, tmp_path / "kept", {"t": build})
    with pytest.raises(OSError, match="disk full"):
        tables.path("t")
    assert tables.path("t").is_dir()
