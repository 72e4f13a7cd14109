"""Followed commits against full listings: from any state of a real table to any later one."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pruner.tables.hudi.source import HudiSource
from tests.support.hudi.replay import Replay
from tests.support.hudi.tables import table_names
from tests.support.kept.tables import KeptTables
from tests.support.snapshots import assert_same

pytestmark = pytest.mark.spark


@pytest.fixture
def reasons(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Why tables were listed in full since the last call."""
    caplog.set_level(logging.DEBUG, "pruner")

    def since() -> list[str]:
        found = [record.getMessage().partition(" is listed in full: ")[2] for record in caplog.records]
        caplog.clear()
        return [reason for reason in found if reason]

    return since


@pytest.mark.parametrize("name", table_names())
def test_following_any_commits_comes_to_what_a_listing_shows(
    name: str,
    hudi_tables: KeptTables,
    tmp_path: Path,
    reasons: Callable[[], list[str]],
    record_property: Callable[[str, object], None],
) -> None:
    replay = Replay(hudi_tables.path(name), tmp_path)
    count = len(replay.instants)
    outcomes: Counter[str] = Counter()
    for start in range(1, count):
        for end in range(start + 1, count + 1):
            source = HudiSource(str(replay.at(start)))
            source.snapshot()
            replay.at(end)
            followed = source.snapshot()
            outcomes.update(reasons() or ["followed"])
            assert_same(followed, HudiSource(str(replay.path)).snapshot())
    if outcomes:
        record_property("figure", f"{name}: {dict(outcomes)}")
